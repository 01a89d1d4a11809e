//! The head of a plain request, read in passing: `GET` of some target by HTTP/1.1 on a connection that stays, and nothing that
//! would have to be thought about.
//!
//! Everything else is not understood here at all. It is left, byte for byte, to hyper, and so is a head of which only a part
//! has come: what is read here is a small part of what hyper reads, and read as hyper would.

use crate::fields::{Field, Fields, Part};
use http::HeaderName;
use memchr::memchr;

const METHOD: &[u8] = b"GET ";
/// More fields than this are not plain.
const MOST_FIELDS: usize = 32;
/// Nor is a longer target.
const LONGEST_TARGET: usize = 2048;
/// Nor is a longer head, however much was read at once.
const LONGEST: usize = 8 * 1024;

/// A plain request.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    bytes: &'a [u8],
    fields: &'a [Field],
    pub(crate) outline: Outline,
    /// The value of `X-Forwarded-Proto`.
    pub(crate) scheme: Option<&'a [u8]>,
}

/// Where the parts of a head stand that are needed to the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    /// Path and query.
    pub(crate) target: Part,
    /// The value of `Authorization`.
    pub(crate) authorization: Option<Part>,
    /// How many bytes the head is long.
    pub(crate) length: usize,
}

impl<'a> Head<'a> {
    /// Reads the head that these bytes begin with, if a whole and plain one is there. `fields` is room for its fields, which is used
    /// again and again.
    pub(crate) fn read(bytes: &'a [u8], fields: &'a mut Vec<Field>) -> Option<Self> {
        fields.clear();
        // All places in it fit into a part.
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        let rest = bytes.strip_prefix(METHOD)?;
        let (target, mut rest) = rest.split_at(count(rest, TARGET));
        if !begins_target(target) {
            return None;
        }
        rest = rest.strip_prefix(b" HTTP/1.1\r\n")?;
        let (mut authorization, mut scheme, mut hosts) = (None, None, 0);
        while !rest.starts_with(b"\r\n") {
            let begin = bytes.len() - rest.len();
            let (name, behind) = rest.split_at(count(rest, NAME));
            let behind = trim_start(behind.strip_prefix(b":")?);
            let from = bytes.len() - behind.len();
            let (line, behind) = behind.split_at(count_printable(behind));
            rest = behind.strip_prefix(b"\r\n")?;
            if name.is_empty() || fields.len() == MOST_FIELDS {
                return None;
            }
            let value = line.trim_ascii_end();
            let part = Part::new(value, from)?;
            match Known::of(name) {
                Known::Host => {
                    hosts += 1;
                    if !all(value, HOST) {
                        return None;
                    }
                }
                // Of several the library takes the first.
                Known::Authorization if authorization.is_some() => return None,
                Known::Authorization => authorization = Some(part),
                Known::Scheme if scheme.is_some() => return None,
                Known::Scheme => scheme = Some(value),
                Known::Connection if value.eq_ignore_ascii_case(b"keep-alive") => {}
                Known::Connection | Known::Unusual => return None,
                Known::Other => {}
            }
            fields.push(Field { name: Part::new(name, begin)?, value: part });
        }
        if hosts != 1 {
            return None;
        }
        let length = bytes.len() - rest.len() + 2;
        let outline = Outline { target: Part::new(target, METHOD.len())?, authorization, length };
        Some(Self { bytes, fields, outline, scheme })
    }
}

impl<'a> Head<'a> {
    /// Takes the head of HTTP/2 that these fields of a block are, if it is plain and came by this scheme.
    pub(crate) fn of_block(bytes: &'a [u8], fields: &'a [Field], came_by: &[u8]) -> Option<Self> {
        let is_pseudo = |field: &&Field| field.name.of(bytes).starts_with(b":");
        let (pseudo, regular) = fields.split_at(fields.iter().take_while(is_pseudo).count());
        if bytes.len() > LONGEST || regular.len() > MOST_FIELDS {
            return None;
        }
        let (mut method, mut by, mut path, mut host) = (None, None, None, None);
        for Field { name, value } in pseudo {
            let known = match name.of(bytes) {
                b":method" => &mut method,
                b":scheme" => &mut by,
                b":path" => &mut path,
                b":authority" => &mut host,
                _ => return None,
            };
            if known.replace(*value).is_some() {
                return None;
            }
        }
        let target = path?;
        let is_get = method?.of(bytes) == b"GET" && by?.of(bytes) == came_by;
        if !is_get || !is_target(target.of(bytes)) || !is_authority(host?.of(bytes)) {
            return None;
        }
        let (mut authorization, mut scheme) = (None, None);
        for Field { name, value: part } in regular {
            let (name, value) = (name.of(bytes), part.of(bytes));
            let is_field = !name.is_empty() && all(name, NAME) && !name.iter().any(u8::is_ascii_uppercase);
            let is_value = count_printable(value) == value.len() && value.trim_ascii().len() == value.len();
            if !is_field || !is_value {
                return None;
            }
            match Known::of(name) {
                Known::Authorization if authorization.is_none() => authorization = Some(*part),
                Known::Scheme if scheme.is_none() => scheme = Some(value),
                Known::Other if name != b"keep-alive" && name != b"proxy-connection" => {}
                _ => return None,
            }
        }
        let outline = Outline { target, authorization, length: bytes.len() };
        Some(Self { bytes, fields, outline, scheme })
    }
}

