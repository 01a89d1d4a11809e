//! The key that a request brings, and the scope it asks for.

use http::request::Parts;
use ipse_model::{KeyText, Scope};

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
    pub(crate) fn of(request: &Parts) -> Self {
        let header =
            request.headers.get(http::header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        if let Some(token) = header {
            return std::str::from_utf8(token).map_or(Self::Malformed, Self::parse);
        }
        match parameter(request, "key").as_deref() {
            None | Some("") => Self::Missing,
            Some(text) => Self::parse(text),
        }
    }

    fn parse(text: &str) -> Self {
        text.parse().map_or(Self::Malformed, Self::Key)
    }
}

/// The scope that the request asks for; what is no scope is ignored.
pub(crate) fn wanted_scope(request: &Parts) -> Option<Scope> {
    parameter(request, "scope")?.parse().ok()
}

/// The credential behind `Bearer`, whose case does not matter. `None` for another scheme, or if nothing follows.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer";
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(SCHEME) && rest.starts_with(b" ") && !token.is_empty()).then_some(token)
}

/// The first parameter of that name, decoded.
fn parameter(request: &Parts, name: &str) -> Option<String> {
    let query = request.uri.query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(found, _)| found == name)
        .map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const HEADER: &str = "ipse_000000000000000000000000000000003B5SOj";

    fn query_key() -> KeyText {
        KeyText::from_random(|bytes| {
            bytes.fill(61);
            Ok::<_, ()>(())
        })
        .unwrap()
    }

    fn request(authorization: Option<&[u8]>, target: &str) -> Parts {
        let mut request = Request::get(target);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[track_caller]
    fn check(authorization: Option<&str>, query: &str, expected: &str) {
        let request = request(authorization.map(str::as_bytes), &format!("/api/v1/ip{query}"));
        let found = match Credential::of(&request) {
            Credential::Missing => "missing".to_owned(),
            Credential::Malformed => "malformed".to_owned(),
            Credential::Key(key) => key.reveal().to_owned(),
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
        let request = request(Some(b"Bearer \xff\xfe"), "/api/v1/ip");
        assert!(matches!(Credential::of(&request), Credential::Malformed));
    }

    #[test]
    fn an_unknown_scope_is_ignored_and_of_several_the_first_counts() {
        let scope = |query: &str| wanted_scope(&request(None, &format!("/api/v1/ip{query}")));
        assert_eq!(scope(""), None);
        assert_eq!(scope("?scope=ip"), Some(Scope::Ip));
        assert_eq!(scope("?scope=%67eo"), Some(Scope::Geo));
        assert_eq!(scope("?scope=everything"), None);
        assert_eq!(scope("?scope=full&scope=ip"), Some(Scope::Full));
        assert_eq!(scope("?scope=everything&scope=ip"), None);
    }
}
