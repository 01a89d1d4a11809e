//! Ranges of addresses, out of their columns: they cover all of a family, one behind the other.

use crate::atlas::{Atlas, Found};
use crate::column::{Cursor, POINTS_NOWHERE};
use crate::error::Error;
use crate::file::{Column, File};
use crate::v4::{V4, V4Builder};
use crate::v6::{V6, V6Builder};
use ipse_model::Address;

/// Calls `range` for each range of IPv4 addresses with what is known of it: for whoever writes the data in another shape.
pub fn each_range_v4(
    snapshot: &[u8],
    atlas: &Atlas,
    mut range: impl FnMut(u32, u32, Found<'_>),
) -> Result<(), Error> {
    let address = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let file = File::open(snapshot)?;
    each_v4(&file, atlas.spot_count(), |first, last, spot| {
        range(address(first), address(last), atlas.at(spot));
    })
}

/// The table of IPv4.
pub(crate) fn v4(file: &File<'_>, spots: usize) -> Result<V4, Error> {
    let mut builder = V4Builder::new(spots, file.unpacked_length(Column::V4Scales));
    // Each begins and ends below the end.
    let address = |number| u32::try_from(number).unwrap_or(u32::MAX);
    each_v4(file, spots, |first, last, spot| builder.push(address(first), address(last), spot))?;
    Ok(builder.finish(&Address::RESERVED_V4))
}

/// The table of IPv6.
pub(crate) fn v6(file: &File<'_>, spots: usize) -> Result<V6, Error> {
    let mut builder = V6Builder::new(file.unpacked_length(Column::V6Scales));
    each_v6(file, spots, |first, _, spot| builder.push(first, spot))?;
    Ok(builder.finish())
}

/// Every range of IPv4 with its spot: the first and the last address.
pub(crate) fn each_v4(
    file: &File<'_>,
    spots: usize,
    range: impl FnMut(u128, u128, u32),
) -> Result<(), Error> {
    read(file, [Column::V4Scales, Column::V4Lengths, Column::V4Spots], spots, 1 << 32, range)
}

/// Every range of IPv6 with its spot.
pub(crate) fn each_v6(
    file: &File<'_>,
    spots: usize,
    range: impl FnMut(u128, u128, u32),
) -> Result<(), Error> {
    read(file, [Column::V6Scales, Column::V6Lengths, Column::V6Spots], spots, 0, range)
}

/// `end` is the first number that is no address; of IPv6 it is 2¹²⁸, which is 0.
fn read(
    file: &File<'_>,
    columns: [Column; 3],
    spots: usize,
    end: u128,
    mut range: impl FnMut(u128, u128, u32),
) -> Result<(), Error> {
    let [scales, lengths, in_spots] = columns.map(|column| file.column(column));
    let (scales, lengths, in_spots) = (scales?, lengths?, in_spots?);
    let [scales_name, lengths_name, spots_name] = columns.map(Column::name);
    let wrong = |what| Err(Error::Column { column: scales_name, what });
    let (in_spots, rest) = in_spots.as_chunks::<3>();
    if scales.len() != in_spots.len() || !rest.is_empty() {
        return wrong("there are more ranges than spots, or fewer");
    }
    let Some(before_last) = scales.len().checked_sub(1) else {
        return wrong("it is empty");
    };
    let mut lengths = Cursor::new(lengths_name, &lengths);
    let mut first = 0u128;
    for (index, (scale, [high, middle, low])) in scales.iter().zip(in_spots).enumerate() {
        let spot = u32::from_be_bytes([0, *high, *middle, *low]);
        if spot as usize >= spots {
            return Err(Error::Column { column: spots_name, what: POINTS_NOWHERE });
        }
        let length = lengths.wide_number()?;
        let next = first.wrapping_add(length.checked_shl(u32::from(*scale)).unwrap_or_default());
        let last = next.wrapping_sub(1);
        // Every range but the last ends before the end, and after its beginning.
        let is_right =
            if index == before_last { next == end } else { next > first && last < end.wrapping_sub(1) };
        if !is_right || u32::from(*scale) > length.leading_zeros() {
            return wrong("the ranges do not cover all addresses one by one");
        }
        range(first, last, spot);
        first = next;
    }
    lengths.end()
}
