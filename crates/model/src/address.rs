//! A caller's address: the one thing that must never be written anywhere but into its own answer.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An address with IPv4-mapped IPv6 already unwrapped. Its `Debug` shows nothing, so that no log line, error or
/// panic message can hold a caller's address by accident.
///
/// It is kept as a number, because a lookup begins with one, and to put it together from the bytes of an `IpAddr` makes
/// the processor wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    number: u128,
    is_v4: bool,
}

impl Address {
    /// Unwraps `::ffff:192.0.2.1` to `192.0.2.1`.
    #[must_use]
    pub fn new(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self { number: u32::from(ip).into(), is_v4: true },
            IpAddr::V6(ip) => Self { number: ip.into(), is_v4: false },
        }
    }

    /// The bare value, for comparing and for the answer's own body.
    #[must_use]
    #[inline]
    pub fn ip(self) -> IpAddr {
        match self.v4() {
            Some(number) => IpAddr::V4(number.into()),
            None => IpAddr::V6(self.number.into()),
        }
    }

    /// The number of an address of IPv4.
    #[must_use]
    #[inline]
    pub fn v4(self) -> Option<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
        self.is_v4.then_some(self.number as u32)
    }

    /// The number of an address of IPv6, or of IPv4.
    #[must_use]
    #[inline]
    pub fn number(self) -> u128 {
        self.number
    }

    /// The networks of IPv4 that nobody can have on the internet, by their first and last address, ascending and each of
    /// whole /24s: IANA's special-purpose registry, with multicast. The two anycast addresses of 192.0.0.0/24 are
    /// services, and call nobody.
    pub const RESERVED_V4: [(u32, u32); 14] = [
        network(0, 0, 0, 8),
        network(10, 0, 0, 8),
        network(100, 64, 0, 10),
        network(127, 0, 0, 8),
        network(169, 254, 0, 16),
        network(172, 16, 0, 12),
        network(192, 0, 0, 24),
        network(192, 0, 2, 24),
        network(192, 88, 99, 24),
        network(192, 168, 0, 16),
        network(198, 18, 0, 15),
        network(198, 51, 100, 24),
        network(203, 0, 113, 24),
        network(224, 0, 0, 3),
    ];

    /// How many addresses of a range of IPv4, both ends included, somebody can have on the internet.
    #[must_use]
    pub fn public_v4(first: u32, last: u32) -> u64 {
        let reserved: u64 = Self::RESERVED_V4
            .iter()
            .map(|(begin, end)| (first.max(*begin), last.min(*end)))
            .filter(|(begin, end)| begin <= end)
            .map(|(begin, end)| u64::from(end - begin) + 1)
            .sum();
        u64::from(last - first) + 1 - reserved
    }

    /// Whether the address can belong to somebody on the internet. For all others a place would be a fiction.
    #[must_use]
    #[inline]
    pub fn is_global(self) -> bool {
        match self.v4() {
            Some(number) => is_global_v4(number),
            // All that is special within `2000::/3` is below or behind these.
            None => (0x2003..0x3fff).contains(&(self.number >> 112)) || is_global_v6(self.number),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(hidden)")
    }
}

fn is_global_v4(number: u32) -> bool {
    !Address::RESERVED_V4.iter().any(|(first, last)| (*first..=*last).contains(&number))
}

const fn network(a: u8, b: u8, c: u8, prefix: u32) -> (u32, u32) {
    let first = u32::from_be_bytes([a, b, c, 0]);
    (first, first | (u32::MAX >> prefix))
}

/// Only `2000::/3` is given out to the public; within it IANA's special-purpose registry, and beside it the
/// well-known prefix of NAT64, which stands for a global IPv4 address.
fn is_global_v6(number: u128) -> bool {
    let v4 = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    let special = match Ipv6Addr::from(number).segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => !is_global_v4(v4(high, low)),
        [0x2001, 1, 0, 0, 0, 0, 0, 1..=3] => false,
        [0x2001, 3, ..] | [0x2001, 4, 0x112, ..] => false,
        [0x2001, 0x20..=0x3f, ..] => false,
        [0x2001, 0..=0x1ff, ..] => true,
        [0x2001, 0xdb8, ..] => true,
        [0x3fff, 0..=0xfff, ..] => true,
        // 6to4 carries the IPv4 address of its gateway.
        [0x2002, high, low, ..] => !is_global_v4(v4(high, low)),
        [0x2000..=0x3fff, ..] => false,
        _ => true,
    };
    !special
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[track_caller]
    fn check(text: &str, global: bool) {
        assert_eq!(Address::new(text.parse().unwrap()).is_global(), global, "{text}");
    }

    #[test]
    fn addresses_of_no_one_are_not_global() {
        for text in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.0.1",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.9",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fdff::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "100::1",
            "3fff::1",
            "fec0::1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::1",
            "5f00::1",
            "4000::1",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn addresses_of_the_internet_are_global() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "2600::1",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2001:20::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2001:4:112::1",
            "2001:1::1",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2000::1",
            "3ffe:ffff::1",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn public_addresses_of_a_range_are_counted() {
        #[track_caller]
        fn check(first: &str, last: &str, expected: u64) {
            let [first, last] = [first, last].map(|ip| u32::from(ip.parse::<Ipv4Addr>().unwrap()));
            assert_eq!(Address::public_v4(first, last), expected);
            // Counted one by one where that is quick.
            if last - first < 1 << 17 {
                let global = |ip: &u32| Address::new(IpAddr::V4((*ip).into())).is_global();
                assert_eq!((first..=last).filter(global).count() as u64, expected);
            }
        }
        check("8.8.8.8", "8.8.8.8", 1);
        check("10.0.0.0", "10.0.0.255", 0);
        check("9.255.255.0", "10.0.0.255", 256);
        check("191.255.255.0", "192.0.3.255", 256 + 4 * 256 - 2 * 256);
        check("0.0.0.0", "255.255.255.255", 3_702_258_432);
    }

    #[test]
    fn mapped_addresses_are_unwrapped() {
        let mapped = Address::new("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, Address::new("192.0.2.1".parse().unwrap()));
        assert!(mapped.ip().is_ipv4());
    }

    #[test]
    fn debug_hides_the_address() {
        assert_eq!(format!("{:?}", Address::new("192.0.2.1".parse().unwrap())), "Address(hidden)");
    }
}
