//! The process that reads hostile files, one after another, and tells what became of each. It may well die of one.

use super::good::Reads;
use anyhow::{Context, Result, bail};
use ipse_geo::Snapshot;
use ipse_geodata::Table;
use ipse_geodata::sources::{self, Kind};
use ipse_model::Address;
use ipse_testkit::{Random, Stopwatch};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// More than any file of a campaign may need, and less than the machine has: who asks for more dies of it.
const MOST_MEMORY: u64 = 3 << 30;
/// How many addresses are looked up in a snapshot that was accepted.
const LOOKUPS: u64 = 300;

/// Reads file after file, as they are named on standard input.
pub(crate) fn read_until_end() -> Result<()> {
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::As, limit(MOST_MEMORY)).context("cannot limit the memory")?;
    setrlimit(Resource::Core, limit(0)).context("cannot forbid core dumps")?;
    // A thread has less of a stack than the main one, and it is on threads that the program reads.
    let reader = std::thread::spawn(read_all);
    reader.join().unwrap_or_else(|_| bail!("the reader panicked"))
}

fn read_all() -> Result<()> {
    let mut output = std::io::stdout().lock();
    let mut warm = true;
    let mut at_rest = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (reads, path) = line.split_once(' ').context("no path")?;
        let (reads, path) = (parsed(reads)?, Path::new(path));
        if warm {
            at_rest = memory("VmRSS:")?;
            warm = false;
        }
        // From now on the peak is that of this file.
        std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
        let watch = Stopwatch::start();
        let refusal = read(reads, path);
        let milliseconds = watch.seconds() * 1e3;
        let peak = memory("VmHWM:")?.saturating_sub(at_rest);
        let (refusal, complaint) = match refusal {
            Ok(complaint) => (None, complaint),
            Err(refusal) => (Some(refusal), None),
        };
        let told = json!({ "refusal": refusal, "complaint": complaint, "ms": milliseconds, "peak": peak });
        writeln!(output, "{told}")?;
        output.flush()?;
    }
    Ok(())
}

/// The words for what reads a file, between the two processes.
pub(crate) fn written(reads: Reads) -> String {
    match reads {
        Reads::Source(kind) => kind.to_string(),
        Reads::Snapshot => "snapshot".to_owned(),
    }
}

fn parsed(reads: &str) -> Result<Reads> {
    let kinds = [Kind::City, Kind::Country, Kind::Asn, Kind::Anonymous];
    match kinds.into_iter().find(|kind| kind.to_string() == reads) {
        Some(kind) => Ok(Reads::Source(kind)),
        None if reads == "snapshot" => Ok(Reads::Snapshot),
        None => bail!("nobody reads {reads}"),
    }
}

/// Reads one file: what is wrong with what came out of it, or why it was refused.
fn read(reads: Reads, path: &Path) -> Result<Option<&'static str>, String> {
    match reads {
        Reads::Source(kind) => match sources::read(path, kind, &mut |_| {}) {
            Ok(source) => Ok(complaint(&source.table)),
            // The name of the file comes from us.
            Err(error) => Err(error.fault.to_string()),
        },
        Reads::Snapshot => {
            let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
            let snapshot = Snapshot::read(&bytes).map_err(|error| error.to_string())?;
            drop(bytes);
            look_around(&snapshot);
            Ok(None)
        }
    }
}

/// What the rest of the program relies on.
fn complaint(table: &Table) -> Option<&'static str> {
    let v4 = table.v4.iter().all(|range| range.first <= range.last)
        && table.v4.windows(2).all(|pair| pair[0].last < pair[1].first);
    let v6 = table.v6.iter().all(|range| range.first <= range.last)
        && table.v6.windows(2).all(|pair| pair[0].last < pair[1].first);
    let mut facts = table.v4.iter().map(|range| range.facts).chain(table.v6.iter().map(|range| range.facts));
    if !(v4 && v6) {
        Some("its ranges are out of order")
    } else if !facts.all(|index| (index as usize) < table.facts.len()) {
        Some("a range has facts that do not exist")
    } else {
        None
    }
}

/// Looks up addresses with everything that can be asked of what is found. Nothing is to be said about the answers;
/// they are to come.
fn look_around(snapshot: &Snapshot) {
    let mut random = Random::new(7);
    for round in 0..LOOKUPS {
        let any = u128::from(random.next()) << 64 | u128::from(random.next());
        let four = u32::try_from(any >> 96).unwrap_or(0);
        let ip = match round % 4 {
            0 => Ipv4Addr::from(four).into(),
            1 => Ipv4Addr::from(0x0100_0000 | four >> 12).into(),
            2 => Ipv6Addr::from(any >> 3 | 1 << 125).into(),
            _ => Ipv6Addr::from(0x2a00 << 112 | any >> 40).into(),
        };
        let found = snapshot.atlas.find(Address::new(ip));
        std::hint::black_box((
            found.place(),
            found.network().map(|network| network.asn),
            found.is_nothing(),
            snapshot.explain(found).len(),
        ));
        std::hint::black_box(found.written());
    }
}

/// A number of kilobytes from the kernel's account of this process, in bytes.
fn memory(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no account of memory")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
