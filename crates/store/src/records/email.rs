//! What names an account.

use std::fmt;
use std::str::FromStr;

/// What names an account: one address, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is no e-mail address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account is named by an e-mail address, such as you@example.com")]
pub struct NotAnEmail;

impl FromStr for Email {
    type Err = NotAnEmail;

    fn from_str(text: &str) -> Result<Self, NotAnEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(NotAnEmail)?;
        let plain = |part: &str| {
            !part.is_empty()
                && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "@,;<>\"".contains(c))
        };
        let labels = domain.split('.').all(|label| !label.is_empty());
        if text.len() <= 254 && plain(local) && plain(domain) && labels {
            Ok(Self(text.to_lowercase()))
        } else {
            Err(NotAnEmail)
        }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_one_address_in_lower_case() {
        assert_eq!(" Me@Example.COM ".parse::<Email>().unwrap().as_str(), "me@example.com");
        assert!("me@localhost".parse::<Email>().is_ok());
        for text in [
            "",
            "me",
            "@example.com",
            "me@",
            "me@@example.com",
            "m e@example.com",
            "me@exa mple",
            "a@b..c",
            "<a@b.c>",
        ] {
            assert_eq!(text.parse::<Email>(), Err(NotAnEmail), "{text:?}");
        }
        assert_eq!(format!("{}@example.com", "x".repeat(250)).parse::<Email>(), Err(NotAnEmail));
    }
}
