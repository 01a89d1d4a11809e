//! Signing up. Without mail it works at once; with mail the account begins when the link in a letter is opened, and nobody
//! learns from the form who has an account here.

use super::link::{self, Link};
use super::{judge_email, patience};
use crate::field::Field;
use crate::guard::form::Form;
use crate::guard::hasher::Line;
use crate::guard::password;
use crate::guard::session::{self, Guest};
use crate::guard::throttle::{Subject, Wait};
use crate::mail::Letter;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::told::{Told, link_is_over};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_store::{Activity, Email, Proof, TokenPurpose};

#[derive(Template)]
#[template(path = "sign_up.html")]
struct SignUp<'a> {
    page: Page<'a>,
    csrf: &'a str,
    email: Field,
    password: Field,
    /// What is to be said above the form.
    notice: Option<String>,
    is_open: bool,
    is_secret: bool,
}

#[derive(Template)]
#[template(path = "verify.html")]
struct Verify<'a> {
    page: Page<'a>,
    csrf: &'a str,
    token: &'a str,
    email: &'a str,
    password: Field,
}

fn frame<C>(office: &Office<C>) -> Page<'_> {
    let description =
        "Make an account and an API key within a minute: an e-mail address, a password, and the first call.";
    Page::public(&office.links, Here::Signup, "Get a key", description)
}

fn fields(typed: &str, email: Option<String>, password: Option<String>) -> (Field, Field) {
    (
        Field::email("email", "E-mail address").typed(typed).wrong(email),
        Field { name: "password", ..Field::new_password("password", "Password") }.wrong(password),
    )
}

fn form<C>(
    office: &Office<C>,
    guest: &Guest,
    private: Private,
    (email, password): (Field, Field),
    notice: Option<String>,
) -> Result<Reply, Trouble> {
    let (page, is_open, is_secret) = (frame(office), office.sign_up_is_open, office.cookies.are_secure());
    let template = SignUp { page, csrf: &guest.csrf, email, password, notice, is_open, is_secret };
    reply::private(private.with_cookies(&guest.cookie), &template)
}

/// The form.
pub(crate) fn show<C>(office: &Office<C>, guest: &Guest) -> Result<Reply, Trouble> {
    form(office, guest, Private::OK, fields("", None, None), None)
}

/// What was typed into it.
pub(crate) async fn send<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    sent: &Form,
) -> Result<Reply, Trouble> {
    if !office.sign_up_is_open {
        return show(office, guest);
    }
    let (typed, new) = (sent.text("email"), sent.exact("password"));
    let (email, judged) = match (judge_email(typed), password::judge(new, typed)) {
        (Ok(email), Ok(())) => (email, ()),
        (email, judged) => {
            let fields = fields(typed, email.err(), judged.err().map(|unfit| unfit.to_string()));
            return form(office, guest, Private::UNFIT, fields, None);
        }
    };
    let () = judged;
    let source = Subject::sign_ups(visit.client.address);
    let subjects = [source, Subject::Mail(email.as_str())];
    // Letters to one address are counted as well, so that nobody's mailbox is filled by others.
    let counted = if office.post.is_some() { &subjects[..] } else { &subjects[..1] };
    if let Err(wait) = office.throttle.admit(counted, visit.now) {
        return too_often(office, guest, typed, wait);
    }
    let hash = office.hasher.hash(new, Line::Strangers).await?;
    if let Some(post) = &office.post {
        let letter = letter_for(office, &email, &hash, visit).await?;
        post.send(letter);
        return look_into_inbox(office);
    }
    let Some(account) = office.records.sign_up(&email, &hash, false, visit.now).await? else {
        let taken = "There is an account with this address already. Sign in instead, or set a new password.";
        let fields = fields(typed, Some(taken.to_owned()), None);
        return form(office, guest, Private::UNFIT, fields, None);
    };
    office.records.note_activity(account, Activity::SignedUp, None, None, visit.now).await?;
    let proof = Proof { account, password: Some(&hash), totp_secret: None };
    let cookies = session::welcome(office, visit, &proof).await?.unwrap_or_default();
    Ok(reply::see_other("/dashboard", &cookies))
}

