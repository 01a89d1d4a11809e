//! Where an address is and whose network it is on, as the snapshot's final records tell it.

use crate::{Now, digits};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::atomic::{AtomicU64, Ordering};

/// A place. What the data does not know is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// The city's name.
    pub city: Option<String>,
    /// The name of the first level of subdivision.
    pub region: Option<String>,
    /// Its whole ISO 3166-2 code, such as `US-CA`.
    pub region_code: Option<String>,
    /// ISO 3166-1 alpha-2.
    pub country: Option<String>,
    /// The country's English name.
    pub country_name: Option<String>,
    /// Two letters.
    pub continent: Option<String>,
    /// Degrees north and east: one without the other says nothing.
    pub position: Option<(Degrees, Degrees)>,
    /// The time zone.
    pub zone: Option<Zone>,
    /// The postal code.
    pub postal_code: Option<String>,
    /// Whether the place belongs to the European Union.
    pub is_eu: Option<bool>,
    /// ISO 4217 code of the country's currency.
    pub currency: Option<String>,
}

/// A coordinate in degrees, kept as millionths: equal where it is written equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Degrees(i32);

impl Degrees {
    /// Degrees north, between the poles.
    #[must_use]
    pub fn latitude(degrees: f64) -> Option<Self> {
        Self::within(degrees, 90.0)
    }

    /// Degrees east, once around.
    #[must_use]
    pub fn longitude(degrees: f64) -> Option<Self> {
        Self::within(degrees, 180.0)
    }

    /// Exactly this many millionths of a degree.
    #[must_use]
    pub fn from_millionths(millionths: i32) -> Self {
        Self(millionths)
    }

    /// Millionths of a degree.
    #[must_use]
    pub fn millionths(self) -> i32 {
        self.0
    }

    /// The nearest number of floating point.
    #[must_use]
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Appends the number as JSON: with a point always, so that every reader takes it for the same kind of number,
    /// and without zeros that say nothing.
    pub fn write(self, json: &mut Vec<u8>) {
        let magnitude = self.0.unsigned_abs();
        let (whole, mut fraction) = (magnitude / 1_000_000, magnitude % 1_000_000);
        // A sign, three digits, a point and six digits.
        let mut text = [b'0'; 11];
        let mut end = 11;
        while end > 6 && fraction.is_multiple_of(10) {
            fraction /= 10;
            end -= 1;
        }
        for digit in text[5..end].iter_mut().rev() {
            *digit = digits::digit(fraction % 10);
            fraction /= 10;
        }
        text[4] = b'.';
        let mut begin = 4;
        let mut rest = whole;
        while rest > 0 || begin == 4 {
            begin -= 1;
            text[begin] = digits::digit(rest % 10);
            rest /= 10;
        }
        if self.0 < 0 {
            begin -= 1;
            text[begin] = b'-';
        }
        json.extend_from_slice(&text[begin..end]);
    }

    #[expect(clippy::cast_possible_truncation, reason = "within ±180 millions after the check")]
    fn within(degrees: f64, limit: f64) -> Option<Self> {
        (degrees.abs() <= limit).then(|| Self((degrees * 1e6).round() as i32))
    }
}

/// An IANA time zone whose rules are known.
#[derive(Debug)]
pub struct Zone {
    /// The name within the two fields of an answer, up to the offset.
    written: Box<str>,
    rules: TimeZone,
    /// The last minute that was asked for, and the offset in it: rules are worked out once a minute, not once a request.
    last: AtomicU64,
}

impl Clone for Zone {
    fn clone(&self) -> Self {
        Self { written: self.written.clone(), rules: self.rules.clone(), last: AtomicU64::new(NO_MINUTE) }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written && self.rules == other.rules
    }
}

const NO_MINUTE: u64 = u64::MAX;

const BEFORE_NAME: &str = ",\"timezone\":\"";
const BEHIND_NAME: &str = "\",\"timezone_offset\":";

