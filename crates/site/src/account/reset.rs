//! A forgotten password: a link by mail, or from the operator, and the new one.
//!
//! Whether there is an account cannot be told from the answer, nor from how long it takes: what is done about it is done
//! after the answer has left.

use super::link::{self, Link};
use super::{judge_email, patience};
use crate::field::Field;
use crate::guard::form::Form;
use crate::guard::hasher::Line;
use crate::guard::password;
use crate::guard::session::{self, Guest};
use crate::guard::throttle::Subject;
use crate::mail::Letter;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::told::{Told, link_is_over};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_model::Now;
use ipse_store::{AccountId, Activity, Counters, Email, TokenPurpose};
use std::sync::Arc;

#[derive(Template)]
#[template(path = "reset.html")]
struct Reset<'a> {
    page: Page<'a>,
    csrf: &'a str,
    email: Field,
    notice: Option<String>,
    has_mail: bool,
}

#[derive(Template)]
#[template(path = "new_password.html")]
struct NewPassword<'a> {
    page: Page<'a>,
    csrf: &'a str,
    token: &'a str,
    /// Whose it is, so that password managers know.
    email: &'a str,
    password: Field,
}

fn frame<C>(office: &Office<C>) -> Page<'_> {
    let title = "Set a new password";
    Page::public(&office.links, Here::SignIn, title, "Set a new password for your account.")
}

fn form<C>(
    office: &Office<C>,
    guest: &Guest,
    private: Private,
    email: Field,
    notice: Option<String>,
) -> Result<Reply, Trouble> {
    let has_mail = office.post.is_some();
    let template = Reset { page: frame(office), csrf: &guest.csrf, email, notice, has_mail };
    reply::private(private.with_cookies(&guest.cookie), &template)
}

/// The form; or, where there is no mail, who else helps.
pub(crate) fn show<C>(office: &Office<C>, guest: &Guest) -> Result<Reply, Trouble> {
    form(office, guest, Private::OK, Field::email("email", "E-mail address"), None)
}

/// The address that was typed into it.
pub(crate) fn send<C: Counters>(
    office: &Arc<Office<C>>,
    visit: &Visit,
    guest: &Guest,
    sent: &Form,
) -> Result<Reply, Trouble> {
    if office.post.is_none() {
        return show(office, guest);
    }
    let typed = sent.text("email");
    let field = Field::email("email", "E-mail address").typed(typed);
    let email = match judge_email(typed) {
        Ok(email) => email,
        Err(wrong) => return form(office, guest, Private::UNFIT, field.wrong(Some(wrong)), None),
    };
    let subjects = [Subject::Mail(email.as_str()), Subject::source(visit.client.address)];
    if let Err(wait) = office.throttle.admit(&subjects, visit.now) {
        return form(office, guest, Private::wait(wait.seconds), field, Some(patience(wait)));
    }
    let (office_later, now) = (Arc::clone(office), visit.now);
    tokio::spawn(async move {
        if let Err(error) = send_link(&office_later, &email, now).await {
            tracing::error!(%error, "a link for a new password could not be made");
        }
    });
    let page = Page { title: "Look into your inbox", ..frame(office) };
    let lead = "If there is an account with this address, a letter is on its way to it, with a link to set a new password.";
    let details = "The link works once, for 20 minutes. If nothing comes, look into the folder for unwanted mail, and whether \
                   you signed up with another address.";
    Told { page, lead, details, link: None }.reply(Private::OK)
}

async fn send_link<C>(office: &Office<C>, email: &Email, now: Now) -> Result<(), Trouble> {
    let (Some(post), Some(login)) = (&office.post, office.records.login(email).await?) else { return Ok(()) };
    let (purpose, account) = (TokenPurpose::Reset, Some(login.id));
    let token = link::make(office, Link { purpose, account, email: None, password: None }, now).await?;
    office.records.note_activity(login.id, Activity::ResetAsked, None, None, now).await?;
    post.send(Letter::reset(&office.links, &login.email, &token));
    Ok(())
}

/// Whose link it is, if it is still good.
async fn owner<C>(
    office: &Office<C>,
    visit: &Visit,
    token: &str,
) -> Result<Option<(AccountId, String)>, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::Reset).await?;
    let Some(account) = found.and_then(|token| token.account) else { return Ok(None) };
    Ok(office.records.profile(account).await?.map(|profile| (account, profile.email)))
}

/// The form behind the link.
pub(crate) async fn show_new<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    token: &str,
) -> Result<Reply, Trouble> {
    let Some((_, email)) = owner(office, visit, token).await? else { return link_is_over(&office.links) };
    new_form(office, guest, Private::OK, token, &email, None)
}

fn new_form<C>(
    office: &Office<C>,
    guest: &Guest,
    private: Private,
    token: &str,
    email: &str,
    wrong: Option<String>,
) -> Result<Reply, Trouble> {
    let password = Field::new_password("new-password", "New password").wrong(wrong);
    let template = NewPassword { page: frame(office), csrf: &guest.csrf, token, email, password };
    reply::private(private.with_cookies(&guest.cookie), &template)
}

/// The new password. Whoever was signed in with the old one is not any more.
pub(crate) async fn send_new<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    token: &str,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let Some((account, email)) = owner(office, visit, token).await? else {
        return link_is_over(&office.links);
    };
    let new = sent.exact("new_password");
    if let Err(unfit) = password::judge(new, &email) {
        return new_form(office, guest, Private::UNFIT, token, &email, Some(unfit.to_string()));
    }
    let hash = office.hasher.hash(new, Line::Owners).await?;
    if link::take(office, visit, token, TokenPurpose::Reset).await?.is_none() {
        return link_is_over(&office.links);
    }
    office.records.set_password(account, &hash, None, visit.now).await?;
    office.records.note_activity(account, Activity::PasswordReset, None, None, visit.now).await?;
    office.throttle.forgive(Subject::Account(&email));
    if let Some(post) = &office.post {
        post.send(Letter::changed(
            &office.links,
            &email,
            "A new password was set for your account, by a link.",
        ));
    }
    // Whoever had the link is the owner, and need not stand in line with those who guess meanwhile.
    let device = session::device_cookie(office.cookies, &hash)?;
    Ok(reply::see_other("/signin?reset", &[device]))
}
