//! Signing in and out: the password, then the second factor where there is one.
//!
//! Whether an account exists cannot be told from the answer nor from how long it takes. Guessers share their patience with
//! everybody who comes from where they do; a device that the owner has come from before has its own.

use super::{judge_email, patience};
use crate::field::Field;
use crate::guard::cookie::Cookie;
use crate::guard::device;
use crate::guard::form::Form;
use crate::guard::hasher::Line;
use crate::guard::second_factor::{Authenticator, RecoveryCode};
use crate::guard::session::{self, Guest, Halfway, Member};
use crate::guard::throttle::Subject;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_store::{Activity, Login, Proof};
use std::time::Duration;

/// Who comes too early is told so after this time, whatever had to be looked up before: finding an account takes longer
/// than finding none, and such answers can be had by the thousand.
const TOO_EARLY_AFTER: Duration = Duration::from_millis(10);

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    page: Page<'a>,
    csrf: &'a str,
    email: Field,
    password: Field,
    /// Where to go afterwards.
    next: &'a str,
    notice: Option<Notice>,
    sign_up_is_open: bool,
    is_secret: bool,
}

/// What is said above the form.
struct Notice {
    class: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "code.html")]
struct Code<'a> {
    page: Page<'a>,
    csrf: &'a str,
    code: Field,
    next: &'a str,
}

fn frame<C>(office: &Office<C>) -> Page<'_> {
    Page::public(&office.links, Here::SignIn, "Sign in", "Sign in to your keys and your account.")
}

fn form<C>(
    office: &Office<C>,
    guest: &Guest,
    private: Private,
    (email, password): (Field, Field),
    next: &str,
    notice: Option<Notice>,
) -> Result<Reply, Trouble> {
    let (page, sign_up_is_open, is_secret) =
        (frame(office), office.sign_up_is_open, office.cookies.are_secure());
    let template =
        SignIn { page, csrf: &guest.csrf, email, password, next, notice, sign_up_is_open, is_secret };
    reply::private(private.with_cookies(&guest.cookie), &template)
}

fn fields(typed: &str, email: Option<String>, password: Option<String>) -> (Field, Field) {
    (
        Field::email("email", "E-mail address").typed(typed).wrong(email),
        Field::password("password", "Password").wrong(password),
    )
}

/// The form. What brought somebody here is said above it.
pub(crate) fn show<C>(office: &Office<C>, visit: &Visit, guest: &Guest) -> Result<Reply, Trouble> {
    let query = visit.request.uri.query().unwrap_or_default();
    let next = next_of(query);
    let tell = |class, text: &str| Some(Notice { class, text: text.to_owned() });
    let notice = query.split('&').find_map(|part| match part {
        "reset" => tell("notice-success", "Your new password is set. Sign in with it."),
        "signed-out" => tell("notice-success", "You are signed out."),
        "deleted" => tell("notice-success", "Your account is deleted, with everything that was stored about it."),
        "changed" => {
            tell("notice-warn", "The password or the second factor was changed at this moment. Sign in again.")
        }
        "no-cookie" => tell(
            "notice-warn",
            "Your browser did not keep the cookie of your sign-in. Allow cookies for this site; and if its address begins \
             with http://, open it by HTTPS.",
        ),
        _ => None,
    });
    form(office, guest, Private::OK, fields("", None, None), &next, notice)
}

