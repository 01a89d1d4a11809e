//! MMDB files, written by hand, so that each of their parts can be made wrong by itself.

use std::collections::HashMap;

/// Where one half of a node leads.
#[derive(Clone, Copy)]
pub(crate) enum Child {
    Nothing,
    Node(u32),
    /// To the record at this place in the data.
    Data(u32),
    /// To this number, whatever it means.
    Number(u32),
}

/// A value of a record.
#[derive(Clone)]
pub(crate) enum Value {
    Text(String),
    Double(f64),
    Number(u32),
    Flag(bool),
    Map(Vec<(&'static str, Value)>),
    List(Vec<Value>),
    /// To a place in the data.
    Pointer(u32),
}

/// The types of values, as their heads number them.
pub(crate) const TEXT: u8 = 2;
pub(crate) const DOUBLE: u8 = 3;
pub(crate) const BYTES: u8 = 4;
pub(crate) const U16: u8 = 5;
pub(crate) const U32: u8 = 6;
pub(crate) const MAP: u8 = 7;
pub(crate) const U64: u8 = 9;
pub(crate) const LIST: u8 = 11;
pub(crate) const FLAG: u8 = 14;

/// What stands before the metadata.
pub(crate) const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// A database before it is written.
#[derive(Clone)]
pub(crate) struct Mmdb {
    /// The bits of an address.
    bits: u8,
    pub(crate) record_bits: u16,
    pub(crate) nodes: Vec<[Child; 2]>,
    pub(crate) data: Vec<u8>,
    /// Keys and values, both written already.
    pub(crate) metadata: Vec<(Vec<u8>, Vec<u8>)>,
    shared: HashMap<Vec<u8>, u32>,
}

impl Mmdb {
    pub(crate) fn new(database_type: &str, ip_version: u8, record_bits: u16) -> Self {
        let number = |value: u16| [head(U16, 2), value.to_be_bytes().to_vec()].concat();
        let metadata = vec![
            (text("binary_format_major_version"), number(2)),
            (text("binary_format_minor_version"), number(0)),
            (text("build_epoch"), [head(U64, 8), 1_700_000_000_u64.to_be_bytes().to_vec()].concat()),
            (text("database_type"), text(database_type)),
            (text("description"), [head(MAP, 1), text("en"), text("A test")].concat()),
            (text("ip_version"), number(ip_version.into())),
            (text("languages"), [head(LIST, 1), text("en")].concat()),
            (text("record_size"), number(record_bits)),
        ];
        Self {
            bits: if ip_version == 4 { 32 } else { 128 },
            record_bits,
            nodes: vec![[Child::Nothing; 2]],
            data: Vec::new(),
            metadata,
            shared: HashMap::new(),
        }
    }

    /// Writes a value once, and says where.
    pub(crate) fn keep(&mut self, value: &Value) -> u32 {
        let bytes = written(value);
        let here = number(self.data.len());
        let place = *self.shared.entry(bytes.clone()).or_insert(here);
        if place == here {
            self.data.extend(bytes);
        }
        place
    }

    /// Lets the addresses that begin with `length` bits of `prefix` lead somewhere. The bits stand at the top.
    pub(crate) fn network(&mut self, prefix: u128, length: u8, to: Child) {
        let mut node = 0;
        for depth in 0..length.min(self.bits) {
            let half = usize::from(prefix >> (127 - depth) & 1 == 1);
            if depth + 1 == length {
                self.nodes[node][half] = to;
                return;
            }
            node = match self.nodes[node][half] {
                Child::Node(next) => next as usize,
                before => {
                    self.nodes.push([before; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][half] = Child::Node(number(next));
                    next
                }
            };
        }
    }

    /// The node at a prefix, if one is there.
    pub(crate) fn node(&self, prefix: u128, length: u8) -> Option<u32> {
        (0..length).try_fold(0, |node, depth| {
            let half = usize::from(prefix >> (127 - depth) & 1 == 1);
            match self.nodes[node as usize][half] {
                Child::Node(next) => Some(next),
                _ => None,
            }
        })
    }

    /// Replaces what the metadata says under a name, or adds it.
    pub(crate) fn say(&mut self, name: &str, value: Vec<u8>) {
        let name = text(name);
        match self.metadata.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.metadata.push((name, value)),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut complete = self.metadata.clone();
        let count = text("node_count");
        if complete.iter().all(|(key, _)| *key != count) {
            complete.push((count, [head(U32, 4), number(self.nodes.len()).to_be_bytes().to_vec()].concat()));
        }
        let mut bytes = self.without_metadata();
        bytes.extend_from_slice(MARKER);
        bytes.extend(head(MAP, complete.len()));
        complete.iter().for_each(|(key, value)| {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
        });
        bytes
    }

    pub(crate) fn without_metadata(&self) -> Vec<u8> {
        let nodes = number(self.nodes.len());
        let mut bytes = Vec::with_capacity(self.nodes.len() * 8 + self.data.len() + 1024);
        for node in &self.nodes {
            let [left, right] = node.map(|child| match child {
                Child::Nothing => nodes,
                Child::Node(node) => node,
                Child::Data(place) => nodes.wrapping_add(16).wrapping_add(place),
                Child::Number(number) => number,
            });
            let ([a, b, c, d], [e, f, g, h]) = (left.to_be_bytes(), right.to_be_bytes());
            match self.record_bits {
                24 => bytes.extend([b, c, d, f, g, h]),
                28 => bytes.extend([b, c, d, a << 4 | e & 0xf, f, g, h]),
                _ => bytes.extend([a, b, c, d, e, f, g, h]),
            }
        }
        bytes.extend([0; 16]);
        bytes.extend_from_slice(&self.data);
        bytes
    }
}

/// The beginning of a value: its type and its size.
pub(crate) fn head(kind: u8, size: usize) -> Vec<u8> {
    let (low, more) = match size {
        0..29 => (size, vec![]),
        29..285 => (29, (size - 29).to_be_bytes()[7..].to_vec()),
        285..65_821 => (30, (size - 285).to_be_bytes()[6..].to_vec()),
        _ => (31, (size - 65_821).to_be_bytes()[5..].to_vec()),
    };
    let low = u8::try_from(low).unwrap_or(31);
    let mut head = if kind <= MAP { vec![kind << 5 | low] } else { vec![low, kind - 7] };
    head.extend(more);
    head
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [head(TEXT, text.len()), text.as_bytes().to_vec()].concat()
}

pub(crate) fn pointer(place: u32) -> Vec<u8> {
    [vec![0x38], place.to_be_bytes().to_vec()].concat()
}

pub(crate) fn written(value: &Value) -> Vec<u8> {
    match value {
        Value::Text(value) => text(value),
        Value::Double(value) => [head(DOUBLE, 8), value.to_be_bytes().to_vec()].concat(),
        Value::Number(value) => [head(U32, 4), value.to_be_bytes().to_vec()].concat(),
        Value::Flag(value) => head(FLAG, usize::from(*value)),
        Value::Map(entries) => entries.iter().fold(head(MAP, entries.len()), |mut bytes, (key, value)| {
            bytes.extend(text(key));
            bytes.extend(written(value));
            bytes
        }),
        Value::List(values) => values.iter().fold(head(LIST, values.len()), |mut bytes, value| {
            bytes.extend(written(value));
            bytes
        }),
        Value::Pointer(place) => pointer(*place),
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
