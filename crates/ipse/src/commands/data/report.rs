//! What a snapshot is made of, in tables.

use crate::commands::{moment, print};
use crate::error::Error;
use crate::table::Table;
use ipse_geo::{Snapshot, short_version};

pub(super) fn print_all(snapshot: &Snapshot, bytes: usize) -> Result<(), Error> {
    print(&text(snapshot, bytes))
}

fn text(snapshot: &Snapshot, bytes: usize) -> String {
    let about = snapshot.atlas.about();
    let mut text = format!(
        "Snapshot {}\nBuilt    {} by {}, {} bytes\n\n",
        short_version(snapshot.atlas.version()),
        moment(about.built * 1000),
        about.builder,
        grouped(bytes as u64),
    );

    let mut sources = Table::new(["SOURCE", "FOR", "FILE", "DATE", "RANGES", "SKIPPED", "LICENCE"]);
    for source in &about.sources {
        sources.row([
            source.name.clone(),
            source.kind.clone(),
            source.file.clone(),
            source.built.map_or_else(|| "unknown".to_owned(), date),
            grouped(source.ranges),
            grouped(source.skipped),
            source.licence.clone().unwrap_or_else(|| "unknown".to_owned()),
        ]);
    }
    text += &format!("{sources}\n");

    let mut coverage = Table::new(["FIELD", "IPv4", "IPv6"]);
    for row in &about.coverage {
        let field = match &row.within {
            Some(within) => format!("{} where {within} is known", row.field),
            None => row.field.clone(),
        };
        coverage.row([field, percent(row.v4), percent(row.v6)]);
    }
    text +=
        &format!("Known, as a share of public IPv4 addresses and of announced IPv6 networks:\n{coverage}\n");

    let mut fills = Table::new(["FIELD", "FROM", "RECORDS", "IPv4"]);
    for fill in &about.fills {
        fills.row([fill.field.clone(), fill.by.clone(), grouped(fill.records), percent(fill.v4)]);
    }
    text += &format!("Where fields come from:\n{fills}\n");

    if about.conflicts.is_empty() {
        text += "No two sources of one kind contradict each other.\n\n";
    } else {
        let mut conflicts = Table::new(["FIELD", "BELIEVED", "NOT BELIEVED", "IPv4"]);
        for conflict in &about.conflicts {
            let (believed, other) = (conflict.believed.clone(), conflict.other.clone());
            conflicts.row([conflict.field.clone(), believed, other, percent(conflict.v4)]);
        }
        text += &format!("Where sources contradict each other:\n{conflicts}\n");
    }

    let mut columns = Table::new(["COLUMN", "BYTES", "PACKED"]);
    for (name, unpacked, packed) in &snapshot.columns {
        columns.row([(*name).to_owned(), grouped(*unpacked), grouped(*packed)]);
    }
    text += &format!("{columns}");

    let told = about.attributions();
    if !told.is_empty() {
        text += &format!("\nTo be said where results are shown:\n{}\n", told.join("\n"));
    }
    text
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

pub(super) fn date(unix_seconds: i64) -> String {
    moment(unix_seconds * 1000).chars().take(10).collect()
}

/// 12,345,678
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