impl Fields for Head<'_> {
    fn lines<'a>(&'a self, name: &HeaderName) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let name = name.as_str().as_bytes();
        let of_name = move |field: &&Field| {
            field.name.len() == name.len() && is_same_name(field.name.of(self.bytes), name)
        };
        self.fields.iter().filter(of_name).map(|field| field.value.of(self.bytes))
    }
}

/// What a field may be to us.
enum Known {
    Host,
    Authorization,
    Connection,
    Scheme,
    /// Says something about a body, or asks for more than an answer.
    Unusual,
    Other,
}

impl Known {
    fn of(name: &[u8]) -> Self {
        let is = |known: &[u8]| is_same_name(name, known);
        match name.len() {
            4 if is(b"host") => Self::Host,
            13 if is(b"authorization") => Self::Authorization,
            10 if is(b"connection") => Self::Connection,
            17 if is(b"x-forwarded-proto") => Self::Scheme,
            14 if is(b"content-length") || is(b"http2-settings") => Self::Unusual,
            17 if is(b"transfer-encoding") => Self::Unusual,
            6 if is(b"expect") => Self::Unusual,
            7 if is(b"upgrade") || is(b"trailer") => Self::Unusual,
            2 if is(b"te") => Self::Unusual,
            _ => Self::Other,
        }
    }
}

/// Whether a name is that of a field, in whatever letters it is written. It has only bytes that may stand there: those that differ
/// in the bit of small letters alone are letters, and eight are looked at at once.
#[inline]
fn is_same_name(name: &[u8], known: &[u8]) -> bool {
    const SMALL: u8 = 0x20;
    const ALL_SMALL: u64 = u64::from_ne_bytes([SMALL; 8]);
    let is_same = |one: &[u8; 8], other: &[u8; 8]| {
        u64::from_ne_bytes(*one) | ALL_SMALL == u64::from_ne_bytes(*other) | ALL_SMALL
    };
    if name.len() != known.len() {
        return false;
    }
    match (name.last_chunk(), known.last_chunk()) {
        (Some(last), Some(known_last)) => {
            let mut eights = name.as_chunks().0.iter().zip(known.as_chunks().0);
            is_same(last, known_last) && eights.all(|(one, other)| is_same(one, other))
        }
        _ => name.iter().zip(known).all(|(one, other)| one | SMALL == other | SMALL),
    }
}

/// Whether this is a path, and perhaps a query, of which nobody has to think.
fn is_target(target: &[u8]) -> bool {
    begins_target(target) && all(target, TARGET)
}

/// The same of bytes that may all stand there.
fn begins_target(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && target.len() <= LONGEST_TARGET
}

/// Whether this is a name or an address of IPv4, and perhaps a port.
fn is_authority(host: &[u8]) -> bool {
    let (name, port) = match memchr(b':', host) {
        Some(colon) => (&host[..colon], &host[colon + 1..]),
        None => (host, &b"443"[..]),
    };
    let is_port = port.iter().all(u8::is_ascii_digit)
        && str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok());
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'-';
    !name.is_empty() && name.iter().all(is_name) && is_port
}

fn trim_start(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    value
}

/// What bytes may stand in, a bit for each.
const TARGET: u8 = 1;
const NAME: u8 = 2;
const HOST: u8 = 4;

static MAY_STAND: [u8; 256] = {
    let table = [0; 256];
    let table =
        allow(table, b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", TARGET | NAME | HOST);
    allow(allow(allow(table, b"/?&=%+-._~,:", TARGET), b"-_", NAME), b"-._~:[]", HOST)
};

const fn allow(mut table: [u8; 256], bytes: &[u8], places: u8) -> [u8; 256] {
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] |= places;
        at += 1;
    }
    table
}

