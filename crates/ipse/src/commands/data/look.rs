//! `ipse data info`, `lookup`, `verify` and `diff`: looking into snapshots.

use super::report::{self, grouped};
use crate::commands::{moment, print, print_json, read, say};
use crate::error::Error;
use crate::geo;
use crate::settings::GeoFlags;
use crate::table::Table;
use clap::Args;
use ipse_edge::Clock;
use ipse_geo::{FIELDS, Snapshot, diff, read_file, short_version};
use ipse_model::{Address, Answer, Client, Scope};
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Which snapshot to look into.
#[derive(Args)]
pub(in crate::commands) struct Which {
    /// A snapshot; by default the one that a server would serve
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: GeoFlags,
}

impl Which {
    fn bytes(&self) -> Result<Vec<u8>, Error> {
        match &self.file {
            Some(path) => file_bytes(path),
            None => geo::bytes(&read(&self.flags.0)?).map(|(bytes, _)| bytes),
        }
    }

    /// How the snapshot is called in a sentence.
    fn name(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new("the geo data"))
    }
}

pub(super) fn info(which: &Which, json: bool) -> Result<(), Error> {
    let bytes = which.bytes()?;
    let snapshot = open(which.name(), &bytes)?;
    if json {
        let mut about = serde_json::to_value(snapshot.atlas.about()).unwrap_or_default();
        about["version"] = snapshot.atlas.version().into();
        about["bytes"] = bytes.len().into();
        return print_json(&about);
    }
    let age = Clock::system().now().unix_ms / 1000 - snapshot.atlas.about().built;
    report::print_all(&snapshot, bytes.len())?;
    print(&format!("\nThe data is {} days old.\n", age.max(0) / 86_400))
}

pub(super) fn lookup(which: &Which, addresses: &[IpAddr], explain: bool) -> Result<(), Error> {
    let bytes = which.bytes()?;
    let snapshot = open(which.name(), &bytes)?;
    let answers: Vec<Value> = addresses.iter().map(|ip| answer(&snapshot, *ip, explain)).collect();
    match answers.as_slice() {
        [one] => print_json(one),
        several => print_json(&several),
    }
}

/// What the API would answer about an address, without what only a connection tells.
fn answer(snapshot: &Snapshot, ip: IpAddr, explain: bool) -> Value {
    let client = Client {
        address: Address::new(ip),
        http: None,
        tls_version: None,
        tls_cipher: None,
        rtt_ms: None,
        colo: None,
    };
    let found = snapshot.atlas.find(client.address);
    let answer = Answer { client: &client, now: Clock::system().now(), found: found.written() };
    let mut fields: Map<String, Value> =
        serde_json::from_slice(&answer.for_scope(Scope::Full)).unwrap_or_default();
    for field in ["status", "http_protocol", "tls_version", "tls_cipher", "rtt", "colo"] {
        fields.shift_remove(field);
    }
    if explain {
        let mut reasons: Map<String, Value> =
            snapshot.explain(found).into_iter().map(|(field, why)| (field.to_owned(), why.into())).collect();
        if !client.address.is_global() {
            let why = "the address is private or reserved: nobody has it on the internet";
            reasons.insert("note".to_owned(), why.into());
        } else if found.is_nothing() {
            reasons.insert("note".to_owned(), "no source has a record of this address".into());
        }
        fields.insert("explain".to_owned(), Value::Object(reasons));
    }
    Value::Object(fields)
}

pub(super) fn verify(path: &Path) -> Result<(), Error> {
    let bytes = file_bytes(path)?;
    let snapshot = open(path, &bytes)?;
    print(&format!(
        "{} is whole: snapshot {} of {}, {} bytes.\n",
        path.display(),
        short_version(snapshot.atlas.version()),
        moment(snapshot.atlas.about().built * 1000),
        grouped(bytes.len() as u64),
    ))
}

pub(super) fn difference(before: &Path, after: &Path) -> Result<(), Error> {
    let (old, new) = (file_bytes(before)?, file_bytes(after)?);
    // The first that cannot be read is named.
    open(before, &old)?;
    let changes = diff(&old, &new).map_err(|source| Error::snapshot(after, source))?;
    if changes.iter().all(|change| change.v4 == 0 && change.v6_ranges == 0) {
        return print("Every address has the same place and network in both.\n");
    }
    let mut table = Table::new(["FIELD", "IPv4 CHANGED", "GAINED", "LOST", "IPv6 RANGES CHANGED"]);
    for (field, change) in FIELDS.iter().zip(&changes) {
        table.row([
            (*field).to_owned(),
            grouped(change.v4),
            grouped(change.v4_gained),
            grouped(change.v4_lost),
            grouped(change.v6_ranges),
        ]);
    }
    print(&format!("{table}\n"))?;
    let mut examples = Table::new(["FIELD", "FROM ADDRESS", "BEFORE", "AFTER"]);
    for (field, change) in FIELDS.iter().zip(&changes) {
        for (first, old, new) in &change.examples {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
            examples.row([(*field).to_owned(), first.to_string(), shown(old), shown(new)]);
        }
    }
    print(&examples.to_string())?;
    say("Counts are public IPv4 addresses, and ranges of IPv6.");
    Ok(())
}

fn file_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    read_file(path).map_err(|source| Error::snapshot(path, source))
}

fn open(path: &Path, bytes: &[u8]) -> Result<Snapshot, Error> {
    Snapshot::read(bytes).map_err(|source| Error::snapshot(path, source))
}
