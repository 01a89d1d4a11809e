//! Another address for an account. Where there is mail, the new one has to be confirmed first.

use super::link::{self, Link};
use super::settings::{self, Section, is_own_password};
use super::{judge_email, patience};
use crate::guard::form::Form;
use crate::guard::session::Member;
use crate::guard::throttle::Subject;
use crate::mail::Letter;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::told::{Told, link_is_over};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_store::{Activity, TokenPurpose};

#[derive(Template)]
#[template(path = "confirm_email.html")]
struct Confirm<'a> {
    page: Page<'a>,
    member: &'a Member,
    token: &'a str,
    email: String,
}

const TAKEN: &str = "This address belongs to another account.";

/// The new address, as it was typed into the account's page.
pub(crate) async fn send<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let typed = sent.text("email");
    let email = match judge_email(typed) {
        Ok(email) if email.as_str() == member.email => {
            let wrong = "This is your address already.".to_owned();
            return settings::wrong(office, visit, member, Section::Email, "email", wrong, typed).await;
        }
        Ok(email) => email,
        Err(wrong) => {
            return settings::wrong(office, visit, member, Section::Email, "email", wrong, typed).await;
        }
    };
    if let Err(wrong) = is_own_password(office, visit, member, sent.exact("password")).await? {
        return settings::wrong(office, visit, member, Section::Email, "password", wrong, typed).await;
    }
    let Some(post) = &office.post else {
        if !office.records.set_email(member.account, &email, false, visit.now).await? {
            return settings::wrong(office, visit, member, Section::Email, "email", TAKEN.to_owned(), typed)
                .await;
        }
        office.records.note_activity(member.account, Activity::EmailChanged, None, None, visit.now).await?;
        return Ok(reply::see_other("/account?done=email", &[]));
    };
    if let Err(wait) = office.throttle.admit(&[Subject::Mail(email.as_str())], visit.now) {
        return settings::wrong(office, visit, member, Section::Email, "email", patience(wait), typed).await;
    }
    let purpose = TokenPurpose::Email;
    let link = Link { purpose, account: Some(member.account), email: Some(&email), password: None };
    let token = link::make(office, link, visit.now).await?;
    office.records.note_activity(member.account, Activity::EmailChangeAsked, None, None, visit.now).await?;
    // While the old address is still the account's, its owner can do something about it.
    let what = "Somebody who is signed in to your account asked for another e-mail address for it. Nothing is changed until \
                the link that went to that address is opened.";
    post.send(Letter::changed(&office.links, &member.email, what));
    post.send(Letter::confirm_email(&office.links, email.as_str(), &token));
    Ok(reply::see_other("/account?done=email-sent", &[]))
}

/// The page behind the link of the letter; only its button does something. It is for whoever asked for it: somebody to whom
/// the letter went by mistake can do nothing with it.
pub(crate) async fn show_confirm<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    token: &str,
) -> Result<Reply, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::Email).await?;
    let found = found.filter(|found| found.account == Some(member.account));
    let Some(email) = found.and_then(|found| found.email) else { return link_is_over(&office.links) };
    let template = Confirm { page: frame(office, member), member, token, email: email.to_string() };
    reply::private(Private::OK, &template)
}

/// The button: the account has a new address.
pub(crate) async fn confirm<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    token: &str,
) -> Result<Reply, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::Email).await?;
    if found.is_none_or(|found| found.account != Some(member.account)) {
        return link_is_over(&office.links);
    }
    let taken = link::take(office, visit, token, TokenPurpose::Email).await?;
    let Some(email) = taken.and_then(|token| token.email) else { return link_is_over(&office.links) };
    if !office.records.set_email(member.account, &email, true, visit.now).await? {
        let page = Page { title: "Nothing was changed", ..frame(office, member) };
        let link = Some(("/account", "Your account"));
        return Told { page, lead: TAKEN, details: "", link }.reply(Private::UNFIT);
    }
    office.records.note_activity(member.account, Activity::EmailChanged, None, None, visit.now).await?;
    if let Some(post) = &office.post {
        post.send(Letter::email_changed(&office.links, &member.email));
    }
    Ok(reply::see_other("/account?done=email", &[]))
}

fn frame<'a, C>(office: &'a Office<C>, member: &'a Member) -> Page<'a> {
    Page::of(member, &office.links, Here::Account, "Confirm your new address")
}
