//! Good files in the shapes of vendors, small and large: what the mischief is done to, and what its memory is
//! compared with.

use super::mmdb::{Child, Mmdb, Value};
use super::packing::{gzip, zstd};
use anyhow::{Context, Result};
use ipse_geo::{About, Draft};
use ipse_geodata::sources::Kind;
use ipse_model::{Degrees, Network, Place, Zone};
use ipse_testkit::Random;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of each shape's files, about.
const SIZES: [usize; 4] = [10_000, 100_000, 1_000_000, 4_000_000];
/// Campaigns of fewer files leave the large ones out: to make them would take longer than the rest.
const LARGE_FROM: u64 = 5_000;

/// What reads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Source(Kind),
    Snapshot,
}

/// A file that nobody has touched yet.
#[derive(Clone)]
pub(crate) struct Good {
    pub(crate) shape: &'static str,
    pub(crate) name: &'static str,
    pub(crate) reads: Reads,
    pub(crate) bytes: Vec<u8>,
    pub(crate) packed: bool,
}

/// All good files, by what they are.
pub(crate) struct Goods {
    /// Of all shapes; of each the smaller ones come first.
    plain: Vec<Vec<Good>>,
    /// Databases before they are written, for those who change their parts.
    pub(crate) databases: Vec<Mmdb>,
}

impl Goods {
    pub(crate) fn make(seed: u64, count: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let sizes = if count < LARGE_FROM { &SIZES[..2] } else { &SIZES[..] };
        let databases = vec![city_database(&mut random, 60), flat_database(&mut random, 80)];
        let mut plain = Vec::new();
        for shape in SHAPES {
            let mut files: Vec<Good> = Vec::new();
            for size in sizes {
                let (mut records, mut before) = (40, 0);
                // Files do not grow evenly, so the number of records is found in steps.
                loop {
                    let bytes = (shape.make)(&mut random, records)?;
                    let next = records * size / bytes.len().max(1);
                    if bytes.len() * 5 / 4 >= *size || next <= before {
                        let Shape { name, file_name, reads, .. } = *shape;
                        files.push(Good { shape: name, name: file_name, reads, bytes, packed: false });
                        break;
                    }
                    before = records;
                    records = next.max(records + 1);
                }
            }
            plain.push(files);
        }
        Ok(Self { plain, databases })
    }

    /// One of them, small ones much more often.
    pub(crate) fn any(&self, random: &mut Random) -> &Good {
        let shape = random.index(self.plain.len());
        self.sized(random, shape)
    }

    /// A source or a snapshot.
    pub(crate) fn that(&self, random: &mut Random, is_wanted: impl Fn(&Good) -> bool) -> &Good {
        loop {
            let good = self.any(random);
            if is_wanted(good) {
                return good;
            }
        }
    }

    fn sized(&self, random: &mut Random, shape: usize) -> &Good {
        let files = &self.plain[shape];
        let step = match random.below(400) {
            0 => 3,
            1..12 => 2,
            12..100 => 1,
            _ => 0,
        };
        &files[step.min(files.len() - 1)]
    }

    /// Every file, plain and packed, for the yardstick.
    pub(crate) fn each(&self) -> impl Iterator<Item = Good> {
        self.plain.iter().flatten().flat_map(|good| {
            let packed = |bytes| Good { bytes, packed: true, ..good.clone() };
            let mut all = vec![good.clone()];
            if good.reads != Reads::Snapshot {
                all.push(packed(gzip(&good.bytes)));
                all.push(packed(zstd(&good.bytes, 3)));
            }
            all
        })
    }

    /// The places at which the larger file of each shape is cut, one behind the other.
    pub(crate) fn cut(&self, ordinal: u64) -> (&Good, usize) {
        const STEP: usize = 4096;
        let files: Vec<&Good> = self.plain.iter().filter_map(|files| files.get(2).or(files.last())).collect();
        let steps = |good: &Good| good.bytes.len() / STEP;
        let all: usize = files.iter().map(|good| steps(good)).sum();
        let mut at = usize::try_from(ordinal).unwrap_or(0) % all.max(1);
        for good in &files {
            if at < steps(good) {
                return (good, (at + 1) * STEP);
            }
            at -= steps(good);
        }
        (files[0], 0)
    }
}

struct Shape {
    name: &'static str,
    file_name: &'static str,
    reads: Reads,
    make: fn(&mut Random, usize) -> Result<Vec<u8>>,
}

