//! The snapshot against the sources it was built from: for millions of addresses both must say the same.
//!
//! The sources are read with the vendors' own reader and line by line, with nothing of the product in between.

mod asn;
mod draw;
mod generated;
pub(crate) mod speed;
mod vendor;
pub(crate) mod world;

use crate::campaign::Options;
use anyhow::{Result, ensure};
use draw::Known;
use ipse_geo::Found;
use ipse_model::{Address, Answer, Client, Now, Place, Scope};
use ipse_testkit::Random;
use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;
use vendor::Expected;
use world::World;

/// With fewer addresses than this the world is a small generated one: nothing has to be fetched, and the seed is enough to
/// repeat it.
const REAL_COUNT: u64 = 100_000;
/// In how many comparisons the bytes of an answer are read as well.
const BODY_ONE_IN: u64 = 16;
/// How many differences a failure tells.
const TOLD_DIFFERENCES: usize = 5;
/// Half a millionth of a degree, and what the arithmetic of floating point adds.
const TOLERANCE_DEGREES: f64 = 0.5e-6 + 1e-12;

/// The European Union's members, and those parts of them that have a code of their own.
const UNION: &str =
    "AT AX BE BG CY CZ DE DK EE ES FI FR GF GP GR HR HU IE IT LT LU LV MF MQ MT NL PL PT RE RO SE SI SK YT";
const CONTINENTS: &str = "AF AN AS EU NA OC SA";

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let world = if options.count < REAL_COUNT { World::generated(&mut random)? } else { World::real()? };
    println!("  {}", world.told);
    let mut comparison = Comparison::default();
    for is_v4 in [true, false] {
        let known = Known::of(&world, is_v4)?;
        for _ in 0..options.count {
            comparison.compare(&world, known.suspicious(&mut random))?;
        }
    }
    comparison.figure(options)
}

/// What was compared so far.
#[derive(Default)]
struct Comparison {
    addresses: u64,
    nowhere: u64,
    places: u64,
    networks: u64,
    bodies: u64,
    cleaned: u64,
    differing: u64,
    first_differences: Vec<String>,
    /// What the first place of each country said about it.
    countries: HashMap<String, Country>,
}

/// What follows from a country's code alone.
#[derive(Clone, Debug, PartialEq)]
struct Country {
    name: Option<String>,
    continent: Option<String>,
    currency: Option<String>,
    is_eu: Option<bool>,
}

impl Comparison {
    fn compare(&mut self, world: &World, ip: IpAddr) -> Result<()> {
        let address = Address::new(ip);
        let found = world.atlas.find(address);
        let place = found.place();
        let (mut expected, mut network) = (Expected::default(), (None, None));
        // An address that nobody can have is nowhere, whatever a file says.
        if address.is_global() {
            if let Some(record) = world.cities.find(ip)? {
                let cleaned;
                (expected, cleaned) = Expected::of(&record);
                self.cleaned += cleaned;
            }
            if let Some(line) = world.networks.find(ip) {
                let (org, cleaned) = line.expected_org();
                network = (Some(line.asn), org);
                self.cleaned += u64::from(cleaned);
            }
        } else {
            self.nowhere += 1;
        }
        self.addresses += 1;
        self.places += u64::from(expected != Expected::default());
        self.networks += u64::from(network.0.is_some());
        let mut differences = Vec::new();
        compare_place(place.as_ref(), &expected, &mut differences);
        let found_network =
            found.network().map(|network| (network.asn, network.org.clone())).unwrap_or_default();
        if found_network != network {
            differences.push(format!("network {found_network:?}, expected {network:?}"));
        }
        self.compare_country(place.as_ref(), &mut differences);
        if self.addresses.is_multiple_of(BODY_ONE_IN) {
            self.bodies += 1;
            compare_body(address, found, &expected, &network, &mut differences)?;
        }
        if !differences.is_empty() {
            self.differing += 1;
            if self.first_differences.len() < TOLD_DIFFERENCES {
                // The address is a random one and no caller's.
                self.first_differences.push(format!("{ip}: {}", differences.join("; ")));
            }
        }
        Ok(())
    }

