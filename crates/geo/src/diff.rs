//! What changed from one snapshot to another, field by field, as an amount of addresses.

use crate::atlas::{Atlas, Found};
use crate::error::Error;
use crate::file::File;
use crate::ranges;
use ipse_model::{Address, Degrees};
use std::collections::HashMap;
use std::net::IpAddr;

/// The fields that are compared.
pub const FIELDS: [&str; 12] = [
    "city",
    "region",
    "region_code",
    "country",
    "latitude",
    "longitude",
    "timezone",
    "postal_code",
    "asn",
    "org",
    "proxy",
    "hosting",
];

/// How one field changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Public IPv4 addresses that have another value now.
    pub v4: u64,
    /// Ranges of IPv6 that have.
    pub v6_ranges: u64,
    /// Public IPv4 addresses that had none.
    pub v4_gained: u64,
    /// Public IPv4 addresses that have none now.
    pub v4_lost: u64,
    /// The first few: the address at which a range begins, the value before, the value now.
    pub examples: Vec<(IpAddr, Option<String>, Option<String>)>,
}

const EXAMPLES: usize = 3;

/// Compares two snapshots: for each of `FIELDS`, how it changed.
pub fn diff(before: &[u8], after: &[u8]) -> Result<Vec<Change>, Error> {
    let (old, new) = (Side::read(before)?, Side::read(after)?);
    let mut changes = vec![Change::default(); FIELDS.len()];
    let mut seen: HashMap<(u32, u32), Comparison> = HashMap::new();
    walk(&old.v4, &new.v4, 1 << 32, |first, last, spots| {
        // The range ends below the end.
        let (first, last) =
            (u32::try_from(first).unwrap_or(u32::MAX), u32::try_from(last).unwrap_or(u32::MAX));
        let public = Address::public_v4(first, last);
        if public > 0 {
            let comparison = seen.entry(spots).or_insert_with(|| old.compare(&new, spots));
            comparison.add(&mut changes, IpAddr::V4(first.into()), public, 0);
        }
    });
    walk(&old.v6, &new.v6, 0, |first, _, spots| {
        let ip = IpAddr::V6(first.into());
        if Address::new(ip).is_global() {
            let comparison = seen.entry(spots).or_insert_with(|| old.compare(&new, spots));
            comparison.add(&mut changes, ip, 0, 1);
        }
    });
    Ok(changes)
}

/// A snapshot with its ranges, which an atlas does not keep.
struct Side {
    atlas: Atlas,
    v4: Vec<(u128, u32)>,
    v6: Vec<(u128, u32)>,
}

/// The values of a field on both sides, where they differ.
struct Comparison(Vec<(usize, Option<String>, Option<String>)>);

impl Side {
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let atlas = Atlas::read(bytes)?;
        let file = File::open(bytes)?;
        let spots = atlas.spot_count();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        ranges::each_v4(&file, spots, |first, _, spot| v4.push((first, spot)))?;
        ranges::each_v6(&file, spots, |first, _, spot| v6.push((first, spot)))?;
        Ok(Self { atlas, v4, v6 })
    }

    fn compare(&self, other: &Self, (old, new): (u32, u32)) -> Comparison {
        let (old, new) = (values(self.atlas.at(old)), values(other.atlas.at(new)));
        let differ = |(field, (old, new))| (old != new).then_some((field, old, new));
        Comparison(old.into_iter().zip(new).enumerate().filter_map(differ).collect())
    }
}

impl Comparison {
    fn add(&self, changes: &mut [Change], first: IpAddr, v4: u64, v6_ranges: u64) {
        for (field, old, new) in &self.0 {
            let change = &mut changes[*field];
            change.v4 += v4;
            change.v6_ranges += v6_ranges;
            match (old, new) {
                (None, _) => change.v4_gained += v4,
                (_, None) => change.v4_lost += v4,
                _ => {}
            }
            if change.examples.len() < EXAMPLES {
                change.examples.push((first, old.clone(), new.clone()));
            }
        }
    }
}

/// The values of `FIELDS`.
fn values(found: Found<'_>) -> [Option<String>; FIELDS.len()] {
    let place = found.place().unwrap_or_default();
    let network = found.network().unwrap_or_default();
    let degrees = |degrees: Degrees| degrees.degrees().to_string();
    [
        place.city,
        place.region,
        place.region_code,
        place.country,
        place.position.map(|(latitude, _)| degrees(latitude)),
        place.position.map(|(_, longitude)| degrees(longitude)),
        place.zone.map(|zone| zone.name().to_owned()),
        place.postal_code,
        network.asn.map(|asn| asn.to_string()),
        network.org,
        network.proxy.map(|flag| flag.to_string()),
        network.hosting.map(|flag| flag.to_string()),
    ]
}

/// Calls `piece` for every range within which both sides stay at one spot.
fn walk(old: &[(u128, u32)], new: &[(u128, u32)], end: u128, mut piece: impl FnMut(u128, u128, (u32, u32))) {
    let mut olds = old.iter().peekable();
    let mut news = new.iter().peekable();
    let (mut at_old, mut at_new) = (0, 0);
    let mut first = 0;
    loop {
        if let Some((_, spot)) = olds.next_if(|(begin, _)| *begin == first) {
            at_old = *spot;
        }
        if let Some((_, spot)) = news.next_if(|(begin, _)| *begin == first) {
            at_new = *spot;
        }
        let next = [olds.peek(), news.peek()].into_iter().flatten().map(|(begin, _)| *begin).min();
        piece(first, next.unwrap_or(end).wrapping_sub(1), (at_old, at_new));
        match next {
            Some(next) => first = next,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Draft, Origin};
    use ipse_model::Place;

    fn snapshot(ranges: &[(&str, &str, Option<&str>)]) -> Vec<u8> {
        let mut draft = Draft::new(About::default());
        for (first, last, city) in ranges {
            let place =
                Place { city: city.map(str::to_owned), country: Some("GB".into()), ..Place::default() };
            let place = draft.place(&place, Origin::new());
            draft.range(first.parse().unwrap(), last.parse().unwrap(), Some(place), None).unwrap();
        }
        draft.write().unwrap()
    }

    #[test]
    fn a_snapshot_does_not_differ_from_itself() {
        let one = snapshot(&[("1.0.0.0", "1.0.0.255", Some("a")), ("2a00::", "2a00::ff", Some("b"))]);
        assert!(diff(&one, &one).unwrap().iter().all(|change| *change == Change::default()));
    }

    #[test]
    fn what_changed_came_and_went_is_counted_in_addresses() {
        let before = snapshot(&[
            ("1.0.0.0", "1.0.0.255", Some("a")),
            ("2.0.0.0", "2.0.0.9", None),
            ("10.0.0.0", "10.0.0.9", Some("nobody's")),
            ("2a00::", "2a00::ff", Some("b")),
        ]);
        let after = snapshot(&[
            ("1.0.0.0", "1.0.0.127", Some("a")),
            ("1.0.0.128", "1.0.0.255", Some("z")),
            ("2.0.0.0", "2.0.0.9", Some("new")),
        ]);
        let changes = diff(&before, &after).unwrap();
        let city = &changes[0];
        assert_eq!((city.v4, city.v4_gained, city.v4_lost, city.v6_ranges), (138, 10, 0, 1));
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(city.examples[0], ("1.0.0.128".parse().unwrap(), text("a"), text("z")));
        assert_eq!((changes[3].v4, changes[3].v6_ranges), (0, 1));
    }
}
