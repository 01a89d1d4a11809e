//! The table of IPv4: one entry for each network of 256 addresses, so that nearly every lookup is one step.
//!
//! The few networks whose addresses differ have a list of their own, in which each entry says at which address it
//! begins and which spot it is.

use crate::table::Table;

/// An entry is a spot, or, with this bit, the place of a list. Spots have 24 bits.
const FINER: u32 = 1 << 31;
const SPOT: u32 = (1 << 24) - 1;

/// From an IPv4 address to its spot.
pub(crate) struct V4 {
    networks: Table<u32>,
    /// Lists, one behind the other: the first entry of each begins at 0, the highest eight bits say where others do.
    finer: Vec<u32>,
}

/// A table that is being filled, from the lowest address to the highest.
pub(crate) struct V4Builder {
    networks: Table<u32>,
    finer: Vec<u32>,
}

impl V4 {
    /// The spot of an address.
    #[inline]
    pub(crate) fn find(&self, address: u32) -> u32 {
        let entry = self.networks[(address >> 8) as usize];
        if entry & FINER == 0 { entry } else { self.find_finer((entry ^ FINER) as usize, address & 0xff) }
    }

    fn find_finer(&self, list: usize, low: u32) -> u32 {
        let mut found = self.finer[list];
        for entry in &self.finer[list + 1..] {
            // The next list begins at 0 again; behind the last one stands a 0.
            if !(1..=low).contains(&(entry >> 24)) {
                break;
            }
            found = *entry;
        }
        found & SPOT
    }
}

impl V4Builder {
    pub(crate) fn new() -> Self {
        Self { networks: Table::zeros(1 << 24), finer: Vec::new() }
    }

    /// The next range, both ends included. Each begins where the one before it ended.
    pub(crate) fn push(&mut self, first: u32, last: u32, spot: u32) {
        let (mut begin, end) = ((first >> 8) as usize, (last >> 8) as usize);
        if first & 0xff != 0 {
            self.finer.push((first & 0xff) << 24 | spot);
            begin += 1;
        }
        let whole = if last & 0xff == 0xff { end + 1 } else { end };
        // The table begins with the first spot everywhere.
        if begin < whole && spot != 0 {
            self.networks[begin..whole].fill(spot);
        }
        if begin <= end && whole == end {
            // Lists have fewer entries than there are addresses.
            self.networks[end] = FINER | u32::try_from(self.finer.len()).unwrap_or_default();
            self.finer.push(spot);
        }
    }

    /// The table, without the networks that nobody can have on the internet.
    pub(crate) fn finish(mut self, reserved: &[(u32, u32)]) -> V4 {
        for (first, last) in reserved {
            let networks = &mut self.networks[(first >> 8) as usize..=(last >> 8) as usize];
            // What is not written takes no memory.
            if networks.iter().any(|network| *network != 0) {
                networks.fill(0);
            }
        }
        self.finer.push(0);
        self.finer.shrink_to_fit();
        V4 { networks: self.networks, finer: self.finer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn table(ranges: &BTreeMap<u32, u32>, reserved: &[(u32, u32)]) -> V4 {
        let mut builder = V4Builder::new();
        for (first, spot) in ranges {
            let next = ranges.range(first + 1..).next();
            builder.push(*first, next.map_or(u32::MAX, |(next, _)| next - 1), *spot);
        }
        builder.finish(reserved)
    }

    #[track_caller]
    fn check(ranges: &BTreeMap<u32, u32>) {
        let table = table(ranges, &[]);
        for first in ranges.keys() {
            for address in
                [first.saturating_sub(1), *first, first.saturating_add(1), first | 0xff, first | 0xffff]
            {
                let (_, expected) = ranges.range(..=address).next_back().unwrap();
                assert_eq!(table.find(address), *expected, "{address:#x}");
            }
        }
    }

    #[test]
    fn one_range_covers_everything() {
        check(&BTreeMap::from([(0, 7)]));
    }

    #[test]
    fn ranges_end_anywhere() {
        check(&BTreeMap::from([
            (0, 0),
            (0x0102_0304, 1),
            (0x0102_0305, 2),
            (0x0102_0400, 3),
            (0x0103_0000, 4),
            (0x0104_ffff, 5),
            (0xffff_fffe, 6),
        ]));
    }

    #[test]
    fn every_address_can_have_its_own_spot() {
        check(&(0..1024).map(|first| (first, first + 1)).collect());
        check(&(0..1024).map(|first| (first << 8, first)).collect());
    }

    #[test]
    fn what_is_reserved_is_nowhere() {
        let table = table(&BTreeMap::from([(0, 7), (0x0a00_0080, 8)]), &[(0x0a00_0000, 0x0aff_ffff)]);
        let found =
            [0x09ff_ffff, 0x0a00_0000, 0x0a00_0081, 0x0aff_ffff, 0x0b00_0000].map(|ip| table.find(ip));
        assert_eq!(found, [7, 0, 0, 0, 8]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_ranges_are_found(
            firsts in prop::collection::btree_map(prop_oneof![any::<u32>(), 0u32..0x4_0000], 0u32..5, 0..300),
        ) {
            let mut ranges = firsts;
            ranges.remove(&u32::MAX);
            ranges.insert(0, 9);
            check(&ranges);
        }
    }
}
