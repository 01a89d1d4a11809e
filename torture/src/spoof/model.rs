//! Whose address must be answered: the rules of forwarding, written down a second time.
//!
//! It knows nothing of texts. Whoever writes a header says here what it wrote, and the product has to read the same.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How one server is set up.
pub(crate) struct House {
    /// The value of `client_address_header`.
    pub(crate) setting: &'static str,
    pub(crate) reads: Reads,
    /// The value of `trusted_proxy`.
    pub(crate) trusted: &'static [Network],
}

/// Which header tells the caller.
pub(crate) enum Reads {
    /// `X-Forwarded-For` or `Forwarded`, and neither if they disagree.
    Either,
    XForwardedFor,
    Forwarded,
    /// One address in a header of this name.
    Single(SingleName),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SingleName {
    XRealIp,
    CfConnectingIp,
}

/// Addresses that begin with the same bits.
pub(crate) struct Network(pub(crate) IpAddr, pub(crate) u32);

/// What one place of a list says.
#[derive(Clone, Copy)]
pub(crate) enum Hop {
    Address(IpAddr),
    /// Somebody, but not who.
    Unknown,
}

/// What the headers of a request say, left to right and over all lines.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) x_forwarded_for: Vec<Hop>,
    pub(crate) forwarded: Vec<Hop>,
    /// Each line of a header that holds one address; `None` where it does not.
    pub(crate) singles: Vec<(SingleName, Option<IpAddr>)>,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u32) -> Network {
    Network(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6(number: u128, prefix: u32) -> Network {
    Network(IpAddr::V6(Ipv6Addr::from_bits(number)), prefix)
}

const LOOPBACK: &[Network] = &[v4(127, 0, 0, 0, 8), v6(1, 128)];
/// Some peers of this machine, and proxies beyond it.
const SOME: &[Network] = &[
    v4(127, 0, 0, 2, 31),
    v4(10, 0, 0, 0, 8),
    v4(192, 0, 2, 128, 25),
    v4(203, 0, 113, 7, 32),
    v6(1, 128),
    v6(0x2001_0db8_0001 << 80, 48),
    v6((0x2001_0db8_0002 << 80) + 0x80, 121),
];
/// IPv6 of this machine is a stranger here.
const OLD: &[Network] = &[v4(127, 0, 0, 0, 30), v4(172, 16, 0, 0, 12)];

/// Every way to read, and more than one list of whom to believe for the way that has the most to decide.
pub(crate) const HOUSES: &[House] = &[
    House { setting: "auto", reads: Reads::Either, trusted: SOME },
    House { setting: "AUTO", reads: Reads::Either, trusted: OLD },
    House { setting: "auto", reads: Reads::Either, trusted: LOOPBACK },
    House { setting: "auto", reads: Reads::Either, trusted: &[] },
    House { setting: "X-Forwarded-For", reads: Reads::XForwardedFor, trusted: SOME },
    House { setting: "forwarded", reads: Reads::Forwarded, trusted: SOME },
    House { setting: "x-real-ip", reads: Reads::Single(SingleName::XRealIp), trusted: SOME },
    House { setting: "CF-Connecting-IP", reads: Reads::Single(SingleName::CfConnectingIp), trusted: OLD },
];

impl House {
    pub(crate) fn trusts(&self, ip: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.holds(ip))
    }

    /// The setting that lists whom this house trusts.
    pub(crate) fn trusted_setting(&self) -> String {
        match self.trusted {
            // A door of the PROXY protocol wants somebody to be trusted: here nobody comes from there.
            [] => "192.0.2.255/32".to_owned(),
            networks => networks.iter().map(Network::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// Who asks, if this is whom the connection comes from, and these are the headers.
    pub(crate) fn caller(&self, speaker: IpAddr, told: &Told) -> IpAddr {
        if !self.trusts(speaker) {
            return speaker;
        }
        let walk = |hops: &[Hop]| self.walk(speaker, hops);
        match self.reads {
            Reads::XForwardedFor => walk(&told.x_forwarded_for),
            Reads::Forwarded => walk(&told.forwarded),
            Reads::Either => match (&told.x_forwarded_for[..], &told.forwarded[..]) {
                (hops, []) | ([], hops) => walk(hops),
                (one, other) if walk(one) == walk(other) => walk(one),
                _ => speaker,
            },
            Reads::Single(wanted) => {
                let lines: Vec<_> = told.singles.iter().filter(|(name, _)| *name == wanted).collect();
                match lines[..] {
                    [(_, Some(ip))] => *ip,
                    _ => speaker,
                }
            }
        }
    }

    /// Whoever speaks is the caller, unless they are trusted and say who stands before them.
    fn walk(&self, speaker: IpAddr, hops: &[Hop]) -> IpAddr {
        match hops.split_last() {
            Some((Hop::Address(before), rest)) if self.trusts(speaker) => self.walk(*before, rest),
            _ => speaker,
        }
    }
}

impl Network {
    fn holds(&self, ip: IpAddr) -> bool {
        match (self.0, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                (u32::from(network) ^ u32::from(ip)).leading_zeros() >= self.1
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                (u128::from(network) ^ u128::from(ip)).leading_zeros() >= self.1
            }
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}
