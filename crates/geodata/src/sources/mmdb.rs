//! MMDB files: the search tree is walked here, its records are decoded by `maxminddb`.
//!
//! The crate bounds the depth and the size of one record, but not the work of a whole file: in a hostile one, paths of
//! the tree meet again and again, and millions of records share the same costly values. So each step is counted here,
//! and each distinct record decoded once.

use super::build::{self, Interner};
use super::file::Content;
use super::record::Record;
use super::{Fault, Found, Kind, Progress, Schema, Stage, TOLD_FIELDS, vendor};
use crate::clean;
use crate::facts::Range;
use maxminddb::{MaxMindDbError, Reader};
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The zeros between the tree and the data.
const SEPARATOR: u32 = 16;

/// Where IPv4 lies in a tree of IPv6: behind 96 zeros.
const V4_DEPTH: u8 = 96;

/// Where IPv4-mapped addresses begin.
const MAPPED: u128 = 0xffff << 32;

/// A cached record that says nothing of the wanted kind.
const NOTHING: u32 = u32::MAX;

/// How often progress is told, in steps.
const PROGRESS_STEPS: u64 = 1 << 18;

pub(super) fn read(
    content: &mut Content,
    file_name: &str,
    kind: Kind,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, Fault> {
    let bytes = load(content, progress)?;
    let reader = Reader::from_source(bytes.as_slice()).map_err(|error| fault(error, None))?;
    let metadata = reader.metadata();
    let tree = Tree {
        bytes: &bytes,
        nodes: metadata.node_count,
        record_bits: metadata.record_size,
        is_v6: metadata.ip_version == 6,
    };
    let mut walker = Walker::new(&reader, tree, kind, [bytes.len() as u64, content.size()], progress);
    let (v4, v6) = if tree.is_v6 { walker.both()? } else { (walker.v4(0, 0)?, Vec::new()) };
    let Walker { interner, names, networks, .. } = walker;
    if interner.is_empty() {
        return Err(Fault::NothingOfKind { kind, fields: names });
    }
    let description = metadata.description.values().map(String::as_str).collect::<Vec<_>>().join(" ");
    let schema =
        vendor::named(file_name, &metadata.database_type, &description).unwrap_or_else(|| shaped(&names));
    Ok(Found {
        table: interner.into_table(v4, v6),
        database_type: clean::text(&metadata.database_type),
        schema,
        built: Some(metadata.build_epoch).filter(|seconds| *seconds != 0),
        networks,
        overlaps: 0,
        bad_lines: 0,
        first_bad_lines: Vec::new(),
    })
}

fn load(content: &mut Content, progress: &mut dyn FnMut(Progress)) -> Result<Vec<u8>, Fault> {
    const PIECE: u64 = 4 << 20;
    let total = content.size();
    let mut bytes = Vec::with_capacity(content.expected());
    loop {
        let read = content.by_ref().take(PIECE).read_to_end(&mut bytes);
        let count = read.map_err(|error| content.fault(error))?;
        progress(Progress { stage: Stage::Bytes, done: content.offset().min(total), total });
        if count == 0 {
            return Ok(bytes);
        }
    }
}

/// The vendor whose shape records have that no name tells.
fn shaped(names: &[String]) -> Schema {
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(&name.as_str()));
    if has(&["anonymous_ip"]) {
        Schema::Ip66
    } else if has(&["state1", "state2", "postcode"]) {
        Schema::IpLocationDb
    } else if has(&["as_name", "as_domain"]) {
        Schema::IpInfo
    } else if has(&["region_name", "city_name", "proxy_type"]) {
        Schema::Ip2Location
    } else if has(&[
        "subdivisions",
        "registered_country",
        "autonomous_system_organization",
        "traits",
        "location",
    ]) {
        Schema::MaxMind
    } else {
        Schema::Other
    }
}

fn fault(error: MaxMindDbError, record: Option<u64>) -> Fault {
    match error {
        MaxMindDbError::InvalidDatabase { message, .. } if message.contains("could not find") => {
            Fault::Mmdb {
                offset: None,
                why: "the metadata at its end is missing, so it is cut off or something else".to_owned(),
            }
        }
        MaxMindDbError::InvalidDatabase { message, offset } => {
            Fault::Mmdb { offset: offset.map(|offset| offset as u64).or(record), why: message }
        }
        MaxMindDbError::Decoding { message, .. } | MaxMindDbError::ResourceLimit { message, .. } => {
            Fault::Mmdb { offset: record, why: message }
        }
        other => Fault::Mmdb { offset: record, why: other.to_string() },
    }
}

