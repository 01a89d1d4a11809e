//! What is known of the caller's connection, and who says so.

use crate::client::{Arrival, Connection, Trust};
use crate::facts::{FactHeaders, Told};
use http::{HeaderMap, HeaderName};
use ipse_model::Client;
use std::fmt;

/// The facts that an answer of scope `full` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactName {
    /// The version of HTTP.
    HttpVersion,
    /// The version of TLS.
    TlsVersion,
    /// The cipher suite.
    TlsCipher,
    /// The round-trip time.
    Rtt,
    /// The datacenter.
    Colo,
}

impl FactName {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::HttpVersion, Self::TlsVersion, Self::TlsCipher, Self::Rtt, Self::Colo];

    /// What people call it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::HttpVersion => "HTTP version",
            Self::TlsVersion => "TLS version",
            Self::TlsCipher => "TLS cipher",
            Self::Rtt => "Round trip",
            Self::Colo => "Datacenter",
        }
    }

    /// The field of an answer that holds it.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::HttpVersion => "http_protocol",
            Self::TlsVersion => "tls_version",
            Self::TlsCipher => "tls_cipher",
            Self::Rtt => "rtt",
            Self::Colo => "colo",
        }
    }

    /// The setting that names its header.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::HttpVersion => "http_version_header",
            Self::TlsVersion => "tls_version_header",
            Self::TlsCipher => "tls_cipher_header",
            Self::Rtt => "rtt_header",
            Self::Colo => "colo_header",
        }
    }

    /// The header in which trusted proxies report it, if one is set up.
    #[must_use]
    pub fn header(self, headers: &FactHeaders) -> Option<&HeaderName> {
        match self {
            Self::HttpVersion => headers.http_version.as_ref(),
            Self::TlsVersion => headers.tls_version.as_ref(),
            Self::TlsCipher => headers.tls_cipher.as_ref(),
            Self::Rtt => headers.rtt.as_ref(),
            Self::Colo => headers.colo.as_ref(),
        }
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFact {
    /// Which.
    pub name: FactName,
    /// Its value; `None` if it is unknown.
    pub value: Option<String>,
    /// Where the value comes from, or why there is none.
    pub origin: Origin,
}

/// Who says a fact, or why nobody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The caller's own connection to us.
    OwnConnection,
    /// A header of the trusted peer.
    Header(HeaderName),
    /// The PROXY protocol.
    Introduction,
    /// The operator, in the configuration.
    Configuration,
    /// The caller's connection is clear.
    ClearConnection,
    /// The system does not know it of this connection.
    NotMeasured,
    /// There is no connection: somebody only wants to know what would be.
    NoConnection,
    /// The proxy that introduced the caller does not tell, and the socket is its own.
    NotIntroduced,
    /// A proxy speaks for the caller, but no header is set up for this.
    NotSetUp(&'static str),
    /// The header that is set up is not there.
    Missing(HeaderName),
    /// The header that is set up is there more than once.
    Repeated(HeaderName),
    /// The header that is set up holds something that is no such fact.
    NotUnderstood(HeaderName),
    /// A cipher without a version of TLS is half a fact.
    WithoutVersion(HeaderName),
}

impl Origin {
    /// Whether somebody says the fact.
    #[must_use]
    pub fn knows(&self) -> bool {
        matches!(self, Self::OwnConnection | Self::Header(_) | Self::Introduction | Self::Configuration)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnConnection => f.write_str("from the caller's own connection"),
            Self::Header(name) => write!(f, "from the trusted peer's header `{name}`"),
            Self::Introduction => f.write_str("from the PROXY protocol"),
            Self::Configuration => f.write_str("from the configuration"),
            Self::ClearConnection => f.write_str("the caller's connection is clear, without TLS"),
            Self::NotMeasured => f.write_str("the system does not tell it of this connection"),
            Self::NoConnection => f.write_str("there is no connection to look at"),
            Self::NotIntroduced => {
                f.write_str("the socket is the proxy's own, and the PROXY protocol did not tell")
            }
            Self::NotSetUp("colo") => f.write_str("`colo` is not set"),
            Self::NotSetUp("colo_header") => f.write_str("neither `colo` nor `colo_header` is set"),
            Self::NotSetUp(setting) => {
                write!(f, "a proxy speaks for the caller, and `{setting}` is not set")
            }
            Self::Missing(name) => write!(f, "the header `{name}` is set up, but not there"),
            Self::Repeated(name) => {
                write!(f, "the header `{name}` is there more than once, so none of them is believed")
            }
            Self::NotUnderstood(name) => {
                write!(f, "the header `{name}` is there, but cannot be understood")
            }
            Self::WithoutVersion(name) => {
                write!(f, "the header `{name}` is there, but a cipher counts only with a TLS version")
            }
        }
    }
}

