//! What one source says, in our own words: every reader ends here, whatever its vendor calls things.

use ipse_model::Degrees;

/// What one source says about a range of addresses. What it does not say is `None`; an empty text is never kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The city's English name.
    pub city: Option<Box<str>>,
    /// The name of the first level of subdivision.
    pub region: Option<Box<str>>,
    /// Its ISO 3166-2 code, whole (`US-CA`), where the source has one.
    pub region_code: Option<Box<str>>,
    /// ISO 3166-1 alpha-2, in capitals.
    pub country: Option<[u8; 2]>,
    /// Degrees north. Known together with the longitude, or not at all.
    pub latitude: Option<Degrees>,
    /// Degrees east.
    pub longitude: Option<Degrees>,
    /// The IANA time zone, as the source writes it.
    pub zone: Option<Box<str>>,
    /// The postal code.
    pub postal_code: Option<Box<str>>,
    /// The autonomous system's number; never 0.
    pub asn: Option<u32>,
    /// The name of the organisation that runs it.
    pub org: Option<Box<str>>,
    /// Whether the source calls the address a VPN, a proxy or an exit of Tor.
    pub proxy: Option<bool>,
    /// Whether the source calls the address one of a hosting provider.
    pub hosting: Option<bool>,
}

/// A range of addresses, both ends included, and the index of what is said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<T> {
    /// The lowest address.
    pub first: T,
    /// The highest address.
    pub last: T,
    /// The index into `Table::facts`.
    pub facts: u32,
}

/// All that one source says: ranges in ascending order that do not overlap, over distinct facts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// IPv4, as numbers.
    pub v4: Vec<Range<u32>>,
    /// IPv6, as numbers.
    pub v6: Vec<Range<u128>>,
    /// What is said, each once.
    pub facts: Vec<Facts>,
}
