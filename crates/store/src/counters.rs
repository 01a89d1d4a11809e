//! `Counters`: may this request be answered?

use crate::{CountersReport, Error, Ledger, Shared};
use ipse_model::{Charge, Day, DayAllowance, Key, KeyId, Now};
use std::sync::Arc;

/// Whose requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// All callers of the demo together.
    Demo,
    /// One key.
    Key(KeyId),
}

impl Subject {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Demo => 0,
            Self::Key(KeyId(id)) => id,
        }
    }

    pub(crate) fn from_number(number: i64) -> Self {
        if number == 0 { Self::Demo } else { Self::Key(KeyId(number)) }
    }
}

/// What came of charging a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCharge {
    /// The key was paused before; nothing was charged.
    Paused,
    /// It was charged.
    Charged(Charge),
}

impl From<Result<DayAllowance, DayAllowance>> for KeyCharge {
    fn from(charged: Result<DayAllowance, DayAllowance>) -> Self {
        Self::Charged(charged.map_or_else(Charge::DayUsedUp, Charge::Granted))
    }
}

/// A request that is charged with others.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its key; the demo has none.
    pub key: Option<Key>,
    /// The moment it is judged by.
    pub now: Now,
}

/// Exact counters. Both the local ledger and a shared engine keep this contract, which one suite of tests holds
/// them to:
///
/// - A request that is granted stays counted, whatever dies afterwards.
/// - When [`Charge::BurstExceeded`] comes back, the key's pause is durable.
/// - An error means that nothing is known: it is never answered as a refusal and never pauses a key.
pub trait Counters: Send + Sync + 'static {
    /// Charges one request of an active or paused key.
    fn charge_key(&self, key: &Key, now: Now) -> impl Future<Output = Result<KeyCharge, Error>> + Send;

    /// Charges one request of the demo. It is granted or finds the day used up.
    fn charge_demo(
        &self,
        now: Now,
    ) -> impl Future<Output = Result<Result<DayAllowance, DayAllowance>, Error>> + Send;

    /// Looks at the counters of several keys, which are to be [granted](Self::grant_key) something next.
    fn foresee(&self, _keys: impl Iterator<Item = KeyId>) {}

    /// Grants one request of a key if that can be decided in this moment and without a write of its own; else does nothing,
    /// and the request is to be [charged](Self::charge_key). What was granted must be [written](Self::write) before it is
    /// answered.
    fn grant_key(&self, _key: &Key, _now: Now, _unwritten: &mut Unwritten) -> Option<DayAllowance> {
        None
    }

    /// The same for the demo.
    fn grant_demo(&self, _now: Now, _unwritten: &mut Unwritten) -> Option<DayAllowance> {
        None
    }

    /// Writes down what was granted. After an error nothing of it may be answered, and none of it is charged.
    fn write(&self, _unwritten: &mut Unwritten) -> Result<(), Error> {
        Ok(())
    }

    /// Whether every charge is decided by somebody who is better asked about [many at once](Self::charge_all). Then nothing is
    /// ever [granted](Self::grant_key) at once.
    fn asks_elsewhere(&self) -> bool {
        false
    }

    /// Charges several requests, each as if it came alone. What is returned stands in their order.
    fn charge_all(&self, asked: Vec<Asked>) -> impl Future<Output = Vec<Result<KeyCharge, Error>>> + Send {
        async move {
            let mut charged = Vec::with_capacity(asked.len());
            for Asked { key, now } in asked {
                charged.push(match key {
                    Some(key) => self.charge_key(&key, now).await,
                    None => self.charge_demo(now).await.map(KeyCharge::from),
                });
            }
            charged
        }
    }

    /// Notes that a request of an inactive key was refused. It is charged nothing; its owner sees it among the outcomes.
    fn note_refusal(&self, key: KeyId, now: Now);

    /// How much a subject has used on a day, as far as the counters still know it.
    fn used(&self, subject: Subject, day: Day) -> impl Future<Output = Result<u32, Error>> + Send;

    /// Forgets a key that was deleted.
    fn forget(&self, key: KeyId);

    /// How the engine is doing.
    fn engine_report(&self) -> CountersReport;
}

