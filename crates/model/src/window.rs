//! The exact sliding window of the burst limit, in little memory: every key that is asked for has one.

use crate::{BURST_LIMIT, BURST_WINDOW_MS};

/// As many moments are kept at most.
const MOST: usize = BURST_LIMIT as usize + 1;
/// As many have room in the ring at first.
const FEW: usize = 8;
/// As many stand beside the ring.
const LATE: usize = 4;
/// So old a moment says nothing any more to somebody who comes now, even if they read the clock a little while ago.
const STALE_AFTER_MS: u64 = BURST_WINDOW_MS + 3_000;
/// The first and the last moment are at most so far apart that their lowest bits tell them apart.
const LONGEST_SPAN_MS: u64 = u16::MAX as u64;

/// The times of the last [`BURST_LIMIT`] requests, as far as they matter. One more is within the limit if the oldest of them is a
/// minute old.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The lowest bits of each moment but the last few, in a ring.
    ring: Box<[u16]>,
    first: u16,
    /// How many moments there are in all. One more than [`BURST_LIMIT`] if the last request took the place of another, which then
    /// is the first.
    count: u16,
    /// The last few, and how many they are. They stand with everything else that a request needs: the ring is elsewhere in
    /// memory, and this way it is needed by few.
    late: [u16; LATE],
    late_count: u8,
    /// The first moment is not further from the last one than this. So it need not be looked at with every request: it stands
    /// elsewhere in memory than those that are written now.
    span_ms: u16,
    /// The last moment, whole.
    last_ms: u64,
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
        self.reach(moment);
        if self.replaced() > 0 {
            self.forget_first();
        }
        self.push(moment);
        true
    }

    /// Whether a request at `boot_ms` would be one too many.
    #[must_use]
    pub fn is_full(&self, boot_ms: u64) -> bool {
        self.has_no_room(self.moment(boot_ms))
    }

    fn has_no_room(&self, moment: u64) -> bool {
        let since_last = moment - self.last_ms;
        u32::from(self.count) >= BURST_LIMIT
            && since_last < BURST_WINDOW_MS
            && since_last + self.before_last(self.replaced()) < BURST_WINDOW_MS
    }

    /// How many requests at the beginning are kept only for the case that the last one is undone.
    fn replaced(&self) -> usize {
        usize::from(self.count).saturating_sub(BURST_LIMIT as usize)
    }

    /// A moment before the last one counts as that. Of a window in which nothing is, the last one was at the beginning of time.
    fn moment(&self, boot_ms: u64) -> u64 {
        boot_ms.max(self.last_ms)
    }

    /// How many are in the ring.
    fn in_ring(&self) -> usize {
        usize::from(self.count) - usize::from(self.late_count)
    }

    /// Where in the ring the moment stands that has so many before it.
    fn place(&self, number: usize) -> usize {
        let place = usize::from(self.first) + number;
        if place < self.ring.len() { place } else { place - self.ring.len() }
    }

    /// How long before the last moment the one was that has so many before it.
    fn before_last(&self, number: usize) -> u64 {
        let bits = match number.checked_sub(self.in_ring()) {
            Some(number) => self.late.get(number),
            None => self.ring.get(self.place(number)),
        };
        lowest_bits(self.last_ms).wrapping_sub(bits.copied().unwrap_or_default()).into()
    }

    fn push(&mut self, moment: u64) {
        if usize::from(self.late_count) == LATE {
            self.settle();
        }
        self.late[usize::from(self.late_count)] = lowest_bits(moment);
        self.late_count += 1;
        self.count += 1;
        self.last_ms = moment;
    }

    /// Whether the next moment needs more room in the ring than there is.
    fn is_to_grow(&self) -> bool {
        usize::from(self.late_count) == LATE && usize::from(self.count) > self.ring.len()
    }

    /// Puts the last few into the ring.
    fn settle(&mut self) {
        let in_ring = self.in_ring();
        if self.is_to_grow() {
            let length = (2 * self.ring.len()).clamp(FEW, MOST);
            let in_order = (0..in_ring).map(|number| self.ring[self.place(number)]);
            self.ring = in_order.chain(std::iter::repeat(0)).take(length).collect();
            self.first = 0;
        }
        for (number, bits) in self.late.into_iter().enumerate() {
            let place = self.place(in_ring + number);
            self.ring[place] = bits;
        }
        self.late_count = 0;
    }

    /// Has the span reach as far as `moment`. Moments at its beginning may have to leave for that, and do if there is no room.
    fn reach(&mut self, moment: u64) {
        let since_last = moment - self.last_ms;
        let mut span = since_last + u64::from(self.span_ms);
        if span > LONGEST_SPAN_MS || self.is_to_grow() {
            while self.count > 0 && since_last + self.before_last(0) >= STALE_AFTER_MS {
                self.forget_first();
            }
            span = if self.count > 0 { since_last + self.before_last(0) } else { 0 };
        }
        self.span_ms = u16::try_from(span).unwrap_or(u16::MAX);
    }

    fn forget_first(&mut self) {
        if self.in_ring() > 0 {
            self.first = u16::try_from(self.place(1)).unwrap_or_default();
        } else {
            self.late.rotate_left(1);
            self.late_count -= 1;
        }
        self.count -= 1;
    }

    /// Undoes the last request that was admitted.
    pub(crate) fn take_back(&mut self) {
        let Some(before) = self.count.checked_sub(1) else { return };
        self.last_ms = match before.checked_sub(1) {
            Some(number) => self.last_ms - self.before_last(number.into()),
            None => 0,
        };
        self.count = before;
        self.late_count = self.late_count.saturating_sub(1);
    }

    /// Starts a fresh minute.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gives the memory back if no request is younger than two minutes. Says whether one is.
    ///
    /// One minute would do if moments came in order; but a request may have read the clock a little before
    /// `boot_ms` and come here a little after, and what is in its minute must still be known.
    pub fn shrink(&mut self, boot_ms: u64) -> bool {
        if self.count == 0 || boot_ms.saturating_sub(self.last_ms) >= 2 * BURST_WINDOW_MS {
            self.clear();
        }
        self.count > 0
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

    /// The recorded moments of the last minute, and perhaps some before it, oldest first.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        (self.replaced()..self.count.into()).map(|number| self.last_ms - self.before_last(number))
    }
}

