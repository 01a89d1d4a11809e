//! The grammars of forwarding headers: lists of hops, as proxies write them.
//!
//! A hop that names no address (`unknown`, an obfuscated name, rubbish) is `None`. The walk over the hops, and
//! whom to believe, is in `client.rs`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The hops of one `X-Forwarded-For` line, left to right. Empty elements of the list do not count.
pub(crate) fn x_forwarded_for(line: &[u8]) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    // Bytes that are no text spoil their own hop, and not those that proxies wrote behind it.
    let hops = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty());
    hops.map(|hop| v4(hop).map(IpAddr::V4).or_else(|| std::str::from_utf8(hop).ok().and_then(address)))
}

/// An address of IPv4, as nearly everybody is named. How long its numbers are nobody foresees, and so no branch here depends on
/// it: a processor that guesses wrong loses more time than all of this takes.
pub(crate) fn v4(text: &[u8]) -> Option<Ipv4Addr> {
    const EACH: u128 = u128::from_ne_bytes([1; 16]);
    const LOW_BITS: u128 = EACH * 0x7f;
    let mut word = match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) if text.len() < 16 => {
            let [first, last] = [first, last].map(|eight| u128::from(u64::from_le_bytes(*eight)));
            first | last << (8 * (text.len() - 8))
        }
        // The shortest one of all.
        (None, None) if text.len() == 7 => text.iter().rfold(0, |word, byte| word << 8 | u128::from(*byte)),
        _ => return None,
    };
    // Every number ends with a point. The highest bit of each byte that is one is set.
    word |= u128::from(b'.') << (8 * text.len());
    let other = word ^ (EACH * u128::from(b'.'));
    let mut points = !(((other & LOW_BITS) + LOW_BITS) | other | LOW_BITS);
    let (mut octets, mut begin) = ([0; 4], 0);
    for octet in &mut octets {
        let end = points.trailing_zeros() / 8;
        points &= points.wrapping_sub(1);
        let length @ 1..=3 = end - begin else { return None };
        *octet = number(u32::try_from(word >> (8 * begin) & 0xff_ffff).ok()?, length)?;
        begin = end + 1;
    }
    (begin as usize == text.len() + 1).then(|| octets.into())
}

/// The number that so many bytes are, the first of them the lowest.
fn number(bytes: u32, length: u32) -> Option<u8> {
    const LEAST: [u32; 4] = [0, 0, 10, 100];
    // The last one is a digit of ones in any case; what is before the first counts nothing.
    let missing = 8 * (3 - length);
    let digits = (bytes << missing ^ 0x30_3030 << missing) & 0xff_ffff;
    let is_number = (digits | (digits + 0x76_7676)) & 0x80_8080 == 0;
    let number = (digits & 0xff) * 100 + (digits >> 8 & 0xff) * 10 + (digits >> 16);
    // No number begins with a nought that says nothing.
    u8::try_from(number).ok().filter(|_| is_number && number >= LEAST[length as usize])
}

/// The hops of one `Forwarded` line (RFC 7239), left to right. A line that does not follow the grammar counts as
/// one hop that is unknown: where its elements begin and end is then anybody's guess.
pub(crate) fn forwarded(line: &[u8]) -> Vec<Option<IpAddr>> {
    // Bytes that are no text may stand within quotes, and nowhere else.
    elements(&String::from_utf8_lossy(line)).unwrap_or_else(|| vec![None])
}

