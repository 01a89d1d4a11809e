//! What a server said, with the values masked that cannot be equal: the time by `Date`, the round trip, the secret that ties a
//! form to its browser, which is in a cookie and in the form, and how much the callers of the demo have left each other. Where a
//! body is not sent (`HEAD`), nobody sees how long the round trip in it would be, so its length is masked.

use crate::coding::SETTINGS;

const DATE: &[u8] = b"\r\ndate: ";
const LENGTH: &[u8] = b"\r\ncontent-length: ";
/// What stands before a round trip: in an answer, and in a page that shows one.
const RTT: [&[u8]; 2] = [b"\"rtt\":", b"rtt&#34;: "];
/// What it stands in where a page tells it.
const RTT_TOLD: (&[u8], [&[u8]; 2]) = (b"<dd>", [b" ms</dd>", b"under 1 ms</dd>"]);
const HEAD_END: &[u8] = b"\r\n\r\n";
/// How every answer begins.
pub(super) const ANSWER: &[u8] = b"HTTP/1.1 ";
/// What is left of the demo's day, which all callers share.
const OF_DEMO: &[u8] = b"\r\nx-ratelimit-limit: 1000\r\nx-ratelimit-remaining: ";
const RESET: &[u8] = b"\r\nx-ratelimit-reset: ";
/// What stands before the secret of a form.
const SECRETS: [&[u8]; 2] = [b"\r\nset-cookie: __Host-ipse-form=", b"\"csrf\" value=\""];

