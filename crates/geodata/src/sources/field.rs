//! The names under which vendors write things, and how their values become facts.
//!
//! One table serves every vendor, in MMDB and CSV alike: no two of them mean different things by one name, where they
//! differ a rank says which name is better, and a file of a vendor nobody has heard of is read if its names are usual.

use super::Kind;
use crate::clean;
use crate::facts::Facts;

/// A value as the file has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Text(&'a str),
    Integer(u64),
    Number(f64),
    Flag(bool),
}

/// What a value can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    City,
    Region,
    RegionCode,
    Country,
    RegisteredCountry,
    Latitude,
    Longitude,
    /// Both coordinates in one text, separated by a comma.
    Both,
    Zone,
    PostalCode,
    Asn,
    Org,
    /// One of the ways to hide: a VPN, a proxy, an exit of Tor. A relay, such as Apple's, is none: whoever calls
    /// through it is a person at home.
    Hides,
    /// "Anonymous" without saying how; `MaxMind` says so of hosting providers too.
    Anonymous,
    Hosting,
    /// `IP2Proxy`'s three letters.
    ProxyType,
    /// Who uses the address: `hosting` among others.
    UserType,
}

const FIELDS: usize = Field::UserType as usize + 1;

/// Which field a name means; the lower the rank, the better the name.
///
/// A name is a column's, or a path of keys joined by dots (`subdivisions.0.names.en`).
pub(super) fn named(name: &str) -> Option<(Field, u8)> {
    // Vendors wrap the same names in maps that group them.
    const GROUPS: [&str; 8] =
        ["location.", "traits.", "anonymous_ip.", "privacy.", "anonymous.", "geo.", "as.", "asn."];
    let name = GROUPS.iter().find_map(|group| name.strip_prefix(group)).unwrap_or(name);
    Some(match name {
        "city.names.en" | "city" => (Field::City, 0),
        "city.name" | "city_name" => (Field::City, 1),
        "subdivisions.0.names.en" | "region" | "state1" | "stateprov" | "subdivision_1_name" => {
            (Field::Region, 0)
        }
        "region.name" | "region_name" | "state" | "state_prov" | "subdivisions.0.name" => (Field::Region, 1),
        "subdivisions.0.iso_code"
        | "region_code"
        | "stateprov_code"
        | "subdivision_1_iso_code"
        | "region.code" => (Field::RegionCode, 0),
        "country.iso_code" | "country_code" | "country_iso_code" => (Field::Country, 0),
        "country.code" | "countrycode" | "country_short" | "cc" => (Field::Country, 1),
        // Some write the code here and some the name, which is no code and so not taken.
        "country" => (Field::Country, 2),
        "registered_country.iso_code" | "registered_country_code" => (Field::RegisteredCountry, 0),
        "latitude" | "lat" => (Field::Latitude, 0),
        "longitude" | "lng" | "lon" | "long" => (Field::Longitude, 0),
        "loc" => (Field::Both, 0),
        "time_zone" | "timezone" | "timezone_name" | "time_zone_name" => (Field::Zone, 0),
        "postal.code" | "postal_code" | "postal" | "postcode" | "zip_code" | "zipcode" | "zip" => {
            (Field::PostalCode, 0)
        }
        "autonomous_system_number" | "as_number" => (Field::Asn, 0),
        "asn" => (Field::Asn, 1),
        "autonomous_system_organization" | "as_name" | "as_organization" | "as_org" | "as_description" => {
            (Field::Org, 0)
        }
        "as" | "org" | "name" => (Field::Org, 1),
        "isp" | "isp_name" => (Field::Org, 2),
        "organization" | "organization_name" => (Field::Org, 3),
        "is_anonymous_vpn"
        | "is_public_proxy"
        | "is_tor_exit_node"
        | "is_residential_proxy"
        | "is_anonymous_proxy" => (Field::Hides, 0),
        "is_vpn" | "is_proxy" | "is_tor" | "is_res_proxy" => (Field::Hides, 0),
        "vpn" | "proxy" | "tor" => (Field::Hides, 0),
        "is_anonymous" => (Field::Anonymous, 0),
        "is_hosting_provider" | "is_hosting" | "hosting" => (Field::Hosting, 0),
        "proxy_type" => (Field::ProxyType, 0),
        "user_type" | "usage_type" => (Field::UserType, 0),
        _ => return None,
    })
}

