//! The body of a successful lookup, one type per scope: what a scope does not contain has no field here.
//!
//! The order of the fields is the order of the bytes, and the same types describe themselves in OpenAPI.

use crate::{Client, Colo, HttpVersion, Network, Now, Place, Scope, TlsVersion, Zone};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use utoipa::ToSchema;

/// An answer of some scope, ready to be written.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Answer<'a> {
    /// For the scope `ip`.
    Ip(IpAnswer),
    /// For the scope `geo`.
    Geo(GeoAnswer<'a>),
    /// For the scope `full`.
    Full(FullAnswer<'a>),
    /// For the demo endpoint.
    Demo(DemoAnswer<'a>),
}

impl<'a> Answer<'a> {
    /// The answer that `scope` entitles to.
    #[must_use]
    pub fn for_scope(
        scope: Scope,
        client: &'a Client,
        now: Now,
        place: Option<&'a Place>,
        network: Option<&'a Network>,
    ) -> Self {
        let address = AddressFields::of(client);
        match scope {
            Scope::Ip => Self::Ip(IpAnswer { status: Success::Success, address }),
            Scope::Geo => Self::Geo(GeoAnswer {
                status: Success::Success,
                address,
                geo: GeoFields::of(now, place, network),
            }),
            Scope::Full => Self::Full(FullAnswer {
                status: Success::Success,
                address,
                geo: GeoFields::of(now, place, network),
                protocol: ProtocolFields::of(client),
                cipher: CipherFields::of(client),
                path: PathFields::of(client),
                flags: FlagFields::of(network),
            }),
        }
    }

    /// The demo's fixed set of fields.
    #[must_use]
    pub fn for_demo(
        client: &'a Client,
        now: Now,
        place: Option<&'a Place>,
        network: Option<&'a Network>,
    ) -> Self {
        Self::Demo(DemoAnswer {
            status: Success::Success,
            address: AddressFields::of(client),
            geo: GeoFields::of(now, place, network),
            protocol: ProtocolFields::of(client),
            path: PathFields::of(client),
        })
    }
}

/// The one word that `status` can be.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Success {
    /// The lookup succeeded.
    Success,
}

/// Scope `ip`: the address alone.
#[derive(Serialize)]
pub struct IpAnswer {
    status: Success,
    #[serde(flatten)]
    address: AddressFields,
}

/// Scope `geo`: the address, where it is and whose network it is on.
#[derive(Serialize)]
pub struct GeoAnswer<'a> {
    status: Success,
    #[serde(flatten)]
    address: AddressFields,
    #[serde(flatten)]
    geo: GeoFields<'a>,
}

/// Scope `full`: everything.
#[derive(Serialize)]
pub struct FullAnswer<'a> {
    status: Success,
    #[serde(flatten)]
    address: AddressFields,
    #[serde(flatten)]
    geo: GeoFields<'a>,
    #[serde(flatten)]
    protocol: ProtocolFields,
    #[serde(flatten)]
    cipher: CipherFields<'a>,
    #[serde(flatten)]
    path: PathFields<'a>,
    #[serde(flatten)]
    flags: FlagFields,
}

/// The demo: scope `geo` and a part of the connection.
#[derive(Serialize)]
pub struct DemoAnswer<'a> {
    status: Success,
    #[serde(flatten)]
    address: AddressFields,
    #[serde(flatten)]
    geo: GeoFields<'a>,
    #[serde(flatten)]
    protocol: ProtocolFields,
    #[serde(flatten)]
    path: PathFields<'a>,
}

/// The fields of the scope `ip`.
#[derive(Serialize, ToSchema)]
pub struct AddressFields {
    /// IPv4 address of the client; null if it came over IPv6.
    #[schema(value_type = Option<String>, format = Ipv4, example = "81.2.69.142")]
    ip: Option<Ipv4Addr>,
    /// IPv6 address of the client; null if it came over IPv4.
    #[schema(value_type = Option<String>, format = Ipv6)]
    ipv6: Option<Ipv6Addr>,
}

impl AddressFields {
    fn of(client: &Client) -> Self {
        match client.address.ip() {
            IpAddr::V4(ip) => Self { ip: Some(ip), ipv6: None },
            IpAddr::V6(ip) => Self { ip: None, ipv6: Some(ip) },
        }
    }
}

