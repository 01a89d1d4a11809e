//! The key that a request brings, and the scope it asks for.

use ipse_model::{KeyHash, KeyText, Scope};
use std::borrow::Cow;

/// What a request shows to be let in.
#[derive(Debug)]
pub(crate) enum Credential {
    /// Nothing.
    Missing,
    /// Something that cannot be a key: no store needs to be asked.
    Malformed,
    /// What may be a key.
    Key(KeyText),
}

impl Credential {
    /// The header wins; the query is read only where the header holds no Bearer credential.
    pub(crate) fn of(authorization: Option<&[u8]>, query: Option<&[u8]>) -> Self {
        let Some(text) = shown(authorization, query) else { return Self::Missing };
        let key = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
        key.map_or(Self::Malformed, Self::Key)
    }

    /// The hash of what is shown, if it is as long as a key. Who then finds a key by it need not look whether it is one.
    pub(crate) fn presumed(authorization: Option<&[u8]>, query: Option<&[u8]>) -> Option<KeyHash> {
        KeyHash::presumed(&shown(authorization, query)?)
    }
}

/// What a request shows, whatever it is.
fn shown<'a>(authorization: Option<&'a [u8]>, query: Option<&'a [u8]>) -> Option<Cow<'a, [u8]>> {
    if let Some(token) = authorization.and_then(bearer) {
        return Some(Cow::Borrowed(token));
    }
    let text = match parameter(query, "key")? {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    (!text.is_empty()).then_some(text)
}

/// The scope that the request asks for; what is no scope is ignored.
pub(crate) fn wanted_scope(query: Option<&[u8]>) -> Option<Scope> {
    parameter(query, "scope")?.parse().ok()
}

/// The credential behind `Bearer`, whose case does not matter. `None` for another scheme, or if nothing follows.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer";
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && rest.starts_with(b" ") && !token.is_empty()).then_some(token)
}

/// The first parameter of that name, decoded.
fn parameter<'a>(query: Option<&'a [u8]>, name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query?).find(|(found, _)| found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "ipse_000000000000000000000000000000003B5SOj";

    fn query_key() -> KeyText {
        KeyText::from_random(|bytes| {
            bytes.fill(61);
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    #[track_caller]
    fn check(authorization: Option<&str>, query: &str, expected: &str) {
        let query = query.strip_prefix('?').map(str::as_bytes);
        let authorization = authorization.map(str::as_bytes);
        let presumed = Credential::presumed(authorization, query);
        let found = match Credential::of(authorization, query) {
            Credential::Missing => "missing".to_owned(),
            Credential::Malformed => "malformed".to_owned(),
            Credential::Key(key) => {
                assert_eq!(presumed, Some(key.hash()));
                key.reveal().to_owned()
            }
        };
        assert_eq!(found, expected, "{authorization:?} {query:?}");
    }

    #[test]
    fn the_header_wins_over_the_query() {
        let query = query_key().reveal().to_owned();
        check(Some(&format!("Bearer {HEADER}")), "", HEADER);
        check(Some(&format!("Bearer {HEADER}")), &format!("?key={query}"), HEADER);
        check(Some("Bearer nonsense"), &format!("?key={query}"), "malformed");
    }

    #[test]
    fn the_scheme_is_matched_without_regard_to_case() {
        for scheme in ["bearer", "BEARER", "BeArEr"] {
            check(Some(&format!("{scheme} {HEADER}")), "", HEADER);
        }
        check(Some(&format!("Bearer   {HEADER} ")), "", HEADER);
    }

    #[test]
    fn another_scheme_or_an_empty_one_counts_as_no_header() {
        let query = query_key().reveal().to_owned();
        let basic = format!("Basic {HEADER}");
        let joined = format!("Bearer{HEADER}");
        for header in ["Basic eDp5", "Bearer", "Bearer ", "", HEADER, &basic, &joined] {
            check(Some(header), "", "missing");
            check(Some(header), &format!("?key={query}"), &query);
        }
    }

    #[test]
    fn an_empty_key_is_missing_and_of_several_the_first_counts() {
        let query = query_key().reveal().to_owned();
        check(None, "", "missing");
        check(None, "?", "missing");
        check(None, "?key", "missing");
        check(None, "?key=", "missing");
        check(None, &format!("?key=&key={query}"), "missing");
        check(None, &format!("?key={query}&key=other"), &query);
        check(None, &format!("?key=other&key={query}"), "malformed");
        check(None, &format!("?KEY={query}"), "missing");
    }

    #[test]
    fn percent_encoding_is_decoded() {
        let query = query_key().reveal().to_owned();
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        check(None, &format!("?%6bey={encoded}"), &query);
        check(None, "?key=%ff%fe", "malformed");
    }

    #[test]
    fn bytes_that_are_no_text_are_no_key() {
        assert!(matches!(Credential::of(Some(b"Bearer \xff\xfe"), None), Credential::Malformed));
    }

    #[test]
    fn an_unknown_scope_is_ignored_and_of_several_the_first_counts() {
        let scope = |query: &str| wanted_scope(query.strip_prefix('?').map(str::as_bytes));
        assert_eq!(scope(""), None);
        assert_eq!(scope("?scope=ip"), Some(Scope::Ip));
        assert_eq!(scope("?scope=%67eo"), Some(Scope::Geo));
        assert_eq!(scope("?scope=everything"), None);
        assert_eq!(scope("?scope=full&scope=ip"), Some(Scope::Full));
        assert_eq!(scope("?scope=everything&scope=ip"), None);
    }
}
