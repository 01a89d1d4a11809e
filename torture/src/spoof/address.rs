//! Addresses to name, and every way to write one; and texts that are none, however much they look like one.

use super::model::House;
use ipse_testkit::Random;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as an answer tells it: IPv4 is never wrapped in IPv6.
pub(crate) fn draw(random: &mut Random, house: &House) -> IpAddr {
    let ip = match random.below(20) {
        // Trusted by this house, if it trusts anybody; or only just not.
        0..10 if !house.trusted.is_empty() => {
            let network = random.pick(house.trusted);
            let (first, bits) = match network.0 {
                IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32 - network.1),
                IpAddr::V6(ip) => (u128::from(ip), 128 - network.1),
            };
            let size = 1_u128 << bits;
            let number = match random.below(12) {
                0 => first.wrapping_sub(1),
                1 => first.wrapping_add(size),
                2 => first,
                3 => first + (size - 1),
                _ => first + (any_number(random) & (size - 1)),
            };
            if network.0.is_ipv4() { v4(number) } else { IpAddr::V6(number.into()) }
        }
        0..15 => v4(any_number(random)),
        15..18 => IpAddr::V6((0x2a00_u128 << 112 | any_number(random) >> 16).into()),
        18 => IpAddr::V6((any_number(random) & any_number(random) & any_number(random)).into()),
        _ => *random.pick(&[
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V4(Ipv4Addr::BROADCAST),
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            // Not mapped: the old form that looks like it, NAT64, and the neighbours of what is.
            IpAddr::V6(Ipv6Addr::from_bits(0x0102_0304)),
            IpAddr::V6(Ipv6Addr::from_bits(0x0064_ff9b << 96 | 0x0a00_0001)),
            IpAddr::V6(Ipv6Addr::from_bits(0xfffe_ffff_ffff)),
            IpAddr::V6(Ipv6Addr::from_bits(0x1_0000_0000_0000)),
        ]),
    };
    match ip {
        IpAddr::V6(ip) if u128::from(ip) >> 32 == 0xffff => v4(u128::from(ip)),
        ip => ip,
    }
}

fn any_number(random: &mut Random) -> u128 {
    u128::from(random.next()) << 64 | u128::from(random.next())
}

/// The last bits.
fn v4(number: u128) -> IpAddr {
    let [.., a, b, c, d] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

/// The address alone, in one of its spellings.
pub(crate) fn bare(random: &mut Random, ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) if random.below(4) > 0 => ip.to_string(),
        IpAddr::V4(ip) => wrapped(random, ip),
        IpAddr::V6(ip) => spelled(random, ip),
    }
}

/// The address as proxies write it: alone, in brackets, with a port or with a name for one.
pub(crate) fn written(random: &mut Random, ip: IpAddr) -> String {
    let text = bare(random, ip);
    let port = port(random);
    match (text.contains(':'), random.below(6)) {
        (_, 0..3) => text,
        (false, _) => format!("{text}{port}"),
        (true, 3) => format!("[{text}]"),
        (true, _) => format!("[{text}]{port}"),
    }
}

fn port(random: &mut Random) -> String {
    const LETTERS: &[u8] = b"abcXYZ019._-";
    match random.below(3) {
        0 => {
            let name: String = (0..=random.below(6)).map(|_| char::from(*random.pick(LETTERS))).collect();
            format!(":_{name}")
        }
        _ => format!(":{}", random.below(65_536)),
    }
}

/// IPv4 within IPv6, which stands for the same address.
fn wrapped(random: &mut Random, ip: Ipv4Addr) -> String {
    let [a, b, c, d] = ip.octets();
    match random.below(4) {
        0 => format!("::ffff:{ip}"),
        1 => format!("::FFFF:{a:02X}{b:02X}:{c:02X}{d:02X}"),
        2 => format!("0:0:0:0:0:ffff:{ip}"),
        _ => format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"),
    }
}

fn spelled(random: &mut Random, ip: Ipv6Addr) -> String {
    let groups = |write: fn(&u16) -> String| ip.segments().iter().map(write).collect::<Vec<_>>();
    match random.below(8) {
        0 => groups(|group| format!("{group:x}")).join(":"),
        1 => groups(|group| format!("{group:04X}")).join(":"),
        2 => ip.to_string().to_uppercase(),
        3 => {
            let [.., a, b, c, d] = ip.octets();
            format!("{}:{a}.{b}.{c}.{d}", groups(|group| format!("{group:x}"))[..6].join(":"))
        }
        _ => ip.to_string(),
    }
}

/// A text without a comma that names no address. Nothing in it needs to be a token.
pub(crate) fn rubbish(random: &mut Random, house: &House) -> Vec<u8> {
    const FIXED: &[&[u8]] = &[
        b"unknown",
        b"_hidden",
        b"_SEVKISEK",
        b"localhost",
        b"-",
        b".",
        b":",
        b"::::",
        b"[]",
        b"[]:80",
        b":80",
        b"1.2.3",
        b"1.2.3.4.5",
        b"256.1.1.1",
        b"1.2.3.-4",
        b"1..3.4",
        b"0x7f.0.0.1",
        b"2130706433",
        b"1:2:3:4:5:6:7",
        b"1:2:3:4:5:6:7:8:9",
        b"1::2::3",
        b"12345::1",
        b"::ffff:1.2.3",
        b"::ffff:1.2.3.256",
        b"fe80::1%eth0",
        b"[fe80::1%2]:80",
        b"null",
        b"for=6.6.6.6",
        b"<script>alert(1)</script>",
        b"' or 1=1 --",
        b"\xff\xfe",
        b"\xc2\xa06.6.6.6",
        b"6.6.6.6\xc2\xa0",
        b"\xa06.6.6.6",
        "６.６.６.６".as_bytes(),
        "٦.٦.٦.٦".as_bytes(),
    ];
    if random.below(2) == 0 {
        return random.pick(FIXED).to_vec();
    }
    let ip = draw(random, house);
    let text = bare(random, ip);
    let brackets = text.contains(':');
    let spoilt = match random.below(14) {
        0 => format!("{text}x"),
        1 => format!("{text}/32"),
        2 => format!("{text} {text}"),
        3 => format!("{text}\t{text}"),
        4 => format!("{text}%1"),
        5 if brackets => format!("[{text}"),
        5 => format!("[{text}]"),
        6 => format!("{text}]"),
        7 if brackets => format!("[{text}]x"),
        7 => format!("{text}:x"),
        8 if brackets => format!("[{text}]:"),
        8 => format!("{text}:"),
        9 if brackets => format!("[{text}]:65536"),
        9 => format!("{text}:65536"),
        10 if brackets => format!("[{text}]:_"),
        10 => format!("{text}:_"),
        11 if brackets => format!("[[{text}]]"),
        11 => format!("0{text}"),
        12 => format!("'{text}'"),
        _ => format!("http://{text}"),
    };
    spoilt.into_bytes()
}
