//! The headers of a request as an operator may see them: without secrets, and without anything that a terminal would
//! obey.

use super::request;
use crate::client::Trust;
use http::{HeaderMap, HeaderName, HeaderValue};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownHeader {
    /// Its name.
    pub name: HeaderName,
    /// Its value; `None` if it may be a secret.
    pub value: Option<String>,
}

/// Parts of names of headers that hold secrets.
const SECRET_NAMES: [&str; 12] = [
    "auth",
    "cookie",
    "key",
    "token",
    "secret",
    "passw",
    "session",
    "signature",
    "credential",
    "csrf",
    "query",
    "args",
];
/// How a key of ours begins.
const KEY: &str = "ipse_";
/// How long a word of letters and digits is that may be a key.
const KEY_LENGTH: usize = 32;

/// All lines of a request, those of one name together.
pub(super) fn all(trust: &Trust, headers: &HeaderMap) -> Vec<ShownHeader> {
    let shown = |(name, value): (&HeaderName, &HeaderValue)| {
        let text = printable(value);
        let is_ours = trust.address_headers().contains(name)
            || trust.fact_headers().any(|(_, header)| header == name)
            || request::is_known(name);
        let is_secret = text.contains(KEY) || (!is_ours && (names_secret(name) || holds_key(&text)));
        ShownHeader { name: name.clone(), value: (!is_secret).then(|| without_query(text)) }
    };
    headers.iter().map(shown).collect()
}

/// The lines of a header that tells the caller's address, as far as they can be printed.
pub(super) fn lines(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let shown =
        |value| Some(printable(value)).filter(|text| !text.contains(KEY)).unwrap_or("(hidden)".to_owned());
    headers.get_all(name).iter().map(shown).collect()
}

/// Letters as they are; other bytes by their numbers, because together they may be orders to a terminal, or text that
/// runs backwards.
fn printable(value: &HeaderValue) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.as_bytes() {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            b'\t' => text.push(' '),
            byte => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

fn names_secret(name: &HeaderName) -> bool {
    SECRET_NAMES.iter().any(|part| name.as_str().contains(part))
}

/// Whether a word is there that is long enough for a key, and has letters and digits as keys have.
fn holds_key(text: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).any(|word| {
        word.len() >= KEY_LENGTH
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// Addresses of pages stand in headers too, and a query may hold a key.
fn without_query(text: String) -> String {
    match text.split_once('?') {
        Some((before, query)) if query.contains('=') => format!("{before}?(hidden)"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::explain;
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, expected: Option<&str>) {
        let shown = explain("auto", "198.51.100.1", &[(name, value)]).headers;
        assert_eq!(shown[0].value.as_deref(), expected, "{name}: {value}");
    }

    #[test]
    fn secrets_are_hidden() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "x-api-key",
            "x-csrf-token",
            "cf-access-client-secret",
            "x-query-string",
        ] {
            check(name, "x", None);
        }
        check("x-anything", "ipse_short", None);
        check("x-forwarded-for", "ipse_in_disguise", None);
        let reading =
            explain("auto", "127.0.0.1", &[("x-forwarded-for", "ipse_in_disguise")]).readings.remove(0);
        assert_eq!(reading.lines, ["(hidden)"]);
        check("x-anything", "Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OWFi", None);
        check("x-anything", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.x", None);
        check("referer", "https://ip.example/?key=abc", Some("https://ip.example/?(hidden)"));
        check("x-original-request", "GET /?key=abc HTTP/1.1", Some("GET /?(hidden)"));
        check("x-original-uri", "/doctor/x?key=abc&scope=ip", Some("/doctor/x?(hidden)"));
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for (name, value) in [
            ("host", "ip.example.com"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"),
            ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            ("cf-ray", "8f1ed4d3cb5c1c1e-AMS"),
            ("x-amzn-tls-cipher-suite", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
            ("x-tls-version", "TLSv1.3"),
            ("x-forwarded-for", "2001:db8:1111:2222:3333:4444:5555:6666"),
        ] {
            check(name, value, Some(value));
        }
    }

    #[test]
    fn a_terminal_is_given_no_orders() {
        let value = HeaderValue::from_bytes(b"a\tb\xc2\x9b31m\xe2\x80\xae").unwrap();
        assert_eq!(printable(&value), "a b\\xc2\\x9b31m\\xe2\\x80\\xae");
    }
}
