//! How much of the internet is known: shares of the public address space, for the report.

use super::{Label, Rules};
use ipse_geo::{Conflict, Coverage, Fill};
use ipse_model::{Address, Network, Place};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// How many addresses something is about: IPv4 addresses, and IPv6 networks of /48.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    pub(super) v4: f64,
    pub(super) v6: f64,
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.v4 += other.v4;
        self.v6 += other.v6;
    }
}

/// The weight of a range of IPv4: its public addresses.
pub(super) fn v4(first: u32, last: u32) -> Weight {
    Weight { v4: float(Address::public_v4(first, last)), v6: 0.0 }
}

/// The weight of a range of IPv6, in networks of /48.
pub(super) fn v6(first: u128, last: u128) -> Weight {
    let is_public = Address::new(IpAddr::V6(first.into())).is_global();
    let addresses = if is_public { last - first } else { return Weight::default() };
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    Weight { v4: 0.0, v6: (addresses as f64 + 1.0) / 2f64.powi(80) }
}

/// Which fields of a record are known, a bit for each of `FIELDS` that names it without another field.
pub(super) type Known = u16;

/// The fields of an answer that coverage is told of.
const FIELDS: [&str; 11] = [
    "country",
    "region",
    "region_code",
    "city",
    "latitude",
    "timezone",
    "postal_code",
    "asn",
    "org",
    "proxy",
    "hosting",
];

/// Fields of which it matters how often they are known where another one is.
const WITHIN: [(&str, &str); 3] = [("region_code", "region"), ("timezone", "country"), ("asn", "country")];

/// The known fields of a place.
pub(super) fn known_place(place: &Place) -> Known {
    bits([
        ("country", place.country.is_some()),
        ("region", place.region.is_some()),
        ("region_code", place.region_code.is_some()),
        ("city", place.city.is_some()),
        ("latitude", place.position.is_some()),
        ("timezone", place.zone.is_some()),
        ("postal_code", place.postal_code.is_some()),
    ])
}

/// The known fields of a network. Of flags those count that are set.
pub(super) fn known_network(network: &Network) -> Known {
    bits([
        ("asn", network.asn.is_some()),
        ("org", network.org.is_some()),
        ("proxy", network.proxy == Some(true)),
        ("hosting", network.hosting == Some(true)),
    ])
}

fn bits<const N: usize>(fields: [(&str, bool); N]) -> Known {
    fields.into_iter().filter(|(_, is_known)| *is_known).fold(0, |known, (field, _)| known | bit(field))
}

fn bit(field: &str) -> Known {
    FIELDS.iter().position(|name| *name == field).map_or(0, |place| 1 << place)
}

/// Sums over everything that was merged.
#[derive(Default)]
pub(super) struct Tally<'a> {
    known: HashMap<Known, Weight>,
    fills: BTreeMap<(&'static str, String), (u64, Weight)>,
    conflicts: BTreeMap<(&'static str, Label<'a>, Label<'a>), Weight>,
}

impl<'a> Tally<'a> {
    /// Counts addresses of which these fields are known.
    pub(super) fn known(&mut self, known: Known, weight: Weight) {
        *self.known.entry(known).or_default() += weight;
    }

    /// Counts what gave the fields of records.
    pub(super) fn rules(&mut self, rules: &Rules, records: u64, weight: Weight) {
        for (field, by) in rules {
            let (sum_records, sum) = self.fills.entry((field, by.clone())).or_default();
            *sum_records += records;
            *sum += weight;
        }
    }

    /// Counts a contradiction.
    pub(super) fn conflict(
        &mut self,
        field: &'static str,
        believed: Label<'a>,
        other: Label<'a>,
        weight: Weight,
    ) {
        *self.conflicts.entry((field, believed, other)).or_default() += weight;
    }

    pub(super) fn report(self) -> (Vec<Coverage>, Vec<Fill>, Vec<Conflict>) {
        let public = v4(0, u32::MAX).v4;
        let share = |part: f64, whole: f64| if whole > 0.0 { rounded(part / whole) } else { 0.0 };
        let weight = |wanted: Known| {
            let mut sum = Weight::default();
            // In a fixed order, because sums of floating point depend on it.
            let known: BTreeMap<_, _> =
                self.known.iter().filter(|(known, _)| *known & wanted == wanted).collect();
            known.into_values().for_each(|weight| sum += *weight);
            sum
        };
        // Most of IPv6 is given out to nobody, and some sources have a place for it all the same.
        let announced = weight(bit("asn")).v6;
        let weight = |wanted: Known| {
            let v6 = if announced > 0.0 { weight(wanted | bit("asn")).v6 } else { weight(wanted).v6 };
            Weight { v4: weight(wanted).v4, v6 }
        };
        let everything = Weight { v4: public, v6: weight(0).v6 };
        let covered = |field: &str, within: Option<&str>| {
            let whole = within.map_or(everything, |within| weight(bit(within)));
            let part = weight(bit(field) | within.map_or(0, bit));
            Coverage {
                field: field.to_owned(),
                within: within.map(str::to_owned),
                v4: share(part.v4, whole.v4),
                v6: share(part.v6, whole.v6),
            }
        };
        let coverage = FIELDS
            .into_iter()
            .map(|field| covered(field, None))
            .chain(WITHIN.into_iter().map(|(field, within)| covered(field, Some(within))))
            .collect();
        let fills = self
            .fills
            .into_iter()
            .map(|((field, by), (records, weight))| Fill {
                field: field.to_owned(),
                by,
                records,
                v4: share(weight.v4, public),
            })
            .collect();
        let conflicts = self
            .conflicts
            .into_iter()
            .map(|((field, believed, other), weight)| Conflict {
                field: field.to_owned(),
                believed: believed.text(),
                other: other.text(),
                v4: share(weight.v4, public),
            })
            .collect();
        (coverage, fills, conflicts)
    }
}

/// Six digits are enough for a share, and the same on every machine.
fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts of addresses fit into 53 bits")]
fn float(count: u64) -> f64 {
    count as f64
}
