//! Introductions of the PROXY protocol, of both versions: true ones, ones of nobody, and broken ones.

use super::address::bare;
use ipse_testkit::Random;
use std::net::{IpAddr, Ipv6Addr};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const PROXY: u8 = 0x21;
const LOCAL: u8 = 0x20;
const OVER_IPV4: u8 = 0x11;
const OVER_IPV6: u8 = 0x21;
const OVER_UNIX: u8 = 0x31;
const UNSPECIFIED: u8 = 0x00;

/// The connection is this caller's.
pub(crate) fn of(random: &mut Random, caller: IpAddr) -> Vec<u8> {
    let (from, to) = (random.below(65_536), random.below(65_536));
    // IPv4 may come as IPv6 that stands for it.
    let as_ipv6 = match caller {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(ip) => (random.below(4) == 0).then(|| ip.to_ipv6_mapped()),
    };
    if random.below(2) == 0 {
        let Some(ip) = as_ipv6 else {
            return format!("PROXY TCP4 {caller} 192.0.2.1 {from} {to}\r\n").into();
        };
        let text = if caller.is_ipv4() { ip.to_string() } else { bare(random, caller) };
        return format!("PROXY TCP6 {text} 2001:db8::1 {from} {to}\r\n").into();
    }
    let ports = [random.byte(), random.byte(), 1, 0xbb];
    let (family, mut addresses) = match (as_ipv6, caller) {
        (Some(ip), _) => (OVER_IPV6, [ip.octets(), Ipv6Addr::LOCALHOST.octets()].concat()),
        (None, IpAddr::V4(ip)) => (OVER_IPV4, [ip.octets(), [192, 0, 2, 1]].concat()),
        (None, IpAddr::V6(ip)) => (OVER_IPV6, [ip.octets(), ip.octets()].concat()),
    };
    addresses.extend(ports);
    version_2(PROXY, family, &[addresses, tlvs(random)].concat())
}

/// The proxy speaks for itself, or does not say for whom.
pub(crate) fn of_nobody(random: &mut Random) -> Vec<u8> {
    let forged: &[u8] = &[6, 6, 6, 6, 192, 0, 2, 1, 0, 80, 0, 80];
    match random.below(6) {
        0 => b"PROXY UNKNOWN\r\n".to_vec(),
        1 => b"PROXY UNKNOWN 6.6.6.6 192.0.2.1 80 80\r\n".to_vec(),
        2 => version_2(LOCAL, UNSPECIFIED, &[]),
        3 => version_2(LOCAL, OVER_IPV4, forged),
        4 => version_2(LOCAL, UNSPECIFIED, &tlvs(random)),
        _ => version_2(PROXY, OVER_UNIX, &[0; 216]),
    }
}

/// Nothing that introduces anybody.
pub(crate) fn broken(random: &mut Random) -> Vec<u8> {
    let forged: &[u8] = &[6, 6, 6, 6, 192, 0, 2, 1, 0, 80, 0, 80];
    let wrong_checksum = [forged, &[3, 0, 4, 1, 2, 3, 4]].concat();
    match random.below(14) {
        0 => b"PROXY TCP4 6.6.6.6 192.0.2.1 80\r\n".to_vec(),
        1 => b"PROXY TCP4 6.6.6.6 192.0.2.1 80 80 80\r\n".to_vec(),
        2 => b"PROXY TCP4 2001:db8::6 192.0.2.1 80 80\r\n".to_vec(),
        3 => b"PROXY TCP6 6.6.6.6 6.6.6.6 80 80\r\n".to_vec(),
        4 => b"PROXY TCP4 6.6.6.6 192.0.2.1 80 65536\r\n".to_vec(),
        5 => b"proxy TCP4 6.6.6.6 192.0.2.1 80 80\r\n".to_vec(),
        6 => b"PROXY TCP4 6.6.6.6 192.0.2.1 80 80\n".to_vec(),
        7 => format!("PROXY UNKNOWN {}\r\n", "6".repeat(100)).into(),
        8 => version_2(0x11, OVER_IPV4, forged),
        9 => version_2(0x22, OVER_IPV4, forged),
        10 => version_2(PROXY, OVER_IPV6, forged),
        11 => version_2(PROXY, OVER_IPV4, &[forged, &[4, 0, 9, 0]].concat()),
        12 => version_2(PROXY, OVER_IPV4, &wrong_checksum),
        _ => b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
    }
}

fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap_or(u16::MAX).to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

/// What proxies add, and what they might.
fn tlvs(random: &mut Random) -> Vec<u8> {
    const EACH: &[(u8, &[u8])] = &[
        (0x01, b"h2"),
        (0x02, b"ip.example.com"),
        (0x04, &[0; 7]),
        (0x05, b"6.6.6.6"),
        (0x30, b"6.6.6.6"),
        (0xea, b"x-forwarded-for: 6.6.6.6"),
    ];
    let mut bytes = Vec::new();
    for _ in 0..random.below(4) {
        let (kind, value) = random.pick(EACH);
        let length = u16::try_from(value.len()).unwrap_or_default().to_be_bytes();
        bytes.extend([&[*kind][..], &length, value].concat());
    }
    bytes
}
