//! Snapshots whose columns were changed and whose checksum is right again: what stands behind the checksum must hold
//! by itself. The container is read and written here by hand, not with the code that is tried.

use super::Hostile;
use super::good::{Goods, Reads};
use super::packing;
use ipse_testkit::Random;
use sha2::{Digest, Sha256};

const HEAD: usize = 16;
const ENTRY: usize = 16;
const CHECKSUM: usize = 32;

/// The columns, by their place in the file.
const ABOUT: usize = 0;
const ZONES: usize = 1;
const COUNTRIES: usize = 2;
const AREAS: usize = 3;
const PLACE_AREAS: usize = 4;
const PLACE_CITIES: usize = 5;
const PLACE_LATITUDES: usize = 6;
const PLACE_LONGITUDES: usize = 7;
const PLACE_ZONES: usize = 8;
const PLACE_POSTAL_CODES: usize = 9;
const PLACE_ORIGINS: usize = 10;
const NETWORKS: usize = 11;
const NETWORK_ORIGINS: usize = 12;
const ORIGINS: usize = 13;
const SPOT_PLACES: usize = 14;
const SPOT_NETWORKS: usize = 15;
const V4: [usize; 3] = [16, 17, 18];
const V6: [usize; 3] = [19, 20, 21];

/// A snapshot's file in its parts.
struct Container {
    version: u32,
    count: u32,
    /// What the head says of the unpacked length, and the packed bytes.
    columns: Vec<(u64, Vec<u8>)>,
    /// Instead of the packed lengths, where they lie.
    packed_lengths: Vec<Option<u64>>,
}

impl Container {
    fn any(random: &mut Random, goods: &Goods) -> Self {
        let good = goods.that(random, |good| good.reads == Reads::Snapshot && good.bytes.len() < 1 << 20);
        Self::open(&good.bytes)
    }

    /// Takes a good file apart.
    fn open(file: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap_or_default());
        let count = word(12);
        let mut begin = HEAD + count as usize * ENTRY;
        let columns: Vec<_> = (0..count as usize)
            .map(|column| {
                let at = HEAD + column * ENTRY;
                let packed = usize::try_from(long(at + 8)).unwrap_or(0);
                let bytes = file[begin..begin + packed].to_vec();
                begin += packed;
                (long(at), bytes)
            })
            .collect();
        Self { version: word(8), count, packed_lengths: vec![None; columns.len()], columns }
    }

    fn column(&self, column: usize) -> Vec<u8> {
        let (length, packed) = &self.columns[column];
        zstd::bulk::decompress(packed, usize::try_from(*length).unwrap_or(0)).unwrap_or_default()
    }

    fn put(&mut self, column: usize, bytes: &[u8]) {
        self.columns[column] = (bytes.len() as u64, packing::zstd(bytes, 1));
    }

    fn change(&mut self, column: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.column(column);
        change(&mut bytes);
        self.put(column, &bytes);
    }

    fn seal(self) -> Hostile {
        let mut file = b"ipse geo".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(self.count.to_le_bytes());
        for ((unpacked, packed), lie) in self.columns.iter().zip(&self.packed_lengths) {
            file.extend(unpacked.to_le_bytes());
            file.extend(lie.unwrap_or(packed.len() as u64).to_le_bytes());
        }
        self.columns.iter().for_each(|(_, packed)| file.extend_from_slice(packed));
        let checksum = Sha256::digest(&file);
        file.extend_from_slice(&checksum);
        debug_assert!(file.len() > CHECKSUM);
        Hostile::snapshot(file)
    }
}

/// Seven bits a byte, the lowest first.
fn number(mut number: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
    bytes
}

fn text(text: &[u8]) -> Vec<u8> {
    [number(text.len() as u128 + 1), text.to_vec()].concat()
}

pub(crate) fn changed(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    for _ in 0..1 + random.below(2) {
        let column = random.index(file.columns.len());
        file.change(column, |bytes| {
            for _ in 0..1 + random.below(4) {
                if !bytes.is_empty() {
                    let at = random.index(bytes.len());
                    let any = random.byte();
                    bytes[at] = *random.pick(&[
                        0,
                        1,
                        0x7f,
                        0x80,
                        0xff,
                        any,
                        bytes[at] ^ 1,
                        bytes[at].wrapping_add(1),
                    ]);
                }
            }
        });
    }
    file.seal()
}

