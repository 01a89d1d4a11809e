//! What was seen in simulated worlds.

/// What worlds came to.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) answered: u64,
    /// Of those, how many without the engines.
    pub(super) leased: u64,
    pub(super) used_up: u64,
    pub(super) pauses: u64,
    /// How many a node found that was alone.
    pub(super) paused_alone: u64,
    pub(super) unknown: u64,
    pub(super) mishaps: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.answered += more.answered;
        self.leased += more.leased;
        self.paused_alone += more.paused_alone;
        self.used_up += more.used_up;
        self.pauses += more.pauses;
        self.unknown += more.unknown;
        self.mishaps += more.mishaps;
    }
}
