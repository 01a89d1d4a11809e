//! The one moment that a request is judged by, and the days that quotas are counted in.

const MS_PER_DAY: i64 = 86_400_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// One reading of both clocks. It is taken once per request and passed down; nothing below asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, in milliseconds since 1970 UTC. It names the day and may jump.
    pub unix_ms: i64,
    /// Milliseconds since the machine started, suspension included. It never jumps and is the same for every
    /// process of one boot, so burst windows are measured with it and survive a restart of the program.
    pub boot_ms: u64,
}

impl Now {
    /// The UTC day of this moment.
    #[must_use]
    pub fn day(self) -> Day {
        let days = self.unix_ms.div_euclid(MS_PER_DAY);
        Day(u32::try_from(days).unwrap_or(0))
    }

    /// The wall clock in whole seconds, rounded down, as `X-RateLimit-Reset` counts them.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        self.unix_ms.div_euclid(1000)
    }
}

/// A UTC day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// The Unix time of the midnight that ends this day.
    #[must_use]
    pub fn ends_at(self) -> i64 {
        (i64::from(self.0) + 1) * SECONDS_PER_DAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unix_ms: i64, day: u32, ends_at: i64) {
        let now = Now { unix_ms, boot_ms: 0 };
        assert_eq!(now.day(), Day(day));
        assert_eq!(now.day().ends_at(), ends_at);
    }

    #[test]
    fn a_day_runs_from_midnight_to_the_last_millisecond() {
        check(0, 0, 86_400);
        check(86_399_999, 0, 86_400);
        check(86_400_000, 1, 172_800);
        check(1_794_700_800_000, 20_772, 1_794_787_200);
        check(1_794_787_199_999, 20_772, 1_794_787_200);
    }

    #[test]
    fn a_clock_before_1970_is_the_first_day() {
        assert_eq!(Now { unix_ms: -1, boot_ms: 0 }.day(), Day(0));
    }
}
