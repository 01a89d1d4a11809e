//! The body of a successful lookup: what a scope does not contain is not written, and what is unknown is `null`.
//!
//! The order of the fields is that of the specification.

use crate::{Client, Colo, Degrees, HttpVersion, Now, Scope, TlsVersion, Written, Zone, digits};
use std::io::Write;
use std::net::IpAddr;

/// Everything that an answer is made of.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    /// Who asks.
    pub client: &'a Client,
    /// When.
    pub now: Now,
    /// What is known about their address.
    pub found: Written<'a>,
}

/// Room for nearly every answer, so that writing one allocates once.
const USUAL_BYTES: usize = 1024;

impl Answer<'_> {
    /// The body that `scope` entitles to.
    #[must_use]
    pub fn for_scope(&self, scope: Scope) -> Vec<u8> {
        let mut json = Vec::with_capacity(USUAL_BYTES);
        self.write_address(&mut json);
        if scope >= Scope::Geo {
            self.write_geo(&mut json);
        }
        if scope == Scope::Full {
            self.write_protocol(&mut json);
            write_text(&mut json, ",\"tls_cipher\":", self.client.tls_cipher.as_deref());
            self.write_path(&mut json);
            match self.found.network {
                Some(network) => push_all(&mut json, [",", &network.flags]),
                None => push_all(&mut json, [",\"proxy\":null,\"hosting\":null"]),
            }
        }
        json.push(b'}');
        json
    }

    /// The demo's fixed set of fields.
    #[must_use]
    pub fn for_demo(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(USUAL_BYTES);
        self.write_address(&mut json);
        self.write_geo(&mut json);
        self.write_protocol(&mut json);
        self.write_path(&mut json);
        json.push(b'}');
        json
    }

    fn write_address(&self, json: &mut Vec<u8>) {
        match self.client.address.ip() {
            IpAddr::V4(ip) => {
                push_all(json, ["{\"status\":\"success\",\"ip\":\""]);
                for (place, octet) in ip.octets().into_iter().enumerate() {
                    if place > 0 {
                        json.push(b'.');
                    }
                    digits::write(json, octet.into());
                }
                push_all(json, ["\",\"ipv6\":null"]);
            }
            IpAddr::V6(ip) => {
                // Writing to memory cannot fail.
                let _ = write!(json, "{{\"status\":\"success\",\"ip\":null,\"ipv6\":\"{ip}\"");
            }
        }
    }

    fn write_geo(&self, json: &mut Vec<u8>) {
        match self.found.place {
            Some(place) => {
                push_all(json, [",\"city\":", place.city.unwrap_or(NULL), ",", &place.area.names]);
                write_position(json, place.position);
                write_zone(json, place.zone, self.now);
                push_all(json, [",\"postal_code\":", place.postal_code.unwrap_or(NULL)]);
            }
            None => push_all(json, [NO_PLACE]),
        }
        match self.found.network {
            Some(network) => push_all(json, [",", &network.system]),
            None => push_all(json, [",\"asn\":null,\"org\":null,\"as\":null"]),
        }
        match self.found.place {
            Some(place) => push_all(json, [",", &place.area.country]),
            None => push_all(json, [",\"is_eu\":null,\"currency\":null"]),
        }
    }

    fn write_protocol(&self, json: &mut Vec<u8>) {
        write_text(json, ",\"http_protocol\":", self.client.http.map(HttpVersion::as_str));
        write_text(json, ",\"tls_version\":", self.client.tls_version.map(TlsVersion::as_str));
    }

    fn write_path(&self, json: &mut Vec<u8>) {
        push_all(json, [",\"rtt\":"]);
        match self.client.rtt_ms {
            Some(rtt_ms) => digits::write(json, rtt_ms),
            None => push_all(json, [NULL]),
        }
        write_text(json, ",\"colo\":", self.client.colo.as_ref().map(Colo::as_str));
    }
}

