//! Why an encrypted connection was not made, as far as TLS tells it.
//!
//! The libraries hand out texts of `rustls` and no values, so it is found by words; tests with real servers would see if those
//! changed.

/// What is wrong with a server that should speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
    /// Nobody whom we trust has signed its certificate.
    Unknown,
    /// Its certificate is for another name.
    Name,
    /// Its certificate is too old, or of the future.
    Time,
    /// It says something that is not TLS.
    NoTls,
}

impl Distrust {
    /// Finds it in what a library says.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let words = [
            ("UnknownIssuer", Self::Unknown),
            ("NotValidForName", Self::Name),
            ("not valid for name", Self::Name),
            ("Expired", Self::Time),
            ("certificate expired", Self::Time),
            ("NotValidYet", Self::Time),
            ("not valid yet", Self::Time),
            ("InvalidContentType", Self::NoTls),
            ("corrupt message", Self::NoTls),
        ];
        words.iter().find(|(word, _)| text.contains(word)).map(|(_, found)| *found)
    }

    /// The same in words.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Unknown => "nobody whom we trust vouches for its certificate",
            Self::Name => "its certificate is for another name",
            Self::Time => "its certificate is not valid at this time",
            Self::NoTls => "it does not speak TLS there",
        }
    }
}