/// The same bytes with `Date` left empty, every number that is a round trip 0, and crosses for secrets, and some left of
/// the demo's day. A length tells how long the answer would be then; where a body is not sent that was to be
/// had, it tells nothing.
pub(super) fn masked(bytes: &[u8]) -> Vec<u8> {
    if let Some(settings) = http2_settings(bytes) {
        return settings.to_vec();
    }
    let mut told = Vec::with_capacity(bytes.len());
    let (mut rest, mut length_at) = (bytes, None);
    loop {
        let usual = (0..rest.len()).find(|at| may_be_masked(&rest[*at..])).unwrap_or(rest.len());
        told.extend_from_slice(&rest[..usual]);
        rest = &rest[usual..];
        let Some(first) = rest.first() else { return told };
        if let Some(behind) = rest.strip_prefix(HEAD_END) {
            let has_body = !behind.is_empty() && !behind.starts_with(ANSWER);
            if let Some(at) = length_at.filter(|_| !has_body && is_fine(&told)) {
                let end = at + digits(&told[at..]);
                told.splice(at..end, *b"any");
            }
            told.extend_from_slice(HEAD_END);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(DATE) {
            told.extend_from_slice(DATE);
            rest = &behind[behind.iter().position(|byte| *byte == b'\r').unwrap_or(behind.len())..];
        } else if let Some(behind) = rest.strip_prefix(OF_DEMO) {
            told.extend_from_slice(OF_DEMO);
            // That nothing is left is the same for all.
            let left = &behind[..digits(behind)];
            told.extend_from_slice(if left == b"0" { left } else { b"some" });
            rest = &behind[left.len()..];
        } else if let Some(behind) = rest.strip_prefix(LENGTH) {
            told.extend_from_slice(LENGTH);
            length_at = Some(told.len());
            rest = behind;
        } else if let Some(behind) = told_round_trip(rest) {
            shorten(&mut told, length_at, rest.len() - behind.len());
            rest = behind;
        } else if let Some(rtt) = RTT.iter().find(|rtt| rest.starts_with(rtt)) {
            told.extend_from_slice(rtt);
            let behind = &rest[rtt.len()..];
            let digits = digits(behind);
            if digits > 0 {
                told.push(b'0');
                shorten(&mut told, length_at, digits - 1);
            }
            rest = &behind[digits..];
        } else if let Some(secret) = SECRETS.iter().find(|secret| rest.starts_with(secret)) {
            told.extend_from_slice(secret);
            rest = &rest[secret.len()..];
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            told.extend(std::iter::repeat_n(b'x', length));
            rest = &rest[length..];
        } else {
            told.push(*first);
            rest = &rest[1..];
        }
    }
}

/// Whether the last answer is one that may tell a round trip.
fn is_fine(told: &[u8]) -> bool {
    let is_of_http_1 = |begin: &[u8]| begin.starts_with(b"HTTP/1.1 ") || begin.starts_with(b"HTTP/1.0 ");
    let last = told.windows(ANSWER.len()).rposition(is_of_http_1);
    last.is_some_and(|at| told[at + ANSWER.len()..].starts_with(b"200 "))
}

/// Whether something may begin here that is masked. Nearly everywhere nothing does.
fn may_be_masked(rest: &[u8]) -> bool {
    matches!(
        rest,
        [b'\r', b'\n', b'c' | b'd' | b's' | b'x' | b'\r', ..]
            | [b'"', b'c' | b'r', ..]
            | [b'r', b't', b't', ..]
            | [b'<', b'd', b'd', ..]
    )
}

/// The same without when a day ends, for comparing what was said on two days.
pub(super) fn of_any_day(told: &[u8]) -> Vec<u8> {
    let mut other = Vec::with_capacity(told.len());
    let mut rest = told;
    while let Some(first) = rest.first() {
        if let Some(behind) = rest.strip_prefix(RESET) {
            other.extend_from_slice(RESET);
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
    let begins = |at: &usize| told[*at] == ANSWER[0] && told[*at..].starts_with(ANSWER);
    (0..told.len()).filter(begins).count()
}

/// The frame with which every answer of HTTP/2 begins. What follows it is hyper's, and comes in the order of the moment.
fn http2_settings(told: &[u8]) -> Option<&[u8]> {
    const HEAD: usize = 9;
    let [0, 0, length, SETTINGS, 0, 0, 0, 0, 0, ..] = *told else { return None };
    told.get(..HEAD + usize::from(length))
}

/// What is behind the round trip that a page tells here.
fn told_round_trip(page: &[u8]) -> Option<&[u8]> {
    let (begin, ends) = RTT_TOLD;
    let value = page.strip_prefix(begin)?;
    let number = digits(value);
    let [of_number, of_none] = ends;
    if number > 0 { value[number..].strip_prefix(of_number) } else { value.strip_prefix(of_none) }
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
    use ipse_model::DEMO_DAILY_LIMIT;

    #[track_caller]
    fn check(said: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&masked(said.as_bytes())), expected);
    }

    #[test]
    fn only_what_cannot_be_equal_is_masked() {
        check("HTTP/1.1 200 OK\r\ndate: Sun\r\n\r\n", "HTTP/1.1 200 OK\r\ndate: \r\n\r\n");
        check("a\r\ncontent-length: 12\r\n\r\n{\"rtt\":123}", "a\r\ncontent-length: 10\r\n\r\n{\"rtt\":0}");
        check("a\r\ncontent-length: 12\r\n\r\n{\"rtt\":7}", "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":0}");
        check(
            "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":null}",
            "a\r\ncontent-length: 12\r\n\r\n{\"rtt\":null}",
        );
        check(
            "a\r\nset-cookie: __Host-ipse-form=aB3; Path=/\r\n\r\n<input name=\"csrf\" value=\"09af\">",
            "a\r\nset-cookie: __Host-ipse-form=xxx; Path=/\r\n\r\n<input name=\"csrf\" value=\"xxxx\">",
        );
        for (said, length) in [("<dd>under 1 ms</dd>", 20), ("<dd>12 ms</dd>", 15)] {
            check(
                &format!("a\r\ncontent-length: {length}\r\n\r\n{said}b"),
                "a\r\ncontent-length: 1\r\n\r\nb",
            );
        }
        check("a\r\ncontent-length: 12\r\n\r\nrtt&#34;: 12,", "a\r\ncontent-length: 11\r\n\r\nrtt&#34;: 0,");
        let left = |limit: u32, left: &str| {
            format!("a\r\nx-ratelimit-limit: {limit}\r\nx-ratelimit-remaining: {left}\r\n\r\n")
        };
        check(&left(DEMO_DAILY_LIMIT, "998"), &left(DEMO_DAILY_LIMIT, "some"));
        check(&left(DEMO_DAILY_LIMIT, "0"), &left(DEMO_DAILY_LIMIT, "0"));
        check(&left(10_000, "998"), &left(10_000, "998"));
        let answer = |status: &str, length: &str, behind: &str| {
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\ndate: \r\n\r\n{behind}")
        };
        for behind in [String::new(), answer("404 Not Found", "167", "")] {
            check(&answer("200 OK", "412", &behind), &answer("200 OK", "any", &behind));
        }
        check(&answer("200 OK", "2", "{}"), &answer("200 OK", "2", "{}"));
        check(
            "HTTP/1.0 200 OK\r\ncontent-length: 412\r\n\r\n",
            "HTTP/1.0 200 OK\r\ncontent-length: any\r\n\r\n",
        );
        check("a\r\nset-cookie: other=aB3\r\n\r\n", "a\r\nset-cookie: other=aB3\r\n\r\n");
        check("a\r\nDate: Sun\r\n\r\n", "a\r\nDate: Sun\r\n\r\n");
    }

    #[test]
    fn of_http_2_the_settings_are_compared() {
        let told = b"\0\0\x02\x04\0\0\0\0\0ab\0\0\0\x04\x01\0\0\0\0";
        assert_eq!(masked(told), told[..11]);
        assert_eq!(masked(&told[..10]), told[..10]);
    }

    #[test]
    fn answers_are_counted_and_compared_on_any_day() {
        let said = b"HTTP/1.1 200 OK\r\nx-ratelimit-reset: 99\r\n\r\nHTTP/1.1 204";
        assert_eq!(answers(said), 2);
        assert_eq!(of_any_day(said), b"HTTP/1.1 200 OK\r\nx-ratelimit-reset: \r\n\r\nHTTP/1.1 204");
    }
}
