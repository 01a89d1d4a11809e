//! Where things are: the addresses that pages, examples and error bodies name.

/// Absolute URLs without a trailing slash.
#[derive(Clone, Debug)]
pub struct Links {
    /// Where this installation is reached from outside; examples and the API's paths begin with it.
    pub base_url: String,
    /// The documentation, by default `{base}/docs`. An error's own section is this with `#` and the section's id.
    pub docs_url: String,
    /// How to get a key, by default `{base}/signup`.
    pub signup_url: String,
    /// What to do about more than the free quota, by default `{base}/enterprise`.
    pub enterprise_url: String,
}

impl Links {
    /// What a page writes to link to one of these. Our own pages are linked by path alone, so that they are found
    /// under whatever name the visitor reached this server by.
    pub(crate) fn href<'a>(&self, url: &'a str) -> &'a str {
        match url.strip_prefix(&self.base_url) {
            Some(path) if path.starts_with('/') => path,
            _ => url,
        }
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
        }
    }

    #[track_caller]
    fn check(url: &str, href: &str) {
        assert_eq!(links().href(url), href);
    }

    #[test]
    fn our_own_pages_are_linked_by_path() {
        check("https://ip.example/docs", "/docs");
        check("https://docs.example/ipse", "https://docs.example/ipse");
        check("https://ip.example.org/docs", "https://ip.example.org/docs");
        check("https://ip.example", "https://ip.example");
    }
}
