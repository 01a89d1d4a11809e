//! Who the caller is: from the socket's peer and, only where that peer is trusted, from what it reports.

use crate::facts::{FactHeaders, Facts};
use crate::fields::{Fields, text};
use crate::forwarded;
use crate::tls::TlsFacts;
use http::HeaderName;
use ipnet::IpNet;
use ipse_model::{Address, Client, Colo, HttpVersion};
use std::net::IpAddr;
use std::str::FromStr;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED: HeaderName = http::header::FORWARDED;

/// Whom to believe, and what the operator says about this place.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The proxies whose forwarding headers are believed.
    pub proxies: Vec<IpNet>,
    /// The header in which they report the caller.
    pub header: AddressHeader,
    /// Replaces an address that is not global, for trying things on a laptop.
    pub pretend: Option<IpAddr>,
    /// The datacenter this program runs in.
    pub colo: Option<Colo>,
    /// The headers in which they report what they know of the caller's connection.
    pub facts: FactHeaders,
}

/// The header in which trusted proxies report the caller's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressHeader {
    /// `X-Forwarded-For` or `Forwarded`, whichever is there. If both are and disagree, neither is believed: one of
    /// them is set by the proxy, the other may come from the caller, and we cannot tell which.
    Auto,
    /// `X-Forwarded-For` alone.
    XForwardedFor,
    /// `Forwarded` alone (RFC 7239).
    Forwarded,
    /// A header that holds one address, such as `CF-Connecting-IP` or `X-Real-IP`.
    Single(HeaderName),
}

impl FromStr for AddressHeader {
    type Err = http::header::InvalidHeaderName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let name = HeaderName::from_str(text)?;
        Ok(if name == X_FORWARDED_FOR {
            Self::XForwardedFor
        } else if name == FORWARDED {
            Self::Forwarded
        } else {
            Self::Single(name)
        })
    }
}

/// What the connection itself tells about its peer. Above the edge it has one use: to have it explained how the caller
/// was found, see [`Trust::explain`].
pub struct Connection {
    pub(crate) peer: Address,
    pub(crate) arrival: Arrival,
    pub(crate) http: Option<HttpVersion>,
    pub(crate) tls: Option<TlsFacts>,
    pub(crate) rtt_ms: Option<u32>,
}

/// How a peer came to be the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The socket is its own.
    Socket,
    /// The peer of the socket introduced it with the PROXY protocol.
    Introduced {
        /// The peer of the socket.
        by: Address,
        /// Whether the introduced one shook hands with us, through the proxy.
        own_tls: bool,
    },
    /// The socket is its own, and it introduced nobody with the PROXY protocol. What it then sends may all the same be
    /// the words of somebody whom it does not name, so no header of it is believed.
    Silent,
    /// Nobody came: somebody wants to know what would be.
    Imagined,
}

impl Connection {
    /// A connection that nobody made, from this peer.
    #[must_use]
    pub fn imagined(peer: IpAddr) -> Self {
        let peer = Address::new(peer);
        Self { peer, arrival: Arrival::Imagined, http: None, tls: None, rtt_ms: None }
    }
}

/// A header that holds a list of hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    XForwardedFor,
    Forwarded,
}

impl List {
    pub(crate) fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
        }
    }

    /// The hops of all its lines, left to right.
    pub(crate) fn hops(self, headers: &impl Fields) -> Vec<Option<IpAddr>> {
        let mut hops = Vec::new();
        self.follow_back(headers, |hop| {
            hops.push(hop);
            true
        });
        hops.reverse();
        hops
    }

    /// Takes the hops of all its lines, right to left, as long as that is wanted.
    fn follow_back(self, headers: &impl Fields, mut take: impl FnMut(Option<IpAddr>) -> bool) {
        for line in headers.lines(&self.name()).rev() {
            let goes_on = match self {
                Self::XForwardedFor => match forwarded::v4(line) {
                    // The proxy names nobody else, as nearly always.
                    Some(only) => take(Some(only.into())),
                    None => forwarded::x_forwarded_for(line).rev().all(&mut take),
                },
                Self::Forwarded => forwarded::forwarded(line).into_iter().rev().all(&mut take),
            };
            if !goes_on {
                break;
            }
        }
    }
}

/// How far a list could be followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) list: List,
    /// The last address that is certain.
    pub(crate) address: Address,
    /// How many hops, counted from the right, led there.
    pub(crate) followed: usize,
}

