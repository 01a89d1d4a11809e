//! `bench geo`: how quickly addresses are looked up and answered, beside the vendors' own reader on the same data.
//!
//! All are measured in the same run, in turns, so that a busy moment of the machine meets each of them. Addresses are
//! drawn before the clock starts. Lookups follow each other at once: this is what one core gets done, not how long a lone
//! lookup waits for memory.

use super::asn::AsnTable;
use super::draw::Known;
use super::vendor::{Cities, CityRecord};
use super::world::{self, World};
use crate::server;
use anyhow::{Context, Result, ensure};
use ipse_geo::Atlas;
use ipse_model::{Address, Answer, Client, HttpVersion, Network, Now, Place, Scope, TlsVersion};
use ipse_testkit::{Connection, FullBody, Random, Stopwatch};
use serde_json::Value;
use std::collections::HashMap;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::PathBuf;

const ROUNDS: usize = 9;
const ADDRESSES: usize = 300_000;
const SHORT_ROUNDS: usize = 2;
const SHORT_ADDRESSES: usize = 2_000;
/// As many requests a busy server answers in one turn, and looks up together.
const TOGETHER: usize = 32;

const LOOKUP_V4_NS: f64 = 60.0;
const LOOKUP_V6_NS: f64 = 120.0;
const LOOKUP_RATIO: f64 = 12.0;
const BODY_NS: f64 = 350.0;
const BODY_RATIO: f64 = 5.0;
const RESIDENT_MIB: f64 = 200.0;
const DATA_MIB: f64 = 150.0;

const NOW: Now = Now { unix_ms: 1_780_000_000_000, boot_ms: 0 };
/// An address that any data knows, for seeing whether a server has some.
const WELL_KNOWN: &str = "8.8.8.8";

/// The measurement, held to its targets.
pub(crate) fn bench() -> Result<()> {
    let mut rows = Vec::new();
    // First of all, so that nothing else has grown the process.
    if let Some(snapshot) = world::default_data()? {
        let loaded = world::load(&snapshot.bytes)?;
        rows.push(Row::of_memory("the default data alone, in memory", loaded.mib, DATA_MIB));
    }
    let mut random = Random::new(1);
    let world = World::real()?;
    println!("bench geo: {ROUNDS} rounds of {ADDRESSES} addresses of each family; {}", world.told);
    rows.extend(measure(&world, &mut random, ROUNDS, ADDRESSES)?);
    rows.push(resident()?);
    print(&rows);
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.met == Some(false)).map(|row| row.what.as_str()).collect();
    ensure!(missed.is_empty(), "bench geo: missed by {}", missed.join(", "));
    Ok(())
}

/// A generated world, to see that everything works; its times say nothing.
pub(crate) fn bench_short() -> Result<()> {
    let mut random = Random::new(ipse_testkit::fresh_seed());
    let world = World::generated(&mut random)?;
    println!(
        "bench geo: {SHORT_ROUNDS} rounds of {SHORT_ADDRESSES} addresses, held to nothing; {}",
        world.told
    );
    let rows = measure(&world, &mut random, SHORT_ROUNDS, SHORT_ADDRESSES)?;
    let resident = resident()?;
    ensure!(rows.len() == 10 && resident.figure.ends_with("MiB"), "something was not measured");
    Ok(())
}

/// One line of the table.
struct Row {
    what: String,
    figure: String,
    spread: String,
    target: String,
    /// Whether the target was met; `None` if there is none.
    met: Option<bool>,
}

impl Row {
    fn of_memory(what: &str, mib: f64, most: f64) -> Self {
        Self {
            what: what.to_owned(),
            figure: format!("{mib:.0} MiB"),
            spread: String::new(),
            target: format!("at most {most:.0} MiB"),
            met: Some(mib <= most),
        }
    }
}

/// The times of one thing, a round each.
struct Times(Vec<f64>);

impl Times {
    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// From the fastest to the slowest.
    fn range(&self) -> (f64, f64) {
        self.0.iter().fold((f64::MAX, 0.0), |(low, high), time| (low.min(*time), high.max(*time)))
    }

    fn row(&self, what: &str, limit_ns: Option<f64>) -> Row {
        let (low, high) = self.range();
        Row {
            what: what.to_owned(),
            figure: format!("{:.0} ns", self.median()),
            spread: format!("{low:.0} to {high:.0}"),
            target: limit_ns.map(|limit| format!("at most {limit:.0} ns")).unwrap_or_default(),
            met: limit_ns.map(|limit| self.median() <= limit),
        }
    }
}

fn measure(world: &World, random: &mut Random, rounds: usize, count: usize) -> Result<Vec<Row>> {
    let mut families = Vec::new();
    for is_v4 in [true, false] {
        let known = Known::of(world, is_v4)?;
        let ips: Vec<IpAddr> = (0..count).map(|_| known.anywhere(random)).collect();
        families.push(Family::new(world, is_v4, ips)?);
    }
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        for family in &mut families {
            family.round(world, round > 0)?;
        }
    }
    Ok(families.iter().flat_map(Family::rows).collect())
}

