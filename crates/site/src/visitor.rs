//! The visitor's own answer in words.
//!
//! It is made for one page and forgotten with it. Names of cities and organisations come from others' data: they
//! stay plain text here, and the template escapes them.

use ipse_geo::Found;
use ipse_model::{Address, Answer, Client, Network, Now, Place, Scope};

/// What the front page shows of one visitor.
pub(crate) struct Visitor {
    pub(crate) address: String,
    /// Why there is nothing to show about the place, if so.
    pub(crate) note: Option<&'static str>,
    pub(crate) groups: [Group; 3],
    /// The same as the API answers it to a key of the broadest scope.
    pub(crate) json: String,
}

/// Facts that belong together.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    /// Empty if nothing at all is known.
    pub(crate) facts: Vec<Fact>,
}

/// One fact; `None` is shown as "unknown".
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: Option<String>,
}

impl Visitor {
    pub(crate) fn new(client: &Client, now: Now, found: Found<'_>) -> Self {
        let answer = Answer { client, now, found: found.written() };
        Self {
            address: client.address.ip().to_string(),
            note: note(client.address, found),
            groups: [
                Group {
                    heading: "Place",
                    facts: found.place().map_or_else(Vec::new, |place| place_facts(place, now)),
                },
                Group { heading: "Network", facts: found.network().map_or_else(Vec::new, network_facts) },
                Group { heading: "Connection", facts: connection_facts(client) },
            ],
            json: pretty(&answer.for_scope(Scope::Full)),
        }
    }
}

fn note(address: Address, found: Found<'_>) -> Option<&'static str> {
    if address.ip().is_loopback() {
        Some(
            "You are calling from the very machine that this server runs on. Such an address is the same \
             everywhere, so it has no place and no network.",
        )
    } else if !address.is_global() {
        Some(
            "This address is private or reserved: nobody has it on the public internet, so it has no place and no \
             network. Visit from outside, and this page shows yours.",
        )
    } else if found.is_nothing() {
        Some(
            "Nothing is known here about where this address is: the geo data of this server has no record of it.",
        )
    } else {
        None
    }
}

fn place_facts(place: Place, now: Now) -> Vec<Fact> {
    let coordinates = place
        .position
        .map(|(latitude, longitude)| format!("{}, {}", latitude.degrees(), longitude.degrees()));
    let zone = place.zone;
    let offset = zone.as_ref().and_then(|zone| zone.offset_seconds(now));
    vec![
        fact("City", place.city),
        fact("Region", with_code(place.region, place.region_code)),
        fact("Country", with_code(place.country_name, place.country)),
        fact("Continent", place.continent.as_deref().map(continent)),
        fact("Coordinates", coordinates),
        fact("Time zone", zone.map(|zone| zone.name().to_owned())),
        fact("UTC offset", offset.map(utc_offset)),
        fact("Postal code", place.postal_code),
        fact("In the EU", place.is_eu.map(yes_or_no)),
        fact("Currency", place.currency),
    ]
}

fn network_facts(network: Network) -> Vec<Fact> {
    vec![
        fact("Organization", network.org),
        fact("System", network.asn.map(|asn| format!("AS{asn}"))),
        fact("VPN or proxy", network.proxy.map(yes_or_no)),
        fact("Hosting", network.hosting.map(yes_or_no)),
    ]
}

fn connection_facts(client: &Client) -> Vec<Fact> {
    vec![
        fact("HTTP", client.http.map(|http| http.as_str().to_owned())),
        fact("TLS", client.tls_version.map(|tls| tls.as_str().to_owned())),
        fact("Cipher", client.tls_cipher.as_ref().map(ToString::to_string)),
        fact(
            "Round trip",
            client.rtt_ms.map(|ms| if ms == 0 { "under 1 ms".to_owned() } else { format!("{ms} ms") }),
        ),
        fact("Datacenter", client.colo.map(|colo| colo.to_string())),
    ]
}

/// An answer with a line for each field.
pub(crate) fn pretty(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

fn fact(name: &'static str, value: Option<String>) -> Fact {
    Fact { name, value }
}

fn with_code(name: Option<String>, code: Option<String>) -> Option<String> {
    match (name, code) {
        (Some(name), Some(code)) => Some(format!("{name} ({code})")),
        (one, other) => one.or(other),
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn continent(code: &str) -> String {
    match code {
        "AF" => "Africa",
        "AN" => "Antarctica",
        "AS" => "Asia",
        "EU" => "Europe",
        "NA" => "North America",
        "OC" => "Oceania",
        "SA" => "South America",
        other => other,
    }
    .to_owned()
}

/// `+05:45`, or with a true minus sign.
fn utc_offset(seconds: i32) -> String {
    let sign = if seconds < 0 { '−' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_geo::Atlas;

    #[test]
    fn offsets_read_as_people_write_them() {
        #[track_caller]
        fn check(seconds: i32, expected: &str) {
            assert_eq!(utc_offset(seconds), expected);
        }
        check(0, "+00:00");
        check(20_700, "+05:45");
        check(-12_600, "−03:30");
    }

    #[test]
    fn a_name_and_its_code_stand_together_or_alone() {
        #[track_caller]
        fn check(name: Option<&str>, code: Option<&str>, expected: Option<&str>) {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            assert_eq!(with_code(owned(name), owned(code)).as_deref(), expected);
        }
        check(Some("England"), Some("GB-ENG"), Some("England (GB-ENG)"));
        check(Some("England"), None, Some("England"));
        check(None, Some("GB-ENG"), Some("GB-ENG"));
        check(None, None, None);
    }

    #[test]
    fn a_note_says_why_there_is_no_place() {
        #[track_caller]
        fn check(ip: &str, place: Option<&Place>, expected: Option<&str>) {
            let address = Address::new(ip.parse().unwrap());
            let atlas = Atlas::of(&[address.ip()], place, None);
            let note = note(address, atlas.find(address));
            match expected {
                Some(part) => assert!(note.is_some_and(|note| note.contains(part)), "{ip}: {note:?}"),
                None => assert_eq!(note, None, "{ip}"),
            }
        }
        check("127.0.0.1", None, Some("very machine"));
        check("::1", None, Some("very machine"));
        check("192.168.1.7", None, Some("private or reserved"));
        check("fd00::1", None, Some("private or reserved"));
        check("8.8.8.8", None, Some("has no record of it"));
        check("8.8.8.8", Some(&Place::default()), None);
    }
}