/// What was typed into it.
pub(crate) async fn send<C>(
    office: &Office<C>,
    visit: &Visit,
    guest: &Guest,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let (typed, password, next) = (sent.text("email"), sent.exact("password"), allowed(sent.text("next")));
    let email = match judge_email(typed) {
        Ok(email) if !password.is_empty() => email,
        email => {
            let missing = password.is_empty().then(|| "Type your password.".to_owned());
            return form(office, guest, Private::UNFIT, fields(typed, email.err(), missing), next, None);
        }
    };
    let too_early = tokio::time::sleep(TOO_EARLY_AFTER);
    let login = office.records.login(&email).await?;
    let hash = login.as_ref().and_then(|login| login.password.as_deref());
    let mark = known_mark(office, visit, hash);
    let (subject, line) = match mark {
        Some(mark) => (Subject::Device(email.as_str(), mark), Line::Owners),
        None => (Subject::Account(email.as_str()), Line::Strangers),
    };
    let source = Subject::source(visit.client.address);
    let subjects = [subject, source];
    if let Err(wait) = office.throttle.admit(counted(&subjects, mark), visit.now) {
        too_early.await;
        let notice = Some(Notice { class: "notice-warn", text: patience(wait) });
        let private = Private::wait(wait.seconds);
        return form(office, guest, private, fields(typed, None, None), next, notice);
    }
    if !office.hasher.verify(password, hash, line).await? {
        let wrong = "The e-mail address or the password is wrong.".to_owned();
        return form(office, guest, Private::UNFIT, fields(typed, None, Some(wrong)), next, None);
    }
    office.throttle.forgive(subject);
    if mark.is_none() {
        office.throttle.take_back(source, visit.now);
    }
    let Some(login) = login else { return Ok(reply::see_other("/signin", &[])) };
    if login.totp_secret.is_some() {
        let next = encoded(next);
        let begun = session::begin(office, visit, &proof(&login), true).await?;
        return Ok(match begun {
            Some(cookies) => reply::see_other(&format!("/signin/code?next={next}"), &cookies),
            None => reply::see_other("/signin?changed", &[]),
        });
    }
    welcome(office, visit, &login, next).await
}

/// What was checked, as the records held it then.
fn proof(login: &Login) -> Proof<'_> {
    let (password, totp_secret) = (login.password.as_deref(), login.totp_secret.as_deref());
    Proof { account: login.id, password, totp_secret }
}

/// The mark of the visitor's device, if it is one that the owner of this password has come from.
fn known_mark<'a, C>(office: &Office<C>, visit: &'a Visit, hash: Option<&str>) -> Option<&'a str> {
    let mark = office.cookies.read(&visit.request.headers, Cookie::Device)?;
    // It is looked at even if there is no account, which takes as long.
    let fits = device::is_known(mark, hash.unwrap_or_default());
    (fits && hash.is_some()).then_some(mark)
}

/// Of a subject and a source, those that a try counts for: from a device that is known the source says nothing, and a
/// guesser who shares it with the owner does not keep them out.
fn counted<'a, 'b>(subjects: &'a [Subject<'b>; 2], mark: Option<&str>) -> &'a [Subject<'b>] {
    if mark.is_some() { &subjects[..1] } else { subjects }
}

/// Everything was right: a session begins.
async fn welcome<C>(office: &Office<C>, visit: &Visit, login: &Login, next: &str) -> Result<Reply, Trouble> {
    let Some(cookies) = session::welcome(office, visit, &proof(login)).await? else {
        return Ok(reply::see_other("/signin?changed", &[]));
    };
    let device = device::name(&visit.request.headers);
    office.records.note_activity(login.id, Activity::SignedIn, None, Some(&device), visit.now).await?;
    // The page behind it tells whether the browser kept the cookie.
    let next = if next == "/dashboard" { "/dashboard?signed-in" } else { next };
    Ok(reply::see_other(next, &cookies))
}

fn code_form<C>(
    office: &Office<C>,
    halfway: &Halfway,
    private: Private,
    wrong: Option<String>,
    next: &str,
) -> Result<Reply, Trouble> {
    let page = Page { title: "Enter your code", ..frame(office) };
    let code = Field::code("code", "Code")
        .hinted("The six digits that your authenticator app shows, or one of your recovery codes.")
        .wrong(wrong);
    reply::private(private, &Code { page, csrf: &halfway.csrf, code, next })
}

/// The form for the second factor.
pub(crate) fn show_code<C>(office: &Office<C>, visit: &Visit, halfway: &Halfway) -> Result<Reply, Trouble> {
    let next = next_of(visit.request.uri.query().unwrap_or_default());
    code_form(office, halfway, Private::OK, None, &next)
}

