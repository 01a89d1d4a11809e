//! `Atlas`: sorted ranges of addresses, each with its final record.

use ipse_model::{Address, Network, Place};
use std::net::IpAddr;

/// Everything that is known about addresses. It never changes; a reload makes another one.
#[derive(Debug, Default)]
pub struct Atlas {
    // IPv4 and IPv6 apart, because an IPv4 address must never match a range of IPv6.
    v4: Vec<Range>,
    v6: Vec<Range>,
}

/// A range of addresses, both ends included, and what is known about it.
#[derive(Debug)]
pub struct Entry {
    /// The lowest address.
    pub first: IpAddr,
    /// The highest address, of the same family.
    pub last: IpAddr,
    /// Where it is.
    pub place: Option<Place>,
    /// Who announces it.
    pub network: Option<Network>,
}

/// What the atlas knows about one address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found<'a> {
    /// Where it is.
    pub place: Option<&'a Place>,
    /// Who announces it.
    pub network: Option<&'a Network>,
}

/// Two entries claim the same address, or one ends before it begins.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the range that begins at {} overlaps another or ends before it begins", .first)]
pub struct Overlap {
    /// The first address of the entry that does not fit.
    pub first: IpAddr,
}

#[derive(Debug)]
struct Range {
    first: u128,
    last: u128,
    place: Option<Place>,
    network: Option<Network>,
}

impl Atlas {
    /// The atlas of an installation without data.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// An atlas of the given entries, in any order.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Result<Self, Overlap> {
        let mut atlas = Self::default();
        for Entry { first, last, place, network } in entries {
            if first.is_ipv4() != last.is_ipv4() {
                return Err(Overlap { first });
            }
            let ranges = if first.is_ipv4() { &mut atlas.v4 } else { &mut atlas.v6 };
            ranges.push(Range { first: number(first), last: number(last), place, network });
        }
        check(&mut atlas.v4, |first| IpAddr::V4(u32::try_from(first).unwrap_or_default().into()))?;
        check(&mut atlas.v6, |first| IpAddr::V6(first.into()))?;
        Ok(atlas)
    }

    /// What is known about an address. An address that nobody can have on the internet is nowhere.
    #[must_use]
    pub fn find(&self, address: Address) -> Found<'_> {
        if !address.is_global() {
            return Found::default();
        }
        let ranges = if address.ip().is_ipv4() { &self.v4 } else { &self.v6 };
        let wanted = number(address.ip());
        let after = ranges.partition_point(|range| range.first <= wanted);
        match ranges[..after].last() {
            Some(range) if wanted <= range.last => {
                Found { place: range.place.as_ref(), network: range.network.as_ref() }
            }
            _ => Found::default(),
        }
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

fn check(ranges: &mut [Range], address: impl Fn(u128) -> IpAddr) -> Result<(), Overlap> {
    ranges.sort_by_key(|range| range.first);
    let backwards = ranges.iter().find(|range| range.last < range.first);
    let overlapping = ranges.windows(2).find(|pair| pair[1].first <= pair[0].last).map(|pair| &pair[1]);
    match backwards.or(overlapping) {
        Some(range) => Err(Overlap { first: address(range.first) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: &str, last: &str, city: &str) -> Entry {
        Entry {
            first: first.parse().unwrap(),
            last: last.parse().unwrap(),
            place: Some(Place { city: Some(city.to_owned()), ..Place::default() }),
            network: None,
        }
    }

    fn atlas() -> Atlas {
        Atlas::from_entries([
            entry("9.0.0.0", "11.255.255.255", "around private space"),
            entry("2a00::", "2a00::ffff", "six"),
            entry("1.0.0.0", "1.0.0.255", "one"),
        ])
        .unwrap()
    }

    #[track_caller]
    fn check(ip: &str, city: Option<&str>) {
        let atlas = atlas();
        let found = atlas.find(Address::new(ip.parse().unwrap()));
        assert_eq!(found.place.and_then(|place| place.city.as_deref()), city, "{ip}");
    }

    #[test]
    fn both_ends_of_a_range_belong_to_it() {
        check("0.255.255.255", None);
        check("1.0.0.0", Some("one"));
        check("1.0.0.255", Some("one"));
        check("1.0.1.0", None);
        check("2a00::ffff", Some("six"));
        check("2a00::1:0", None);
        check("::ffff:1.0.0.7", Some("one"));
    }

    #[test]
    fn an_address_that_is_not_global_is_nowhere_even_inside_a_range() {
        check("9.9.9.9", Some("around private space"));
        check("10.1.2.3", None);
    }

    #[test]
    fn entries_that_overlap_are_refused() {
        let overlap =
            Atlas::from_entries([entry("1.0.0.0", "1.0.0.9", "a"), entry("1.0.0.9", "1.0.0.9", "b")]);
        assert_eq!(overlap.unwrap_err().first, "1.0.0.9".parse::<IpAddr>().unwrap());
        assert!(Atlas::from_entries([entry("1.0.0.9", "1.0.0.0", "backwards")]).is_err());
        assert!(Atlas::from_entries([entry("1.0.0.9", "2a00::", "mixed")]).is_err());
    }
}
