//! Whether a form was sent from a page of ours. Browsers say where a request comes from, and other sites cannot make them
//! lie; the secret in each form stands behind it, for browsers that say nothing.

use http::{HeaderMap, header};
use ipse_model::Links;

/// Whether nothing speaks against a request that wants to change something.
pub(crate) fn is_ours(headers: &HeaderMap, links: &Links) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    match headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default()) {
        // Browsers that do not know `Sec-Fetch-Site` say `null` on our pages, because these tell nobody where one was.
        None | Some("null") => true,
        Some(origin) => origin == links.base_url || names_host(origin, headers),
    }
}

/// Whether an origin is the host that the request was sent to, whatever that host is called today.
fn names_host(origin: &str, headers: &HeaderMap) -> bool {
    let named = origin.split_once("://").map(|(_, host)| host);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    named.is_some() && named == host
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn only_pages_of_ours_change_anything() {
        #[track_caller]
        fn check(sent: &[(&'static str, &str)], expected: bool) {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(is_ours(&headers, &links()), expected, "{sent:?}");
        }
        let host = ("host", "localhost:8080");
        check(&[host], true);
        check(&[host, ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "same-origin"), ("origin", "null")], true);
        for site in ["cross-site", "same-site", "none", ""] {
            check(&[host, ("sec-fetch-site", site)], false);
            check(&[host, ("sec-fetch-site", site), ("origin", "http://localhost:8080")], false);
        }
        check(&[host, ("origin", "null")], true);
        check(&[host, ("origin", "http://localhost:8080")], true);
        check(&[host, ("origin", "https://ip.example")], true);
        for origin in
            ["https://evil.example", "https://ip.example.evil", "http://localhost:8081", "", "localhost:8080"]
        {
            check(&[host, ("origin", origin)], false);
        }
        check(&[("origin", "https://evil.example")], false);
    }
}
