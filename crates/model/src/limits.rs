//! How much is too much: the day's quota and the burst window, as rules over given moments.
//!
//! Both engines of `Counters` follow these rules; the local ledger uses this code itself.

use crate::{Day, Now, Window};

/// Answers per key and day on the free tier.
pub const DAILY_LIMIT: u32 = 10_000;
/// Answers per day of the demo endpoint, for all callers together.
pub const DEMO_DAILY_LIMIT: u32 = 1_000;
/// Requests that a key may make in any [`BURST_WINDOW_MS`]; the next one pauses it.
pub const BURST_LIMIT: u32 = 300;
/// The length of the burst window.
pub const BURST_WINDOW_MS: u64 = 60_000;
/// Keys that one account may hold, whatever their state.
pub const KEYS_PER_ACCOUNT: u32 = 10;

/// The day's quota after a charge, as the rate headers tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayAllowance {
    /// Answers per day.
    pub limit: u32,
    /// Answers left.
    pub remaining: u32,
    /// The day that was charged. It may be ahead of the wall clock if that was set back.
    pub day: Day,
}

/// What came of charging one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// It may be answered.
    Granted(DayAllowance),
    /// The day's quota is used up.
    DayUsedUp(DayAllowance),
    /// It was one too many within the burst window: the key is to be paused.
    BurstExceeded,
}

/// The counters of one subject: today's count and, for keys, the burst window.
#[derive(Clone, Debug)]
pub struct Meter {
    day: Day,
    used: u32,
    window: Window,
}

impl Meter {
    /// A meter that has counted `used` requests on `day`.
    #[must_use]
    pub fn new(day: Day, used: u32, window: Window) -> Self {
        Self { day, used, window }
    }

    /// The day that is being counted.
    #[must_use]
    pub fn day(&self) -> Day {
        self.day
    }

    /// Requests charged on [`Meter::day`].
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The burst window, for giving its memory back or clearing it on resume.
    pub fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// The burst window.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Turns to a later day, of which so much is used already. An earlier day is ignored: the day never goes back.
    pub fn turn_to(&mut self, day: Day, used: u32) {
        if day > self.day {
            self.day = day;
            self.used = used;
        }
    }

    /// Undoes one charge that could not be made durable.
    pub fn take_back(&mut self, used_before: u32, was_in_window: bool) {
        self.used = used_before;
        if was_in_window {
            self.window.take_back();
        }
    }

    /// Charges one request of a key. Burst comes first; every request of an active key is charged to its day
    /// until the day is full, and one that finds the day full still counts towards the burst limit.
    pub fn charge_key(&mut self, now: Now, daily_limit: u32) -> Charge {
        let admitted = self.window.admit(now.boot_ms);
        let day = self.charge_day(now, daily_limit);
        if admitted { day } else { Charge::BurstExceeded }
    }

    /// Charges one request of a key that has room in its window and on its day. If it has not, nothing is charged.
    pub fn grant_key(&mut self, now: Now, daily_limit: u32) -> Option<DayAllowance> {
        self.turn_to(now.day(), 0);
        if self.used >= daily_limit || !self.window.admit(now.boot_ms) {
            return None;
        }
        Some(self.count(daily_limit))
    }

    /// Charges one request to the day alone if that has room, as the demo does. If it has not, nothing is charged.
    pub fn grant_day(&mut self, now: Now, daily_limit: u32) -> Option<DayAllowance> {
        self.turn_to(now.day(), 0);
        (self.used < daily_limit).then(|| self.count(daily_limit))
    }

    /// Charges one request to the day alone, as the demo does.
    pub fn charge_day(&mut self, now: Now, daily_limit: u32) -> Charge {
        match self.grant_day(now, daily_limit) {
            Some(allowance) => Charge::Granted(allowance),
            None => Charge::DayUsedUp(DayAllowance { limit: daily_limit, remaining: 0, day: self.day }),
        }
    }

