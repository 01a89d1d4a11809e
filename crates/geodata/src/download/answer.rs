//! What the headers of an answer say about the file and about the next request.

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderName};
use std::time::{Duration, SystemTime};

/// A date stands for one version of a file only if the file had not changed for this long when it was sent.
const SETTLED: Duration = Duration::from_secs(60);

/// `Content-Range: bytes 5-9/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) total: u64,
}

/// The range, unless it contradicts itself or does not say how long the whole is.
pub(super) fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let (range, total) = text(headers, &header::CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = ContentRange { first: number(first)?, last: number(last)?, total: number(total)? };
    (range.first <= range.last && range.last < range.total).then_some(range)
}

/// The validator that `If-Range` may carry: one that changes whenever a byte does.
pub(super) fn strong_validator(headers: &HeaderMap) -> Option<String> {
    if let Some(etag) = text(headers, &header::ETAG) {
        return etag.starts_with('"').then(|| etag.to_owned());
    }
    let modified = text(headers, &header::LAST_MODIFIED)?;
    let age = date(headers, &header::DATE)?.duration_since(httpdate::parse_http_date(modified).ok()?).ok()?;
    (age >= SETTLED).then(|| modified.to_owned())
}

/// How long the server wants to be left alone. A date is measured from the server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let asked = text(headers, &header::RETRY_AFTER)?.trim();
    if let Some(seconds) = number(asked) {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    Some(until.duration_since(date(headers, &header::DATE)?).unwrap_or_default())
}

/// Whether the connection's end is the only sign of the file's end.
pub(super) fn ends_with_connection(response: &reqwest::Response) -> bool {
    response.version() <= reqwest::Version::HTTP_11
        && !response.headers().contains_key(header::CONTENT_LENGTH)
        && !response.headers().contains_key(header::TRANSFER_ENCODING)
}

pub(super) fn is_web_page(headers: &HeaderMap) -> bool {
    text(headers, &header::CONTENT_TYPE)
        .is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("text/html"))
}

/// Whether the answer sends us elsewhere.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The header as text, unless it is not.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

/// Digits only: `+5` is a number to Rust and none to HTTP.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const MINUTE_LATER: &str = "Sun, 06 Nov 1994 08:50:37 GMT";

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[track_caller]
    fn range(value: &'static str, expected: Option<(u64, u64, u64)>) {
        let expected = expected.map(|(first, last, total)| ContentRange { first, last, total });
        assert_eq!(content_range(&headers(&[("content-range", value)])), expected, "{value}");
    }

    #[test]
    fn a_range_is_read_or_refused() {
        range("bytes 5-9/10", Some((5, 9, 10)));
        range("bytes 0-0/1", Some((0, 0, 1)));
        range("bytes 5-9/*", None);
        range("bytes */10", None);
        range("bytes 9-5/10", None);
        range("bytes 5-10/10", None);
        range("bytes +5-9/10", None);
        range("bytes 5-9/99999999999999999999999", None);
        range("items 5-9/10", None);
        range("5-9/10", None);
    }

    #[track_caller]
    fn validator(lines: &[(&'static str, &'static str)], expected: Option<&str>) {
        assert_eq!(strong_validator(&headers(lines)).as_deref(), expected, "{lines:?}");
    }

    #[test]
    fn only_a_strong_validator_may_join_two_parts() {
        validator(&[("etag", "\"a\"")], Some("\"a\""));
        validator(&[("etag", "W/\"a\"")], None);
        validator(&[("etag", "W/\"a\""), ("last-modified", DAY), ("date", MINUTE_LATER)], None);
        validator(&[("last-modified", DAY), ("date", MINUTE_LATER)], Some(DAY));
        validator(&[("last-modified", DAY), ("date", "Sun, 06 Nov 1994 08:50:36 GMT")], None);
        validator(&[("last-modified", MINUTE_LATER), ("date", DAY)], None);
        validator(&[("last-modified", DAY)], None);
        validator(&[("last-modified", "yesterday"), ("date", DAY)], None);
        validator(&[], None);
    }

    #[track_caller]
    fn wait(lines: &[(&'static str, &'static str)], seconds: Option<u64>) {
        assert_eq!(retry_after(&headers(lines)), seconds.map(Duration::from_secs), "{lines:?}");
    }

    #[test]
    fn a_wait_is_seconds_or_a_date_of_the_servers_clock() {
        wait(&[("retry-after", "120")], Some(120));
        wait(&[("retry-after", MINUTE_LATER), ("date", DAY)], Some(60));
        wait(&[("retry-after", DAY), ("date", MINUTE_LATER)], Some(0));
        wait(&[("retry-after", DAY)], None);
        wait(&[("retry-after", "-1")], None);
        wait(&[("retry-after", "soon")], None);
        wait(&[], None);
    }

    #[track_caller]
    fn page(kind: &'static str, expected: bool) {
        assert_eq!(is_web_page(&headers(&[("content-type", kind)])), expected, "{kind}");
    }

    #[test]
    fn a_web_page_is_known_by_its_type() {
        page("text/html", true);
        page("Text/HTML; charset=utf-8", true);
        page("text/csv", false);
        page("application/octet-stream", false);
    }
}
