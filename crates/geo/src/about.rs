//! What a snapshot says about itself: where its data comes from, and how much of the internet it knows.

use crate::error::Error;
use crate::file::File;
use crate::rows;
use serde::{Deserialize, Serialize};

/// A snapshot's own description, kept in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// When it was built, in Unix seconds.
    pub built: i64,
    /// The version of the program that built it.
    pub builder: String,
    /// What it was built from.
    pub sources: Vec<Source>,
    /// How much of IPv4 and IPv6 is known.
    pub coverage: Vec<Coverage>,
    /// What was filled in, and by which rule.
    pub fills: Vec<Fill>,
    /// Fields about which two sources of one kind say different things.
    pub conflicts: Vec<Conflict>,
}

impl About {
    /// What a snapshot says about itself, without building its tables.
    pub fn read(snapshot: &[u8]) -> Result<Self, Error> {
        rows::about(&File::open(snapshot)?)
    }

    /// What the licences of the sources want to be said, each sentence once.
    #[must_use]
    pub fn attributions(&self) -> Vec<&str> {
        let mut told: Vec<&str> = Vec::new();
        for attribution in self.sources.iter().filter_map(|source| source.attribution.as_deref()) {
            if !told.contains(&attribution) {
                told.push(attribution);
            }
        }
        told
    }
}

/// As much of a version as tells two of them apart, for people.
#[must_use]
pub fn short_version(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

/// A file that a snapshot was built from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// What it was used for: `city`, `asn`, `country` or `anonymous`.
    pub kind: String,
    /// The vendor and the product.
    pub name: String,
    /// The name of the file, without folders.
    pub file: String,
    /// Its bytes as read.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// When its vendor built it, in Unix seconds.
    pub built: Option<i64>,
    /// The licence, if it is known.
    pub licence: Option<String>,
    /// What the licence wants to be said.
    pub attribution: Option<String>,
    /// How many ranges it has.
    pub ranges: u64,
    /// How many lines or records of it could not be used.
    pub skipped: u64,
}

/// How much of the public address space of one family a field is known for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The field of an answer.
    pub field: String,
    /// The field that must be known for an address to count; without one, every public address counts.
    pub within: Option<String>,
    /// Share of the IPv4 addresses that count, 0 to 1.
    pub v4: f64,
    /// Share of the IPv6 networks (/48) that count and are announced, 0 to 1.
    pub v6: f64,
}

/// How much of the public address space a rule filled a field for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// The field of an answer.
    pub field: String,
    /// What filled it: a source, or a rule.
    pub by: String,
    /// How many places or networks.
    pub records: u64,
    /// Share of the public IPv4 addresses, 0 to 1.
    pub v4: f64,
}

/// How often sources contradict each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conflict {
    /// The field of an answer.
    pub field: String,
    /// The source that was believed.
    pub believed: String,
    /// The one that was not.
    pub other: String,
    /// Share of the public IPv4 addresses, 0 to 1.
    pub v4: f64,
}
