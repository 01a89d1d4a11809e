//! The lookup API: from a visit to its reply.
//!
//! `lookup.rs` is the pipeline, `reply.rs` the only place that knows status codes and headers.

mod credential;
mod lookup;
mod meta;
mod openapi;
mod reply;
mod requests;
mod routes;

pub use lookup::Lookup;
pub use reply::Replies;
pub use requests::{ApiOutcome, ApiRoute, PROTOCOLS, Requests};
pub use routes::Api;
