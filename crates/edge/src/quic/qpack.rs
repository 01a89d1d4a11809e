//! Fields of HTTP/3 (RFC 9204), read and written without a memory: nothing refers to anything but the fields that everybody knows.
//! We tell no peer that there is room for a memory, so nobody has another way.

use crate::http2::hpack::{Block, Broken, number, text, write_number};

/// What a section begins with that refers to nothing.
const PREFIX: [u8; 2] = [0, 0];
/// Nobody says more in a plain request.
const MOST_BYTES: usize = 8 * 1024;

/// Room for names and values that came packed.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Reads a section.
pub(super) fn read(section: &[u8], room: &mut Unpacked, block: &mut Block) -> Result<(), Broken> {
    block.clear();
    let mut input = section.strip_prefix(&PREFIX).ok_or(Broken)?;
    while let Some(first) = input.first() {
        match first {
            0xc0.. => {
                let (name, value) = known(number(&mut input, 6)?)?;
                block.add(name.as_bytes(), value.as_bytes(), MOST_BYTES);
            }
            0x50..=0x5f | 0x70..=0x7f => {
                let (name, _) = known(number(&mut input, 4)?)?;
                let value = text(&mut input, 7, &mut room.value)?;
                block.add(name.as_bytes(), value, MOST_BYTES);
            }
            0x20..=0x3f => {
                let name = text(&mut input, 3, &mut room.name)?;
                let value = text(&mut input, 7, &mut room.value)?;
                block.add(name, value, MOST_BYTES);
            }
            // All others refer to a memory.
            _ => return Err(Broken),
        }
    }
    if block.is_cut { Err(Broken) } else { Ok(()) }
}

/// Begins a section.
pub(super) fn begin(section: &mut Vec<u8>) {
    section.extend_from_slice(&PREFIX);
}

/// Writes a field.
pub(super) fn write(section: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut named = None;
    for (index, known_name, known_value) in OURS {
        if known_name.as_bytes() == name {
            if known_value.as_bytes() == value {
                return write_number(section, 0xc0, 6, index);
            }
            named = Some(index);
        }
    }
    match named {
        Some(index) => write_number(section, 0x50, 4, index),
        None => {
            write_number(section, 0x20, 3, name.len());
            section.extend_from_slice(name);
        }
    }
    write_number(section, 0, 7, value.len());
    section.extend_from_slice(value);
}

/// Those of the fields that everybody knows that our answers have, with their numbers.
const OURS: [(usize, &str, &str); 11] = [
    (25, ":status", "200"),
    (71, ":status", "500"),
    (46, "content-type", "application/json"),
    (35, "access-control-allow-origin", "*"),
    (79, "access-control-expose-headers", "content-length"),
    (40, "cache-control", "no-store"),
    (56, "strict-transport-security", "max-age=31536000"),
    (83, "alt-svc", "clear"),
    (6, "date", ""),
    (61, "x-content-type-options", "nosniff"),
    (4, "content-length", "0"),
];

fn known(number: usize) -> Result<(&'static str, &'static str), Broken> {
    EVERYBODYS.get(number).copied().ok_or(Broken)
}

/// The fields that everybody knows.
const EVERYBODYS: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(section: &[u8]) -> Result<Vec<(String, String)>, Broken> {
        let mut block = Block::default();
        read(section, &mut Unpacked::default(), &mut block)?;
        let text = |part: crate::fields::Part| String::from_utf8_lossy(part.of(&block.bytes)).into_owned();
        Ok(block.fields.iter().map(|field| (text(field.name), text(field.value))).collect())
    }

    #[test]
    fn fields_are_read_as_the_standard_has_them() {
        let section = [
            &PREFIX[..],
            // One that is known; with a known name a value as it is, one that nobody is to keep, and one that is packed.
            &[0xd1, 0x51, 2],
            b"/x",
            &[0x7f, 69, 3],
            b"key",
            &[0x50, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
            // Both packed; and both as they are.
            &[0x2f, 1, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f],
            &[0x89, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf],
            &[0x23],
            b"dnt",
            &[0],
        ]
        .concat();
        let fields = [
            (":method", "GET"),
            (":path", "/x"),
            ("authorization", "key"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
            ("dnt", ""),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read_all(&section).unwrap(), fields);
    }

    #[test]
    fn what_refers_to_a_memory_is_not_read() {
        for section in [
            &[][..],
            &[0],
            &[1, 0],
            &[0, 1],
            &[0, 0, 0x80],
            &[0, 0, 0x10],
            &[0, 0, 0x40, 0],
            &[0, 0, 0x60, 0],
            &[0, 0, 0x00, 0],
            // A number that nobody knows, and what is not whole.
            &[0, 0, 0xff, 36],
            &[0, 0, 0xff],
            &[0, 0, 0x51],
            &[0, 0, 0x51, 2, b'/'],
            &[0, 0, 0x23, b'a'],
        ] {
            assert_eq!(read_all(section), Err(Broken), "{section:?}");
        }
        assert_eq!(read_all(&[0, 0, 0xff, 35]).unwrap(), [("x-frame-options".into(), "sameorigin".into())]);
    }

    #[test]
    fn what_our_answers_have_is_what_everybody_knows() {
        for (number, name, value) in OURS {
            assert_eq!(EVERYBODYS[number], (name, value));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(fields in prop::collection::vec(
            prop_oneof![
                (0..OURS.len()).prop_map(|place| (OURS[place].1.to_owned(), OURS[place].2.to_owned())),
                (0..OURS.len(), "[ -~]{0,20}").prop_map(|(place, value)| (OURS[place].1.to_owned(), value)),
                ("[a-z-]{1,40}", "[ -~]{0,200}"),
            ],
            0..20,
        )) {
            let mut section = Vec::new();
            begin(&mut section);
            fields.iter().for_each(|(name, value)| write(&mut section, name.as_bytes(), value.as_bytes()));
            prop_assert_eq!(read_all(&section).unwrap(), fields);
        }

        #[test]
        fn any_bytes_are_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = read_all(&[&PREFIX[..], &bytes].concat());
        }
    }
}
