//! What tests and fault campaigns share: bare clients, a real browser, a mailbox, an authority that vouches for servers, servers that many nodes share and ways to
//! them, a machine to throw away, the real program as a process, and sockets to hand to it.

mod authority;
mod browser;
mod http;
mod http3;
mod link;
mod machine;
mod mail;
mod postgres;
mod redis;
mod server;
mod sockets;
mod visitor;

pub use authority::{Authority, Vouched};
pub use browser::Flow;
pub use http::{Connection, Response};
pub use http3::http3_client;
pub use link::{Link, Way};
pub use machine::Machine;
pub use mail::{Mail, MailDoor, MailMode, MailTls, Mailbox};
pub use postgres::Postgres;
pub use redis::{Cluster, Flavour, Redis, Watched};
pub use server::{Server, program};
pub use sockets::Sockets;
pub use visitor::{Visitor, encode, hidden_fields};
