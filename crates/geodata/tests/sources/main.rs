//! Vendors' files, written here in each vendor's shape, good and bad, and read as an owner would.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod hostile;
mod schemas;
mod write;

use ipse_geodata::sources::{self, Error, Kind, Source};
use ipse_geodata::{Facts, Range};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn read(file_name: &str, kind: Kind, bytes: &[u8]) -> Result<Source, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file_name);
    std::fs::write(&path, bytes).unwrap();
    sources::read(&path, kind, &mut |progress| assert!(progress.done <= progress.total))
}

#[track_caller]
fn refused(file_name: &str, kind: Kind, bytes: &[u8]) -> String {
    read(file_name, kind, bytes).unwrap_err().to_string()
}

/// What a source says about an address.
fn find<'a>(source: &'a Source, address: &str) -> Option<&'a Facts> {
    let table = &source.table;
    let index = match address.parse().unwrap() {
        IpAddr::V4(address) => search(&table.v4, u32::from(address)),
        IpAddr::V6(address) => search(&table.v6, u128::from(address)),
    };
    index.map(|index| &table.facts[index as usize])
}

fn search<T: Copy + Ord>(ranges: &[Range<T>], address: T) -> Option<u32> {
    ranges.iter().find(|range| range.first <= address && address <= range.last).map(|range| range.facts)
}

/// The ranges as text, in order.
fn ranges(source: &Source) -> Vec<String> {
    let v4 = source
        .table
        .v4
        .iter()
        .map(|range| (Ipv4Addr::from(range.first).into(), Ipv4Addr::from(range.last).into()));
    let v6 = source
        .table
        .v6
        .iter()
        .map(|range| (Ipv6Addr::from(range.first).into(), Ipv6Addr::from(range.last).into()));
    v4.chain(v6).map(|(first, last): (IpAddr, IpAddr)| format!("{first}-{last}")).collect()
}
