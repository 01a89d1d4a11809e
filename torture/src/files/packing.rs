//! Packed files, and those that unpack to more than anybody should keep.

use super::Hostile;
use super::good::{Goods, Reads};
use flate2::Compression;
use flate2::write::GzEncoder;
use ipse_geodata::sources::Kind;
use ipse_testkit::Random;
use std::fmt::Write as _;
use std::io::Write as _;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(4));
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

pub(crate) fn zstd(bytes: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(bytes, level).unwrap_or_default()
}

/// Packs a source now and then, as vendors do.
pub(crate) fn perhaps(random: &mut Random, mut file: Hostile) -> Hostile {
    if !matches!(file.reads, Reads::Source(_)) || file.packed {
        return file;
    }
    match random.below(8) {
        0 => file.bytes = gzip(&file.bytes),
        1 => file.bytes = zstd(&file.bytes, 1),
        _ => return file,
    }
    file.packed = true;
    file
}

/// What unpacks to absurdly much, or to what memory is not made for.
pub(crate) fn bomb(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let repeated = |random: &mut Random, content: &[u8]| {
        let size = *random.pick(&[1 << 20, 7 << 20, 9 << 20, 9 << 20, 40 << 20]);
        content.repeat(size / content.len() + 1)
    };
    let content = match ordinal % 12 {
        0 => repeated(random, &[0]),
        1 => repeated(random, b"\n"),
        2 => repeated(random, b"1.0.0.0,1.0.0.255,7,A\n"),
        3 => repeated(random, b"::1,::1,5\n"),
        4 => repeated(random, b"\""),
        5 => [repeated(random, &[0]), goods.databases[0].bytes()].concat(),
        6 => [goods.databases[1].without_metadata(), repeated(random, super::mmdb::MARKER)].concat(),
        7 | 8 => distinct_lines(random),
        9 => gzip(&repeated(random, &[0])),
        10 => goods.any(random).bytes.clone(),
        _ => [b"1.0.0.0,1.0.0.255,7,".to_vec(), repeated(random, b"x")].concat(),
    };
    let mut bytes = if random.below(2) == 0 { gzip(&content) } else { zstd(&content, 1) };
    match random.below(10) {
        // Many members of gzip, or frames of zstd, one behind the other.
        0 => bytes = bytes.repeat(1 + random.index((1 << 20) / bytes.len().max(1))),
        1 => bytes.truncate(random.index(bytes.len())),
        // Frames that are to be skipped, and say that they are large.
        2 => bytes = [&b"\x28\xb5\x2f\xfd"[..], b"\x50\x2a\x4d\x18\xff\xff\xff\xff", &bytes].concat(),
        3 => {
            // Frames of zstd promise what they hold and which window they need right behind their magic.
            for at in 4..16.min(bytes.len()) {
                if random.below(3) == 0 {
                    bytes[at] = random.byte();
                }
            }
        }
        4 => bytes = windowed(random, &content),
        5 => bytes = gzip_header(random, &bytes),
        _ => {}
    }
    let kind = *random.pick(&[Kind::City, Kind::Asn, Kind::Asn, Kind::Country, Kind::Anonymous]);
    let name = *random.pick(&["a.csv.gz", "a.mmdb.zst", "asn-ipv4.csv.gz"]);
    Hostile::source(name, kind, bytes).packed()
}

/// Short lines that say something else each, just as many as may be unpacked.
fn distinct_lines(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    let size = *random.pick(&[500_000, 2_000_000, 8_000_000]);
    let six = random.below(2) == 0;
    let mut number = 0_u32;
    while text.len() < size {
        number += 1;
        let _ = if six {
            writeln!(
                text,
                "::{:x}:{:x},::{:x}:{:x},{number}",
                number >> 16,
                number & 0xffff,
                number >> 16,
                number & 0xffff
            )
        } else {
            writeln!(text, "{number},{number},{number},A")
        };
    }
    text.into_bytes()
}

/// A window as large as zstd knows.
fn windowed(random: &mut Random, content: &[u8]) -> Vec<u8> {
    let log = u32::try_from(10 + random.below(18)).unwrap_or(10);
    let packed = || -> std::io::Result<Vec<u8>> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1)?;
        encoder.window_log(log)?;
        encoder.include_contentsize(false)?;
        encoder.write_all(&content[..content.len().min(1 << 20)])?;
        encoder.finish()
    };
    let mut bytes = packed().unwrap_or_default();
    // The byte behind the descriptor is the window's: one of 2⁴¹ bytes, for example.
    if bytes.len() > 5 && random.below(2) == 0 {
        bytes[5] = random.byte();
    }
    bytes
}

/// A header with all that gzip allows there: extra fields, names and comments without an end.
fn gzip_header(random: &mut Random, packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, random.byte(), 0, 0, 0, 0, 0, 3];
    let length = random.index(1 << 20);
    bytes.extend(std::iter::repeat_n(1 + random.byte() / 2, length));
    bytes.extend_from_slice(packed.get(10..).unwrap_or_default());
    bytes
}
