//! The data of the snapshot as the vendors' format has it, for peers that read nothing else: a file of places and one of networks.
//!
//! Every field of an answer is in it, flat and final, so that a peer has no more to do than to find a record. Quotation marks
//! and backslashes are replaced, because nginx puts texts into JSON as they are.

use anyhow::Result;
use ipse_geo::{Atlas, Found, each_range_v4};
use ipse_model::{Address, Network, Place};
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where the two files are.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) places: PathBuf,
    pub(crate) networks: PathBuf,
}

/// A place, with its texts in some form.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct PlaceRecord<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) city: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region_code: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) country: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) country_name: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continent: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latitude: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) longitude: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timezone: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) postal_code: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is_eu: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) currency: Option<T>,
}

/// A network, with its name in some form.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct NetworkRecord<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) org: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hosting: Option<bool>,
}

/// A text as it stands in the files.
pub(crate) fn tame(text: &str) -> String {
    text.replace('"', "'").replace('\\', "/")
}

impl Files {
    /// The files of a folder, which are there or will be.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { places: folder.join("places.mmdb"), networks: folder.join("networks.mmdb") }
    }

    /// Writes all that the snapshot knows of IPv4.
    pub(crate) fn write_all(&self, snapshot: &[u8], atlas: &Atlas) -> Result<()> {
        let mut gathered = Gathered::default();
        each_range_v4(snapshot, atlas, |first, last, found| {
            each_block(first, last, |first, length| gathered.add(first, length, found));
        })?;
        gathered.write(self)
    }

    /// Writes what it knows of these addresses alone.
    pub(crate) fn write_some(&self, atlas: &Atlas, addresses: &[Ipv4Addr]) -> Result<()> {
        let mut gathered = Gathered::default();
        for address in addresses {
            gathered.add((*address).into(), 32, atlas.find(Address::new((*address).into())));
        }
        gathered.write(self)
    }
}

/// What will be written. What is the same in many blocks is there once.
#[derive(Default)]
struct Gathered {
    places: Side<PlaceRecord<String>>,
    networks: Side<NetworkRecord<String>>,
    /// By the number of what was found: the place and the network.
    known: HashMap<usize, (Option<usize>, Option<usize>)>,
}

impl Gathered {
    fn add(&mut self, first: u32, length: u8, found: Found<'_>) {
        let Self { places, networks, known } = self;
        let (place, network) = *known.entry(found.spot()).or_insert_with(|| {
            let place = found.place().map(|place| places.index_of(place_record(&place)));
            (place, found.network().map(|network| networks.index_of(network_record(&network))))
        });
        places.blocks.extend(place.map(|place| (first, length, place)));
        networks.blocks.extend(network.map(|network| (first, length, network)));
    }

    fn write(self, files: &Files) -> Result<()> {
        self.networks.write("networks", &files.networks)?;
        self.places.write("places", &files.places)
    }
}

/// What will be written into one of the files.
#[derive(Default)]
struct Side<R> {
    records: Vec<R>,
    /// By the record as a text.
    indexes: HashMap<String, usize>,
    /// First address, length of the prefix, record.
    blocks: Vec<(u32, u8, usize)>,
}

impl<R: Serialize> Side<R> {
    fn index_of(&mut self, record: R) -> usize {
        let text = serde_json::to_string(&record).unwrap_or_default();
        *self.indexes.entry(text).or_insert_with(|| {
            self.records.push(record);
            self.records.len() - 1
        })
    }

    fn write(self, name: &str, path: &Path) -> Result<()> {
        let mut database = Database::default();
        database.metadata.ip_version = IpVersion::V4;
        database.metadata.database_type = format!("ipse-{name}");
        database.metadata.languages = vec!["en".to_owned()];
        database.metadata.binary_format_major_version = 2;
        database.metadata.build_epoch = 1_780_000_000;
        database.metadata.description = HashMap::from([("en".to_owned(), name.to_owned())]);
        let records =
            self.records.iter().map(|record| database.insert_value(record)).collect::<Result<Vec<_>, _>>()?;
        for (first, length, record) in self.blocks {
            database.insert_node(IpAddrWithMask::new(Ipv4Addr::from(first).into(), length), records[record]);
        }
        // Whoever finds the file finds a whole one.
        let beside = path.with_extension("part");
        database.write_to(BufWriter::new(File::create(&beside)?))?.flush()?;
        Ok(std::fs::rename(beside, path)?)
    }
}

fn place_record(place: &Place) -> PlaceRecord<String> {
    let text = |text: &Option<String>| text.as_deref().map(tame);
    PlaceRecord {
        city: text(&place.city),
        region: text(&place.region),
        region_code: text(&place.region_code),
        country: text(&place.country),
        country_name: text(&place.country_name),
        continent: text(&place.continent),
        latitude: place.position.map(|(latitude, _)| latitude.degrees()),
        longitude: place.position.map(|(_, longitude)| longitude.degrees()),
        timezone: place.zone.as_ref().map(|zone| zone.name().to_owned()),
        postal_code: text(&place.postal_code),
        is_eu: place.is_eu,
        currency: text(&place.currency),
    }
}

fn network_record(network: &Network) -> NetworkRecord<String> {
    let Network { asn, org, proxy, hosting } = network;
    NetworkRecord { asn: *asn, org: org.as_deref().map(tame), proxy: *proxy, hosting: *hosting }
}

/// Calls `block` for each of the fewest blocks that make up a range: the first address and the length of the prefix.
fn each_block(first: u32, last: u32, mut block: impl FnMut(u32, u8)) {
    let (mut at, end) = (u64::from(first), u64::from(last) + 1);
    while at < end {
        // As large as its place and what is left of the range let it be.
        let aligned = if at == 0 { 32 } else { at.trailing_zeros().min(32) };
        let fits = (end - at).ilog2();
        let bits = aligned.min(fits);
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        block(narrow(at), u8::try_from(32 - bits).unwrap_or(32));
        at += 1 << bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: &str, last: &str, expected: &[(&str, u8)]) {
        let address = |text: &str| u32::from(text.parse::<Ipv4Addr>().expect("an address"));
        let mut blocks = Vec::new();
        each_block(address(first), address(last), |first, length| blocks.push((first, length)));
        let expected: Vec<_> = expected.iter().map(|(first, length)| (address(first), *length)).collect();
        assert_eq!(blocks, expected, "{first} to {last}");
    }

    #[test]
    fn ranges_are_made_of_blocks() {
        check("0.0.0.0", "255.255.255.255", &[("0.0.0.0", 0)]);
        check("10.0.0.0", "10.0.0.255", &[("10.0.0.0", 24)]);
        check("10.0.0.1", "10.0.0.4", &[("10.0.0.1", 32), ("10.0.0.2", 31), ("10.0.0.4", 32)]);
        check("255.255.255.255", "255.255.255.255", &[("255.255.255.255", 32)]);
    }
}
