//! The table of IPv6: blocks of sixteen ranges, and above them a tree of sorted keys that leads to the right one.
//!
//! A key is the upper half of an address, because nearly all ranges begin there; the few networks within which ranges
//! are finer than a /64 have a list of their own. A block is two lines of cache: ranges that stand together begin near
//! each other, so that half of a key is enough to tell them apart. A search has no branch that depends on what it
//! finds, so that the processor is at the next one while this one waits for memory.

use crate::table::Table;
use std::hint::black_box;

/// A value is a spot, or, with this bit, a list of finer ranges.
const FINE: u32 = 1 << 31;
const FAN_OUT: usize = 16;
/// As many addresses are looked for side by side: more than that the processor does not wait for at once.
const TOGETHER: usize = 16;

/// From an IPv6 address to its spot.
pub(crate) struct V6 {
    /// Blocks of ranges, and behind them the nodes of each layer.
    lines: Table<Node>,
    /// The uppermost is the first and has one node.
    layers: Vec<Layer>,
    /// The unit of the distances in each block, as a power of two, or `WIDE`.
    units: Vec<u8>,
    /// Where each list of finer ranges begins in `finer`, and where the last one ends.
    lists: Vec<u32>,
    /// Lower halves of first addresses, ascending within a list and beginning with 0, and their spots.
    finer: Vec<(u64, u32)>,
}

/// The lowest layer holds the first key of every block, each other one the first key of every node below.
struct Layer {
    /// Its first node.
    begin: usize,
    /// The rank of its last key.
    last: usize,
}

/// How far a search has come: to a node of a layer or to a block, and its first key.
#[derive(Clone, Copy, Default)]
struct Way {
    at: usize,
    first: u64,
}

/// Keys of a layer: the first, and then the others in the order in which a search asks for them. Filled up with the
/// largest key.
type Node = [u64; FAN_OUT];

/// How far the keys of sixteen ranges are from the first of them, in the order of a node and filled up with the largest
/// number, and then their values. Or, where the keys do not fit into distances, ten whole keys, and then their values,
/// filled up with copies of the last of them.
type Block = [u32; 2 * FAN_OUT];
const WIDE_ONE: usize = 10;
/// In the place of a unit: no distance has this one.
const WIDE: u8 = 64;
const NO_DISTANCE: u32 = u32::MAX;

/// A table that is being filled, from the lowest address to the highest.
pub(crate) struct V6Builder {
    /// The ranges of the block that is being filled, and more.
    waiting: Vec<(u64, u32)>,
    firsts: Vec<u64>,
    units: Vec<u8>,
    /// With one block for each unit so far.
    lines: Table<Node>,
    lists: Vec<u32>,
    finer: Vec<(u64, u32)>,
    /// The spot of the range before, which goes on until the next.
    carried: u32,
    /// The key of the network whose list is being written.
    open: Option<u64>,
}

impl V6 {
    /// The spot of an address. Apart from the much shorter way of IPv4, which it would make longer.
    #[inline(never)]
    pub(crate) fn find(&self, address: u128) -> u32 {
        let (key, lines) = (upper(address), &*self.lines);
        let way = self.layers.iter().fold(Way::default(), |way, layer| layer.step(lines, way, key));
        self.find_in(lines, way, address)
    }

    /// Calls `found` with the spot of each address. All of them take a step before one takes the next, so that none waits
    /// for memory alone.
    pub(crate) fn find_all(&self, addresses: &[u128], mut found: impl FnMut(u32)) {
        let lines = &*self.lines;
        for together in addresses.chunks(TOGETHER) {
            let mut ways = [Way::default(); TOGETHER];
            let ways = &mut ways[..together.len()];
            for layer in &self.layers {
                for (way, address) in ways.iter_mut().zip(together) {
                    *way = layer.step(lines, *way, upper(*address));
                }
            }
            // All blocks are on their way before the first of them is searched.
            for way in &*ways {
                black_box(lines[way.at][0]);
            }
            for (way, address) in ways.iter().zip(together) {
                found(self.find_in(lines, *way, *address));
            }
        }
    }

