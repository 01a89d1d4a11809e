//! What a node does to charge a request, step by step, whatever carries the steps out.
//!
//! A subject is served within ranges of its day's numbers that the records have reserved for one incarnation of the engine.
//! No number is in two ranges, and no range is offered twice: so an engine that was flushed, restored, replaced by one that
//! lagged behind, or that goes on beside its successor, can withhold numbers but serve none a second time. A step whose
//! outcome is not known is never repeated.

use super::function::{Call, Minute, Verdict};
use super::reach::Away;
use crate::counters::KeyCharge;
use crate::records::Range;
use crate::{Error, Subject};
use ipse_model::{Charge, DEMO_DAILY_LIMIT, Day, DayAllowance, Key, KeyId};

/// How often a charge is tried again after a range was reserved for it. Twice is what a midnight takes.
const ROUNDS: u32 = 4;

/// How often a charge is tried again while somebody else reserves a range.
const MOMENTS: u32 = 200;

/// What the steps are carried out by: the engines themselves, or those of a simulation.
pub trait Engines: Sync {
    /// Asks the shared engine.
    fn ask(&self, subject: Subject, call: Call) -> impl Future<Output = Result<Verdict, Away>> + Send;

    /// Lets a moment pass, in which somebody else may be done.
    fn moment(&self) -> impl Future<Output = ()> + Send;

    /// Writes down, durably, that a minute paused a key.
    fn pause(&self, key: KeyId, minute: Minute) -> impl Future<Output = Result<(), Error>> + Send;

    /// Has the next range of a day reserved in the records and [offered](offer) to the shared engine, or waits for somebody
    /// who is about it.
    fn extend(
        &self,
        subject: Subject,
        day: Day,
        limit: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The same, for whom nobody waits.
    fn extend_later(&self, subject: Subject, day: Day, limit: u32);

    /// Has the next range of a day reserved in the records and [taken](super::lease::Lease::take) by this node, or waits for
    /// somebody who is about it. Says which it is.
    fn take(
        &self,
        subject: Subject,
        day: Day,
        limit: u32,
    ) -> impl Future<Output = Result<Range, Error>> + Send;
}

/// What is asked to charge one request of a key.
#[must_use]
pub fn charge_of_key(key: &Key) -> Call {
    Call::Charge { generation: key.resumes, limit: key.daily_limit }
}

/// What is asked to charge one request of the demo.
#[must_use]
pub fn charge_of_demo() -> Call {
    Call::ChargeDay { limit: DEMO_DAILY_LIMIT }
}

/// Charges one request of a key. Whoever has [asked](charge_of_key) already has heard the first verdict.
pub async fn charge_key(
    engines: &impl Engines,
    key: &Key,
    heard: Option<Verdict>,
) -> Result<KeyCharge, Error> {
    let (subject, limit) = (Subject::Key(key.id), key.daily_limit);
    match charge(engines, subject, limit, charge_of_key(key), heard).await? {
        Ok(charge) => Ok(KeyCharge::Charged(charge)),
        Err(Halt { minute, is_first }) => {
            let generation = minute.generation;
            engines.pause(key.id, minute).await?;
            // Who does not hear of it asks the records once more; so it may be lost.
            let _ = engines.ask(subject, Call::Confirm { generation }).await;
            Ok(if is_first { KeyCharge::Charged(Charge::BurstExceeded) } else { KeyCharge::Paused })
        }
    }
}

/// Charges one request of the demo. Whoever has [asked](charge_of_demo) already has heard the first verdict.
pub async fn charge_demo(
    engines: &impl Engines,
    heard: Option<Verdict>,
) -> Result<Result<DayAllowance, DayAllowance>, Error> {
    match charge(engines, Subject::Demo, DEMO_DAILY_LIMIT, charge_of_demo(), heard).await? {
        Ok(Charge::Granted(allowance)) => Ok(Ok(allowance)),
        Ok(Charge::DayUsedUp(allowance)) => Ok(Err(allowance)),
        Ok(Charge::BurstExceeded) | Err(_) => Err(Away::Unreadable.into()),
    }
}

/// Offers a range that was reserved. It is offered once: if no reply comes it is given up, because the engine that is asked
/// next may be another one.
pub async fn offer(engines: &impl Engines, subject: Subject, day: Day, range: Range) -> Result<(), Error> {
    let Range { from, to } = range;
    match engines.ask(subject, Call::Offer { day, from, to }).await? {
        Verdict::Done | Verdict::Late => Ok(()),
        Verdict::Stale => Err(Away::Stale.into()),
        _ => Err(Away::Unreadable.into()),
    }
}

/// What is done when a request is granted.
pub(super) fn grant(
    engines: &impl Engines,
    subject: Subject,
    allowance: DayAllowance,
    is_low: bool,
) -> Charge {
    if is_low {
        engines.extend_later(subject, allowance.day, allowance.limit);
    }
    Charge::Granted(allowance)
}

/// A key that is over its burst limit, or was.
struct Halt {
    minute: Minute,
    is_first: bool,
}

async fn charge(
    engines: &impl Engines,
    subject: Subject,
    limit: u32,
    call: Call,
    mut heard: Option<Verdict>,
) -> Result<Result<Charge, Halt>, Error> {
    let allowance = |day, used| DayAllowance { limit, remaining: limit.saturating_sub(used), day };
    let (mut rounds, mut moments) = (0, 0);
    while rounds < ROUNDS && moments < MOMENTS {
        let verdict = match heard.take() {
            Some(verdict) => verdict,
            None => engines.ask(subject, call.clone()).await?,
        };
        match verdict {
            Verdict::Granted { day, used, is_low } => {
                let allowance = allowance(day, used);
                return Ok(Ok(grant(engines, subject, allowance, is_low)));
            }
            Verdict::UsedUp { day, used } => return Ok(Ok(Charge::DayUsedUp(allowance(day, used)))),
            Verdict::Burst(minute) => return Ok(Err(Halt { minute, is_first: true })),
            Verdict::Paused(minute) => return Ok(Err(Halt { minute, is_first: false })),
            Verdict::Reserve(day) => {
                rounds += 1;
                engines.extend(subject, day, limit).await?;
            }
            Verdict::Wait => {
                moments += 1;
                engines.moment().await;
            }
            Verdict::Stale => return Err(Away::Stale.into()),
            Verdict::Done | Verdict::Late | Verdict::Seen(_) => return Err(Away::Unreadable.into()),
        }
    }
    Err(Away::Unsettled.into())
}