/// How many of these bytes, from the first on, may stand there.
fn count(bytes: &[u8], place: u8) -> usize {
    let may_not = |byte: &u8| MAY_STAND[usize::from(*byte)] & place == 0;
    bytes.iter().position(may_not).unwrap_or(bytes.len())
}

/// How many of these bytes, from the first on, may stand in a value. Eight are looked at at once.
fn count_printable(bytes: &[u8]) -> usize {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST_BITS: u64 = EACH << 7;
    let (eights, rest) = bytes.as_chunks::<8>();
    for (number, eight) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        // The highest bit of a byte is set if it is below a blank, above a tilde, or no ASCII. What is borrowed and carried goes
        // to bytes that come later, so of the first one it is certain.
        let others =
            (eight.wrapping_sub(EACH * u64::from(b' ')) | eight.wrapping_add(EACH) | eight) & HIGHEST_BITS;
        if others != 0 {
            return number * 8 + others.trailing_zeros() as usize / 8;
        }
    }
    let printable = rest.iter().take_while(|byte| (b' '..=b'~').contains(byte));
    eights.len() * 8 + printable.count()
}

/// Whether all these bytes may stand there.
fn all(bytes: &[u8], place: u8) -> bool {
    count(bytes, place) == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::{Block, Decoder, write_literal};
    use http::header::{ACCEPT, AUTHORIZATION};
    use proptest::prelude::*;

    const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

    #[track_caller]
    fn check(text: &str, is_plain: bool) {
        assert_eq!(Head::read(text.as_bytes(), &mut Vec::new()).is_some(), is_plain, "{text:?}");
    }

    /// A request with these lines beside the one that every request has.
    fn with(lines: &str) -> String {
        format!("GET /api/v1/ip HTTP/1.1\r\nhost: example.com\r\n{lines}\r\n")
    }

    #[test]
    fn a_plain_request_is_read_up_to_its_end() {
        let text = "GET /api/v1/ip?scope=geo&key=a%20b HTTP/1.1\r\nHost: [::1]:8080\r\nauthorization:\t Bearer x \r\n\
                    Accept: */*\r\nX-Forwarded-For: 192.0.2.1\r\nx-forwarded-for:\r\nConnection: Keep-Alive\r\n\r\nGET /";
        let mut fields = Vec::new();
        let head = Head::read(text.as_bytes(), &mut fields).unwrap();
        let Outline { target, authorization, length } = head.outline;
        assert_eq!(&text[length..], "GET /");
        assert_eq!(target.of(text.as_bytes()), b"/api/v1/ip?scope=geo&key=a%20b");
        assert_eq!(authorization.unwrap().of(text.as_bytes()), b"Bearer x");
        assert_eq!(head.lines(&AUTHORIZATION).collect::<Vec<_>>(), [b"Bearer x"]);
        assert_eq!(head.only_line(&ACCEPT), Some(b"*/*".as_slice()));
        assert_eq!(head.lines(&X_FORWARDED_FOR).collect::<Vec<_>>(), [b"192.0.2.1".as_slice(), b""]);
        assert_eq!(head.only_line(&X_FORWARDED_FOR), None);
    }

    #[test]
    fn what_has_to_be_thought_about_is_not_plain() {
        check(&with(""), true);
        for line in [
            "content-length: 0",
            "Transfer-Encoding: chunked",
            "connection: close",
            "connection: keep-alive, te",
            "Upgrade: h2c",
            "expect: 100-continue",
            "TE: trailers",
            "trailer: x",
            "http2-settings: x",
            "host: example.com",
            "authorization: a\r\nauthorization: b",
            "x-forwarded-proto: http\r\nx-forwarded-proto: https",
            " folded: x",
            "no colon",
            ": nameless",
            "na me: x",
            "name : x",
            "x: a\tb",
            "x: \u{e4}",
            "x: \u{7f}",
        ] {
            check(&with(&format!("{line}\r\n")), false);
        }
        check(&with(&"x: y\r\n".repeat(31)), true);
        check(&with(&"x: y\r\n".repeat(32)), false);
        // One more byte than is read of a connection at once is too many, even if more was read.
        let room = LONGEST - with("x: \r\n").len();
        check(&with(&format!("x: {}\r\n", "y".repeat(room))), true);
        check(&with(&format!("x: {}\r\n", "y".repeat(room + 1))), false);
    }

    #[test]
    fn what_is_no_whole_request_of_http_1_1_is_not_plain() {
        let plain = with("");
        (0..plain.len()).for_each(|length| check(&plain[..length], false));
        check(&plain.replace("HTTP/1.1", "HTTP/1.0"), false);
        check(&plain.replace("GET", "HEAD"), false);
        check(&plain.replace("GET", "get"), false);
        check(&plain.replace("GET ", "GET  "), false);
        check(&plain.replace("/api", "http://example.com/api"), false);
        check(&plain.replace("/api", "/<api"), false);
        check(&plain.replace("/api", &format!("/{}", "a".repeat(2048))), false);
        check(&plain.replace("host: example.com", "host: example com"), false);
        check(&plain.replace("host: example.com\r\n", ""), false);
        check(&plain.replace("\r\nhost", "\nhost"), false);
        check(&plain.replace("com\r\n", "com\n"), false);
        check(&format!("\r\n{plain}"), false);
    }

    /// Whether these fields are a plain head of HTTP/2.
    fn is_plain_block(fields: &[(&str, &str)]) -> bool {
        let mut block = Block::default();
        let mut bytes = Vec::new();
        fields.iter().for_each(|(name, value)| write_literal(&mut bytes, name.as_bytes(), value.as_bytes()));
        Decoder::default().read(&bytes, 100_000, &mut block).unwrap();
        Head::of_block(&block.bytes, &block.fields, b"https").is_some()
    }

    #[test]
    fn what_has_to_be_thought_about_is_not_plain_in_http2_either() {
        let first = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a-1.example:443"),
            (":path", "/x?y=z"),
        ];
        let with = |more: &[(&str, &str)]| is_plain_block(&[&first[..], more].concat());
        assert!(with(&[
            ("accept", "*/*"),
            ("authorization", "Bearer x"),
            ("x-forwarded-proto", "https"),
            ("dnt", "")
        ]));
        for more in [
            (":path", "/"),
            (":protocol", "websocket"),
            ("host", "a-1.example"),
            ("Accept", "*/*"),
            ("te", "trailers"),
            ("connection", "keep-alive"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("upgrade", "x"),
            ("content-length", "0"),
            ("expect", "100-continue"),
            ("x", " y"),
            ("x", "y\t"),
            ("x", "\u{e4}"),
            ("x y", "z"),
            ("", "z"),
        ] {
            assert!(!with(&[more]), "{more:?}");
        }
        assert!(!with(&[("authorization", "a"), ("authorization", "b")]));
        assert!(!with(&[("accept", "*/*"), (":path", "/")]));
        assert!(with(&[("x", "y"); 32]) && !with(&[("x", "y"); 33]));
        assert!(!with(&[("x", &"y".repeat(8_192))]));
        for missing in 0..first.len() {
            let mut fields = first.to_vec();
            fields.remove(missing);
            assert!(!is_plain_block(&fields), "{missing}");
        }
        for (place, value) in [
            (0, "HEAD"),
            (0, "get"),
            (1, "http"),
            (2, ""),
            (2, "[::1]"),
            (2, "a:b"),
            (2, "a:"),
            (2, "a:65536"),
            (2, "a@b"),
            (3, "x"),
            (3, "*"),
            (3, ""),
            (3, "/<"),
        ] {
            let mut fields = first;
            fields[place].1 = value;
            assert!(!is_plain_block(&fields), "{value}");
        }
    }

    proptest! {
        #[test]
        fn names_are_the_same_in_whatever_letters(
            name in "[a-cA-C0-9_-]{0,20}",
            other in "[a-c0-9_~^.-]{0,20}",
            (place, shift) in (0..20_usize, 0..3_u8),
        ) {
            let small = name.to_ascii_lowercase();
            prop_assert!(is_same_name(name.as_bytes(), small.as_bytes()));
            let mut nearly = small.into_bytes();
            if let Some(byte) = nearly.get_mut(place) {
                *byte = byte.wrapping_add(shift);
            }
            for known in [nearly.as_slice(), other.as_bytes()] {
                prop_assert_eq!(is_same_name(name.as_bytes(), known), name.as_bytes().eq_ignore_ascii_case(known));
            }
        }

        #[test]
        fn printable_bytes_are_counted_up_to_the_first_other_one(
            bytes in prop::collection::vec(prop_oneof![8 => b' '..=b'~', 1 => any::<u8>()], 0..60),
        ) {
            let expected = bytes.iter().take_while(|byte| (b' '..=b'~').contains(byte)).count();
            prop_assert_eq!(count_printable(&bytes), expected);
        }

        #[test]
        fn any_bytes_are_read_or_left(bytes in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), any::<u8>()], 0..200)) {
            let text = [with("").as_bytes(), &bytes].concat();
            for begin in 0..text.len().min(60) {
                if let Some(head) = Head::read(&text[begin..], &mut Vec::new()) {
                    prop_assert!(head.outline.length <= text.len() - begin);
                }
            }
        }
    }
}
