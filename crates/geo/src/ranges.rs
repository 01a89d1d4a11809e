//! Ranges of addresses, out of their columns: they cover all of a family, one behind the other.

use crate::column::Cursor;
use crate::error::Error;
use crate::file::{Column, File};

/// The first addresses of IPv4 in ascending order, beginning with 0, each with the spot up to the next.
pub(crate) fn v4(file: &File<'_>, spots: usize) -> Result<Vec<(u32, u32)>, Error> {
    let columns = [Column::V4Scales, Column::V4Lengths, Column::V4Spots];
    let end = 1u128 << 32;
    // Each begins below the end.
    read(file, columns, spots, end, |first| u32::try_from(first).unwrap_or(u32::MAX))
}

/// The same for IPv6.
pub(crate) fn v6(file: &File<'_>, spots: usize) -> Result<Vec<(u128, u32)>, Error> {
    read(file, [Column::V6Scales, Column::V6Lengths, Column::V6Spots], spots, 0, |first| first)
}

/// `end` is the first number that is no address; of IPv6 it is 2¹²⁸, which is 0.
fn read<T>(
    file: &File<'_>,
    columns: [Column; 3],
    spots: usize,
    end: u128,
    address: impl Fn(u128) -> T,
) -> Result<Vec<(T, u32)>, Error> {
    let [scales, lengths, in_spots] = columns.map(|column| file.column(column));
    let (scales, lengths, in_spots) = (scales?, lengths?, in_spots?);
    let [scales_name, lengths_name, spots_name] = columns.map(Column::name);
    let mut lengths = Cursor::new(lengths_name, &lengths);
    let mut in_spots = Cursor::new(spots_name, &in_spots);
    let wrong = |what| Error::Column { column: scales_name, what };
    let mut ranges = Vec::with_capacity(scales.len());
    let mut first = 0u128;
    for (place, scale) in scales.iter().enumerate() {
        let spot = in_spots.three_bytes()?;
        ranges.push((address(first), in_spots.below(spot.into(), spots)?));
        let length = lengths.wide_number()?;
        let scaled = length.checked_shl((*scale).into()).filter(|scaled| scaled >> scale == length);
        let is_last = place + 1 == scales.len();
        let next = scaled.map(|scaled| first.wrapping_add(scaled));
        // Every range but the last ends before the end, and after its beginning.
        let is_right = if is_last {
            next == Some(end)
        } else {
            next.is_some_and(|next| next > first && (end == 0 || next < end))
        };
        if !is_right {
            return Err(wrong("the ranges do not cover all addresses one by one"));
        }
        first = next.unwrap_or_default();
    }
    if ranges.is_empty() {
        return Err(wrong("it is empty"));
    }
    lengths.end()?;
    in_spots.end()?;
    Ok(ranges)
}