/// What a trusted peer says about who the caller is.
pub(crate) struct Reported {
    pub(crate) address: Address,
    /// Where it came from.
    pub(crate) by: Word,
}

/// In which header a trusted peer said it.
pub(crate) enum Word {
    /// In this list.
    One(Walk),
    /// In both lists, which lead to the same address.
    Both(Walk, Walk),
    /// In both lists, which lead to different addresses.
    Contradiction(Walk, Walk),
    /// In the header that holds one address; `false` if it does not hold exactly one.
    Single(bool),
}

impl Trust {
    /// The caller of one request. Once a proxy speaks for the caller, the facts of the connection are the proxy's
    /// own and say nothing about the caller.
    pub(crate) fn client(&self, connection: &Connection, headers: &impl Fields) -> Client {
        self.client_of(self.reported(connection, headers).as_ref(), connection, headers)
    }

    /// The same, if it is known whom a trusted peer speaks for.
    pub(crate) fn client_of(
        &self,
        reported: Option<&Reported>,
        connection: &Connection,
        headers: &impl Fields,
    ) -> Client {
        let direct = reported.is_none();
        let mut address = reported.map_or(connection.peer, |reported| reported.address);
        if let Some(pretend) = self.pretend
            && !address.is_global()
        {
            address = Address::new(pretend);
        }
        let Facts { http, tls, rtt_ms, colo } = if direct {
            let Connection { http, tls, rtt_ms, .. } = connection;
            Facts { http: *http, tls: tls.clone(), rtt_ms: *rtt_ms, colo: None }
        } else {
            self.facts.read(headers)
        };
        Client {
            address,
            http,
            tls_version: tls.as_ref().map(|tls| tls.version),
            tls_cipher: tls.and_then(|tls| tls.cipher),
            rtt_ms,
            colo: colo.or(self.colo),
        }
    }

    /// Whom a trusted peer speaks for; `None` if it is not trusted, or says nothing at all.
    pub(crate) fn reported(&self, connection: &Connection, headers: &impl Fields) -> Option<Reported> {
        let peer = connection.peer;
        if connection.arrival == Arrival::Silent || !self.is_trusted(peer) {
            return None;
        }
        let one = |walk: Walk| Reported { address: walk.address, by: Word::One(walk) };
        match &self.header {
            AddressHeader::XForwardedFor => self.walk(peer, List::XForwardedFor, headers).map(one),
            AddressHeader::Forwarded => self.walk(peer, List::Forwarded, headers).map(one),
            AddressHeader::Auto => {
                let x_forwarded_for = self.walk(peer, List::XForwardedFor, headers);
                let forwarded = self.walk(peer, List::Forwarded, headers);
                match (x_forwarded_for, forwarded) {
                    (Some(first), Some(second)) if first.address != second.address => {
                        Some(Reported { address: peer, by: Word::Contradiction(first, second) })
                    }
                    (Some(first), Some(second)) => {
                        Some(Reported { address: first.address, by: Word::Both(first, second) })
                    }
                    (first, second) => first.or(second).map(one),
                }
            }
            AddressHeader::Single(name) => {
                headers.lines(name).next()?;
                let only = headers.only_line(name).and_then(text);
                let address = only.and_then(|text| forwarded::address(text.trim()));
                let by = Word::Single(address.is_some());
                Some(Reported { address: address.map_or(peer, Address::new), by })
            }
        }
    }

    /// From the right, hop by hop, as long as the last address is a trusted proxy that can vouch for the next.
    /// Rubbish ends the walk at the last address that is certain. A list without a single hop says nothing.
    fn walk(&self, peer: Address, list: List, headers: &impl Fields) -> Option<Walk> {
        let mut walk = Walk { list, address: peer, followed: 0 };
        let mut has_hops = false;
        list.follow_back(headers, |hop| {
            has_hops = true;
            match hop {
                Some(ip) if self.is_trusted(walk.address) => {
                    walk = Walk { address: Address::new(ip), followed: walk.followed + 1, ..walk };
                    true
                }
                _ => false,
            }
        });
        has_hops.then_some(walk)
    }

    pub(crate) fn is_trusted(&self, address: Address) -> bool {
        self.trusting(address).is_some()
    }

