//! One file that geo data shall be built from, as an operator writes it: `city:dbip-city-lite`.

use crate::download::{Checksum, DbIpEdition, SourceUrl};
use crate::sources::Kind;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A file that is wanted, and what for. It prints as it is written, without anything that may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is read for.
    pub kind: Kind,
    /// Where it comes from.
    pub supply: Supply,
}

/// Where a file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supply {
    /// The free database of DB-IP for this month, or for the last one until that is there.
    DbIp(DbIpEdition),
    /// A database of `MaxMind`, by the name of its edition.
    MaxMind {
        /// Such as `GeoLite2-City`.
        edition: String,
    },
    /// Any URL.
    Url {
        /// Where it lies.
        url: SourceUrl,
        /// How it is verified.
        checksum: Option<Box<Checksum>>,
    },
    /// A file of this machine.
    File(PathBuf),
}

/// A text that names no file. It says what is allowed and does not repeat what may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not allowed: {why}")]
pub struct WantedError {
    /// The text as it may be shown.
    shown: String,
    why: String,
}

const KINDS: [(&str, Kind); 4] =
    [("city", Kind::City), ("country", Kind::Country), ("asn", Kind::Asn), ("anonymous", Kind::Anonymous)];

const SUPPLIES: &str = "dbip-city-lite, dbip-asn-lite, maxmind:EDITION, an address that begins with https:// or \
                        http://, or the path of a file with a / in it";

impl FromStr for Wanted {
    type Err = WantedError;

    fn from_str(text: &str) -> Result<Self, WantedError> {
        let refused = |why: String| WantedError { shown: redacted(text), why };
        let (kind, from) = text
            .split_once(':')
            .ok_or_else(|| refused("it must be KIND:SOURCE, such as city:dbip-city-lite".to_owned()))?;
        let (_, kind) = KINDS.into_iter().find(|(name, _)| *name == kind).ok_or_else(|| {
            refused("the kind before the first colon must be city, country, asn or anonymous".to_owned())
        })?;
        let supply = match from {
            "dbip-city-lite" => Supply::DbIp(DbIpEdition::CityLite),
            "dbip-asn-lite" => Supply::DbIp(DbIpEdition::AsnLite),
            _ if from.starts_with("https://") || from.starts_with("http://") => url(from).map_err(refused)?,
            _ => match from.strip_prefix("maxmind:") {
                Some(edition) => Supply::MaxMind { edition: edition_name(edition).map_err(refused)? },
                None if from.contains('/') && !from.starts_with("http") => Supply::File(PathBuf::from(from)),
                None => return Err(refused(format!("the source after the colon must be {SUPPLIES}"))),
            },
        };
        let made_for = match &supply {
            Supply::DbIp(DbIpEdition::CityLite) => &[Kind::City, Kind::Country][..],
            Supply::DbIp(DbIpEdition::AsnLite) => &[Kind::Asn],
            Supply::MaxMind { .. } | Supply::Url { .. } | Supply::File(_) => {
                return Ok(Self { kind, supply });
            }
        };
        if made_for.contains(&kind) {
            return Ok(Self { kind, supply });
        }
        Err(refused(format!("that database says nothing about {kind}; it is for {}", made_for[0])))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.supply)
    }
}

impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DbIp(DbIpEdition::CityLite) => f.write_str("dbip-city-lite"),
            Self::DbIp(DbIpEdition::AsnLite) => f.write_str("dbip-asn-lite"),
            Self::MaxMind { edition } => write!(f, "maxmind:{edition}"),
            Self::Url { url, .. } => write!(f, "{url}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// `https://…`, and `#sha256=` with the digits or with the address where they are published.
fn url(text: &str) -> Result<Supply, String> {
    let (address, sum) = match text.split_once('#') {
        None => (text, None),
        Some((address, fragment)) => match fragment.strip_prefix("sha256=") {
            Some(sum) => (address, Some(sum)),
            None => return Err("behind a # only sha256=… may stand".to_owned()),
        },
    };
    let url = SourceUrl::parse(address).map_err(|error| error.to_string())?;
    let checksum = match sum {
        None => None,
        Some(sum) if sum.contains("://") => {
            let at = SourceUrl::parse(sum).map_err(|error| format!("behind #sha256=, {error}"))?;
            Some(Checksum::At(at))
        }
        Some(sum) => Some(Checksum::parse(sum).ok_or(
            "behind #sha256= must stand 64 hexadecimal digits, or the address where they are published",
        )?),
    };
    Ok(Supply::Url { url, checksum: checksum.map(Box::new) })
}

fn edition_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name { Ok(text.to_owned()) } else { Err("an edition is named like GeoLite2-City".to_owned()) }
}

