//! `Draft`: what a snapshot is written from. Whatever the order in which it is filled, equal content makes equal bytes.

use crate::about::About;
use crate::column::{Sink, planes};
use crate::file::{self, Column};
use crate::rows::NO_POSITION;
use ipse_model::{Degrees, Network, Place};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A place of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(u32);

/// A network of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(u32);

/// Where the fields of a record come from, for an operator who asks: pairs of a field and what gave it.
pub type Origin = Vec<(String, String)>;

/// The content of a snapshot, before it is written.
#[derive(Default)]
pub struct Draft {
    about: About,
    origins: Interned<Origin>,
    areas: Interned<Area>,
    places: Interned<PlaceRow>,
    networks: Interned<(Network, u32)>,
    spots: Interned<Spot>,
    v4: Ranges,
    v6: Ranges,
}

/// The ranges of one family so far.
struct Ranges {
    /// First addresses in ascending order, and the spot up to the next.
    firsts: Vec<(u128, u32)>,
    /// The first address about which nothing was said yet.
    open: Option<u128>,
}

impl Default for Ranges {
    fn default() -> Self {
        Self { firsts: Vec::new(), open: Some(0) }
    }
}

/// A range that does not come after the one before it, or does not fit into a snapshot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the range that begins at {first} overlaps another, is out of order, or ends before it begins")]
pub struct Disorder {
    /// The first address of the range that does not fit.
    pub first: IpAddr,
}