/// The search tree; nothing it says is believed.
#[derive(Clone, Copy)]
struct Tree<'a> {
    bytes: &'a [u8],
    nodes: u32,
    record_bits: u16,
    is_v6: bool,
}

impl Tree<'_> {
    /// Both children of a node: further nodes, `nodes` for nothing, or beyond it where data lies.
    fn children(&self, node: u32) -> Result<[u32; 2], Fault> {
        let size = usize::from(self.record_bits) / 4;
        let start = usize::try_from(node).unwrap_or(usize::MAX).saturating_mul(size);
        let found = match self.bytes.get(start..start.saturating_add(size)) {
            Some(&[a, b, c, d, e, f]) => [[0, a, b, c], [0, d, e, f]],
            Some(&[a, b, c, both, d, e, f]) => [[both >> 4, a, b, c], [both & 0xf, d, e, f]],
            Some(&[a, b, c, d, e, f, g, h]) => [[a, b, c, d], [e, f, g, h]],
            _ => return Err(self.wrong(node, "the search tree goes on behind the end of the file")),
        };
        Ok(found.map(u32::from_be_bytes))
    }

    fn wrong(&self, node: u32, why: &str) -> Fault {
        let offset = u64::from(node) * u64::from(self.record_bits) / 4;
        Fault::Mmdb { offset: Some(offset), why: why.to_owned() }
    }

    /// What stands at a prefix of IPv6; `None` if the way ends before.
    fn at(&self, prefix: u128, depth: u8) -> Result<Option<u32>, Fault> {
        let mut value = 0;
        for bit in 0..depth {
            if value >= self.nodes {
                return Ok(None);
            }
            value = self.children(value)?[usize::from(prefix >> (127 - bit) & 1 == 1)];
        }
        Ok(Some(value))
    }
}

/// Of IPv4 and of IPv6.
type Ranges = (Vec<Range<u32>>, Vec<Range<u128>>);

struct Walker<'a> {
    reader: &'a Reader<&'a [u8]>,
    tree: Tree<'a>,
    kind: Kind,
    progress: &'a mut dyn FnMut(Progress),
    interner: Interner,
    /// From where a record lies to what it says.
    known: HashMap<u32, u32>,
    names: Vec<String>,
    networks: u64,
    steps: u64,
    most_steps: u64,
    cost: u64,
    most_cost: u64,
    most_bytes: u64,
}

impl<'a> Walker<'a> {
    fn new(
        reader: &'a Reader<&'a [u8]>,
        tree: Tree<'a>,
        kind: Kind,
        [bytes, packed_bytes]: [u64; 2],
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self {
            reader,
            tree,
            kind,
            progress,
            interner: Interner::default(),
            known: HashMap::new(),
            names: Vec::new(),
            networks: 0,
            steps: 0,
            // A tree has two steps a node. Twice that leaves room for writers that let equal branches share nodes.
            most_steps: 4 * u64::from(tree.nodes) + 1024,
            cost: 0,
            // Names in many languages, which records share, make real files cost up to about one a byte.
            most_cost: 8 * bytes + (1 << 20),
            // Facts repeat what records share; real city files need two to four times their own size, and are packed
            // to a half.
            most_bytes: (8 * bytes).min(40 * packed_bytes) + (16 << 20),
        }
    }

    /// A tree of IPv6 with IPv4 in it.
    fn both(&mut self) -> Result<Ranges, Fault> {
        let v4_root = self.tree.at(0, V4_DEPTH)?;
        let mut v4 = match v4_root {
            Some(root) => self.v4(root, 0)?,
            None => Vec::new(),
        };
        if v4.is_empty()
            && let Some(root) = self.tree.at(MAPPED, V4_DEPTH)?
        {
            v4 = self.v4(root, MAPPED)?;
        }
        let v6 = self.v6(v4_root.filter(|root| *root < self.tree.nodes))?;
        Ok((v4, v6))
    }