/// The code that was typed.
pub(crate) async fn send_code<C>(
    office: &Office<C>,
    visit: &Visit,
    halfway: &Halfway,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let (typed, next) = (sent.text("code"), allowed(sent.text("next")));
    let Some(login) = office.records.login_of(halfway.account).await? else {
        return Ok(reply::see_other("/signin", &[]));
    };
    let mark = known_mark(office, visit, login.password.as_deref());
    let subject = mark.map_or(Subject::Code(login.id.0), |mark| Subject::DeviceCode(login.id.0, mark));
    let source = Subject::source(visit.client.address);
    let subjects = [subject, source];
    if let Err(wait) = office.throttle.admit(counted(&subjects, mark), visit.now) {
        return code_form(office, halfway, Private::wait(wait.seconds), Some(patience(wait)), next);
    }
    if !is_right_code(office, &login, typed, visit).await? {
        office.records.note_activity(login.id, Activity::SecondFactorFailed, None, None, visit.now).await?;
        let wrong = "This code is wrong, or was used before. Wait for the next one.".to_owned();
        return code_form(office, halfway, Private::UNFIT, Some(wrong), next);
    }
    office.throttle.forgive(subject);
    if mark.is_none() {
        office.throttle.take_back(source, visit.now);
    }
    welcome(office, visit, &login, next).await
}

/// Whether a code is one of the app's or a recovery code, neither used before. It is used now.
pub(super) async fn is_right_code<C>(
    office: &Office<C>,
    login: &Login,
    typed: &str,
    visit: &Visit,
) -> Result<bool, Trouble> {
    let Some(secret) = &login.totp_secret else { return Ok(false) };
    let authenticator = Authenticator::stored(secret, &login.email);
    if let Some(step) = authenticator.and_then(|authenticator| authenticator.step_of(typed, visit.now)) {
        return Ok(office.records.use_totp_step(login.id, step).await?);
    }
    let Some(code) = RecoveryCode::typed(typed) else { return Ok(false) };
    let used = office.records.use_recovery_code(login.id, &code.hash()).await?;
    if used {
        office.records.note_activity(login.id, Activity::RecoveryCodeUsed, None, None, visit.now).await?;
    }
    Ok(used)
}

/// Ends a sign-in that waits for its second factor.
pub(crate) async fn give_up<C>(office: &Office<C>, halfway: &Halfway) -> Result<Reply, Trouble> {
    office.records.end_session_by(&halfway.session).await?;
    Ok(reply::see_other("/signin?signed-out", &[office.cookies.clear(Cookie::Session)]))
}

/// Ends the session of this browser.
pub(crate) async fn sign_out<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
) -> Result<Reply, Trouble> {
    office.records.end_session_by(&member.session).await?;
    office.records.note_activity(member.account, Activity::SignedOut, None, None, visit.now).await?;
    Ok(reply::see_other("/signin?signed-out", &[office.cookies.clear(Cookie::Session)]))
}

/// Where a query wants to go on to.
fn next_of(query: &str) -> String {
    let next = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "next");
    next.map_or_else(|| "/dashboard".to_owned(), |(_, next)| allowed(&next).to_owned())
}

/// Only our own pages for members are gone on to, whatever a link says.
pub(crate) fn allowed(next: &str) -> &str {
    let ours = ["/dashboard", "/account"].iter().any(|area| {
        next.strip_prefix(area).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
    });
    let plain = next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.?=".contains(&byte));
    if ours && plain && !next.contains("//") { next } else { "/dashboard" }
}

/// A path as part of a query.
pub(crate) fn encoded(path: &str) -> String {
    form_urlencoded::byte_serialize(path.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_gone_on_to() {
        #[track_caller]
        fn check(next: &str, expected: &str) {
            assert_eq!(allowed(next), expected, "{next}");
        }
        check("/dashboard/keys/5", "/dashboard/keys/5");
        check("/account", "/account");
        check("/account?x=1", "/account?x=1");
        for elsewhere in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/dashboardx",
            "/dashboard//evil.example",
            "/dashboard\r\nset-cookie: a=b",
            "/signout",
            "/dashboard/\u{2028}",
        ] {
            check(elsewhere, "/dashboard");
        }
        assert_eq!(next_of("a=b&next=%2Fdashboard%2Fkeys%2F5"), "/dashboard/keys/5");
        assert_eq!(next_of(""), "/dashboard");
    }
}
