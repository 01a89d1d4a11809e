//! MMDB files whose parts are wrong: search trees that are none, records that lead to themselves, sizes that lie.

use super::Hostile;
use super::good::Goods;
use super::mmdb::{
    BYTES, Child, DOUBLE, FLAG, LIST, MAP, MARKER, Mmdb, TEXT, U16, U32, U64, Value, head, pointer, text,
    written,
};
use super::packing::perhaps;
use ipse_geodata::sources::Kind;
use ipse_testkit::Random;

fn hostile(random: &mut Random, bytes: Vec<u8>) -> Hostile {
    let kind = *random.pick(&[Kind::City, Kind::City, Kind::Country, Kind::Asn, Kind::Anonymous]);
    perhaps(random, Hostile::source("a.mmdb", kind, bytes))
}

fn database(random: &mut Random, goods: &Goods) -> Mmdb {
    random.pick(&goods.databases).clone()
}

/// A small database in which both halves of everything lead to one record.
fn of_data(random: &mut Random, data: Vec<u8>, record: u32) -> Mmdb {
    let mut database = Mmdb::new("Test", *random.pick(&[4, 6]), *random.pick(&[24, 28, 32]));
    database.data = data;
    database.nodes = vec![[Child::Data(record), Child::Node(1)], [Child::Data(record), Child::Nothing]];
    database
}

fn place(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(0)
}

fn some(random: &mut Random, bound: usize) -> u32 {
    u32::try_from(random.index(bound)).unwrap_or(0)
}

/// Nodes that lead to themselves, back, or anywhere.
pub(crate) fn cycles(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut database = database(random, goods);
    let count = database.nodes.len();
    for _ in 0..1 + random.below(6) {
        let node = if random.below(3) == 0 { random.index(count.min(100)) } else { random.index(count) };
        let half = random.index(2);
        let own = u32::try_from(node).unwrap_or(0);
        database.nodes[node][half] = match random.below(7) {
            0 => Child::Node(own),
            1 => Child::Node(0),
            2 => Child::Node(some(random, node + 1)),
            3 => Child::Node(some(random, count)),
            4 => Child::Number(place(&vec![0; count]) + some(random, 20)),
            5 => Child::Number(u32::MAX >> random.below(12)),
            _ => Child::Data(some(random, database.data.len() * 2)),
        };
    }
    hostile(random, database.bytes())
}

/// Few nodes with more ways through them than can be walked.
pub(crate) fn meshes(random: &mut Random, _: &Goods, _: u64) -> Hostile {
    let data = [head(MAP, 1), text("country_code"), text("NL")].concat();
    let mut database = of_data(random, data, 0);
    let levels = 2 + some(random, 200);
    let width = 1 + some(random, 40);
    database.nodes = (0..levels * width)
        .map(|node| {
            let next = (node / width + 1) * width;
            let mut child = || match random.below(30) {
                0 => Child::Nothing,
                1 => Child::Data(0),
                _ if next >= levels * width => Child::Data(0),
                _ => Child::Node(next + some(random, width as usize)),
            };
            [child(), child()]
        })
        .collect();
    hostile(random, database.bytes())
}

/// Pointers in the data that lead to themselves, round in circles, beyond the end, or to other pointers.
pub(crate) fn pointers(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    if random.below(2) == 0 {
        let mut data = Vec::new();
        let mut places = Vec::new();
        let count = 1 + random.index(200);
        for _ in 0..count {
            places.push(place(&data));
            let target = |random: &mut Random, data: &[u8]| match random.below(6) {
                0 => pointer(place(data)),
                1 => pointer(u32::MAX),
                2 => pointer(some(random, count * 12)),
                _ => pointer(*random.pick(&places)),
            };
            let record = match random.below(4) {
                0 => target(random, &data),
                1 => [head(LIST, 2), target(random, &data), target(random, &data)].concat(),
                2 => [head(MAP, 2), text("city"), target(random, &data), target(random, &data), text("x")]
                    .concat(),
                _ => [head(MAP, 1), text("country"), target(random, &data)].concat(),
            };
            data.extend(record);
        }
        let record = *random.pick(&places);
        let database = of_data(random, data, record);
        return hostile(random, database.bytes());
    }
    let mut database = database(random, goods);
    // What a pointer's head looks like, wherever it stands.
    let heads: Vec<usize> =
        (0..database.data.len().saturating_sub(5)).filter(|at| database.data[*at] == 0x38).collect();
    for _ in 0..1 + random.below(5) {
        if let Some(at) = heads.get(random.index(heads.len())) {
            let target = match random.below(4) {
                0 => u32::try_from(*at).unwrap_or(0),
                1 => u32::MAX,
                _ => some(random, database.data.len() + 100),
            };
            database.data[at + 1..at + 5].copy_from_slice(&target.to_be_bytes());
        }
    }
    hostile(random, database.bytes())
}

