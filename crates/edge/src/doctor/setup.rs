//! What can be said about a configuration before anybody calls: who is believed, and who that lets lie.

use super::quoted;
use super::remark::Remark;
use crate::client::{AddressHeader, Trust};
use crate::listen::ListenAddr;
use ipnet::IpNet;
use ipse_model::Address;
use std::net::IpAddr;

/// A door as it is planned, as far as it matters for who can come to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Where it is.
    pub at: ListenAddr,
    /// Whether trusted proxies introduce callers there.
    pub introduces: bool,
}

/// Below this length a network of IPv4 is a large part of the internet.
const LARGE_V4: u8 = 8;
/// The same for IPv6.
const LARGE_V6: u8 = 16;
/// How many networks a sentence names.
const NAMED: usize = 3;

impl Trust {
    /// What this configuration lets whom do, with these doors. The gravest stands first.
    #[must_use]
    pub fn review(&self, entrances: &[Entrance]) -> Vec<Remark> {
        let mut remarks = if self.proxies.is_empty() {
            self.review_nobody(entrances)
        } else {
            let mut remarks = self.review_networks(entrances);
            remarks.extend(self.review_headers());
            remarks
        };
        if let Some(pretend) = self.pretend {
            remarks.push(Remark::note(format!(
                "Callers whose address is not global are answered as if they were {pretend} (`pretend_ip`): that is \
                 for trying things, not for serving."
            )));
        }
        remarks.sort_by_key(|remark| remark.weight);
        remarks
    }

    fn review_nobody(&self, entrances: &[Entrance]) -> Vec<Remark> {
        let mut remarks = vec![Remark::note(
            "Nobody is trusted (`trusted_proxy` is `none`): the peer of each connection is the caller, and no header is \
             believed. Behind a proxy every caller would have the proxy's address.",
        )];
        if let Some(entrance) = entrances.iter().find(|entrance| entrance.introduces) {
            remarks.push(Remark::problem(format!(
                "Nobody is trusted, so nobody is served at {}, where trusted proxies introduce callers. Name your proxy \
                 in `trusted_proxy`.",
                entrance.at
            )));
        }
        let headers: Vec<_> = self.fact_headers().map(|(_, name)| name).collect();
        if !headers.is_empty() {
            remarks.push(Remark::problem(format!(
                "Nobody is trusted, so {} will never be read. Name your proxy in `trusted_proxy`.",
                quoted(&headers)
            )));
        }
        remarks
    }

