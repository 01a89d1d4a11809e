//! Tables in text as nobody should write them: endless lines, quotes without an end, ranges upon ranges.

use super::Hostile;
use super::good::{Goods, Reads, word};
use super::packing::perhaps;
use ipse_geodata::sources::Kind;
use ipse_testkit::Random;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

fn hostile(random: &mut Random, kind: Kind, bytes: Vec<u8>) -> Hostile {
    let name =
        *random.pick(&["a.csv", "asn-ipv4.csv", "dbip-city-lite.csv", "a.tsv", "IP2LOCATION-LITE.CSV"]);
    perhaps(random, Hostile::source(name, kind, bytes))
}

/// The lines of a good table, and what it is read for.
fn lines(random: &mut Random, goods: &Goods) -> (Vec<Vec<u8>>, Kind) {
    let good = goods.that(random, |good| good.name.ends_with("sv"));
    let Reads::Source(kind) = good.reads else { return (Vec::new(), Kind::Asn) };
    (good.bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(), kind)
}

/// Puts lines somewhere between those of a good table.
fn among(random: &mut Random, goods: &Goods, new: Vec<Vec<u8>>) -> Hostile {
    let (mut lines, kind) = lines(random, goods);
    for line in new {
        let at = if random.below(4) == 0 { 0 } else { random.index(lines.len() + 1) };
        lines.insert(at, line);
    }
    hostile(random, kind, lines.join(&b'\n'))
}

pub(crate) fn long_lines(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let longest = if ordinal.is_multiple_of(12) { 10 << 20 } else { 200_000 };
    let letter: &[u8] =
        random.pick::<&[u8]>(&[b"x", b" ", b"\xff", b"\xc3\xbc", b"\"\"", b"#", b"1", b"\xef\xbb\xbf"]);
    let begin: &[u8] = random.pick::<&[u8]>(&[b"", b"8.8.8.0,8.8.8.255,7,", b"9.0.0.0,9.0.0.255,7,\"", b"#"]);
    let length = if longest > 1 << 20 { longest } else { random.index(longest) };
    let line = [begin, &letter.repeat(length / letter.len() + 1)].concat();
    among(random, goods, vec![line])
}

pub(crate) fn many_columns(random: &mut Random, goods: &Goods, ordinal: u64) -> Hostile {
    let count = if ordinal.is_multiple_of(12) { 3_000_000 } else { random.index(70_000) };
    let column: &[u8] = random.pick::<&[u8]>(&[b",", b"\t", b";", b"\"\",", b"1,", b"city,"]);
    let begin: &[u8] = random.pick::<&[u8]>(&[b"", b"8.8.8.0,8.8.8.255,7,", b"network,"]);
    let line = [begin, &column.repeat(count)].concat();
    among(random, goods, vec![line])
}

pub(crate) fn zeros(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let (mut lines, kind) = lines(random, goods);
    // Zeros at the beginning make it something else than a table.
    let from = random.index(lines.len());
    for _ in 0..1 + random.below(20) {
        let at = from + random.index(lines.len() - from);
        let line = &mut lines[at];
        let place = random.index(line.len() + 1);
        let zeros = vec![*random.pick(&[0, 0, 0x1a, 0x0b, 0x7f, b'\r']); 1 + random.index(50)];
        line.splice(place..place, zeros);
    }
    hostile(random, kind, lines.join(&b'\n'))
}

pub(crate) fn quotes(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let (mut lines, kind) = lines(random, goods);
    for _ in 0..1 + random.below(40) {
        let at = random.index(lines.len());
        let line = &mut lines[at];
        let place = if random.below(3) == 0 { 0 } else { random.index(line.len() + 1) };
        let quotes = b"\"".repeat(1 + random.index(4));
        line.splice(place..place, quotes);
    }
    hostile(random, kind, lines.join(&b'\n'))
}

/// Ranges within ranges, ranges like stairs, the same range again and again.
pub(crate) fn overlaps(random: &mut Random, _: &Goods, ordinal: u64) -> Hostile {
    let count = if ordinal.is_multiple_of(20) { 100_000 } else { 1_000 + random.below(4_000) };
    let count = u32::try_from(count).unwrap_or(1_000);
    let way = random.below(5);
    let six = random.below(3) == 0;
    let mut text = String::new();
    for number in 0..count {
        let any = u32::try_from(random.below(1 << 32)).unwrap_or(0);
        let (first, last) = match way {
            0 => (number, u32::MAX - number),
            1 => (number, number.saturating_add(count)),
            2 => (7, 4_000_000),
            3 => (any, any.saturating_add(any >> random.below(32))),
            _ => (count - number, u32::MAX - any % 1000),
        };
        let org = number % 977;
        let _ = if six {
            let wide = |half: u32| Ipv6Addr::from(u128::from(half) << 90 | 1);
            writeln!(text, "{},{},{},Org {org}", wide(first), wide(last), number + 1)
        } else {
            writeln!(text, "{},{},{},Org {org}", Ipv4Addr::from(first), Ipv4Addr::from(last), number + 1)
        };
    }
    hostile(random, Kind::Asn, text.into_bytes())
}