    /// Counts one request for which the day has room.
    fn count(&mut self, daily_limit: u32) -> DayAllowance {
        self.used += 1;
        DayAllowance { limit: daily_limit, remaining: daily_limit - self.used, day: self.day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_ms: i64, boot_ms: u64) -> Now {
        Now { unix_ms, boot_ms }
    }

    fn meter() -> Meter {
        Meter::new(Day(0), 0, Window::default())
    }

    #[test]
    fn a_charge_that_is_taken_back_leaves_no_trace() {
        let mut meter = Meter::new(Day(0), 0, Window::default());
        for _ in 0..300 {
            meter.charge_key(at(0, 1000), 10_000);
        }
        // This one takes the place of the first, and could not be written.
        assert!(matches!(meter.charge_key(at(0, 61_000), 10_000), Charge::Granted(_)));
        meter.take_back(300, true);
        assert_eq!(meter.used(), 300);
        assert_eq!(meter.charge_key(at(0, 60_999), 10_000), Charge::BurstExceeded);
    }

    #[test]
    fn only_the_last_request_brings_back_what_it_replaced() {
        let mut meter = meter();
        for moment in 1..=302 {
            assert!(matches!(meter.charge_key(at(0, moment * 200), 10_000), Charge::Granted(_)));
        }
        let times = |from: u64, to: u64| (from..=to).map(|moment| moment * 200).collect::<Vec<_>>();
        assert_eq!(meter.window().times().collect::<Vec<_>>(), times(3, 302));
        meter.take_back(301, true);
        assert_eq!(meter.window().times().collect::<Vec<_>>(), times(2, 301));
        meter.take_back(300, true);
        assert_eq!(meter.window().times().collect::<Vec<_>>(), times(2, 300));
    }

    #[test]
    fn what_is_not_granted_is_not_charged() {
        let mut meter = meter();
        let first = DayAllowance { limit: 300, remaining: 299, day: Day(0) };
        assert_eq!(meter.grant_key(at(0, 0), 300), Some(first));
        assert_eq!(meter.grant_day(at(0, 0), 1), None, "the day is used up");
        assert_eq!(meter.grant_key(at(0, 0), 1), None);
        assert_eq!(meter.window().times().count(), 1);
        for _ in 1..300 {
            assert!(meter.grant_key(at(0, 0), 10_000).is_some());
        }
        assert_eq!(meter.grant_key(at(0, 59_999), 10_000), None, "the window is full");
        assert_eq!(meter.used(), 300);
        assert!(meter.grant_key(at(0, 60_000), 10_000).is_some());
    }

    #[test]
    fn a_request_that_read_the_clock_before_the_memory_was_given_back_still_finds_its_minute() {
        let mut window = Window::default();
        for _ in 0..300 {
            assert!(window.admit(0));
        }
        window.shrink(60_000);
        assert!(!window.admit(59_999), "all 300 are 59,999 ms old");
    }

    #[test]
    fn the_daily_limit_is_a_number_of_answers() {
        let mut meter = meter();
        for remaining in (0..10).rev() {
            let allowance = DayAllowance { limit: 10, remaining, day: Day(0) };
            assert_eq!(meter.charge_day(at(5, 5), 10), Charge::Granted(allowance));
        }
        let empty = DayAllowance { limit: 10, remaining: 0, day: Day(0) };
        assert_eq!(meter.charge_day(at(6, 6), 10), Charge::DayUsedUp(empty));
        assert_eq!(meter.used(), 10, "a refused request is not counted");
    }

    #[test]
    fn a_lowered_limit_leaves_nothing() {
        let mut meter = Meter::new(Day(0), 50, Window::default());
        let empty = DayAllowance { limit: 10, remaining: 0, day: Day(0) };
        assert_eq!(meter.charge_day(at(6, 6), 10), Charge::DayUsedUp(empty));
    }

    #[test]
    fn midnight_starts_a_new_count_and_the_day_never_goes_back() {
        const MIDNIGHT: i64 = 86_400_000;
        let mut meter = Meter::new(Day(0), 10, Window::default());
        assert!(matches!(meter.charge_day(at(MIDNIGHT - 1, 0), 10), Charge::DayUsedUp(_)));
        let first = DayAllowance { limit: 10, remaining: 9, day: Day(1) };
        assert_eq!(meter.charge_day(at(MIDNIGHT, 1), 10), Charge::Granted(first));
        let second = DayAllowance { limit: 10, remaining: 8, day: Day(1) };
        assert_eq!(meter.charge_day(at(MIDNIGHT - 1, 2), 10), Charge::Granted(second));
    }

    #[test]
    fn over_the_quota_still_counts_towards_the_burst() {
        let mut meter = meter();
        assert!(matches!(meter.charge_key(at(0, 0), 1), Charge::Granted(_)));
        for _ in 1..300 {
            assert!(matches!(meter.charge_key(at(0, 0), 1), Charge::DayUsedUp(_)));
        }
        assert_eq!(meter.charge_key(at(0, 0), 1), Charge::BurstExceeded);
    }

    #[test]
    fn the_request_that_exceeds_the_burst_is_charged_to_the_day() {
        let mut meter = meter();
        for _ in 0..300 {
            meter.charge_key(at(0, 0), 10_000);
        }
        assert_eq!(meter.charge_key(at(0, 0), 10_000), Charge::BurstExceeded);
        assert_eq!(meter.used(), 301);
    }

    #[test]
    fn the_wall_clock_does_not_move_the_burst_window() {
        let mut meter = meter();
        for i in 0..300 {
            let wild = if i % 2 == 0 { i64::from(i) * 7_000_000 } else { 0 };
            assert!(matches!(meter.charge_key(at(wild, 10), 10_000), Charge::Granted(_)));
        }
        assert_eq!(meter.charge_key(at(0, 10), 10_000), Charge::BurstExceeded);
    }
}
