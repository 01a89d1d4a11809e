//! What a proxy says about the connection of its caller, in the words of each of them.

use crate::fields::{Fields, text};
use crate::tls::TlsFacts;
use http::HeaderName;
use ipse_model::{Colo, HttpVersion, TlsVersion};
use std::borrow::Cow;

/// The headers in which trusted proxies report what they know. What has no header is not known.
#[derive(Clone, Debug, Default)]
pub struct FactHeaders {
    /// The version of TLS.
    pub tls_version: Option<HeaderName>,
    /// The cipher suite.
    pub tls_cipher: Option<HeaderName>,
    /// The version of HTTP.
    pub http_version: Option<HeaderName>,
    /// The round-trip time.
    pub rtt: Option<HeaderName>,
    /// The place of the proxy.
    pub colo: Option<HeaderName>,
}

/// What was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) http: Option<HttpVersion>,
    pub(crate) tls: Option<TlsFacts>,
    pub(crate) rtt_ms: Option<u32>,
    pub(crate) colo: Option<Colo>,
}

impl FactHeaders {
    pub(crate) fn read(&self, headers: &impl Fields) -> Facts {
        let cipher = only(headers, self.tls_cipher.as_ref()).and_then(cipher);
        let version = only(headers, self.tls_version.as_ref()).and_then(tls_version);
        Facts {
            http: only(headers, self.http_version.as_ref()).and_then(http_version),
            // A suite without a version is half a fact, and left out.
            tls: version.map(|version| TlsFacts { version, cipher }),
            rtt_ms: only(headers, self.rtt.as_ref()).and_then(rtt_ms),
            colo: only(headers, self.colo.as_ref()).and_then(colo),
        }
    }
}

/// What a header holds that should be there once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// It is not there.
    Nothing,
    /// This, without blanks around it.
    Once(&'a str),
    /// Bytes that are no text.
    NoText,
    /// It is there more than once: of two, one may be the caller's.
    Repeated,
}

impl<'a> Told<'a> {
    pub(crate) fn by(headers: &'a impl Fields, name: &HeaderName) -> Self {
        let mut lines = headers.lines(name);
        match (lines.next(), lines.next()) {
            (None, _) => Self::Nothing,
            (Some(only), None) => text(only).map_or(Self::NoText, |text| Self::Once(text.trim())),
            (Some(_), Some(_)) => Self::Repeated,
        }
    }
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a impl Fields, name: Option<&HeaderName>) -> Option<&'a str> {
    match Told::by(headers, name?) {
        Told::Once(text) => Some(text),
        Told::Nothing | Told::NoText | Told::Repeated => None,
    }
}

/// `TLSv1.3` (nginx, `HAProxy`, AWS, Cloudflare), `tls1.3` (Caddy), `TLS 1.3`, `1.3`.
pub(crate) fn tls_version(text: &str) -> Option<TlsVersion> {
    let text = text.to_ascii_lowercase();
    match text.strip_prefix("tls").unwrap_or(&text).trim_start_matches(['v', ' ']) {
        "1.2" => Some(TlsVersion::Tls12),
        "1.3" => Some(TlsVersion::Tls13),
        _ => None,
    }
}

/// `HTTP/2.0` (nginx, Caddy), `HTTP/2`, `2.0` (`HAProxy`), `h2` (ALPN).
pub(crate) fn http_version(text: &str) -> Option<HttpVersion> {
    let text = text.to_ascii_lowercase();
    match text.strip_prefix("http/").unwrap_or(&text) {
        "1.0" => Some(HttpVersion::Http10),
        "1.1" => Some(HttpVersion::Http11),
        "2" | "2.0" | "h2" => Some(HttpVersion::Http2),
        "3" | "3.0" | "h3" => Some(HttpVersion::Http3),
        _ => None,
    }
}

/// Milliseconds, or with a unit: `12`, `12.4`, `12ms`, `12400us`.
fn rtt_ms(text: &str) -> Option<u32> {
    let (number, per_ms) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(number), _) => (number, 1000.0),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let number = number.trim();
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ms = number.parse::<f64>().ok().filter(|_| is_plain)? / per_ms;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within an hour")]
    (ms <= 3_600_000.0).then(|| ms.round() as u32)
}

/// `AMS`, or behind the number of a request: `8f1ed4d3cb5c1c1e-AMS` (Cloudflare's `CF-Ray`).
fn colo(text: &str) -> Option<Colo> {
    text.rsplit('-').next()?.parse().ok()
}