pub(super) fn all(
    trust: &Trust,
    connection: &Connection,
    is_reported: bool,
    client: &Client,
    headers: &HeaderMap,
) -> [KnownFact; 5] {
    FactName::ALL.map(|name| {
        let value = match name {
            FactName::HttpVersion => client.http.map(|http| http.as_str().to_owned()),
            FactName::TlsVersion => client.tls_version.map(|version| version.as_str().to_owned()),
            FactName::TlsCipher => client.tls_cipher.as_ref().map(ToString::to_string),
            FactName::Rtt => client.rtt_ms.map(|ms| format!("{ms} ms")),
            FactName::Colo => client.colo.map(|colo| colo.to_string()),
        };
        let is_known = value.is_some();
        let origin = if is_reported {
            reported(trust, name, is_known, headers)
        } else {
            direct(trust, connection, name, is_known)
        };
        KnownFact { name, value, origin }
    })
}

/// Where a fact comes from if a proxy speaks for the caller.
fn reported(trust: &Trust, name: FactName, is_known: bool, headers: &HeaderMap) -> Origin {
    let told = name.header(&trust.facts).map(|header| (header.clone(), Told::by(headers, header)));
    // What no header tells of the place, the configuration does.
    let is_told = name != FactName::Colo || trust.facts.read(headers).colo.is_some();
    match told {
        _ if is_known && !is_told => Origin::Configuration,
        Some((header, _)) if is_known => Origin::Header(header),
        None => Origin::NotSetUp(name.setting()),
        Some((header, Told::Nothing)) => Origin::Missing(header),
        Some((header, Told::Repeated)) => Origin::Repeated(header),
        Some((header, Told::Once(text)))
            if name == FactName::TlsCipher && crate::facts::cipher(text).is_some() =>
        {
            Origin::WithoutVersion(header)
        }
        Some((header, Told::Once(_) | Told::NoText)) => Origin::NotUnderstood(header),
    }
}