/// Columns that end too early or go on too long.
pub(crate) fn lengths(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let column = random.index(file.columns.len());
    file.change(column, |bytes| match random.below(6) {
        0 => bytes.clear(),
        1 => bytes.truncate(random.index(bytes.len() + 1)),
        2 => bytes.truncate(bytes.len().saturating_sub(1)),
        3 => bytes.extend((0..1 + random.index(8)).map(|_| random.byte())),
        4 => *bytes = bytes.repeat(1 + random.index(3)),
        _ => {
            let at = random.index(bytes.len() + 1);
            let more = vec![*random.pick(&[0, 1, 0xff]); 1 + random.index(40)];
            bytes.splice(at..at, more);
        }
    });
    file.seal()
}

/// Columns in the place of others, of the same file or of another one.
pub(crate) fn exchanged(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let (mut file, other) = (Container::any(random, goods), Container::any(random, goods));
    for _ in 0..1 + random.below(3) {
        let (to, from) = (random.index(file.columns.len()), random.index(other.columns.len()));
        match random.below(3) {
            0 => file.columns.swap(to, from),
            1 => file.columns[to] = other.columns[to].clone(),
            _ => file.columns[to] = other.columns[from].clone(),
        }
    }
    file.seal()
}

/// Numbers and indexes that are too large, anywhere in a column.
pub(crate) fn numbers(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let column = *random.pick(&[
        ZONES,
        COUNTRIES,
        AREAS,
        PLACE_AREAS,
        PLACE_CITIES,
        PLACE_ZONES,
        PLACE_POSTAL_CODES,
        PLACE_ORIGINS,
        NETWORKS,
        NETWORK_ORIGINS,
        SPOT_PLACES,
        SPOT_NETWORKS,
        V4[0],
        V4[1],
        V4[2],
        V6[0],
        V6[1],
        V6[2],
    ]);
    let large = match random.below(9) {
        0 => number(u32::MAX.into()),
        1 => number(u128::from(u32::MAX) + 1),
        2 => number(u64::MAX.into()),
        3 => number(u128::MAX),
        4 => vec![0x80; 1 + random.index(40)],
        5 => [vec![0x80; 18], vec![4]].concat(),
        6 => vec![0xff; 1 + random.index(40)],
        7 => [vec![0x80; random.index(20)], vec![0]].concat(),
        _ => number(1 << random.below(128)),
    };
    file.change(column, |bytes| {
        let at = match random.below(3) {
            0 => 0,
            1 => bytes.len(),
            _ => random.index(bytes.len() + 1),
        };
        // Instead of what stands there, or before it.
        let until = (at + random.index(2)).min(bytes.len());
        bytes.splice(at..until, large);
    });
    file.seal()
}

/// Ranges that overlap, stand still, leave a gap at the end, or go beyond it.
pub(crate) fn ranges(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let [scales, lengths, spots] = *random.pick(&[V4, V6]);
    match random.below(8) {
        0 => file.change(scales, |bytes| {
            let at = random.index(bytes.len());
            bytes[at] = *random.pick(&[0, 31, 32, 64, 127, 128, 129, 255]);
        }),
        1 => file.change(lengths, |bytes| {
            let at = random.index(bytes.len());
            bytes[at] = 0;
        }),
        2 => {
            // One range over everything, written in all ways.
            let scale = *random.pick(&[0, 32, 127, 128]);
            file.put(scales, &[scale]);
            file.put(lengths, &number(*random.pick(&[0, 1, 2, 1 << 32, u128::MAX])));
            file.put(spots, &[0, 0, *random.pick(&[0, 1, 255])]);
        }
        3 => {
            let spot: Vec<u8> = file.column(spots).iter().take(3).copied().collect();
            let count = 1 + random.index(1000);
            file.put(scales, &vec![*random.pick(&[0, 1, 20, 24, 32]); count]);
            file.put(lengths, &vec![*random.pick(&[0, 1, 3]); count]);
            file.put(spots, &spot.repeat(count));
        }
        4 => {
            // The last range ends where it must, and one before it begins there too.
            let end = *random.pick(&[1_u128 << 32, 1 << 31, 1 << 127]);
            file.put(scales, &[0, 0, 0]);
            file.put(lengths, &[number(end), number(0), number(0_u128.wrapping_sub(end))].concat());
            file.put(spots, &[0; 9]);
        }
        5 => file.change(spots, |bytes| {
            let at = random.index(bytes.len() / 3) * 3;
            bytes[at..at + 3].copy_from_slice(&[*random.pick(&[0, 0x7f, 0xff]), 0xff, 0xff]);
        }),
        6 => {
            file.put(scales, &[]);
            file.put(lengths, &[]);
            file.put(spots, &[]);
        }
        _ => {
            file.put(SPOT_NETWORKS, &[]);
            file.put(SPOT_PLACES, &[]);
        }
    }
    file.seal()
}