/// Whoever has an account gets another letter than who has none; what is done for either takes as long.
async fn letter_for<C>(
    office: &Office<C>,
    email: &Email,
    hash: &str,
    visit: &Visit,
) -> Result<Letter, Trouble> {
    let purpose = TokenPurpose::SignUp;
    let link = Link { purpose, account: None, email: Some(email), password: Some(hash) };
    let token = link::make(office, link, visit.now).await?;
    Ok(match office.records.login(email).await? {
        None => Letter::sign_up(&office.links, email.as_str(), &token),
        Some(_) => Letter::signed_up_already(&office.links, email.as_str()),
    })
}

fn too_often<C>(office: &Office<C>, guest: &Guest, typed: &str, wait: Wait) -> Result<Reply, Trouble> {
    form(office, guest, Private::wait(wait.seconds), fields(typed, None, None), Some(patience(wait)))
}

fn look_into_inbox<C>(office: &Office<C>) -> Result<Reply, Trouble> {
    let page = Page { title: "Look into your inbox", ..frame(office) };
    let lead =
        "A letter is on its way to the address that you typed. Open the link in it to finish signing up.";
    let details = "The link works once, for 20 minutes. If nothing comes, look into the folder for unwanted mail, or sign \
                   up again.";
    Told { page, lead, details, link: None }.reply(Private::OK)
}

/// The page behind the link of a letter. Only its button does something, because programs that look for malware open links;
/// and it wants the password that the account is to begin with, or somebody could sign up with the address of another and
/// wait for them to confirm it.
pub(crate) async fn show_verify<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    token: &str,
) -> Result<Reply, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::SignUp).await?;
    let Some(email) = found.and_then(|found| found.email) else { return link_is_over(&office.links) };
    verify_form(office, guest, Private::OK, token, &email, None)
}

fn verify_form<C>(
    office: &Office<C>,
    guest: &Guest,
    private: Private,
    token: &str,
    email: &Email,
    wrong: Option<String>,
) -> Result<Reply, Trouble> {
    let page = Page { title: "Finish signing up", ..frame(office) };
    let password = Field::password("password", "The password that you chose").wrong(wrong);
    let template = Verify { page, csrf: &guest.csrf, token, email: email.as_str(), password };
    reply::private(private.with_cookies(&guest.cookie), &template)
}

/// Its button: the account begins.
pub(crate) async fn verify<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    token: &str,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let found = link::look_at(office, visit, token, TokenPurpose::SignUp).await?;
    let found = found.and_then(|token| Some((token.email?, token.password?)));
    let Some((email, hash)) = found else { return link_is_over(&office.links) };
    let subject = Subject::Account(email.as_str());
    if let Err(wait) = office.throttle.admit(&[subject], visit.now) {
        let (private, wrong) = (Private::wait(wait.seconds), patience(wait));
        return verify_form(office, guest, private, token, &email, Some(wrong));
    }
    if !office.hasher.verify(sent.exact("password"), Some(&hash), Line::Owners).await? {
        let wrong = "This is not the password that you typed when you signed up.".to_owned();
        return verify_form(office, guest, Private::UNFIT, token, &email, Some(wrong));
    }
    office.throttle.forgive(subject);
    if link::take(office, visit, token, TokenPurpose::SignUp).await?.is_none() {
        return link_is_over(&office.links);
    }
    let Some(account) = office.records.sign_up(&email, &hash, true, visit.now).await? else {
        let page = Page { title: "You have an account already", ..frame(office) };
        let lead = "There is an account with this address by now. Sign in to it.";
        let link = Some(("/signin", "Sign in"));
        return Told { page, lead, details: "", link }.reply(Private::UNFIT);
    };
    office.records.note_activity(account, Activity::SignedUp, None, None, visit.now).await?;
    let proof = Proof { account, password: Some(&hash), totp_secret: None };
    let cookies = session::welcome(office, visit, &proof).await?.unwrap_or_default();
    Ok(reply::see_other("/dashboard", &cookies))
}
