//! The three cookies: who is signed in, whose form it is, and from which device the owner has come before.
//!
//! None is read by scripts, and none is ever sent to another host. Over HTTPS, and on this very machine, their names
//! begin with `__Host-`, by which browsers hold us to that.

use http::{HeaderMap, HeaderValue, header};
use ipse_model::{Links, Secret};
use std::time::Duration;

/// What a cookie is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cookie {
    /// The secret of a session.
    Session,
    /// Ties the forms of somebody who is not signed in to their browser.
    Form,
    /// Says that the owner of an account has signed in from here before.
    Device,
}

/// How cookies are named and marked on this installation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookies {
    /// Whether browsers keep cookies that may travel by HTTPS alone. They do on clear connections to their own machine.
    secure: bool,
}

impl Cookies {
    /// Marks cookies as the base URL allows: an operator who names a clear one for other machines has said that there is
    /// no HTTPS.
    pub(crate) fn new(links: &Links) -> Self {
        let host = links.base_url.strip_prefix("http://").map(|rest| {
            let host = rest.split('/').next().unwrap_or_default();
            host.rsplit_once(':').map_or(host, |(name, port)| {
                if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
            })
        });
        let secure =
            host.is_none_or(|host| host == "localhost" || host == "[::1]" || host.starts_with("127."));
        Self { secure }
    }

    /// Whether whatever is typed here travels without being readable on the way.
    pub(crate) fn are_secure(self) -> bool {
        self.secure
    }

    /// What the visitor's browser kept.
    pub(crate) fn read(self, headers: &HeaderMap, cookie: Cookie) -> Option<&str> {
        let name = self.name(cookie);
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
    }

    /// The same, where it is a secret.
    pub(crate) fn secret(self, headers: &HeaderMap, cookie: Cookie) -> Option<Secret> {
        self.read(headers, cookie)?.parse().ok()
    }

    /// Has the browser keep a value for so long, or as long as it runs.
    pub(crate) fn set(self, cookie: Cookie, value: &str, lasts: Option<Duration>) -> HeaderValue {
        let name = self.name(cookie);
        let age = lasts.map(|lasts| format!("; Max-Age={}", lasts.as_secs())).unwrap_or_default();
        let secure = if self.secure { "; Secure" } else { "" };
        // A link in a mail must find its reader signed in; nothing else that comes from other sites needs to know.
        let same_site = if cookie == Cookie::Session { "Lax" } else { "Strict" };
        let text = format!("{name}={value}; Path=/{age}; HttpOnly; SameSite={same_site}{secure}");
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Has the browser forget it.
    pub(crate) fn clear(self, cookie: Cookie) -> HeaderValue {
        self.set(cookie, "", Some(Duration::ZERO))
    }

    fn name(self, cookie: Cookie) -> &'static str {
        match (cookie, self.secure) {
            (Cookie::Session, true) => "__Host-ipse-session",
            (Cookie::Form, true) => "__Host-ipse-form",
            (Cookie::Device, true) => "__Host-ipse-device",
            (Cookie::Session, false) => "ipse-session",
            (Cookie::Form, false) => "ipse-form",
            (Cookie::Device, false) => "ipse-device",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;

    fn cookies(base_url: &str) -> Cookies {
        Cookies::new(&Links { base_url: base_url.to_owned(), ..links() })
    }

    #[test]
    fn only_a_clear_base_url_of_another_machine_goes_without_the_prefix() {
        #[track_caller]
        fn check(base_url: &str, expected: &str) {
            let set = cookies(base_url).set(Cookie::Session, "0123", Some(Duration::from_secs(60)));
            assert_eq!(set.to_str().unwrap(), expected);
        }
        let secure = "__Host-ipse-session=0123; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure";
        for base_url in [
            "https://ip.example",
            "http://localhost:8080",
            "http://127.0.0.1",
            "http://[::1]:8080",
            "http://[::1]",
        ] {
            check(base_url, secure);
        }
        let clear = "ipse-session=0123; Path=/; Max-Age=60; HttpOnly; SameSite=Lax";
        for base_url in ["http://ip.example", "http://192.0.2.1:8080", "http://[2001:db8::1]:8080"] {
            check(base_url, clear);
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; __Host-ipse-form=one; ipse-form=two"));
        headers.append(header::COOKIE, HeaderValue::from_static("__Host-ipse-session=three"));
        let cookies = cookies("https://ip.example");
        assert_eq!(cookies.read(&headers, Cookie::Form), Some("one"));
        assert_eq!(cookies.read(&headers, Cookie::Session), Some("three"));
        assert_eq!(cookies.read(&headers, Cookie::Device), None);
        assert!(cookies.secret(&headers, Cookie::Form).is_none(), "that is no secret");
    }

    #[test]
    fn other_sites_never_send_the_form_along() {
        let set = cookies("https://ip.example").set(Cookie::Form, "x", None);
        assert_eq!(set.to_str().unwrap(), "__Host-ipse-form=x; Path=/; HttpOnly; SameSite=Strict; Secure");
    }
}
