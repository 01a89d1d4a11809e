//! From vendors' files to one snapshot: readers of every schema, merge, gap filling, flags, report, download.
//!
//! Vendors' shapes end here: what comes out are final records, which `geo` answers from.

mod facts;

pub use facts::{Facts, Range, Table};
