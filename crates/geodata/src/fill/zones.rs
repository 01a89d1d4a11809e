//! The time zone of a place, by its coordinates and held to its country.
//!
//! A record's country is surer than its coordinates: a point over the border or off the coast never gives the
//! neighbour's zone, nor one of the open sea. Every name given is in the table of countries' zones, and thereby known to
//! the program's time zone database.

use super::country_zones::{COUNTRY_ZONES, ONE_CLOCK, TERRITORIES};
use ipse_model::Degrees;
use std::collections::HashMap;
use tzf_rs::EmbeddedFinder;

/// The map of time zones. Making one takes milliseconds and some memory, so it is made once for all lookups.
pub(crate) struct Zones {
    map: EmbeddedFinder,
    countries: HashMap<[u8; 2], Country>,
    /// Every zone of the table.
    names: HashMap<&'static str, &'static str>,
}

struct Country {
    zones: Vec<&'static str>,
    /// Zones of territories that sources count as a part of it.
    territories: Vec<&'static str>,
    /// The zone where no coordinates tell: the only one, or the first of several that keep the same time.
    only: Option<&'static str>,
}

impl Zones {
    /// Opens the map that is built into the program.
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut countries = HashMap::new();
        let mut names = HashMap::new();
        for (code, zones) in COUNTRY_ZONES {
            let zones: Vec<&str> = zones.split_whitespace().collect();
            names.extend(zones.iter().map(|zone| (*zone, *zone)));
            let only =
                if zones.len() == 1 || ONE_CLOCK.contains(code) { zones.first().copied() } else { None };
            let territories = TERRITORIES
                .iter()
                .filter(|(country, _)| country == code)
                .flat_map(|(_, territories)| territories.split_whitespace().flat_map(zones_of))
                .collect();
            countries.insert(letters(code), Country { zones, territories, only });
        }
        Self { map: EmbeddedFinder::new(), countries, names }
    }

    /// The zone of a point in a country; where the country is unknown, of the point alone.
    #[must_use]
    pub(crate) fn find(
        &self,
        country: Option<[u8; 2]>,
        latitude: Degrees,
        longitude: Degrees,
    ) -> Option<&'static str> {
        let (latitude, longitude) = (latitude.degrees(), longitude.degrees());
        let Some(country) = country.and_then(|country| self.countries.get(&country)) else {
            let any =
                |latitude, longitude| self.names.get(self.map.get_tz_name(longitude, latitude)).copied();
            return any(latitude, longitude).or_else(|| nearby(latitude, longitude, 0.5, any));
        };
        if let [only] = country.zones.as_slice()
            && country.territories.is_empty()
        {
            return Some(only);
        }
        self.own(country, latitude, longitude)
            .or_else(|| self.of_territory(country, latitude, longitude))
            .or_else(|| match country.zones.as_slice() {
                [only] => Some(*only),
                _ => nearby(latitude, longitude, 3.0, |latitude, longitude| {
                    self.own(country, latitude, longitude)
                }),
            })
            .or(country.only)
    }

    /// The zone of a country that has one time only; of another, nothing.
    #[must_use]
    pub(crate) fn find_without_coordinates(&self, country: [u8; 2]) -> Option<&'static str> {
        self.countries.get(&country)?.only
    }

    /// The country's own zone at exactly this point. In disputed land a point has several zones, and the first that
    /// the map names need not be the country's.
    fn own(&self, country: &Country, latitude: f64, longitude: f64) -> Option<&'static str> {
        let among = |name: &str| country.zones.iter().copied().find(|zone| *zone == name);
        among(self.map.get_tz_name(longitude, latitude))
            .or_else(|| self.map.get_tz_names(longitude, latitude).into_iter().find_map(among))
    }

    fn of_territory(&self, country: &Country, latitude: f64, longitude: f64) -> Option<&'static str> {
        if country.territories.is_empty() {
            return None;
        }
        let name = self.map.get_tz_name(longitude, latitude);
        country.territories.iter().copied().find(|zone| *zone == name)
    }
}

impl Default for Zones {
    fn default() -> Self {
        Self::new()
    }
}

