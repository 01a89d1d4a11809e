//! What tests, fault campaigns and measurements share: bare clients, a real browser, an answer to compare with, a mailbox, an authority that vouches for servers, servers that many nodes share and ways to
//! them, a machine to throw away, the real program as a process, sockets to hand to it, what the kernel says of processes, and randomness that can be replayed.

mod authority;
mod browser;
mod full_body;
mod http;
mod http3;
mod link;
mod machine;
mod mail;
mod postgres;
mod random;
mod redis;
mod server;
mod sockets;
mod stopwatch;
mod visitor;
pub mod vitals;

pub use authority::{Authority, Vouched};
pub use browser::Flow;
pub use full_body::FullBody;
pub use http::{Connection, Response};
pub use http3::http3_client;
pub use link::{Link, Way};
pub use machine::Machine;
pub use mail::{Mail, MailDoor, MailMode, MailTls, Mailbox};
pub use postgres::Postgres;
pub use random::{Random, fresh_seed};
pub use redis::{Cluster, Flavour, Redis, Watched};
pub use server::{Server, program};
pub use sockets::Sockets;
pub use stopwatch::Stopwatch;
pub use visitor::{Visitor, encode, hidden_fields};
