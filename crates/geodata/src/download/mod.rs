//! The client that brings vendors' files into a cache folder: whole, verified and resumable, or not at all.
//!
//! A good file is replaced by a better one in a single step, after its length and checksum were found right; whatever
//! goes wrong before leaves it as it was. Beside `FILE` lie `FILE.meta` (what its server said of it, for the next
//! conditional request), `FILE.lock` (one download of a file at a time, in all processes) and, while a download is
//! under way or cut, `FILE.part` with `FILE.part.meta`.
//!
//! **HTTPS only**, unless the operator wrote `http://` himself: a redirect never leads from HTTPS to plain HTTP, and a
//! password goes over plain HTTP to no machine but this one. Proxies are taken from the environment (`HTTPS_PROXY`,
//! `NO_PROXY` and their kin), except for this machine; cookies are neither kept nor sent.
//!
//! No password and no query of a URL ever leaves in an error, a `Debug` or a file.

mod answer;
mod archive;
pub(crate) mod checksum;
mod client;
mod error;
mod patience;
mod shelf;
mod url;
mod vendors;

pub use archive::unpack_mmdb;
pub use checksum::Checksum;
pub use client::{Download, Downloader, Outcome, Progress};
pub use error::DownloadError;
pub use patience::Patience;
pub use url::{Credentials, SourceUrl};
pub use vendors::{DbIpEdition, Vendors, dbip_urls, maxmind_download};