const SHAPES: &[Shape] = &[
    Shape {
        name: "MaxMind city",
        file_name: "GeoLite2-City.mmdb",
        reads: Reads::Source(Kind::City),
        make: |random, records| Ok(city_database(random, records).bytes()),
    },
    Shape {
        name: "flat city",
        file_name: "dbip-city-ipv4.mmdb",
        reads: Reads::Source(Kind::City),
        make: |random, records| Ok(flat_database(random, records).bytes()),
    },
    Shape {
        name: "city CSV",
        file_name: "dbip-city-lite.csv",
        reads: Reads::Source(Kind::City),
        make: |random, records| Ok(city_lines(random, records).into_bytes()),
    },
    Shape {
        name: "ASN CSV",
        file_name: "asn-ipv4.csv",
        reads: Reads::Source(Kind::Asn),
        make: |random, records| Ok(asn_lines(random, records).into_bytes()),
    },
    Shape {
        name: "IPtoASN TSV",
        file_name: "ip2asn-combined.tsv",
        reads: Reads::Source(Kind::Asn),
        make: |random, records| Ok(tab_lines(random, records).into_bytes()),
    },
    Shape {
        name: "bare CSV",
        file_name: "asn-ipv4-num.csv",
        reads: Reads::Source(Kind::Asn),
        make: |random, records| Ok(bare_lines(random, records).into_bytes()),
    },
    Shape { name: "snapshot", file_name: "ipse.geo", reads: Reads::Snapshot, make: snapshot },
];

const COUNTRIES: [(&str, &str, &str, &str); 6] = [
    ("NL", "Netherlands", "NH", "Europe/Amsterdam"),
    ("GB", "United Kingdom", "ENG", "Europe/London"),
    ("US", "United States", "CA", "America/Los_Angeles"),
    ("JP", "Japan", "13", "Asia/Tokyo"),
    ("BR", "Brazil", "SP", "America/Sao_Paulo"),
    ("ZA", "South Africa", "GP", "Africa/Johannesburg"),
];

/// A name that looks like one.
pub(crate) fn word(random: &mut Random) -> String {
    const SYLLABLES: [&str; 16] = [
        "al", "ber", "dam", "ford", "gha", "ku", "lin", "mo", "ne", "or", "rü", "sta", "ton", "ville", "wey",
        "zé",
    ];
    let mut word: String = (0..2 + random.below(3)).map(|_| *random.pick(&SYLLABLES)).collect();
    word[..1].make_ascii_uppercase();
    word
}

#[expect(clippy::cast_precision_loss, reason = "no coordinate has so many digits")]
fn degrees(random: &mut Random, limit: u64) -> f64 {
    random.below(limit * 20_000) as f64 / 10_000.0 - limit as f64
}

/// Networks one behind the other, with gaps: first addresses and bits of the prefix.
fn networks(random: &mut Random, count: usize) -> Vec<(u32, u8)> {
    let mut first = 0x0100_0000_u32;
    let mut networks = Vec::with_capacity(count);
    while networks.len() < count {
        let length = 20 + u8::try_from(random.below(9)).unwrap_or(0);
        let size = 1_u32 << (32 - length);
        first = first.next_multiple_of(size).wrapping_add(size * u32::from(random.below(4) == 0));
        networks.push((first, length));
        first = first.wrapping_add(size).max(0x0100_0000);
    }
    networks
}

fn city_database(random: &mut Random, records: usize) -> Mmdb {
    let mut database = Mmdb::new("GeoLite2-City", 6, 28);
    let map = Value::Map;
    let name = |text: &str| Value::Text(text.to_owned());
    for (index, (first, length)) in networks(random, records).into_iter().enumerate() {
        let (code, country, region, zone) = *random.pick(&COUNTRIES);
        let names = map(vec![("de", name(country)), ("en", name(country)), ("fr", name(country))]);
        let country = database.keep(&map(vec![("iso_code", name(code)), ("names", names)]));
        let city = word(random);
        let names = map(vec![("de", name(&city)), ("en", name(&city)), ("ja", name("都市"))]);
        let city = database.keep(&map(vec![("geoname_id", Value::Number(7)), ("names", names)]));
        let place = map(vec![
            ("accuracy_radius", Value::Number(20)),
            ("latitude", Value::Double(degrees(random, 90))),
            ("longitude", Value::Double(degrees(random, 180))),
            ("time_zone", name(zone)),
        ]);
        let subdivision = map(vec![("iso_code", name(region)), ("names", map(vec![("en", name(region))]))]);
        let record = map(vec![
            ("city", Value::Pointer(city)),
            ("country", Value::Pointer(country)),
            ("location", place),
            ("postal", map(vec![("code", name(&random.below(100_000).to_string()))])),
            ("subdivisions", Value::List(vec![subdivision])),
            ("traits", map(vec![("is_anycast", Value::Flag(index % 7 == 0))])),
        ]);
        let record = Child::Data(database.keep(&record));
        database.network(u128::from(first), 96 + length, record);
        if index % 5 == 0 {
            database.network((0x2a00_0000 + index as u128) << 96, 32, record);
        }
    }
    // As MaxMind's files have it, 6to4 leads to IPv4 again.
    if let Some(v4) = database.node(0, 96) {
        database.network(0x2002 << 112, 16, Child::Node(v4));
    }
    database
}

