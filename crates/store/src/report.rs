//! What the counters tell about themselves, as plain numbers, for whoever shows them to the operator.

use crate::{Outage, SharedReport};

/// One report. Whoever keeps counters makes it of what it has at hand: nothing is asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersReport {
    /// The engine in one word, such as `ledger`.
    pub engine: &'static str,
    /// How many keys this process has paused for a burst.
    pub pauses: u64,
    /// What is done while an engine is away that several nodes share, and how that engine is doing; `None` where there is
    /// none.
    pub shared: Option<(Outage, SharedReport)>,
}

impl Outage {
    /// Its name in one word, as it is set.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Lease => "lease",
            Self::Open => "open",
        }
    }
}
