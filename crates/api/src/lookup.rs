//! THE pipeline: credential → key → charge → find → answer.

use crate::credential::{Credential, wanted_scope};
use arc_swap::ArcSwap;
use ipse_edge::Visit;
use ipse_geo::Atlas;
use ipse_model::{Answer, Charge, DayAllowance, KeyState, Refusal};
use ipse_store::{Counters, Error, KeyCharge, KeyTable};
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
        let text = match Credential::of(&visit.request) {
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
        let scope = key.scope.narrowed_to(wanted_scope(&visit.request));
        let atlas = self.atlas.load();
        let found = atlas.find(visit.client.address);
        let answer = Answer { client: &visit.client, now, found: found.written() };
        Ok(Outcome::Answered(answer.for_scope(scope), allowance))
    }

    /// `GET /api/v1/ip/demo`: enters at the charge, with the subject that all callers share.
    pub(crate) async fn demo(&self, visit: &Visit) -> Result<Outcome, Error> {
        let now = visit.now;
        let allowance = match self.counters.charge_demo(now).await? {
            Ok(allowance) => allowance,
            Err(allowance) => return Ok(Outcome::Refused(Refusal::DemoUsedUp(now, allowance))),
        };
        let atlas = self.atlas.load();
        let found = atlas.find(visit.client.address);
        let answer = Answer { client: &visit.client, now, found: found.written() };
        Ok(Outcome::Answered(answer.for_demo(), allowance))
    }
}

/// Our types have text for keys and finite numbers or none, so writing them to memory cannot fail.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
