//! Why a request is not answered. A refusal is an outcome, not an error; it knows no HTTP.

use crate::{DayAllowance, Now};

/// Every reason for a 401, 403 or 429, with the data that its answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Neither the header nor the query holds a key.
    MissingKey,
    /// The key is not one of ours.
    InvalidKey,
    /// The key was deactivated.
    InactiveKey,
    /// This request was one too many within a minute, and paused the key.
    BurstExceeded(Now),
    /// The key was paused before.
    Paused(Now),
    /// The key's quota of the day is used up.
    DayUsedUp(Now, DayAllowance),
    /// The demo's shared quota of the day is used up.
    DemoUsedUp(Now, DayAllowance),
}
