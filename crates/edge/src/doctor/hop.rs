//! What became of each address that a header names.

use super::{Peer, header};
use crate::client::{AddressHeader, List, Reported, Trust, Walk, Word};
use crate::forwarded;
use http::{HeaderMap, HeaderName};
use ipse_model::Address;

/// What one header says about who the caller is.
#[derive(Clone, PartialEq, Eq)]
pub struct Reading {
    /// Which header.
    pub header: HeaderName,
    /// Its lines, as far as they can be printed.
    pub lines: Vec<String>,
    /// The hops of all lines, left to right.
    pub hops: Vec<Hop>,
}

impl Reading {
    /// Whether the header holds a list, to which each proxy adds, and not one address.
    #[must_use]
    pub fn is_list(&self) -> bool {
        [List::XForwardedFor, List::Forwarded].iter().any(|list| list.name() == self.header)
    }
}

/// One element of a list.
#[derive(Clone, PartialEq, Eq)]
pub struct Hop {
    /// The address that it names, if it names one.
    pub address: Option<Address>,
    /// What became of it.
    pub fate: Fate,
    /// Why, in a sentence.
    pub why: String,
}

/// What became of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is the caller.
    Caller,
    /// It is a trusted proxy, and the hop on its left was looked at next.
    Proxy,
    /// It would be the caller, but another header says otherwise.
    Doubted,
    /// It names no address, and ended the walk.
    NoAddress,
    /// Nobody who is trusted vouches for it.
    NotBelieved,
}

impl Fate {
    /// A word or two for a table.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Caller => "the caller",
            Self::Proxy => "a proxy",
            Self::Doubted => "doubted",
            Self::NoAddress => "no address",
            Self::NotBelieved => "not believed",
        }
    }
}

/// The headers that are read for the caller's address, as far as they are there.
pub(super) fn readings(
    trust: &Trust,
    speaker: Peer,
    reported: Option<&Reported>,
    headers: &HeaderMap,
) -> Vec<Reading> {
    let lists = match &trust.header {
        AddressHeader::Auto => &[List::XForwardedFor, List::Forwarded][..],
        AddressHeader::XForwardedFor => &[List::XForwardedFor],
        AddressHeader::Forwarded => &[List::Forwarded],
        AddressHeader::Single(name) => return single(name, reported, headers).into_iter().collect(),
    };
    let walks = match reported.map(|reported| &reported.by) {
        Some(Word::One(walk)) => vec![(*walk, Fate::Caller)],
        Some(Word::Both(one, other)) => vec![(*one, Fate::Caller), (*other, Fate::Caller)],
        Some(Word::Contradiction(one, other)) => vec![(*one, Fate::Doubted), (*other, Fate::Doubted)],
        Some(Word::Single(_)) | None => Vec::new(),
    };
    let there = lists.iter().filter(|list| headers.contains_key(list.name()));
    there
        .map(|list| {
            let walk = walks.iter().find(|(walk, _)| walk.list == *list).copied();
            Reading {
                header: list.name(),
                lines: header::lines(headers, &list.name()),
                hops: hops(trust, speaker, *list, walk, headers),
            }
        })
        .collect()
}

fn hops(
    trust: &Trust,
    speaker: Peer,
    list: List,
    walk: Option<(Walk, Fate)>,
    headers: &HeaderMap,
) -> Vec<Hop> {
    let hops: Vec<Option<Address>> =
        list.hops(headers).into_iter().map(|hop| hop.map(Address::new)).collect();
    let count = hops.len();
    let judge = |(index, address): (usize, &Option<Address>)| {
        let from_the_right = count - 1 - index;
        let (fate, why) = match walk {
            None => (Fate::NotBelieved, untrusted(speaker)),
            Some((walk, end)) => judged(
                trust,
                speaker,
                walk,
                end,
                from_the_right,
                *address,
                index.checked_sub(1).map(|left| hops[left]),
            ),
        };
        Hop { address: *address, fate, why }
    };
    hops.iter().enumerate().map(judge).collect()
}

/// The fate of one hop of a list that was walked. `left` is what stands on its left, if anything does.
fn judged(
    trust: &Trust,
    speaker: Peer,
    walk: Walk,
    end: Fate,
    from_the_right: usize,
    address: Option<Address>,
    left: Option<Option<Address>>,
) -> (Fate, String) {
    let network = address.and_then(|address| trust.trusting(address));
    if from_the_right + 1 < walk.followed {
        let network = network.map(|network| format!(" (in {network})")).unwrap_or_default();
        return (
            Fate::Proxy,
            format!("A trusted proxy{network}, so what it wrote on its left is looked at."),
        );
    }
    if from_the_right + 1 == walk.followed {
        let voucher = if from_the_right == 0 {
            format!("the peer {}", speaker.address.ip())
        } else {
            "the trusted proxy on its right".to_owned()
        };
        let why = match (end, network, left) {
            (Fate::Doubted, ..) => "The walk ends here, but another header leads elsewhere.".to_owned(),
            (_, None, _) => format!("Written by {voucher}, and no trusted proxy itself: here the walk ends."),
            (_, Some(_), Some(None)) => {
                "A trusted proxy, but what stands on its left is no address.".to_owned()
            }
            (_, Some(_), _) => "A trusted proxy, but nobody stands on its left.".to_owned(),
        };
        return (end, why);
    }
    if from_the_right == walk.followed && address.is_none() {
        return (
            Fate::NoAddress,
            "It names no address, so nothing on its left can be certain either.".to_owned(),
        );
    }
    (
        Fate::NotBelieved,
        "It stands left of where the walk ended: the caller may have written it. Nobody looks at it."
            .to_owned(),
    )
}

