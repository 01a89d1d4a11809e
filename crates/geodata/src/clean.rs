//! Vendors' values made fit to keep: text, country codes, numbers of autonomous systems, coordinates.
//!
//! Everything here answers `None` for what a vendor writes when it knows nothing, so that no reader has to.

use crate::fill::countries;
use ipse_model::Degrees;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Longer texts are cut: no place and no organisation has such a name.
const MAXIMUM_CHARACTERS: usize = 200;

/// What vendors write where they know nothing.
const PLACEHOLDERS: [&str; 6] = ["-", "--", "n/a", "?", "unknown", "null"];

/// A text without control characters and superfluous whitespace, in NFC; `None` if it says nothing.
#[must_use]
pub(crate) fn text(raw: &str) -> Option<Box<str>> {
    let tidy = is_tidy(raw);
    let cleaned;
    let text = if tidy {
        raw
    } else {
        cleaned = tidied(raw);
        cleaned.as_str()
    };
    if text.is_empty() || PLACEHOLDERS.iter().any(|placeholder| text.eq_ignore_ascii_case(placeholder)) {
        return None;
    }
    Some(text.into())
}

/// ISO 3166-1 alpha-2 in capitals. Other codes stand for a continent, a proxy, a country that is gone or nothing at all;
/// two countries are known by another one in the Union.
#[must_use]
pub(crate) fn country(raw: &str) -> Option<[u8; 2]> {
    let code: [u8; 2] = raw.trim().as_bytes().try_into().ok()?;
    let code = match &code.map(|letter| letter.to_ascii_uppercase()) {
        b"UK" => *b"GB",
        b"EL" => *b"GR",
        code => *code,
    };
    countries::country(code).map(|country| country.code)
}

/// The whole ISO 3166-2 code, from a whole one or from the part behind the hyphen.
#[must_use]
pub(crate) fn region_code(raw: &str, country: Option<[u8; 2]>) -> Option<Box<str>> {
    let country = country?;
    let country = str::from_utf8(&country).ok()?;
    let raw = raw.trim();
    let part = raw.strip_prefix(country).and_then(|rest| rest.strip_prefix('-')).unwrap_or(raw);
    let fits = (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| format!("{country}-{}", part.to_ascii_uppercase()).into())
}

/// An IANA time zone; offsets such as `+02:00`, which some vendors write, are none.
#[must_use]
pub(crate) fn zone(raw: &str) -> Option<Box<str>> {
    text(raw).filter(|zone| zone.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// The number of an autonomous system, from `123` or `AS123`.
#[must_use]
pub(crate) fn asn(raw: &str) -> Option<u32> {
    let raw = raw.trim();
    let digits = match raw.get(..2) {
        Some(prefix) if prefix.eq_ignore_ascii_case("AS") => raw.get(2..)?,
        _ => raw,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number != 0)
}

/// A number that was a float of 32 bits once, as it was written then: `-122.08499908447266` is `-122.085`.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "what the narrower type cannot hold is compared and left as it is"
)]
#[expect(clippy::float_cmp, reason = "equal means exactly equal here: nothing was lost")]
pub(crate) fn shortest(number: f64) -> f64 {
    let narrow = number as f32;
    if f64::from(narrow) == number { narrow.to_string().parse().unwrap_or(number) } else { number }
}

/// Both coordinates or none.
#[must_use]
pub(crate) fn coordinates(latitude: f64, longitude: f64) -> Option<(Degrees, Degrees)> {
    Some((Degrees::latitude(shortest(latitude))?, Degrees::longitude(shortest(longitude))?))
}

/// Whether nothing has to be changed, which is so for nearly all texts.
fn is_tidy(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    raw.len() <= MAXIMUM_CHARACTERS
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
        && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
        && !bytes.windows(2).any(|pair| pair == b"  ")
}

fn tidied(raw: &str) -> String {
    // A vendor's absurdly long text is cut before it is worked on; four times leaves room for what composing removes.
    let mut words = String::new();
    let mut gap = false;
    for character in raw.chars().take(4 * MAXIMUM_CHARACTERS) {
        if character.is_whitespace() {
            gap = !words.is_empty();
        } else if !character.is_control() && !is_invisible(character) {
            if gap {
                words.push(' ');
                gap = false;
            }
            words.push(character);
        }
    }
    let composed = if is_nfc(&words) { words } else { words.nfc().collect() };
    match composed.char_indices().nth(MAXIMUM_CHARACTERS) {
        Some((end, _)) => composed[..end].trim_end().to_owned(),
        None => composed,
    }
}

