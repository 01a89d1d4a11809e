//! What the sources say about an address, read with the vendors' own reader and as little else as possible.
//!
//! Nothing here comes from the product's readers: an error of theirs must not be repeated by what they are held to.

use maxminddb::Reader;
use serde::Deserializer;
use serde::de::Visitor;
use std::fmt;
use std::net::IpAddr;
use unicode_normalization::UnicodeNormalization;

/// A record of a city file, whole.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct CityRecord<'a> {
    pub(crate) city: Option<&'a str>,
    pub(crate) country_code: Option<&'a str>,
    pub(crate) state1: Option<&'a str>,
    pub(crate) state2: Option<&'a str>,
    pub(crate) postcode: Option<&'a str>,
    pub(crate) timezone: Option<&'a str>,
    #[serde(deserialize_with = "either_width")]
    pub(crate) latitude: Option<f64>,
    #[serde(deserialize_with = "either_width")]
    pub(crate) longitude: Option<f64>,
}

/// The city files, each of one family.
pub(crate) struct Cities(pub(crate) Vec<Reader<Vec<u8>>>);

impl Cities {
    /// The file that tells of a family.
    pub(crate) fn of_family(&self, is_v4: bool) -> Option<&Reader<Vec<u8>>> {
        let version = if is_v4 { 4 } else { 6 };
        self.0.iter().find(|reader| reader.metadata().ip_version == version)
    }

    /// The record of an address.
    pub(crate) fn find(&self, ip: IpAddr) -> anyhow::Result<Option<CityRecord<'_>>> {
        let Some(reader) = self.of_family(ip.is_ipv4()) else { return Ok(None) };
        Ok(reader.lookup(ip)?.decode()?)
    }
}

/// What must be found for a record.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Expected {
    pub(crate) city: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) country: Option<String>,
    pub(crate) postal_code: Option<String>,
    pub(crate) position: Option<(f64, f64)>,
}

impl Expected {
    /// Also says how many of the texts are not as their file has them.
    pub(crate) fn of(record: &CityRecord<'_>) -> (Self, u64) {
        let mut cleaned = 0;
        let mut text = |raw: Option<&str>| {
            let raw = raw?;
            let text = tidied(raw);
            cleaned += u64::from(text.as_deref().unwrap_or_default() != raw);
            text
        };
        let (city, region) = (text(record.city), text(record.state1));
        let postal_code = text(record.postcode);
        let position = record.latitude.zip(record.longitude);
        // Null Island is how some files write that they do not know.
        let position = position.filter(|position| city.is_some() || *position != (0.0, 0.0));
        let position = position.map(|(latitude, longitude)| (as_written(latitude), as_written(longitude)));
        let position =
            position.filter(|(latitude, longitude)| latitude.abs() <= 90.0 && longitude.abs() <= 180.0);
        let country = record.country_code.and_then(country);
        (Self { city, region, country, postal_code, position }, cleaned)
    }
}

/// The reader wants to know beforehand how wide a number is, and vendors write both.
fn either_width<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    deserializer.deserialize_any(EitherWidth).map(Some)
}

struct EitherWidth;

impl Visitor<'_> for EitherWidth {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of floating point")
    }

    fn visit_f32<E>(self, number: f32) -> Result<f64, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }
}

/// What vendors write where they know nothing.
const PLACEHOLDERS: [&str; 6] = ["-", "--", "n/a", "?", "unknown", "null"];
/// What they write where a country's code would stand.
const NO_COUNTRY: [&str; 7] = ["ZZ", "XX", "EU", "AP", "A1", "A2", "O1"];
const MOST_CHARACTERS: usize = 200;

/// The text as an answer may show it; `None` if it says nothing.
pub(crate) fn tidied(raw: &str) -> Option<String> {
    let shown =
        |character: &char| character.is_whitespace() || !(character.is_control() || is_mark(*character));
    let shown: String = raw.chars().filter(shown).collect();
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = words.nfc().take(MOST_CHARACTERS).collect();
    let text = text.trim_end();
    let says_nothing =
        text.is_empty() || PLACEHOLDERS.iter().any(|placeholder| placeholder.eq_ignore_ascii_case(text));
    (!says_nothing).then(|| text.to_owned())
}

/// Marks of direction and of byte order, which show nothing themselves.
fn is_mark(character: char) -> bool {
    let marks = ['\u{200b}', '\u{200e}', '\u{200f}', '\u{feff}', '\u{fffd}'];
    marks.contains(&character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

fn country(raw: &str) -> Option<String> {
    let code = raw.trim().to_ascii_uppercase();
    let is_code = code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_code && !NO_COUNTRY.contains(&code.as_str())).then_some(code)
}

/// A number that a file keeps in 32 bits is meant as its shortest decimal: `-122.085`, not `-122.08499908447266`.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit is compared and left as it is")]
#[expect(clippy::float_cmp, reason = "equal means exactly equal here: nothing was lost")]
fn as_written(number: f64) -> f64 {
    let narrow = number as f32;
    if f64::from(narrow) == number { narrow.to_string().parse().unwrap_or(number) } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_tidied() {
        for (raw, expected) in [
            ("Oslo", Some("Oslo")),
            (" New \t York\n", Some("New York")),
            ("Mu\u{308}n\u{0}chen", Some("München")),
            ("\u{feff}N/A", None),
            ("", None),
        ] {
            assert_eq!(tidied(raw).as_deref(), expected, "{raw:?}");
        }
    }
}