/// More distinct records than a snapshot can number.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {} distinct {what}, which is more than a snapshot can hold", 1 << 24)]
pub struct TooMany {
    /// Of what.
    pub what: &'static str,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Area {
    country: Option<Country>,
    region: Option<String>,
    region_code: Option<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Country {
    code: Option<String>,
    name: Option<String>,
    continent: Option<String>,
    currency: Option<String>,
    is_eu: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PlaceRow {
    area: u32,
    city: Option<Box<str>>,
    postal_code: Option<Box<str>>,
    zone: Option<Box<str>>,
    position: Option<(Degrees, Degrees)>,
    origin: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Spot {
    place: Option<PlaceId>,
    network: Option<NetworkId>,
}

const NOWHERE: Spot = Spot { place: None, network: None };

impl Draft {
    /// An empty draft: a snapshot of it knows nothing about anybody.
    #[must_use]
    pub fn new(about: About) -> Self {
        Self { about, ..Self::default() }
    }

    /// Replaces the description, which is often known only when everything has been counted.
    pub fn describe(&mut self, about: About) {
        self.about = about;
    }

    /// Adds a place, or finds the same one.
    pub fn place(&mut self, place: &Place, origin: Origin) -> PlaceId {
        let country = Country {
            code: place.country.clone(),
            name: place.country_name.clone(),
            continent: place.continent.clone(),
            currency: place.currency.clone(),
            is_eu: place.is_eu,
        };
        let nothing = Country { code: None, name: None, continent: None, currency: None, is_eu: None };
        let area = Area {
            country: Some(country).filter(|country| *country != nothing),
            region: place.region.clone(),
            region_code: place.region_code.clone(),
        };
        let boxed = |text: &Option<String>| text.as_deref().map(Box::from);
        let row = PlaceRow {
            area: self.areas.index(area),
            city: boxed(&place.city),
            postal_code: boxed(&place.postal_code),
            zone: place.zone.as_ref().map(|zone| zone.name().into()),
            position: place.position,
            origin: self.origins.index(origin),
        };
        PlaceId(self.places.index(row))
    }

    /// Adds a network, or finds the same one.
    pub fn network(&mut self, network: Network, origin: Origin) -> NetworkId {
        let origin = self.origins.index(origin);
        NetworkId(self.networks.index((network, origin)))
    }

    /// Adds a range of addresses, both ends included. Ranges of one family come in ascending order.
    pub fn range(
        &mut self,
        first: IpAddr,
        last: IpAddr,
        place: Option<PlaceId>,
        network: Option<NetworkId>,
    ) -> Result<(), Disorder> {
        let spot = Spot { place, network };
        if spot == NOWHERE {
            return Ok(());
        }
        let spot = self.spots.index(spot);
        let nowhere = self.spots.index(NOWHERE);
        let disorder = Disorder { first };
        let (ranges, first, last, end) = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                (&mut self.v4, u128::from(u32::from(first)), u128::from(u32::from(last)), u32::MAX.into())
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => (&mut self.v6, first.into(), last.into(), u128::MAX),
            _ => return Err(disorder),
        };
        let Some(open) = ranges.open.filter(|open| *open <= first && first <= last) else {
            return Err(disorder);
        };
        if first > open {
            ranges.push(open, nowhere);
        }
        ranges.push(first, spot);
        ranges.open = (last < end).then(|| last + 1);
        Ok(())
    }

    /// Writes the snapshot.
    pub fn write(mut self) -> Result<Vec<u8>, TooMany> {
        let nowhere = self.spots.index(NOWHERE);
        for ranges in [&mut self.v4, &mut self.v6] {
            if let Some(open) = ranges.open {
                ranges.push(open, nowhere);
            }
        }
        let mut columns: [Vec<u8>; Column::ALL.len()] = Default::default();
        let mut put = |column: Column, bytes: Vec<u8>| columns[column as usize] = bytes;

        // A description is plain data with text for keys, so writing it to memory cannot fail.
        put(Column::About, serde_json::to_vec(&self.about).unwrap_or_default());
        let (origins, origin_order) = self.origins.sorted();
        put(Column::Origins, serde_json::to_vec(&origins).unwrap_or_default());

        let (areas, area_order) = self.areas.sorted();
        let countries = numbered(areas.iter().filter_map(|area| area.country.clone()));
        put(Column::Countries, {
            let mut sink = Sink::default();
            for country in countries.keys() {
                [&country.code, &country.name, &country.continent, &country.currency]
                    .into_iter()
                    .for_each(|text| sink.text(text.as_deref()));
                sink.number(yes_no_unknown(country.is_eu));
            }
            sink.0
        });
        put(Column::Areas, {
            let mut sink = Sink::default();
            for area in &areas {
                sink.number(area.country.as_ref().map_or(0, |country| u128::from(countries[country]) + 1));
                sink.text(area.region.as_deref());
                sink.text(area.region_code.as_deref());
            }
            sink.0
        });

        let (places, place_order) = self
            .places
            .map(|place| PlaceRow {
                area: area_order[place.area as usize],
                origin: origin_order[place.origin as usize],
                ..place
            })
            .sorted();
        let zones = numbered(places.iter().filter_map(|place| place.zone.clone()));
        put(Column::Zones, {
            let mut sink = Sink::default();
            zones.keys().for_each(|zone| sink.text(Some(zone)));
            sink.0
        });
        let mut sinks = [const { Sink(Vec::new()) }; 5];
        let [in_areas, cities, in_zones, postal_codes, place_origins] = &mut sinks;
        let mut area = 0;
        for place in &places {
            in_areas.number((place.area - area).into());
            area = place.area;
            cities.text(place.city.as_deref());
            in_zones.number(place.zone.as_ref().map_or(0, |zone| u128::from(zones[zone]) + 1));
            postal_codes.text(place.postal_code.as_deref());
            place_origins.number(place.origin.into());
        }
        let [in_areas, cities, in_zones, postal_codes, place_origins] = sinks;
        put(Column::PlaceAreas, in_areas.0);
        put(Column::PlaceCities, cities.0);
        put(Column::PlaceZones, in_zones.0);
        put(Column::PlacePostalCodes, postal_codes.0);
        put(Column::PlaceOrigins, place_origins.0);
        let positions = |pick: fn((Degrees, Degrees)) -> Degrees| {
            let positions: Vec<i32> = places
                .iter()
                .map(|place| place.position.map_or(NO_POSITION, |at| pick(at).millionths()))
                .collect();
            planes(&positions)
        };
        put(Column::PlaceLatitudes, positions(|(latitude, _)| latitude));
        put(Column::PlaceLongitudes, positions(|(_, longitude)| longitude));

        let (networks, network_order) =
            self.networks.map(|(network, origin)| (network, origin_order[origin as usize])).sorted();
        let mut sink = Sink::default();
        let mut network_origins = Sink::default();
        for (network, origin) in &networks {
            sink.number(network.asn.map_or(0, |asn| u128::from(asn) + 1));
            sink.text(network.org.as_deref());
            sink.number(yes_no_unknown(network.proxy) + 3 * yes_no_unknown(network.hosting));
            network_origins.number((*origin).into());
        }
        put(Column::Networks, sink.0);
        put(Column::NetworkOrigins, network_origins.0);

        let (spots, spot_order) = self
            .spots
            .map(|spot| Spot {
                place: spot.place.map(|PlaceId(place)| PlaceId(place_order[place as usize])),
                network: spot.network.map(|NetworkId(network)| NetworkId(network_order[network as usize])),
            })
            .sorted();
        let mut in_places = Sink::default();
        let mut in_networks = Sink::default();
        let mut place = 0;
        for spot in &spots {
            let this = spot.place.map_or(0, |PlaceId(place)| place + 1);
            in_places.number((this - place).into());
            place = this;
            in_networks.three_bytes(spot.network.map_or(0, |NetworkId(network)| network + 1));
        }
        put(Column::SpotPlaces, in_places.0);
        put(Column::SpotNetworks, in_networks.0);
        for (what, count) in [("networks", networks.len()), ("pairs of a place and a network", spots.len())] {
            if count >= 1 << 24 {
                return Err(TooMany { what });
            }
        }

        for (ranges, end, [scales, lengths, in_spots]) in [
            (&self.v4, 1u128 << 32, [Column::V4Scales, Column::V4Lengths, Column::V4Spots]),
            (&self.v6, 0, [Column::V6Scales, Column::V6Lengths, Column::V6Spots]),
        ] {
            let written = write_ranges(&ranges.firsts, end, &spot_order);
            let [scale, length, spot] = written.map(|sink| sink.0);
            put(scales, scale);
            put(lengths, length);
            put(in_spots, spot);
        }
        Ok(file::write(&columns))
    }
}

/// Lengths are powers of two more often than not: the power, and what is left of the length without it.
fn write_ranges(ranges: &[(u128, u32)], end: u128, spot_order: &[u32]) -> [Sink; 3] {
    let mut sinks = [const { Sink(Vec::new()) }; 3];
    let [scales, lengths, spots] = &mut sinks;
    for (place, (first, spot)) in ranges.iter().enumerate() {
        let next = ranges.get(place + 1).map_or(end, |(next, _)| *next);
        // One range over all of IPv6 has a length of 2¹²⁸, which is 0 here, and is written as such.
        let length = next.wrapping_sub(*first);
        let scale = length.trailing_zeros() % 128;
        scales.number(scale.into());
        lengths.number(length >> scale);
        spots.three_bytes(spot_order[*spot as usize]);
    }
    sinks
}

fn yes_no_unknown(value: Option<bool>) -> u128 {
    match value {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

impl Ranges {
    fn push(&mut self, first: u128, spot: u32) {
        if self.firsts.last().is_none_or(|(_, last)| *last != spot) {
            self.firsts.push((first, spot));
        }
    }
}

/// Distinct values in order, each with its number.
fn numbered<T: Ord>(values: impl Iterator<Item = T>) -> BTreeMap<T, u32> {
    let distinct: std::collections::BTreeSet<T> = values.collect();
    distinct.into_iter().zip(0..).collect()
}

/// Distinct values in the order in which they came.
struct Interned<T> {
    indexes: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { indexes: HashMap::new() }
    }
}

impl<T: Eq + std::hash::Hash + Ord> Interned<T> {
    fn index(&mut self, value: T) -> u32 {
        // Each value takes more than one byte of memory, so there are fewer than 2³² of them.
        let next = u32::try_from(self.indexes.len()).unwrap_or(u32::MAX);
        *self.indexes.entry(value).or_insert(next)
    }

    /// The same values in another form, under the same numbers.
    fn map<U: Eq + std::hash::Hash>(self, form: impl Fn(T) -> U) -> Interned<U> {
        Interned { indexes: self.indexes.into_iter().map(|(value, index)| (form(value), index)).collect() }
    }

    /// The values in their own order, and for each old number the new one.
    fn sorted(self) -> (Vec<T>, Vec<u32>) {
        let mut order = vec![0; self.indexes.len()];
        let mut sorted: Vec<(T, u32)> = self.indexes.into_iter().collect();
        sorted.sort_unstable();
        let values = sorted
            .into_iter()
            .zip(0..)
            .map(|((value, old), new)| {
                order[old as usize] = new;
                value
            })
            .collect();
        (values, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Atlas;
    use ipse_model::{Address, Zone};
    use proptest::prelude::*;

    fn place(city: &str) -> Place {
        Place {
            city: Some(city.to_owned()),
            region: Some("England".into()),
            region_code: Some("GB-ENG".into()),
            country: Some("GB".into()),
            country_name: Some("United Kingdom".into()),
            continent: Some("EU".into()),
            position: Degrees::latitude(51.5142).zip(Degrees::longitude(-0.0931)),
            zone: Zone::named("Europe/London").ok(),
            postal_code: Some("EC2V".into()),
            is_eu: Some(false),
            currency: Some("GBP".into()),
        }
    }

    fn network() -> Network {
        Network { asn: Some(20_712), org: Some("A \"quoted\" name".into()), proxy: None, hosting: Some(true) }
    }

    fn add(draft: &mut Draft, first: &str, last: &str, city: &str) -> Result<(), Disorder> {
        let place = draft.place(&place(city), vec![("city".to_owned(), "a test".to_owned())]);
        let network = draft.network(network(), Origin::new());
        draft.range(first.parse().unwrap(), last.parse().unwrap(), Some(place), Some(network))
    }

    fn atlas(ranges: &[(&str, &str, &str)]) -> Atlas {
        let mut draft = Draft::new(About::default());
        for (first, last, city) in ranges {
            add(&mut draft, first, last, city).unwrap();
        }
        Atlas::read(&draft.write().unwrap()).unwrap()
    }

    #[track_caller]
    fn check(ip: &str, city: Option<&str>) {
        let atlas = atlas(&[
            ("1.0.0.0", "1.0.0.255", "one"),
            ("9.0.0.0", "11.255.255.255", "around private space"),
            ("223.255.255.255", "255.255.255.255", "the end"),
            ("2a00::", "2a00::ffff", "six"),
            ("3000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "the end"),
        ]);
        let found = atlas.find(Address::new(ip.parse().unwrap()));
        assert_eq!(found.place().and_then(|place| place.city).as_deref(), city, "{ip}");
        assert_eq!(found.is_nothing(), city.is_none());
    }

    #[test]
    fn both_ends_of_a_range_belong_to_it() {
        check("0.255.255.255", None);
        check("1.0.0.0", Some("one"));
        check("1.0.0.255", Some("one"));
        check("1.0.1.0", None);
        check("223.255.255.254", None);
        check("223.255.255.255", Some("the end"));
        check("2a00::ffff", Some("six"));
        check("2a00::1:0", None);
        check("::ffff:1.0.0.7", Some("one"));
        check("3000::1", Some("the end"));
    }

    #[test]
    fn an_address_that_is_not_global_is_nowhere_even_inside_a_range() {
        check("9.9.9.9", Some("around private space"));
        check("10.1.2.3", None);
        check("255.255.255.255", None);
        check("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None);
    }

    #[test]
    fn records_come_back_whole() {
        let atlas = atlas(&[("1.0.0.0", "1.0.0.255", "\"Zürich\" \\")]);
        let found = atlas.find(Address::new("1.0.0.1".parse().unwrap()));
        assert_eq!(found.place().unwrap(), place("\"Zürich\" \\"));
        assert_eq!(found.network().unwrap(), network());
    }

    #[test]
    fn ranges_out_of_order_are_refused() {
        let mut draft = Draft::new(About::default());
        add(&mut draft, "1.0.0.0", "1.0.0.9", "a").unwrap();
        let disorder = add(&mut draft, "1.0.0.9", "1.0.0.9", "b").unwrap_err();
        assert_eq!(disorder.first, "1.0.0.9".parse::<IpAddr>().unwrap());
        assert!(add(&mut draft, "1.0.1.9", "1.0.1.0", "backwards").is_err());
        assert!(add(&mut draft, "1.0.2.0", "2a00::", "mixed").is_err());
        add(&mut draft, "1.0.0.10", "1.0.0.10", "after all that").unwrap();
        add(&mut draft, "255.255.255.255", "255.255.255.255", "the last").unwrap();
        assert!(add(&mut draft, "255.255.255.255", "255.255.255.255", "again").is_err());
    }

    #[test]
    fn equal_content_makes_equal_bytes_whatever_the_order() {
        let write = |cities: [&str; 3]| {
            let mut draft = Draft::new(About::default());
            for city in cities {
                draft.place(&place(city), Origin::new());
            }
            add(&mut draft, "1.0.0.0", "1.0.0.255", "b").unwrap();
            draft.write().unwrap()
        };
        assert_eq!(write(["a", "b", "c"]), write(["c", "a", "b"]));
    }

    #[test]
    fn an_empty_draft_knows_nothing_about_anybody() {
        let atlas = atlas(&[]);
        let many = ["8.8.8.8", "2a00::1", "127.0.0.1"].into_iter().cycle().take(100);
        atlas.foresee(many.map(|ip| Address::new(ip.parse().unwrap())));
        assert!(atlas.find(Address::new("8.8.8.8".parse().unwrap())).is_nothing());
        assert!(atlas.find(Address::new("2a00::1".parse().unwrap())).is_nothing());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_ranges_come_back(lengths in prop::collection::vec((0u32..1 << 22, 1u32..1 << 22, 0u8..4), 0..40)) {
            let mut draft = Draft::new(About::default());
            let mut ranges = Vec::new();
            let mut next = 0x0b00_0000u32;
            for (gap, length, city) in lengths {
                let (first, last) = (next + gap, next + gap + length - 1);
                next = last + 1;
                let city = city.to_string();
                add(&mut draft, &std::net::Ipv4Addr::from(first).to_string(), &std::net::Ipv4Addr::from(last).to_string(), &city).unwrap();
                ranges.push((first, last, city));
            }
            let atlas = Atlas::read(&draft.write().unwrap()).unwrap();
            for (first, last, _) in &ranges {
                for ip in [first - 1, *first, (first + last) / 2, *last, last + 1] {
                    let expected = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&ip));
                    let address = Address::new(IpAddr::V4(ip.into()));
                    if address.is_global() {
                        let found = atlas.find(address).place().and_then(|place| place.city);
                        prop_assert_eq!(found, expected.map(|(_, _, city)| city.clone()));
                    }
                }
            }
        }
    }
}