/// The first answer on rings around a point, from the nearest ring to the farthest, in degrees of latitude.
fn nearby(
    latitude: f64,
    longitude: f64,
    farthest: f64,
    find: impl Fn(f64, f64) -> Option<&'static str>,
) -> Option<&'static str> {
    const DIRECTIONS: u32 = 16;
    const RINGS: [f64; 10] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0, 3.0];
    // Meridians draw together towards the poles; beside a pole every direction is as good as any.
    let widen = 1.0 / latitude.to_radians().cos().max(0.01);
    for ring in RINGS.into_iter().take_while(|ring| *ring <= farthest) {
        for direction in 0..DIRECTIONS {
            let angle = f64::from(direction) * std::f64::consts::TAU / f64::from(DIRECTIONS);
            let north = (latitude + ring * angle.cos()).clamp(-90.0, 90.0);
            let east = (longitude + ring * angle.sin() * widen + 180.0).rem_euclid(360.0) - 180.0;
            if let Some(found) = find(north, east) {
                return Some(found);
            }
        }
    }
    None
}

fn zones_of(code: &str) -> impl Iterator<Item = &'static str> {
    COUNTRY_ZONES
        .iter()
        .filter(move |(country, _)| *country == code)
        .flat_map(|(_, zones)| zones.split_whitespace())
}

