//! Measures how long something took; nothing else here reads a clock.

use std::time::{Duration, Instant};

/// A running measurement.
#[derive(Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "a campaign's own duration has nothing to do with a request's moment"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// What has passed.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "see `start`")]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The same in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}
