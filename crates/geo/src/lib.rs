//! The snapshot: one immutable file with final records, and the tables in memory that answer from it.
//!
//! A snapshot is written from a `Draft` and read into an `Atlas`. Vendors' files never come here: `geodata` makes
//! drafts of them.

mod about;
mod atlas;
mod column;
mod diff;
mod draft;
mod error;
mod explain;
mod file;
mod ranges;
mod rows;
mod table;
mod v4;
mod v6;
mod watched;

pub use about::{About, Conflict, Coverage, Fill, Source, short_version};
pub use atlas::{Atlas, Found};
pub use diff::{Change, FIELDS, diff};
pub use draft::{Disorder, Draft, NetworkId, Origin, PlaceId, TooMany};
pub use error::Error;
pub use explain::Snapshot;
pub use ranges::each_range_v4;
pub use watched::{Watched, read as read_file};
