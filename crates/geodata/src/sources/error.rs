//! Why a file cannot be read, in sentences that say what is wrong and where.

use super::Kind;
use std::io;

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {fault}")]
pub struct Error {
    /// The file's name, without its folder.
    pub file: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system does not let us open it.
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    /// A folder, a device or a pipe.
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    /// No byte in it.
    #[error("it is empty")]
    Empty,
    /// The system does not let us read on.
    #[error("it cannot be read after byte {offset}: {source}")]
    Read {
        /// How far reading came, in bytes of the file.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Another format, which we know by its first bytes.
    #[error("it is {what}, neither MMDB nor CSV; {advice}")]
    Foreign {
        /// What it is.
        what: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// Larger than any file of a vendor.
    #[error("it has more than {limit} bytes, more than any geo file should")]
    TooLarge {
        /// The most that is read.
        limit: u64,
    },
    /// A compressed file that unpacks to absurdly much.
    #[error("it unpacks to more than {limit} bytes, too many for a compressed file of {bytes} bytes")]
    Expands {
        /// The compressed file's size.
        bytes: u64,
        /// The most that would be unpacked.
        limit: u64,
    },
    /// A table that says absurdly much for the size of its file.
    #[error("its lines would take more than {limit} bytes of memory, too many for a file of {bytes} bytes")]
    Swells {
        /// The file's size as it lies there.
        bytes: u64,
        /// The most memory that its table may take.
        limit: u64,
    },
    /// Compressed data that does not unpack.
    #[error("its compressed data is damaged or cut off near byte {offset}: {why}")]
    Compressed {
        /// How far reading came, in bytes of the file.
        offset: u64,
        /// What the unpacker says.
        why: String,
    },
    /// A damaged MMDB.
    #[error("it is not a sound MMDB{}: {why}", at(*.offset))]
    Mmdb {
        /// Where, in bytes of the unpacked file.
        offset: Option<u64>,
        /// What is wrong there.
        why: String,
    },
    /// A table whose columns nobody knows.
    #[error("line {line} does not say what the columns are: {why}")]
    Columns {
        /// The line, counted from one.
        line: u64,
        /// What is missing.
        why: String,
    },
    /// A text that is no table of ranges.
    #[error("{bad} of {lines} lines cannot be read; the first is line {line}: {why}")]
    BadLines {
        /// How many lines are bad.
        bad: u64,
        /// How many lines were read by then.
        lines: u64,
        /// The first bad line, counted from one.
        line: u64,
        /// What is wrong there.
        why: String,
    },
    /// A sound file about something else.
    #[error("it says nothing about {}; what it has is {}", .kind.subject(), list(.fields))]
    NothingOfKind {
        /// What was looked for.
        kind: Kind,
        /// The names of the fields that were found instead.
        fields: Vec<String>,
    },
}

fn at(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at byte {offset}")).unwrap_or_default()
}

fn list(fields: &[String]) -> String {
    if fields.is_empty() { "no field at all".to_owned() } else { fields.join(", ") }
}
