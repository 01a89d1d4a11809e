//! What tests and fault campaigns share: bare clients, the real program as a process, and sockets to hand to it.

mod http;
mod http3;
mod server;
mod sockets;

pub use http::{Connection, Response};
pub use http3::http3_client;
pub use server::{Server, program};
pub use sockets::Sockets;
