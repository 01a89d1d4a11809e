//! The fields of an answer, as the documentation explains them.

use ipse_model::Scope;

/// One field of a successful lookup.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The JSON types that it can have.
    pub(crate) kind: &'static str,
    /// The narrowest scope that returns it.
    pub(crate) scope: Scope,
    /// What it says. Between backticks stands code.
    pub(crate) meaning: &'static str,
}

const fn field(name: &'static str, kind: &'static str, scope: Scope, meaning: &'static str) -> Field {
    Field { name, kind, scope, meaning }
}

const STRING: &str = "string or null";
const NUMBER: &str = "number or null";
const INTEGER: &str = "integer or null";
const BOOLEAN: &str = "boolean or null";

/// Every field, in the order in which an answer holds them.
pub(crate) const FIELDS: [Field; 26] = [
    field("status", "string", Scope::Ip, "Always `success`."),
    field("ip", STRING, Scope::Ip, "The IPv4 address; null if you came over IPv6."),
    field("ipv6", STRING, Scope::Ip, "The IPv6 address; null if you came over IPv4."),
    field("city", STRING, Scope::Geo, "City name."),
    field("region", STRING, Scope::Geo, "Name of the region or state."),
    field("region_code", STRING, Scope::Geo, "The region’s whole ISO 3166-2 code, such as `US-CA`."),
    field("country", STRING, Scope::Geo, "ISO 3166-1 alpha-2 country code."),
    field("country_name", STRING, Scope::Geo, "Country name in English."),
    field("continent", STRING, Scope::Geo, "Two-letter continent code."),
    field("latitude", NUMBER, Scope::Geo, "Latitude in degrees, north positive."),
    field("longitude", NUMBER, Scope::Geo, "Longitude in degrees, east positive."),
    field("timezone", STRING, Scope::Geo, "IANA time zone identifier."),
    field(
        "timezone_offset",
        INTEGER,
        Scope::Geo,
        "Offset from UTC in seconds at the moment of the request, daylight saving included.",
    ),
    field("postal_code", STRING, Scope::Geo, "Postal code."),
    field("asn", INTEGER, Scope::Geo, "Autonomous system number of the network."),
    field("org", STRING, Scope::Geo, "The organization behind that number, often the internet provider."),
    field("as", STRING, Scope::Geo, "Both in one text: `AS`, the number, a space, the organization."),
    field("is_eu", BOOLEAN, Scope::Geo, "Whether the address is in the European Union."),
    field("currency", STRING, Scope::Geo, "ISO 4217 code of the country’s currency."),
    field("http_protocol", STRING, Scope::Full, "`HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`."),
    field("tls_version", STRING, Scope::Full, "`TLSv1.2` or `TLSv1.3`; null on a connection without TLS."),
    field("tls_cipher", STRING, Scope::Full, "The cipher suite by its IANA name."),
    field(
        "rtt",
        INTEGER,
        Scope::Full,
        "Round-trip time to the server in milliseconds, as the transport measures it.",
    ),
    field(
        "colo",
        STRING,
        Scope::Full,
        "IATA code of the datacenter that answered; null if none is configured.",
    ),
    field("proxy", BOOLEAN, Scope::Full, "True for a network known for VPNs or proxies."),
    field("hosting", BOOLEAN, Scope::Full, "True for a network known for hosting or cloud services."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::tests::sample_json;

    #[track_caller]
    fn check(scope: Scope) {
        let json = sample_json(scope);
        let answered: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let explained: Vec<&str> =
            FIELDS.iter().filter(|field| field.scope <= scope).map(|field| field.name).collect();
        assert_eq!(explained, answered);
    }

    #[test]
    fn what_is_explained_is_what_is_answered() {
        Scope::ALL.into_iter().for_each(check);
    }
}