/// What one record says, as it is collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Gather<'a> {
    values: [Option<(u8, Scalar<'a>)>; FIELDS],
}

impl<'a> Gather<'a> {
    /// Takes a value, unless there is one under a better name.
    pub(super) fn take(&mut self, field: Field, rank: u8, value: Scalar<'a>) {
        if let Scalar::Text(text) = value
            && text.trim().is_empty()
        {
            return;
        }
        let slot = &mut self.values[field as usize];
        match (field, *slot) {
            // Any one of them is enough.
            (Field::Hides, Some((_, old))) if truth(old) => {}
            (Field::Hides, _) => *slot = Some((rank, value)),
            (_, Some((better, _))) if better <= rank => {}
            _ => *slot = Some((rank, value)),
        }
    }

    /// The facts of one kind. What a file says beside them is left out: its owner has not chosen it for that.
    pub(super) fn facts(&self, kind: Kind) -> Facts {
        match kind {
            Kind::City => self.place(),
            Kind::Country => {
                Facts { country: self.country().or_else(|| self.registered()), ..Facts::default() }
            }
            Kind::Asn => self.network(),
            Kind::Anonymous => self.flags(),
        }
    }

    fn place(&self) -> Facts {
        // A registration tells where a network's owner sits, not where its users do. Beside a city it would mislead;
        // in a file about countries it is the kind of thing such files are made of, and better than nothing.
        let country = self.country();
        let city = self.text(Field::City).and_then(clean::text);
        let coordinates = self
            .number(Field::Latitude)
            .zip(self.number(Field::Longitude))
            .or_else(|| self.both())
            // Null Island is how some files write that they do not know.
            .filter(|(latitude, longitude)| city.is_some() || *latitude != 0.0 || *longitude != 0.0)
            .and_then(|(latitude, longitude)| clean::coordinates(latitude, longitude));
        let digits;
        let postal_code = match self.value(Field::PostalCode) {
            Some(Scalar::Text(text)) => Some(text),
            Some(Scalar::Integer(number)) => {
                digits = number.to_string();
                Some(digits.as_str())
            }
            _ => None,
        };
        Facts {
            city,
            region: self.text(Field::Region).and_then(clean::text),
            region_code: self.text(Field::RegionCode).and_then(|code| clean::region_code(code, country)),
            country,
            latitude: coordinates.map(|(latitude, _)| latitude),
            longitude: coordinates.map(|(_, longitude)| longitude),
            zone: self.text(Field::Zone).and_then(clean::zone),
            postal_code: postal_code.and_then(clean::text),
            ..Facts::default()
        }
    }

    fn network(&self) -> Facts {
        let asn = match self.value(Field::Asn) {
            Some(Scalar::Integer(number)) => u32::try_from(number).ok().filter(|number| *number != 0),
            Some(Scalar::Text(text)) => clean::asn(text),
            _ => None,
        };
        // A name without a number is no network's: IPtoASN writes "Not routed" beside a zero.
        let org = asn.and_then(|_| self.text(Field::Org)).and_then(clean::text);
        Facts { asn, org, ..Facts::default() }
    }

    fn flags(&self) -> Facts {
        let flag = |field| self.value(field).map(truth);
        let kind = self.text(Field::ProxyType).map(str::trim).filter(|kind| !kind.is_empty() && *kind != "-");
        let user = self.text(Field::UserType).map(str::trim);
        let (hides, hosts) = (flag(Field::Hides), flag(Field::Hosting));
        let anonymous = flag(Field::Anonymous);
        let said = hides.is_some() || hosts.is_some() || anonymous.is_some() || kind.is_some();
        if !said {
            let hosting = user.map(|user| user.eq_ignore_ascii_case("hosting"));
            return Facts { hosting, ..Facts::default() };
        }
        let is_data_centre = kind == Some("DCH") || user.is_some_and(|user| user.eq_ignore_ascii_case("DCH"));
        if hides.is_none() && hosts.is_none() && anonymous.is_none() {
            // One word of a file that has one for each address: it says what it says, and nothing against the rest.
            let proxy = match kind {
                Some("DCH") | None => None,
                Some(kind) => Some(kind != "SES"),
            };
            return Facts { proxy, hosting: is_data_centre.then_some(true), ..Facts::default() };
        }
        // Files about anonymity leave out what is false.
        let hosting = hosts == Some(true)
            || is_data_centre
            || user.is_some_and(|user| user.eq_ignore_ascii_case("hosting"));
        let proxy = hides == Some(true)
            || kind.is_some_and(|kind| kind != "DCH" && kind != "SES")
            || (anonymous == Some(true) && !hosting);
        Facts { proxy: Some(proxy), hosting: Some(hosting), ..Facts::default() }
    }

    fn value(&self, field: Field) -> Option<Scalar<'a>> {
        self.values[field as usize].map(|(_, value)| value)
    }

    fn text(&self, field: Field) -> Option<&'a str> {
        match self.value(field)? {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no coordinate is so large that it would be rounded")]
    fn number(&self, field: Field) -> Option<f64> {
        match self.value(field)? {
            Scalar::Number(number) => Some(number),
            Scalar::Integer(number) => Some(number as f64),
            Scalar::Text(text) => text.trim().parse().ok(),
            Scalar::Flag(_) => None,
        }
    }

    fn both(&self) -> Option<(f64, f64)> {
        let (latitude, longitude) = self.text(Field::Both)?.split_once(',')?;
        Some((latitude.trim().parse().ok()?, longitude.trim().parse().ok()?))
    }

    fn country(&self) -> Option<[u8; 2]> {
        self.text(Field::Country).and_then(clean::country)
    }

    fn registered(&self) -> Option<[u8; 2]> {
        self.text(Field::RegisteredCountry).and_then(clean::country)
    }
}

fn truth(value: Scalar<'_>) -> bool {
    match value {
        Scalar::Flag(flag) => flag,
        Scalar::Integer(number) => number != 0,
        Scalar::Number(number) => number != 0.0,
        Scalar::Text(text) => {
            let text = text.trim();
            ["true", "1", "yes", "t", "y"].iter().any(|yes| text.eq_ignore_ascii_case(yes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather<'a>(pairs: &[(&str, Scalar<'a>)]) -> Gather<'a> {
        let mut gather = Gather::default();
        for (name, value) in pairs {
            let (field, rank) = named(name).unwrap();
            gather.take(field, rank, *value);
        }
        gather
    }

    #[track_caller]
    fn flags(pairs: &[(&str, Scalar<'_>)], proxy: Option<bool>, hosting: Option<bool>) {
        let facts = gather(pairs).facts(Kind::Anonymous);
        assert_eq!((facts.proxy, facts.hosting), (proxy, hosting), "{pairs:?}");
    }

    #[test]
    fn flags_are_told_apart() {
        let yes = Scalar::Flag(true);
        let no = Scalar::Flag(false);
        flags(&[("is_anonymous", yes), ("is_anonymous_vpn", yes)], Some(true), Some(false));
        flags(&[("is_anonymous", yes), ("is_hosting_provider", yes)], Some(false), Some(true));
        flags(&[("is_anonymous", yes)], Some(true), Some(false));
        flags(
            &[("anonymous_ip.is_tor_exit_node", yes), ("anonymous_ip.is_public_proxy", no)],
            Some(true),
            Some(false),
        );
        flags(&[("vpn", Scalar::Text("")), ("hosting", Scalar::Text("true"))], Some(false), Some(true));
        flags(&[("is_vpn", no), ("is_hosting", no)], Some(false), Some(false));
        flags(&[("proxy_type", Scalar::Text("VPN"))], Some(true), None);
        flags(&[("proxy_type", Scalar::Text("DCH"))], None, Some(true));
        flags(&[("proxy_type", Scalar::Text("SES"))], Some(false), None);
        let both = [("proxy_type", Scalar::Text("VPN")), ("usage_type", Scalar::Text("DCH"))];
        flags(&both, Some(true), Some(true));
        flags(&[("proxy_type", Scalar::Text("-"))], None, None);
        flags(&[("traits.user_type", Scalar::Text("hosting"))], None, Some(true));
        flags(&[("traits.user_type", Scalar::Text("residential"))], None, Some(false));
        flags(&[("city", Scalar::Text("Oslo"))], None, None);
    }

    #[test]
    fn a_registration_counts_in_files_about_countries_only() {
        let record = gather(&[("registered_country.iso_code", Scalar::Text("US"))]);
        assert_eq!(record.facts(Kind::Country).country, Some(*b"US"));
        assert_eq!(record.facts(Kind::City).country, None);
    }

    #[test]
    fn the_better_name_wins_whatever_comes_first() {
        let code = ("country_code", Scalar::Text("CA"));
        let name = ("country", Scalar::Text("Canada"));
        for pairs in [[code, name], [name, code]] {
            assert_eq!(gather(&pairs).facts(Kind::Country).country, Some(*b"CA"));
        }
    }

    #[test]
    fn coordinates_come_together_or_not_at_all() {
        let place = |pairs: &[(&str, Scalar<'_>)]| {
            let facts = gather(pairs).facts(Kind::City);
            facts.latitude.zip(facts.longitude).map(|(n, e)| (n.millionths(), e.millionths()))
        };
        assert_eq!(place(&[("lat", Scalar::Text("52.5"))]), None);
        assert_eq!(place(&[("loc", Scalar::Text("52.5,4.9"))]), Some((52_500_000, 4_900_000)));
        assert_eq!(place(&[("lat", Scalar::Integer(0)), ("lng", Scalar::Number(0.0))]), None);
        let island =
            [("lat", Scalar::Integer(0)), ("lng", Scalar::Number(0.0)), ("city", Scalar::Text("Buoy"))];
        assert_eq!(place(&island), Some((0, 0)));
    }
}