fn letters(code: &str) -> [u8; 2] {
    let code = code.as_bytes();
    [code[0], code[1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    static ZONES: LazyLock<Zones> = LazyLock::new(Zones::new);

    #[track_caller]
    fn check(country: &str, latitude: f64, longitude: f64, expected: impl Into<Option<&'static str>>) {
        let found = ZONES.find(
            (!country.is_empty()).then(|| letters(country)),
            Degrees::latitude(latitude).unwrap(),
            Degrees::longitude(longitude).unwrap(),
        );
        assert_eq!(found, expected.into(), "{country} {latitude} {longitude}");
    }

    #[test]
    fn cities_of_all_continents() {
        check("US", 40.71, -74.01, "America/New_York");
        check("US", 41.88, -87.63, "America/Chicago");
        check("US", 34.05, -118.24, "America/Los_Angeles");
        check("US", 61.22, -149.90, "America/Anchorage");
        check("US", 21.31, -157.86, "Pacific/Honolulu");
        check("CA", 43.65, -79.38, "America/Toronto");
        check("CA", 47.56, -52.71, "America/St_Johns");
        check("MX", 19.43, -99.13, "America/Mexico_City");
        check("MX", 32.53, -117.04, "America/Tijuana");
        check("BR", -23.55, -46.63, "America/Sao_Paulo");
        check("BR", -3.12, -60.02, "America/Manaus");
        check("AR", -34.61, -58.38, "America/Argentina/Buenos_Aires");
        check("CL", -33.45, -70.67, "America/Santiago");
        check("GB", 51.51, -0.13, "Europe/London");
        check("DE", 52.52, 13.40, "Europe/Berlin");
        check("FR", 48.86, 2.35, "Europe/Paris");
        check("NL", 52.37, 4.90, "Europe/Amsterdam");
        check("RU", 55.76, 37.62, "Europe/Moscow");
        check("RU", 43.12, 131.89, "Asia/Vladivostok");
        check("ZA", -26.20, 28.05, "Africa/Johannesburg");
        check("NG", 6.52, 3.38, "Africa/Lagos");
        check("CD", -11.66, 27.48, "Africa/Lubumbashi");
        check("IN", 28.61, 77.21, "Asia/Kolkata");
        check("NP", 27.72, 85.32, "Asia/Kathmandu");
        check("JP", 35.68, 139.69, "Asia/Tokyo");
        check("ID", -2.55, 140.70, "Asia/Jayapura");
        check("VN", 10.82, 106.63, "Asia/Ho_Chi_Minh");
        check("AU", -33.87, 151.21, "Australia/Sydney");
        check("AU", -31.95, 115.86, "Australia/Perth");
        check("AU", -12.46, 130.84, "Australia/Darwin");
        check("NZ", -43.95, -176.56, "Pacific/Chatham");
        check("AQ", -77.85, 166.67, "Antarctica/McMurdo");
    }

    #[test]
    fn places_with_a_time_of_their_own() {
        check("US", 39.77, -86.16, "America/Indiana/Indianapolis");
        check("US", 41.30, -86.63, "America/Indiana/Knox");
        check("US", 33.45, -112.07, "America/Phoenix");
        check("US", 43.62, -116.21, "America/Boise");
        check("CA", 52.13, -106.67, "America/Regina");
        check("CN", 31.23, 121.47, "Asia/Shanghai");
        // Xinjiang has two times in use; the map has both, and the legal one is Beijing's.
        check("CN", 43.83, 87.62, "Asia/Shanghai");
        check("RU", 54.71, 20.51, "Europe/Kaliningrad");
        check("RU", 56.84, 60.61, "Asia/Yekaterinburg");
        check("ES", 35.89, -5.32, "Africa/Ceuta");
        check("ES", 28.12, -15.43, "Atlantic/Canary");
        check("ES", 39.57, 2.65, "Europe/Madrid");
        check("PT", 37.74, -25.67, "Atlantic/Azores");
        check("PT", 32.65, -16.91, "Atlantic/Madeira");
        check("CL", -27.15, -109.43, "Pacific/Easter");
        check("EC", -0.74, -90.31, "Pacific/Galapagos");
        check("KI", 1.87, -157.43, "Pacific/Kiritimati");
        check("AU", -31.55, 159.08, "Australia/Lord_Howe");
        check("GL", 64.18, -51.72, "America/Nuuk");
        check("MN", 48.01, 91.64, "Asia/Hovd");
    }

    #[test]
    fn disputed_land_has_the_zone_of_the_records_country() {
        check("XK", 42.66, 21.17, "Europe/Belgrade");
        check("RS", 42.66, 21.17, "Europe/Belgrade");
        check("UA", 44.95, 34.10, "Europe/Simferopol");
        check("RU", 44.95, 34.10, "Europe/Simferopol");
        check("UA", 48.00, 37.80, "Europe/Kyiv");
        check("PS", 31.90, 35.20, "Asia/Hebron");
        check("IL", 31.90, 35.20, "Asia/Jerusalem");
        check("EH", 27.15, -13.20, "Africa/El_Aaiun");
    }

    #[test]
    fn a_point_over_the_border_or_off_the_coast_keeps_the_countrys_zone() {
        check("DE", 52.22, 6.89, "Europe/Berlin");
        check("NL", 51.83, 6.25, "Europe/Amsterdam");
        check("US", 42.317, -83.04, "America/Detroit");
        check("CA", 42.34, -83.05, "America/Toronto");
        check("MX", 32.55, -117.03, "America/Tijuana");
        check("US", 39.0, -73.5, "America/New_York");
        check("BR", -23.5, -43.0, "America/Sao_Paulo");
        check("RU", 69.9, 30.0, "Europe/Moscow");
        check("IS", 50.0, -30.0, "Atlantic/Reykjavik");
    }

    #[test]
    fn a_territory_counted_as_part_of_its_state_keeps_its_own_time() {
        check("FR", 14.61, -61.07, "America/Martinique");
        check("US", 18.47, -66.11, "America/Puerto_Rico");
        check("GP", 48.86, 2.35, "America/Guadeloupe");
        check("FR", 40.71, -74.01, "Europe/Paris");
    }

    #[test]
    fn without_a_country_only_land_tells() {
        check("", 48.86, 2.35, "Europe/Paris");
        check("ZZ", 48.86, 2.35, "Europe/Paris");
        check("", 0.0, 0.0, None);
        check("US", 48.86, 2.35, None);
        check("", 90.0, 0.0, None);
        check("", 0.0, 180.0, None);
    }

    #[test]
    fn without_coordinates_only_a_country_of_one_time_has_a_zone() {
        let find = |code: &str| ZONES.find_without_coordinates(letters(code));
        assert_eq!(find("NL"), Some("Europe/Amsterdam"));
        assert_eq!(find("DE"), Some("Europe/Berlin"));
        assert_eq!(find("CN"), Some("Asia/Shanghai"));
        assert_eq!(find("FR"), Some("Europe/Paris"));
        assert_eq!(find("XK"), Some("Europe/Belgrade"));
        assert_eq!(find("US"), None);
        assert_eq!(find("ES"), None);
        assert_eq!(find("ZZ"), None);
    }

    #[test]
    fn the_table_has_every_zone_of_the_map() {
        let missing: Vec<&str> = ZONES
            .map
            .timezonenames()
            .into_iter()
            .filter(|name| !name.starts_with("Etc/") && !ZONES.names.contains_key(name))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