const NULL: &str = "null";
const NO_PLACE: &str = ",\"city\":null,\"region\":null,\"region_code\":null,\"country\":null,\"country_name\":null,\
                        \"continent\":null,\"latitude\":null,\"longitude\":null,\"timezone\":null,\
                        \"timezone_offset\":null,\"postal_code\":null";

fn push_all<const N: usize>(json: &mut Vec<u8>, parts: [&str; N]) {
    parts.into_iter().for_each(|part| json.extend_from_slice(part.as_bytes()));
}

/// A field whose text needs no escapes: a version, an IANA name, a code of three letters.
fn write_text(json: &mut Vec<u8>, field: &str, text: Option<&str>) {
    match text {
        Some(text) => push_all(json, [field, "\"", text, "\""]),
        None => push_all(json, [field, NULL]),
    }
}

fn write_position(json: &mut Vec<u8>, position: Option<(Degrees, Degrees)>) {
    match position {
        Some((latitude, longitude)) => {
            push_all(json, [",\"latitude\":"]);
            latitude.write(json);
            push_all(json, [",\"longitude\":"]);
            longitude.write(json);
        }
        None => push_all(json, [",\"latitude\":null,\"longitude\":null"]),
    }
}

fn write_zone(json: &mut Vec<u8>, zone: Option<&Zone>, now: Now) {
    write_text(json, ",\"timezone\":", zone.map(Zone::name));
    push_all(json, [",\"timezone_offset\":"]);
    match zone.and_then(|zone| zone.offset_seconds(now)) {
        Some(seconds) => {
            if seconds < 0 {
                json.push(b'-');
            }
            digits::write(json, seconds.unsigned_abs());
        }
        None => push_all(json, [NULL]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Network, Place, WrittenArea, WrittenNetwork, WrittenPlace, quoted};
    use proptest::prelude::*;

    const NOON: Now = Now { unix_ms: 1_768_478_400_000, boot_ms: 0 };

    fn client(ip: &str) -> Client {
        Client {
            address: Address::new(ip.parse().unwrap()),
            http: Some(HttpVersion::Http2),
            tls_version: Some(TlsVersion::Tls13),
            tls_cipher: Some("TLS_AES_128_GCM_SHA256".into()),
            rtt_ms: Some(12),
            colo: Some("AMS".parse::<Colo>().unwrap()),
        }
    }

    fn place() -> Place {
        Place {
            city: Some("Zürich \"<HB>\"".into()),
            region: Some("Zurich".into()),
            region_code: Some("CH-ZH".into()),
            country: Some("CH".into()),
            country_name: Some("Switzerland".into()),
            continent: Some("EU".into()),
            position: Degrees::latitude(47.3769).zip(Degrees::longitude(8.5417)),
            zone: Some(Zone::named("Europe/Zurich").unwrap()),
            postal_code: Some("8001".into()),
            is_eu: Some(false),
            currency: Some("CHF".into()),
        }
    }

    fn network() -> Network {
        Network { asn: Some(3303), org: Some("Swisscom".into()), proxy: Some(false), hosting: Some(true) }
    }

    /// Writes an answer of each kind: of the three scopes, and the demo's.
    fn written(client: &Client, place: Option<&Place>, network: Option<&Network>) -> [String; 4] {
        let quote = |text: &Option<String>| text.as_deref().map(quoted);
        let texts =
            place.map(|place| (quote(&place.city), quote(&place.postal_code), WrittenArea::of(place)));
        let network = network.map(WrittenNetwork::of);
        let place = place.zip(texts.as_ref()).map(|(place, (city, postal_code, area))| WrittenPlace {
            city: city.as_deref(),
            area,
            position: place.position,
            zone: place.zone.as_ref(),
            postal_code: postal_code.as_deref(),
        });
        let answer = Answer { client, now: NOON, found: Written { place, network: network.as_ref() } };
        let [ip, geo, full] = Scope::ALL.map(|scope| answer.for_scope(scope));
        [ip, geo, full, answer.for_demo()].map(|json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn every_scope_has_its_own_fields_in_the_order_of_the_specification() {
        let full = r#"{"status":"success","ip":"192.0.2.7","ipv6":null,"city":"Zürich \"<HB>\"","region":"Zurich","region_code":"CH-ZH","country":"CH","country_name":"Switzerland","continent":"EU","latitude":47.3769,"longitude":8.5417,"timezone":"Europe/Zurich","timezone_offset":3600,"postal_code":"8001","asn":3303,"org":"Swisscom","as":"AS3303 Swisscom","is_eu":false,"currency":"CHF","http_protocol":"HTTP/2","tls_version":"TLSv1.3","tls_cipher":"TLS_AES_128_GCM_SHA256","rtt":12,"colo":"AMS","proxy":false,"hosting":true}"#;
        let (geo, _) = full.split_once(r#","http_protocol""#).unwrap();
        let demo = r#","http_protocol":"HTTP/2","tls_version":"TLSv1.3","rtt":12,"colo":"AMS"}"#;
        let ip = r#"{"status":"success","ip":"192.0.2.7","ipv6":null}"#;
        assert_eq!(
            written(&client("192.0.2.7"), Some(&place()), Some(&network())),
            [ip.to_owned(), format!("{geo}}}"), full.to_owned(), format!("{geo}{demo}")]
        );
    }

    #[test]
    fn what_is_unknown_is_null_and_present() {
        let mut client = client("2001:db8::1");
        (client.http, client.tls_version, client.tls_cipher) = (None, None, None);
        (client.rtt_ms, client.colo) = (None, None);
        let full = r#"{"status":"success","ip":null,"ipv6":"2001:db8::1","city":null,"region":null,"region_code":null,"country":null,"country_name":null,"continent":null,"latitude":null,"longitude":null,"timezone":null,"timezone_offset":null,"postal_code":null,"asn":null,"org":null,"as":null,"is_eu":null,"currency":null,"http_protocol":null,"tls_version":null,"tls_cipher":null,"rtt":null,"colo":null,"proxy":null,"hosting":null}"#;
        assert_eq!(written(&client, None, None)[2], full);
        // A record that knows nothing is written like none.
        assert_eq!(written(&client, Some(&Place::default()), Some(&Network::default()))[2], full);
    }

    #[test]
    fn an_organisation_that_is_unknown_leaves_as_null() {
        let network = Network { org: None, ..network() };
        let geo = &written(&client("192.0.2.7"), None, Some(&network))[1];
        assert!(geo.contains(r#""asn":3303,"org":null,"as":null"#), "{geo}");
    }

    proptest! {
        #[test]
        fn whatever_the_names_are_an_answer_is_json_that_holds_them(
            (city, region, org) in any::<(String, String, String)>(),
            (latitude, longitude) in (-90_000_000..=90_000_000, -180_000_000..=180_000_000),
            asn in any::<u32>(),
        ) {
            let degrees = Degrees::from_millionths;
            let place = Place {
                city: Some(city.clone()),
                region: Some(region.clone()),
                position: Some((degrees(latitude), degrees(longitude))),
                ..place()
            };
            let network = Network { asn: Some(asn), org: Some(org.clone()), ..network() };
            for answer in &written(&client("192.0.2.7"), Some(&place), Some(&network))[1..] {
                let json: serde_json::Value = serde_json::from_str(answer).unwrap();
                prop_assert_eq!(&json["city"], &city);
                prop_assert_eq!(&json["region"], &region);
                prop_assert_eq!(&json["org"], &org);
                prop_assert_eq!(&json["as"], &format!("AS{asn} {org}"));
                prop_assert_eq!(&json["asn"], asn);
                prop_assert_eq!(&json["latitude"], degrees(latitude).degrees());
                prop_assert_eq!(&json["longitude"], degrees(longitude).degrees());
            }
        }
    }
}
