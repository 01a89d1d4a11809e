//! The visitor's own answer in words.
//!
//! It is made for one page and forgotten with it. Names of cities and organisations come from others' data: they
//! stay plain text here, and the template escapes them.

use crate::fields::{FIELDS, Field};
use crate::map::Map;
use ipse_geo::Found;
use ipse_model::{Address, Answer, Client, Degrees, Network, Now, Place, Scope};

/// What the front page shows of one visitor.
pub(crate) struct Visitor {
    /// The address, by the field that the API answers it in.
    pub(crate) address: Fact,
    /// Where that is, in words.
    pub(crate) place: Option<String>,
    pub(crate) map: Map,
    /// Why there is nothing to show about the place, if so. Between backticks stands code.
    pub(crate) note: Option<&'static str>,
    pub(crate) groups: [Group; 3],
    /// The same as the API answers it to a key of the broadest scope.
    pub(crate) json: String,
}

/// Facts that belong together.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) facts: Vec<Fact>,
}

/// One fact; `None` is shown as "unknown".
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: Option<String>,
    /// The fields of an answer that it is made of, which explain it.
    pub(crate) fields: Vec<&'static Field>,
}

impl Fact {
    /// What the explanation is called in the page.
    pub(crate) fn id(&self) -> String {
        let name = self.fields.first().map_or("", |field| field.name);
        format!("about-{name}")
    }
}

impl Visitor {
    pub(crate) fn new(client: &Client, now: Now, found: Found<'_>) -> Self {
        let answer = Answer { client, now, found: found.written() };
        let place = found.place().unwrap_or_default();
        let words = in_words(&place);
        let ip = client.address.ip();
        let field = if ip.is_ipv4() { "ip" } else { "ipv6" };
        Self {
            address: fact("Your address", &[field], Some(ip.to_string())),
            map: Map::new(place.position, words.as_deref()),
            place: words,
            note: note(client.address, found),
            groups: [
                Group { heading: "Place", facts: place_facts(place, now) },
                Group { heading: "Network", facts: network_facts(found.network().unwrap_or_default()) },
                Group { heading: "Connection", facts: connection_facts(client) },
            ],
            json: pretty(&answer.for_scope(Scope::Full)),
        }
    }
}

/// City, region and country, each name once: Singapore is all three.
fn in_words(place: &Place) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for name in [&place.city, &place.region, &place.country_name].into_iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

