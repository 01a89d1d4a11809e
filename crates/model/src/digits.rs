//! Numbers and addresses into bytes, for the hot path.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Appends an address of IPv4.
pub(crate) fn write_v4(json: &mut Vec<u8>, ip: Ipv4Addr) {
    // Four times three digits, and four points, of which the last is left out.
    let mut text = [0; 16];
    let mut length = 0;
    for octet in ip.octets() {
        let [tens, ones] = PAIRS[usize::from(octet % 100)];
        if octet >= 100 {
            text[length] = digit(u32::from(octet) / 100);
            length += 1;
        }
        if octet >= 10 {
            text[length] = tens;
            length += 1;
        }
        text[length..length + 2].copy_from_slice(&[ones, b'.']);
        length += 2;
    }
    json.extend_from_slice(&text[..length - 1]);
}

/// Appends an address of IPv6 as RFC 5952 wants it: what its `Display` writes, without the machinery.
pub(crate) fn write_v6(json: &mut Vec<u8>, ip: Ipv6Addr) {
    let segments = ip.segments();
    let (zeros_begin, zeros_end) = longest_zeros(segments);
    // Eight times four digits, and seven colons.
    let mut text = [0; 39];
    let mut length = 0;
    let mut push = |byte: u8| {
        text[length] = byte;
        length += 1;
    };
    for (index, segment) in segments.into_iter().enumerate() {
        if (zeros_begin..zeros_end).contains(&index) {
            if index == zeros_begin {
                push(b':');
            }
            continue;
        }
        if index > 0 {
            push(b':');
        }
        let digits = 4 - (segment | 1).leading_zeros() / 4;
        for digit in (0..digits).rev() {
            push(b"0123456789abcdef"[usize::from(segment >> (4 * digit) & 0xf)]);
        }
    }
    if zeros_end == segments.len() {
        push(b':');
    }
    json.extend_from_slice(&text[..length]);
}

/// Where the first of the longest runs of two zeros or more begins and ends; behind the end if there is none.
fn longest_zeros(segments: [u16; 8]) -> (usize, usize) {
    let mut longest = (segments.len() + 1, segments.len() + 1);
    let mut begin = 0;
    for (index, segment) in segments.into_iter().enumerate() {
        if segment != 0 {
            begin = index + 1;
        } else if index + 1 - begin > (longest.1 - longest.0).max(1) {
            longest = (begin, index + 1);
        }
    }
    longest
}

/// Appends a number in decimal.
pub fn write(json: &mut Vec<u8>, mut number: u32) {
    if number < 10 {
        json.push(digit(number));
        return;
    }
    let mut digits = [0; 10];
    let mut begin = digits.len();
    while number >= 10 {
        begin -= 2;
        digits[begin..begin + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 {
        begin -= 1;
        digits[begin] = digit(number);
    }
    json.extend_from_slice(&digits[begin..]);
}

/// All numbers of two digits.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [digit(number / 10), digit(number % 10)];
        number += 1;
    }
    pairs
};

/// The character of a digit below ten.
#[expect(clippy::cast_possible_truncation, reason = "a digit is below ten")]
pub(crate) const fn digit(number: u32) -> u8 {
    b'0' + number as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_v6(ip: Ipv6Addr) {
        let mut json = Vec::new();
        write_v6(&mut json, ip);
        assert_eq!(String::from_utf8(json).unwrap(), ip.to_string());
    }

    #[test]
    fn zeros_are_left_out_where_that_is_shortest() {
        for text in [
            "::",
            "::1",
            "1::",
            "2001:db8::1",
            "2001:db8:0:1::",
            "2001:0:0:1::1",
            "2001::1:0:0:1",
            "2001:0:1:0:1:0:1:0",
            "1:2:3:4:5:6:7:8",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "0:1::",
        ] {
            check_v6(text.parse().unwrap());
        }
    }

    proptest! {
        #[test]
        fn any_address_of_ipv6_is_written_like_its_display(
            segments in prop::array::uniform8(prop_oneof![Just(0u16), 0u16..0x20, any::<u16>()]),
        ) {
            let ip = Ipv6Addr::from(segments);
            prop_assume!(ip.to_ipv4_mapped().is_none());
            check_v6(ip);
        }
    }

    #[test]
    fn any_octet_of_ipv4_is_written_like_its_display() {
        for octet in 0..=u8::MAX {
            let ip = Ipv4Addr::new(octet, 255 - octet, octet / 3, 0);
            let mut json = Vec::new();
            write_v4(&mut json, ip);
            assert_eq!(String::from_utf8(json).unwrap(), ip.to_string());
        }
    }

    #[test]
    fn numbers_are_written_whole() {
        #[track_caller]
        fn check(number: u32) {
            let mut json = Vec::new();
            write(&mut json, number);
            assert_eq!(String::from_utf8(json).unwrap(), number.to_string());
        }
        (0..1_200).chain([86_400, 100_000, 1_000_009, u32::MAX]).for_each(check);
    }
}