fn untrusted(speaker: Peer) -> String {
    format!("{} is no trusted proxy: anybody could have written this.", speaker.address.ip())
}

/// The one address of a header that holds one.
fn single(name: &HeaderName, reported: Option<&Reported>, headers: &HeaderMap) -> Option<Reading> {
    let lines = header::lines(headers, name);
    let (fate, why) = match reported.map(|reported| &reported.by) {
        _ if lines.is_empty() => return None,
        None => (Fate::NotBelieved, "The peer is no trusted proxy: anybody could have written this."),
        Some(Word::Single(true)) => (Fate::Caller, "The only address, and sent by a trusted proxy."),
        Some(_) if lines.len() > 1 => {
            (Fate::NotBelieved, "The header is there more than once, and one of them may be the caller's.")
        }
        Some(_) => (Fate::NoAddress, "It is not exactly one address."),
    };
    let address = |line: &String| forwarded::address(line.trim()).map(Address::new);
    let hops = lines.iter().map(|line| Hop { address: address(line), fate, why: why.to_owned() }).collect();
    Some(Reading { header: name.clone(), lines, hops })
}

#[cfg(test)]
mod tests {
    use super::super::tests::explain;
    use super::Fate::{self, Caller, Doubted, NoAddress, NotBelieved, Proxy};

    #[track_caller]
    fn check(header: &str, peer: &str, headers: &[(&str, &str)], expected: &[&[Fate]]) {
        let readings = explain(header, peer, headers).readings;
        let fates: Vec<Vec<Fate>> =
            readings.iter().map(|reading| reading.hops.iter().map(|hop| hop.fate).collect()).collect();
        assert_eq!(fates, expected);
    }

    #[test]
    fn every_hop_has_its_fate() {
        let list = |value| [("x-forwarded-for", value)];
        check("auto", "127.0.0.1", &[], &[]);
        check("auto", "127.0.0.1", &list("8.8.8.8"), &[&[Caller]]);
        check("auto", "127.0.0.1", &list("6.6.6.6, 8.8.8.8, 10.1.1.1"), &[&[NotBelieved, Caller, Proxy]]);
        check("auto", "127.0.0.1", &list("10.2.2.2, 10.1.1.1"), &[&[Caller, Proxy]]);
        check("auto", "127.0.0.1", &list("8.8.8.8, x, 10.1.1.1"), &[&[NotBelieved, NoAddress, Caller]]);
        check("auto", "127.0.0.1", &list("8.8.8.8, unknown"), &[&[NotBelieved, NoAddress]]);
        check("auto", "198.51.100.1", &list("8.8.8.8, 10.1.1.1"), &[&[NotBelieved, NotBelieved]]);
        check("auto", "127.0.0.1", &list(" , "), &[&[]]);
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = [("x-forwarded-for", "6.6.6.6, 8.8.8.8"), ("x-forwarded-for", "10.1.1.1")];
        check("auto", "127.0.0.1", &lines, &[&[NotBelieved, Caller, Proxy]]);
    }

    #[test]
    fn two_headers_are_told_apart() {
        let agreeing = [("x-forwarded-for", "8.8.8.8"), ("forwarded", "for=6.6.6.6, for=8.8.8.8")];
        check("auto", "127.0.0.1", &agreeing, &[&[Caller], &[NotBelieved, Caller]]);
        let disagreeing = [("x-forwarded-for", "8.8.8.8, 10.1.1.1"), ("forwarded", "for=6.6.6.6")];
        check("auto", "127.0.0.1", &disagreeing, &[&[Doubted, Proxy], &[Doubted]]);
        check("forwarded", "127.0.0.1", &disagreeing, &[&[Caller]]);
    }

    #[test]
    fn a_header_with_one_address_has_one_hop() {
        check("x-real-ip", "127.0.0.1", &[("x-real-ip", "8.8.8.8")], &[&[Caller]]);
        check("x-real-ip", "127.0.0.1", &[("x-real-ip", "8.8.8.8, 6.6.6.6")], &[&[NoAddress]]);
        check("x-real-ip", "198.51.100.1", &[("x-real-ip", "8.8.8.8")], &[&[NotBelieved]]);
        let twice = [("x-real-ip", "8.8.8.8"), ("x-real-ip", "6.6.6.6")];
        check("x-real-ip", "127.0.0.1", &twice, &[&[NotBelieved, NotBelieved]]);
        check("x-real-ip", "127.0.0.1", &[("x-forwarded-for", "8.8.8.8")], &[]);
    }

    #[test]
    fn reasons_name_who_vouches() {
        let why = |value| {
            let mut reading = explain("auto", "127.0.0.1", &[("x-forwarded-for", value)]).readings.remove(0);
            reading.hops.remove(0).why
        };
        assert!(why("8.8.8.8").starts_with("Written by the peer 127.0.0.1"));
        assert!(why("8.8.8.8, 10.1.1.1").starts_with("Written by the trusted proxy on its right"));
        assert!(why("10.1.1.1").contains("nobody stands on its left"));
    }
}
