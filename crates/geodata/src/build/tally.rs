//! How much of the internet is known: shares of the public address space, for the report.

use super::Label;
use ipse_geo::{Conflict, Coverage, Fill};
use ipse_model::{Address, Network, Place};
use std::collections::BTreeMap;
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
    let mut public = 0u64;
    let mut at = first;
    loop {
        // Whether an address is public is the same for all of a /24, but for two of the protocol assignments.
        let end = (at | 0xff).min(last);
        if Address::new(IpAddr::V4(at.into())).is_global() {
            public += u64::from(end - at) + 1;
        }
        if end == last {
            break;
        }
        at = end + 1;
    }
    Weight { v4: float(public), v6: 0.0 }
}

/// The weight of a range of IPv6, in networks of /48.
pub(super) fn v6(first: u128, last: u128) -> Weight {
    let is_public = Address::new(IpAddr::V6(first.into())).is_global();
    let addresses = if is_public { last - first } else { return Weight::default() };
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    Weight { v4: 0.0, v6: (addresses as f64 + 1.0) / 2f64.powi(80) }
}

/// How many IPv4 addresses are public.
fn public_v4() -> f64 {
    // One address of each /24 stands for all of it.
    let public = (0..1u32 << 24).filter(|block| Address::new(IpAddr::V4((block << 8).into())).is_global()).count();
    float(public as u64 * 256)
}

/// Sums over everything that was merged.
#[derive(Default)]
pub(super) struct Tally {
    known: BTreeMap<&'static str, Weight>,
    fills: BTreeMap<(&'static str, String), (u64, Weight)>,
    conflicts: BTreeMap<(&'static str, Label, Label), Weight>,
    any: Weight,
}

/// The fields of an answer that coverage is told of, and the field within which it counts.
const FIELDS: [(&str, Option<&str>); 14] = [
    ("country", None),
    ("region", None),
    ("region_code", None),
    ("region_code", Some("region")),
    ("city", None),
    ("latitude", None),
    ("timezone", None),
    ("timezone", Some("country")),
    ("postal_code", None),
    ("asn", None),
    ("asn", Some("country")),
    ("org", None),
    ("proxy", None),
    ("hosting", None),
];

impl Tally {
    /// Counts a pair of a place and a network that some addresses have.
    pub(super) fn pair(&mut self, place: Option<&Place>, network: Option<&Network>, weight: Weight) {
        self.any += weight;
        let mut known = |field, is_known: bool| {
            if is_known {
                *self.known.entry(field).or_default() += weight;
            }
        };
        if let Some(place) = place {
            known("country", place.country.is_some());
            known("region", place.region.is_some());
            known("region_code", place.region_code.is_some());
            known("city", place.city.is_some());
            known("latitude", place.position.is_some());
            known("timezone", place.zone.is_some());
            known("postal_code", place.postal_code.is_some());
        }
        if let Some(network) = network {
            known("asn", network.asn.is_some());
            known("org", network.org.is_some());
            known("proxy", network.proxy == Some(true));
            known("hosting", network.hosting == Some(true));
        }
        // What a field counts within is known wherever the field is, but for these.
        let has_country = place.is_some_and(|place| place.country.is_some());
        known("asn within country", has_country && network.is_some_and(|network| network.asn.is_some()));
        known("timezone within country", has_country && place.is_some_and(|place| place.zone.is_some()));
        known(
            "region_code within region",
            place.is_some_and(|place| place.region.is_some() && place.region_code.is_some()),
        );
    }

    /// Counts what gave a field of one record.
    pub(super) fn origin(&mut self, field: &'static str, by: &str, weight: Weight) {
        let (records, sum) = self.fills.entry((field, by.to_owned())).or_default();
        *records += 1;
        *sum += weight;
    }

    /// Counts a contradiction.
    pub(super) fn conflict(&mut self, field: &'static str, believed: Label, other: Label, weight: Weight) {
        *self.conflicts.entry((field, believed, other)).or_default() += weight;
    }

    pub(super) fn report(self) -> (Vec<Coverage>, Vec<Fill>, Vec<Conflict>) {
        let public = public_v4();
        let weight = |field: &str| self.known.get(field).copied().unwrap_or_default();
        let share = |part: f64, whole: f64| if whole > 0.0 { rounded(part / whole) } else { 0.0 };
        let coverage = FIELDS
            .into_iter()
            .map(|(field, within)| {
                let (part, whole) = match within {
                    Some(within) => (weight(&format!("{field} within {within}")), weight(within)),
                    None => (weight(field), Weight { v4: public, v6: self.any.v6 }),
                };
                Coverage {
                    field: field.to_owned(),
                    within: within.map(str::to_owned),
                    v4: share(part.v4, whole.v4),
                    v6: share(part.v6, whole.v6),
                }
            })
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