    fn review_networks(&self, entrances: &[Entrance]) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let is_list = !matches!(self.header, AddressHeader::Single(_));
        // Where others than our own machine can come in, from each network.
        let doors = |network: &IpNet| -> Vec<ListenAddr> {
            let reached = entrances.iter().filter(|entrance| is_reached(&entrance.at, network));
            reached.map(|entrance| entrance.at.clone()).collect()
        };
        let mut groups: [Vec<IpNet>; 5] = Default::default();
        let [local, direct_private, direct_public, through, useless] = &mut groups;
        for network in self.proxies.iter().copied() {
            let (direct, size) = (!doors(&network).is_empty(), Size::of(&network));
            if network.addr().is_loopback() && size != Size::Large {
                local.push(network);
            } else if size == Size::Large && (direct || is_list) {
                remarks.push(large(&network));
            } else {
                match (size, direct, is_list) {
                    // Its one address is a proxy's.
                    (Size::One, true, _) | (Size::One, false, true) => {}
                    (Size::Private, true, _) => direct_private.push(network),
                    (Size::Public | Size::Large, true, _) => direct_public.push(network),
                    (_, false, true) => through.push(network),
                    (_, false, false) => useless.push(network),
                }
            }
        }
        let at = |networks: &[IpNet]| {
            let mut named: Vec<String> = Vec::new();
            for door in networks.iter().flat_map(doors).map(|door| door.to_string()) {
                if !named.contains(&door) && named.len() < NAMED {
                    named.push(door);
                }
            }
            named.join(" or ")
        };
        if let [_, ..] = direct_private[..] {
            remarks.push(Remark::warning(format!(
                "Anyone in {} can come to {} past your proxy, and is believed whatever they say: from there a client \
                 could spoof this. Name the addresses of your proxies alone in `trusted_proxy`, or let a firewall keep \
                 everybody else from that port.",
                named(direct_private),
                at(direct_private),
            )));
        }
        if let [_, ..] = direct_public[..] {
            remarks.push(Remark::check(format!(
                "Anyone who can send from {} is believed at {}: if one machine there is not your proxy, a client could \
                 spoof this. Make sure that all of it belongs to your proxy. Where many customers share a network, as \
                 with a content network, each of them is believed too, unless the proxy proves that it is yours.",
                named(direct_public),
                at(direct_public),
            )));
        }
        if let [_, ..] = through[..] {
            remarks.push(Remark::check(format!(
                "Callers with an address in {} are taken for proxies: where your proxy adds to {} instead of setting \
                 it, what they send before it is believed, and a client could spoof this. Name the addresses of your \
                 proxies alone.",
                named(through),
                quoted(&self.address_headers()),
            )));
        }
        if let [_, ..] = useless[..] {
            remarks.push(Remark::note(format!(
                "{} in `trusted_proxy` has no use: all doors are on this machine's own addresses, and nobody comes from \
                 there.",
                named(useless),
            )));
        }
        if let [_, ..] = local[..] {
            remarks.push(Remark::note(format!(
                "Every program and every user of this machine is believed ({}): any of them could spoof this. That is \
                 right where only your proxy runs beside ipse.",
                named(local),
            )));
        }
        remarks
    }

    fn review_headers(&self) -> Vec<Remark> {
        let names = quoted(&self.address_headers());
        let address = match &self.header {
            AddressHeader::Single(_) => format!(
                "{names} is believed as a trusted proxy sends it: if the proxy passes on what callers send under that \
                 name, a client could spoof this. Have the proxy set it on every request."
            ),
            AddressHeader::XForwardedFor | AddressHeader::Forwarded => format!(
                "{names} is read from the right: if your proxy adds nothing to it, what callers send arrives as they \
                 sent it, and a client could spoof this. Have the proxy set it, or add its peer at the end, on every \
                 request."
            ),
            AddressHeader::Auto => format!(
                "{names} are both read: if your proxy sets neither, what callers send arrives as they sent it, and a \
                 client could spoof this; if it sets one, a caller can send the other, and then neither is believed. \
                 Name the one that your proxy sets in `client_address_header`."
            ),
        };
        let facts: Vec<_> = self.fact_headers().map(|(_, name)| name).collect();
        let facts = match facts.len() {
            0 => None,
            _ => Some(Remark::check(format!(
                "{} {} believed as a trusted proxy sends {}: if the proxy passes on what callers send under such a \
                 name, a client could spoof this. Have the proxy set or delete each of them on every request.",
                quoted(&facts),
                if facts.len() == 1 { "is" } else { "are" },
                if facts.len() == 1 { "it" } else { "them" },
            ))),
        };
        [Remark::check(address)].into_iter().chain(facts).collect()
    }
}

/// How much of the world a network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// One address.
    One,
    /// Nobody has its addresses on the internet.
    Private,
    /// Some of its addresses are somebody's on the internet.
    Public,
    /// A large part of the internet, or all of it.
    Large,
}

impl Size {
    fn of(network: &IpNet) -> Self {
        let is_public = match network {
            IpNet::V4(v4) => Address::public_v4(v4.network().into(), v4.broadcast().into()) > 0,
            IpNet::V6(v6) => {
                // Within 2000::/3 only small corners are not global, and a larger network holds more than those.
                let ends = [v6.network(), v6.broadcast()].map(|ip| Address::new(IpAddr::V6(ip)).is_global());
                ends.contains(&true) || v6.prefix_len() < LARGE_V6 && overlaps_global(network)
            }
        };
        let large = if network.addr().is_ipv4() { LARGE_V4 } else { LARGE_V6 };
        match is_public {
            true if network.prefix_len() < large => Self::Large,
            _ if network.prefix_len() == network.max_prefix_len() => Self::One,
            true => Self::Public,
            false => Self::Private,
        }
    }
}

