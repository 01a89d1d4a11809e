//! Why geo data was not updated, in words that say what to do. The old data is untouched in every case.

use crate::build::BuildError;
use crate::download::DownloadError;
use crate::flags::OperatorFileError;
use crate::sources;
use std::io;
use std::path::{Path, PathBuf};

/// Geo data was not updated. What was there before is untouched.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Nothing to build from.
    #[error("no source of geo data is set: name one with geo_source")]
    NothingWanted,
    /// A vendor who wants to know who asks.
    #[error("{wanted} needs an account with MaxMind: set maxmind_account and maxmind_key_file")]
    NoCredentials {
        /// The source, as it is written.
        wanted: String,
    },
    /// Another process, or the server's timer.
    #[error("another update of {target} is running; wait until it is done", target = .0.display())]
    Busy(PathBuf),
    /// A file did not arrive.
    #[error("{wanted}: {source}")]
    Download {
        /// The source, as it is written.
        wanted: String,
        /// Why.
        #[source]
        source: DownloadError,
    },
    /// A file that cannot be read.
    #[error("{wanted}: {source}{}", if *.is_downloaded { "; the next update fetches it again" } else { "" })]
    Source {
        /// The source, as it is written.
        wanted: String,
        /// Why.
        #[source]
        source: sources::Error,
        /// Whether it came from a vendor just now.
        is_downloaded: bool,
    },
    /// An operator's file of flags.
    #[error(transparent)]
    Flags(#[from] OperatorFileError),
    /// The sources do not make a snapshot.
    #[error("the snapshot cannot be built: {0}")]
    Build(#[from] BuildError),
    /// The new snapshot is not what was written.
    #[error("the new snapshot cannot be read back, so it is not used: {0}")]
    Unreadable(ipse_geo::Error),
    /// The sources say nothing that an answer could hold.
    #[error("the sources know nothing about any address: look at what geo_source names")]
    KnowsNothing,
    /// The new snapshot would be a step back.
    #[error(
        "the new data knows {field} of {:.2} % of {family} addresses, and the data in use of {:.2} %: it is not used; \
         look at the sources, and if it is right, run `ipse data update --force`",
        .new * 100.0, .old * 100.0
    )]
    KnowsLess {
        /// The field of an answer.
        field: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// The share in the new snapshot, 0 to 1.
        new: f64,
        /// The share in the one that it would replace.
        old: f64,
    },
    /// The disk did not do what it was asked.
    #[error("cannot read or write {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A fault of the program.
    #[error("the update ended unexpectedly, which is a fault of the program; the old data stays")]
    Died,
}

impl UpdateError {
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
