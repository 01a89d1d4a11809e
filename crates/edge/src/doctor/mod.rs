//! The doctor: how the caller of one request was found, and who could have lied about it.
//!
//! What is said here is said about the caller that `client.rs` found, by the same walk over the same headers; nothing is
//! decided twice. It is made for one operator's eyes and kept nowhere.

mod fact;
mod header;
mod hop;
mod remark;
mod request;
mod setup;

pub use fact::{FactName, KnownFact, Origin};
pub use header::ShownHeader;
pub use hop::{Fate, Hop, Reading};
pub use remark::{Remark, Weight};
pub use setup::Entrance;

use crate::client::{AddressHeader, Arrival, Connection, Reported, Trust, Word};
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use ipse_model::{Address, Client};
use std::fmt::Display;

/// Everything there is to know about how one request was judged.
pub struct Diagnosis {
    /// The caller, as every answer knows them.
    pub client: Client,
    /// Why it is this address, in a sentence.
    pub why: String,
    /// The address that was found, if `pretend_ip` stands in for it.
    pub pretended_for: Option<Address>,
    /// The peer of our own socket.
    pub socket: Peer,
    /// Whom that peer introduced with the PROXY protocol.
    pub introduced: Option<Peer>,
    /// What the headers say in which trusted proxies report the caller.
    pub readings: Vec<Reading>,
    /// What is known of the caller's connection, and from whom.
    pub facts: [KnownFact; 5],
    /// What is worth saying about it.
    pub remarks: Vec<Remark>,
    /// All header lines of the request, those of one name together, without what may be a secret.
    pub headers: Vec<ShownHeader>,
}

/// Somebody at the other end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Their address.
    pub address: Address,
    /// The network of `trusted_proxy` that holds it; `None` if they are not trusted.
    pub trusted_by: Option<IpNet>,
}

impl Trust {
    /// How the caller of this request is found.
    #[must_use]
    pub fn explain(&self, connection: &Connection, headers: &HeaderMap) -> Diagnosis {
        let peer = |address| Peer { address, trusted_by: self.trusting(address) };
        let speaker = peer(connection.peer);
        let (socket, introduced) = match connection.arrival {
            Arrival::Introduced { by, .. } => (peer(by), Some(speaker)),
            Arrival::Socket | Arrival::Silent | Arrival::Imagined => (speaker, None),
        };
        let reported = self.reported(connection, headers);
        // Who introduced nobody is believed as little as a stranger.
        let is_silent = connection.arrival == Arrival::Silent;
        let speaker = Peer { trusted_by: speaker.trusted_by.filter(|_| !is_silent), ..speaker };
        let found = reported.as_ref().map_or(connection.peer, |reported| reported.address);
        let client = self.client(connection, headers);
        let mut diagnosis = Diagnosis {
            why: if is_silent { SILENT.to_owned() } else { why(self, speaker, reported.as_ref()) },
            pretended_for: (client.address != found).then_some(found),
            socket,
            introduced,
            readings: hop::readings(self, speaker, reported.as_ref(), headers),
            facts: fact::all(self, connection, reported.is_some(), &client, headers),
            remarks: Vec::new(),
            headers: header::all(self, headers),
            client,
        };
        diagnosis.remarks = request::remarks(self, &diagnosis, speaker, reported.as_ref(), headers);
        diagnosis
    }

    /// Header lines that only a caller who lies would send, one for each header that is believed: what a proxy that is
    /// set up well never lets pass.
    #[must_use]
    pub fn forged_headers(&self) -> Vec<String> {
        let addresses = self.address_headers().into_iter().map(|name| match name {
            name if name == http::header::FORWARDED => format!("{name}: for={FORGED_ADDRESS}"),
            name => format!("{name}: {FORGED_ADDRESS}"),
        });
        let facts = self.fact_headers().map(|(_, name)| format!("{name}: {FORGED_FACT}"));
        addresses.chain(facts).collect()
    }

    /// The headers in which the caller's address may stand.
    fn address_headers(&self) -> Vec<HeaderName> {
        use crate::client::List::{Forwarded, XForwardedFor};
        match &self.header {
            AddressHeader::Auto => vec![XForwardedFor.name(), Forwarded.name()],
            AddressHeader::XForwardedFor => vec![XForwardedFor.name()],
            AddressHeader::Forwarded => vec![Forwarded.name()],
            AddressHeader::Single(name) => vec![name.clone()],
        }
    }

    /// The headers of facts that are set up.
    fn fact_headers(&self) -> impl Iterator<Item = (FactName, &HeaderName)> {
        FactName::ALL.into_iter().filter_map(|name| Some((name, name.header(&self.facts)?)))
    }
}

/// An address of nobody: it is kept for documentation.
const FORGED_ADDRESS: &str = "192.0.2.66";
/// A value that no fact can have.
const FORGED_FACT: &str = "forged";

const SILENT: &str = "The peer introduced nobody with the PROXY protocol: so it is taken for the caller itself, and no header \
                      is believed.";

