//! Readers of vendors' files: MMDB and CSV, plain or packed, each ending in one `Table`.
//!
//! Files come from the network and are not trusted: whatever their bytes are, reading ends, in time and memory that a
//! good file of the same size could need as well, with a table or with a sentence. Nothing here downloads or merges.

mod build;
mod error;
mod field;
mod file;
mod lines;
mod mmdb;
mod record;
mod vendor;

pub use error::{Error, Fault};
pub use vendor::Schema;

use crate::facts::Table;
use std::fmt;
use std::path::Path;

/// What a file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Where an address is: everything from the city to the coordinates.
    City,
    /// In which country it is, and nothing else.
    Country,
    /// On whose network it is.
    Asn,
    /// Whether it is a proxy's or a hosting provider's.
    Anonymous,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::City => "city",
            Self::Country => "country",
            Self::Asn => "asn",
            Self::Anonymous => "anonymous",
        })
    }
}

impl Kind {
    fn subject(self) -> &'static str {
        match self {
            Self::City => "places",
            Self::Country => "countries",
            Self::Asn => "autonomous systems",
            Self::Anonymous => "proxies and hosting",
        }
    }
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Whose it is and how it was.
    pub about: About,
    /// What it says.
    pub table: Table,
}

/// Whose file it is and how it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// What it was read for.
    pub kind: Kind,
    /// The file's name, without its folder.
    pub file_name: String,
    /// Its size as it lies there, packed or not.
    pub bytes: u64,
    /// The SHA-256 of these bytes.
    pub sha256: [u8; 32],
    /// What the file calls itself; CSV does not.
    pub database_type: Option<Box<str>>,
    /// The vendor whose shape it has.
    pub schema: Schema,
    /// When it was built, in seconds since 1970, if it says so.
    pub built: Option<u64>,
    /// The licence under which its vendor gives it away, if we know it.
    pub licence: Option<&'static str>,
    /// What the licence wants to be said.
    pub attribution: Option<&'static str>,
    /// How many networks or lines it has; neighbours that say the same are one range in the table.
    pub networks: u64,
    /// How many of its ranges began within another one.
    pub overlaps: u64,
    /// How many of its lines could not be read; at most one in a hundred.
    pub bad_lines: u64,
    /// The first few of them.
    pub first_bad_lines: Vec<BadLine>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line, counted from one.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// How much of it is done.
    pub done: u64,
    /// How much there is to do.
    pub total: u64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Bytes of the file are read.
    Bytes,
    /// Nodes of its search tree are visited.
    Nodes,
}

/// How many field names an error tells.
const TOLD_FIELDS: usize = 12;

/// What the reader of a format found.
struct Found {
    table: Table,
    database_type: Option<Box<str>>,
    schema: Schema,
    built: Option<u64>,
    networks: u64,
    overlaps: u64,
    bad_lines: u64,
    first_bad_lines: Vec<BadLine>,
}

/// Reads what a file says about one kind of thing.
pub fn read(path: &Path, kind: Kind, progress: &mut dyn FnMut(Progress)) -> Result<Source, Error> {
    let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match read_file(path, &file_name, kind, progress) {
        Ok(source) => Ok(source),
        Err(fault) => Err(Error { file: file_name, fault }),
    }
}

fn read_file(
    path: &Path,
    file_name: &str,
    kind: Kind,
    progress: &mut dyn FnMut(Progress),
) -> Result<Source, Fault> {
    let mut content = file::open(path)?;
    let found = match content.format()? {
        file::Format::Mmdb => mmdb::read(&mut content, file_name, kind, progress)?,
        file::Format::Lines => lines::read(&mut content, file_name, kind, progress)?,
    };
    let bytes = content.size();
    let sha256 = content.finish()?;
    let name = found.database_type.as_deref().unwrap_or_default();
    let terms = vendor::terms(found.schema, file_name, name);
    let about = About {
        kind,
        file_name: file_name.to_owned(),
        bytes,
        sha256,
        schema: found.schema,
        built: found.built,
        licence: terms.licence,
        attribution: terms.attribution,
        networks: found.networks,
        overlaps: found.overlaps,
        bad_lines: found.bad_lines,
        first_bad_lines: found.first_bad_lines,
        database_type: found.database_type,
    };
    Ok(Source { about, table: found.table })
}