/// Numbers of the metadata that cannot be.
pub(crate) fn sizes(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut database = database(random, goods);
    let nodes = u32::try_from(database.nodes.len()).unwrap_or(0);
    for _ in 0..1 + random.below(2) {
        let number = match random.below(8) {
            0 => 0,
            1 => u32::MAX,
            2 => u32::MAX / 2,
            3 => nodes.wrapping_add(some(random, 5)).wrapping_sub(2),
            4 => nodes / 2,
            5 => some(random, 1 << 28),
            6 => *random.pick(&[4, 6, 24, 28, 32]),
            _ => some(random, 300),
        };
        let name = *random.pick(&[
            "node_count",
            "node_count",
            "record_size",
            "ip_version",
            "build_epoch",
            "binary_format_major_version",
        ]);
        let bytes = number.to_be_bytes();
        let skipped = random.index(5);
        let value = match random.below(4) {
            0 => [head(U64, 8), vec![0; 4], bytes.to_vec()].concat(),
            1 => [head(U16, 2), bytes[2..].to_vec()].concat(),
            2 => [head(U32, 4 - skipped), bytes[skipped..].to_vec()].concat(),
            _ => [head(U32, 4), bytes.to_vec()].concat(),
        };
        database.say(name, value);
    }
    hostile(random, database.bytes())
}

/// Metadata that is missing, doubled, of other types, endless, or not the last.
pub(crate) fn metadata(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut database = database(random, goods);
    let length = random.index(70_000);
    match random.below(9) {
        0 => {
            let gone = random.index(database.metadata.len());
            database.metadata.remove(gone);
        }
        1 => {
            let entry = random.pick(&database.metadata).clone();
            database.metadata.push(entry);
        }
        2 => {
            let at = random.index(database.metadata.len());
            database.metadata[at].1 = any_value(random, 0);
        }
        3 => database.say("description", [head(MAP, 1), text("en"), text(&"x".repeat(length))].concat()),
        4 => database.say("languages", [head(LIST, length), text("en").repeat(length)].concat()),
        5 => {
            let depth = random.index(20_000);
            database.say("description", [head(MAP, 1), text("en")].concat().repeat(depth));
        }
        6 => database.say("languages", head(LIST, 1).repeat(length)),
        7 => database.say("database_type", pointer(some(random, 600))),
        _ => database.say("description", head(*random.pick(&[MAP, LIST, TEXT, BYTES]), 16_000_000)),
    }
    let mut bytes = database.bytes();
    match random.below(8) {
        0 => bytes.extend_from_slice(MARKER),
        1 => bytes.extend_from_slice(&database.bytes()),
        2 => bytes.extend(vec![0; length * 2]),
        3 => bytes = [MARKER.repeat(length / 20 + 1), bytes].concat(),
        _ => {}
    }
    hostile(random, bytes)
}

/// Heads in the data that promise other sizes or other types.
pub(crate) fn heads(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    if random.below(3) == 0 {
        let size = *random.pick(&[29, 285, 65_821, 1 << 20, 1 << 24]);
        let kind = *random.pick(&[MAP, LIST, TEXT, BYTES, DOUBLE, U32, FLAG, 8, 10, 12, 13, 15, 16, 200]);
        let rest = random.index(3000);
        let fill = *random.pick(&[0x41, 0xa0, 0xe0, 0, 0x40]);
        let mut data = [vec![], [head(MAP, 1), text("city")].concat()][random.index(2)].clone();
        data.extend(head(kind, random.index(size)));
        data.extend(vec![fill; rest]);
        let database = of_data(random, data, 0);
        return hostile(random, database.bytes());
    }
    let mut database = database(random, goods);
    for _ in 0..1 + random.below(8) {
        let at = random.index(database.data.len());
        let any = random.byte();
        database.data[at] = *random.pick(&[0x1f, 0x5f, 0xff, 0x9f, 0xe0, 0xfd, 0x00, 0x38, 0x20, any]);
    }
    hostile(random, database.bytes())
}

/// Records nested deeper than anybody reads.
pub(crate) fn nesting(random: &mut Random, _: &Goods, ordinal: u64) -> Hostile {
    let depth = if ordinal.is_multiple_of(20) { 1_000_000 } else { 1 + random.index(2_000) };
    let level = match random.below(4) {
        0 => head(LIST, 1),
        1 => [head(MAP, 1), text("a")].concat(),
        2 => [head(MAP, 1), text("names")].concat(),
        _ => [head(LIST, 1), head(MAP, 1), text("city")].concat(),
    };
    let data = [level.repeat(depth), text("x")].concat();
    let database = of_data(random, data, 0);
    hostile(random, database.bytes())
}

/// Texts of millions of letters, as values and as keys, one for all records.
pub(crate) fn gigantic(random: &mut Random, _: &Goods, ordinal: u64) -> Hostile {
    let length = if ordinal.is_multiple_of(20) { 8 << 20 } else { 1 + random.index(1 << 17) };
    let letter = *random.pick(&["x", "ü", "  ", "e\u{301}", "\u{1}", "\u{fdfa}"]);
    let long = text(&letter.repeat(length / letter.len()));
    let mut data = long.clone();
    let records = 1 + random.index(300);
    let mut places = Vec::new();
    for number in 0..records {
        places.push(place(&data));
        data.extend(match random.below(3) {
            0 => {
                [head(MAP, 2), text("city"), pointer(0), text("postcode"), text(&number.to_string())].concat()
            }
            1 => [head(MAP, 2), pointer(0), text("x"), text("country_code"), text("NL")].concat(),
            _ => [
                head(MAP, 2),
                text("asn"),
                written(&Value::Number(some(random, 1 << 30))),
                text("org"),
                pointer(0),
            ]
            .concat(),
        });
    }
    let database = many(random, data, &places);
    hostile(random, database.bytes())
}

