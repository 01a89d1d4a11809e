//! `ipse data build`: from vendors' files to a snapshot.

use super::progress::Bar;
use super::report;
use crate::commands::say;
use crate::error::Error;
use clap::Args;
use ipse_edge::Clock;
use ipse_geo::{About, Snapshot};
use ipse_geodata::sources::{self, Kind, Source};
use ipse_geodata::{Flags, OperatorFileError, OperatorFiles, Recipe, Step, build, write_snapshot};
use std::path::{Path, PathBuf};

/// What to build from. Several files of one kind form a chain: the first that knows a field wins.
#[derive(Args)]
pub(in crate::commands) struct Build {
    /// Where addresses are: MMDB or CSV, packed or not; repeatable
    #[arg(long, value_name = "FILE")]
    city: Vec<PathBuf>,
    /// In which country they are, where no city file knows; repeatable
    #[arg(long, value_name = "FILE")]
    country: Vec<PathBuf>,
    /// Whose networks they are; repeatable
    #[arg(long, value_name = "FILE")]
    asn: Vec<PathBuf>,
    /// Which are proxies or hosts; repeatable
    #[arg(long, value_name = "FILE")]
    anonymous: Vec<PathBuf>,
    /// Networks to flag or to spare: lines `deny ASN hosting|proxy|both` and `allow ASN`; repeatable
    #[arg(long, value_name = "FILE")]
    flags: Vec<PathBuf>,
    /// The day the snapshot says it was built, for builds that can be repeated byte for byte; by default now
    #[arg(long, value_name = "YYYY-MM-DD")]
    date: Option<jiff::civil::Date>,
    /// Where to write the snapshot
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(command: &Build) -> Result<(), Error> {
    let files = [
        (Kind::City, &command.city),
        (Kind::Country, &command.country),
        (Kind::Asn, &command.asn),
        (Kind::Anonymous, &command.anonymous),
    ];
    let files: Vec<(Kind, &Path)> =
        files.iter().flat_map(|(kind, paths)| paths.iter().map(|path| (*kind, path.as_path()))).collect();
    if files.is_empty() {
        return Err(Error::Refused(
            "name at least one file: --city, --country, --asn or --anonymous".to_owned(),
        ));
    }
    if is_something_else(&command.output) {
        return Err(Error::Refused(format!(
            "{} exists and is no snapshot: it is not overwritten",
            command.output.display()
        )));
    }
    let built = match command.date {
        Some(date) => date
            .to_zoned(jiff::tz::TimeZone::UTC)
            .map(|day| day.timestamp().as_second())
            .map_err(|error| Error::Refused(format!("--date: {error}")))?,
        None => Clock::system().now().unix_ms / 1000,
    };
    let refused = |error: OperatorFileError| Error::Refused(error.to_string());
    let flags = OperatorFiles::read(&command.flags).and_then(|files| files.flags()).map_err(refused)?;
    let snapshot = make(&files, &flags, built)?;
    let output = command.output.display();
    write_snapshot(&command.output, &snapshot)
        .map_err(|error| Error::Refused(format!("cannot write {output}: {error}")))?;
    let read = Snapshot::read(&snapshot).map_err(|error| Error::snapshot(&command.output, error))?;
    report::print_all(&read, snapshot.len())?;
    say(&format!("Wrote {output}."));
    Ok(())
}

/// Whether there is a file at which a person would be sorry for their own.
fn is_something_else(output: &Path) -> bool {
    let is_foreign = |bytes: Vec<u8>| matches!(About::read(&bytes), Err(ipse_geo::Error::Foreign));
    output.is_file() && ipse_geo::read_file(output).is_ok_and(is_foreign)
}

/// Reads the sources and builds a snapshot in memory, with a bar for whoever watches.
fn make(files: &[(Kind, &Path)], flags: &Flags, built: i64) -> Result<Vec<u8>, Error> {
    let mut sources: Vec<Source> = Vec::new();
    for (kind, path) in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bar = Bar::new(&format!("Reading {name}"));
        let source = sources::read(path, *kind, &mut |progress| bar.set(progress.done, progress.total));
        bar.finish();
        sources.push(source.map_err(|error| Error::Refused(error.to_string()))?);
    }
    for about in sources.iter().map(|source| &source.about) {
        if about.bad_lines > 0 || about.overlaps > 0 {
            say(&format!(
                "{}: {} lines could not be read, {} ranges overlapped others.",
                about.file_name, about.bad_lines, about.overlaps
            ));
        }
        for bad in &about.first_bad_lines {
            say(&format!("  line {}: {}", bad.line, bad.why));
        }
    }
    let bar = Bar::new("Merging");
    let mut packing = None;
    let snapshot = build(&Recipe { sources: &sources, flags, built }, &mut |step| match step {
        Step::Merging { done, total } => bar.set(done, total),
        Step::Packing => {
            bar.finish();
            packing = Some(Bar::spinner("Packing"));
        }
    });
    if let Some(packing) = packing {
        packing.finish();
    }
    snapshot.map_err(|error| Error::Refused(error.to_string()))
}
