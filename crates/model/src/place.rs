//! Where an address is and whose network it is on, as the snapshot's final records tell it.

use crate::Now;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// A place. What the data does not know is `None`.
#[derive(Clone, Debug, Default)]
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
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
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

    #[expect(clippy::cast_possible_truncation, reason = "within ±180 millions after the check")]
    fn within(degrees: f64, limit: f64) -> Option<Self> {
        (degrees.abs() <= limit).then(|| Self((degrees * 1e6).round() as i32))
    }
}

/// An IANA time zone whose rules are known.
#[derive(Clone, Debug)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    /// Finds a zone in the database that is built into the program.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        let rules = TimeZoneDatabase::bundled().get(name).map_err(|_| UnknownZone(name.to_owned()))?;
        Ok(Self { name: name.to_owned(), rules })
    }

    /// The identifier, such as `Europe/Amsterdam`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offset from UTC in seconds at the given moment, daylight saving included.
    #[must_use]
    pub fn offset_seconds(&self, now: Now) -> Option<i32> {
        let timestamp = Timestamp::from_millisecond(now.unix_ms).ok()?;
        Some(self.rules.to_offset(timestamp).seconds())
    }
}

/// A name that the built-in time zone database does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{:?} is no IANA time zone", .0)]
pub struct UnknownZone(pub String);

/// The network that announces an address.
#[derive(Clone, Debug)]
pub struct Network {
    /// The autonomous system's number.
    pub asn: u32,
    /// Its organisation.
    pub org: Option<String>,
    /// Whether it is a known VPN or proxy network.
    pub proxy: bool,
    /// Whether it is a known hosting or cloud network.
    pub hosting: bool,
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
    fn an_unknown_zone_is_named() {
        assert_eq!(
            Zone::named("Mars/Olympus").unwrap_err().to_string(),
            "\"Mars/Olympus\" is no IANA time zone"
        );
    }
}