impl Zone {
    /// Finds a zone in the database that is built into the program.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        let rules = TimeZoneDatabase::bundled().get(name).map_err(|_| UnknownZone(name.to_owned()))?;
        let written = format!("{BEFORE_NAME}{name}{BEHIND_NAME}").into();
        Ok(Self { written, rules, last: AtomicU64::new(NO_MINUTE) })
    }

    /// The identifier, such as `Europe/Amsterdam`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.written[BEFORE_NAME.len()..self.written.len() - BEHIND_NAME.len()]
    }

    /// The two fields of an answer, up to the offset.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// The offset from UTC in seconds at the given moment, daylight saving included.
    #[must_use]
    pub fn offset_seconds(&self, now: Now) -> Option<i32> {
        // Clocks are changed at whole minutes.
        let minute = u32::try_from(now.unix_ms.div_euclid(60_000)).ok();
        if let Some(minute) = minute {
            let last = self.last.load(Ordering::Relaxed);
            if last != NO_MINUTE && last >> 32 == u64::from(minute) {
                return Some(low_half(last).cast_signed());
            }
        }
        let timestamp = Timestamp::from_millisecond(now.unix_ms).ok()?;
        let seconds = self.rules.to_offset(timestamp).seconds();
        if let Some(minute) = minute {
            let both = u64::from(minute) << 32 | u64::from(seconds.cast_unsigned());
            self.last.store(both, Ordering::Relaxed);
        }
        Some(seconds)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_half(both: u64) -> u32 {
    both as u32
}

/// A name that the built-in time zone database does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{:?} is no IANA time zone", .0)]
pub struct UnknownZone(pub String);

/// The network that announces an address. What the data does not know is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The autonomous system's number.
    pub asn: Option<u32>,
    /// Its organisation.
    pub org: Option<String>,
    /// Whether it is a known VPN or proxy network.
    pub proxy: Option<bool>,
    /// Whether it is a known hosting or cloud network.
    pub hosting: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(zone: &str, moment: &str, seconds: i32) {
        let timestamp: Timestamp = moment.parse().unwrap();
        let now = Now { unix_ms: timestamp.as_millisecond(), boot_ms: 0 };
        assert_eq!(Zone::named(zone).unwrap().offset_seconds(now), Some(seconds));
    }

    #[test]
    fn the_offset_is_that_of_the_moment() {
        check("Europe/Amsterdam", "2026-01-15T12:00:00Z", 3600);
        check("Europe/Amsterdam", "2026-07-15T12:00:00Z", 7200);
        check("Asia/Kathmandu", "2026-07-15T12:00:00Z", 20_700);
        check("America/St_Johns", "2026-01-15T12:00:00Z", -12_600);
    }

    #[test]
    fn the_offset_changes_in_the_minute_in_which_the_clock_is_changed() {
        let zone = Zone::named("Europe/London").unwrap();
        for (moment, seconds) in [
            ("2026-03-29T00:59:59.999Z", 0),
            ("2026-03-29T01:00:00Z", 3600),
            ("2026-03-29T00:59:00Z", 0),
            ("2026-10-25T00:59:59Z", 3600),
            ("2026-10-25T01:00:00Z", 0),
            ("1969-12-31T23:59:59Z", 3600),
        ] {
            let timestamp: Timestamp = moment.parse().unwrap();
            let now = Now { unix_ms: timestamp.as_millisecond(), boot_ms: 0 };
            assert_eq!(zone.offset_seconds(now), Some(seconds), "{moment}");
            assert_eq!(zone.offset_seconds(now), Some(seconds), "{moment} once more");
        }
    }

    #[test]
    fn a_coordinate_is_written_as_people_write_it() {
        #[track_caller]
        fn check(degrees: f64, expected: &str) {
            let mut json = Vec::new();
            Degrees::longitude(degrees).unwrap().write(&mut json);
            assert_eq!(String::from_utf8(json).unwrap(), expected);
        }
        check(0.0, "0.0");
        check(8.0, "8.0");
        check(-122.085, "-122.085");
        check(-0.000_001, "-0.000001");
        check(0.05, "0.05");
        check(179.999_999_9, "180.0");
        check(51.514_301_3, "51.514301");
    }

    #[test]
    fn a_coordinate_lies_on_the_globe() {
        assert_eq!(Degrees::latitude(90.000_1), None);
        assert_eq!(Degrees::longitude(-181.0), None);
        assert_eq!(Degrees::longitude(f64::NAN), None);
        assert_eq!(Degrees::latitude(f64::INFINITY), None);
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert_eq!(
            Zone::named("Mars/Olympus").unwrap_err().to_string(),
            "\"Mars/Olympus\" is no IANA time zone"
        );
    }
}
