//! Where the shared engine is, as an operator writes it.

use std::fmt;
use std::str::FromStr;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// The address of the shared engine. Its password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct CountersUrl {
    pub(super) arrangement: Arrangement,
    /// Whether connections are encrypted.
    pub(super) is_tls: bool,
    /// Servers, or sentinels, or some members of a cluster.
    pub(super) places: Vec<Place>,
    pub(super) database: i64,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// How many servers there are, and who says which of them is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// One.
    Single,
    /// One at a time, whose place sentinels know by this name.
    Sentinel(String),
    /// Many, each with a part of the slots.
    Cluster,
}

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Why a text is no address of a shared engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACountersUrl {
    /// It begins with something else.
    #[error(
        "must begin with redis://, rediss:// (encrypted), redis-sentinel://, rediss-sentinel://, redis-cluster:// or rediss-cluster://"
    )]
    Scheme,
    /// There is no host, or one that cannot be.
    #[error("must name a host, and perhaps its port: redis://HOST:PORT")]
    Host,
    /// More than one host where one is asked for.
    #[error("names several hosts, which only redis-sentinel:// and redis-cluster:// can")]
    Hosts,
    /// There is no name of a master.
    #[error("must name the master that sentinels watch: redis-sentinel://HOST:PORT,HOST:PORT/NAME")]
    Master,
    /// The database is no number, or in a cluster.
    #[error("names a database that cannot be: a number from 0, and none in a cluster")]
    Database,
    /// There is something behind `?` or `#`.
    #[error("has something behind ? or #, which means nothing here")]
    Tail,
    /// A percent sign that is followed by no two digits.
    #[error(
        "has a % in its user or password that is followed by no two hexadecimal digits; write %25 for the sign itself"
    )]
    Escape,
}

impl CountersUrl {
    /// The same with this password.
    #[must_use]
    pub fn with_password(mut self, password: String) -> Self {
        self.password = Some(password);
        self
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Whether there is a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }
}

impl FromStr for CountersUrl {
    type Err = NotACountersUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(NotACountersUrl::Scheme)?;
        let (is_tls, arrangement) = match scheme {
            "redis" => (false, Arrangement::Single),
            "rediss" => (true, Arrangement::Single),
            "redis-sentinel" => (false, Arrangement::Sentinel(String::new())),
            "rediss-sentinel" => (true, Arrangement::Sentinel(String::new())),
            "redis-cluster" => (false, Arrangement::Cluster),
            "rediss-cluster" => (true, Arrangement::Cluster),
            _ => return Err(NotACountersUrl::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(NotACountersUrl::Tail);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        let (user, password) = match credentials.map(|both| both.split_once(':').unwrap_or((both, ""))) {
            Some((user, password)) => (some(unescaped(user)?), some(unescaped(password)?)),
            None => (None, None),
        };
        let port = if matches!(arrangement, Arrangement::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        let places: Vec<Place> = hosts
            .split(',')
            .map(|host| place(host, port))
            .collect::<Option<_>>()
            .ok_or(NotACountersUrl::Host)?;
        let (arrangement, database) = match arrangement {
            Arrangement::Single if places.len() > 1 => return Err(NotACountersUrl::Hosts),
            Arrangement::Single => (Arrangement::Single, path),
            Arrangement::Sentinel(_) => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                let name = some(name.to_owned()).ok_or(NotACountersUrl::Master)?;
                (Arrangement::Sentinel(name), database)
            }
            Arrangement::Cluster if !path.is_empty() => return Err(NotACountersUrl::Database),
            Arrangement::Cluster => (Arrangement::Cluster, ""),
        };
        let database = match database {
            "" => 0,
            number => number.parse::<u16>().map_err(|_| NotACountersUrl::Database)?.into(),
        };
        Ok(Self { arrangement, is_tls, places, database, user, password })
    }
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
pub(super) fn place(text: &str, port: u16) -> Option<Place> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if rest.is_empty() => port,
        None => return None,
    };
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
    is_host.then(|| Place { host: host.to_owned(), port })
}

/// A user or password may hold anything, if it is escaped as in any URL.
fn unescaped(text: &str) -> Result<String, NotACountersUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        rest = others;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(NotACountersUrl::Escape)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| NotACountersUrl::Escape)
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(out, "[{host}]:{port}") } else { write!(out, "{host}:{port}") }
    }
}

impl fmt::Display for CountersUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let (kind, master) = match &self.arrangement {
            Arrangement::Single => ("", None),
            Arrangement::Sentinel(name) => ("-sentinel", Some(name)),
            Arrangement::Cluster => ("-cluster", None),
        };
        write!(out, "redis{tls}{kind}://")?;
        for (number, place) in self.places.iter().enumerate() {
            if number > 0 {
                out.write_str(",")?;
            }
            write!(out, "{place}")?;
        }
        if let Some(name) = master {
            write!(out, "/{name}")?;
        }
        if self.database != 0 { write!(out, "/{}", self.database) } else { Ok(()) }
    }
}

impl fmt::Debug for CountersUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(text: &str) -> String {
        text.parse::<CountersUrl>().unwrap().to_string()
    }

    #[test]
    fn an_address_says_what_it_said_but_for_who_asks() {
        assert_eq!(shown("redis://localhost"), "redis://localhost:6379");
        assert_eq!(shown("rediss://user:secret@10.0.0.1:7000/3"), "rediss://10.0.0.1:7000/3");
        assert_eq!(shown("redis-cluster://a,b:7001,[::1]:7002"), "redis-cluster://a:6379,b:7001,[::1]:7002");
        assert_eq!(shown("rediss-sentinel://:secret@a,b/main/2"), "rediss-sentinel://a:26379,b:26379/main/2");
        let url: CountersUrl = "redis://us%65r:p%40ss%2fword@host".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("user"), Some("p@ss/word")));
        assert!(!format!("{url:?}").contains("p@ss"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        use NotACountersUrl::*;
        for (text, wrong) in [
            ("localhost:6379", Scheme),
            ("http://localhost", Scheme),
            ("redis://", Host),
            ("redis://host:port", Host),
            ("redis://a,b", Hosts),
            ("redis-sentinel://a", Master),
            ("redis://a/x", Database),
            ("redis-cluster://a/1", Database),
            ("redis://a?db=1", Tail),
            ("redis://:%zz@a", Escape),
        ] {
            assert_eq!(text.parse::<CountersUrl>(), Err(wrong), "{text}");
        }
    }
}