/// The fields that the scope `geo` adds.
#[derive(Serialize, ToSchema)]
pub struct GeoFields<'a> {
    /// City name.
    #[schema(example = "London")]
    city: Option<&'a str>,
    /// Region or state name.
    #[schema(example = "England")]
    region: Option<&'a str>,
    /// The region's ISO 3166-2 code, whole.
    #[schema(example = "GB-ENG")]
    region_code: Option<&'a str>,
    /// ISO 3166-1 alpha-2 country code.
    #[schema(example = "GB")]
    country: Option<&'a str>,
    /// Country name in English.
    #[schema(example = "United Kingdom")]
    country_name: Option<&'a str>,
    /// Two-letter continent code.
    #[schema(example = "EU")]
    continent: Option<&'a str>,
    /// Latitude in degrees.
    #[schema(example = 51.5142, minimum = -90, maximum = 90)]
    latitude: Option<f64>,
    /// Longitude in degrees.
    #[schema(example = -0.0931, minimum = -180, maximum = 180)]
    longitude: Option<f64>,
    /// IANA time zone identifier.
    #[schema(example = "Europe/London")]
    timezone: Option<&'a str>,
    /// UTC offset of that zone in seconds at the moment of the request, daylight saving included.
    #[schema(example = 3600)]
    timezone_offset: Option<i32>,
    /// Postal code.
    #[schema(example = "EC2V")]
    postal_code: Option<&'a str>,
    /// Autonomous system number.
    #[schema(example = 20712, value_type = Option<i64>, minimum = 0)]
    asn: Option<u32>,
    /// AS organization name, or ISP.
    #[schema(example = "Andrews & Arnold Ltd")]
    org: Option<&'a str>,
    /// "AS", the number, a space and the organization name.
    #[schema(example = "AS20712 Andrews & Arnold Ltd")]
    r#as: Option<String>,
    /// Whether the address is in the European Union.
    #[schema(example = false)]
    is_eu: Option<bool>,
    /// ISO 4217 currency code of the country.
    #[schema(example = "GBP")]
    currency: Option<&'a str>,
}

impl<'a> GeoFields<'a> {
    fn of(now: Now, place: Option<&'a Place>, network: Option<&'a Network>) -> Self {
        let text = |field: fn(&Place) -> &Option<String>| place.and_then(|place| field(place).as_deref());
        let zone = place.and_then(|place| place.zone.as_ref());
        Self {
            city: text(|place| &place.city),
            region: text(|place| &place.region),
            region_code: text(|place| &place.region_code),
            country: text(|place| &place.country),
            country_name: text(|place| &place.country_name),
            continent: text(|place| &place.continent),
            latitude: place.and_then(|place| place.latitude),
            longitude: place.and_then(|place| place.longitude),
            timezone: zone.map(Zone::name),
            timezone_offset: zone.and_then(|zone| zone.offset_seconds(now)),
            postal_code: text(|place| &place.postal_code),
            asn: network.map(|network| network.asn),
            org: network.and_then(|network| network.org.as_deref()),
            r#as: network
                .and_then(|network| network.org.as_ref().map(|org| format!("AS{} {org}", network.asn))),
            is_eu: place.and_then(|place| place.is_eu),
            currency: text(|place| &place.currency),
        }
    }
}

/// How the caller speaks; in `full` and in the demo.
#[derive(Serialize, ToSchema)]
pub struct ProtocolFields {
    /// HTTP version of the request.
    #[schema(example = "HTTP/2")]
    http_protocol: Option<&'static str>,
    /// TLS version of the connection; null on a clear one.
    #[schema(example = "TLSv1.3")]
    tls_version: Option<&'static str>,
}

impl ProtocolFields {
    fn of(client: &Client) -> Self {
        Self {
            http_protocol: client.http.map(HttpVersion::as_str),
            tls_version: client.tls_version.map(TlsVersion::as_str),
        }
    }
}

/// The cipher; only in `full`.
#[derive(Serialize, ToSchema)]
pub struct CipherFields<'a> {
    /// TLS cipher suite by its IANA name.
    #[schema(example = "TLS_AES_128_GCM_SHA256")]
    tls_cipher: Option<&'a str>,
}

impl<'a> CipherFields<'a> {
    fn of(client: &'a Client) -> Self {
        Self { tls_cipher: client.tls_cipher.as_deref() }
    }
}