    /// The network of the trusted proxies that an address is in.
    pub(crate) fn trusting(&self, address: Address) -> Option<IpNet> {
        self.proxies.iter().find(|network| network.contains(&address.ip())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    fn trust(header: &str) -> Trust {
        Trust {
            proxies: ["127.0.0.0/8", "::1/128", "10.0.0.0/8"].map(|net| net.parse().unwrap()).to_vec(),
            header: header.parse().unwrap(),
            pretend: None,
            colo: Some("AMS".parse().unwrap()),
            facts: FactHeaders::default(),
        }
    }

    fn client(trust: &Trust, peer: &str, headers: &[(&str, &str)]) -> Client {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_str(name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let peer = Address::new(peer.parse().unwrap());
        let arrival = Arrival::Socket;
        let http = Some(HttpVersion::Http11);
        let connection = Connection { peer, arrival, http, tls: None, rtt_ms: Some(3) };
        trust.client(&connection, &map)
    }

    #[track_caller]
    fn check(header: &str, peer: &str, headers: &[(&str, &str)], expected: &str) {
        let client = client(&trust(header), peer, headers);
        assert_eq!(client.address.ip(), expected.parse::<IpAddr>().unwrap());
    }

    #[test]
    fn without_headers_the_peer_is_the_caller() {
        check("auto", "198.51.100.1", &[], "198.51.100.1");
        check("auto", "127.0.0.1", &[], "127.0.0.1");
        check("auto", "::ffff:198.51.100.1", &[], "198.51.100.1");
    }

    #[test]
    fn headers_of_a_peer_that_is_not_trusted_are_ignored() {
        for name in ["x-forwarded-for", "x-real-ip"] {
            check("auto", "198.51.100.1", &[(name, "203.0.113.1")], "198.51.100.1");
            check("x-real-ip", "198.51.100.1", &[(name, "203.0.113.1")], "198.51.100.1");
        }
        check("auto", "198.51.100.1", &[("forwarded", "for=203.0.113.1")], "198.51.100.1");
    }

    #[test]
    fn the_walk_goes_from_the_right_to_the_first_address_that_is_not_trusted() {
        check("auto", "127.0.0.1", &[("x-forwarded-for", "203.0.113.1")], "203.0.113.1");
        check("auto", "127.0.0.1", &[("x-forwarded-for", "6.6.6.6, 203.0.113.1")], "203.0.113.1");
        check("auto", "127.0.0.1", &[("x-forwarded-for", "6.6.6.6, 203.0.113.1, 10.1.1.1")], "203.0.113.1");
        check("auto", "127.0.0.1", &[("x-forwarded-for", "10.2.2.2, 10.1.1.1")], "10.2.2.2");
        check(
            "auto",
            "::1",
            &[("forwarded", "for=6.6.6.6, for=\"[2001:db8::9]\";by=10.0.0.1")],
            "2001:db8::9",
        );
    }

    #[test]
    fn a_header_without_a_hop_says_nothing() {
        check("auto", "127.0.0.1", &[("forwarded", ""), ("x-forwarded-for", "203.0.113.1")], "203.0.113.1");
        let direct = client(&trust("auto"), "127.0.0.1", &[("x-forwarded-for", " , ")]);
        assert_eq!(direct.http, Some(HttpVersion::Http11));
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = [("x-forwarded-for", "6.6.6.6, 203.0.113.1"), ("x-forwarded-for", "10.1.1.1")];
        check("auto", "127.0.0.1", &lines, "203.0.113.1");
        let lines = [("forwarded", "for=6.6.6.6"), ("forwarded", "for=203.0.113.1")];
        check("auto", "127.0.0.1", &lines, "203.0.113.1");
    }

    #[test]
    fn mapped_addresses_are_compared_unwrapped() {
        check("auto", "::ffff:127.0.0.1", &[("x-forwarded-for", "::ffff:203.0.113.1")], "203.0.113.1");
        check("auto", "127.0.0.1", &[("x-forwarded-for", "203.0.113.1, ::ffff:10.9.9.9")], "203.0.113.1");
    }

    #[test]
    fn rubbish_falls_back_to_the_last_address_that_is_certain() {
        check("auto", "127.0.0.1", &[("x-forwarded-for", "nonsense")], "127.0.0.1");
        check("auto", "127.0.0.1", &[("x-forwarded-for", "203.0.113.1, nonsense, 10.1.1.1")], "10.1.1.1");
        check("auto", "127.0.0.1", &[("forwarded", "for=203.0.113.1, for=_hidden")], "127.0.0.1");
        check("auto", "127.0.0.1", &[("forwarded", "for=203.0.113.1, for=\"10.1.1.1")], "127.0.0.1");
        let broken = [("forwarded", "for=203.0.113.1;by=\""), ("forwarded", "for=10.1.1.1")];
        check("auto", "127.0.0.1", &broken, "10.1.1.1");
    }

    #[test]
    fn two_headers_that_disagree_are_both_doubted() {
        let agreeing = [("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=203.0.113.1")];
        check("auto", "127.0.0.1", &agreeing, "203.0.113.1");
        let disagreeing = [("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=6.6.6.6")];
        check("auto", "127.0.0.1", &disagreeing, "127.0.0.1");
        check("x-forwarded-for", "127.0.0.1", &disagreeing, "203.0.113.1");
        check("forwarded", "127.0.0.1", &disagreeing, "6.6.6.6");
    }

    #[test]
    fn one_configured_header_holds_one_address() {
        check("cf-connecting-ip", "127.0.0.1", &[("CF-Connecting-IP", " 203.0.113.1 ")], "203.0.113.1");
        check(
            "x-real-ip",
            "127.0.0.1",
            &[("x-real-ip", "203.0.113.1"), ("x-forwarded-for", "6.6.6.6")],
            "203.0.113.1",
        );
        check(
            "x-real-ip",
            "127.0.0.1",
            &[("x-real-ip", "203.0.113.1"), ("x-real-ip", "6.6.6.6")],
            "127.0.0.1",
        );
        check("x-real-ip", "127.0.0.1", &[("x-real-ip", "203.0.113.1, 6.6.6.6")], "127.0.0.1");
        check("x-real-ip", "127.0.0.1", &[("x-forwarded-for", "6.6.6.6")], "127.0.0.1");
    }

    #[test]
    fn a_pretended_address_replaces_one_that_is_not_global() {
        let trust = Trust { pretend: Some("8.8.8.8".parse().unwrap()), ..trust("auto") };
        let pretended: IpAddr = "8.8.8.8".parse().unwrap();
        assert_eq!(client(&trust, "127.0.0.1", &[]).address.ip(), pretended);
        assert_eq!(client(&trust, "127.0.0.1", &[("x-forwarded-for", "10.0.0.9")]).address.ip(), pretended);
        let certain: IpAddr = "1.1.1.1".parse().unwrap();
        assert_eq!(client(&trust, "127.0.0.1", &[("x-forwarded-for", "1.1.1.1")]).address.ip(), certain);
    }

    #[test]
    fn the_connection_of_a_proxy_says_nothing_about_the_caller() {
        let direct = client(&trust("auto"), "127.0.0.1", &[]);
        assert_eq!((direct.http, direct.rtt_ms), (Some(HttpVersion::Http11), Some(3)));
        let untrusted = client(&trust("auto"), "198.51.100.1", &[("x-forwarded-for", "1.1.1.1")]);
        assert_eq!((untrusted.http, untrusted.rtt_ms), (Some(HttpVersion::Http11), Some(3)));
        for value in ["1.1.1.1", "rubbish"] {
            let proxied = client(&trust("auto"), "127.0.0.1", &[("x-forwarded-for", value)]);
            assert_eq!((proxied.http, proxied.rtt_ms), (None, None));
            assert_eq!(proxied.colo.unwrap().as_str(), "AMS");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_caller_sends_the_proxys_word_is_final(
            forged in prop::collection::vec(prop::collection::vec(0x20u8..=0xff, 0..40), 0..4), as_one_line: bool,
        ) {
            let mut lines = forged;
            lines.iter_mut().for_each(|line| line.retain(|byte| *byte != 0x7f));
            match lines.last_mut() {
                Some(last) if as_one_line => last.extend_from_slice(b", 203.0.113.1"),
                _ => lines.push(b"203.0.113.1".to_vec()),
            }
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(line).unwrap());
            }
            let connection = Connection::imagined("127.0.0.1".parse().unwrap());
            let found = trust("auto").client(&connection, &headers).address.ip();
            prop_assert_eq!(found, "203.0.113.1".parse::<IpAddr>().unwrap());
        }
    }
}
