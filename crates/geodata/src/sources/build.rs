//! A table as it grows: facts kept once, ranges put in order, overlaps decided.

use crate::facts::{Facts, Range, Table};
use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasher;

/// No facts with this index: the end of a chain.
const NONE: u32 = u32::MAX;

/// Distinct facts, in the order in which they were first seen.
#[derive(Default)]
pub(super) struct Interner {
    hasher: RandomState,
    /// From a hash to the newest facts that have it; the others follow in `older`. The facts are kept once this way.
    newest: HashMap<u64, u32>,
    older: Vec<u32>,
    facts: Vec<Facts>,
    bytes: u64,
}

impl Interner {
    /// The index of these facts; `None` if they say nothing.
    pub(super) fn index(&mut self, facts: Facts) -> Option<u32> {
        if facts == Facts::default() {
            return None;
        }
        let hash = self.hasher.hash_one(&facts);
        let head = self.newest.get(&hash).copied().unwrap_or(NONE);
        let mut index = head;
        while index != NONE {
            if self.facts[index as usize] == facts {
                return Some(index);
            }
            index = self.older[index as usize];
        }
        let index = u32::try_from(self.facts.len()).ok().filter(|index| *index != NONE)?;
        self.bytes += weight(&facts);
        self.facts.push(facts);
        self.older.push(head);
        self.newest.insert(hash, index);
        Some(index)
    }

    /// About how much memory the facts take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The table of these ranges, which are in order.
    pub(super) fn into_table(self, mut v4: Vec<Range<u32>>, mut v6: Vec<Range<u128>>) -> Table {
        let mut facts = self.facts;
        facts.shrink_to_fit();
        v4.shrink_to_fit();
        v6.shrink_to_fit();
        Table { v4, v6, facts }
    }
}

/// An address as a number.
pub(super) trait Number: Copy + Ord {
    fn next(self) -> Option<Self>;
    fn previous(self) -> Option<Self>;
    /// How many addresses follow `self` up to `last`.
    fn width(self, last: Self) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn previous(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn width(self, last: Self) -> Self {
                last.saturating_sub(self)
            }
        }
    };
}

number!(u32);
number!(u128);

/// Adds a range that lies behind all others, to the last one if it goes on with the same facts.
pub(super) fn append<T: Number>(ranges: &mut Vec<Range<T>>, range: Range<T>) {
    if let Some(before) = ranges.last_mut()
        && before.facts == range.facts
        && before.last.next() == Some(range.first)
    {
        before.last = range.last;
        return;
    }
    ranges.push(range);
}

/// Puts ranges in order, so that none overlaps another and neighbours that say the same are one; and how many began
/// within another.
///
/// Where several speak of an address the narrowest is believed, for it knows better; among equals the one that begins
/// later, and of the very same range the one that the file has last.
pub(super) fn settle<T: Number>(mut ranges: Vec<Range<T>>) -> (Vec<Range<T>>, u64) {
    let sound = ranges.windows(2).all(|pair| pair[0].last < pair[1].first);
    let mut overlaps = 0;
    if !sound {
        // Stable: of the very same range the last one stays last.
        ranges.sort_by_key(|range| (range.first, Reverse(range.last)));
        let mut reach: Option<T> = None;
        for range in &ranges {
            overlaps += u64::from(reach.is_some_and(|reach| range.first <= reach));
            reach = reach.max(Some(range.last));
        }
    }
    if overlaps > 0 {
        return (divide(&ranges), overlaps);
    }
    // In place: a city file has millions of ranges.
    let mut kept: usize = 0;
    for index in 0..ranges.len() {
        let range = ranges[index];
        if kept > 0
            && let before = &mut ranges[kept - 1]
            && before.facts == range.facts
            && before.last.next() == Some(range.first)
        {
            before.last = range.last;
        } else {
            ranges[kept] = range;
            kept += 1;
        }
    }
    ranges.truncate(kept);
    (ranges, 0)
}

/// Cuts overlapping ranges, sorted by their beginning, where another is believed.
fn divide<T: Number>(ranges: &[Range<T>]) -> Vec<Range<T>> {
    let mut settled = Vec::with_capacity(ranges.len());
    // The ranges that are open at `position`, the one to believe on top; those that have ended are dropped when met.
    let mut open: BinaryHeap<(Reverse<T>, usize)> = BinaryHeap::new();
    let mut waiting = 0;
    let mut position: Option<T> = None;
    loop {
        while let Some(&(_, index)) = open.peek()
            && position.is_none_or(|position| ranges[index].last < position)
        {
            open.pop();
        }
        let from = match (open.peek(), ranges.get(waiting)) {
            (Some(_), _) => position,
            (None, Some(next)) => Some(next.first),
            (None, None) => return settled,
        };
        let Some(from) = from else { return settled };
        while let Some(range) = ranges.get(waiting)
            && range.first <= from
        {
            open.push((Reverse(range.first.width(range.last)), waiting));
            waiting += 1;
        }
        let Some(&(_, index)) = open.peek() else { return settled };
        let believed = ranges[index];
        let until = match ranges.get(waiting).and_then(|next| next.first.previous()) {
            Some(before_next) if before_next < believed.last => before_next,
            _ => believed.last,
        };
        append(&mut settled, Range { first: from, last: until, facts: believed.facts });
        position = until.next();
        if position.is_none() {
            return settled;
        }
    }
}

