//! An answer of the scope `full`, as one declares it who hands it to `serde_json`.

use serde::Serialize;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What ipse is measured against: the same fields in the same order.
#[derive(Serialize)]
#[expect(missing_docs, reason = "the contract says what they are")]
pub struct FullBody<'a> {
    pub status: &'static str,
    pub ip: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
    pub city: Option<&'a str>,
    pub region: Option<&'a str>,
    pub region_code: Option<&'a str>,
    pub country: Option<&'a str>,
    pub country_name: Option<&'a str>,
    pub continent: Option<&'a str>,
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
    pub timezone: Option<&'a str>,
    pub timezone_offset: Option<i32>,
    pub postal_code: Option<&'a str>,
    pub asn: Option<u32>,
    pub org: Option<&'a str>,
    pub r#as: Option<String>,
    pub is_eu: Option<bool>,
    pub currency: Option<&'a str>,
    pub http_protocol: Option<&'a str>,
    pub tls_version: Option<&'a str>,
    pub tls_cipher: Option<&'a str>,
    pub rtt: Option<u32>,
    pub colo: Option<&'a str>,
    pub proxy: Option<bool>,
    pub hosting: Option<bool>,
}