/// What was granted and is not written yet.
#[derive(Debug, Default)]
pub struct Unwritten {
    /// To whom, and when.
    pub(crate) granted: Vec<(Subject, Now)>,
    /// Records of the journal, not sealed yet, and the latest moment among them.
    pub(crate) records: Vec<u8>,
    pub(crate) latest_ms: u64,
}

impl Unwritten {
    /// Whether all that was granted is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }
}

/// The engine that a server counts with.
#[derive(Clone)]
pub enum Engine {
    /// Its own, on one machine.
    Ledger(Arc<Ledger>),
    /// One that it shares with others.
    Shared(Arc<Shared>),
}

impl Engine {
    /// Folds what changed into the records. To be called about once a second.
    pub async fn fold(&self, now: Now) -> Result<(), Error> {
        match self {
            Self::Ledger(ledger) => ledger.fold(now).await,
            Self::Shared(shared) => shared.fold(now).await,
        }
    }

    /// Writes everything down. To be called when nothing is charged any more.
    pub async fn close(&self, now: Now) -> Result<(), Error> {
        match self {
            Self::Ledger(ledger) => ledger.close(now).await,
            Self::Shared(shared) => shared.close(now).await,
        }
    }
}

impl Counters for Engine {
    async fn charge_key(&self, key: &Key, now: Now) -> Result<KeyCharge, Error> {
        match self {
            Self::Ledger(ledger) => ledger.charge_key(key, now).await,
            // In a box, because what asks a server is large, and room for it is moved with every request.
            Self::Shared(shared) => Box::pin(shared.charge_key(key, now)).await,
        }
    }

    async fn charge_demo(&self, now: Now) -> Result<Result<DayAllowance, DayAllowance>, Error> {
        match self {
            Self::Ledger(ledger) => ledger.charge_demo(now).await,
            Self::Shared(shared) => Box::pin(shared.charge_demo(now)).await,
        }
    }

    fn foresee(&self, keys: impl Iterator<Item = KeyId>) {
        match self {
            Self::Ledger(ledger) => ledger.foresee(keys),
            Self::Shared(_) => {}
        }
    }

    fn grant_key(&self, key: &Key, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        match self {
            Self::Ledger(ledger) => ledger.grant_key(key, now, unwritten),
            Self::Shared(_) => None,
        }
    }

    fn grant_demo(&self, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        match self {
            Self::Ledger(ledger) => ledger.grant_demo(now, unwritten),
            Self::Shared(_) => None,
        }
    }

    fn write(&self, unwritten: &mut Unwritten) -> Result<(), Error> {
        match self {
            Self::Ledger(ledger) => ledger.write(unwritten),
            Self::Shared(_) => Ok(()),
        }
    }

    fn asks_elsewhere(&self) -> bool {
        match self {
            Self::Ledger(ledger) => ledger.asks_elsewhere(),
            Self::Shared(shared) => shared.asks_elsewhere(),
        }
    }

    async fn charge_all(&self, asked: Vec<Asked>) -> Vec<Result<KeyCharge, Error>> {
        match self {
            Self::Ledger(ledger) => ledger.charge_all(asked).await,
            Self::Shared(shared) => shared.charge_all(asked).await,
        }
    }

    fn note_refusal(&self, key: KeyId, now: Now) {
        match self {
            Self::Ledger(ledger) => ledger.note_refusal(key, now),
            Self::Shared(shared) => shared.note_refusal(key, now),
        }
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        match self {
            Self::Ledger(ledger) => ledger.used(subject, day).await,
            Self::Shared(shared) => shared.used(subject, day).await,
        }
    }

    fn forget(&self, key: KeyId) {
        match self {
            Self::Ledger(ledger) => ledger.forget(key),
            Self::Shared(shared) => shared.forget(key),
        }
    }

    fn engine_report(&self) -> CountersReport {
        match self {
            Self::Ledger(ledger) => ledger.engine_report(),
            Self::Shared(shared) => shared.engine_report(),
        }
    }
}
