//! The second factor of an account: on, off, and its recovery codes.

use super::settings::is_own_password;
use crate::field::Field;
use crate::guard::form::Form;
use crate::guard::second_factor::{Authenticator, Picture, RecoveryCode};
use crate::guard::session::Member;
use crate::mail::Letter;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_model::SecretHash;
use ipse_store::Activity;

#[derive(Template)]
#[template(path = "totp_set_up.html")]
struct SetUp<'a> {
    page: Page<'a>,
    member: &'a Member,
    secret: String,
    secret_in_groups: String,
    picture: Option<Picture>,
    password: Field,
    code: Field,
}

#[derive(Template)]
#[template(path = "totp.html")]
struct On<'a> {
    page: Page<'a>,
    member: &'a Member,
    codes_left: u32,
    new_codes_password: Field,
    off_password: Field,
}

#[derive(Template)]
#[template(path = "recovery_codes.html")]
struct Codes<'a> {
    page: Page<'a>,
    codes: Vec<String>,
}

const TITLE: &str = "Two-factor sign-in";

fn frame<'a, C>(office: &'a Office<C>, member: &'a Member) -> Page<'a> {
    Page::of(member, &office.links, Here::Account, TITLE)
}

/// What is wrong with which field.
type Wrong = (&'static str, String);

fn beside(field: Field, wrong: Option<&Wrong>) -> Field {
    let sentence = wrong.filter(|(id, _)| *id == field.id).map(|(_, sentence)| sentence.clone());
    field.wrong(sentence)
}

/// The page: how to begin, or what can be done where it is on.
pub(crate) async fn show<C>(office: &Office<C>, member: &Member) -> Result<Reply, Trouble> {
    let profile = office.records.profile(member.account).await?;
    match profile {
        Some(profile) if profile.has_totp => {
            on(office, member, profile.recovery_codes_left, Private::OK, None)
        }
        _ => set_up(office, member, &Authenticator::from_random(&member.email)?, Private::OK, None),
    }
}

fn set_up<C>(
    office: &Office<C>,
    member: &Member,
    authenticator: &Authenticator,
    private: Private,
    wrong: Option<&Wrong>,
) -> Result<Reply, Trouble> {
    let template = SetUp {
        page: frame(office, member),
        member,
        secret: authenticator.secret(),
        secret_in_groups: authenticator.secret_in_groups(),
        picture: authenticator.picture(),
        code: beside(Field::code("code", "The six digits that the app shows now"), wrong),
        password: beside(Field::password("password", "Your password"), wrong),
    };
    reply::private(private, &template)
}

fn on<C>(
    office: &Office<C>,
    member: &Member,
    codes_left: u32,
    private: Private,
    wrong: Option<&Wrong>,
) -> Result<Reply, Trouble> {
    let template = On {
        page: frame(office, member),
        member,
        codes_left,
        new_codes_password: beside(Field::password("codes-password", "Your password"), wrong),
        off_password: beside(Field::password("off-password", "Your password"), wrong),
    };
    reply::private(private, &template)
}

fn show_codes<C>(office: &Office<C>, member: &Member, codes: &[RecoveryCode]) -> Result<Reply, Trouble> {
    let page = Page { title: "Your recovery codes", ..frame(office, member) };
    reply::private(Private::OK, &Codes { page, codes: codes.iter().map(RecoveryCode::shown).collect() })
}

/// The first code of the app: it works, so it is on.
pub(crate) async fn turn_on<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    let is_on = office.records.profile(member.account).await?.is_some_and(|profile| profile.has_totp);
    let authenticator = Authenticator::stored(sent.text("secret"), &member.email);
    let (false, Some(authenticator)) = (is_on, authenticator) else { return show(office, member).await };
    let Some(step) = authenticator.step_of(sent.text("code"), visit.now) else {
        let wrong = "This is not the code of this moment. Check that the clock of your device is right, and take the newest."
            .to_owned();
        return set_up(office, member, &authenticator, Private::UNFIT, Some(&("code", wrong)));
    };
    if let Err(wrong) = is_own_password(office, visit, member, sent.exact("password")).await? {
        return set_up(office, member, &authenticator, Private::UNFIT, Some(&("password", wrong)));
    }
    let codes = RecoveryCode::from_random()?;
    let hashes: Vec<SecretHash> = codes.iter().map(RecoveryCode::hash).collect();
    if !office.records.set_totp(member.account, &authenticator.secret(), step, &hashes).await? {
        return show(office, member).await;
    }
    told(office, visit, member, Activity::TotpOn, "Two-factor sign-in was switched on for your account.")
        .await?;
    show_codes(office, member, &codes)
}

/// New recovery codes in place of the old ones.
pub(crate) async fn new_codes<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    if let Some(refused) = check(office, visit, member, sent, "codes-password").await? {
        return Ok(refused);
    }
    let codes = RecoveryCode::from_random()?;
    let hashes: Vec<SecretHash> = codes.iter().map(RecoveryCode::hash).collect();
    office.records.replace_recovery_codes(member.account, &hashes).await?;
    let what = "New recovery codes were made for your account; the old ones do not work any more.";
    told(office, visit, member, Activity::RecoveryCodesMade, what).await?;
    show_codes(office, member, &codes)
}

/// Off.
pub(crate) async fn turn_off<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
) -> Result<Reply, Trouble> {
    if let Some(refused) = check(office, visit, member, sent, "off-password").await? {
        return Ok(refused);
    }
    office.records.clear_totp(member.account).await?;
    told(office, visit, member, Activity::TotpOff, "Two-factor sign-in was switched off for your account.")
        .await?;
    Ok(reply::see_other("/account?done=totp-off", &[]))
}

/// The page again, if it is not on or the password is wrong.
async fn check<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    sent: &Form,
    field: &'static str,
) -> Result<Option<Reply>, Trouble> {
    let profile = office.records.profile(member.account).await?;
    let Some(profile) = profile.filter(|profile| profile.has_totp) else {
        return Ok(Some(reply::see_other("/account/totp", &[])));
    };
    match is_own_password(office, visit, member, sent.exact("password")).await? {
        Ok(()) => Ok(None),
        Err(wrong) => {
            let left = profile.recovery_codes_left;
            on(office, member, left, Private::UNFIT, Some(&(field, wrong))).map(Some)
        }
    }
}

async fn told<C>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
    activity: Activity,
    what: &str,
) -> Result<(), Trouble> {
    office.records.note_activity(member.account, activity, None, None, visit.now).await?;
    if let Some(post) = &office.post {
        post.send(Letter::changed(&office.links, &member.email, what));
    }
    Ok(())
}