/// Ranges backwards, of both families at once, of numbers, of prefixes, and none at all.
pub(crate) fn ranges(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    const ENDS: [&str; 18] = [
        "1.0.0.0",
        "255.255.255.255",
        "0.0.0.0",
        "::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "::ffff:1.2.3.4",
        "2a00::",
        "16777216",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "-1",
        "",
        " 1.0.0.0 ",
        "1.0.0.0/24",
        "::/0",
        "0.0.0.0/0",
        "1.0.0.0-2a00::",
        "256.0.0.1",
    ];
    let count = *random.pick(&[2, 20, 2_000]);
    let new = (0..1 + random.index(count))
        .map(|_| format!("{},{},5,Odd", random.pick(&ENDS), random.pick(&ENDS)).into_bytes())
        .collect();
    if random.below(3) > 0 {
        return among(random, goods, new);
    }
    hostile(random, Kind::Asn, new.join(&b'\n'))
}

/// Lines as short as lines can be: of these a file holds the most.
pub(crate) fn terse(random: &mut Random, _: &Goods, ordinal: u64) -> Hostile {
    let size = if ordinal.is_multiple_of(20) { 3_000_000 } else { 1_000 + random.index(60_000) };
    let way = random.below(6);
    let mut text = String::new();
    let mut number = 0_u32;
    while text.len() < size {
        number += 1;
        let _ = match way {
            0 => writeln!(text, "::{number:x},::{number:x},5"),
            1 => writeln!(text, "::1,::1,{number}"),
            2 => writeln!(text, "{number},{number},{number}"),
            3 => writeln!(text, "::/0,{number}"),
            4 => writeln!(text, "{},NL", number * 2),
            _ => writeln!(text, "::{number:x},NL"),
        };
    }
    let kind = if way > 3 { Kind::Country } else { Kind::Asn };
    hostile(random, kind, text.into_bytes())
}

/// Values that are none, in good and in foreign columns, under headers that are odd.
pub(crate) fn values(random: &mut Random, _: &Goods, _: u64) -> Hostile {
    const HEADERS: [&str; 14] = [
        "network",
        "start_ip",
        "end_ip",
        "city",
        "country_code",
        "country",
        "latitude",
        "longitude",
        "time_zone",
        "postal_code",
        "asn",
        "as_name",
        "is_vpn",
        "geoname_id",
    ];
    const VALUES: [&[u8]; 22] = [
        b"1.0.0.0/24",
        b"1.0.0.0",
        b"1.0.0.255",
        b"2a00::/12",
        b"NaN",
        b"inf",
        b"-1e400",
        b"1e-400",
        b"90.0000001",
        b"181",
        b"AS0",
        b"AS99999999999999999999",
        b"ZZ",
        b"nl",
        b"\xff\xfe",
        b"\xe2\x80\xae",
        b"e\xcc\x81\xcc\x81",
        b"true",
        b"",
        b"-",
        b"Europe/Nowhere",
        b"\xef\xb7\xba\xef\xb7\xba\xef\xb7\xba",
    ];
    let separator: &[u8] = random.pick::<&[u8]>(&[b",", b"\t", b";", b"|"]);
    let end: &[u8] = random.pick::<&[u8]>(&[b"\n", b"\r\n", b"\r", b"\n\n", b"\n\r"]);
    let width = 1 + random.index(20);
    let mut bytes: Vec<u8> = random.pick::<&[u8]>(&[b"", b"", b"\xef\xbb\xbf", b"\n\n", b"# a\n"]).to_vec();
    // Half of the files have a network in every line, so that the values beside it are looked at.
    let is_sound = random.below(2) == 0;
    if is_sound || random.below(4) > 0 {
        let mut names: Vec<&[u8]> = (0..width).map(|_| random.pick(&HEADERS).as_bytes()).collect();
        if is_sound {
            names.retain(|name| !name.ends_with(b"_ip") && *name != b"network");
            names.insert(0, b"network");
        }
        bytes.extend(names.join(separator));
        bytes.extend_from_slice(end);
    }
    for number in 0..random.below(600) {
        let mut columns: Vec<Vec<u8>> = (0..width).map(|_| random.pick(&VALUES).to_vec()).collect();
        if is_sound || random.below(4) > 0 {
            columns[0] = format!("9.{}.{}.0/24", number / 256, number % 256).into_bytes();
        }
        if random.below(9) == 0 {
            columns.push(word(random).into_bytes());
        }
        bytes.extend(columns.join(separator));
        bytes.extend_from_slice(end);
    }
    let kind = *random.pick(&[Kind::City, Kind::Country, Kind::Asn, Kind::Anonymous]);
    hostile(random, kind, bytes)
}