/// The registered name of a suite, from that or from what OpenSSL or Cloudflare call it.
pub(crate) fn cipher(text: &str) -> Option<Cow<'static, str>> {
    let known = SUITES.iter().find(|(registered, other)| text == *registered || text == *other);
    if let Some((registered, _)) = known {
        return Some((*registered).into());
    }
    let edge = text.strip_prefix("AEAD-").and_then(|edge| {
        let registered = |name: &str| name.strip_prefix("TLS_").map(|rest| rest.replace('_', ""));
        let wanted = edge.replace('-', "");
        SUITES.iter().find(|(name, _)| registered(name).as_deref() == Some(&wanted))
    });
    edge.map(|(registered, _)| (*registered).into())
}

/// The suites of TLS 1.3, and those of TLS 1.2 that are still found, by their registered names and by OpenSSL's.
const SUITES: &[(&str, &str)] = &[
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_SHA256"),
    ("TLS_AES_128_CCM_8_SHA256", "TLS_AES_128_CCM_8_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
    ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ("TLS_DHE_DSS_WITH_AES_128_CBC_SHA", "DHE-DSS-AES128-SHA"),
    ("TLS_DHE_DSS_WITH_AES_128_CBC_SHA256", "DHE-DSS-AES128-SHA256"),
    ("TLS_DHE_DSS_WITH_AES_128_GCM_SHA256", "DHE-DSS-AES128-GCM-SHA256"),
    ("TLS_DHE_DSS_WITH_AES_256_CBC_SHA", "DHE-DSS-AES256-SHA"),
    ("TLS_DHE_DSS_WITH_AES_256_CBC_SHA256", "DHE-DSS-AES256-SHA256"),
    ("TLS_DHE_DSS_WITH_AES_256_GCM_SHA384", "DHE-DSS-AES256-GCM-SHA384"),
    ("TLS_DHE_DSS_WITH_ARIA_128_GCM_SHA256", "DHE-DSS-ARIA128-GCM-SHA256"),
    ("TLS_DHE_DSS_WITH_ARIA_256_GCM_SHA384", "DHE-DSS-ARIA256-GCM-SHA384"),
    ("TLS_DHE_DSS_WITH_CAMELLIA_128_CBC_SHA", "DHE-DSS-CAMELLIA128-SHA"),
    ("TLS_DHE_DSS_WITH_CAMELLIA_128_CBC_SHA256", "DHE-DSS-CAMELLIA128-SHA256"),
    ("TLS_DHE_DSS_WITH_CAMELLIA_256_CBC_SHA", "DHE-DSS-CAMELLIA256-SHA"),
    ("TLS_DHE_DSS_WITH_CAMELLIA_256_CBC_SHA256", "DHE-DSS-CAMELLIA256-SHA256"),
    ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA", "DHE-RSA-AES128-SHA"),
    ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
    ("TLS_DHE_RSA_WITH_AES_128_CCM", "DHE-RSA-AES128-CCM"),
    ("TLS_DHE_RSA_WITH_AES_128_CCM_8", "DHE-RSA-AES128-CCM8"),
    ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
    ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
    ("TLS_DHE_RSA_WITH_AES_256_CCM", "DHE-RSA-AES256-CCM"),
    ("TLS_DHE_RSA_WITH_AES_256_CCM_8", "DHE-RSA-AES256-CCM8"),
    ("TLS_DHE_RSA_WITH_ARIA_128_GCM_SHA256", "DHE-RSA-ARIA128-GCM-SHA256"),
    ("TLS_DHE_RSA_WITH_ARIA_256_GCM_SHA384", "DHE-RSA-ARIA256-GCM-SHA384"),
    ("TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA", "DHE-RSA-CAMELLIA128-SHA"),
    ("TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA256", "DHE-RSA-CAMELLIA128-SHA256"),
    ("TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA", "DHE-RSA-CAMELLIA256-SHA"),
    ("TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA256", "DHE-RSA-CAMELLIA256-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM", "ECDHE-ECDSA-AES256-CCM"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8", "ECDHE-ECDSA-AES256-CCM8"),
    ("TLS_ECDHE_ECDSA_WITH_ARIA_128_GCM_SHA256", "ECDHE-ECDSA-ARIA128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_ARIA_256_GCM_SHA384", "ECDHE-ECDSA-ARIA256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_CAMELLIA_128_CBC_SHA256", "ECDHE-ECDSA-CAMELLIA128-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CAMELLIA_256_CBC_SHA384", "ECDHE-ECDSA-CAMELLIA256-SHA384"),
    ("TLS_ECDHE_RSA_WITH_ARIA_128_GCM_SHA256", "ECDHE-ARIA128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_ARIA_256_GCM_SHA384", "ECDHE-ARIA256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CAMELLIA_128_CBC_SHA256", "ECDHE-RSA-CAMELLIA128-SHA256"),
    ("TLS_ECDHE_RSA_WITH_CAMELLIA_256_CBC_SHA384", "ECDHE-RSA-CAMELLIA256-SHA384"),
    ("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"),
    ("TLS_RSA_WITH_AES_128_CCM", "AES128-CCM"),
    ("TLS_RSA_WITH_AES_128_CCM_8", "AES128-CCM8"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
    ("TLS_RSA_WITH_AES_256_CCM", "AES256-CCM"),
    ("TLS_RSA_WITH_AES_256_CCM_8", "AES256-CCM8"),
    ("TLS_RSA_WITH_ARIA_128_GCM_SHA256", "ARIA128-GCM-SHA256"),
    ("TLS_RSA_WITH_ARIA_256_GCM_SHA384", "ARIA256-GCM-SHA384"),
    ("TLS_RSA_WITH_CAMELLIA_128_CBC_SHA", "CAMELLIA128-SHA"),
    ("TLS_RSA_WITH_CAMELLIA_128_CBC_SHA256", "CAMELLIA128-SHA256"),
    ("TLS_RSA_WITH_CAMELLIA_256_CBC_SHA", "CAMELLIA256-SHA"),
    ("TLS_RSA_WITH_CAMELLIA_256_CBC_SHA256", "CAMELLIA256-SHA256"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    #[test]
    fn versions_are_understood_as_each_proxy_writes_them() {
        for text in ["TLSv1.3", "tls1.3", "TLS 1.3", "1.3"] {
            assert_eq!(tls_version(text), Some(TlsVersion::Tls13), "{text}");
        }
        assert_eq!(tls_version("TLSv1.2"), Some(TlsVersion::Tls12));
        for text in ["", "TLSv1.1", "TLSv1", "SSLv3", "-", "1.30"] {
            assert_eq!(tls_version(text), None, "{text}");
        }
        for (text, version) in [
            ("HTTP/1.0", HttpVersion::Http10),
            ("HTTP/1.1", HttpVersion::Http11),
            ("HTTP/2.0", HttpVersion::Http2),
            ("HTTP/2", HttpVersion::Http2),
            ("2.0", HttpVersion::Http2),
            ("h2", HttpVersion::Http2),
            ("HTTP/3.0", HttpVersion::Http3),
        ] {
            assert_eq!(http_version(text), Some(version), "{text}");
        }
        assert_eq!(http_version("HTTP/4"), None);
    }

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("12", Some(12)),
            ("12.5", Some(13)),
            ("12ms", Some(12)),
            ("12400us", Some(12)),
            ("499us", Some(0)),
            ("", None),
            ("-1", None),
            ("inf", None),
            ("1e3", None),
            ("ms", None),
            ("99999999", None),
            ("1.2.3", None),
        ] {
            assert_eq!(rtt_ms(text), expected, "{text:?}");
        }
    }

    #[test]
    fn suites_are_told_by_their_registered_names() {
        for (text, expected) in [
            ("ECDHE-RSA-AES128-GCM-SHA256", Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")),
            ("TLS_AES_256_GCM_SHA384", Some("TLS_AES_256_GCM_SHA384")),
            ("AEAD-AES128-GCM-SHA256", Some("TLS_AES_128_GCM_SHA256")),
            ("AEAD-CHACHA20-POLY1305-SHA256", Some("TLS_CHACHA20_POLY1305_SHA256")),
            ("<script>", None),
            ("AEAD-", None),
            ("", None),
        ] {
            assert_eq!(cipher(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_place_may_stand_behind_the_number_of_a_request() {
        assert_eq!(colo("8f1ed4d3cb5c1c1e-AMS"), "AMS".parse().ok());
        assert_eq!(colo("fra"), "FRA".parse().ok());
        assert_eq!(colo("8f1ed4d3cb5c1c1e"), None);
    }

    #[test]
    fn only_headers_that_are_named_and_there_once_are_read() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("x-tls", "TLSv1.3"), ("x-cipher", "TLS_AES_128_GCM_SHA256"), ("x-rtt", "7"), ("x-rtt", "8")]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let named = |name| Some(HeaderName::from_static(name));
        let all = FactHeaders {
            tls_version: named("x-tls"),
            tls_cipher: named("x-cipher"),
            rtt: named("x-rtt"),
            ..FactHeaders::default()
        };
        let tls = TlsFacts { version: TlsVersion::Tls13, cipher: Some("TLS_AES_128_GCM_SHA256".into()) };
        assert_eq!(all.read(&headers), Facts { tls: Some(tls), ..Facts::default() });
        assert_eq!(FactHeaders::default().read(&headers), Facts::default());
    }
}