    /// The spot of an address in the block to which its way led.
    fn find_in(&self, lines: &[Node], way: Way, address: u128) -> u32 {
        let (unit, block) = (self.units[way.at], bytemuck::must_cast_ref(&lines[way.at]));
        let key = upper(address);
        let value =
            if unit == WIDE { find_wide(block, key) } else { find_narrow(block, key - way.first, unit) };
        if value & FINE == 0 { value } else { self.find_finer((value ^ FINE) as usize, lower(address)) }
    }

    #[cold]
    fn find_finer(&self, list: usize, low: u64) -> u32 {
        let finer = &self.finer[self.lists[list] as usize..self.lists[list + 1] as usize];
        finer[finer.partition_point(|(first, _)| *first <= low) - 1].1
    }
}

impl Layer {
    /// From a node of this layer to the node or the block below it.
    fn step(&self, lines: &[Node], way: Way, key: u64) -> Way {
        let keys = &lines[self.begin + way.at];
        // The second line of the keys is on its way while those of the first are compared.
        black_box(keys[FAN_OUT / 2]);
        let at = (way.at * FAN_OUT + last_at_or_below(keys, key)).min(self.last);
        Way { at, first: keys[slot(at % FAN_OUT)] }
    }
}

/// The rank of the last of sixteen keys that is not above the wanted one; the first never is.
fn last_at_or_below<T: PartialOrd + Copy>(node: &[T; FAN_OUT], key: T) -> usize {
    let at = (0..4).fold(1, |at, _| 2 * at + usize::from(node[at % FAN_OUT] <= key));
    at % FAN_OUT
}

/// Where the key of this rank stands in a node: the middle one is asked first, then the middle one of either half.
fn slot(rank: usize) -> usize {
    match rank.trailing_zeros() {
        depth @ 0..4 => ((FAN_OUT / 2) >> depth) + (rank >> (depth + 1)),
        _ => 0,
    }
}

fn find_narrow(block: &Block, distance: u64, unit: u8) -> u32 {
    let distance = (distance >> unit).min(u64::from(NO_DISTANCE) - 1);
    let [distances, values]: &[[u32; FAN_OUT]; 2] = bytemuck::must_cast_ref(block);
    // The line of the values is on its way while distances are compared.
    black_box(values[0]);
    values[last_at_or_below(distances, low_half(distance))]
}

#[cold]
fn find_wide(block: &Block, key: u64) -> u32 {
    let (keys, values) = block.split_at(2 * WIDE_ONE);
    let (keys, _) = keys.as_chunks::<2>();
    let up_to = keys.iter().take_while(|[high, low]| u64::from(*high) << 32 | u64::from(*low) <= key).count();
    values[up_to - 1]
}

impl V6Builder {
    /// A table for at most this many ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        // A range has a key, and perhaps another one behind a list. Every block but the last has ten or more.
        let blocks = (2 * ranges + 1) / WIDE_ONE + 1;
        // Each layer has a sixteenth of the one below it, rounded up.
        let room = blocks + blocks / (FAN_OUT - 1) + usize::BITS as usize;
        Self {
            waiting: Vec::new(),
            firsts: Vec::new(),
            units: Vec::new(),
            lines: Table::zeros(room),
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
            self.add(key, spot);
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
        while !self.waiting.is_empty() {
            self.write_block();
        }
        self.finer.shrink_to_fit();
        self.lists.shrink_to_fit();
        let layers = layers(&mut self.lines, self.firsts);
        V6 { lines: self.lines, layers, units: self.units, lists: self.lists, finer: self.finer }
    }

    /// Begins the list of a network, with what was known of it so far.
    fn open(&mut self, key: u64) {
        let list = FINE | count(self.lists.len() - 1);
        match self.waiting.last_mut() {
            Some((last, value)) if *last == key => self.finer.push((0, std::mem::replace(value, list))),
            _ => {
                self.finer.push((0, self.carried));
                self.add(key, list);
            }
        }
        self.open = Some(key);
    }

