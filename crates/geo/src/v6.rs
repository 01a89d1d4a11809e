//! The table of IPv6: a tree of sorted keys, sixteen to a block, so that a search touches few lines of cache.
//!
//! A key is the upper half of an address, because nearly all ranges begin there; the few networks within which ranges
//! are finer than a /64 have a list of their own.

use crate::table::Table;

/// A value is a spot, or, with this bit, a list of finer ranges.
const FINE: u32 = 1 << 31;
const BLOCK: usize = 16;

/// From an IPv6 address to its spot.
pub(crate) struct V6 {
    /// The lowest layer holds all keys, each other one the first key of every block below. The uppermost is one block.
    layers: Vec<Layer>,
    values: Table<u32>,
    /// Where each list of finer ranges begins in `finer`, and where the last one ends.
    lists: Vec<u32>,
    /// Lower halves of first addresses, ascending within a list and beginning with 0, and their spots.
    finer: Vec<(u64, u32)>,
}

struct Layer {
    /// Filled up to whole blocks with copies of the last key.
    keys: Table<u64>,
    last: usize,
}

/// A table that is being filled, from the lowest address to the highest.
pub(crate) struct V6Builder {
    keys: Table<u64>,
    values: Table<u32>,
    lists: Vec<u32>,
    finer: Vec<(u64, u32)>,
    /// The spot of the range before, which goes on until the next.
    carried: u32,
    /// The key of the network whose list is being written.
    open: Option<u64>,
}

impl V6 {
    /// The spot of an address.
    pub(crate) fn find(&self, address: u128) -> u32 {
        let key = upper(address);
        let place = self.layers.iter().rev().fold(0, |block, layer| {
            let begin = block * BLOCK;
            (begin + last_at_or_below(&layer.keys[begin..begin + BLOCK], key)).min(layer.last)
        });
        let value = self.values[place];
        if value & FINE == 0 { value } else { self.find_finer((value ^ FINE) as usize, lower(address)) }
    }

    #[cold]
    fn find_finer(&self, list: usize, low: u64) -> u32 {
        let finer = &self.finer[self.lists[list] as usize..self.lists[list + 1] as usize];
        finer[finer.partition_point(|(first, _)| *first <= low) - 1].1
    }
}

/// The last of sixteen keys that is not above the wanted one; the first never is. Four steps without a branch.
fn last_at_or_below(block: &[u64], key: u64) -> usize {
    let mut at = 0;
    for step in [8, 4, 2, 1] {
        at += step * usize::from(block[at + step] <= key);
    }
    at
}

impl V6Builder {
    /// A table for at most this many ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        // A range has a key, and perhaps another one behind a list.
        let room = (2 * ranges + 1).next_multiple_of(BLOCK);
        Self {
            keys: Table::with_room(room),
            values: Table::with_room(room),
            lists: vec![0],
            finer: Vec::new(),
            carried: 0,
            open: None,
        }
    }

    /// The next range by its first address; the first one begins at 0, and each ends where the next one begins.
    pub(crate) fn push(&mut self, first: u128, spot: u32) {
        let (key, low) = (upper(first), lower(first));
        self.close(Some(key));
        if low == 0 {
            self.keys.push(key);
            self.values.push(spot);
        } else {
            if self.open.is_none() {
                self.open(key);
            }
            self.finer.push((low, spot));
        }
        self.carried = spot;
    }

    pub(crate) fn finish(mut self) -> V6 {
        self.close(None);
        self.finer.shrink_to_fit();
        self.lists.shrink_to_fit();
        V6 {
            layers: layers(self.keys),
            values: Table::of(&self.values),
            lists: self.lists,
            finer: self.finer,
        }
    }

    /// Begins the list of a network, with what was known of it so far.
    fn open(&mut self, key: u64) {
        let list = FINE | count(self.lists.len() - 1);
        if self.keys.last() == Some(&key) {
            if let Some(value) = self.values.last_mut() {
                self.finer.push((0, std::mem::replace(value, list)));
            }
        } else {
            self.keys.push(key);
            self.values.push(list);
            self.finer.push((0, self.carried));
        }
        self.open = Some(key);
    }

    /// Ends the list of a network if the next range begins elsewhere. What began last in it goes on behind it.
    fn close(&mut self, next: Option<u64>) {
        let Some(open) = self.open.filter(|open| next != Some(*open)) else { return };
        self.open = None;
        self.lists.push(count(self.finer.len()));
        if let Some(behind) = open.checked_add(1).filter(|behind| next != Some(*behind)) {
            self.keys.push(behind);
            self.values.push(self.carried);
        }
    }
}

fn layers(keys: Table<u64>) -> Vec<Layer> {
    let mut layers = vec![Layer::new(keys)];
    while let Some(below) = layers.last().filter(|below| below.keys.len() > BLOCK) {
        let firsts = below.keys.chunks_exact(BLOCK).map(|block| block[0]);
        let mut keys = Table::with_room(firsts.len().next_multiple_of(BLOCK));
        firsts.for_each(|first| keys.push(first));
        layers.push(Layer::new(keys));
    }
    layers
}

impl Layer {
    fn new(mut keys: Table<u64>) -> Self {
        let last = keys.len().saturating_sub(1);
        let copy = keys.last().copied().unwrap_or_default();
        while keys.is_empty() || !keys.len().is_multiple_of(BLOCK) {
            keys.push(copy);
        }
        Self { keys, last }
    }
}

fn upper(address: u128) -> u64 {
    (address >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn lower(address: u128) -> u64 {
    address as u64
}

/// There are never more than 2³¹ of anything here: ranges are counted when they are read.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[track_caller]
    fn check(ranges: &BTreeMap<u128, u32>) {
        let sorted: Vec<(u128, u32)> = ranges.iter().map(|(first, spot)| (*first, *spot)).collect();
        let mut builder = V6Builder::new(sorted.len());
        sorted.iter().for_each(|(first, spot)| builder.push(*first, *spot));
        let table = builder.finish();
        for first in ranges.keys() {
            for address in [
                first.saturating_sub(1),
                *first,
                first.saturating_add(1),
                first | u128::from(u64::MAX),
                first.saturating_add(1 << 64),
            ] {
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
    fn layers_of_any_height_are_searched() {
        for height in [15, 16, 17, 255, 256, 257, 5000] {
            check(&(0..height).map(|key| (u128::from(key) << 64, key)).collect());
        }
    }

    #[test]
    fn ranges_finer_than_a_network_are_found() {
        check(&BTreeMap::from([
            (0, 0),
            ((5 << 64) + 1, 1),
            ((5 << 64) + 9, 2),
            (6 << 64, 3),
            ((9 << 64) + 4, 4),
        ]));
        check(&BTreeMap::from([(0, 0), (u128::MAX - 3, 1), (u128::MAX, 2)]));
    }

    proptest! {
        #[test]
        fn any_ranges_are_found(
            firsts in prop::collection::btree_map(
                prop_oneof![any::<u128>(), (0u128..64).prop_map(|n| n << 60), (0u128..40, 0u128..3).prop_map(|(n, m)| (n << 64) + m)],
                0u32..5,
                0..400,
            ),
        ) {
            let mut ranges = firsts;
            ranges.insert(0, 9);
            check(&ranges);
        }
    }
}