/// What is measured for one family.
struct Family {
    name: &'static str,
    lookup_limit_ns: f64,
    ips: Vec<IpAddr>,
    addresses: Vec<Address>,
    by_hand: ByHand,
    lookup: Times,
    together: Times,
    vendor_lookup: Times,
    body: Times,
    vendor_body: Times,
}

impl Family {
    fn new(world: &World, is_v4: bool, ips: Vec<IpAddr>) -> Result<Self> {
        let addresses: Vec<Address> = ips.iter().map(|ip| Address::new(*ip)).collect();
        let by_hand = ByHand::new(&world.atlas, &addresses);
        // Both must have the same work.
        let ip = ips.iter().find(|ip| world.cities.find(**ip).is_ok_and(|record| record.is_some()));
        let ip = *ip.context("the city file knows none of the addresses")?;
        let mut client = client(Address::new(ip));
        let (ours, theirs) = (
            ours(&world.atlas, &mut client, Address::new(ip)),
            by_hand.body(&world.cities, &world.networks, &client, ip)?,
        );
        let (ours, theirs): (Value, Value) =
            (serde_json::from_slice(&ours)?, serde_json::from_slice(&theirs)?);
        let names = |body: &Value| body.as_object().map(|body| body.keys().cloned().collect::<Vec<_>>());
        ensure!(names(&ours) == names(&theirs), "the two bodies have not the same fields: {ours} {theirs}");
        let (name, lookup_limit_ns) = if is_v4 { ("IPv4", LOOKUP_V4_NS) } else { ("IPv6", LOOKUP_V6_NS) };
        let times = || Times(Vec::new());
        Ok(Self {
            name,
            lookup_limit_ns,
            ips,
            addresses,
            by_hand,
            lookup: times(),
            together: times(),
            vendor_lookup: times(),
            body: times(),
            vendor_body: times(),
        })
    }

    fn round(&mut self, world: &World, counts: bool) -> Result<()> {
        let World { atlas, cities, networks, .. } = world;
        let reader =
            cities.of_family(self.ips.first().is_some_and(IpAddr::is_ipv4)).context("no city file")?;
        let mut client = client(self.addresses[0]);

        let watch = Stopwatch::start();
        for address in &self.addresses {
            black_box(atlas.find(*address).written());
        }
        let lookup = self.nanoseconds(&watch);

        let watch = Stopwatch::start();
        for turn in self.addresses.chunks(TOGETHER) {
            atlas.foresee(turn.iter().copied());
            for address in turn {
                black_box(atlas.find(*address).written());
            }
        }
        let together = self.nanoseconds(&watch);

        let watch = Stopwatch::start();
        for ip in &self.ips {
            black_box(reader.lookup(*ip)?.decode::<CityRecord<'_>>()?);
        }
        let vendor_lookup = self.nanoseconds(&watch);

        let watch = Stopwatch::start();
        for address in &self.addresses {
            black_box(ours(atlas, &mut client, *address));
        }
        let body = self.nanoseconds(&watch);

        let watch = Stopwatch::start();
        for ip in &self.ips {
            black_box(self.by_hand.body(cities, networks, &client, *ip)?);
        }
        let vendor_body = self.nanoseconds(&watch);

        if counts {
            self.lookup.0.push(lookup);
            self.together.0.push(together);
            self.vendor_lookup.0.push(vendor_lookup);
            self.body.0.push(body);
            self.vendor_body.0.push(vendor_body);
        }
        Ok(())
    }

    /// Per address.
    #[expect(clippy::cast_precision_loss, reason = "there are less than a million addresses")]
    fn nanoseconds(&self, watch: &Stopwatch) -> f64 {
        watch.seconds() * 1e9 / self.ips.len() as f64
    }

    fn rows(&self) -> [Row; 5] {
        let name = self.name;
        [
            self.lookup.row(&format!("{name}: lookup, place and network"), Some(self.lookup_limit_ns)),
            self.together.row(&format!("{name}: the same and its texts, {TOGETHER} in a turn"), None),
            self.against(&self.lookup, &self.vendor_lookup, "lookup by maxminddb, city only", LOOKUP_RATIO),
            self.body.row(&format!("{name}: body of a full answer"), Some(BODY_NS)),
            self.against(&self.body, &self.vendor_body, "body by maxminddb and serde_json", BODY_RATIO),
        ]
    }

    fn against(&self, ours: &Times, theirs: &Times, what: &str, least: f64) -> Row {
        let ratio = theirs.median() / ours.median();
        let row = theirs.row(&format!("{}: {what}", self.name), None);
        Row {
            figure: format!("{}, {ratio:.1} times ours", row.figure),
            target: format!("at least {least:.0} times"),
            met: Some(ratio >= least),
            ..row
        }
    }
}

fn ours(atlas: &Atlas, client: &mut Client, address: Address) -> Vec<u8> {
    client.address = address;
    Answer { client, now: NOW, found: atlas.find(address).written() }.for_scope(Scope::Full)
}

fn client(address: Address) -> Client {
    Client {
        address,
        http: Some(HttpVersion::Http2),
        tls_version: Some(TlsVersion::Tls13),
        tls_cipher: Some("TLS_AES_128_GCM_SHA256".into()),
        rtt_ms: Some(12),
        colo: "AMS".parse().ok(),
    }
}

/// An answer as one writes it who has the vendors' files: a record is decoded, what it lacks is looked up in tables by
/// country and by network, and the whole is handed to `serde_json`.
struct ByHand {
    /// By country.
    places: HashMap<String, Place>,
    /// By country and region.
    region_codes: HashMap<String, HashMap<String, String>>,
    /// By number.
    flags: HashMap<u32, Network>,
}

impl ByHand {
    /// The tables, as far as these addresses need them.
    fn new(atlas: &Atlas, addresses: &[Address]) -> Self {
        let mut tables = Self { places: HashMap::new(), region_codes: HashMap::new(), flags: HashMap::new() };
        for address in addresses {
            let found = atlas.find(*address);
            if let Some(network) = found.network()
                && let Some(asn) = network.asn
            {
                tables.flags.entry(asn).or_insert_with(|| network.clone());
            }
            let Some(place) = found.place() else { continue };
            let Some(country) = place.country.clone() else { continue };
            if let (Some(region), Some(code)) = (&place.region, &place.region_code) {
                let regions = tables.region_codes.entry(country.clone()).or_default();
                regions.entry(region.clone()).or_insert_with(|| code.clone());
            }
            tables.places.entry(country).or_insert(place);
        }
        tables
    }

