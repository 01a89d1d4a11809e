//! The account's page: everything about it that its owner can change.

use super::patience;
use crate::field::Field;
use crate::guard::cookie::Cookie;
use crate::guard::form::Form;
use crate::guard::hasher::Line;
use crate::guard::password;
use crate::guard::session::{self, Member};
use crate::guard::throttle::Subject;
use crate::mail::Letter;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::utc::{self, Moment};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_store::{Activity, Profile, Session};

#[derive(Template)]
#[template(path = "account.html")]
struct Account<'a> {
    page: Page<'a>,
    member: &'a Member,
    profile: Profile,
    /// The day on which it began.
    since: String,
    sessions: Vec<Row>,
    notice: Option<&'static str>,
    email: [Field; 2],
    password: [Field; 2],
    delete: [Field; 2],
    has_mail: bool,
}

/// One session in the list.
struct Row {
    id: i64,
    device: String,
    created: Moment,
    seen: Moment,
    is_this: bool,
}

/// The parts of the page with fields that can be filled in wrongly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Email,
    Password,
    Delete,
}

/// A sentence beside a field, and what was typed beside it.
struct Wrong<'a> {
    section: Section,
    name: &'static str,
    sentence: String,
    typed: &'a str,
}

/// The page.
pub(crate) async fn show<C>(office: &Office<C>, visit: &Visit, member: &Member) -> Result<Reply, Trouble> {
    let query = visit.request.uri.query().unwrap_or_default();
    let notice = query.split('&').find_map(|part| part.strip_prefix("done=")).and_then(done);
    page(office, visit, member, Private::OK, notice, None).await
}

/// The page with a sentence beside the field that it is about.
pub(super) async fn wrong<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    section: Section,
    name: &'static str,
    sentence: String,
    typed: &str,
) -> Result<Reply, Trouble> {
    page(office, visit, member, Private::UNFIT, None, Some(Wrong { section, name, sentence, typed })).await
}

/// What was done, in words.
fn done(what: &str) -> Option<&'static str> {
    Some(match what {
        "email" => "Your new e-mail address is set.",
        "email-sent" => {
            "A letter is on its way to the new address. Open the link in it to confirm the change."
        }
        "password" => "Your new password is set. Everywhere else you were signed out.",
        "notices" => "Saved.",
        "sessions" => "You are signed out everywhere else.",
        "session" => "That session has ended.",
        "totp-on" => "Two-factor sign-in is on.",
        "totp-off" => "Two-factor sign-in is off.",
        _ => return None,
    })
}

async fn page<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    private: Private,
    notice: Option<&'static str>,
    wrong: Option<Wrong<'_>>,
) -> Result<Reply, Trouble> {
    let Some(profile) = office.records.profile(member.account).await? else {
        return Ok(reply::see_other("/signin", &[]));
    };
    let (seen_after, created_after) = session::ended_before(visit.now);
    let sessions = office.records.sessions(member.account, seen_after, created_after).await?;
    let beside = |section, field: Field| match &wrong {
        Some(wrong) if wrong.section == section => {
            let typed = if field.kind == "password" { "" } else { wrong.typed };
            let sentence = (wrong.name == field.name).then(|| wrong.sentence.clone());
            field.typed(typed).wrong(sentence)
        }
        _ => field,
    };
    let template = Account {
        page: Page::of(member, &office.links, Here::Account, "Your account"),
        member,
        since: utc::long(utc::day_of(profile.created_ms)),
        sessions: sessions.into_iter().map(|session| row(session, member, visit)).collect(),
        notice,
        email: [
            Field { autocomplete: "email", ..Field::email("new-email", "New e-mail address") },
            Field::password("email-password", "Your password"),
        ]
        .map(|field| beside(Section::Email, field)),
        password: [
            Field::password("old-password", "Your password now"),
            Field::new_password("new-password", "New password"),
        ]
        .map(|field| beside(Section::Password, field)),
        delete: [
            Field::text("delete-confirm", "confirm", "Type your e-mail address to confirm"),
            Field::password("delete-password", "Your password"),
        ]
        .map(|field| beside(Section::Delete, field)),
        has_mail: office.post.is_some(),
        profile,
    };
    reply::private(private, &template)
}