    fn compare_country(&mut self, place: Option<&Place>, differences: &mut Vec<String>) {
        let Some(place) = place else { return };
        let country = Country {
            name: place.country_name.clone(),
            continent: place.continent.clone(),
            currency: place.currency.clone(),
            is_eu: place.is_eu,
        };
        let Some(code) = &place.country else {
            let nothing = Country { name: None, continent: None, currency: None, is_eu: None };
            if country != nothing {
                differences.push(format!("{country:?} without a country"));
            }
            return;
        };
        let listed = |list: &str, text: &str| list.split(' ').any(|word| word == text);
        let sound = country.is_eu == Some(listed(UNION, code))
            && country.name.is_some()
            && country.continent.as_deref().is_some_and(|continent| listed(CONTINENTS, continent))
            && country.currency.as_deref().is_none_or(|currency| currency.len() == 3);
        if !sound {
            differences.push(format!("{country:?} for {code}"));
        }
        let first = self.countries.entry(code.clone()).or_insert_with(|| country.clone());
        if *first != country {
            differences.push(format!("{country:?} for {code}, and {first:?} elsewhere"));
        }
    }

    fn figure(&self, options: &Options) -> Result<String> {
        let Self { addresses, nowhere, places, networks, bodies, cleaned, differing, .. } = self;
        let figure = format!(
            "{addresses} addresses ({places} with a place, {networks} with a network, {nowhere} that nobody can have), {} \
             countries, {bodies} bodies read, {cleaned} texts compared after cleaning, {differing} differences",
            self.countries.len()
        );
        ensure!(*differing == 0, "{figure}; the first: {}", self.first_differences.join("\n  "));
        // A campaign that hit nothing has shown nothing.
        ensure!(
            *places > options.count / 16 && *networks > options.count / 16,
            "the addresses met too little: {figure}"
        );
        Ok(figure)
    }
}

fn compare_place(place: Option<&Place>, expected: &Expected, differences: &mut Vec<String>) {
    let nowhere = Place::default();
    let place = place.unwrap_or(&nowhere);
    for (field, found, expected) in [
        ("city", &place.city, &expected.city),
        ("region", &place.region, &expected.region),
        ("country", &place.country, &expected.country),
        ("postal_code", &place.postal_code, &expected.postal_code),
    ] {
        if found != expected {
            differences.push(format!("{field} {found:?}, expected {expected:?}"));
        }
    }
    let position = place.position.map(|(latitude, longitude)| (latitude.degrees(), longitude.degrees()));
    if !is_near(position, expected.position) {
        differences.push(format!("position {position:?}, expected {:?}", expected.position));
    }
}

fn is_near(found: Option<(f64, f64)>, expected: Option<(f64, f64)>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => {
            (found.0 - expected.0).abs() <= TOLERANCE_DEGREES
                && (found.1 - expected.1).abs() <= TOLERANCE_DEGREES
        }
        (None, None) => true,
        _ => false,
    }
}

/// What a caller reads must be what was looked up.
fn compare_body(
    address: Address,
    found: Found<'_>,
    expected: &Expected,
    network: &(Option<u32>, Option<String>),
    differences: &mut Vec<String>,
) -> Result<()> {
    let client =
        Client { address, http: None, tls_version: None, tls_cipher: None, rtt_ms: None, colo: None };
    let now = Now { unix_ms: 1_780_000_000_000, boot_ms: 0 };
    let body = Answer { client: &client, now, found: found.written() }.for_scope(Scope::Full);
    let body: Value = serde_json::from_slice(&body)?;
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::String);
    let system = network.0.zip(network.1.as_ref()).map(|(asn, org)| format!("AS{asn} {org}"));
    for (field, expected) in [
        ("city", text(&expected.city)),
        ("region", text(&expected.region)),
        ("country", text(&expected.country)),
        ("postal_code", text(&expected.postal_code)),
        ("asn", network.0.map_or(Value::Null, Value::from)),
        ("org", text(&network.1)),
        ("as", text(&system)),
    ] {
        if body[field] != expected {
            differences.push(format!("{field} in the body {}, expected {expected}", body[field]));
        }
    }
    let position = body["latitude"].as_f64().zip(body["longitude"].as_f64());
    if !is_near(position, expected.position) {
        differences.push(format!("position in the body {position:?}, expected {:?}", expected.position));
    }
    Ok(())
}
