//! The file of a snapshot: a head, columns that are packed one by one, and a checksum over all of it.
//!
//! ```text
//! 8 bytes   "ipse geo"
//! u32       version of the format (all numbers little-endian)
//! u32       number of columns
//! each      u64 bytes unpacked, u64 bytes packed
//! each      the column, packed with zstd
//! 32 bytes  SHA-256 of all that stands before
//! ```

use crate::error::Error;
use crate::table::Table;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

const MAGIC: &[u8; 8] = b"ipse geo";
const VERSION: u32 = 1;
const HEAD: usize = 16;
const ENTRY: usize = 16;
const CHECKSUM: usize = 32;
/// Slow to pack and as quick as any other to unpack: a snapshot is written once and read at every start.
const LEVEL: i32 = 19;
/// Columns unpack to no more than this, so that a file made for it cannot fill the memory: sixteen times the file, and
/// something for small ones. Real ones unpack to about four times.
const UNPACKED_PER_PACKED: u64 = 16;
const UNPACKED_BESIDE: u64 = 8 << 20;

/// The columns of a snapshot, in the order of the file.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    About,
    Zones,
    Countries,
    Areas,
    PlaceAreas,
    PlaceCities,
    PlaceLatitudes,
    PlaceLongitudes,
    PlaceZones,
    PlacePostalCodes,
    PlaceOrigins,
    Networks,
    NetworkOrigins,
    Origins,
    SpotPlaces,
    SpotNetworks,
    V4Scales,
    V4Lengths,
    V4Spots,
    V6Scales,
    V6Lengths,
    V6Spots,
}

impl Column {
    pub(crate) const ALL: [Self; 22] = [
        Self::About,
        Self::Zones,
        Self::Countries,
        Self::Areas,
        Self::PlaceAreas,
        Self::PlaceCities,
        Self::PlaceLatitudes,
        Self::PlaceLongitudes,
        Self::PlaceZones,
        Self::PlacePostalCodes,
        Self::PlaceOrigins,
        Self::Networks,
        Self::NetworkOrigins,
        Self::Origins,
        Self::SpotPlaces,
        Self::SpotNetworks,
        Self::V4Scales,
        Self::V4Lengths,
        Self::V4Spots,
        Self::V6Scales,
        Self::V6Lengths,
        Self::V6Spots,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Zones => "zones",
            Self::Countries => "countries",
            Self::Areas => "areas",
            Self::PlaceAreas => "places: areas",
            Self::PlaceCities => "places: cities",
            Self::PlaceLatitudes => "places: latitudes",
            Self::PlaceLongitudes => "places: longitudes",
            Self::PlaceZones => "places: zones",
            Self::PlacePostalCodes => "places: postal codes",
            Self::PlaceOrigins => "places: origins",
            Self::Networks => "networks",
            Self::NetworkOrigins => "networks: origins",
            Self::Origins => "origins",
            Self::SpotPlaces => "spots: places",
            Self::SpotNetworks => "spots: networks",
            Self::V4Scales => "IPv4: scales",
            Self::V4Lengths => "IPv4: lengths",
            Self::V4Spots => "IPv4: spots",
            Self::V6Scales => "IPv6: scales",
            Self::V6Lengths => "IPv6: lengths",
            Self::V6Spots => "IPv6: spots",
        }
    }
}

/// Writes a file of the given columns.
pub(crate) fn write(columns: &[Vec<u8>; Column::ALL.len()]) -> Vec<u8> {
    let packed: Vec<Vec<u8>> = columns.iter().map(|column| pack(column)).collect();
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&(u32::try_from(columns.len()).unwrap_or(u32::MAX)).to_le_bytes());
    for (column, packed) in columns.iter().zip(&packed) {
        file.extend_from_slice(&(column.len() as u64).to_le_bytes());
        file.extend_from_slice(&(packed.len() as u64).to_le_bytes());
    }
    packed.iter().for_each(|packed| file.extend_from_slice(packed));
    seal(&mut file);
    file
}

/// Puts the checksum at the end.
pub(crate) fn seal(file: &mut Vec<u8>) {
    let checksum = Sha256::digest(&*file);
    file.extend_from_slice(&checksum);
}

/// Packing into memory fails only where memory does.
fn pack(column: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(column, LEVEL).unwrap_or_default()
}

/// A file whose head and checksum are right.
pub(crate) struct File<'a> {
    columns: Vec<(&'a [u8], u64)>,
    checksum: &'a [u8],
}

