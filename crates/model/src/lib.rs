//! The words and rules of ipse, as plain values.
//!
//! Nothing here reads a clock, a file or a socket: time and randomness come in as arguments, and every rule can
//! be tried in a table. Everything above speaks these types, so a rule lives in one place.

mod address;
mod answer;
mod client;
mod counts;
mod digits;
mod durations;
mod fields;
mod hex;
mod key;
mod limits;
mod links;
mod place;
mod problem;
mod refusal;
mod scope;
mod secret;
mod time;
mod token;
mod window;
mod written;

pub use address::Address;
pub use answer::Answer;
pub use client::{Client, Colo, HttpVersion, NotAColo, TlsVersion};
pub use counts::{Counts, OwnCounts};
pub use digits::write as write_number;
pub use durations::{DURATION_BOUNDS_NS, DURATION_BUCKETS, Durations, duration_bucket};
pub use fields::{AddressFields, CipherFields, FlagFields, GeoFields, PathFields, ProtocolFields, Success};
pub use key::{Key, KeyHash, KeyId, KeyState, KeyText, NotAKey};
pub use limits::{
    BURST_LIMIT, BURST_WINDOW_MS, Charge, DAILY_LIMIT, DEMO_DAILY_LIMIT, DayAllowance, KEYS_PER_ACCOUNT,
    Meter,
};
pub use links::Links;
pub use place::{Degrees, Network, Place, UnknownZone, Zone};
pub use problem::{ErrorBody, Problem};
pub use refusal::Refusal;
pub use scope::{NotAScope, Scope};
pub use secret::{NotASecret, Secret, SecretHash};
pub use time::{Day, Now};
pub use token::{DoctorToken, NotADoctorToken};
pub use window::Window;
pub use written::{Area, Written, quote_into, quoted, system_names, unquoted};
