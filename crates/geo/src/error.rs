//! Why a file is not taken as a snapshot: each variant is a sentence that says what is wrong with it.

use std::io;

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read at all.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("it is a folder, a device or a pipe, and no file")]
    NotAFile,
    /// It would fill the memory.
    #[error("it has {found} bytes, which is larger than any snapshot (at most {limit})")]
    TooLarge {
        /// Its bytes.
        found: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The first bytes are not those of a snapshot.
    #[error(
        "it is no snapshot of ipse: it begins with other bytes (`ipse data build` makes one from a vendor's files)"
    )]
    Foreign,
    /// Another version of the format.
    #[error(
        "it is of format {found}, and this program reads format {expected}: build it again with this program"
    )]
    Version {
        /// What the file says.
        found: u32,
        /// What this program reads.
        expected: u32,
    },
    /// Fewer or more bytes than the file itself says it has.
    #[error("it should have {expected} bytes and has {found}: it was cut off, or something was added")]
    Length {
        /// What the file says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// The bytes were changed after they were written.
    #[error("its checksum does not match its content: it is damaged")]
    Checksum,
    /// The content was not written by the program's own writer.
    #[error("its column `{column}` is wrong: {what}")]
    Column {
        /// Which one.
        column: &'static str,
        /// What about it.
        what: &'static str,
    },
}
