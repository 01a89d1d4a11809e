//! Who is asking: somebody signed in, somebody halfway there, or a guest.
//!
//! A browser holds the secret of its session, the records hold its hash. The secret that each form must bring back is made
//! of the same, so there is nothing more to store.

use super::cookie::{Cookie, Cookies};
use crate::office::{Office, Trouble};
use http::HeaderValue;
use ipse_edge::Visit;
use ipse_model::{Now, Secret, SecretHash};
use ipse_store::{AccountId, Proof};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// A session that nobody used for so long has ended.
const IDLE: Duration = Duration::from_secs(7 * 86_400);
/// So has one that is this old, however much it is used.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// How long the second factor may take.
const HALFWAY: Duration = Duration::from_secs(600);
/// That a session is used is noted so often at most.
const NOTED_EVERY_MS: i64 = 3_600_000;
/// How long a device is known by its mark.
const DEVICE: Duration = Duration::from_secs(365 * 86_400);

/// Who is asking.
pub(crate) enum Visitor {
    Guest(Guest),
    Halfway(Halfway),
    Member(Member),
}

/// Somebody of whom nothing is known.
pub(crate) struct Guest {
    /// What forms bring back.
    pub(crate) csrf: String,
    /// The cookie that ties forms to this browser, where it has none yet.
    pub(crate) cookie: Option<HeaderValue>,
}

/// Somebody whose password was right, and whose second factor is due.
pub(crate) struct Halfway {
    pub(crate) account: AccountId,
    pub(crate) csrf: String,
    pub(crate) session: SecretHash,
}

/// Somebody who is signed in.
pub(crate) struct Member {
    pub(crate) account: AccountId,
    pub(crate) email: String,
    /// What forms bring back.
    pub(crate) csrf: String,
    pub(crate) session: SecretHash,
    /// The number of the session, by which the list of sessions knows it.
    pub(crate) session_id: i64,
}

impl Visitor {
    /// What the forms of this visitor bring back.
    pub(crate) fn csrf(&self) -> &str {
        match self {
            Self::Guest(guest) => &guest.csrf,
            Self::Halfway(halfway) => &halfway.csrf,
            Self::Member(member) => &member.csrf,
        }
    }
}

/// Finds out who is asking.
pub(crate) async fn identify<C>(office: &Office<C>, visit: &Visit) -> Result<Visitor, Trouble> {
    let headers = &visit.request.headers;
    if let Some(secret) = office.cookies.secret(headers, Cookie::Session)
        && let Some(visitor) = signed_in(office, &secret, visit.now).await?
    {
        return Ok(visitor);
    }
    Ok(Visitor::Guest(match office.cookies.secret(headers, Cookie::Form) {
        Some(secret) => Guest { csrf: csrf(&secret), cookie: None },
        None => new_guest(office.cookies)?,
    }))
}

async fn signed_in<C>(office: &Office<C>, secret: &Secret, now: Now) -> Result<Option<Visitor>, Trouble> {
    let hash = secret.hash();
    let found = office.records.session(&hash, before(now, IDLE), before(now, LONGEST)).await?;
    let Some(session) = found else { return Ok(None) };
    let csrf = csrf(secret);
    if session.second_factor_due {
        let halfway = Halfway { account: session.account, csrf, session: hash };
        let in_time = session.created_ms > before(now, HALFWAY);
        return Ok(in_time.then_some(Visitor::Halfway(halfway)));
    }
    let Some(profile) = office.records.profile(session.account).await? else { return Ok(None) };
    if now.unix_ms - session.seen_ms >= NOTED_EVERY_MS {
        office.records.touch_session(session.id, now).await?;
    }
    Ok(Some(Visitor::Member(Member {
        account: session.account,
        email: profile.email,
        csrf,
        session: hash,
        session_id: session.id,
    })))
}

/// Begins a session in place of whatever session this browser had, and gives the cookies that go with it.
///
/// `None` if the password or the second factor were changed since they were checked.
pub(crate) async fn begin<C>(
    office: &Office<C>,
    visit: &Visit,
    proof: &Proof<'_>,
    second_factor_due: bool,
) -> Result<Option<Vec<HeaderValue>>, Trouble> {
    let (cookies, headers) = (office.cookies, &visit.request.headers);
    if let Some(before) = cookies.secret(headers, Cookie::Session) {
        office.records.end_session_by(&before.hash()).await?;
    }
    let secret = Secret::from_random(getrandom::fill)?;
    let device = super::device::name(headers);
    let hash = secret.hash();
    if !office.records.begin_session(proof, &hash, &device, second_factor_due, visit.now).await? {
        return Ok(None);
    }
    let lasts = if second_factor_due { HALFWAY } else { LONGEST };
    Ok(Some(vec![
        cookies.set(Cookie::Session, &secret.reveal(), Some(lasts)),
        // Forms that were opened before are worthless from now on.
        cookies.clear(Cookie::Form),
    ]))
}

/// The same for somebody who has shown all that is asked for, and whose device is known from now on.
pub(crate) async fn welcome<C>(
    office: &Office<C>,
    visit: &Visit,
    proof: &Proof<'_>,
) -> Result<Option<Vec<HeaderValue>>, Trouble> {
    let Some(mut cookies) = begin(office, visit, proof, false).await? else { return Ok(None) };
    cookies.push(device_cookie(office.cookies, proof.password.unwrap_or_default())?);
    Ok(Some(cookies))
}

/// The cookie by which an owner is told from strangers who guess the password.
pub(crate) fn device_cookie(cookies: Cookies, password_hash: &str) -> Result<HeaderValue, Trouble> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)?;
    Ok(cookies.set(Cookie::Device, &super::device::mark(password_hash, nonce), Some(DEVICE)))
}

/// The moments before which a session has ended: when it was last seen, and when it began.
pub(crate) fn ended_before(now: Now) -> (i64, i64) {
    (before(now, IDLE), before(now, LONGEST))
}

fn new_guest(cookies: Cookies) -> Result<Guest, Trouble> {
    let secret = Secret::from_random(getrandom::fill)?;
    let cookie = cookies.set(Cookie::Form, &secret.reveal(), None);
    Ok(Guest { csrf: csrf(&secret), cookie: Some(cookie) })
}

/// What forms bring back: whoever has it cannot learn the secret from it.
fn csrf(secret: &Secret) -> String {
    let mut hash = Sha256::new();
    hash.update(b"ipse form");
    hash.update(secret.reveal());
    SecretHash(hash.finalize().into()).to_hex()
}

/// Whether a form brought back what it was given. What is compared are hashes, so how long it takes tells nothing.
pub(crate) fn is_same(given: &str, expected: &str) -> bool {
    !given.is_empty() && Sha256::digest(given) == Sha256::digest(expected)
}

fn before(now: Now, time: Duration) -> i64 {
    now.unix_ms - i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