/// Zones that nobody knows, and more of them than there are.
pub(crate) fn zones(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let names: &[&[u8]] = &[
        b"Europe/Amsterdam",
        b"Mars/Olympus",
        b"",
        b"UTC",
        b"\xff\xfe",
        b"europe/london",
        b"../../etc/localtime",
        b"/dev/zero",
        b"+25:00",
        b"Etc/Unknown",
    ];
    let count = if ordinal.is_multiple_of(20) { 70_000 } else { random.index(30) };
    let same = *random.pick(names);
    let all = random.below(2) == 0;
    let mut bytes: Vec<u8> =
        (0..count).flat_map(|_| text(if all { same } else { random.pick::<&[u8]>(names) })).collect();
    if random.below(4) == 0 {
        bytes.push(0);
    }
    if random.below(3) == 0 {
        bytes.extend(text(&b"Z".repeat(random.index(100_000))));
    }
    match random.below(3) {
        0 => file.put(ZONES, &bytes),
        1 => file.change(ZONES, |column| column.extend(bytes)),
        _ => file.change(PLACE_ZONES, |column| {
            let at = random.index(column.len());
            column[at] = random.byte();
        }),
    }
    file.seal()
}

/// Coordinates off the Earth, half a position, planes of other lengths.
pub(crate) fn positions(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let column = *random.pick(&[PLACE_LATITUDES, PLACE_LONGITUDES]);
    file.change(column, |bytes| {
        let count = bytes.len() / 4;
        let at = random.index(count);
        let value =
            *random.pick(&[i32::MIN, i32::MAX, 90_000_000, 90_000_001, -180_000_000, 180_000_001, -1]);
        for (plane, byte) in value.to_le_bytes().into_iter().enumerate() {
            bytes[plane * count + at] = byte;
        }
        if random.below(4) == 0 {
            let more = 1 + random.index(9);
            bytes.extend(vec![0; more]);
        }
    });
    file.seal()
}

/// Sizes in the head that are not those of the columns.
pub(crate) fn promises(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let absurd =
        *random.pick(&[0, 1, 1 << 20, 64 << 20, (64 << 20) + 100, 1 << 32, 1 << 40, u64::MAX / 2, u64::MAX]);
    let column = random.index(file.columns.len());
    match random.below(8) {
        0..3 => file.columns[column].0 = absurd,
        3 => file.columns[column].0 = file.columns[column].0.wrapping_add(random.below(5)).wrapping_sub(2),
        4 => {
            let columns = file.columns.len();
            file.packed_lengths[column] = Some(absurd);
            // Two lies that cancel each other out in a sum that wraps.
            file.packed_lengths[(column + 1) % columns] = Some(0_u64.wrapping_sub(absurd));
        }
        5 => {
            let next = (column + 1) % file.columns.len();
            let (a, b) = (file.columns[column].1.len() as u64, file.columns[next].1.len() as u64);
            let shifted = random.below(a + 1);
            file.packed_lengths[column] = Some(a - shifted);
            file.packed_lengths[next] = Some(b + shifted);
        }
        6 => file.count = *random.pick(&[0, 1, 21, 23, u32::MAX]),
        _ => file.columns.iter_mut().for_each(|(unpacked, _)| *unpacked = absurd / 22),
    }
    file.seal()
}

/// Frames of zstd that are none, or two, or something more.
pub(crate) fn frames(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let column = random.index(file.columns.len());
    let (length, packed) = &mut file.columns[column];
    match random.below(7) {
        0 => packed.clear(),
        1 => packed.truncate(random.index(packed.len() + 1)),
        2 => packed.extend((0..1 + random.index(20)).map(|_| random.byte())),
        3 => {
            *packed = packed.repeat(2);
            *length *= 2;
        }
        4 => packed.extend_from_slice(b"\x50\x2a\x4d\x18\x04\0\0\0abcd"),
        5 => {
            let at = random.index(packed.len().max(1)).min(20);
            if let Some(byte) = packed.get_mut(at) {
                *byte = random.byte();
            }
        }
        _ => *packed = packing::gzip(packed),
    }
    file.seal()
}

