//! Where the vendors that we know keep their files.

use super::checksum::Checksum;
use super::client::Download;
use super::error::DownloadError;
use super::url::{Credentials, SourceUrl};
use ipse_model::Day;
use jiff::Span;
use jiff::civil::Date;
use std::path::Path;

/// A free database of DB-IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbIpEdition {
    /// Places.
    CityLite,
    /// Networks.
    AsnLite,
}

/// The vendors' servers. They are only ever others in tests, and where an operator keeps a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vendors {
    /// Scheme and host of DB-IP.
    pub dbip: String,
    /// Scheme and host of `MaxMind`.
    pub maxmind: String,
}

impl Default for Vendors {
    fn default() -> Self {
        Self {
            dbip: "https://download.db-ip.com".to_owned(),
            maxmind: "https://download.maxmind.com".to_owned(),
        }
    }
}

/// This month's file of DB-IP and the one before, which is still the newest until the new one appears, some time on
/// the first. Both take part in [`Downloader::fetch_first_available`](super::Downloader::fetch_first_available).
pub fn dbip_urls(
    vendors: &Vendors,
    edition: DbIpEdition,
    today: Day,
) -> Result<[SourceUrl; 2], DownloadError> {
    let name = match edition {
        DbIpEdition::CityLite => "city",
        DbIpEdition::AsnLite => "asn",
    };
    let url = |month: Date| {
        SourceUrl::parse(&format!(
            "{}/free/dbip-{name}-lite-{:04}-{:02}.mmdb.gz",
            vendors.dbip,
            month.year(),
            month.month()
        ))
    };
    let first = first_of_month(today);
    Ok([url(first)?, url(first.yesterday().unwrap_or(first))?])
}

/// A database of `MaxMind`, such as `GeoLite2-City`, as the archive that [`unpack_mmdb`](super::unpack_mmdb) opens.
pub fn maxmind_download(
    vendors: &Vendors,
    edition: &str,
    credentials: Credentials,
    file: &Path,
) -> Result<Download, DownloadError> {
    if edition.is_empty() || !edition.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(DownloadError::BadUrl {
            why: "a MaxMind edition is named like GeoLite2-City".to_owned(),
        });
    }
    let url = |suffix: &str| {
        SourceUrl::parse(&format!("{}/geoip/databases/{edition}/download?suffix={suffix}", vendors.maxmind))
    };
    Ok(Download {
        url: url("tar.gz")?,
        file: file.to_owned(),
        credentials: Some(credentials),
        checksum: Some(Checksum::At(url("tar.gz.sha256")?)),
    })
}

fn first_of_month(day: Day) -> Date {
    let epoch = jiff::civil::date(1970, 1, 1);
    let today = Span::new().try_days(day.0).and_then(|days| epoch.checked_add(days)).unwrap_or(Date::MAX);
    today.first_of_month()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(edition: DbIpEdition, day: u32, expected: [&str; 2]) {
        let urls = dbip_urls(&Vendors::default(), edition, Day(day)).unwrap();
        assert_eq!(
            urls.map(|url| url.to_string()),
            expected.map(|name| format!("https://download.db-ip.com/free/{name}.mmdb.gz"))
        );
    }

    #[test]
    fn db_ip_has_one_file_a_month() {
        let city = DbIpEdition::CityLite;
        check(city, 20_772, ["dbip-city-lite-2026-11", "dbip-city-lite-2026-10"]);
        check(city, 20_758, ["dbip-city-lite-2026-11", "dbip-city-lite-2026-10"]);
        check(city, 20_757, ["dbip-city-lite-2026-10", "dbip-city-lite-2026-09"]);
        check(city, 20_454, ["dbip-city-lite-2026-01", "dbip-city-lite-2025-12"]);
        check(DbIpEdition::AsnLite, 20_788, ["dbip-asn-lite-2026-12", "dbip-asn-lite-2026-11"]);
        check(DbIpEdition::AsnLite, 0, ["dbip-asn-lite-1970-01", "dbip-asn-lite-1969-12"]);
        check(DbIpEdition::AsnLite, u32::MAX, ["dbip-asn-lite-9999-12", "dbip-asn-lite-9999-11"]);
    }

    #[test]
    fn maxmind_has_a_checksum_beside_each_archive() {
        let (vendors, file) = (Vendors::default(), Path::new("cache/city.tar.gz"));
        let download =
            maxmind_download(&vendors, "GeoLite2-City", Credentials::new("42", "secret"), file).unwrap();
        assert_eq!(
            download.url.as_url().as_str(),
            "https://download.maxmind.com/geoip/databases/GeoLite2-City/download?suffix=tar.gz"
        );
        let Some(Checksum::At(sum)) = &download.checksum else { panic!("a checksum") };
        assert_eq!(sum.as_url().query(), Some("suffix=tar.gz.sha256"));
        assert!(!format!("{download:?}").contains("secret"));
        for edition in ["", "../x", "a b", "a?b"] {
            assert!(
                maxmind_download(&vendors, edition, Credentials::new("", ""), file).is_err(),
                "{edition}"
            );
        }
    }
}
