//! `Counters`: may this request be answered?

use crate::Error;
use ipse_model::{Charge, Day, DayAllowance, Key, KeyId, Now};

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

    /// Notes that a request of an inactive key was refused. It is charged nothing; its owner sees it among the outcomes.
    fn note_refusal(&self, key: KeyId, now: Now);

    /// How much a subject has used on a day, as far as the counters still know it.
    fn used(&self, subject: Subject, day: Day) -> impl Future<Output = Result<u32, Error>> + Send;

    /// Forgets a key that was deleted.
    fn forget(&self, key: KeyId);
}
