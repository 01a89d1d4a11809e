//! How long things took: counts between fixed bounds, from which shares of all are read.

/// The upper bounds of all buckets but the last, which has none. The dearest thing that a node does in its daily work, a
/// password, takes a part of a second; what an engine that is away may take is 50 milliseconds.
pub const DURATION_BOUNDS_NS: [u64; 16] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// How many buckets there are.
pub const DURATION_BUCKETS: usize = DURATION_BOUNDS_NS.len() + 1;

/// The bucket of something that took so long. Most of what is asked is quick, so the search begins with the shortest.
#[inline]
#[must_use]
pub fn duration_bucket(ns: u64) -> usize {
    DURATION_BOUNDS_NS.iter().position(|bound| ns <= *bound).unwrap_or(DURATION_BOUNDS_NS.len())
}

/// How long many things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many there were between a bound and the one before it.
    pub buckets: [u64; DURATION_BUCKETS],
    /// How long all of them took together.
    pub sum_ns: u64,
}

impl Durations {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Those that came after `before`.
    #[must_use]
    pub fn since(self, before: &Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }

    fn with(mut self, other: &Self, rule: fn(u64, u64) -> u64) -> Self {
        for (bucket, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = rule(*bucket, theirs);
        }
        self.sum_ns = rule(self.sum_ns, other.sum_ns);
        self
    }

    /// What so many of a hundred took at most, in nanoseconds, as far as the bounds tell: within a bucket they are taken to
    /// be spread evenly. `None` if there was nothing.
    #[must_use]
    pub fn percentile_ns(&self, percent: u8) -> Option<u64> {
        let wanted = u128::from(self.count()) * u128::from(percent.min(100));
        let mut below = 0_u128;
        for (index, count) in self.buckets.iter().enumerate() {
            let reached = below + u128::from(*count) * 100;
            if *count > 0 && reached >= wanted {
                let from = index.checked_sub(1).map_or(0, |before| DURATION_BOUNDS_NS[before]);
                // Beyond the last bound nothing more is known.
                let to = DURATION_BOUNDS_NS.get(index).copied().unwrap_or(from);
                let share = u128::from(to - from) * (wanted - below) / (u128::from(*count) * 100);
                return u64::try_from(share).ok().map(|share| from + share);
            }
            below = reached;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        assert_eq!(duration_bucket(0), 0);
        assert_eq!(duration_bucket(10_000), 0);
        assert_eq!(duration_bucket(10_001), 1);
        assert_eq!(duration_bucket(5_000_000_000), 15);
        assert_eq!(duration_bucket(u64::MAX), 16);
        assert!(DURATION_BOUNDS_NS.is_sorted());
    }

    fn durations(all: &[u64]) -> Durations {
        let mut durations = Durations::default();
        for ns in all {
            durations.buckets[duration_bucket(*ns)] += 1;
            durations.sum_ns += ns;
        }
        durations
    }

    #[test]
    fn shares_are_read_between_the_bounds() {
        #[track_caller]
        fn check(all: &[u64], percent: u8, expected: Option<u64>) {
            assert_eq!(durations(all).percentile_ns(percent), expected, "{all:?} {percent}");
        }
        check(&[], 50, None);
        check(&[1, 1], 50, Some(5_000));
        check(&[1, 1], 100, Some(10_000));
        check(&[1, 20_000, 20_000, 20_000], 25, Some(10_000));
        check(&[1, 20_000, 20_000, 20_000], 100, Some(25_000));
        check(&[9_000_000_000], 99, Some(5_000_000_000));
        check(&[1], 0, Some(0));
    }

    #[test]
    fn what_came_after_is_a_difference() {
        let (before, after) = (durations(&[1, 2]), durations(&[30_000, 6_000_000_000]));
        let all = before.and(&after);
        assert_eq!(all, durations(&[1, 2, 30_000, 6_000_000_000]));
        assert_eq!(all.since(&before), after);
        assert_eq!((all.count(), all.sum_ns), (4, 6_000_030_003));
    }
}
