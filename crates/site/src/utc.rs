//! Days and moments in words. Everything is told in UTC, as quotas are counted, and says so.

use ipse_model::{Day, Now};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const SECONDS_PER_DAY: i64 = 86_400;

/// A moment, as people read it and as programs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// `14:03 UTC` on the same day, `12 November 2026, 14:03 UTC` otherwise.
    pub(crate) words: String,
    /// `2026-11-12T14:03:07Z`, for the attribute `datetime`.
    pub(crate) exact: String,
}

impl Moment {
    /// A moment in the words that it has on a given day.
    pub(crate) fn new(unix_ms: i64, today: Day) -> Self {
        let Ok(timestamp) = Timestamp::from_second(unix_ms.div_euclid(1000)) else {
            return Self { words: "at an unknown time".to_owned(), exact: String::new() };
        };
        let clock = timestamp.to_zoned(TimeZone::UTC).datetime().time().strftime("%H:%M UTC").to_string();
        let day = day_of(unix_ms);
        let words = if day == today { clock } else { format!("{}, {clock}", long(day)) };
        Self { words, exact: timestamp.to_string() }
    }
}

/// `14:03:07 UTC`, where every second counts.
pub(crate) fn clock(unix_ms: i64) -> String {
    let moment = Timestamp::from_second(unix_ms.div_euclid(1000)).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(TimeZone::UTC).strftime("%H:%M:%S UTC").to_string()
}

/// The day of a moment.
pub(crate) fn day_of(unix_ms: i64) -> Day {
    Now { unix_ms, boot_ms: 0 }.day()
}

/// `15 November 2026`.
pub(crate) fn long(day: Day) -> String {
    date(day).strftime("%-d %B %Y").to_string()
}

/// `15 Nov`, where there is little room.
pub(crate) fn short(day: Day) -> String {
    date(day).strftime("%-d %b").to_string()
}

/// `2026-11-15`, for programs.
pub(crate) fn iso(day: Day) -> String {
    date(day).to_string()
}

/// `today`, `yesterday`, or `6 Oct 2026`.
pub(crate) fn lately(day: Day, today: Day) -> String {
    match today.0.checked_sub(day.0) {
        Some(0) => "today".to_owned(),
        Some(1) => "yesterday".to_owned(),
        _ => date(day).strftime("%-d %b %Y").to_string(),
    }
}

fn date(day: Day) -> Date {
    let midnight = Timestamp::from_second(i64::from(day.0) * SECONDS_PER_DAY);
    midnight.map_or(Date::MAX, |midnight| midnight.to_zoned(TimeZone::UTC).date())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 15 November 2026.
    const TODAY: Day = Day(20_772);
    const MIDNIGHT_MS: i64 = 1_794_700_800_000;

    #[test]
    fn a_day_has_three_forms() {
        assert_eq!(
            [long(TODAY), short(TODAY), iso(TODAY)],
            ["15 November 2026", "15 Nov", "2026-11-15"].map(str::to_owned)
        );
        assert_eq!(
            [long(Day(0)), short(Day(0)), iso(Day(0))],
            ["1 January 1970", "1 Jan", "1970-01-01"].map(str::to_owned)
        );
        assert_eq!(iso(Day(u32::MAX)), "9999-12-31", "a number that is no day of the calendar harms nobody");
    }

    #[test]
    fn the_last_days_have_names() {
        #[track_caller]
        fn check(day: u32, words: &str) {
            assert_eq!(lately(Day(day), TODAY), words);
        }
        check(TODAY.0, "today");
        check(TODAY.0 - 1, "yesterday");
        check(TODAY.0 - 2, "13 Nov 2026");
        // A clock that was set back leaves days of the future behind.
        check(TODAY.0 + 1, "16 Nov 2026");
    }

    #[test]
    fn a_moment_names_its_day_only_where_it_is_another() {
        #[track_caller]
        fn check(unix_ms: i64, words: &str, exact: &str) {
            let expected = Moment { words: words.to_owned(), exact: exact.to_owned() };
            assert_eq!(Moment::new(unix_ms, TODAY), expected);
        }
        check(MIDNIGHT_MS, "00:00 UTC", "2026-11-15T00:00:00Z");
        check(MIDNIGHT_MS + 50_587_999, "14:03 UTC", "2026-11-15T14:03:07Z");
        check(MIDNIGHT_MS - 1, "14 November 2026, 23:59 UTC", "2026-11-14T23:59:59Z");
        check(i64::MAX, "at an unknown time", "");
    }

    #[test]
    fn a_moment_lies_in_its_day() {
        assert_eq!(day_of(MIDNIGHT_MS), TODAY);
        assert_eq!(day_of(MIDNIGHT_MS - 1), Day(TODAY.0 - 1));
    }
}
