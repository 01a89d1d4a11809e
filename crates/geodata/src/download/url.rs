//! Where a file lies, and the secrets needed to get it: neither shows them to anybody.

use super::checksum;
use super::error::DownloadError;
use reqwest::Url;
use std::fmt;

/// The URL of a vendor's file. It prints without its password and without the values of its query, which are where
/// vendors want their keys.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceUrl {
    /// Without user and password, so that no library can print or send them.
    url: Url,
    credentials: Option<Credentials>,
}

impl SourceUrl {
    /// Understands an `https` or `http` URL. User and password before its host become [`Credentials`].
    pub fn parse(text: &str) -> Result<Self, DownloadError> {
        let refused = |why: &str| DownloadError::BadUrl { why: why.to_owned() };
        let mut url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(refused("it must begin with https:// or http://"));
        }
        let credentials = (!url.username().is_empty() || url.password().is_some()).then(|| {
            Credentials::new(&decoded(url.username()), &decoded(url.password().unwrap_or_default()))
        });
        clear_user(&mut url);
        Ok(Self { url, credentials })
    }

    /// What tells this URL from any other, secrets included, without showing them.
    pub(crate) fn identity(&self) -> String {
        checksum::hex(&checksum::of_bytes(self.url.as_str().as_bytes()))
    }

    /// The last word of the path, made a harmless name for a file. Vendors are known by it.
    pub(crate) fn file_name(&self) -> String {
        let name = self.url.path().rsplit('/').next().unwrap_or_default();
        let harmless = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let name: String =
            decoded(name).chars().map(|letter| if harmless(letter) { letter } else { '_' }).collect();
        let name = name.trim_start_matches('.');
        if name.is_empty() { "data".to_owned() } else { name.chars().take(100).collect() }
    }

    pub(super) fn as_url(&self) -> &Url {
        &self.url
    }

    pub(super) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.url))
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceUrl({self})")
    }
}

/// A user and a password for HTTP basic authentication; with `MaxMind`, the account id and the licence key.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl Credentials {
    /// Both as the vendor gave them.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: password.to_owned() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// The URL without anything that may be secret.
pub(super) fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    clear_user(&mut shown);
    shown.set_fragment(None);
    shown.set_query(None);
    match url.query() {
        Some(_) => format!("{shown}?…"),
        None => shown.into(),
    }
}

pub(super) fn clear_user(url: &mut Url) {
    // These fail only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// Whether a password meant for one of them may be sent to the other.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Whether the host is this machine, by a name or an address that cannot mean another.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `%41` becomes `A`; what is no escape stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escape = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = escape
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match byte {
            Some(byte) => (&after[2..], bytes.push(byte)),
            None => (after, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shows(text: &str, shown: &str) {
        let url = SourceUrl::parse(text).unwrap();
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("SourceUrl({shown})"));
    }

    #[test]
    fn a_url_shows_no_secret() {
        shows("https://a.example/b.gz", "https://a.example/b.gz");
        shows("https://user:pass@a.example:444/b.gz#frag", "https://a.example:444/b.gz");
        shows("https://a.example/d?license_key=secret&suffix=tar.gz", "https://a.example/d?…");
        shows("http://a.example/?token=secret", "http://a.example/?…");
    }

    #[track_caller]
    fn named(text: &str, name: &str) {
        assert_eq!(SourceUrl::parse(text).unwrap().file_name(), name);
    }

    #[test]
    fn a_url_names_a_file_that_stays_in_its_folder() {
        named("https://a.example/b/dbip-city-ipv4.mmdb.gz?token=secret", "dbip-city-ipv4.mmdb.gz");
        named("https://a.example/download?file=DB11", "download");
        named("https://a.example", "data");
        named("https://a.example/..%2f..%2fetc%2fpasswd", "_.._etc_passwd");
        named("https://a.example/%2e%2e", "data");
        named("https://a.example/a%00b%20c", "a_b_c");
        named(&format!("https://a.example/{}", "x".repeat(300)), &"x".repeat(100));
    }

    #[track_caller]
    fn refused(text: &str, sentence: &str) {
        assert_eq!(SourceUrl::parse(text).unwrap_err().to_string(), sentence);
    }

    #[test]
    fn a_url_that_is_none_is_refused_without_repeating_it() {
        refused(
            "ftp://user:pass@a.example/",
            "this is no URL of a file: it must begin with https:// or http://",
        );
        refused("a.example/?license_key=secret", "this is no URL of a file: relative URL without a base");
        refused("https://", "this is no URL of a file: empty host");
    }

    #[test]
    fn credentials_are_taken_out_of_a_url_and_never_shown() {
        let url = SourceUrl::parse("https://me%40home:p%3Aw%zz@a.example/").unwrap();
        let credentials = url.credentials().unwrap();
        assert_eq!((&*credentials.user, &*credentials.password), ("me@home", "p:w%zz"));
        assert_eq!(format!("{credentials:?}"), "Credentials(…)");
        assert_eq!(url.as_url().as_str(), "https://a.example/");
        assert_eq!(SourceUrl::parse("https://a.example/").unwrap().credentials(), None);
    }

    #[track_caller]
    fn origin(one: &str, other: &str, same: bool) {
        assert_eq!(same_origin(&one.parse().unwrap(), &other.parse().unwrap()), same, "{one} {other}");
    }

    #[test]
    fn another_scheme_host_or_port_is_another_origin() {
        origin("https://a.example/x", "https://a.example:443/y?z", true);
        origin("https://a.example/", "http://a.example:443/", false);
        origin("https://a.example/", "https://a.example:8443/", false);
        origin("https://a.example/", "https://b.a.example/", false);
    }

    #[track_caller]
    fn loopback(url: &str, expected: bool) {
        assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
    }

    #[test]
    fn this_machine_is_known_by_name_and_address() {
        loopback("http://localhost/", true);
        loopback("http://127.9.9.9:80/", true);
        loopback("http://[::1]:80/", true);
        loopback("http://localhost.example/", false);
        loopback("http://128.0.0.1/", false);
        loopback("http://[::2]/", false);
    }
}
