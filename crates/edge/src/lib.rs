//! The ground door: sockets, HTTP, and the certain facts about one caller.
//!
//! Every request comes out of here as a [`Visit`]: the request, the [`Client`](ipse_model::Client) who made it and the
//! moment it came. Nothing above looks at a socket or at a forwarding header.

mod acme;
mod body;
mod client;
mod clock;
mod crowd;
mod doctor;
mod facts;
mod fault;
mod fields;
mod forwarded;
mod front;
mod http1;
mod http2;
mod idle;
mod listen;
mod prompt;
mod proxy;
mod quic;
mod reply;
mod rtt;
mod serve;
mod strict;
mod tcp;
mod tls;
mod traffic;
mod wire;

pub use acme::{Acme, AcmePlan};
pub use body::{BodyFault, RequestBody};
pub use client::{AddressHeader, Connection, Trust};
pub use clock::{Clock, ClockHand, Stopwatch};
pub use doctor::{
    Diagnosis, Entrance, FactName, Fate, Hop, KnownFact, Origin, Peer, Reading, Remark, ShownHeader, Weight,
};
pub use facts::FactHeaders;
pub use fault::{FaultReplies, HttpFault};
pub use listen::{BindError, Handed, ListenAddr, NotAListenAddr, Opened, Opening, bind};
pub use prompt::{Ask, Draft, Nobody, Prompt, Said};
pub use quic::QuicDoor;
pub use reply::{Reply, whole};
pub use serve::{ConnectionLimits, Edge, Secrecy, Visit};
pub use tcp::{Door, Listener, Manner};
pub use tls::{CertificateError, CertificateFiles, Certificates, Tls};
pub use traffic::{FaultKind, Traffic, Way, WayReport};