/// Where a fact comes from if the caller speaks for itself.
fn direct(trust: &Trust, connection: &Connection, name: FactName, is_known: bool) -> Origin {
    if name == FactName::Colo {
        return if trust.colo.is_some() { Origin::Configuration } else { Origin::NotSetUp("colo") };
    }
    match (connection.arrival, name, is_known) {
        (Arrival::Imagined, ..) => Origin::NoConnection,
        (Arrival::Introduced { own_tls: true, .. } | Arrival::Socket, _, true) => Origin::OwnConnection,
        (Arrival::Introduced { .. } | Arrival::Silent, _, true) => Origin::Introduction,
        (Arrival::Introduced { own_tls: false, .. } | Arrival::Silent, ..)
        | (Arrival::Introduced { .. }, FactName::Rtt, _) => Origin::NotIntroduced,
        (_, FactName::TlsVersion | FactName::TlsCipher, false) if connection.tls.is_none() => {
            Origin::ClearConnection
        }
        (_, _, false) => Origin::NotMeasured,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{map, trust};
    use super::*;
    use crate::tls::TlsFacts;
    use ipse_model::{Address, HttpVersion, TlsVersion};

    fn header(name: &'static str) -> HeaderName {
        HeaderName::from_static(name)
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], name: FactName, value: Option<&str>, origin: Origin) {
        let named = |name| Some(header(name));
        let mut trust = trust("auto");
        trust.facts.tls_cipher = named("x-tls-cipher");
        trust.facts.colo = named("cf-ray");
        let headers = [&[("x-forwarded-for", "8.8.8.8")], headers].concat();
        let connection = Connection::imagined("127.0.0.1".parse().unwrap());
        let facts = trust.explain(&connection, &map(&headers)).facts;
        let found = facts.into_iter().find(|fact| fact.name == name).unwrap();
        assert_eq!(found, KnownFact { name, value: value.map(str::to_owned), origin });
    }

    #[test]
    fn facts_of_a_proxys_caller_come_from_its_headers() {
        use FactName::{Colo, HttpVersion, Rtt, TlsCipher, TlsVersion};
        let [version, cipher] = [header("x-tls-version"), header("x-tls-cipher")];
        check(&[("x-tls-version", "TLSv1.3")], TlsVersion, Some("TLSv1.3"), Origin::Header(version.clone()));
        check(&[], TlsVersion, None, Origin::Missing(version.clone()));
        check(&[("x-tls-version", "SSLv3")], TlsVersion, None, Origin::NotUnderstood(version.clone()));
        let twice = [("x-tls-version", "TLSv1.3"), ("x-tls-version", "TLSv1.3")];
        check(&twice, TlsVersion, None, Origin::Repeated(version));
        check(&[("x-http-version", "2")], HttpVersion, None, Origin::NotSetUp("http_version_header"));
        check(&[("x-rtt", "12400us")], Rtt, Some("12 ms"), Origin::Header(header("x-rtt")));
        let suite = ("x-tls-cipher", "TLS_AES_128_GCM_SHA256");
        check(&[suite], TlsCipher, None, Origin::WithoutVersion(cipher.clone()));
        check(&[suite, ("x-tls-version", "1.3")], TlsCipher, Some(suite.1), Origin::Header(cipher.clone()));
        check(&[("x-tls-cipher", "?")], TlsCipher, None, Origin::NotUnderstood(cipher));
        check(&[], Colo, Some("AMS"), Origin::Configuration);
        check(&[("cf-ray", "8f1ed4d3cb5c1c1e-FRA")], Colo, Some("FRA"), Origin::Header(header("cf-ray")));
    }

    #[track_caller]
    fn check_direct(arrival: Arrival, known: bool, expected: &[Origin; 4]) {
        let connection = Connection {
            peer: Address::new("198.51.100.1".parse().unwrap()),
            arrival,
            http: known.then_some(HttpVersion::Http2),
            tls: known.then(|| TlsFacts { version: TlsVersion::Tls13, cipher: Some("X".into()) }),
            rtt_ms: (known && !matches!(arrival, Arrival::Introduced { .. })).then_some(7),
        };
        let facts = trust("auto").explain(&connection, &HeaderMap::new()).facts;
        assert_eq!(facts.map(|fact| fact.origin)[..4], expected[..]);
    }

    #[test]
    fn facts_of_a_caller_without_a_proxy_come_from_the_connection() {
        use Origin::{
            ClearConnection, Introduction, NoConnection, NotIntroduced, NotMeasured, OwnConnection,
        };
        let by = Address::new("10.0.0.1".parse().unwrap());
        check_direct(Arrival::Socket, true, &[OwnConnection, OwnConnection, OwnConnection, OwnConnection]);
        check_direct(Arrival::Socket, false, &[NotMeasured, ClearConnection, ClearConnection, NotMeasured]);
        let clear = Arrival::Introduced { by, own_tls: false };
        check_direct(clear, true, &[Introduction, Introduction, Introduction, NotIntroduced]);
        check_direct(clear, false, &[NotIntroduced, NotIntroduced, NotIntroduced, NotIntroduced]);
        let own = Arrival::Introduced { by, own_tls: true };
        check_direct(own, true, &[OwnConnection, OwnConnection, OwnConnection, NotIntroduced]);
        check_direct(Arrival::Imagined, false, &[NoConnection, NoConnection, NoConnection, NoConnection]);
    }
}
