//! The fields of an answer as the description of the interface shows them. Nothing is made of these types: `Answer`
//! writes the bytes, and a test holds the two together.

use std::net::{Ipv4Addr, Ipv6Addr};
use utoipa::ToSchema;

/// The one word that `status` can be.
#[derive(Clone, Copy, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Success {
    /// The lookup succeeded.
    Success,
}

/// The fields of the scope `ip`.
#[derive(ToSchema)]
pub struct AddressFields {
    /// IPv4 address of the client; null if it came over IPv6.
    #[schema(value_type = Option<String>, format = Ipv4, example = "81.2.69.142")]
    pub ip: Option<Ipv4Addr>,
    /// IPv6 address of the client; null if it came over IPv4.
    #[schema(value_type = Option<String>, format = Ipv6)]
    pub ipv6: Option<Ipv6Addr>,
}

/// The fields that the scope `geo` adds.
#[derive(ToSchema)]
pub struct GeoFields<'a> {
    /// City name.
    #[schema(example = "London")]
    pub city: Option<&'a str>,
    /// Region or state name.
    #[schema(example = "England")]
    pub region: Option<&'a str>,
    /// The region's ISO 3166-2 code, whole.
    #[schema(example = "GB-ENG")]
    pub region_code: Option<&'a str>,
    /// ISO 3166-1 alpha-2 country code.
    #[schema(example = "GB")]
    pub country: Option<&'a str>,
    /// Country name in English.
    #[schema(example = "United Kingdom")]
    pub country_name: Option<&'a str>,
    /// Two-letter continent code.
    #[schema(example = "EU")]
    pub continent: Option<&'a str>,
    /// Latitude in degrees.
    #[schema(example = 51.5142, minimum = -90, maximum = 90)]
    pub latitude: Option<f64>,
    /// Longitude in degrees.
    #[schema(example = -0.0931, minimum = -180, maximum = 180)]
    pub longitude: Option<f64>,
    /// IANA time zone identifier.
    #[schema(example = "Europe/London")]
    pub timezone: Option<&'a str>,
    /// UTC offset of that zone in seconds at the moment of the request, daylight saving included.
    #[schema(example = 3600)]
    pub timezone_offset: Option<i32>,
    /// Postal code.
    #[schema(example = "EC2V")]
    pub postal_code: Option<&'a str>,
    /// Autonomous system number.
    #[schema(example = 20712, value_type = Option<i64>, minimum = 0)]
    pub asn: Option<u32>,
    /// AS organization name, or ISP.
    #[schema(example = "Andrews & Arnold Ltd")]
    pub org: Option<&'a str>,
    /// "AS", the number, a space and the organization name.
    #[schema(example = "AS20712 Andrews & Arnold Ltd")]
    pub r#as: Option<String>,
    /// Whether the address is in the European Union.
    #[schema(example = false)]
    pub is_eu: Option<bool>,
    /// ISO 4217 currency code of the country.
    #[schema(example = "GBP")]
    pub currency: Option<&'a str>,
}

/// How the caller speaks; in `full` and in the demo.
#[derive(ToSchema)]
pub struct ProtocolFields {
    /// HTTP version of the request.
    #[schema(example = "HTTP/2")]
    pub http_protocol: Option<&'static str>,
    /// TLS version of the connection; null on a clear one.
    #[schema(example = "TLSv1.3")]
    pub tls_version: Option<&'static str>,
}

/// The cipher; only in `full`.
#[derive(ToSchema)]
pub struct CipherFields<'a> {
    /// TLS cipher suite by its IANA name.
    #[schema(example = "TLS_AES_128_GCM_SHA256")]
    pub tls_cipher: Option<&'a str>,
}

/// The way to the caller; in `full` and in the demo.
#[derive(ToSchema)]
pub struct PathFields<'a> {
    /// Round-trip time to the edge in milliseconds.
    #[schema(example = 12, value_type = Option<i64>, minimum = 0)]
    pub rtt: Option<u32>,
    /// IATA code of the datacenter that served the request.
    #[schema(example = "AMS")]
    pub colo: Option<&'a str>,
}

/// What kind of network the caller is on; only in `full`.
#[derive(ToSchema)]
pub struct FlagFields {
    /// True for a known VPN or proxy network.
    #[schema(example = false)]
    pub proxy: Option<bool>,
    /// True for a known hosting or cloud network.
    #[schema(example = false)]
    pub hosting: Option<bool>,
}