/// A text that could not be understood, without what may be a URL with a password or a token.
fn redacted(text: &str) -> String {
    let end = ["http", "@", "?", "//"].iter().filter_map(|sign| text.find(sign)).min();
    end.map_or_else(|| text.to_owned(), |end| format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str, shown: &str, expected: &Supply) {
        let wanted: Wanted = text.parse().unwrap();
        assert_eq!(wanted.to_string(), shown);
        assert_eq!(&wanted.supply, expected);
    }

    #[test]
    fn every_supply_can_be_written() {
        let url = |text| SourceUrl::parse(text).unwrap();
        read("city:dbip-city-lite", "city:dbip-city-lite", &Supply::DbIp(DbIpEdition::CityLite));
        read("asn:dbip-asn-lite", "asn:dbip-asn-lite", &Supply::DbIp(DbIpEdition::AsnLite));
        let edition = "GeoIP2-Anonymous-IP".to_owned();
        read(
            "anonymous:maxmind:GeoIP2-Anonymous-IP",
            "anonymous:maxmind:GeoIP2-Anonymous-IP",
            &Supply::MaxMind { edition },
        );
        read("asn:/a/b.csv", "asn:/a/b.csv", &Supply::File("/a/b.csv".into()));
        read("country:./b c.csv", "country:./b c.csv", &Supply::File("./b c.csv".into()));
        read(
            "city:https://me:secret@a.example/x.mmdb?token=secret",
            "city:https://a.example/x.mmdb?…",
            &Supply::Url { url: url("https://me:secret@a.example/x.mmdb?token=secret"), checksum: None },
        );
        let sum = "ab".repeat(32);
        read(
            &format!("city:http://a.example/x.mmdb#sha256={sum}"),
            "city:http://a.example/x.mmdb",
            &Supply::Url {
                url: url("http://a.example/x.mmdb"),
                checksum: Checksum::parse(&sum).map(Box::new),
            },
        );
        read(
            "city:https://a.example/x.mmdb#sha256=https://a.example/sums?k=v",
            "city:https://a.example/x.mmdb",
            &Supply::Url {
                url: url("https://a.example/x.mmdb"),
                checksum: Some(Box::new(Checksum::At(url("https://a.example/sums?k=v")))),
            },
        );
    }

    #[track_caller]
    fn refused(text: &str, shown: &str, why: &str) {
        let error = text.parse::<Wanted>().unwrap_err().to_string();
        assert_eq!(error, format!("{shown:?} is not allowed: {why}"));
    }

    #[test]
    fn what_names_no_file_is_refused_with_a_sentence() {
        refused("dbip", "dbip", "it must be KIND:SOURCE, such as city:dbip-city-lite");
        refused(
            "town:dbip-city-lite",
            "town:dbip-city-lite",
            "the kind before the first colon must be city, country, asn or anonymous",
        );
        let supplies = format!("the source after the colon must be {SUPPLIES}");
        refused("city:", "city:", &supplies);
        refused("city:geolite", "city:geolite", &supplies);
        refused("city:https:/me:secret@a.example", "city:…", &supplies);
        refused(
            "asn:dbip-city-lite",
            "asn:dbip-city-lite",
            "that database says nothing about asn; it is for city",
        );
        refused("city:maxmind:../x", "city:maxmind:../x", "an edition is named like GeoLite2-City");
        refused(
            "city:https://a.example/x?token=secret#md5=1",
            "city:…",
            "behind a # only sha256=… may stand",
        );
        refused(
            "city:https://a.example/x#sha256=12",
            "city:…",
            "behind #sha256= must stand 64 hexadecimal digits, or the address where they are published",
        );
        refused("city:https://", "city:…", "this is no URL of a file: empty host");
        refused(
            "https://a.example/x?token=secret",
            "…",
            "the kind before the first colon must be city, country, asn or anonymous",
        );
    }
}