/// One address, alone or with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`. Ports may be obfuscated (`_x`).
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse() {
        return Some(ip);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        // A scope identifier means something only on the machine that wrote it.
        return match socket {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => None,
            socket => Some(socket.ip()),
        };
    }
    let (ip, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (ip, port) = rest.split_once(']')?;
            (IpAddr::V6(ip.parse().ok()?), port)
        }
        None => {
            let (ip, port) = text.split_at(text.find(':')?);
            (IpAddr::V4(ip.parse().ok()?), port)
        }
    };
    let obfuscated = port.strip_prefix(":_").is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    });
    (port.is_empty() || obfuscated).then_some(ip)
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// `element *( "," element )`, where an element is `[ pair ] *( ";" [ pair ] )`. `None` if the line is malformed.
fn elements(line: &str) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    let mut rest = trim(line);
    loop {
        let mut node: Option<String> = None;
        let mut pairs = 0;
        // One element: pairs until a comma or the end.
        loop {
            rest = trim(rest);
            if rest.is_empty() || rest.starts_with([',', ';']) {
                if !rest.starts_with(';') {
                    break;
                }
                rest = &rest[1..];
                continue;
            }
            let (name, value, after) = pair(rest)?;
            pairs += 1;
            if name.eq_ignore_ascii_case("for") && node.replace(value).is_some() {
                return None;
            }
            rest = trim(after);
            if !rest.is_empty() && !rest.starts_with([',', ';']) {
                return None;
            }
        }
        if pairs > 0 {
            hops.push(node.as_deref().and_then(address));
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Some(hops),
        }
    }
}