fn lowest_bits(moment: u64) -> u16 {
    u16::try_from(moment & u64::from(u16::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

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
    fn a_window_takes_little_memory() {
        assert_eq!(size_of::<Window>(), 40);
        let mut window = Window::default();
        (0..1_000).for_each(|moment| assert!(window.admit(moment * 1_000)));
        assert_eq!(window.ring.len(), 64, "of a key that is asked for once a second");
        (0..2_000).for_each(|moment| assert!(window.admit(1_000_000 + moment * 200)));
        assert_eq!((window.ring.len(), window.times().count()), (301, 300), "five times");
    }

    #[test]
    fn moments_whose_lowest_bits_are_alike_are_told_apart() {
        let age = 1 << 16;
        let mut window = Window::default();
        (0..300).for_each(|_| assert!(window.admit(5)));
        assert!(window.is_full(5) && !window.is_full(5 + age));
        assert!(window.admit(5 + age));
        assert_eq!(window.times().collect::<Vec<_>>(), [5 + age]);
        // As far from each other as they can be.
        let moments: Vec<u64> = (0..300).map(|number| age - 7 + number * (STALE_AFTER_MS - 1)).collect();
        let mut window = Window::default();
        moments.iter().for_each(|moment| assert!(window.admit(*moment)));
        assert!(window.times().eq([moments[298], moments[299]]) && window.ring.is_empty());
    }

    #[test]
    fn what_is_undone_leaves_all_that_is_in_the_minute_of_whoever_comes_next() {
        let mut window = Window::default();
        (0..(FEW + LATE) as u64).for_each(|number| assert!(window.admit(number.saturating_sub(3) * 1_000)));
        // The first ones are 63 s old then, and make room.
        assert!(window.admit(63_000));
        window.take_back();
        assert_eq!(window.last_minute(60_500).iter().sum::<u32>(), 8);
        assert_eq!(window.ring.len(), FEW);
    }

    /// The same with all moments as they are.
    #[derive(Default)]
    struct Plain(VecDeque<u64>);

    impl Plain {
        fn admit(&mut self, boot_ms: u64) -> bool {
            let moment = self.0.back().map_or(boot_ms, |last| boot_ms.max(*last));
            let recent = self.0.iter().filter(|time| moment - **time < BURST_WINDOW_MS).count();
            let has_room = recent < BURST_LIMIT as usize;
            if has_room {
                self.0.push_back(moment);
            }
            has_room
        }
    }

    proptest! {
        #[test]
        fn it_decides_as_if_every_moment_were_kept(
            begin in prop_oneof![Just(0), Just(u64::from(u16::MAX) - 30_000), any::<u32>().prop_map(u64::from)],
            steps in prop::collection::vec((0..900_u32, prop_oneof![
                20 => 0..400_i64, 3 => -50..0_i64, 1 => 0..200_000_i64, 1 => 0..10_000_000_000_i64,
            ]), 1..2_000),
        ) {
            let (mut window, mut plain, mut now) = (Window::default(), Plain::default(), begin);
            for (undone, step) in steps {
                now = now.saturating_add_signed(step);
                prop_assert_eq!(window.is_full(now), !{
                    let admitted = plain.admit(now);
                    if admitted { plain.0.pop_back(); }
                    admitted
                });
                let admitted = window.admit(now);
                prop_assert_eq!(admitted, plain.admit(now));
                if admitted && undone == 0 {
                    window.take_back();
                    plain.0.pop_back();
                }
                let last = window.times().last();
                prop_assert!(last.is_none() || last == plain.0.back().copied());
            }
        }
    }
}
