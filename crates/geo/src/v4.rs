//! The table of IPv4: one entry for each network of 256 addresses, so that nearly every lookup is one step.
//!
//! The few networks whose addresses differ have a list of their own, in which each entry says at which address it
//! begins and which spot it is.

use crate::table::Table;
use std::ops::Range;

/// How many networks of 256 addresses there are.
const NETWORKS: usize = 1 << 24;
/// Spots have 24 bits.
const SPOT: u32 = (1 << 24) - 1;

/// From an IPv4 address to its spot.
pub(crate) struct V4 {
    /// An entry is a spot or, from this number on, the place of a list.
    spots: u32,
    networks: Networks,
    /// Lists, one behind the other: the first entry of each begins at 0, the highest eight bits say where others do.
    finer: Vec<u32>,
}

/// The entries of all networks. Most data leaves them short, which is a quarter less of what takes the most memory.
enum Networks {
    Short(Table<[u8; 3]>),
    Long(Table<u32>),
}

/// A table that is being filled, from the lowest address to the highest.
pub(crate) struct V4Builder(V4);

impl V4 {
    /// The spot of an address.
    #[inline]
    pub(crate) fn find(&self, address: u32) -> u32 {
        let entry = self.networks.get((address >> 8) as usize);
        match entry.checked_sub(self.spots) {
            None => entry,
            Some(list) => self.find_finer(list as usize, address & 0xff),
        }
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

impl Networks {
    /// Room for entries up to this one, all of the first spot.
    fn new(highest: usize) -> Self {
        match highest < 1 << 24 {
            true => Self::Short(Table::zeros(NETWORKS)),
            false => Self::Long(Table::zeros(NETWORKS)),
        }
    }

    #[inline]
    fn get(&self, network: usize) -> u32 {
        match self {
            Self::Short(entries) => {
                let [low, middle, high] = entries[network];
                u32::from_le_bytes([low, middle, high, 0])
            }
            Self::Long(entries) => entries[network],
        }
    }

    fn fill(&mut self, networks: Range<usize>, entry: u32) {
        match self {
            Self::Short(entries) => {
                let [low, middle, high, _] = entry.to_le_bytes();
                // Many are written in a few steps.
                let (many, rest) = entries[networks].as_chunks_mut::<16>();
                many.fill([[low, middle, high]; 16]);
                rest.fill([low, middle, high]);
            }
            Self::Long(entries) => entries[networks].fill(entry),
        }
    }
}

impl V4Builder {
    /// A table for so many ranges with numbers of spots below `spots`.
    pub(crate) fn new(spots: usize, ranges: usize) -> Self {
        // A range can begin within one network and end within another.
        let highest = spots.saturating_add(ranges.saturating_mul(2));
        Self(V4 {
            spots: u32::try_from(spots).unwrap_or(u32::MAX),
            networks: Networks::new(highest),
            finer: Vec::new(),
        })
    }

    /// The next range, both ends included. Each begins where the one before it ended.
    pub(crate) fn push(&mut self, first: u32, last: u32, spot: u32) {
        let V4 { spots, networks, finer } = &mut self.0;
        let (mut begin, end) = ((first >> 8) as usize, (last >> 8) as usize);
        if first & 0xff != 0 {
            finer.push((first & 0xff) << 24 | spot);
            begin += 1;
        }
        let whole = if last & 0xff == 0xff { end + 1 } else { end };
        // The table begins with the first spot everywhere.
        if begin < whole && spot != 0 {
            networks.fill(begin..whole, spot);
        }
        if begin <= end && whole == end {
            // Lists have fewer entries than there are addresses.
            let list = u32::try_from(finer.len()).unwrap_or_default();
            networks.fill(end..end + 1, spots.saturating_add(list));
            finer.push(spot);
        }
    }

    /// The table, without the networks that nobody can have on the internet.
    pub(crate) fn finish(mut self, reserved: &[(u32, u32)]) -> V4 {
        let V4 { networks, finer, .. } = &mut self.0;
        for (first, last) in reserved {
            let range = (first >> 8) as usize..(last >> 8) as usize + 1;
            // What is not written takes no memory.
            if range.clone().any(|network| networks.get(network) != 0) {
                networks.fill(range, 0);
            }
        }
        finer.push(0);
        finer.shrink_to_fit();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A table with long or short entries.
    fn table(ranges: &BTreeMap<u32, u32>, reserved: &[(u32, u32)], is_long: bool) -> V4 {
        let spots = ranges.values().max().unwrap() + 1;
        let mut builder = V4Builder::new(spots as usize, if is_long { 1 << 24 } else { ranges.len() });
        assert_eq!(matches!(builder.0.networks, Networks::Long(_)), is_long);
        for (first, spot) in ranges {
            let next = ranges.range(first + 1..).next();
            builder.push(*first, next.map_or(u32::MAX, |(next, _)| next - 1), *spot);
        }
        builder.finish(reserved)
    }

    #[track_caller]
    fn check(ranges: &BTreeMap<u32, u32>) {
        let tables = [false, true].map(|is_long| table(ranges, &[], is_long));
        for first in ranges.keys() {
            for address in
                [first.saturating_sub(1), *first, first.saturating_add(1), first | 0xff, first | 0xffff]
            {
                let (_, expected) = ranges.range(..=address).next_back().unwrap();
                assert!(tables.iter().all(|table| table.find(address) == *expected), "{address:#x}");
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
        // The highest numbers that there are.
        check(&(0..1024).map(|first| (first << 7, SPOT - 4_096 + first)).collect());
    }

    #[test]
    fn what_is_reserved_is_nowhere() {
        let table = table(&BTreeMap::from([(0, 7), (0x0a00_0080, 8)]), &[(0x0a00_0000, 0x0aff_ffff)], false);
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
