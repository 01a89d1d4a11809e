//! Another address for an account. Where there is mail, the new one has to be confirmed first.

use super::link::{self, Link};
use super::settings::{self, Section, is_own_password};
use super::{judge_email, patience};
use crate::guard::form::Form;
use crate::guard::session::{Guest, Member};
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
    csrf: &'a str,
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
    post.send(Letter::confirm_email(&office.links, email.as_str(), &token));
    Ok(reply::see_other("/account?done=email-sent", &[]))
}

/// The page behind the link of the letter; only its button does something.
pub(crate) async fn show_confirm<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    token: &str,
) -> Result<Reply, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::Email).await?;
    let Some(email) = found.and_then(|found| found.email) else { return link_is_over(&office.links) };
    let template = Confirm { page: frame(office), csrf: &guest.csrf, token, email: email.to_string() };
    reply::private(Private::OK.with_cookies(&guest.cookie), &template)
}

/// The button: the account has a new address.
pub(crate) async fn confirm<C>(office: &Office<C>, visit: &Visit, token: &str) -> Result<Reply, Trouble> {
    let taken = link::take(office, visit, token, TokenPurpose::Email).await?;
    let found = taken.and_then(|token| Some((token.account?, token.email?)));
    let Some((account, email)) = found else { return link_is_over(&office.links) };
    let before = office.records.profile(account).await?.map(|profile| profile.email);
    if !office.records.set_email(account, &email, true, visit.now).await? {
        let page = Page { title: "Nothing was changed", ..frame(office) };
        let link = Some(("/account", "Your account"));
        return Told { page, lead: TAKEN, details: "", link }.reply(Private::UNFIT);
    }
    office.records.note_activity(account, Activity::EmailChanged, None, None, visit.now).await?;
    if let (Some(post), Some(before)) = (&office.post, before) {
        post.send(Letter::changed(&office.links, &before, "Your account has another e-mail address now."));
    }
    Ok(reply::see_other("/account?done=email", &[]))
}

fn frame<C>(office: &Office<C>) -> Page<'_> {
    let title = "Confirm your new address";
    Page::public(&office.links, Here::Elsewhere, title, "Confirm the new e-mail address of your account.")
}
