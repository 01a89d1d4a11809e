//! What was seen in simulated worlds.

use std::fmt;

/// What worlds came to.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) answered: u64,
    /// Of those, how many without the engines.
    pub(super) leased: u64,
    /// Of those, how many in a turn with others.
    pub(super) granted: u64,
    /// How many were granted in a turn that could not be written, or whose process died.
    pub(super) taken_back: u64,
    pub(super) used_up: u64,
    pub(super) pauses: u64,
    /// How many a node found that was alone.
    pub(super) paused_alone: u64,
    pub(super) unknown: u64,
    pub(super) mishaps: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            requests,
            answered,
            leased,
            granted,
            taken_back,
            used_up,
            pauses,
            paused_alone,
            unknown,
            mishaps,
        } = self;
        write!(f, "{requests} requests with {mishaps} mishaps, {answered} answered")?;
        if *leased > 0 {
            write!(f, " ({leased} without the engines)")?;
        }
        if *granted > 0 {
            write!(f, " ({granted} in turns; {taken_back} more were taken back)")?;
        }
        write!(f, ", {used_up} over the day, {pauses} pauses")?;
        if *paused_alone > 0 {
            write!(f, " ({paused_alone} found by one node alone)")?;
        }
        write!(f, ", {unknown} not decided")
    }
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.answered += more.answered;
        self.leased += more.leased;
        self.granted += more.granted;
        self.taken_back += more.taken_back;
        self.paused_alone += more.paused_alone;
        self.used_up += more.used_up;
        self.pauses += more.pauses;
        self.unknown += more.unknown;
        self.mishaps += more.mishaps;
    }
}