fn weight(facts: &Facts) -> u64 {
    let texts = [&facts.city, &facts.region, &facts.region_code, &facts.zone, &facts.postal_code, &facts.org];
    // A piece of memory costs about 16 bytes beside its content.
    let texts = texts.iter().filter_map(|text| text.as_deref()).map(|text| text.len() + 16).sum::<usize>();
    (texts + size_of::<Facts>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(list: &[(u32, u32, u32)]) -> Vec<Range<u32>> {
        list.iter().map(|&(first, last, facts)| Range { first, last, facts }).collect()
    }

    #[track_caller]
    fn check(list: &[(u32, u32, u32)], expected: &[(u32, u32, u32)], overlaps: u64) {
        let (settled, count) = settle(ranges(list));
        assert_eq!(settled, ranges(expected));
        assert_eq!(count, overlaps);
    }

    #[test]
    fn ranges_are_put_in_order_and_joined() {
        check(&[], &[], 0);
        check(&[(5, 9, 0), (0, 4, 0)], &[(0, 9, 0)], 0);
        check(&[(0, 4, 0), (5, 9, 1), (11, 12, 1)], &[(0, 4, 0), (5, 9, 1), (11, 12, 1)], 0);
        check(&[(0, u32::MAX, 3)], &[(0, u32::MAX, 3)], 0);
    }

    #[test]
    fn the_narrower_is_believed_then_the_later() {
        check(&[(0, 99, 0), (10, 19, 1)], &[(0, 9, 0), (10, 19, 1), (20, 99, 0)], 1);
        check(&[(10, 19, 1), (0, 99, 0)], &[(0, 9, 0), (10, 19, 1), (20, 99, 0)], 1);
        check(&[(0, 9, 0), (0, 9, 1)], &[(0, 9, 1)], 1);
        check(&[(0, 9, 0), (5, 14, 1)], &[(0, 4, 0), (5, 14, 1)], 1);
        check(&[(0, 9, 0), (5, 24, 1)], &[(0, 9, 0), (10, 24, 1)], 1);
        check(
            &[(0, u32::MAX, 0), (u32::MAX, u32::MAX, 1)],
            &[(0, u32::MAX - 1, 0), (u32::MAX, u32::MAX, 1)],
            1,
        );
        check(
            &[(0, 99, 0), (10, 49, 1), (20, 29, 2), (40, 200, 3)],
            &[(0, 9, 0), (10, 19, 1), (20, 29, 2), (30, 49, 1), (50, 99, 0), (100, 200, 3)],
            3,
        );
    }

    #[test]
    fn facts_are_kept_once() {
        let mut interner = Interner::default();
        let country = |code: &[u8; 2]| Facts { country: Some(*code), ..Facts::default() };
        assert_eq!(interner.index(country(b"NL")), Some(0));
        assert_eq!(interner.index(country(b"US")), Some(1));
        assert_eq!(interner.index(country(b"NL")), Some(0));
        assert_eq!(interner.index(Facts::default()), None);
    }

    proptest! {
        #[test]
        fn each_address_has_what_the_narrowest_says(list in prop::collection::vec((0_u32..60, 0_u32..12, 0_u32..3), 0..25)) {
            let list: Vec<_> = list.into_iter().map(|(first, width, facts)| (first, first + width, facts)).collect();
            let (settled, _) = settle(ranges(&list));
            for pair in settled.windows(2) {
                prop_assert!(pair[0].last < pair[1].first);
                prop_assert!(pair[0].facts != pair[1].facts || pair[0].last + 1 < pair[1].first);
            }
            for address in 0..80 {
                let found = settled.iter().find(|range| (range.first..=range.last).contains(&address));
                let expected = list
                    .iter()
                    .enumerate()
                    .filter(|(_, (first, last, _))| (*first..=*last).contains(&address))
                    .min_by_key(|(order, (first, last, _))| (last - first, Reverse(*first), Reverse(*order)));
                prop_assert_eq!(found.map(|range| range.facts), expected.map(|(_, (_, _, facts))| *facts));
            }
        }
    }
}
