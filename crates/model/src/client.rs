//! What is known about the caller of one request before anything is looked up.

use crate::Address;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// One caller as the edge saw it. A fact that is not certain is `None`: behind a proxy that reports nothing,
/// everything but the address is unknown, because the connection we see is the proxy's own.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address that the answer is about.
    pub address: Address,
    /// The HTTP version the caller spoke.
    pub http: Option<HttpVersion>,
    /// The TLS version of the caller's connection; `None` on a clear one.
    pub tls_version: Option<TlsVersion>,
    /// The cipher suite by its IANA name.
    pub tls_cipher: Option<Cow<'static, str>>,
    /// The transport's own smoothed estimate of the round trip.
    pub rtt_ms: Option<u32>,
    /// The datacenter that serves the caller.
    pub colo: Option<Colo>,
}

/// The versions of HTTP a caller can speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl HttpVersion {
    /// The text that stands in `http_protocol`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

/// The versions of TLS that are still spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

impl TlsVersion {
    /// The text that stands in `tls_version`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// An IATA airport code, the customary name of a datacenter's place: three capital letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colo([u8; 3]);

impl Colo {
    /// The three letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII letters get in, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Colo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is no IATA code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a colo is an IATA code of three letters, such as AMS")]
pub struct NotAColo;

impl FromStr for Colo {
    type Err = NotAColo;

    fn from_str(text: &str) -> Result<Self, NotAColo> {
        let mut letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| NotAColo)?;
        letters.make_ascii_uppercase();
        if letters.iter().all(u8::is_ascii_uppercase) { Ok(Self(letters)) } else { Err(NotAColo) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_in_the_decided_words() {
        use HttpVersion::{Http2, Http3, Http10, Http11};
        let http = [Http10, Http11, Http2, Http3].map(HttpVersion::as_str);
        assert_eq!(http, ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"]);
        assert_eq!([TlsVersion::Tls12, TlsVersion::Tls13].map(TlsVersion::as_str), ["TLSv1.2", "TLSv1.3"]);
    }

    #[test]
    fn a_colo_is_three_letters_in_capitals() {
        assert_eq!("ams".parse::<Colo>().unwrap().as_str(), "AMS");
        for text in ["", "AM", "AMST", "A1S", "ÄS", "A S"] {
            assert_eq!(text.parse::<Colo>(), Err(NotAColo), "{text:?}");
        }
    }
}
