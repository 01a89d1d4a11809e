//! THE pipeline: credential → key → charge → find → answer.

use crate::credential::{Credential, wanted_scope};
use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use ipse_edge::{Ask, Visit};
use ipse_geo::Atlas;
use ipse_model::{
    Address, Answer, Charge, Client, DayAllowance, Key, KeyHash, KeyState, Now, Refusal, Scope,
};
use ipse_store::{Asked, Counters, Error, KeyCharge, KeyTable, Unwritten};
use serde::Serialize;
use std::sync::Arc;

/// What a lookup asks: who may, and where they are.
pub struct Lookup<C> {
    /// The keys.
    pub keys: Arc<KeyTable>,
    /// How much was used.
    pub counters: Arc<C>,
    /// Where addresses are.
    pub atlas: Arc<ArcSwap<Atlas>>,
}

/// What came of a request. A refusal is an outcome; an error is something broken.
pub(crate) enum Outcome {
    /// The body, and what is left of the day.
    Answered(Vec<u8>, DayAllowance),
    /// Why not.
    Refused(Refusal),
}

impl<C: Counters> Lookup<C> {
    /// `GET /api/v1/ip`.
    pub(crate) async fn keyed(&self, visit: &Visit) -> Result<Outcome, Error> {
        let now = visit.now;
        let query = visit.request.uri.query().map(str::as_bytes);
        let authorization = visit.request.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let text = match Credential::of(authorization, query) {
            Credential::Missing => return Ok(Outcome::Refused(Refusal::MissingKey)),
            Credential::Malformed => return Ok(Outcome::Refused(Refusal::InvalidKey)),
            Credential::Key(text) => text,
        };
        let Some(key) = self.keys.find_fresh(&text.hash(), now).await else {
            return Ok(Outcome::Refused(Refusal::InvalidKey));
        };
        if key.state == KeyState::Inactive {
            self.counters.note_refusal(key.id, now);
            return Ok(Outcome::Refused(Refusal::InactiveKey));
        }
        let allowance = match granted(Some(&key), self.counters.charge_key(&key, now).await?, now) {
            Ok(allowance) => allowance,
            Err(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        let mut body = Vec::with_capacity(Answer::USUAL_BYTES);
        self.write(Fields::Of(key.scope.narrowed_to(wanted_scope(query))), &visit.client, now, &mut body);
        Ok(Outcome::Answered(body, allowance))
    }

    /// The same as far as it can be done without waiting, where nothing is refused. What is granted is not written yet.
    pub(crate) fn keyed_at_once(
        &self,
        ask: &Ask<'_>,
        query: Option<&[u8]>,
        foreseen: Foreseen,
        unwritten: &mut Unwritten,
        body: &mut Vec<u8>,
    ) -> Option<AtOnce> {
        let key = foreseen.key.or_else(|| self.keys.find(&foreseen.hash?, ask.now))?;
        let done = if self.counters.asks_elsewhere() {
            // Who is not served needs nobody else to be told so.
            (key.state == KeyState::Active)
                .then_some(AtOnce::Asked(Asked { key: Some(key), now: ask.now }))?
        } else {
            AtOnce::Granted(self.counters.grant_key(&key, ask.now, unwritten)?)
        };
        self.write(Fields::Of(key.scope.narrowed_to(wanted_scope(query))), ask.client, ask.now, body);
        Some(done)
    }

    /// Looks at what these requests will need, a step at a time for all of them: a processor waits for the memory of several at
    /// once if little is done in between.
    pub(crate) fn foresee(&self, all: &mut [Foreseen]) {
        let atlas = self.atlas.load();
        atlas.foresee(all.iter().map(|foreseen| foreseen.address));
        self.keys.find_all(all.iter_mut().filter_map(|foreseen| Some((foreseen.hash?, &mut foreseen.key))));
        self.counters.foresee(all.iter().filter_map(|foreseen| Some(foreseen.key?.id)));
    }

    /// `GET /api/v1/ip/demo`: enters at the charge, with the subject that all callers share.
    pub(crate) async fn demo(&self, visit: &Visit) -> Result<Outcome, Error> {
        let now = visit.now;
        let allowance = match granted(None, self.counters.charge_demo(now).await?.into(), now) {
            Ok(allowance) => allowance,
            Err(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        let mut body = Vec::with_capacity(Answer::USUAL_BYTES);
        self.write(Fields::OfDemo, &visit.client, now, &mut body);
        Ok(Outcome::Answered(body, allowance))
    }

    /// The same as far as it can be done without waiting, where nothing is refused. What is granted is not written yet.
    pub(crate) fn demo_at_once(
        &self,
        ask: &Ask<'_>,
        unwritten: &mut Unwritten,
        body: &mut Vec<u8>,
    ) -> Option<AtOnce> {
        let done = if self.counters.asks_elsewhere() {
            AtOnce::Asked(Asked { key: None, now: ask.now })
        } else {
            AtOnce::Granted(self.counters.grant_demo(ask.now, unwritten)?)
        };
        self.write(Fields::OfDemo, ask.client, ask.now, body);
        Some(done)
    }

    /// Finds where a caller is, and writes the answer.
    fn write(&self, fields: Fields, client: &Client, now: Now, body: &mut Vec<u8>) {
        let atlas = self.atlas.load();
        let found = atlas.find(client.address);
        let answer = Answer { client, now, found: found.written() };
        match fields {
            Fields::Of(scope) => answer.write_for_scope(scope, body),
            Fields::OfDemo => answer.write_for_demo(body),
        }
    }
}

/// What is known of a request before it is decided.
#[derive(Clone, Copy)]
pub(crate) struct Foreseen {
    pub(crate) address: Address,
    /// That of the key it brings, if it brings what may be one.
    pub(crate) hash: Option<KeyHash>,
    /// If it was found already.
    pub(crate) key: Option<Key>,
}

impl Foreseen {
    /// What a keyed lookup says by itself.
    pub(crate) fn keyed(ask: &Ask<'_>, query: Option<&[u8]>) -> Self {
        let hash = Credential::presumed(ask.authorization, query);
        Self { hash, ..Self::without_key(ask) }
    }

    /// The same of whatever else is asked.
    pub(crate) fn without_key(ask: &Ask<'_>) -> Self {
        Self { address: ask.client.address, hash: None, key: None }
    }
}

/// How far a lookup was done at once. Its body is written.
pub(crate) enum AtOnce {
    /// It may be answered, when what was granted is written.
    Granted(DayAllowance),
    /// It is to be charged first.
    Asked(Asked),
}

/// What a charge leaves of the day, or why it is refused. Where there is no key it is the demo's.
pub(crate) fn granted(key: Option<&Key>, charge: KeyCharge, now: Now) -> Result<DayAllowance, Refusal> {
    match (charge, key) {
        (KeyCharge::Charged(Charge::Granted(allowance)), _) => Ok(allowance),
        (KeyCharge::Charged(Charge::DayUsedUp(allowance)), Some(_)) => {
            Err(Refusal::DayUsedUp(now, allowance))
        }
        (KeyCharge::Charged(Charge::DayUsedUp(allowance)), None) => Err(Refusal::DemoUsedUp(now, allowance)),
        (KeyCharge::Charged(Charge::BurstExceeded), _) => {
            let id = key.map(|key| key.id.0);
            tracing::info!(key.id = id, "a key went over the burst limit and is paused");
            Err(Refusal::BurstExceeded(now))
        }
        (KeyCharge::Paused, _) => Err(Refusal::Paused(now)),
    }
}

/// What an answer tells.
#[derive(Clone, Copy)]
enum Fields {
    /// What a scope entitles to.
    Of(Scope),
    /// The demo's fixed set.
    OfDemo,
}

/// Our types have text for keys and finite numbers or none, so writing them to memory cannot fail.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