/// Bytes that are no text where texts stand.
pub(crate) fn no_text(random: &mut Random, goods: &Goods, _: u64) -> Hostile {
    let mut database = database(random, goods);
    let letters: Vec<usize> =
        (0..database.data.len()).filter(|at| database.data[*at].is_ascii_alphabetic()).collect();
    for _ in 0..1 + random.below(20) {
        let at = *random.pick(&letters);
        database.data[at] = *random.pick(&[0xff, 0xfe, 0xc0, 0x80, 0xed, 0xf8, 0]);
    }
    hostile(random, database.bytes())
}

/// Many records that have the same costly things in common.
pub(crate) fn shared(random: &mut Random, _: &Goods, ordinal: u64) -> Hostile {
    let mut data = Vec::new();
    let longest = *random.pick(&[1, 20, 3_000]);
    let values = 1 + random.index(longest);
    let value = match random.below(3) {
        0 => head(MAP, 0),
        1 => text("value"),
        _ => text(&"v".repeat(random.index(300))),
    };
    data.extend(head(LIST, values));
    data.extend(value.repeat(values));
    let texts: Vec<u32> = (0..60)
        .map(|number| {
            let here = place(&data);
            data.extend(text(&format!("{number}{}", "y".repeat(198))));
            here
        })
        .collect();
    let mut places = Vec::new();
    let records = if ordinal.is_multiple_of(10) { 60_000 } else { 1 + random.index(4_000) };
    for _ in 0..records {
        places.push(place(&data));
        let mut any = || pointer(*random.pick(&texts));
        data.extend(
            [
                head(MAP, 4),
                text("a"),
                pointer(0),
                text("city"),
                any(),
                text("region"),
                any(),
                text("postcode"),
                any(),
            ]
            .concat(),
        );
    }
    let database = many(random, data, &places);
    hostile(random, database.bytes())
}

/// Records of any values at all.
pub(crate) fn any_records(random: &mut Random, _: &Goods, _: u64) -> Hostile {
    let mut data = Vec::new();
    let mut places = Vec::new();
    for _ in 0..1 + random.index(200) {
        places.push(place(&data));
        data.extend(any_value(random, 0));
    }
    let database = many(random, data, &places);
    hostile(random, database.bytes())
}

/// A tree that leads to each of the given places.
fn many(random: &mut Random, data: Vec<u8>, places: &[u32]) -> Mmdb {
    let mut database = of_data(random, data, 0);
    database.nodes = vec![[Child::Nothing; 2]];
    for (number, place) in (0_u128..).zip(places) {
        database.network(number << 112, 16, Child::Data(*place));
    }
    database
}

fn any_value(random: &mut Random, depth: u32) -> Vec<u8> {
    const NAMES: [&str; 12] = [
        "city",
        "names",
        "en",
        "country",
        "iso_code",
        "location",
        "latitude",
        "longitude",
        "subdivisions",
        "asn",
        "is_vpn",
        "loc",
    ];
    let bytes =
        |random: &mut Random, length: usize| -> Vec<u8> { (0..length).map(|_| random.byte()).collect() };
    let sort = if depth > 6 { random.below(8) } else { random.below(12) };
    match sort {
        0 => text(random.pick::<&str>(&[
            "NL",
            "",
            "-",
            "1e400",
            "NaN",
            "91,181",
            "AS0",
            "AS4294967296",
            "\u{0}",
        ])),
        1 => [head(DOUBLE, 8), bytes(random, 8)].concat(),
        2 => [head(DOUBLE, 8), random.pick(&[f64::NAN, f64::INFINITY, -0.0, 1e308]).to_be_bytes().to_vec()]
            .concat(),
        3 => {
            let length = random.index(5);
            [head(U32, length), bytes(random, length)].concat()
        }
        4 => {
            let most = if random.below(60) == 0 { 18 } else { 17 };
            let length = random.index(most);
            [head(10, length), bytes(random, length)].concat()
        }
        5 => {
            let most = if random.below(60) == 0 { 9 } else { 2 };
            head(FLAG, random.index(most))
        }
        6 => [head(8, 4), bytes(random, 4)].concat(),
        7 => [head(BYTES, 3), bytes(random, 3)].concat(),
        8 => {
            let length = random.index(5);
            (0..length).fold(head(LIST, length), |all, _| [all, any_value(random, depth + 1)].concat())
        }
        _ => {
            let length = random.index(6);
            (0..length).fold(head(MAP, length), |all, _| {
                let name = text(random.pick::<&str>(&NAMES));
                [all, name, any_value(random, depth + 1)].concat()
            })
        }
    }
}
