//! Records in the form in which answers hold them: parts of JSON, made once and copied into every answer.
//!
//! What an answer says about a place and a network never changes while a snapshot is served, but for the offset of
//! the time zone. So names are quoted and escaped when a snapshot is loaded, and a request only joins the parts.

use crate::{Degrees, Network, Place, Zone};
use std::fmt::Write;

/// What an answer says about one address beside the caller's own facts. What is not known is `null` in it already.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    /// The city as a value of JSON.
    pub city: &'a [u8],
    /// Region and country.
    pub area: &'a Area,
    /// Degrees north and east.
    pub position: Option<(Degrees, Degrees)>,
    /// The time zone.
    pub zone: Option<&'a Zone>,
    /// The postal code as a value of JSON.
    pub postal_code: &'a [u8],
    /// The network's number and its name, as `system_names` writes them.
    pub system: &'a [u8],
    /// Whether the network is a known VPN or proxy network.
    pub proxy: Option<bool>,
    /// Whether the network is a known hosting or cloud network.
    pub hosting: Option<bool>,
}

/// A region of a country, or a country without a region, or neither.
pub struct Area {
    /// From the comma before `"region"` to the continent; and behind that `"is_eu"` and `"currency"`, with the comma before them.
    text: Box<[u8]>,
    /// How long the first of both is.
    names: usize,
}

impl Area {
    /// The area of a place.
    #[must_use]
    pub fn of(place: &Place) -> Self {
        let mut text = area_names(place);
        let names = text.len();
        text += &country_facts(place);
        Self { text: text.into_bytes().into(), names }
    }

    /// The first and the last byte, for whoever wants to have all of it at hand.
    #[must_use]
    pub fn ends(&self) -> [Option<u8>; 2] {
        [self.text.first().copied(), self.text.last().copied()]
    }

    pub(crate) fn names(&self) -> &[u8] {
        &self.text[..self.names]
    }

    pub(crate) fn country(&self) -> &[u8] {
        &self.text[self.names..]
    }
}

fn area_names(place: &Place) -> String {
    let mut json = String::new();
    for (name, text) in [
        ("region", &place.region),
        ("region_code", &place.region_code),
        ("country", &place.country),
        ("country_name", &place.country_name),
        ("continent", &place.continent),
    ] {
        field(&mut json, name, &or_null(text.as_deref().map(quoted)));
    }
    json
}

fn country_facts(place: &Place) -> String {
    let mut json = String::new();
    field(&mut json, "is_eu", &or_null(place.is_eu));
    field(&mut json, "currency", &or_null(place.currency.as_deref().map(quoted)));
    json
}

/// `"asn"`, `"org"` and `"as"`, with the comma before them.
#[must_use]
pub fn system_names(network: &Network) -> String {
    let org = or_null(network.org.as_deref().map(quoted));
    let mut json = String::with_capacity(64 + 2 * org.len());
    field(&mut json, "asn", &or_null(network.asn));
    field(&mut json, "org", &org);
    match (network.asn, org.strip_prefix('"')) {
        // The name is escaped already.
        (Some(asn), Some(rest_of_org)) => drop(write!(json, ",\"as\":\"AS{asn} {rest_of_org}")),
        _ => field(&mut json, "as", "null"),
    }
    json
}

/// `"proxy"` and `"hosting"`, with the comma before them and the end of the answer behind.
pub(crate) fn flags(proxy: Option<bool>, hosting: Option<bool>) -> &'static str {
    match (proxy, hosting) {
        (None, None) => r#","proxy":null,"hosting":null}"#,
        (None, Some(false)) => r#","proxy":null,"hosting":false}"#,
        (None, Some(true)) => r#","proxy":null,"hosting":true}"#,
        (Some(false), None) => r#","proxy":false,"hosting":null}"#,
        (Some(false), Some(false)) => r#","proxy":false,"hosting":false}"#,
        (Some(false), Some(true)) => r#","proxy":false,"hosting":true}"#,
        (Some(true), None) => r#","proxy":true,"hosting":null}"#,
        (Some(true), Some(false)) => r#","proxy":true,"hosting":false}"#,
        (Some(true), Some(true)) => r#","proxy":true,"hosting":true}"#,
    }
}

/// A text as a JSON string, with its quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    quote_into(&mut json, text);
    json
}

/// Appends a text as a JSON string, with its quotes.
pub fn quote_into(json: &mut String, text: &str) {
    json.push('"');
    // All of them are looked at, many at once, rather than one by one up to the first that is special.
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !text.bytes().fold(false, |special, byte| special | is_special(byte)) {
        json.push_str(text);
    } else {
        for character in text.chars() {
            match character {
                '"' | '\\' => json.extend(['\\', character]),
                // Writing to a `String` cannot fail.
                '\0'..='\x1f' => drop(write!(json, "\\u{:04x}", u32::from(character))),
                _ => json.push(character),
            }
        }
    }
    json.push('"');
}

/// The text that `quoted` was made of, and nothing out of `null`.
#[must_use]
pub fn unquoted(json: &[u8]) -> Option<String> {
    let json = &*String::from_utf8_lossy(json);
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
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
    Some(text)
}

fn field(json: &mut String, name: &str, value: &str) {
    // Writing to a `String` cannot fail.
    let _ = write!(json, ",\"{name}\":{value}");
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
            prop_assert_eq!(unquoted(json.as_bytes()), Some(text));
        }
    }
}
