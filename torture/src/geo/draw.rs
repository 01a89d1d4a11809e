//! Addresses to ask for: anywhere, inside of what the sources know, and at its edges.

use super::world::World;
use anyhow::{Context, Result};
use ipse_model::Address;
use ipse_testkit::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Everything that the sources have a range for, of one family, both ends included.
pub(crate) struct Known {
    is_v4: bool,
    ranges: Vec<(u128, u128)>,
    /// How many of the ranges are places; the others are networks.
    places: u64,
}

impl Known {
    pub(crate) fn of(world: &World, is_v4: bool) -> Result<Self> {
        let reader = world.cities.of_family(is_v4).context("no city file of this family")?;
        let bits = if is_v4 { 32 } else { 128 };
        let mut ranges = Vec::new();
        for network in reader.networks(maxminddb::WithinOptions::default())? {
            let network = network?.network()?;
            let first = match network.network() {
                IpAddr::V4(ip) => u32::from(ip).into(),
                IpAddr::V6(ip) => u128::from(ip),
            };
            let width = 1_u128.checked_shl(bits - u32::from(network.prefix())).unwrap_or(0).wrapping_sub(1);
            ranges.push((first, first | width));
        }
        let places = ranges.len() as u64;
        ranges.extend(world.networks.of_family(is_v4).iter().map(|line| (line.first, line.last)));
        Ok(Self { is_v4, ranges, places })
    }

    /// Any public address of IPv4; IPv6 is too empty for that, so one inside of a place.
    pub(crate) fn anywhere(&self, random: &mut Random) -> IpAddr {
        loop {
            let ip = if self.is_v4 {
                IpAddr::V4(Ipv4Addr::from(low_bits(random.next())))
            } else {
                let index = random.below(self.places);
                self.inside(self.ranges[usize::try_from(index).unwrap_or_default()], random)
            };
            if Address::new(ip).is_global() {
                return ip;
            }
        }
    }

    /// An address for a comparison: half of them anywhere, the others where an error would show.
    pub(crate) fn suspicious(&self, random: &mut Random) -> IpAddr {
        match random.below(4) {
            0 | 1 => self.anywhere(random),
            2 => self.inside(*random.pick(&self.ranges), random),
            _ => {
                let (first, last) = *random.pick(&self.ranges);
                let edges = [first, last, first.saturating_sub(1), last.saturating_add(1)];
                self.ip(*random.pick(&edges))
            }
        }
    }

    fn inside(&self, (first, last): (u128, u128), random: &mut Random) -> IpAddr {
        let any = u128::from(random.next()) << 64 | u128::from(random.next());
        let offset = match (last - first).checked_add(1) {
            Some(addresses) => any % addresses,
            None => any,
        };
        self.ip(first + offset)
    }

    fn ip(&self, number: u128) -> IpAddr {
        if self.is_v4 {
            IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)))
        } else {
            IpAddr::V6(Ipv6Addr::from(number))
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of the bits are as random as all of them")]
fn low_bits(number: u64) -> u32 {
    number as u32
}
