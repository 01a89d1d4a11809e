//! Damage that needs no knowledge of a format: what disks, networks and careless people do to bytes.

use super::Hostile;
use super::good::{Good, Goods, Reads};
use super::packing::{gzip, zstd};
use ipse_geodata::sources::Kind;
use ipse_testkit::Random;

/// Does something to a good file, plain or packed.
fn damaged(random: &mut Random, goods: &Goods, change: impl Fn(&mut Random, &mut Vec<u8>)) -> Hostile {
    let good = goods.any(random);
    let mut file = taken(random, good);
    if file.reads != Reads::Snapshot {
        match random.below(8) {
            0 => (file.bytes, file.packed) = (gzip(&file.bytes), true),
            1 => (file.bytes, file.packed) = (zstd(&file.bytes, 1), true),
            _ => {}
        }
    }
    change(random, &mut file.bytes);
    file.must_be_refused = good.reads == Reads::Snapshot && file.bytes != good.bytes;
    file
}

/// A good file, read for what it is, or sometimes for something else.
pub(crate) fn taken(random: &mut Random, good: &Good) -> Hostile {
    let reads = match (good.reads, random.below(20)) {
        (Reads::Source(_), 0..3) => {
            Reads::Source(*random.pick(&[Kind::City, Kind::Country, Kind::Asn, Kind::Anonymous]))
        }
        (Reads::Source(_), 3) => Reads::Snapshot,
        (reads, _) => reads,
    };
    Hostile {
        name: good.name.to_owned(),
        reads,
        bytes: good.bytes.clone(),
        packed: false,
        must_be_refused: reads == Reads::Snapshot,
    }
}

pub(crate) fn bits(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        for _ in 0..1 + random.below(8) {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    })
}

pub(crate) fn bytes(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        for _ in 0..1 + random.below(40) {
            let at = random.index(bytes.len());
            let any = random.byte();
            bytes[at] = *random.pick(&[0, 0xff, 0x7f, 0x80, b'\n', b'"', b',', any, any, any]);
        }
    })
}

/// Changes close to the beginning or to the end, where formats say what they are.
pub(crate) fn ends(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let near = 400.min(bytes.len());
        let begin = if random.below(2) == 0 { 0 } else { bytes.len() - near };
        for _ in 0..1 + random.below(4) {
            let at = begin + random.index(near);
            bytes[at] = random.byte();
        }
    })
}

pub(crate) fn cut_by_pages(_: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let (good, at) = goods.cut(ordinal);
    Hostile {
        name: good.name.to_owned(),
        reads: good.reads,
        bytes: good.bytes[..at].to_vec(),
        packed: false,
        must_be_refused: good.reads == Reads::Snapshot,
    }
}

pub(crate) fn cut(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let length = match random.below(4) {
            0 => bytes.len() - 1 - random.index(bytes.len().min(300)),
            1 => random.index(300),
            _ => random.index(bytes.len()),
        };
        bytes.truncate(length);
    })
}

pub(crate) fn inserted(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let length = *random.pick(&[1, 2, 16, 512, 4096, 100_000]);
        let length = 1 + random.index(length);
        let fill = *random.pick(&[Some(0), Some(0xff), Some(b'\n'), None, None]);
        let chunk: Vec<u8> = (0..length).map(|_| fill.unwrap_or_else(|| random.byte())).collect();
        let at = random.index(bytes.len() + 1);
        bytes.splice(at..at, chunk);
    })
}

pub(crate) fn repeated(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let (from, to) = chunk(random, bytes.len());
        let chunk = bytes[from..to].repeat(1 + random.index(4));
        let at = if random.below(2) == 0 { to } else { random.index(bytes.len()) };
        bytes.splice(at..at, chunk);
    })
}

pub(crate) fn removed(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let (from, to) = chunk(random, bytes.len());
        bytes.drain(from..to);
    })
}

pub(crate) fn blotted(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let (from, to) = chunk(random, bytes.len());
        let fill = *random.pick(&[0, 0, 0xff, 0x20, 0xe1]);
        bytes[from..to].fill(fill);
    })
}

pub(crate) fn moved(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    damaged(random, goods, |random, bytes| {
        let (from, to) = chunk(random, bytes.len());
        let at = random.index(bytes.len() - (to - from) + 1);
        bytes.copy_within(from..to, at);
    })
}

/// The beginning of one file and the end of another.
pub(crate) fn spliced(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let (one, other) = (goods.any(random), goods.any(random));
    let mut file = taken(random, one);
    file.bytes.truncate(random.index(one.bytes.len() + 1));
    file.bytes.extend_from_slice(&other.bytes[random.index(other.bytes.len())..]);
    // Two beginnings of nothing may make the good file again.
    file.must_be_refused &= file.bytes != one.bytes && file.bytes != other.bytes;
    super::packing::perhaps(random, file)
}

/// No file at all: nothing, one byte again and again, noise, and the beginnings of other formats.
pub(crate) fn noise(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let good = goods.any(random);
    let mut file = taken(random, good);
    let length = *random.pick(&[0, 1, 10, 1_000, 100_000]);
    let length = random.index(length + 1);
    let begin: &[u8] = random.pick::<&[u8]>(&[
        b"",
        b"",
        b"\0",
        b"ipse geo\x01\0\0\0",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\0",
        b"\x28\xb5\x2f\xfd",
        b"\x89PNG",
        b"<html>",
        b"{\"",
        b"\xff\xfe1\0.\0",
        b"\xef\xbb\xbf",
        b"network,country_code\n",
    ]);
    let fill = *random.pick(&[Some(0), Some(b' '), Some(b'\r'), Some(0xff), None, None, None, None]);
    file.bytes = begin.to_vec();
    file.bytes.extend((0..length).map(|_| fill.unwrap_or_else(|| random.byte())));
    if random.below(3) == 0 {
        file.bytes.extend_from_slice(super::mmdb::MARKER);
        let more = random.index(200);
        file.bytes.extend((0..more).map(|_| random.byte()));
    }
    file.must_be_refused = file.reads == Reads::Snapshot;
    super::packing::perhaps(random, file)
}

/// Where a piece begins and ends; short ones more often than long ones, and often at whole pages.
fn chunk(random: &mut Random, length: usize) -> (usize, usize) {
    let longest = *random.pick(&[4, 64, 512, 4096, 65_536]);
    let (mut from, size) = (random.index(length), 1 + random.index(longest));
    if random.below(3) == 0 {
        from &= !4095;
    }
    (from, (from + size).min(length))
}
