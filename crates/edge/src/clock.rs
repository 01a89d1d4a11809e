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
            Source::System => system_now().0,
            Source::Hand(hand) => hand.now(),
        }
    }

    /// How much processor time this process has used, in milliseconds.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock's own file")]
    pub fn processor_ms() -> u64 {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        u64::try_from(used.tv_sec * 1000 + used.tv_nsec / 1_000_000).unwrap_or_default()
    }

    /// Reads both clocks, and begins to measure with the same reading.
    #[must_use]
    pub(crate) fn begin(&self) -> (Now, Stopwatch) {
        match &self.0 {
            Source::System => {
                let (now, begun_ns) = system_now();
                (now, Stopwatch { begun_ns, hand: None })
            }
            Source::Hand(hand) => {
                let now = hand.now();
                (now, Stopwatch { begun_ns: ms_to_ns(now.boot_ms), hand: Some(hand.clone()) })
            }
        }
    }
}

/// How long ago something began. It judges nothing: what is decided about a request is decided by its [`Now`].
#[derive(Clone)]
pub struct Stopwatch {
    begun_ns: u64,
    /// Whoever moves the clock, where it is not the system's.
    hand: Option<ClockHand>,
}

/// Two are the same if they began in one moment.
impl PartialEq for Stopwatch {
    fn eq(&self, other: &Self) -> bool {
        self.begun_ns == other.begun_ns
    }
}

/// What the clock of a [`Stopwatch`] showed.
#[derive(Clone, Copy)]
pub struct Reading(u64);

impl Stopwatch {
    /// One that begins now. For tests that make up a request.
    #[must_use]
    pub fn begun() -> Self {
        Clock::system().begin().1
    }

    /// Nanoseconds since the beginning.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.until(self.reading())
    }

    /// What its clock shows now, for all that ends in this moment.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading(match &self.hand {
            None => system_boot_ns(),
            Some(hand) => ms_to_ns(hand.now().boot_ms),
        })
    }

    /// Nanoseconds from the beginning to this moment.
    #[must_use]
    pub fn until(&self, end: Reading) -> u64 {
        end.0.saturating_sub(self.begun_ns)
    }
}

fn ms_to_ns(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
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

#[cfg(target_os = "linux")]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Both clocks, and the second one to the nanosecond.
#[expect(clippy::disallowed_methods, reason = "this is the clock's own file")]
fn system_now() -> (Now, u64) {
    let wall = clock_gettime(ClockId::Realtime);
    let boot_ns = system_boot_ns();
    let now = Now { unix_ms: wall.tv_sec * 1000 + wall.tv_nsec / 1_000_000, boot_ms: boot_ns / 1_000_000 };
    (now, boot_ns)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock's own file")]
fn system_boot_ns() -> u64 {
    let boot = clock_gettime(SINCE_BOOT);
    // The time since boot is never negative.
    u64::try_from(boot.tv_sec * 1_000_000_000 + boot.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_goes_by_the_clock_that_began_it() {
        let (clock, hand) = Clock::standing_at(Now { unix_ms: 0, boot_ms: 5 });
        let (now, stopwatch) = clock.begin();
        assert_eq!((now.boot_ms, stopwatch.elapsed_ns()), (5, 0));
        hand.advance_ms(3);
        assert_eq!(stopwatch.elapsed_ns(), 3_000_000);
        hand.set(Now { unix_ms: 0, boot_ms: 1 });
        assert_eq!(stopwatch.elapsed_ns(), 0, "a clock that goes back measures nothing");
        assert!(Stopwatch::begun().elapsed_ns() < 1_000_000_000);
    }
}
