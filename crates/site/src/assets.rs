//! The files that are part of the program: the stylesheet, scripts, pictures, and a word to crawlers.
//!
//! Pages link to a file by a name that holds its content's fingerprint, so browsers keep it for ever and still see every
//! change at once.

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
    include_str!("../assets/style/overview.css"),
);
/// Crawlers may read the pages, but a lookup tells them nothing but their own address.
const ROBOTS: &str = "User-agent: *\nDisallow: /api/\n";

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Every file: where it is, what it is, and what stands in it.
const FILES: &[(&str, &str, &str)] = &[
    ("/assets/style.css", CSS, STYLE),
    ("/assets/copy.js", JS, include_str!("../assets/script/copy.js")),
    ("/assets/home.js", JS, include_str!("../assets/script/home.js")),
    ("/assets/dashboard.js", JS, include_str!("../assets/script/dashboard.js")),
    ("/assets/docs.js", JS, include_str!("../assets/script/docs.js")),
    ("/assets/overview.js", JS, include_str!("../assets/script/overview.js")),
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

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let made = FILES.iter().map(|(path, content_type, content)| {
        let fixed = Fixed::new(reply::asset(content_type, content));
        Asset { path, link: format!("{path}?v={}", fixed.fingerprint()), fixed }
    });
    made.collect()
});

/// The file at a path, if there is one.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
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
        for (path, content_type, content) in FILES {
            // The namespace of pictures is a name and not a request.
            let content = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!content.contains("http:") && !content.contains("https:"), "{path}");
            let loads = content.contains("@import") || content.contains("url(");
            assert!(*content_type != CSS || !loads, "{path}");
        }
    }

    #[test]
    fn every_file_has_a_path_and_a_name_of_its_own() {
        for (path, ..) in FILES {
            assert_eq!(FILES.iter().filter(|(other, ..)| other == path).count(), 1);
            let name = path.rsplit('/').next().unwrap();
            let link = link(name);
            let (linked, fingerprint) = link.split_once("?v=").unwrap();
            assert_eq!(linked, *path);
            assert!(
                fingerprint.len() == 12 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{link}"
            );
        }
        assert_eq!(link("no such file"), "");
    }

    #[test]
    fn only_the_name_with_the_right_fingerprint_is_kept_for_ever() {
        let asset = find("/assets/style.css").unwrap();
        let fingerprint = asset.fixed.fingerprint();
        let kept = |query: Option<&str>| {
            let reply = asset.answer(query, &HeaderMap::new());
            assert_eq!(ipse_edge::whole(reply.clone()).1, STYLE);
            reply.headers()["cache-control"].to_str().unwrap().to_owned()
        };
        assert_eq!(kept(Some(&format!("v={fingerprint}"))), "public, max-age=31536000, immutable");
        assert_eq!(kept(None), "public, max-age=3600");
        for query in ["", "v=", "v=000000000000", fingerprint, &format!("v={fingerprint}&w")] {
            assert_eq!(kept(Some(query)), "no-cache", "{query}");
        }
    }
}