    /// Ends the list of a network if the next range begins elsewhere. What began last in it goes on behind it.
    fn close(&mut self, next: Option<u64>) {
        let Some(open) = self.open.filter(|open| next != Some(*open)) else { return };
        self.open = None;
        self.lists.push(count(self.finer.len()));
        if let Some(behind) = open.checked_add(1).filter(|behind| next != Some(*behind)) {
            self.add(behind, self.carried);
        }
    }

    fn add(&mut self, key: u64, value: u32) {
        // The last one may still change.
        if self.waiting.len() > FAN_OUT {
            self.write_block();
        }
        self.waiting.push((key, value));
    }

    /// Writes as many of the waiting ranges as go into one block.
    fn write_block(&mut self) {
        let Some((first, _)) = self.waiting.first().copied() else { return };
        let mut unit = u64::BITS - 1;
        let mut fitting = 0;
        for (key, _) in self.waiting.iter().take(FAN_OUT) {
            let finer = unit.min((key - first).trailing_zeros());
            if (key - first) >> finer >= u64::from(NO_DISTANCE) {
                break;
            }
            unit = finer;
            fitting += 1;
        }
        let is_wide = fitting < WIDE_ONE.min(self.waiting.len());
        let taken = if is_wide { WIDE_ONE.min(self.waiting.len()) } else { fitting };
        let ranges = self.waiting.drain(..taken);
        let mut block: Block = [0; 2 * FAN_OUT];
        if is_wide {
            let last = ranges.as_slice().last().copied().unwrap_or_default();
            let filled = ranges.chain(std::iter::repeat(last)).take(WIDE_ONE);
            for (at, (key, value)) in filled.enumerate() {
                block[2 * at] = high_half(key);
                block[2 * at + 1] = low_half(key);
                block[2 * WIDE_ONE + at] = value;
            }
        } else {
            block[..FAN_OUT].fill(NO_DISTANCE);
            for (rank, (key, value)) in ranges.enumerate() {
                block[slot(rank)] = low_half((key - first) >> unit);
                block[FAN_OUT + rank] = value;
            }
        }
        self.lines[self.units.len()] = bytemuck::must_cast(block);
        self.firsts.push(first);
        // It is below 64.
        self.units.push(if is_wide { WIDE } else { u8::try_from(unit).unwrap_or_default() });
    }
}

/// Writes the layers above blocks, given their first keys.
fn layers(lines: &mut [Node], mut keys: Vec<u64>) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut begin = keys.len();
    loop {
        layers.push(Layer { begin, last: keys.len().saturating_sub(1) });
        for (keys, node) in keys.chunks(FAN_OUT).zip(&mut lines[begin..]) {
            *node = [u64::MAX; FAN_OUT];
            keys.iter().enumerate().for_each(|(rank, key)| node[slot(rank)] = *key);
            begin += 1;
        }
        if keys.len() <= FAN_OUT {
            layers.reverse();
            return layers;
        }
        keys = keys.into_iter().step_by(FAN_OUT).collect();
    }
}

fn upper(address: u128) -> u64 {
    (address >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn lower(address: u128) -> u64 {
    address as u64
}

fn high_half(key: u64) -> u32 {
    (key >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_half(key: u64) -> u32 {
    key as u32
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
        let around = |first: &u128| {
            [
                first.saturating_sub(1),
                *first,
                first.saturating_add(1),
                first | u128::from(u64::MAX),
                first.saturating_add(1 << 64),
            ]
        };
        let addresses: Vec<u128> = ranges.keys().flat_map(around).collect();
        let mut together = Vec::new();
        table.find_all(&addresses, |spot| together.push(spot));
        assert_eq!(together.len(), addresses.len());
        for (address, together) in addresses.into_iter().zip(together) {
            let (_, expected) = ranges.range(..=address).next_back().unwrap();
            assert_eq!((table.find(address), together), (*expected, *expected), "{address:#x}");
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
