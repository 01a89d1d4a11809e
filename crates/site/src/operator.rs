//! What an operator says of themselves: how they are reached, and their own texts in place of ours.

use crate::document::Document;
use ipse_store::Email;
use std::str::FromStr;

/// All of it; by default nothing, and our own texts are shown.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// How callers reach whoever runs this server.
    pub contact: Option<Contact>,
    /// What stands at `/privacy`.
    pub privacy: Option<Document>,
    /// What stands at `/terms`.
    pub terms: Option<Document>,
}

/// A way to reach the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// What a page shows.
    pub(crate) text: String,
    /// What it links to.
    pub(crate) href: String,
}

impl FromStr for Contact {
    type Err = ();

    /// An e-mail address, or an address of the web that begins with `https://`.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Some(shown) = text.strip_prefix("https://") {
            let uri = text.parse::<http::Uri>().map_err(|_| ())?;
            let has_host = uri.host().is_some_and(|host| !host.is_empty());
            let has_password = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
            let shown = shown.trim_end_matches('/').to_owned();
            return if has_host && !has_password {
                Ok(Self { text: shown, href: text.to_owned() })
            } else {
                Err(())
            };
        }
        let email = text.parse::<Email>().map_err(|_| ())?;
        let (local, domain) = email.as_str().rsplit_once('@').ok_or(())?;
        // In a link, some letters that an address may hold mean something else.
        let encoded = |part: &str| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>();
        Ok(Self {
            text: email.as_str().to_owned(),
            href: format!("mailto:{}@{}", encoded(local), encoded(domain)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_an_e_mail_address_or_a_page() {
        #[track_caller]
        fn check(text: &str, expected: Option<(&str, &str)>) {
            let contact = text.parse::<Contact>().ok();
            let found = contact.as_ref().map(|contact| (contact.text.as_str(), contact.href.as_str()));
            assert_eq!(found, expected, "{text}");
        }
        check("ops@example.com", Some(("ops@example.com", "mailto:ops@example.com")));
        check("Ops+ip@example.com", Some(("ops+ip@example.com", "mailto:ops%2Bip@example.com")));
        check("a?bcc=b&c@example.com", Some(("a?bcc=b&c@example.com", "mailto:a%3Fbcc%3Db%26c@example.com")));
        check("https://example.com/contact/", Some(("example.com/contact", "https://example.com/contact/")));
        check("https://example.com", Some(("example.com", "https://example.com")));
        check("https://example.com/?to=ops", Some(("example.com/?to=ops", "https://example.com/?to=ops")));
        for text in [
            "",
            "ops",
            "example.com",
            "http://example.com",
            "https://",
            "https:///x",
            "https://me:secret@example.com",
            "https://a b",
            "javascript:alert(1)",
            "mailto:ops@example.com,b@example.com",
        ] {
            check(text, None);
        }
    }
}
