//! The files that are part of the program: the stylesheet, scripts, the icon, and a word to crawlers.

use crate::reply::{self, Fixed, Keep};
use http::HeaderMap;
use ipse_edge::Reply;
use std::sync::LazyLock;

/// One file for the browser, a file for each part of the design for us.
pub(crate) const STYLE: &str = concat!(
    include_str!("../assets/style/base.css"),
    include_str!("../assets/style/form.css"),
    include_str!("../assets/style/home.css"),
    include_str!("../assets/style/docs.css"),
    include_str!("../assets/style/dashboard.css"),
    include_str!("../assets/style/doctor.css"),
);
const COPY_SCRIPT: &str = include_str!("../assets/script/copy.js");
const DOCS_SCRIPT: &str = include_str!("../assets/script/docs.js");
const FAVICON: &str = include_str!("../assets/favicon.svg");
/// Crawlers may read the pages, but a lookup tells them nothing but their own address.
const ROBOTS: &str = "User-agent: *\nDisallow: /api/\n";

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Every file: where it is, what it is, and what stands in it.
const FILES: &[(&str, &str, &str)] = &[
    ("/assets/style.css", CSS, STYLE),
    ("/assets/copy.js", SCRIPT, include_str!("../assets/script/copy.js")),
    ("/assets/home.js", SCRIPT, include_str!("../assets/script/home.js")),
    ("/favicon.svg", SVG, include_str!("../assets/favicon.svg")),
    ("/robots.txt", TEXT, ROBOTS),
];

/// One of them, packed and with its fingerprint. That is made once, when the first is asked for.
pub(crate) struct Asset {
    path: &'static str,
    /// The path with the fingerprint, as pages link to it.
    link: String,
    fixed: Fixed,
}

pub(crate) fn copy_script() -> Reply {
    reply::asset("text/javascript; charset=utf-8", COPY_SCRIPT)
}

pub(crate) fn docs_script() -> Reply {
    reply::asset("text/javascript; charset=utf-8", DOCS_SCRIPT)
}

pub(crate) fn favicon() -> Reply {
    reply::asset("image/svg+xml", FAVICON)
}

/// What a page writes to link to the file of this name, such as `style.css`.
pub(crate) fn link(name: &str) -> &'static str {
    let has_name = |asset: &&Asset| asset.path.rsplit('/').next() == Some(name);
    ASSETS.iter().find(has_name).map_or("", |asset| &asset.link)
}

impl Asset {
    /// The file, for a request with this query and these headers.
    pub(crate) fn answer(&self, query: Option<&str>, asked: &HeaderMap) -> Reply {
        let keep = match query {
            Some(query) if self.link.ends_with(&format!("?{query}")) => Keep::Forever,
            // A page of another version of the program links to what we do not have.
            Some(_) => Keep::Checked,
            None => Keep::AnHour,
        };
        self.fixed.kept(keep, asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_ask_no_other_host() {
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        for script in [COPY_SCRIPT, DOCS_SCRIPT] {
            assert!(!script.contains("://"));
        }
        assert_eq!(FAVICON.matches("http").count(), 1, "the namespace, which is a name and not a request");
    }
}
