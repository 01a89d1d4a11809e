//! THE pipeline: credential → key → charge → find → answer.

use crate::credential::{Credential, wanted_scope};
use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use ipse_edge::{Ask, Visit};
use ipse_geo::Atlas;
use ipse_model::{Answer, Charge, Client, DayAllowance, KeyState, Now, Refusal, Scope};
use ipse_store::{Counters, Error, KeyCharge, KeyTable, Unwritten};
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
        let query = visit.request.uri.query();
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
        let allowance = match self.counters.charge_key(&key, now).await? {
            KeyCharge::Paused => return Ok(Outcome::Refused(Refusal::Paused(now))),
            KeyCharge::Charged(Charge::BurstExceeded) => {
                tracing::info!(key.id = key.id.0, "a key went over the burst limit and is paused");
                return Ok(Outcome::Refused(Refusal::BurstExceeded(now)));
            }
            KeyCharge::Charged(Charge::DayUsedUp(allowance)) => {
                return Ok(Outcome::Refused(Refusal::DayUsedUp(now, allowance)));
            }
            KeyCharge::Charged(Charge::Granted(allowance)) => allowance,
        };
        let mut body = Vec::with_capacity(Answer::USUAL_BYTES);
        self.write(Fields::Of(key.scope.narrowed_to(wanted_scope(query))), &visit.client, now, &mut body);
        Ok(Outcome::Answered(body, allowance))
    }

    /// The same where nothing has to be waited for, and nothing is refused. What is granted is not written yet.
    pub(crate) fn keyed_at_once(
        &self,
        ask: &Ask<'_>,
        query: Option<&str>,
        unwritten: &mut Unwritten,
        body: &mut Vec<u8>,
    ) -> Option<DayAllowance> {
        let Credential::Key(text) = Credential::of(ask.authorization, query) else { return None };
        let key = self.keys.find(&text.hash(), ask.now)?;
        let allowance = self.counters.grant_key(&key, ask.now, unwritten)?;
        self.write(Fields::Of(key.scope.narrowed_to(wanted_scope(query))), ask.client, ask.now, body);
        Some(allowance)
    }

    /// `GET /api/v1/ip/demo`: enters at the charge, with the subject that all callers share.
    pub(crate) async fn demo(&self, visit: &Visit) -> Result<Outcome, Error> {
        let now = visit.now;
        let allowance = match self.counters.charge_demo(now).await? {
            Ok(allowance) => allowance,
            Err(allowance) => return Ok(Outcome::Refused(Refusal::DemoUsedUp(now, allowance))),
        };
        let mut body = Vec::with_capacity(Answer::USUAL_BYTES);
        self.write(Fields::OfDemo, &visit.client, now, &mut body);
        Ok(Outcome::Answered(body, allowance))
    }

    /// The same where nothing has to be waited for, and nothing is refused. What is granted is not written yet.
    pub(crate) fn demo_at_once(
        &self,
        ask: &Ask<'_>,
        unwritten: &mut Unwritten,
        body: &mut Vec<u8>,
    ) -> Option<DayAllowance> {
        let allowance = self.counters.grant_demo(ask.now, unwritten)?;
        self.write(Fields::OfDemo, ask.client, ask.now, body);
        Some(allowance)
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
