//! The body of a successful lookup: what a scope does not contain is not written, and what is unknown is `null`.
//!
//! The order of the fields is that of the specification.

use crate::{Client, Degrees, HttpVersion, Now, Scope, TlsVersion, Written, Zone, digits, written};
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

impl Answer<'_> {
    /// Room for nearly every answer, so that writing one allocates once.
    pub const USUAL_BYTES: usize = 1024;

    /// The body that `scope` entitles to.
    #[must_use]
    pub fn for_scope(&self, scope: Scope) -> Vec<u8> {
        let mut json = Vec::with_capacity(Self::USUAL_BYTES);
        self.write_for_scope(scope, &mut json);
        json
    }

    /// Writes the body that `scope` entitles to.
    pub fn write_for_scope(&self, scope: Scope, json: &mut Vec<u8>) {
        self.write_address(json);
        if scope >= Scope::Geo {
            self.write_geo(json);
        }
        if scope == Scope::Full {
            self.write_protocol(json);
            match self.client.tls_cipher.as_deref() {
                Some(cipher) => push_all(json, [",\"tls_cipher\":\"", cipher, "\""]),
                None => push(json, ",\"tls_cipher\":null"),
            }
            self.write_path(json);
            push(json, written::flags(self.found.proxy, self.found.hosting));
        } else {
            json.push(b'}');
        }
    }

    /// Writes the demo's fixed set of fields.
    pub fn write_for_demo(&self, json: &mut Vec<u8>) {
        self.write_address(json);
        self.write_geo(json);
        self.write_protocol(json);
        self.write_path(json);
        json.push(b'}');
    }

    fn write_address(&self, json: &mut Vec<u8>) {
        match self.client.address.ip() {
            IpAddr::V4(ip) => {
                push(json, "{\"status\":\"success\",\"ip\":\"");
                digits::write_v4(json, ip);
                push(json, "\",\"ipv6\":null");
            }
            IpAddr::V6(ip) => {
                push(json, "{\"status\":\"success\",\"ip\":null,\"ipv6\":\"");
                digits::write_v6(json, ip);
                json.push(b'"');
            }
        }
    }

    fn write_geo(&self, json: &mut Vec<u8>) {
        let Written { city, area, position, zone, postal_code, system, .. } = self.found;
        push(json, ",\"city\":");
        json.extend_from_slice(city);
        json.extend_from_slice(area.names());
        write_position(json, position);
        write_zone(json, zone, self.now);
        push(json, ",\"postal_code\":");
        json.extend_from_slice(postal_code);
        json.extend_from_slice(system);
        json.extend_from_slice(area.country());
    }

    fn write_protocol(&self, json: &mut Vec<u8>) {
        let http = match self.client.http {
            None => ",\"http_protocol\":null",
            Some(HttpVersion::Http10) => ",\"http_protocol\":\"HTTP/1.0\"",
            Some(HttpVersion::Http11) => ",\"http_protocol\":\"HTTP/1.1\"",
            Some(HttpVersion::Http2) => ",\"http_protocol\":\"HTTP/2\"",
            Some(HttpVersion::Http3) => ",\"http_protocol\":\"HTTP/3\"",
        };
        let tls = match self.client.tls_version {
            None => ",\"tls_version\":null",
            Some(TlsVersion::Tls12) => ",\"tls_version\":\"TLSv1.2\"",
            Some(TlsVersion::Tls13) => ",\"tls_version\":\"TLSv1.3\"",
        };
        push_all(json, [http, tls]);
    }

    fn write_path(&self, json: &mut Vec<u8>) {
        match self.client.rtt_ms {
            Some(rtt_ms) => {
                push(json, ",\"rtt\":");
                digits::write(json, rtt_ms);
            }
            None => push(json, ",\"rtt\":null"),
        }
        match &self.client.colo {
            Some(colo) => push_all(json, [",\"colo\":\"", colo.as_str(), "\""]),
            None => push(json, ",\"colo\":null"),
        }
    }
}

const NULL: &[u8] = b"null";
fn push(json: &mut Vec<u8>, part: &str) {
    json.extend_from_slice(part.as_bytes());
}

fn push_all<const N: usize>(json: &mut Vec<u8>, parts: [&str; N]) {
    parts.into_iter().for_each(|part| push(json, part));
}

fn write_position(json: &mut Vec<u8>, position: Option<(Degrees, Degrees)>) {
    match position {
        Some((latitude, longitude)) => {
            push(json, ",\"latitude\":");
            latitude.write(json);
            push(json, ",\"longitude\":");
            longitude.write(json);
        }
        None => push(json, ",\"latitude\":null,\"longitude\":null"),
    }
}

fn write_zone(json: &mut Vec<u8>, zone: Option<&Zone>, now: Now) {
    let Some(zone) = zone else {
        return push(json, ",\"timezone\":null,\"timezone_offset\":null");
    };
    push(json, zone.written());
    match zone.offset_seconds(now) {
        Some(seconds) => {
            if seconds < 0 {
                json.push(b'-');
            }
            digits::write(json, seconds.unsigned_abs());
        }
        None => json.extend_from_slice(NULL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::system_names;
    use crate::{Address, Area, Colo, Network, Place, quoted};
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
        let value = |text: &Option<String>| text.as_deref().map_or_else(|| "null".to_owned(), quoted);
        let (place, network) = (place.cloned().unwrap_or_default(), network.cloned().unwrap_or_default());
        let (city, postal_code) = (value(&place.city), value(&place.postal_code));
        let (area, system) = (Area::of(&place), system_names(&network));
        let found = Written {
            city: city.as_bytes(),
            area: &area,
            position: place.position,
            zone: place.zone.as_ref(),
            postal_code: postal_code.as_bytes(),
            system: system.as_bytes(),
            proxy: network.proxy,
            hosting: network.hosting,
        };
        let answer = Answer { client, now: NOON, found };
        let [ip, geo, full] = Scope::ALL.map(|scope| answer.for_scope(scope));
        let mut demo = Vec::new();
        answer.write_for_demo(&mut demo);
        [ip, geo, full, demo].map(|json| String::from_utf8(json).unwrap())
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