    fn body(&self, cities: &Cities, networks: &AsnTable, client: &Client, ip: IpAddr) -> Result<Vec<u8>> {
        let record = cities.find(ip)?.unwrap_or_default();
        let country = filled(record.country_code);
        let region = filled(record.state1);
        let place = country.and_then(|country| self.places.get(country));
        let codes = country.and_then(|country| self.region_codes.get(country));
        let zone = place.and_then(|place| place.zone.as_ref());
        let line = networks.find(ip);
        let flags = line.and_then(|line| self.flags.get(&line.asn));
        let body = FullBody {
            status: "success",
            ip: if let IpAddr::V4(ip) = ip { Some(ip) } else { None },
            ipv6: if let IpAddr::V6(ip) = ip { Some(ip) } else { None },
            city: filled(record.city),
            region,
            region_code: codes.zip(region).and_then(|(codes, region)| codes.get(region)).map(String::as_str),
            country,
            country_name: place.and_then(|place| place.country_name.as_deref()),
            continent: place.and_then(|place| place.continent.as_deref()),
            latitude: record.latitude,
            longitude: record.longitude,
            timezone: zone.map(ipse_model::Zone::name),
            timezone_offset: zone.and_then(|zone| zone.offset_seconds(NOW)),
            postal_code: filled(record.postcode),
            asn: line.map(|line| line.asn),
            org: line.map(|line| &*line.org),
            r#as: line.map(|line| format!("AS{} {}", line.asn, line.org)),
            is_eu: place.and_then(|place| place.is_eu),
            currency: place.and_then(|place| place.currency.as_deref()),
            http_protocol: client.http.map(HttpVersion::as_str),
            tls_version: client.tls_version.map(TlsVersion::as_str),
            tls_cipher: client.tls_cipher.as_deref(),
            rtt: client.rtt_ms,
            colo: client.colo.as_ref().map(ipse_model::Colo::as_str),
            proxy: flags.and_then(|flags| flags.proxy),
            hosting: flags.and_then(|flags| flags.hosting),
        };
        Ok(serde_json::to_vec(&body)?)
    }
}

/// Vendors write an empty text where they know nothing.
fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// The memory of a server that has just answered.
fn resident() -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let server = server::start(&folder.path().join("data"))?;
    let mut connection = Connection::open(server.address)?;
    connection.send(
        format!("GET /api/v1/ip/demo HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {WELL_KNOWN}\r\n\r\n")
            .as_bytes(),
    )?;
    let response = connection.receive()?;
    ensure!(response.status == 200, "the demo answered {}: {}", response.status, response.body);
    let knows = !serde_json::from_str::<Value>(&response.body)?["country"].is_null();
    let mib = world::resident_mib(&PathBuf::from(format!("/proc/{}/status", server.process.id())))?;
    server.kill()?;
    let what = format!("a server {} data, in memory", if knows { "with the default" } else { "WITHOUT" });
    let row = Row::of_memory(&what, mib, RESIDENT_MIB);
    // A server that knows no place has not shown what it needs for them.
    Ok(Row { met: row.met.map(|met| met && knows), ..row })
}

fn print(rows: &[Row]) {
    let line = |what: &str, figure: &str, spread: &str, target: &str, verdict: &str| {
        println!("  {what:<47} {figure:>24}  {spread:>14}  {target:<26} {verdict}");
    };
    line("", "median", "spread, ns", "target", "");
    for row in rows {
        let verdict = match row.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        line(&row.what, &row.figure, &row.spread, &row.target, verdict);
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    println!(
        "  The spread is from the fastest round to the slowest. Load of the machine at the end: {load}."
    );
    println!("  No ASN file in the vendors' format is at hand: maxminddb looks up cities alone, ours both.");
    println!("  Replay with: cargo xtask bench geo");
}