/// Why the caller's address is the one it is.
fn why(trust: &Trust, speaker: Peer, reported: Option<&Reported>) -> String {
    let names = quoted(&trust.address_headers());
    match reported.map(|reported| &reported.by) {
        None if speaker.trusted_by.is_none() => {
            "It is that of the peer, which is no trusted proxy: it speaks for \
                                                 itself, and no header is believed."
                .to_owned()
        }
        None => format!(
            "The peer is a trusted proxy, but it names nobody in {}: so it is taken for the caller itself.",
            joined(&trust.address_headers(), "or"),
        ),
        Some(Word::Single(true)) => format!("The peer is a trusted proxy, and names it in {names}."),
        Some(Word::Single(false)) => format!(
            "The peer is a trusted proxy, but {names} does not hold exactly one address: so the last that is certain \
             is the peer itself."
        ),
        Some(Word::Contradiction(..)) => format!(
            "The peer is a trusted proxy, but {names} lead to different addresses, and one of the two may come from \
             the caller: so neither is believed, and the last that is certain is the peer itself."
        ),
        Some(Word::One(walk) | Word::Both(walk, _)) => {
            let name = walk.list.name();
            match (walk.followed, trust.trusting(walk.address)) {
                (0, _) => format!(
                    "The peer is a trusted proxy, but the last entry of `{name}` is no address: so the last that is \
                     certain is the peer itself."
                ),
                (_, None) => {
                    format!(
                        "It is the first address of `{name}`, read from the right, that is no trusted proxy."
                    )
                }
                (_, Some(_)) => format!(
                    "It is the last address of `{name}`, read from the right, that is certain, although it is a \
                     trusted proxy's."
                ),
            }
        }
    }
}

/// Names as they stand in a sentence: `a`, `b` and `c`.
fn quoted<T: Display>(names: &[T]) -> String {
    joined(names, "and")
}