/// Descriptions and origins that are not what they should be.
pub(crate) fn json(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let depth = if ordinal.is_multiple_of(20) { 500_000 } else { random.index(3_000) };
    let column = *random.pick(&[ABOUT, ORIGINS]);
    let bytes = match random.below(9) {
        0 => b"[".repeat(depth),
        1 => b"{\"sources\":".repeat(depth),
        2 => [b"[".to_vec(), b"[],".repeat(depth), b"[]]".to_vec()].concat(),
        3 => b"null".to_vec(),
        4 => b"{\"built\":1e999}".to_vec(),
        5 => [b"[[[\"".to_vec(), b"x".repeat(depth * 10), b"\",\"\"]]]".to_vec()].concat(),
        6 => b"[[[\"\\ud800\",\"\xff\"]]]".to_vec(),
        7 => b"[]".to_vec(),
        _ => {
            let mut bytes = file.column(column);
            let at = random.index(bytes.len());
            bytes[at] = random.byte();
            bytes
        }
    };
    file.put(column, &bytes);
    file.seal()
}

/// Texts that are no UTF-8, too long for their place, or need quoting at every letter.
pub(crate) fn texts(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let length = *random.pick(&[10, 1_000, 33_000, 66_000, 300_000]);
    let letter: &[u8] = random.pick::<&[u8]>(&[
        b"x",
        b"\xff",
        b"\"",
        b"\0",
        b"\xed\xa0\x80",
        b"\\",
        b"\xe2\x80\xa8",
        b"\x1f",
    ]);
    let text = text(&letter.repeat(random.index(length)));
    match random.below(5) {
        0 => {
            let column = *random.pick(&[PLACE_CITIES, PLACE_POSTAL_CODES]);
            file.change(column, |bytes| {
                // Instead of the first text, whose length stands before it.
                let first = usize::from(bytes.first().copied().unwrap_or(0).max(1)).min(bytes.len());
                bytes.splice(..first, text);
            });
        }
        1 => file.change(AREAS, |bytes| bytes.extend([vec![0], text, vec![0]].concat())),
        2 => file.change(COUNTRIES, |bytes| bytes.extend([text.repeat(4), vec![0]].concat())),
        3 => file.change(NETWORKS, |bytes| bytes.extend([vec![0], text, vec![0]].concat())),
        _ => file.change(ZONES, |bytes| bytes.extend(text)),
    }
    file.seal()
}

/// Columns of nothing but the same small thing: a few bytes that would fill the memory.
pub(crate) fn swollen(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let mut file = Container::any(random, goods);
    let count = if ordinal.is_multiple_of(4) { 12_000_000 } else { 1 + random.index(300_000) };
    match ordinal % 11 {
        0 => file.put(AREAS, &[0, 0, 0].repeat(count)),
        1 => {
            // Areas that repeat one large country.
            let name = text(&b"x".repeat(60_000));
            file.put(COUNTRIES, &[name.repeat(4), vec![0]].concat());
            file.put(AREAS, &[1, 0, 0].repeat(count.min(1_000_000)));
        }
        2 => file.put(COUNTRIES, &[0; 5].repeat(count)),
        3 => file.put(NETWORKS, &[0; 3].repeat(count)),
        4 => {
            file.put(SPOT_PLACES, &vec![0; count]);
            file.put(SPOT_NETWORKS, &[0; 3].repeat(count));
        }
        5 | 6 => {
            let columns = if ordinal % 11 == 5 { V4 } else { V6 };
            let end = if ordinal % 11 == 5 { 1_u128 << 32 } else { 0 };
            file.put(columns[0], &vec![0; count]);
            let last = number(end.wrapping_sub(count as u128 - 1));
            file.put(columns[1], &[vec![1; count - 1], last].concat());
            file.put(columns[2], &[0; 3].repeat(count));
        }
        7 => file.put(ZONES, &text(b"UTC").repeat(count)),
        8 => {
            // Every position is the same place in the middle of nowhere.
            let nowhere: Vec<u8> = [0, 0, 0, 0x80].into_iter().flat_map(|byte| vec![byte; count]).collect();
            file.put(PLACE_LATITUDES, &nowhere);
            file.put(PLACE_LONGITUDES, &nowhere);
            for column in [PLACE_AREAS, PLACE_CITIES, PLACE_ZONES, PLACE_POSTAL_CODES] {
                file.put(column, &vec![0; count]);
            }
        }
        9 => file.put(ORIGINS, &[b"[".to_vec(), b"[],".repeat(count), b"[]]".to_vec()].concat()),
        _ => {
            let column = *random.pick(&[PLACE_ORIGINS, NETWORK_ORIGINS]);
            file.put(column, &vec![0; count * 4]);
        }
    }
    file.seal()
}
