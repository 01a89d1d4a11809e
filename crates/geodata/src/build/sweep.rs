//! One walk over the ranges of all sources at once: every piece of the address space, with what each source says.

use crate::facts::Range;

/// A family's addresses as numbers.
pub(super) trait Number: Copy + Ord {
    /// The highest address.
    const LAST: Self;
    /// The next address; only asked of one below the last.
    fn after(self) -> Self;
    /// The address before; only asked of one above the first.
    fn before(self) -> Self;
}

impl Number for u32 {
    const LAST: Self = Self::MAX;

    fn after(self) -> Self {
        self + 1
    }

    fn before(self) -> Self {
        self - 1
    }
}

impl Number for u128 {
    const LAST: Self = Self::MAX;

    fn after(self) -> Self {
        self + 1
    }

    fn before(self) -> Self {
        self - 1
    }
}

/// Calls `piece` for every range of addresses about which the sources do not change their mind, in ascending order, both
/// ends included: for each source one more than the index of its facts, or 0. Pieces about which none says anything are
/// left out.
pub(super) fn sweep<T: Number, E>(
    sources: &[&[Range<T>]],
    mut piece: impl FnMut(T, T, &[u32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut rests: Vec<&[Range<T>]> = sources.to_vec();
    let mut said = vec![0; sources.len()];
    let firsts = rests.iter().filter_map(|rest| rest.first()).map(|range| range.first);
    let Some(mut first) = firsts.min() else { return Ok(()) };
    loop {
        let mut last = T::LAST;
        for (rest, said) in rests.iter().zip(&mut said) {
            *said = 0;
            match rest.first() {
                Some(range) if range.first <= first => {
                    *said = range.facts + 1;
                    last = last.min(range.last);
                }
                Some(range) => last = last.min(range.first.before()),
                None => {}
            }
        }
        if said.iter().any(|said| *said != 0) {
            piece(first, last, &said)?;
        }
        for rest in &mut rests {
            while let Some((range, after)) = rest.split_first()
                && range.last <= last
            {
                *rest = after;
            }
        }
        if last == T::LAST || rests.iter().all(|rest| rest.is_empty()) {
            return Ok(());
        }
        first = last.after();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(sources: &[Vec<Range<u32>>]) -> Vec<(u32, u32, Vec<u32>)> {
        let sources: Vec<&[Range<u32>]> = sources.iter().map(Vec::as_slice).collect();
        let mut pieces = Vec::new();
        sweep(&sources, |first, last, said| {
            pieces.push((first, last, said.to_vec()));
            Ok::<(), ()>(())
        })
        .unwrap();
        pieces
    }

    fn range(first: u32, last: u32, facts: u32) -> Range<u32> {
        Range { first, last, facts }
    }

    #[test]
    fn pieces_are_cut_where_any_source_begins_or_ends() {
        assert_eq!(
            pieces(&[vec![range(10, 19, 0), range(30, 39, 1)], vec![range(15, 34, 7)]]),
            [
                (10, 14, vec![1, 0]),
                (15, 19, vec![1, 8]),
                (20, 29, vec![0, 8]),
                (30, 34, vec![2, 8]),
                (35, 39, vec![2, 0])
            ]
        );
    }

    #[test]
    fn both_ends_of_the_space_are_reached() {
        assert_eq!(pieces(&[]), []);
        assert_eq!(pieces(&[vec![]]), []);
        assert_eq!(pieces(&[vec![range(0, u32::MAX, 3)]]), [(0, u32::MAX, vec![4])]);
        assert_eq!(
            pieces(&[vec![range(0, 0, 0)], vec![range(u32::MAX, u32::MAX, 0)]]),
            [(0, 0, vec![1, 0]), (u32::MAX, u32::MAX, vec![0, 1])]
        );
    }

    /// Ranges that do not overlap, from gaps and lengths.
    fn ranges() -> impl Strategy<Value = Vec<Range<u32>>> {
        prop::collection::vec((0u32..4, 1u32..5, 0u32..3), 0..12).prop_map(|steps| {
            let mut next = 0;
            steps
                .into_iter()
                .map(|(gap, length, facts)| {
                    let first = next + gap;
                    next = first + length;
                    range(first, next - 1, facts)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_address_is_told_what_each_source_says(sources in prop::collection::vec(ranges(), 0..4)) {
            let pieces = pieces(&sources);
            for address in 0..120 {
                let expected: Vec<u32> = sources
                    .iter()
                    .map(|ranges| ranges.iter().find(|range| (range.first..=range.last).contains(&address)).map_or(0, |range| range.facts + 1))
                    .collect();
                let inside: Vec<_> = pieces.iter().filter(|(first, last, _)| (*first..=*last).contains(&address)).collect();
                if expected.iter().all(|said| *said == 0) {
                    prop_assert!(inside.is_empty());
                } else {
                    prop_assert_eq!(inside.len(), 1);
                    prop_assert_eq!(&inside[0].2, &expected);
                }
            }
        }
    }
}