/// Whether a network has a part in the addresses of IPv6 that are given out.
fn overlaps_global(network: &IpNet) -> bool {
    let first = match network.network() {
        IpAddr::V6(first) => first.segments()[0] >> 13,
        IpAddr::V4(_) => return false,
    };
    first == 1 || (first == 0 && network.prefix_len() < 3)
}

/// Whether somebody in a network can come to a door without being on our own machine.
fn is_reached(door: &ListenAddr, network: &IpNet) -> bool {
    match door {
        ListenAddr::Localhost(_) | ListenAddr::Unix(_) => false,
        // Where a socket is that we are handed is not known before.
        ListenAddr::Handed(_) => true,
        ListenAddr::Socket(socket) => {
            let ip = socket.ip().to_canonical();
            // A door of IPv6 that is open to everybody is open to IPv4 as well.
            !ip.is_loopback()
                && (ip.is_ipv4() == network.addr().is_ipv4() || (ip.is_ipv6() && ip.is_unspecified()))
        }
    }
}

fn large(network: &IpNet) -> Remark {
    let part = match network {
        network if network.prefix_len() > 0 => "a large part of the internet",
        IpNet::V4(_) => "the whole internet of IPv4",
        IpNet::V6(_) => "the whole internet of IPv6",
    };
    Remark::warning(format!(
        "{network} in `trusted_proxy` is {part}: whoever has an address there is taken for a proxy and names whom they \
         like, so a client could spoof this. Name the addresses of your own proxies, and nothing else."
    ))
}

