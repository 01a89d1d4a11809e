//! From vendors' files to one snapshot: readers of every schema, merge, gap filling, flags, report, download.
//!
//! Vendors' shapes end here: what comes out are final records, which `geo` answers from.

mod build;
mod clean;
mod download;
mod facts;
mod fill;
mod flags;
pub mod sources;
mod update;

pub use build::{BuildError, Recipe, Step, build};
pub use download::{
    Checksum, Credentials, DbIpEdition, Download, DownloadError, Downloader, Outcome, Patience, Progress,
    SourceUrl, Vendors, dbip_urls, maxmind_download, unpack_mmdb,
};
pub use facts::{Facts, Range, Table};
pub use flags::{BadLine, BadLines, Fault, Flags, OperatorFileError, OperatorFiles, Reason, Ruling, Verdict};
pub use update::{
    Standing, Supply, UpdateError, UpdatePlan, UpdateStep, Updated, Wanted, WantedError, Watcher, update,
    write_snapshot,
};