fn flat_database(random: &mut Random, records: usize) -> Mmdb {
    let mut database = Mmdb::new("city ipv4", 4, 24);
    for (first, length) in networks(random, records) {
        let (code, _, region, zone) = *random.pick(&COUNTRIES);
        let record = Value::Map(vec![
            ("city", Value::Text(word(random))),
            ("country_code", Value::Text(code.to_owned())),
            ("latitude", Value::Double(degrees(random, 90))),
            ("longitude", Value::Double(degrees(random, 180))),
            ("state1", Value::Text(region.to_owned())),
            ("timezone", Value::Text(zone.to_owned())),
        ]);
        let record = Child::Data(database.keep(&record));
        database.network(u128::from(first) << 96, length, record);
    }
    database
}

fn city_lines(random: &mut Random, records: usize) -> String {
    let mut text = String::new();
    for (first, length) in networks(random, records) {
        let last = first | (u32::MAX >> length);
        let (code, _, region, _) = *random.pick(&COUNTRIES);
        let (latitude, longitude) = (degrees(random, 90), degrees(random, 180));
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{},{},EU,{code},{region},\"{}\",{latitude:.4},{longitude:.4}",
            Ipv4Addr::from(first),
            Ipv4Addr::from(last),
            word(random)
        );
    }
    text
}

fn asn_lines(random: &mut Random, records: usize) -> String {
    let mut text = String::new();
    for (first, length) in networks(random, records) {
        let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(first | (u32::MAX >> length)));
        let _ = writeln!(text, "{first},{last},{},\"{} Ltd.\"", 1 + random.below(400_000), word(random));
    }
    text
}

/// Nothing but numbers: no table says more in fewer bytes, and so none takes more memory for its size.
fn bare_lines(random: &mut Random, records: usize) -> String {
    let mut text = String::new();
    for (first, length) in networks(random, records) {
        let _ =
            writeln!(text, "{first},{},{}", first | (u32::MAX >> length), 1 + random.below(u32::MAX.into()));
    }
    text
}

fn tab_lines(random: &mut Random, records: usize) -> String {
    let mut text = String::new();
    for (index, (first, length)) in networks(random, records).into_iter().enumerate() {
        let (asn, org) = (random.below(400_000), word(random));
        let (first, last): (IpAddr, IpAddr) = if index % 4 == 3 {
            let wide = (0x2a00_0000_0000 + index as u128) << 80;
            (Ipv6Addr::from(wide).into(), Ipv6Addr::from(wide | ((1 << 80) - 1)).into())
        } else {
            (Ipv4Addr::from(first).into(), Ipv4Addr::from(first | (u32::MAX >> length)).into())
        };
        let _ = writeln!(text, "{first}\t{last}\t{asn}\t{}\t{org} AS", random.pick(&COUNTRIES).0);
    }
    text
}

fn snapshot(random: &mut Random, records: usize) -> Result<Vec<u8>> {
    let about = About { built: 1_700_000_000, builder: "a campaign".to_owned(), ..About::default() };
    let mut draft = Draft::new(about);
    let mut sixes = Vec::new();
    let mut next = 0;
    for (index, (first, length)) in networks(random, records).into_iter().enumerate() {
        let (code, country, region, zone) = *random.pick(&COUNTRIES);
        let place = Place {
            city: Some(word(random)),
            region: Some(region.to_owned()),
            region_code: Some(format!("{code}-{region}")),
            country: Some(code.to_owned()),
            country_name: Some(country.to_owned()),
            continent: Some("EU".to_owned()),
            position: Degrees::latitude(degrees(random, 90)).zip(Degrees::longitude(degrees(random, 180))),
            zone: Zone::named(zone).ok(),
            postal_code: (index % 3 == 0).then(|| random.below(100_000).to_string()),
            is_eu: Some(index % 2 == 0),
            currency: Some("EUR".to_owned()),
        };
        let place = draft.place(&place, vec![("city".to_owned(), "a source".to_owned())]);
        let asn = u32::try_from(random.below(400_000)).ok();
        let network = Network { asn, org: Some(word(random)), proxy: None, hosting: Some(index % 2 == 1) };
        let network = draft.network(network, vec![("asn".to_owned(), "another".to_owned())]);
        let last = first | (u32::MAX >> length);
        next = last.saturating_add(1);
        let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(last));
        draft.range(first.into(), last.into(), Some(place), Some(network)).context("no good range")?;
        if index % 4 == 0 {
            sixes.push(((0x2a00_0000_0000 + index as u128) << 80, place));
        }
    }
    // Vendors know something about every address, if only its country.
    let everywhere = draft.place(&Place { country: Some("US".to_owned()), ..Place::default() }, Vec::new());
    let (first, last) = (Ipv4Addr::from(next), Ipv4Addr::BROADCAST);
    draft.range(first.into(), last.into(), Some(everywhere), None).context("no good range")?;
    for (first, place) in sixes {
        // Some are finer than a network has hosts.
        let last = if random.below(20) == 0 { first | 0xff } else { first | ((1 << 80) - 1) };
        let (first, last) = (Ipv6Addr::from(first), Ipv6Addr::from(last));
        draft.range(first.into(), last.into(), Some(place), None).context("no good range")?;
    }
    draft.write().context("no good snapshot")
}
