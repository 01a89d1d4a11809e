//! Everything that is stored about an account, as one JSON document for its owner. No secret is in it, nor the hash of one.

use crate::guard::session::{self, Member};
use crate::office::{Office, Trouble};
use crate::reply::{self, Download};
use http::Method;
use ipse_edge::{Reply, Visit};
use ipse_model::Day;
use ipse_store::{Activity, Outcomes, OwnedKey, Subject};
use serde_json::{Value, json};

/// How far back counts are kept for charts.
const DAYS: u32 = 400;
/// Hours are kept for as many days.
const HOURS_KEPT_DAYS: u32 = 9;
/// More lines than are ever kept.
const LINES: u32 = 10_000;

/// The document.
pub(crate) async fn download<C: ipse_store::Counters>(
    office: &Office<C>,
    visit: &Visit,
    member: &Member,
) -> Result<Reply, Trouble> {
    let records = &office.records;
    let now = visit.now;
    // A browser that only asks how large it is takes nothing along.
    if visit.request.method == Method::GET {
        records.note_activity(member.account, Activity::DataExported, None, None, now).await?;
    }
    let Some(profile) = records.profile(member.account).await? else {
        return Ok(reply::see_other("/signin", &[]));
    };
    let (seen_after, created_after) = session::ended_before(now);
    let sessions = records.sessions(member.account, seen_after, created_after).await?;
    let mut keys = Vec::new();
    for key in records.keys_of(member.account).await? {
        let used = office.counters.used(Subject::Key(key.record.id), now.day()).await?;
        let days = records.outcomes_by_day(key.record.id, Day(now.day().0.saturating_sub(DAYS))).await?;
        let mut hours = Vec::new();
        for day in (0..HOURS_KEPT_DAYS).rev().map(|back| Day(now.day().0.saturating_sub(back))) {
            let counted = records.outcomes_by_hour(key.record.id, day).await?;
            hours.extend(counted.into_iter().map(|(hour, outcomes)| {
                counts("hour", &format!("{}T{hour:02}:00Z", crate::utc::iso(day)), &outcomes)
            }));
        }
        let told = records.notices_told(key.record.id).await?;
        keys.push(key_document(&key, used, &days, &hours, &told));
    }
    let activity: Vec<Value> = records
        .activity(member.account, LINES)
        .await?
        .iter()
        .map(|row| {
            json!({
                "at": moment(row.at_ms),
                "what": row.what.as_str(),
                "key": row.key.map(|key| key.0),
                "detail": row.detail,
            })
        })
        .collect();
    let document = json!({
        "exported": moment(now.unix_ms),
        "account": {
            "email": profile.email,
            "created": moment(profile.created_ms),
            "address_that_waits_for_its_link": records.pending_email(member.account, now).await?,
            "address_verified": profile.verified_ms.map(moment),
            "has_password": profile.has_password,
            "has_second_factor": profile.has_totp,
            "recovery_codes_left": profile.recovery_codes_left,
            "letters_about_pauses": profile.mail_pause,
            "letters_about_quotas": profile.mail_quota,
        },
        "sessions": sessions.iter().map(|session| json!({
            "device": session.device,
            "created": moment(session.created_ms),
            "last_seen": moment(session.seen_ms),
        })).collect::<Vec<_>>(),
        "keys": keys,
        "activity": activity,
    });
    let text = serde_json::to_string_pretty(&document).unwrap_or_default();
    Ok(reply::download(Download::Json, "ipse-account.json", text))
}

fn counts(name: &str, value: &str, outcomes: &Outcomes) -> Value {
    json!({
        name: value,
        "answered": outcomes.answered,
        "over_quota": outcomes.over_quota,
        "refused": outcomes.refused,
    })
}

fn key_document(
    key: &OwnedKey,
    used: u32,
    days: &[(Day, Outcomes)],
    hours: &[Value],
    told: &[(String, i64)],
) -> Value {
    let record = &key.record;
    json!({
        "id": record.id.0,
        "name": record.name,
        "scope": record.scope.as_str(),
        "state": record.state.as_str(),
        "last_four": record.last_four,
        "created": moment(record.created_ms),
        "daily_limit": record.daily_limit,
        "paused": record.paused_ms.map(moment),
        "minute_of_the_pause": key.pause_minute,
        "last_used": key.last_used.map(crate::utc::iso),
        "used_today": used,
        "old_text": key.old_text.as_ref().map(|old| json!({
            "last_four": old.last_four,
            "ends": moment(old.ends_ms),
        })),
        "days": days.iter().map(|(day, outcomes)| counts("day", &crate::utc::iso(*day), outcomes)).collect::<Vec<_>>(),
        "hours": hours,
        // Of a pause its moment, of a quota the day that it was told on.
        "told": told.iter().map(|(kind, occasion)| json!({ "what": kind, "occasion": occasion })).collect::<Vec<_>>(),
    })
}

fn moment(unix_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms).map(|moment| moment.to_string()).unwrap_or_default()
}
