//! How much a key may learn.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The scope of a key or of one request. The order is the order of breadth.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The address alone.
    Ip,
    /// The address and where it is.
    Geo,
    /// Everything, the connection included.
    Full,
}

impl Scope {
    /// Every scope, narrowest first.
    pub const ALL: [Self; 3] = [Self::Ip, Self::Geo, Self::Full];

    /// What a request gets that asks for `wanted`: never more than the key's own scope.
    #[must_use]
    pub fn narrowed_to(self, wanted: Option<Self>) -> Self {
        wanted.map_or(self, |wanted| wanted.min(self))
    }

    /// The word used in URLs, on the command line and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Geo => "geo",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scope is ip, geo or full")]
pub struct NotAScope;

impl FromStr for Scope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(NotAScope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_narrows_and_never_widens() {
        for key in Scope::ALL {
            assert_eq!(key.narrowed_to(None), key);
            for wanted in Scope::ALL {
                assert_eq!(key.narrowed_to(Some(wanted)), if wanted < key { wanted } else { key });
            }
        }
    }

    #[test]
    fn only_the_three_exact_words_are_scopes() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        for text in ["", "IP", "Geo", "full ", "all", "ip,geo"] {
            assert_eq!(text.parse::<Scope>(), Err(NotAScope), "{text:?}");
        }
    }
}
