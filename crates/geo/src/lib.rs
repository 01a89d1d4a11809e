//! The geo snapshot in memory: from an address to its place and its network.
//!
//! An installation without data has the empty atlas, which knows nothing about anybody.

mod atlas;

pub use atlas::{Atlas, Entry, Found, Overlap};
