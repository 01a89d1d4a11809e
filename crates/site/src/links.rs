//! Links to our own pages, as pages write them.

use ipse_model::Links;

/// What a page writes to link to one of the links. Our own pages are linked by path alone, so that they are found
/// under whatever name the visitor reached this server by.
pub(crate) fn href<'a>(links: &Links, url: &'a str) -> &'a str {
    match url.strip_prefix(&links.base_url) {
        Some(path) if path.starts_with('/') => path,
        _ => url,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn links() -> Links {
        Links {
            base_url: "https://ip.example".into(),
            docs_url: "https://ip.example/docs".into(),
            signup_url: "https://ip.example/signup".into(),
            enterprise_url: "https://ip.example/enterprise".into(),
            ipv4_origin: None,
            ipv6_origin: None,
        }
    }

    #[track_caller]
    fn check(url: &str, href: &str) {
        assert_eq!(super::href(&links(), url), href);
    }

    #[test]
    fn our_own_pages_are_linked_by_path() {
        check("https://ip.example/docs", "/docs");
        check("https://docs.example/ipse", "https://docs.example/ipse");
        check("https://ip.example.org/docs", "https://ip.example.org/docs");
        check("https://ip.example", "https://ip.example");
    }
}