/// The same with another word before the last.
fn joined<T: Display>(names: &[T], word: &str) -> String {
    let mut names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} {word} {last}", names.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::FactHeaders;
    use http::HeaderValue;
    use ipse_model::{HttpVersion, TlsVersion};
    use proptest::prelude::*;
    use std::net::IpAddr;
    use std::str::FromStr;

    pub(super) fn trust(header: &str) -> Trust {
        let named = |name| Some(HeaderName::from_static(name));
        Trust {
            proxies: ["127.0.0.0/8", "::1/128", "10.0.0.0/8"].map(|net| net.parse().unwrap()).to_vec(),
            header: header.parse().unwrap(),
            pretend: None,
            colo: Some("AMS".parse().unwrap()),
            facts: FactHeaders {
                tls_version: named("x-tls-version"),
                rtt: named("x-rtt"),
                ..FactHeaders::default()
            },
        }
    }

    pub(super) fn map(headers: &[(&str, &str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (HeaderName::from_str(name).unwrap(), HeaderValue::from_str(value).unwrap()))
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    pub(super) fn explain(header: &str, peer: &str, headers: &[(&str, &str)]) -> Diagnosis {
        trust(header).explain(&Connection::imagined(peer.parse().unwrap()), &map(headers))
    }

    #[track_caller]
    fn check(header: &str, peer: &str, headers: &[(&str, &str)], address: &str, why: &str) {
        let diagnosis = explain(header, peer, headers);
        assert_eq!(diagnosis.client.address.ip(), address.parse::<IpAddr>().unwrap());
        assert!(diagnosis.why.contains(why), "{}", diagnosis.why);
    }

    #[test]
    fn the_address_has_a_reason() {
        let list = ("x-forwarded-for", "6.6.6.6, 198.51.100.9, 10.1.1.1");
        check("auto", "198.51.100.1", &[list], "198.51.100.1", "no trusted proxy");
        check("auto", "127.0.0.1", &[list], "198.51.100.9", "read from the right, that is no trusted proxy");
        check(
            "auto",
            "127.0.0.1",
            &[("x-forwarded-for", "10.1.1.1")],
            "10.1.1.1",
            "although it is a trusted",
        );
        check("auto", "127.0.0.1", &[("x-forwarded-for", "unknown")], "127.0.0.1", "is no address");
        check("auto", "127.0.0.1", &[], "127.0.0.1", "names nobody in `x-forwarded-for` or `forwarded`");
        let other = ("forwarded", "for=6.6.6.6");
        check("auto", "127.0.0.1", &[list, other], "127.0.0.1", "lead to different addresses");
        check("x-real-ip", "127.0.0.1", &[("x-real-ip", "8.8.8.8")], "8.8.8.8", "names it in `x-real-ip`");
        check("x-real-ip", "127.0.0.1", &[("x-real-ip", "me")], "127.0.0.1", "not hold exactly one address");
    }

    #[test]
    fn peers_are_told_with_the_network_that_trusts_them() {
        let connection = Connection {
            peer: Address::new("198.51.100.1".parse().unwrap()),
            arrival: Arrival::Introduced { by: Address::new("10.0.0.1".parse().unwrap()), own_tls: false },
            http: None,
            tls: None,
            rtt_ms: None,
        };
        let diagnosis = trust("auto").explain(&connection, &HeaderMap::new());
        assert_eq!(diagnosis.socket.trusted_by, Some("10.0.0.0/8".parse().unwrap()));
        let introduced = diagnosis.introduced.unwrap();
        assert_eq!((introduced.address, introduced.trusted_by), (connection.peer, None));
    }

    #[test]
    fn a_pretended_address_is_told_from_the_one_that_was_found() {
        let trust = Trust { pretend: Some("8.8.8.8".parse().unwrap()), ..trust("auto") };
        let found = |headers: &[(&str, &str)]| {
            let peer = Connection::imagined("127.0.0.1".parse().unwrap());
            trust.explain(&peer, &map(headers)).pretended_for.map(Address::ip)
        };
        assert_eq!(found(&[]), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(found(&[("x-forwarded-for", "10.0.0.9")]), Some("10.0.0.9".parse().unwrap()));
        assert_eq!(found(&[("x-forwarded-for", "1.1.1.1")]), None);
    }

    #[test]
    fn lies_are_ready_for_every_header_that_is_believed() {
        let facts = ["x-tls-version: forged", "x-rtt: forged"];
        let lies = |header| trust(header).forged_headers();
        assert_eq!(
            lies("auto"),
            [&["x-forwarded-for: 192.0.2.66", "forwarded: for=192.0.2.66"], &facts[..]].concat()
        );
        assert_eq!(lies("x-real-ip"), [&["x-real-ip: 192.0.2.66"], &facts[..]].concat());
    }

    fn values() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "10.0.0.1",
            "127.0.0.1",
            "8.8.8.8",
            "2001:db8::1",
            "[::1]:80",
            "unknown",
            "_x",
            "for=8.8.8.8",
            "for=\"[2001:db8::1]\"",
            "for=10.0.0.1;by=1.1.1.1",
            "\"",
            "",
            "TLSv1.3",
            "12",
            "HTTP/2",
            "x-AMS",
        ]);
        prop::collection::vec(part, 1..5).prop_map(|parts| parts.join(", "))
    }

    proptest! {
        /// Addresses and facts are those that every answer has, whatever is sent, and what is said about them fits.
        #[test]
        fn what_is_explained_is_what_is_answered(
            header in prop::sample::select(vec!["auto", "x-forwarded-for", "forwarded", "x-real-ip"]),
            peer in prop::sample::select(vec!["127.0.0.1", "10.9.9.9", "198.51.100.1", "::1", "2001:db8::2"]),
            lines in prop::collection::vec((prop::sample::select(vec![
                "x-forwarded-for", "forwarded", "x-real-ip", "x-tls-version", "x-rtt", "cf-ray",
            ]), values()), 0..6),
            pretends: bool,
        ) {
            let pretend = pretends.then(|| "9.9.9.9".parse().unwrap());
            let trust = Trust { pretend, ..trust(header) };
            let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let headers = map(&lines);
            let connection = Connection {
                http: Some(HttpVersion::Http2),
                tls: Some(crate::tls::TlsFacts { version: TlsVersion::Tls13, cipher: None }),
                rtt_ms: Some(7),
                arrival: Arrival::Socket,
                ..Connection::imagined(peer.parse().unwrap())
            };
            let diagnosis = trust.explain(&connection, &headers);
            let client = trust.client(&connection, &headers);
            prop_assert_eq!(diagnosis.client.address, client.address);
            let texts = [
                client.http.map(|http| http.as_str().to_owned()),
                client.tls_version.map(|version| version.as_str().to_owned()),
                client.tls_cipher.map(|cipher| cipher.to_string()),
                client.rtt_ms.map(|ms| format!("{ms} ms")),
                client.colo.map(|colo| colo.to_string()),
            ];
            prop_assert_eq!(diagnosis.facts.clone().map(|fact| fact.value), texts);
            for fact in &diagnosis.facts {
                prop_assert_eq!(fact.value.is_some(), fact.origin.knows(), "{:?}", fact);
            }
            // Exactly one hop is the caller, in each list that is believed, and it is the address.
            let found = diagnosis.pretended_for.unwrap_or(client.address);
            for reading in &diagnosis.readings {
                let callers: Vec<_> = reading.hops.iter().filter(|hop| hop.fate == Fate::Caller).collect();
                prop_assert!(callers.len() <= 1);
                for caller in callers {
                    prop_assert_eq!(caller.address, Some(found));
                }
                let trusted = diagnosis.socket.trusted_by.is_some();
                prop_assert!(trusted || reading.hops.iter().all(|hop| hop.fate == Fate::NotBelieved));
            }
            let named = diagnosis.readings.iter().flat_map(|reading| &reading.hops);
            let is_named = named.filter(|hop| hop.fate == Fate::Caller).count() > 0;
            prop_assert!(is_named || found == connection.peer);
        }
    }
}