    /// All of IPv4 below a node, whose addresses begin at `base` in a tree of IPv6.
    fn v4(&mut self, root: u32, base: u128) -> Result<Vec<Range<u32>>, Fault> {
        let mut ranges = Vec::new();
        let mut stack = vec![(root, 0_u8, 0_u32)];
        while let Some((value, depth, prefix)) = stack.pop() {
            self.step(value)?;
            if value < self.tree.nodes {
                if depth == 32 {
                    return Err(self.tree.wrong(value, "the search tree is deeper than an address is long"));
                }
                let [zero, one] = self.tree.children(value)?;
                stack.push((one, depth + 1, prefix | 1 << (31 - depth)));
                stack.push((zero, depth + 1, prefix));
            } else if value > self.tree.nodes {
                let address = if self.tree.is_v6 {
                    IpAddr::V6(Ipv6Addr::from(base | u128::from(prefix)))
                } else {
                    IpAddr::V4(Ipv4Addr::from(prefix))
                };
                if let Some(facts) = self.facts(value, address)? {
                    let last = prefix | u32::MAX.checked_shr(u32::from(depth)).unwrap_or(0);
                    build::append(&mut ranges, Range { first: prefix, last, facts });
                }
            }
        }
        Ok(ranges)
    }

    /// All of IPv6 but for IPv4 itself, its mapped addresses, and the prefixes that lead to the same nodes again, as
    /// those of 6to4 and Teredo do.
    fn v6(&mut self, v4_root: Option<u32>) -> Result<Vec<Range<u128>>, Fault> {
        let mut ranges = Vec::new();
        let mut stack = vec![(0_u32, 0_u8, 0_u128)];
        while let Some((value, depth, prefix)) = stack.pop() {
            self.step(value)?;
            let is_v4 = depth == V4_DEPTH && (prefix == 0 || prefix == MAPPED);
            let is_alias = prefix != 0 && Some(value) == v4_root;
            if is_v4 || is_alias {
                continue;
            }
            if value < self.tree.nodes {
                if depth == 128 {
                    return Err(self.tree.wrong(value, "the search tree is deeper than an address is long"));
                }
                let [zero, one] = self.tree.children(value)?;
                stack.push((one, depth + 1, prefix | 1 << (127 - depth)));
                stack.push((zero, depth + 1, prefix));
            } else if value > self.tree.nodes
                && let Some(facts) = self.facts(value, IpAddr::V6(Ipv6Addr::from(prefix)))?
            {
                let last = prefix | u128::MAX.checked_shr(u32::from(depth)).unwrap_or(0);
                build::append(&mut ranges, Range { first: prefix, last, facts });
            }
        }
        Ok(ranges)
    }

    fn step(&mut self, value: u32) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps > self.most_steps {
            let node = value.min(self.tree.nodes);
            return Err(self
                .tree
                .wrong(node, "the search tree comes back to nodes that were visited before"));
        }
        if self.steps.is_multiple_of(PROGRESS_STEPS) {
            let total = u64::from(self.tree.nodes);
            (self.progress)(Progress { stage: Stage::Nodes, done: (self.steps / 2).min(total), total });
        }
        Ok(())
    }

    /// What the record says to which `value` leads, as `address` does.
    fn facts(&mut self, value: u32, address: IpAddr) -> Result<Option<u32>, Fault> {
        self.networks += 1;
        if let Some(facts) = self.known.get(&value) {
            return Ok(Some(*facts).filter(|facts| *facts != NOTHING));
        }
        let tree_bytes = u64::from(self.tree.nodes) * u64::from(self.tree.record_bits) / 4;
        // The offset counts from the separator, which no record lies in.
        let offset = tree_bytes + u64::from(value - self.tree.nodes);
        if value - self.tree.nodes < SEPARATOR {
            let why = "the search tree leads between itself and the records".to_owned();
            return Err(Fault::Mmdb { offset: Some(offset), why });
        }
        let found = self.reader.lookup(address).map_err(|error| fault(error, Some(offset)))?;
        if self.names.is_empty()
            && let Ok(Some(names)) = found.decode::<BTreeMap<&str, IgnoredAny>>()
        {
            self.names =
                names.into_keys().filter_map(clean::text).take(TOLD_FIELDS).map(String::from).collect();
        }
        let record =
            found.decode::<Record<'_>>().map_err(|error| fault(error, Some(offset)))?.unwrap_or_default();
        self.cost += record.cost;
        let facts = self.interner.index(record.gather.facts(self.kind));
        if self.cost > self.most_cost || self.interner.bytes() > self.most_bytes {
            let why =
                "its records repeat the same values more often than a file of this size should".to_owned();
            return Err(Fault::Mmdb { offset: Some(offset), why });
        }
        self.known.insert(value, facts.unwrap_or(NOTHING));
        Ok(facts)
    }
}