fn named(networks: &[IpNet]) -> String {
    let names: Vec<String> = networks.iter().take(NAMED).map(ToString::to_string).collect();
    match networks.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more networks", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::remark::Weight;
    use super::*;
    use crate::facts::FactHeaders;

    fn review(proxies: &[&str], header: &str, doors: &[&str]) -> Vec<Remark> {
        let trust = Trust {
            proxies: proxies.iter().map(|text| text.parse().unwrap()).collect(),
            header: header.parse().unwrap(),
            pretend: None,
            colo: None,
            facts: FactHeaders::default(),
        };
        let entrance = |text: &&str| Entrance { at: text.parse().unwrap(), introduces: false };
        trust.review(&doors.iter().map(entrance).collect::<Vec<_>>())
    }

    /// Of all remarks the one that tells of this, if there is one.
    #[track_caller]
    fn check(proxies: &[&str], header: &str, doors: &[&str], telling: &str, expected: Option<Weight>) {
        let remarks = review(proxies, header, doors);
        let found = remarks.iter().find(|remark| remark.text.contains(telling));
        assert_eq!(found.map(|remark| remark.weight), expected, "{proxies:?} {telling}: {remarks:?}");
    }

    #[test]
    fn trust_in_the_internet_is_warned_of() {
        let outside = &["0.0.0.0:8080"][..];
        for (network, part) in [
            ("0.0.0.0/0", "the whole internet of IPv4"),
            ("::/0", "the whole internet of IPv6"),
            ("64.0.0.0/2", "a large part"),
            ("2000::/3", "a large part"),
            ("2600::/12", "a large part"),
            ("::/1", "a large part"),
        ] {
            check(&[network], "auto", outside, part, Some(Weight::Warning));
            // The walk over a list would go through callers' own addresses.
            check(&[network], "auto", &["localhost:8080"], part, Some(Weight::Warning));
            check(&[network], "x-real-ip", &["localhost:8080"], "has no use", Some(Weight::Note));
        }
        for network in ["10.0.0.0/7", "240.0.0.0/4", "fc00::/7"] {
            check(
                &[network],
                "auto",
                outside,
                "the internet",
                (network == "10.0.0.0/7").then_some(Weight::Warning),
            );
        }
    }

    #[test]
    fn who_is_in_a_trusted_network_can_come_past_the_proxy() {
        let told = "Anyone in 10.0.0.0/8 can come to 0.0.0.0:8080 past your proxy";
        check(&["10.0.0.0/8"], "auto", &["0.0.0.0:8080"], told, Some(Weight::Warning));
        check(&["10.0.0.0/8"], "x-real-ip", &["0.0.0.0:8080"], told, Some(Weight::Warning));
        check(&["10.0.0.0/8"], "auto", &["[::]:8080"], "Anyone in 10.0.0.0/8", Some(Weight::Warning));
        check(&["fd00::/8"], "auto", &["0.0.0.0:8080"], "Anyone in", None);
        check(&["10.0.0.0/8"], "auto", &["localhost:8080"], "Anyone in", None);
        check(&["10.0.0.0/8"], "auto", &["127.0.0.1:80"], "are taken for proxies", Some(Weight::Check));
        check(&["10.0.0.7/32"], "auto", &["0.0.0.0:8080"], "10.0.0.7", None);
        check(&["198.51.100.7/32"], "auto", &["0.0.0.0:8080"], "198.51.100.7", None);
    }

    #[test]
    fn a_public_network_is_to_be_looked_at() {
        let told =
            "Anyone who can send from 173.245.48.0/20, 103.21.244.0/22, 2400:cb00::/32 and 1 more networks";
        let networks = ["173.245.48.0/20", "103.21.244.0/22", "2400:cb00::/32", "104.16.0.0/13"];
        check(&networks, "cf-connecting-ip", &["[::]:8080"], told, Some(Weight::Check));
    }

    #[test]
    fn loopback_is_a_note() {
        let loopback = ["127.0.0.0/8", "::1/128"];
        check(&loopback, "auto", &["localhost:8080"], "127.0.0.0/8, ::1/128", Some(Weight::Note));
        let gravest = review(&loopback, "x-forwarded-for", &["0.0.0.0:8080"]).remove(0);
        assert_eq!(gravest.weight, Weight::Check, "{gravest:?}");
    }

    #[test]
    fn headers_are_to_be_set_by_the_proxy() {
        for (header, telling) in [
            ("x-real-ip", "`x-real-ip` is believed as"),
            ("x-forwarded-for", "`x-forwarded-for` is read from the right"),
            ("auto", "`x-forwarded-for` and `forwarded` are both read"),
        ] {
            check(&["127.0.0.1/32"], header, &[], telling, Some(Weight::Check));
            check(&[], header, &[], telling, None);
        }
        let trust = super::super::tests::trust("x-real-ip");
        let remarks = trust.review(&[]);
        assert!(
            remarks.iter().any(|remark| remark.text.starts_with("`x-tls-version` and `x-rtt` are believed"))
        );
    }

    #[test]
    fn trust_in_nobody_is_told_with_what_it_makes_useless() {
        let entrance = Entrance { at: "127.0.0.1:81".parse().unwrap(), introduces: true };
        let trust = Trust { proxies: Vec::new(), ..super::super::tests::trust("auto") };
        let remarks = trust.review(&[entrance]);
        let weights: Vec<Weight> = remarks.iter().map(|remark| remark.weight).collect();
        assert_eq!(weights, [Weight::Problem, Weight::Problem, Weight::Note], "{remarks:?}");
    }

    #[test]
    fn every_warning_says_that_a_client_could_spoof_this() {
        let doors = ["0.0.0.0:8080", "[::]:8080", "localhost:8080"];
        let networks = ["0.0.0.0/0", "10.0.0.0/8", "173.245.48.0/20", "127.0.0.0/8"];
        for header in ["auto", "x-forwarded-for", "x-real-ip"] {
            for remark in review(&networks, header, &doors) {
                let grave = [Weight::Warning, Weight::Check].contains(&remark.weight);
                assert!(!grave || remark.text.contains("a client could spoof this"), "{}", remark.text);
            }
        }
    }
}
