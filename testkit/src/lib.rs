//! What tests and fault campaigns share: a bare HTTP client, and the real program as a process.

mod http;
mod server;

pub use http::{Connection, Response};
pub use server::{Server, program};
