//! What a server said, with the two values masked that cannot be equal: the time by `Date`, and the round trip.

const DATE: &[u8] = b"\r\ndate: ";
const LENGTH: &[u8] = b"\r\ncontent-length: ";
const RTT: &[u8] = b"\"rtt\":";
const REMAINING: &[u8] = b"\r\nx-ratelimit-remaining: ";

/// The same bytes with `Date` left empty and every number that is a round trip 0. A length tells how long the answer would be
/// then.
pub(super) fn masked(bytes: &[u8]) -> Vec<u8> {
    let mut told = Vec::with_capacity(bytes.len());
    let (mut rest, mut length_at) = (bytes, None);
    while let Some(first) = rest.first() {
        if !b"\r\"".contains(first) {
            told.push(*first);
            rest = &rest[1..];
        } else if let Some(behind) = rest.strip_prefix(DATE) {
            told.extend_from_slice(DATE);
            rest = &behind[behind.iter().position(|byte| *byte == b'\r').unwrap_or(behind.len())..];
        } else if let Some(behind) = rest.strip_prefix(LENGTH) {
            told.extend_from_slice(LENGTH);
            length_at = Some(told.len());
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(RTT) {
            told.extend_from_slice(RTT);
            let digits = digits(behind);
            if digits > 0 {
                told.push(b'0');
                shorten(&mut told, length_at, digits - 1);
            }
            rest = &behind[digits..];
        } else {
            told.push(*first);
            rest = &rest[1..];
        }
    }
    told
}

/// The same without how much is left of a day, for comparing what was said on two days.
pub(super) fn of_any_day(told: &[u8]) -> Vec<u8> {
    let mut other = Vec::with_capacity(told.len());
    let mut rest = told;
    while let Some(first) = rest.first() {
        if let Some(behind) = rest.strip_prefix(REMAINING) {
            other.extend_from_slice(REMAINING);
            rest = &behind[digits(behind)..];
        } else {
            other.push(*first);
            rest = &rest[1..];
        }
    }
    other
}

/// How many answers of HTTP/1 there are, or begin.
pub(super) fn answers(told: &[u8]) -> usize {
    const BEGIN: &[u8] = b"HTTP/1.1 ";
    told.windows(BEGIN.len()).filter(|window| *window == BEGIN).count()
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Makes the length that stands there smaller.
fn shorten(told: &mut Vec<u8>, length_at: Option<usize>, by: usize) {
    let Some(at) = length_at.filter(|_| by > 0) else { return };
    let end = at + digits(&told[at..]);
    let length = std::str::from_utf8(&told[at..end]).ok().and_then(|text| text.parse::<usize>().ok());
    if let Some(length) = length {
        told.splice(at..end, length.saturating_sub(by).to_string().into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&masked(said.as_bytes())), expected);
    }

    #[test]
    fn only_the_date_and_the_round_trip_are_masked() {
        check("HTTP/1.1 200 OK\r\ndate: Sun\r\n\r\n", "HTTP/1.1 200 OK\r\ndate: \r\n\r\n");
        check("a\r\ncontent-length: 12\r\n\r\n{\"rtt\":123}", "a\r\ncontent-length: 10\r\n\r\n{\"rtt\":0}");
        check("a\r\ncontent-length: 12\r\n\r\n{\"rtt\":7}", "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":0}");
        check(
            "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":null}",
            "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":null}",
        );
        check("a\r\nDate: Sun\r\n\r\n", "a\r\nDate: Sun\r\n\r\n");
    }

    #[test]
    fn answers_are_counted_and_compared_on_any_day() {
        let said = b"HTTP/1.1 200 OK\r\nx-ratelimit-remaining: 99\r\n\r\nHTTP/1.1 204";
        assert_eq!(answers(said), 2);
        assert_eq!(of_any_day(said), b"HTTP/1.1 200 OK\r\nx-ratelimit-remaining: \r\n\r\nHTTP/1.1 204");
    }
}
