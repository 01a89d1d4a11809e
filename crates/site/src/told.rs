//! A page with a sentence or two and the way on: what came of a link, or why a form was not taken.

use crate::office::Trouble;
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use askama::Template;
use ipse_edge::Reply;
use ipse_model::Links;

/// The page.
#[derive(Template)]
#[template(path = "told.html")]
pub(crate) struct Told<'a> {
    pub(crate) page: Page<'a>,
    pub(crate) lead: &'static str,
    /// What else there is to know, or nothing.
    pub(crate) details: &'static str,
    /// Where to go on, and what the button says.
    pub(crate) link: Option<(&'static str, &'static str)>,
}

impl Told<'_> {
    pub(crate) fn reply(&self, private: Private) -> Result<Reply, Trouble> {
        reply::private(private, self)
    }
}

/// Why a form was not looked at.
#[derive(Clone, Copy)]
pub(crate) enum Unread {
    /// It was sent from a page of somebody else.
    Foreign,
    /// It did not bring back the secret that it was given.
    Stale,
    /// It is no form, or did not arrive whole.
    Unreadable,
    TooLarge,
}

/// The page that says so.
pub(crate) fn unread(links: &Links, why: Unread) -> Result<Reply, Trouble> {
    let (private, title, lead, details) = match why {
        Unread::Foreign => (
            Private::FORBIDDEN,
            "Nothing was changed",
            "This request came from a page of another site, so it was not carried out.",
            "If you meant to do this, do it on this site.",
        ),
        Unread::Stale => (
            Private::FORBIDDEN,
            "Please send that again",
            "The form that you sent was opened before you signed in or out, or your browser has not kept its cookie.",
            "Go back, load the page again, and send the form once more. Nothing was changed.",
        ),
        Unread::Unreadable => (
            Private::BAD,
            "That was no form",
            "What arrived could not be read as a form of this site.",
            "Go back and send it again. Nothing was changed.",
        ),
        Unread::TooLarge => (
            Private::TOO_LARGE,
            "That was too much",
            "The form that you sent is larger than any of this site.",
            "Go back and shorten what you typed. Nothing was changed.",
        ),
    };
    let page = Page::public(links, Here::Elsewhere, title, lead);
    Told { page, lead, details, link: Some(("/dashboard", "To the dashboard")) }.reply(private)
}

/// The page for those who sign in together with too many others.
pub(crate) fn busy(links: &Links) -> Result<Reply, Trouble> {
    let lead = "Too many are signing in at this moment. Nothing was changed; try again in a few seconds.";
    let page = Page::public(links, Here::Elsewhere, "Busy for a moment", lead);
    let details = "Lookups with your keys are not affected.";
    Told { page, lead, details, link: None }.reply(Private::BUSY)
}

/// The page for those who come while the records are out of reach.
pub(crate) fn records_are_away(links: &Links) -> Result<Reply, Trouble> {
    let lead =
        "Accounts and keys cannot be reached at the moment, so nothing of them can be shown or changed.";
    let page = Page::public(links, Here::Elsewhere, "Back in a moment", lead);
    let details = "Lookups with your keys go on. Try again in a few seconds.";
    Told { page, lead, details, link: None }.reply(Private::BUSY)
}

/// The page of a link that was used, or is too old, or never was one.
pub(crate) fn link_is_over(links: &Links) -> Result<Reply, Trouble> {
    let lead = "Links in letters work once, and for 20 minutes.";
    let page = Page::public(links, Here::Elsewhere, "This link does not work any more", lead);
    let details = "If you still need it, ask for a new one where you asked for this.";
    Told { page, lead, details, link: Some(("/signin", "Sign in")) }.reply(Private::GONE)
}