fn row(session: Session, member: &Member, visit: &Visit) -> Row {
    let today = visit.now.day();
    Row {
        id: session.id,
        device: session.device,
        created: Moment::new(session.created_ms, today),
        seen: Moment::new(session.seen_ms, today),
        is_this: session.id == member.session_id,
    }
}

/// Whether the password that was typed is the member's own; else what is to be said beside it.
pub(super) async fn is_own_password<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    typed: &str,
) -> Result<Result<(), String>, Trouble> {
    if typed.is_empty() {
        return Ok(Err("Type your password.".to_owned()));
    }
    let subject = Subject::Member(member.account.0);
    if let Err(wait) = office.throttle.admit(&[subject], visit.now) {
        return Ok(Err(patience(wait)));
    }
    let login = office.records.login_of(member.account).await?;
    let hash = login.as_ref().and_then(|login| login.password.as_deref());
    if !office.hasher.verify(typed, hash, Line::Owners).await? {
        return Ok(Err("This is not your password.".to_owned()));
    }
    office.throttle.forgive(subject);
    Ok(Ok(()))
}

/// A new password. All other sessions end.
pub(crate) async fn send_password<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let new = sent.exact("new_password");
    if let Err(unfit) = password::judge(new, &member.email) {
        let sentence = unfit.to_string();
        return wrong(office, visit, member, Section::Password, "new_password", sentence, "").await;
    }
    if let Err(sentence) = is_own_password(office, visit, member, sent.exact("password")).await? {
        return wrong(office, visit, member, Section::Password, "password", sentence, "").await;
    }
    let hash = office.hasher.hash(new, Line::Owners).await?;
    office.records.set_password(member.account, &hash, Some(&member.session), visit.now).await?;
    office.records.note_activity(member.account, Activity::PasswordChanged, None, None, visit.now).await?;
    if let Some(post) = &office.post {
        post.send(Letter::changed(&office.links, &member.email, "The password of your account was changed."));
    }
    let device = session::device_cookie(office.cookies, &hash)?;
    Ok(reply::see_other("/account?done=password", &[device]))
}

/// Which letters the owner wants.
pub(crate) async fn send_notices<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let (pause, quota) = (sent.is_ticked("mail_pause"), sent.is_ticked("mail_quota"));
    let before = office.records.profile(member.account).await?;
    if before.is_some_and(|profile| (profile.mail_pause, profile.mail_quota) != (pause, quota)) {
        office.records.set_notices(member.account, pause, quota).await?;
        office.records.note_activity(member.account, Activity::NoticesChanged, None, None, visit.now).await?;
    }
    Ok(reply::see_other("/account?done=notices", &[]))
}

/// Ends one session of the member.
pub(crate) async fn end_session<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    id: i64,
) -> Result<Option<Reply>, Trouble> {
    if !office.records.end_session(member.account, id).await? {
        return Ok(None);
    }
    office.records.note_activity(member.account, Activity::SessionEnded, None, None, visit.now).await?;
    Ok(Some(if id == member.session_id {
        reply::see_other("/signin?signed-out", &[office.cookies.clear(Cookie::Session)])
    } else {
        reply::see_other("/account?done=session", &[])
    }))
}

/// Ends all sessions but this one.
pub(crate) async fn end_sessions<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
) -> Result<Reply, Trouble> {
    office.records.end_sessions(member.account, Some(&member.session)).await?;
    office.records.note_activity(member.account, Activity::SessionsEnded, None, None, visit.now).await?;
    Ok(reply::see_other("/account?done=sessions", &[]))
}

/// Deletes the account with everything that is stored about it.
pub(crate) async fn delete<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let typed = sent.text("confirm");
    if !typed.eq_ignore_ascii_case(&member.email) {
        let sentence = format!("Type {} to confirm.", member.email);
        return wrong(office, visit, member, Section::Delete, "confirm", sentence, typed).await;
    }
    if let Err(sentence) = is_own_password(office, visit, member, sent.exact("password")).await? {
        return wrong(office, visit, member, Section::Delete, "password", sentence, typed).await;
    }
    office.records.delete_account_of(member.account).await?;
    let cookies = [Cookie::Session, Cookie::Device].map(|cookie| office.cookies.clear(cookie));
    Ok(reply::see_other("/signin?deleted", &cookies))
}
