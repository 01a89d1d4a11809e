//! How HTTP/2 and HTTP/3 are written down: frames, integers, header fields. What is written may be wrong on purpose.

/// What a client of HTTP/2 says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
/// The same bit says that settings or a ping are heard.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
/// The error by which a request is called off.
pub(crate) const CANCEL: u32 = 8;

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A request of HTTP/2 without a body, as browsers ask.
pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &request_block(path))
}

/// The fields of such a request: GET and http from the static table, then where and what.
pub(crate) fn request_block(path: &str) -> Vec<u8> {
    const AUTHORITY: u64 = 1;
    const PATH: u64 = 4;
    let mut block = vec![0x82, 0x86];
    for (name, value) in [(AUTHORITY, "localhost"), (PATH, path)] {
        block.extend(integer(0, 4, name));
        block.extend(text(value.as_bytes()));
    }
    block
}

/// A header field of HPACK, spelled out and not to be indexed.
pub(crate) fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0], text(name), text(value)].concat()
}

/// Text of HPACK and QPACK as it is.
pub(crate) fn text(text: &[u8]) -> Vec<u8> {
    let mut written = integer(0, 7, text.len() as u64);
    written.extend_from_slice(text);
    written
}

/// A number that begins in the lowest bits of a byte, of which the others are `mark`.
pub(crate) fn integer(mark: u8, bits: u32, value: u64) -> Vec<u8> {
    let most = (1_u64 << bits) - 1;
    let low = |value: u64| value.to_le_bytes()[0];
    if value < most {
        return vec![mark | low(value)];
    }
    let mut written = vec![mark | low(most)];
    let mut rest = value - most;
    while rest >= 0x80 {
        written.push(0x80 | low(rest % 0x80));
        rest /= 0x80;
    }
    written.push(low(rest));
    written
}

/// The largest number that QUIC can write.
pub(crate) const MOST: u64 = (1 << 62) - 1;

/// A number as QUIC writes it, in 1, 2, 4 or 8 bytes.
pub(crate) fn varint(value: u64) -> Vec<u8> {
    let bytes = value.min(MOST).to_be_bytes();
    let (from, mark) = match value {
        0..0x40 => (7, 0),
        0x40..0x4000 => (6, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (0, 0xc0),
    };
    let mut written = bytes[from..].to_vec();
    written[0] |= mark;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_the_standards() {
        assert_eq!(integer(0, 5, 10), [10]);
        assert_eq!(integer(0, 5, 1337), [0x1f, 0x9a, 0x0a]);
        assert_eq!(integer(0x80, 7, 127), [0xff, 0]);
        assert_eq!(varint(37), [0x25]);
        assert_eq!(varint(15_293), [0x7b, 0xbd]);
        assert_eq!(varint(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
        assert_eq!(varint(151_288_809_941_952_652), [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]);
        assert_eq!(varint(u64::MAX), [0xff; 8]);
    }

    #[test]
    fn a_request_is_one_frame() {
        let block = b"\x82\x86\x01\x09localhost\x04\x01/";
        assert_eq!(request_block("/"), block);
        assert_eq!(request(3, "/"), [b"\0\0\x10\x01\x05\0\0\0\x03".as_slice(), block].concat());
    }
}