/// The way to the caller; in `full` and in the demo.
#[derive(Serialize, ToSchema)]
pub struct PathFields<'a> {
    /// Round-trip time to the edge in milliseconds.
    #[schema(example = 12, value_type = Option<i64>, minimum = 0)]
    rtt: Option<u32>,
    /// IATA code of the datacenter that served the request.
    #[schema(example = "AMS")]
    colo: Option<&'a str>,
}

impl<'a> PathFields<'a> {
    fn of(client: &'a Client) -> Self {
        Self { rtt: client.rtt_ms, colo: client.colo.as_ref().map(Colo::as_str) }
    }
}

/// What kind of network the caller is on; only in `full`.
#[derive(Serialize, ToSchema)]
pub struct FlagFields {
    /// True for a known VPN or proxy network.
    #[schema(example = false)]
    proxy: Option<bool>,
    /// True for a known hosting or cloud network.
    #[schema(example = false)]
    hosting: Option<bool>,
}

impl FlagFields {
    fn of(network: Option<&Network>) -> Self {
        Self { proxy: network.map(|network| network.proxy), hosting: network.map(|network| network.hosting) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

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
            latitude: Some(47.3769),
            longitude: Some(8.5417),
            zone: Some(Zone::named("Europe/Zurich").unwrap()),
            postal_code: Some("8001".into()),
            is_eu: Some(false),
            currency: Some("CHF".into()),
        }
    }

    fn network() -> Network {
        Network { asn: 3303, org: Some("Swisscom".into()), proxy: false, hosting: true }
    }

    #[track_caller]
    fn check(answer: &Answer<'_>, expected: &str) {
        assert_eq!(serde_json::to_string(answer).unwrap(), expected);
    }

    #[test]
    fn every_scope_has_its_own_fields_in_the_order_of_the_specification() {
        let (client, place, network) = (client("192.0.2.7"), place(), network());
        let full = r#"{"status":"success","ip":"192.0.2.7","ipv6":null,"city":"Zürich \"<HB>\"","region":"Zurich","region_code":"CH-ZH","country":"CH","country_name":"Switzerland","continent":"EU","latitude":47.3769,"longitude":8.5417,"timezone":"Europe/Zurich","timezone_offset":3600,"postal_code":"8001","asn":3303,"org":"Swisscom","as":"AS3303 Swisscom","is_eu":false,"currency":"CHF","http_protocol":"HTTP/2","tls_version":"TLSv1.3","tls_cipher":"TLS_AES_128_GCM_SHA256","rtt":12,"colo":"AMS","proxy":false,"hosting":true}"#;
        let (geo, _) = full.split_once(r#","http_protocol""#).unwrap();
        let demo = r#","http_protocol":"HTTP/2","tls_version":"TLSv1.3","rtt":12,"colo":"AMS"}"#;
        let (place, network) = (Some(&place), Some(&network));
        let ip = r#"{"status":"success","ip":"192.0.2.7","ipv6":null}"#;
        check(&Answer::for_scope(Scope::Ip, &client, NOON, place, network), ip);
        check(&Answer::for_scope(Scope::Geo, &client, NOON, place, network), &format!("{geo}}}"));
        check(&Answer::for_scope(Scope::Full, &client, NOON, place, network), full);
        check(&Answer::for_demo(&client, NOON, place, network), &format!("{geo}{demo}"));
    }

    #[test]
    fn what_is_unknown_is_null_and_present() {
        let mut client = client("2001:db8::1");
        (client.http, client.tls_version, client.tls_cipher) = (None, None, None);
        (client.rtt_ms, client.colo) = (None, None);
        check(
            &Answer::for_scope(Scope::Full, &client, NOON, None, None),
            r#"{"status":"success","ip":null,"ipv6":"2001:db8::1","city":null,"region":null,"region_code":null,"country":null,"country_name":null,"continent":null,"latitude":null,"longitude":null,"timezone":null,"timezone_offset":null,"postal_code":null,"asn":null,"org":null,"as":null,"is_eu":null,"currency":null,"http_protocol":null,"tls_version":null,"tls_cipher":null,"rtt":null,"colo":null,"proxy":null,"hosting":null}"#,
        );
    }

    #[test]
    fn an_organisation_that_is_unknown_leaves_as_null() {
        let network = Network { org: None, ..network() };
        let client = client("192.0.2.7");
        let json =
            serde_json::to_value(Answer::for_scope(Scope::Geo, &client, NOON, None, Some(&network))).unwrap();
        assert_eq!((&json["asn"], &json["org"], &json["as"]), (&3303.into(), &().into(), &().into()));
    }
}
