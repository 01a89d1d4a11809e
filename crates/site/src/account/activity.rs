//! What was done to an account and its keys, in words: what, when, and to which key. Nobody's address stands there.

use crate::guard::session::Member;
use crate::office::{Office, Trouble};
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::utc::Moment;
use askama::Template;
use ipse_edge::{Reply, Visit};
use ipse_store::{Activity, ActivityRow};

#[derive(Template)]
#[template(path = "activity.html")]
struct Lines<'a> {
    page: Page<'a>,
    rows: Vec<Row>,
}

struct Row {
    at: Moment,
    what: &'static str,
    detail: String,
    key: Option<i64>,
}

/// How many lines the page shows.
const SHOWN: u32 = 200;

/// The page.
pub(crate) async fn show<C>(office: &Office<C>, visit: &Visit, member: &Member) -> Result<Reply, Trouble> {
    let rows = office.records.activity(member.account, SHOWN).await?;
    let rows = rows.into_iter().map(|row| line(row, visit)).collect();
    let page = Page::of(member, &office.links, Here::Account, "Activity");
    reply::private(Private::OK, &Lines { page, rows })
}

fn line(row: ActivityRow, visit: &Visit) -> Row {
    Row {
        at: Moment::new(row.at_ms, visit.now.day()),
        what: words(row.what),
        detail: row.detail.unwrap_or_default(),
        key: row.key.map(|key| key.0).filter(|_| row.what != Activity::KeyDeleted),
    }
}

pub(crate) fn words(activity: Activity) -> &'static str {
    match activity {
        Activity::SignedUp => "Signed up",
        Activity::SignedIn => "Signed in",
        Activity::SignedOut => "Signed out",
        Activity::SecondFactorFailed => "Right password, wrong code",
        Activity::PasswordChanged => "Changed the password",
        Activity::ResetAsked => "Asked for a link to set a new password",
        Activity::PasswordReset => "Set a new password by a link",
        Activity::EmailChangeAsked => "Asked for another e-mail address",
        Activity::EmailChanged => "Changed the e-mail address",
        Activity::TotpOn => "Switched two-factor sign-in on",
        Activity::TotpOff => "Switched two-factor sign-in off",
        Activity::RecoveryCodesMade => "Made new recovery codes",
        Activity::RecoveryCodeUsed => "Used a recovery code",
        Activity::SessionEnded => "Ended a session",
        Activity::SessionsEnded => "Signed out everywhere else",
        Activity::NoticesChanged => "Changed which letters are sent",
        Activity::DataExported => "Downloaded all data",
        Activity::KeyCreated => "Made a key",
        Activity::KeyRenamed => "Renamed a key",
        Activity::KeyScopeChanged => "Changed a key’s scope",
        Activity::KeyDeactivated => "Deactivated a key",
        Activity::KeyReactivated => "Reactivated a key",
        Activity::KeyPaused => "A key was paused",
        Activity::KeyResumed => "Resumed a key",
        Activity::KeyRolled => "Rolled a key",
        Activity::KeyDeleted => "Deleted a key",
    }
}
