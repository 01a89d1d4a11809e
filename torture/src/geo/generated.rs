//! A small world of random networks within networks, written as vendors write theirs, with all that vendors do.

use super::world::Files;
use anyhow::Result;
use ipse_model::Address;
use ipse_testkit::Random;
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Networks of the widest kind, in each family and for each kind of source.
const ROOTS: u64 = 60;
/// At most so many lie within another one; they may hold further ones.
const CHILDREN: u64 = 6;

#[derive(Serialize)]
struct Record {
    city: &'static str,
    country_code: &'static str,
    state1: &'static str,
    postcode: &'static str,
    latitude: Number,
    longitude: Number,
}

/// Vendors write coordinates in either width.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Number {
    Narrow(f32),
    Wide(f64),
}

const CITIES: [&str; 16] = [
    "Oslo",
    "São Paulo",
    "東京",
    "",
    "-",
    "unknown",
    "Mu\u{308}nchen",
    "  New \t York ",
    "Za\u{0}gr\u{7}eb",
    "\u{feff}Reykjavík\u{202e}",
    "Quote \"City\"",
    "Back\\slash",
    "N/A",
    "Saint-Denis",
    "A\u{200d}B",
    "O'Fallon",
];
const REGIONS: [&str; 8] =
    ["California", "Bavaria", "North  Holland", "", "Île-de-France", "Oslo", "?", "Zu\u{308}rich"];
const COUNTRIES: [&str; 16] =
    ["US", "DE", "NL", "FR", "br", "JP", "GF", "AQ", "XK", "ZZ", "EU", "", "SE", "NO", "GB", " IE "];
const POSTCODES: [&str; 5] = ["", "1012 AB", "90210", " 8001 ", "-"];
const ORGS: [&str; 10] = [
    "Example, Inc.",
    "Say \"Hosting\"",
    "Plain",
    "",
    "  Two  Spaces ",
    "Ko\u{308}ln Net",
    "-",
    "Université",
    "A/B",
    "Back\\slash",
];

/// Writes the files of a world into a folder.
pub(crate) fn write(folder: &Path, random: &mut Random) -> Result<Files> {
    let mut files = Files { city: Vec::new(), asn: Vec::new() };
    for is_v4 in [true, false] {
        let family = if is_v4 { "ipv4" } else { "ipv6" };
        let path = folder.join(format!("dbip-city-{family}.mmdb"));
        std::fs::write(&path, mmdb(is_v4, random)?)?;
        files.city.push(path);
        files.asn.push(csv(folder.join(format!("asn-{family}.csv")), is_v4, random)?);
    }
    Ok(files)
}

fn mmdb(is_v4: bool, random: &mut Random) -> Result<Vec<u8>> {
    let mut database = Database::default();
    database.metadata.ip_version = if is_v4 { IpVersion::V4 } else { IpVersion::V6 };
    database.metadata.database_type = if is_v4 { "city ipv4" } else { "city ipv6" }.to_owned();
    database.metadata.languages = vec!["en".to_owned()];
    database.metadata.binary_format_major_version = 2;
    database.metadata.build_epoch = 1_780_000_000;
    database.metadata.description = HashMap::from([("en".to_owned(), "Generated".to_owned())]);
    let records = (0..200).map(|_| database.insert_value(record(random))).collect::<Result<Vec<_>, _>>()?;
    // Wide ones come first, so that narrow ones cut pieces out of them.
    for (length, first) in networks(is_v4, random) {
        database.insert_node(IpAddrWithMask::new(ip(is_v4, first), length), *random.pick(&records));
    }
    Ok(database.write_to(Vec::new())?)
}

fn csv(path: PathBuf, is_v4: bool, random: &mut Random) -> Result<PathBuf> {
    let mut lines = Vec::new();
    for (length, first) in networks(is_v4, random) {
        let last = first | mask(is_v4, length);
        let org = *random.pick(&ORGS);
        let quoted = org.contains([',', '"']) || random.below(2) == 0;
        let org = if quoted { format!("\"{}\"", org.replace('"', "\"\"")) } else { org.to_owned() };
        // A number of 0 is how some write that nobody announces the range.
        let asn = if random.below(20) == 0 { 0 } else { 1 + random.below(70_000) };
        let mut line = String::new();
        write!(line, "{},{},{asn},{org}", ip(is_v4, first), ip(is_v4, last))?;
        lines.push((random.next(), line));
    }
    // No order is promised.
    lines.sort_unstable();
    let lines: String = lines.into_iter().map(|(_, line)| line + "\n").collect();
    std::fs::write(&path, lines)?;
    Ok(path)
}

fn record(random: &mut Random) -> Record {
    let coordinate = |random: &mut Random, limit: u32| {
        let steps = u64::from(limit) * 2 * 10_000 + 1;
        #[expect(clippy::cast_precision_loss, reason = "there are a few millions of steps")]
        let degrees = random.below(steps) as f64 / 10_000.0 - f64::from(limit);
        #[expect(clippy::cast_possible_truncation, reason = "vendors lose as much")]
        match random.below(8) {
            0 => Number::Wide(0.0),
            1..5 => Number::Narrow(degrees as f32),
            _ => Number::Wide(degrees),
        }
    };
    Record {
        city: random.pick::<&str>(&CITIES),
        country_code: random.pick::<&str>(&COUNTRIES),
        state1: random.pick::<&str>(&REGIONS),
        postcode: random.pick::<&str>(&POSTCODES),
        latitude: coordinate(random, 90),
        longitude: coordinate(random, 180),
    }
}

/// Distinct networks by length and first address, the widest first.
fn networks(is_v4: bool, random: &mut Random) -> BTreeSet<(u8, u128)> {
    let mut networks = BTreeSet::new();
    let bits = bits(is_v4);
    while (networks.len() as u64) < ROOTS {
        let length = 8 + narrow(random.below(12));
        let first = if is_v4 { u128::from(random.next() >> 32) } else { public_v6(random) };
        let first = first & !mask(is_v4, length);
        if Address::new(ip(is_v4, first)).is_global() {
            networks.insert((length, first));
        }
    }
    let mut parents: Vec<(u8, u128)> = networks.iter().copied().collect();
    while let Some((parent, first)) = parents.pop() {
        for _ in 0..random.below(CHILDREN) {
            let length = parent + 1 + narrow(random.below(u64::from(bits) / 3));
            if length > bits {
                continue;
            }
            let any = u128::from(random.next()) << 64 | u128::from(random.next());
            let within = any & mask(is_v4, parent) & !mask(is_v4, length);
            if networks.insert((length, first | within)) {
                parents.push((length, first | within));
            }
        }
    }
    networks
}

fn public_v6(random: &mut Random) -> u128 {
    0x2000_u128 << 112 | u128::from(random.next()) << 61
}

/// The bits behind the prefix.
fn mask(is_v4: bool, length: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(128 - bits(is_v4) + length)).unwrap_or(0)
}

fn bits(is_v4: bool) -> u8 {
    if is_v4 { 32 } else { 128 }
}

fn narrow(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn ip(is_v4: bool, number: u128) -> IpAddr {
    if is_v4 {
        IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)))
    } else {
        IpAddr::V6(Ipv6Addr::from(number))
    }
}
