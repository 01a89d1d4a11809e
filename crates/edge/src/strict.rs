//! A second look at the heads of HTTP/1 requests, before hyper's: what can be read in two ways is read in none.
//!
//! Hyper takes lines that end without a carriage return, lengths that are said twice, and a length beside chunks. A proxy
//! may read the same bytes as another request with another one hidden in it. Such bytes are spoilt on their way, by one
//! that no head may hold, so that hyper refuses them with 400 and closes the connection. Of a head that comes in pieces hyper reads
//! nothing before it sees an end, so one is to be added (`END`): otherwise the caller would wait for the deadline of heads.

use memchr::memchr;

/// What no head may hold.
const SPOILT: u8 = 0;
/// How hyper sees that a head is all there.
pub(crate) const END: &[u8] = b"\r\n\r\n";
/// As much of a line as is kept: every name that matters, and every length that a body can have.
const KEPT: usize = 64;
/// How HTTP/2 begins, which is no business of ours.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Reads along with what a connection brings.
#[derive(Default)]
pub(crate) struct Strict {
    at: At,
    /// The beginning of a line of which only that has come.
    begun: Vec<u8>,
    /// Bytes of that line, all of them.
    length: usize,
    ends_with_return: bool,
    lengths: u8,
    chunks: u8,
    /// What the length says that this head has told.
    body: u64,
}

#[derive(Default, PartialEq, Eq)]
enum At {
    /// Where a request begins, before its first line.
    #[default]
    Beginning,
    /// Within the lines of a head.
    Head,
    /// Within a body of which this much is to come.
    Body(u64),
    /// Behind what can be followed: HTTP/2, or chunks, after which the connection is closed.
    Beyond,
}

impl Strict {
    /// Looks at the next bytes, and spoils those that must not be understood. Says whether it did, which it does once.
    #[must_use]
    pub(crate) fn look(&mut self, mut bytes: &mut [u8]) -> bool {
        while !bytes.is_empty() {
            match self.at {
                At::Beyond => return false,
                At::Body(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &mut bytes[taken..];
                    let left = left - taken as u64;
                    self.at = if left == 0 { At::Beginning } else { At::Body(left) };
                }
                At::Beginning | At::Head => {
                    let end = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
                    let (line, rest) = bytes.split_at_mut(end);
                    if self.spoil(line) {
                        return true;
                    }
                    bytes = rest;
                }
            }
        }
        false
    }

    /// Looks at a line, or a part of one. Says whether it was spoilt.
    fn spoil(&mut self, part: &mut [u8]) -> bool {
        let room = KEPT.saturating_sub(self.begun.len()).min(part.len());
        self.begun.extend_from_slice(&part[..room]);
        self.length += part.len();
        let Some((last, before)) = part.split_last_mut() else { return false };
        if *last != b'\n' {
            self.ends_with_return = *last == b'\r';
            return false;
        }
        let has_return = before.last().map_or(self.ends_with_return, |byte| *byte == b'\r');
        let is_spoilt = !has_return || !self.accept();
        if is_spoilt {
            *last = SPOILT;
            self.at = At::Beyond;
        }
        self.begun.clear();
        (self.length, self.ends_with_return) = (0, false);
        is_spoilt
    }

    /// Whether a whole line may be understood.
    fn accept(&mut self) -> bool {
        // An empty line ends a head; before one, hyper overlooks it.
        if self.length == 2 {
            if self.at == At::Head {
                self.at = if self.chunks > 0 { At::Beyond } else { At::Body(self.body) };
                if self.at == At::Body(0) {
                    self.at = At::Beginning;
                }
                (self.lengths, self.chunks, self.body) = (0, 0, 0);
            }
            return true;
        }
        if self.at == At::Beginning {
            self.at = if self.begun.starts_with(HTTP2) { At::Beyond } else { At::Head };
            return true;
        }
        let name = self.begun.split(|byte| *byte == b':').next().unwrap_or_default();
        if name.eq_ignore_ascii_case(b"content-length") {
            self.lengths += 1;
            let digits = self.begun[name.len()..].iter().filter(|byte| !b": \t\r\n".contains(byte));
            // Hyper refuses what is no number.
            self.body = digits.fold(0u64, |body, digit| {
                body.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
            });
            // What is padded so far that its end is not seen would let everything behind it pass unseen.
            if self.length > KEPT {
                return false;
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunks += 1;
        }
        self.lengths + self.chunks <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEXT: &str = "GET /next HTTP/1.1\r\nhost: x\r\n\r\n";

    /// Whether these bytes come through untouched, in pieces of any size.
    #[track_caller]
    fn check(text: &str, passes: bool) {
        let text = format!("{text}{NEXT}");
        for piece in [1, 2, 3, 7, 1000] {
            let mut strict = Strict::default();
            let mut bytes = text.clone().into_bytes();
            let spoilt = bytes.chunks_mut(piece).filter_map(|piece| strict.look(piece).then_some(())).count();
            assert_eq!(bytes == text.as_bytes(), passes, "in pieces of {piece}: {text:?}");
            assert_eq!(spoilt, usize::from(!passes), "in pieces of {piece}: {text:?}");
        }
    }

    fn head(lines: &str) -> String {
        format!("POST / HTTP/1.1\r\nhost: x\r\n{lines}\r\n")
    }

    #[test]
    fn ordinary_requests_pass() {
        check("", true);
        check("\r\n", true);
        check(NEXT, true);
        check(&format!("{}abcd", head("Content-Length: 4\r\n")), true);
        check(&format!("{}ab\n\n", head("content-length:4\r\n")), true);
        check(&head("Content-Length: 0\r\n"), true);
        check(&format!("{}4\nabcd\n0\n\n", head("Transfer-Encoding: chunked\r\n")), true);
        check(&head("content-length-of-another-kind: 4\r\ncontent-lengths: 7\r\n"), true);
        check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\n\n\n", true);
        check(&head(&format!("long: {}\r\n", "x".repeat(3000))), true);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_spoilt() {
        check("GET / HTTP/1.1\nhost: x\r\n\r\n", false);
        check("GET / HTTP/1.1\r\nhost: x\n\r\n", false);
        check("GET / HTTP/1.1\r\nhost: x\r\n\n", false);
        check("\n", false);
        check(&head("content-length: 4\r\ntransfer-encoding: chunked\r\n"), false);
        check(&head("Transfer-Encoding: chunked\r\nCONTENT-LENGTH: 4\r\n"), false);
        check(&head("content-length: 4\r\ncontent-length: 4\r\n"), false);
        check(&head("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"), false);
        check(&head(&format!("content-length:{}4\r\n", " ".repeat(80))), false);
        check(&format!("{}abcdGET / HTTP/1.1\n\n", head("content-length:            4\r\n")), false);
        // Behind a body, and behind a request that was in order.
        check(&format!("{}abcdGET / HTTP/1.1\n\n", head("content-length: 4\r\n")), false);
        check(&format!("{NEXT}GET / HTTP/1.1\n\n"), false);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_looked_at_alike(
            mut bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'4'), any::<u8>()], 0..200),
            piece in 1usize..50,
        ) {
            let mut whole = bytes.clone();
            let is_spoilt = Strict::default().look(&mut whole);
            let mut strict = Strict::default();
            let spoilt = bytes.chunks_mut(piece).filter_map(|piece| strict.look(piece).then_some(())).count();
            prop_assert_eq!(bytes, whole);
            prop_assert_eq!(spoilt, usize::from(is_spoilt));
        }
    }
}