impl<'a> File<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let found = bytes.len() as u64;
        let too_short = |expected: usize| Error::Length { expected: expected as u64, found };
        if bytes.get(..MAGIC.len()).is_none_or(|magic| magic != MAGIC) {
            return Err(Error::Foreign);
        }
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(|| too_short(HEAD))?;
        let version = word(&head[8..12]);
        if version != VERSION {
            return Err(Error::Version { found: version, expected: VERSION });
        }
        let count = Column::ALL.len();
        if word(&head[12..16]) as usize != count {
            return Err(Error::Column { column: "head", what: "it has another number of columns" });
        }
        let entries = count * ENTRY;
        let (entries, rest) = rest.split_at_checked(entries).ok_or_else(|| too_short(HEAD + entries))?;
        let lengths: Vec<(u64, u64)> =
            entries.chunks_exact(ENTRY).map(|entry| (long(&entry[..8]), long(&entry[8..]))).collect();
        let expected = lengths
            .iter()
            .try_fold((HEAD + entries.len() + CHECKSUM) as u64, |sum, (_, packed)| sum.checked_add(*packed));
        if expected != Some(found) {
            return Err(Error::Length { expected: expected.unwrap_or(u64::MAX), found });
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
        if *Sha256::digest(content) != *checksum {
            return Err(Error::Checksum);
        }
        let unpacked = lengths.iter().try_fold(0u64, |sum, (unpacked, _)| sum.checked_add(*unpacked));
        if unpacked.is_none_or(|unpacked| unpacked > UNPACKED_BESIDE + found * UNPACKED_PER_PACKED) {
            return Err(Error::Column { column: "head", what: "it promises more than any snapshot holds" });
        }
        let mut rest = rest;
        let columns = lengths
            .iter()
            .map(|(unpacked, packed)| {
                // The sum of all lengths was compared with the length of the file.
                let (column, after) = rest.split_at(usize::try_from(*packed).unwrap_or_default());
                rest = after;
                (column, *unpacked)
            })
            .collect();
        Ok(Self { columns, checksum })
    }

    /// Unpacks one column.
    pub(crate) fn column(&self, column: Column) -> Result<Table<u8>, Error> {
        let wrong = |what| Error::Column { column: column.name(), what };
        let (packed, length) = self.columns[column as usize];
        // What the head promises takes memory only where something really comes out.
        let mut unpacked = Table::zeros(usize::try_from(length).unwrap_or(usize::MAX));
        let mut decoder =
            zstd::stream::read::Decoder::with_buffer(packed).map_err(|_| wrong("it cannot be unpacked"))?;
        decoder.read_exact(&mut unpacked).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("it has another length than the head says"),
            _ => wrong("it cannot be unpacked"),
        })?;
        match decoder.read(&mut [0]) {
            Ok(0) => Ok(unpacked),
            Ok(_) => Err(wrong("it has another length than the head says")),
            Err(_) => Err(wrong("it cannot be unpacked")),
        }
    }

    /// How long a column is, unpacked.
    pub(crate) fn unpacked_length(&self, column: Column) -> usize {
        let (_, length) = self.columns[column as usize];
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// The checksum, which is also the name of the content.
    pub(crate) fn checksum(&self) -> String {
        use std::fmt::Write;
        self.checksum.iter().fold(String::new(), |mut text, byte| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The bytes of each column, unpacked and packed.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (Column, u64, u64)> {
        Column::ALL
            .into_iter()
            .zip(&self.columns)
            .map(|(column, (packed, unpacked))| (column, *unpacked, packed.len() as u64))
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut columns: [Vec<u8>; Column::ALL.len()] = Default::default();
        columns[0] = b"first".repeat(100);
        columns[21] = b"last".to_vec();
        write(&columns)
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Vec<u8>), expected: &str) {
        let mut file = sample();
        change(&mut file);
        let error = File::open(&file).map(drop).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn columns_come_back() {
        let file = sample();
        let file = File::open(&file).unwrap();
        assert_eq!(*file.column(Column::About).unwrap(), b"first".repeat(100));
        assert_eq!(*file.column(Column::V6Spots).unwrap(), *b"last");
        assert!(file.column(Column::Zones).unwrap().is_empty());
        assert_eq!(file.checksum().len(), 64);
    }

    #[test]
    fn what_is_wrong_is_said() {
        check(Vec::clear, "no snapshot of ipse");
        check(|file| file[0] = b'I', "no snapshot of ipse");
        check(|file| file.truncate(12), "cut off");
        check(|file| file.truncate(100), "cut off");
        check(|file| file.truncate(file.len() - 1), "cut off");
        check(|file| file.push(0), "something was added");
        check(|file| file[8] = 9, "format 9");
        check(|file| file[12] = 9, "number of columns");
        check(|file| *file.last_mut().unwrap() ^= 1, "checksum");
        check(|file| file[400] ^= 1, "checksum");
    }

    #[test]
    fn a_promise_of_more_than_memory_is_refused_before_it_is_unpacked() {
        let reseal = |unpacked: u64| {
            let mut file = sample();
            file.truncate(file.len() - CHECKSUM);
            file[HEAD..HEAD + 8].copy_from_slice(&unpacked.to_le_bytes());
            seal(&mut file);
            file
        };
        let error = File::open(&reseal(u64::MAX)).map(drop).unwrap_err();
        assert!(error.to_string().contains("promises more"), "{error}");
        for unpacked in [499, 501, 8 << 20] {
            let file = reseal(unpacked);
            let error = File::open(&file).unwrap().column(Column::About).map(drop).unwrap_err();
            assert!(error.to_string().contains("another length"), "{error}");
        }
    }
}