fn note(address: Address, found: Found<'_>) -> Option<&'static str> {
    if address.ip().is_loopback() {
        Some(
            "You are calling from the very machine that this server runs on. Such an address is the same \
             everywhere, so it has no place and no network. To see what others will see, start the server with \
             `--pretend-ip` and an address of the public internet, such as your own.",
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
    let coordinates = place.position.map(|(latitude, longitude)| {
        format!("{}, {}", direction(latitude, "N", "S"), direction(longitude, "E", "W"))
    });
    let zone = place.zone;
    let offset = zone.as_ref().and_then(|zone| zone.offset_seconds(now));
    vec![
        fact("City", &["city"], place.city),
        fact("Region", &["region", "region_code"], with_code(place.region, place.region_code)),
        fact("Country", &["country", "country_name"], with_code(place.country_name, place.country)),
        fact("Continent", &["continent"], place.continent.as_deref().map(continent)),
        fact("Coordinates", &["latitude", "longitude"], coordinates),
        fact("Time zone", &["timezone"], zone.map(|zone| zone.name().to_owned())),
        fact("UTC offset", &["timezone_offset"], offset.map(utc_offset)),
        fact("Postal code", &["postal_code"], place.postal_code),
        fact("In the EU", &["is_eu"], place.is_eu.map(yes_or_no)),
        fact("Currency", &["currency"], place.currency),
    ]
}

fn network_facts(network: Network) -> Vec<Fact> {
    vec![
        fact("Organization", &["org"], network.org),
        fact("System", &["asn", "as"], network.asn.map(|asn| format!("AS{asn}"))),
        fact("VPN or proxy", &["proxy"], network.proxy.map(yes_or_no)),
        fact("Hosting", &["hosting"], network.hosting.map(yes_or_no)),
    ]
}

fn connection_facts(client: &Client) -> Vec<Fact> {
    let round_trip =
        client.rtt_ms.map(|ms| if ms == 0 { "under 1 ms".to_owned() } else { format!("{ms} ms") });
    vec![
        fact("HTTP", &["http_protocol"], client.http.map(|http| http.as_str().to_owned())),
        fact("TLS", &["tls_version"], client.tls_version.map(|tls| tls.as_str().to_owned())),
        fact("Cipher", &["tls_cipher"], client.tls_cipher.as_ref().map(ToString::to_string)),
        fact("Round trip", &["rtt"], round_trip),
        fact("Datacenter", &["colo"], client.colo.map(|colo| colo.to_string())),
    ]
}

/// An answer with a line for each field.
pub(crate) fn pretty(json: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    serde_json::to_string_pretty(&value).unwrap_or_default()
}

fn fact(name: &'static str, fields: &[&str], value: Option<String>) -> Fact {
    let fields = FIELDS.iter().filter(|field| fields.contains(&field.name)).collect();
    Fact { name, value, fields }
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

/// `51.5142° N`: as many digits as say something about where a network is.
fn direction(degrees: Degrees, positive: &str, negative: &str) -> String {
    let degrees = degrees.degrees();
    let side = if degrees < 0.0 { negative } else { positive };
    let rounded = (degrees.abs() * 1e4).round() / 1e4;
    format!("{rounded}° {side}")
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
    use ipse_model::HttpVersion;

    fn visitor(ip: &str) -> Visitor {
        let client = Client {
            address: Address::new(ip.parse().unwrap()),
            http: Some(HttpVersion::Http2),
            tls_version: None,
            tls_cipher: None,
            rtt_ms: Some(0),
            colo: None,
        };
        let now = Now { unix_ms: 1_784_116_800_000, boot_ms: 0 };
        Visitor::new(&client, now, Atlas::empty().find(client.address))
    }

    #[test]
    fn every_field_is_explained_once() {
        #[track_caller]
        fn check(ip: &str, other: &str) {
            let visitor = visitor(ip);
            let facts = visitor.groups.iter().flat_map(|group| &group.facts).chain([&visitor.address]);
            let mut explained: Vec<&str> = facts
                .flat_map(|fact| &fact.fields)
                .map(|field| field.name)
                .chain(["status", other])
                .collect();
            let mut all: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            explained.sort_unstable();
            all.sort_unstable();
            assert_eq!(explained, all);
        }
        check("192.0.2.1", "ipv6");
        check("2001:db8::1", "ip");
    }

    #[test]
    fn a_place_in_words_names_nothing_twice() {
        #[track_caller]
        fn check(city: Option<&str>, region: Option<&str>, country: Option<&str>, expected: Option<&str>) {
            let [city, region, country_name] = [city, region, country].map(|name| name.map(str::to_owned));
            let place = Place { city, region, country_name, ..Place::default() };
            assert_eq!(in_words(&place).as_deref(), expected);
        }
        check(
            Some("London"),
            Some("England"),
            Some("United Kingdom"),
            Some("London, England, United Kingdom"),
        );
        check(Some("Singapore"), Some("Singapore"), Some("Singapore"), Some("Singapore"));
        check(None, None, Some("France"), Some("France"));
        check(None, None, None, None);
    }

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
    fn coordinates_have_directions() {
        #[track_caller]
        fn check(degrees: f64, expected: &str) {
            assert_eq!(direction(Degrees::longitude(degrees).unwrap(), "E", "W"), expected);
        }
        check(151.2093, "151.2093° E");
        check(-0.091_224, "0.0912° W");
        check(0.0, "0° E");
        check(-180.0, "180° W");
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
