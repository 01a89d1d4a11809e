//! Files as vendors write them, and files as nobody should.

use flate2::Compression;
use flate2::write::GzEncoder;
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;

/// An MMDB of these networks; wide ones come first.
pub(crate) fn mmdb(database_type: &str, version: IpVersion, networks: &[(&str, Value)]) -> Vec<u8> {
    let mut database = Database::default();
    database.metadata.ip_version = version;
    database.metadata.database_type = database_type.to_owned();
    database.metadata.languages = vec!["en".to_owned()];
    database.metadata.binary_format_major_version = 2;
    database.metadata.binary_format_minor_version = 0;
    database.metadata.build_epoch = 1_700_000_000;
    database.metadata.description = HashMap::from([("en".to_owned(), "A test".to_owned())]);
    for (network, record) in networks {
        let record = database.insert_value(record).unwrap();
        database.insert_node(network.parse::<IpAddrWithMask>().unwrap(), record);
    }
    let mut bytes = Vec::new();
    database.write_to(&mut bytes).unwrap();
    bytes
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 3).unwrap()
}

/// An MMDB whose tree, data and metadata are given, sound or not.
pub(crate) struct Raw {
    pub(crate) ip_version: u8,
    /// By node; data begins behind the number of nodes and 16 more.
    pub(crate) nodes: Vec<[u32; 2]>,
    pub(crate) data: Vec<u8>,
    /// What the metadata says, where it lies.
    pub(crate) node_count: Option<u32>,
    pub(crate) record_size: u8,
}

impl Raw {
    pub(crate) fn new(ip_version: u8, nodes: Vec<[u32; 2]>, data: Vec<u8>) -> Self {
        Self { ip_version, nodes, data, node_count: None, record_size: 32 }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for node in &self.nodes {
            bytes.extend(node.iter().flat_map(|child| child.to_be_bytes()));
        }
        bytes.extend([0; 16]);
        bytes.extend(&self.data);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        let node_count = self.node_count.unwrap_or(u32::try_from(self.nodes.len()).unwrap());
        bytes.push(0xe0 | 9);
        bytes.extend([text("binary_format_major_version"), vec![0xa1, 2]].concat());
        bytes.extend([text("binary_format_minor_version"), vec![0xa0]].concat());
        bytes.extend([text("build_epoch"), vec![0x04, 2, 0x65, 0, 0, 0]].concat());
        bytes.extend([text("database_type"), text("Test")].concat());
        bytes.extend([text("description"), vec![0xe0]].concat());
        bytes.extend([text("ip_version"), vec![0xa1, self.ip_version]].concat());
        bytes.extend([text("languages"), vec![0x00, 4]].concat());
        bytes.extend([text("node_count"), vec![0xc4], node_count.to_be_bytes().to_vec()].concat());
        bytes.extend([text("record_size"), vec![0xa1, self.record_size]].concat());
        bytes
    }
}

/// A text as the data section has it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    let head = if length < 29 { vec![0x40 | length] } else { vec![0x5d, length - 29] };
    [head, text.as_bytes().to_vec()].concat()
}

/// A pointer into the data section.
pub(crate) fn pointer(offset: u32) -> Vec<u8> {
    [vec![0x38], offset.to_be_bytes().to_vec()].concat()
}

/// The beginning of a list of many.
pub(crate) fn list(length: u32) -> Vec<u8> {
    assert!(length >= 65_821);
    let [_, a, b, c] = (length - 65_821).to_be_bytes();
    vec![0x1f, 4, a, b, c]
}

/// `{"country_code": code}`.
pub(crate) fn country(code: &str) -> Vec<u8> {
    [vec![0xe1], text("country_code"), text(code)].concat()
}