/// Characters that show nothing but change how their neighbours are shown: marks of direction and of byte order.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, expected: Option<&str>) {
        assert_eq!(text(raw).as_deref(), expected, "{raw:?}");
    }

    #[test]
    fn texts_are_tidied() {
        check("Amsterdam", Some("Amsterdam"));
        check("  New \t York\n", Some("New York"));
        check("Za\u{0}gr\u{7}eb\u{85}", Some("Zagreb"));
        check("Mu\u{308}nchen", Some("München"));
        check("\u{feff}Oslo\u{202e}", Some("Oslo"));
        check("東京", Some("東京"));
        check("a\u{200d}b", Some("a\u{200d}b"));
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for raw in
            ["", " ", "\u{0}", "-", "--", "N/A", "n/a", "?", "unknown", "Unknown", "NULL", " - ", "\u{a0}"]
        {
            check(raw, None);
        }
        check("None", Some("None"));
    }

    #[test]
    fn absurd_texts_are_cut_between_characters() {
        check(&"ä".repeat(1000), Some(&"ä".repeat(200)));
        check(&"a ".repeat(1000), Some("a ".repeat(100).trim_end()));
        check(&"x".repeat(201), Some(&"x".repeat(200)));
    }

    #[test]
    fn countries_are_two_letters() {
        assert_eq!(country("nl"), Some(*b"NL"));
        assert_eq!((country("uk"), country("EL")), (Some(*b"GB"), Some(*b"GR")));
        for none in ["ZZ", "EU", "A1", "AN", "é"] {
            assert_eq!(country(none), None, "{none}");
        }
        assert_eq!(country(" US "), Some(*b"US"));
        for raw in ["", "U", "USA", "U1", "ZZ", "xx", "EU", "AP", "A1", "A2", "O1", "-", "ÄÖ", "é"] {
            assert_eq!(country(raw), None, "{raw:?}");
        }
    }

    #[test]
    fn region_codes_are_whole() {
        let check =
            |raw, expected: Option<&str>| assert_eq!(region_code(raw, Some(*b"US")).as_deref(), expected);
        check("CA", Some("US-CA"));
        check("US-ca", Some("US-CA"));
        check("06", Some("US-06"));
        check("", None);
        check("California", None);
        check("-", None);
        assert_eq!(region_code("CA", None), None);
    }

    #[test]
    fn numbers_of_autonomous_systems_are_read_either_way() {
        assert_eq!(asn("AS174"), Some(174));
        assert_eq!(asn("as174"), Some(174));
        assert_eq!(asn(" 4294967295 "), Some(u32::MAX));
        for raw in ["", "AS", "0", "AS0", "4294967296", "+5", "-1", "ASN1", "a", "ä1", "1.5"] {
            assert_eq!(asn(raw), None, "{raw:?}");
        }
    }

    #[test]
    fn zones_are_names() {
        assert_eq!(zone("Europe/Amsterdam").as_deref(), Some("Europe/Amsterdam"));
        assert_eq!(zone("+02:00"), None);
        assert_eq!(zone("-"), None);
    }

    #[test]
    fn coordinates_lose_the_noise_of_narrow_floats() {
        let check = |latitude, longitude, expected: Option<(i32, i32)>| {
            let found = coordinates(latitude, longitude).map(|(n, e)| (n.millionths(), e.millionths()));
            assert_eq!(found, expected);
        };
        check(37.386_001_586_914_06, -122.084_999_084_472_66, Some((37_386_000, -122_085_000)));
        check(52.370_216, 4.895_168, Some((52_370_216, 4_895_168)));
        check(90.5, 0.0, None);
        check(0.0, f64::NAN, None);
        check(f64::INFINITY, 0.0, None);
    }

    proptest! {
        #[test]
        fn cleaning_twice_changes_nothing(raw in "\\PC{0,300}|[a-z \\u{0}-\\u{1f}\\u{300}-\\u{310}]{0,300}") {
            if let Some(once) = text(&raw) {
                prop_assert!(once.chars().count() <= MAXIMUM_CHARACTERS);
                prop_assert_eq!(text(&once), Some(once.clone()));
            }
        }
    }
}
