//! The only file that reads a clock. A request's [`Now`] is made here, once, and passed down.

use ipse_model::Now;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, PoisonError};

/// Where moments come from: the system, or a hand that a test moves.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Hand(ClockHand),
}

impl Clock {
    /// The machine's clocks.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until its hand is moved.
    #[must_use]
    pub fn standing_at(now: Now) -> (Self, ClockHand) {
        let hand = ClockHand(Arc::new(Mutex::new(now)));
        (Self(Source::Hand(hand.clone())), hand)
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        match &self.0 {
            Source::System => system_now(),
            Source::Hand(hand) => hand.now(),
        }
    }
}

/// Moves a clock that stands still.
#[derive(Clone)]
pub struct ClockHand(Arc<Mutex<Now>>);

impl ClockHand {
    /// Sets both readings.
    pub fn set(&self, now: Now) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Lets time pass on both clocks.
    pub fn advance_ms(&self, ms: u32) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        now.unix_ms += i64::from(ms);
        now.boot_ms += u64::from(ms);
    }

    /// What both show.
    #[must_use]
    pub fn now(&self) -> Now {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock's own file")]
fn system_now() -> Now {
    #[cfg(target_os = "linux")]
    const SINCE_BOOT: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const SINCE_BOOT: ClockId = ClockId::Monotonic;
    let wall = clock_gettime(ClockId::Realtime);
    let boot = clock_gettime(SINCE_BOOT);
    Now {
        unix_ms: wall.tv_sec * 1000 + wall.tv_nsec / 1_000_000,
        // The time since boot is never negative.
        boot_ms: u64::try_from(boot.tv_sec * 1000 + boot.tv_nsec / 1_000_000).unwrap_or_default(),
    }
}
