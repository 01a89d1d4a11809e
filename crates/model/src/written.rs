//! Records in the form in which answers hold them: parts of JSON, made once and copied into every answer.
//!
//! What an answer says about a place and a network never changes while a snapshot is served, but for the offset of
//! the time zone. So names are quoted and escaped when a snapshot is loaded, and a request only joins the parts.

use crate::{Degrees, Network, Place, Zone};
use std::fmt::Write;

/// What an answer says about one address beside the caller's own facts.
#[derive(Clone, Copy, Default)]
pub struct Written<'a> {
    /// Where it is.
    pub place: Option<WrittenPlace<'a>>,
    /// Whose network it is on.
    pub network: Option<&'a WrittenNetwork>,
}

/// A place whose names are quoted already.
#[derive(Clone, Copy)]
pub struct WrittenPlace<'a> {
    /// The city as a JSON string, with its quotes.
    pub city: Option<&'a str>,
    /// Region and country.
    pub area: &'a WrittenArea,
    /// Degrees north and east.
    pub position: Option<(Degrees, Degrees)>,
    /// The time zone.
    pub zone: Option<&'a Zone>,
    /// The postal code as a JSON string, with its quotes.
    pub postal_code: Option<&'a str>,
}

/// A region and its country.
pub struct WrittenArea {
    /// From `"region":` to the continent.
    pub(crate) names: Box<str>,
    /// `"is_eu"` and `"currency"`.
    pub(crate) country: Box<str>,
}

/// A network.
pub struct WrittenNetwork {
    /// `"asn"`, `"org"` and `"as"`.
    pub(crate) system: Box<str>,
    /// `"proxy"` and `"hosting"`.
    pub(crate) flags: Box<str>,
}

impl WrittenArea {
    /// What answers say about the region and the country of a place.
    #[must_use]
    pub fn of(place: &Place) -> Self {
        let mut names = String::new();
        for (name, text) in [
            ("region", &place.region),
            ("region_code", &place.region_code),
            ("country", &place.country),
            ("country_name", &place.country_name),
            ("continent", &place.continent),
        ] {
            field(&mut names, name, &or_null(text.as_deref().map(quoted)));
        }
        let mut country = String::new();
        field(&mut country, "is_eu", &or_null(place.is_eu));
        field(&mut country, "currency", &or_null(place.currency.as_deref().map(quoted)));
        Self { names: names.into(), country: country.into() }
    }
}

impl WrittenNetwork {
    /// What answers say about a network.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        let org = network.org.as_deref();
        let system_name = network.asn.zip(org).map(|(asn, org)| quoted(&format!("AS{asn} {org}")));
        let mut system = String::new();
        field(&mut system, "asn", &or_null(network.asn));
        field(&mut system, "org", &or_null(org.map(quoted)));
        field(&mut system, "as", &or_null(system_name));
        let mut flags = String::new();
        field(&mut flags, "proxy", &or_null(network.proxy));
        field(&mut flags, "hosting", &or_null(network.hosting));
        Self { system: system.into(), flags: flags.into() }
    }
}

/// A text as a JSON string, with its quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            // Writing to a `String` cannot fail.
            '\0'..='\x1f' => drop(write!(json, "\\u{:04x}", u32::from(character))),
            _ => json.push(character),
        }
    }
    json.push('"');
    json
}

/// The text that `quoted` was made of.
#[must_use]
pub fn unquoted(json: &str) -> String {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match rest.next() {
            Some('u') => {
                let code: String = rest.by_ref().take(4).collect();
                text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
            }
            Some(escaped) => text.push(escaped),
            None => {}
        }
    }
    text
}

fn field(fields: &mut String, name: &str, value: &str) {
    let comma = if fields.is_empty() { "" } else { "," };
    // Writing to a `String` cannot fail.
    let _ = write!(fields, "{comma}\"{name}\":{value}");
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_quoted_as_json_and_comes_back(text in any::<String>()) {
            let json = quoted(&text);
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text.clone());
            prop_assert_eq!(unquoted(&json), text);
        }
    }
}