/// `token "=" ( token / quoted-string )`; gives the name, the unquoted value and what follows. An unquoted value
/// may hold colons and brackets, which the grammar forbids and proxies write all the same.
fn pair(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return None;
    }
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([',', ';', ' ', '\t']).unwrap_or(rest.len());
        let (value, after) = rest.split_at(end);
        let well_formed =
            !value.is_empty() && value.bytes().all(|byte| is_token(byte) || b":[]".contains(&byte));
        return well_formed.then(|| (name, value.to_owned(), after));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((name, value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_forwarded(line: &str, hops: &[Option<&str>]) {
        let expected: Vec<Option<IpAddr>> =
            hops.iter().map(|hop| hop.map(|ip| ip.parse().unwrap())).collect();
        assert_eq!(forwarded(line.as_bytes()), expected, "{line}");
    }

    #[track_caller]
    fn check_address(text: &str, ip: Option<&str>) {
        assert_eq!(address(text), ip.map(|ip| ip.parse().unwrap()), "{text}");
    }

    #[test]
    fn forwarded_follows_rfc_7239() {
        check_forwarded("for=192.0.2.1", &[Some("192.0.2.1")]);
        check_forwarded("For=192.0.2.1;proto=http;by=203.0.113.43", &[Some("192.0.2.1")]);
        check_forwarded("for=192.0.2.1, for=198.51.100.2", &[Some("192.0.2.1"), Some("198.51.100.2")]);
        check_forwarded(r#"for="192.0.2.1:4711""#, &[Some("192.0.2.1")]);
        check_forwarded(r#"for="[2001:db8::1]""#, &[Some("2001:db8::1")]);
        check_forwarded(r#"FOR="[2001:db8::1]:4711";Proto=https"#, &[Some("2001:db8::1")]);
        check_forwarded(r#"for="[2001:db8::1]:_port""#, &[Some("2001:db8::1")]);
        check_forwarded(r#"for="192\.0.2.1""#, &[Some("192.0.2.1")]);
        check_forwarded("proto=https;for=192.0.2.1;", &[Some("192.0.2.1")]);
        check_forwarded(", for=192.0.2.1,,", &[Some("192.0.2.1")]);
        check_forwarded("", &[]);
    }

    #[test]
    fn hops_without_an_address_are_unknown() {
        check_forwarded("for=unknown", &[None]);
        check_forwarded("for=_hidden, for=192.0.2.1", &[None, Some("192.0.2.1")]);
        check_forwarded("proto=http, for=192.0.2.1", &[None, Some("192.0.2.1")]);
        check_forwarded(r#"for="a,b;c", for=192.0.2.1"#, &[None, Some("192.0.2.1")]);
        check_forwarded("for=192.0.2.999", &[None]);
    }

    #[test]
    fn a_malformed_line_is_one_unknown_hop() {
        for line in [
            "192.0.2.1",
            "for=",
            "for=192.0.2.1;for=192.0.2.2",
            r#"for="192.0.2.1"#,
            r#"for="192.0.2.1\"#,
            r#"for="192.0.2.1"x"#,
            r#"for=192.0.2.1;by=", for=198.51.100.2;by="x""#,
            "for =192.0.2.1",
            "=192.0.2.1",
            "for=192.0.2.1 x",
        ] {
            check_forwarded(line, &[None]);
        }
    }

    #[test]
    fn addresses_come_with_ports_and_brackets() {
        check_address("192.0.2.1", Some("192.0.2.1"));
        check_address("192.0.2.1:80", Some("192.0.2.1"));
        check_address("2001:db8::1", Some("2001:db8::1"));
        check_address("[2001:db8::1]", Some("2001:db8::1"));
        check_address("[2001:db8::1]:443", Some("2001:db8::1"));
        check_address("192.0.2.1:_x", Some("192.0.2.1"));
        check_address("::ffff:192.0.2.1", Some("::ffff:192.0.2.1"));
        for rubbish in [
            "",
            "unknown",
            "_x",
            "192.0.2",
            "192.0.2.1:",
            "192.0.2.1:x",
            "192.0.2.1:99999",
            "[192.0.2.1]",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]x",
            "fe80::1%eth0",
            "[fe80::1%2]:80",
            "localhost",
            "01.2.3.4",
            " 1.2.3.4",
        ] {
            check_address(rubbish, None);
        }
    }

    #[test]
    fn x_forwarded_for_is_a_list() {
        let hops = x_forwarded_for(b"192.0.2.1,\t[2001:db8::1]:80 ,, unknown").collect::<Vec<_>>();
        assert_eq!(hops, [Some("192.0.2.1".parse().unwrap()), Some("2001:db8::1".parse().unwrap()), None]);
    }

    #[test]
    fn every_number_of_an_address_of_ipv4_is_read_as_the_library_reads_it() {
        for number in
            (0..=1_000).flat_map(|number| [format!("{number}"), format!("0{number}"), format!("00{number}")])
        {
            for place in 0..4 {
                let mut numbers = ["7", "89", "0", "123"];
                numbers[place] = &number;
                let text = numbers.join(".");
                assert_eq!(v4(text.as_bytes()), text.parse().ok(), "{text}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_spoil_only_their_own_hop() {
        let known = Some("192.0.2.1".parse().unwrap());
        assert_eq!(x_forwarded_for(b"\xff, 192.0.2.1").collect::<Vec<_>>(), [None, known]);
        assert_eq!(forwarded(b"for=\"\xff\", for=192.0.2.1"), [None, known]);
        assert_eq!(forwarded(b"for=\xff, for=192.0.2.1"), [None]);
    }

    proptest! {
        #[test]
        fn an_address_of_ipv4_is_read_as_the_library_reads_it(
            text in prop_oneof!["[0-9.]{0,16}", "(0|[1-9][0-9]{0,2})(\\.(0|[1-9][0-9]{0,2})){3}"],
        ) {
            prop_assert_eq!(v4(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn a_byte_that_does_not_belong_there_spoils_an_address_of_ipv4(
            (octets, place, byte) in any::<([u8; 4], usize, u8)>(),
        ) {
            let mut text = Ipv4Addr::from(octets).to_string().into_bytes();
            let place = place % text.len();
            text[place] = byte;
            prop_assert_eq!(v4(&text), str::from_utf8(&text).ok().and_then(|text| text.parse().ok()));
        }

        #[test]
        fn no_line_makes_the_parser_panic(line in "[ -~\\t]{0,80}") {
            let _ = (x_forwarded_for(line.as_bytes()).count(), forwarded(line.as_bytes()));
        }

        #[test]
        fn what_a_proxy_appends_after_a_well_formed_line_is_read(
            names in prop::collection::vec("[a-z]{1,6}=(\"([^\"\\\\\\x00-\\x1f\\x7f]|\\\\[a-z\"])*\"|[a-z0-9.]{1,9})", 1..4),
        ) {
            prop_assume!(names.iter().all(|name| name.is_ascii() && !name.starts_with("for=")));
            let line = format!("{}, for=192.0.2.1", names.join(";"));
            let hops = forwarded(line.as_bytes());
            prop_assert_eq!(hops, vec![None, Some("192.0.2.1".parse().unwrap())]);
        }
    }
}
