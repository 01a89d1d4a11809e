//! The table of IPv4: a tree of three steps (16, 8 and 8 bits), in which equal neighbours share one value.
//!
//! A node covers 256 slots. Its bits say at which of them another value begins, so the value of a slot is found by
//! counting bits, without a search.

/// A value is a spot, or, with this bit, a node.
const NODE: u32 = 1 << 31;

/// From an IPv4 address to its spot.
pub(crate) struct V4 {
    roots: Box<[u32]>,
    nodes: Vec<Node>,
    values: Vec<u32>,
}

struct Node {
    /// At which slots a value begins; the first bit is always set.
    begins: [u64; 4],
    /// Where the node's values begin.
    first: u32,
    /// How many values begin before each of the four words.
    before: [u8; 4],
}

impl V4 {
    /// `ranges` are the first addresses in ascending order, beginning with 0, each with the spot up to the next.
    pub(crate) fn new(ranges: &[(u32, u32)]) -> Self {
        let mut table = Self { roots: vec![0; 1 << 16].into(), nodes: Vec::new(), values: Vec::new() };
        let mut rest = ranges;
        let mut carried = 0;
        for root in 0..1 << 16 {
            let inside = take_while(&mut rest, |first| first >> 16 == root);
            table.roots[root as usize] = table.block(inside, &mut carried, 8);
        }
        table.nodes.shrink_to_fit();
        table.values.shrink_to_fit();
        table
    }

    /// The spot of an address.
    pub(crate) fn find(&self, address: u32) -> u32 {
        let mut value = self.roots[(address >> 16) as usize];
        let mut shift = 8;
        while value & NODE != 0 {
            let node = &self.nodes[(value ^ NODE) as usize];
            value = self.values[node.value(address >> shift & 0xff)];
            shift = 0;
        }
        value
    }

    /// The value of a block whose 256 slots have `shift` bits each. `carried` is the spot before it, and becomes the
    /// spot at its end.
    fn block(&mut self, ranges: &[(u32, u32)], carried: &mut u32, shift: u32) -> u32 {
        match *ranges {
            [] => return *carried,
            [(first, spot)] if first.trailing_zeros() >= shift + 8 => {
                *carried = spot;
                return spot;
            }
            _ => {}
        }
        let mut rest = ranges;
        let mut slots = [0; 256];
        for (slot, value) in (0u32..).zip(&mut slots) {
            let inside = take_while(&mut rest, |first| first >> shift & 0xff == slot);
            *value = match (shift, inside) {
                (_, []) => *carried,
                (0, [.., (_, spot)]) => {
                    *carried = *spot;
                    *spot
                }
                _ => self.block(inside, carried, 0),
            };
        }
        self.node(&slots)
    }

    fn node(&mut self, slots: &[u32; 256]) -> u32 {
        let mut node = Node { begins: [0; 4], first: count(self.values.len()), before: [0; 4] };
        for (slot, value) in slots.iter().enumerate() {
            if slot % 64 == 0 {
                // At most 192 values begin before the last word.
                node.before[slot / 64] =
                    u8::try_from(self.values.len() - node.first as usize).unwrap_or(u8::MAX);
            }
            if slot == 0 || *value != slots[slot - 1] {
                node.begins[slot / 64] |= 1 << (slot % 64);
                self.values.push(*value);
            }
        }
        self.nodes.push(node);
        NODE | count(self.nodes.len() - 1)
    }
}

impl Node {
    /// Where the value of a slot stands.
    fn value(&self, slot: u32) -> usize {
        let word = slot as usize / 64 % 4;
        let up_to_slot = self.begins[word] << (63 - slot % 64);
        self.first as usize + self.before[word] as usize + up_to_slot.count_ones() as usize - 1
    }
}

/// There are never more than 2³¹ of anything here: each needs ranges, and those are counted when they are read.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn take_while<'a>(rest: &mut &'a [(u32, u32)], is_inside: impl Fn(u32) -> bool) -> &'a [(u32, u32)] {
    let length = rest.iter().take_while(|(first, _)| is_inside(*first)).count();
    let (inside, after) = rest.split_at(length);
    *rest = after;
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[track_caller]
    fn check(ranges: &BTreeMap<u32, u32>) {
        let sorted: Vec<(u32, u32)> = ranges.iter().map(|(first, spot)| (*first, *spot)).collect();
        let table = V4::new(&sorted);
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
    fn ranges_end_within_every_step() {
        check(&BTreeMap::from([
            (0, 0),
            (0x0102_0304, 1),
            (0x0102_0305, 2),
            (0x0102_0400, 3),
            (0x0103_0000, 4),
            (0x0104_ffff, 5),
            (0xffff_ffff, 6),
        ]));
    }

    #[test]
    fn every_slot_can_have_its_own_value() {
        check(&(0..1024).map(|first| (first, first)).collect());
        check(&(0..1024).map(|first| (first << 8, first)).collect());
    }

    proptest! {
        #[test]
        fn any_ranges_are_found(
            firsts in prop::collection::btree_map(prop_oneof![any::<u32>(), 0u32..0x4_0000], 0u32..5, 0..300),
        ) {
            let mut ranges = firsts;
            ranges.insert(0, 9);
            check(&ranges);
        }
    }
}
