//! How much is too much: the day's quota and the burst window, as rules over given moments.
//!
//! Both engines of `Counters` follow these rules; the local ledger uses this code itself.

use crate::{Day, Now};
use std::collections::VecDeque;

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

/// The exact sliding window: the times of the last [`BURST_LIMIT`] requests. One more is within the limit if the
/// oldest of them is a minute old.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// One more than [`BURST_LIMIT`] if the last request took the place of another, which then is the first.
    times: VecDeque<u64>,
}

impl Window {
    /// Records a request at `boot_ms` and says whether it is within the limit. One that is not is not recorded.
    ///
    /// Threads may bring their moments slightly out of order; a moment before the last one counts as the last
    /// one, so the window only ever moves forward.
    pub fn admit(&mut self, boot_ms: u64) -> bool {
        let moment = self.moment(boot_ms);
        if self.has_no_room(moment) {
            return false;
        }
        if self.replaced() > 0 {
            self.times.pop_front();
        }
        self.times.push_back(moment);
        true
    }

    /// Whether a request at `boot_ms` would be one too many.
    #[must_use]
    pub fn is_full(&self, boot_ms: u64) -> bool {
        self.has_no_room(self.moment(boot_ms))
    }

    fn has_no_room(&self, moment: u64) -> bool {
        self.times.len() >= BURST_LIMIT as usize
            && self.times.get(self.replaced()).is_some_and(|oldest| moment - oldest < BURST_WINDOW_MS)
    }

    /// How many requests at the beginning are kept only for the case that the last one is undone.
    fn replaced(&self) -> usize {
        self.times.len().saturating_sub(BURST_LIMIT as usize)
    }

    fn moment(&self, boot_ms: u64) -> u64 {
        self.times.back().map_or(boot_ms, |last| boot_ms.max(*last))
    }

    /// Undoes the last request that was admitted.
    fn take_back(&mut self) {
        self.times.pop_back();
    }

    /// Starts a fresh minute.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gives the memory back if no request is younger than two minutes. Says whether any memory is still held.
    ///
    /// One minute would do if moments came in order; but a request may have read the clock a little before
    /// `boot_ms` and come here a little after, and what is in its minute must still be known.
    pub fn shrink(&mut self, boot_ms: u64) -> bool {
        if self.times.back().is_none_or(|last| boot_ms.saturating_sub(*last) >= 2 * BURST_WINDOW_MS) {
            self.clear();
        }
        self.times.capacity() > 0
    }

    /// How many requests were recorded in each of the sixty seconds that end with `boot_ms`, the oldest first. One that was
    /// recorded later, out of order, belongs to the last of them.
    #[must_use]
    pub fn last_minute(&self, boot_ms: u64) -> [u32; 60] {
        let mut seconds = [0; 60];
        for time in self.times() {
            let age = usize::try_from(boot_ms.saturating_sub(time) / 1000).unwrap_or(usize::MAX);
            if let Some(second) = seconds.iter_mut().nth_back(age) {
                *second += 1;
            }
        }
        seconds
    }

    /// The recorded moments, oldest first.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.times.range(self.replaced()..).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(unix_ms: i64, boot_ms: u64) -> Now {
        Now { unix_ms, boot_ms }
    }

    fn meter() -> Meter {
        Meter::new(Day(0), 0, Window::default())
    }

    #[test]
    fn three_hundred_pass_in_any_minute_and_the_next_does_not() {
        let mut window = Window::default();
        for i in 0..300 {
            assert!(window.admit(1000 + i));
        }
        assert!(!window.admit(1299));
        assert!(!window.admit(60_999), "the first is 59,999 ms old");
        assert!(window.admit(61_000), "the first is 60,000 ms old and gone");
        assert!(!window.admit(61_000));
        assert!(window.admit(61_001));
    }

    #[test]
    fn the_window_has_no_calendar_minutes() {
        let mut window = Window::default();
        for _ in 0..150 {
            assert!(window.admit(59_000));
        }
        for _ in 0..150 {
            assert!(window.admit(61_000));
        }
        assert!(!window.admit(61_000));
    }

    #[test]
    fn moments_out_of_order_count_as_the_latest() {
        let mut window = Window::default();
        assert!(window.admit(5000));
        assert!(window.admit(4000));
        assert_eq!(window.times().collect::<Vec<_>>(), [5000, 5000]);
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
            assert!(matches!(meter.charge_key(at(0, moment * 60_000), 10_000), Charge::Granted(_)));
        }
        let times = |from: u64, to: u64| (from..=to).map(|moment| moment * 60_000).collect::<Vec<_>>();
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
    fn the_last_minute_is_told_second_by_second() {
        let mut window = Window::default();
        for time in [1_000, 1_001, 30_500, 60_000, 60_999, 61_000] {
            assert!(window.admit(time));
        }
        let minute = window.last_minute(61_000);
        assert_eq!((minute[0], minute[29], minute[58], minute[59]), (1, 1, 1, 2), "{minute:?}");
        assert_eq!(minute.iter().sum::<u32>(), 5, "the first is a minute old");
        assert_eq!(window.last_minute(60_000).iter().sum::<u32>(), 6);
        assert_eq!(window.last_minute(60_000)[59], 3, "what was recorded out of order is of the last second");
        assert_eq!(window.last_minute(u64::MAX), [0; 60]);
    }

    #[test]
    fn an_idle_window_gives_its_memory_back() {
        let mut window = Window::default();
        window.admit(0);
        assert!(window.shrink(119_999));
        assert!(!window.shrink(120_000));
        assert_eq!(window.times().count(), 0);
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

    proptest! {
        #[test]
        fn the_window_agrees_with_counting_by_hand(steps in prop::collection::vec(0u64..2_000, 1..2_000)) {
            let mut window = Window::default();
            let mut admitted: Vec<u64> = Vec::new();
            let mut moment = 0;
            for step in steps {
                moment += step / 8;
                let within = admitted.iter().filter(|time| moment - **time < BURST_WINDOW_MS).count();
                let expected = within < BURST_LIMIT as usize;
                prop_assert_eq!(window.admit(moment), expected);
                if expected {
                    admitted.push(moment);
                }
            }
        }
    }
}
