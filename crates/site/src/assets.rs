//! The files that are part of the program: the stylesheet, the icon, and a word to crawlers.

use crate::reply;
use ipse_edge::Reply;

/// One file for the browser, a file for each part of the design for us.
const STYLE: &str = concat!(
    include_str!("../assets/style/base.css"),
    include_str!("../assets/style/form.css"),
    include_str!("../assets/style/home.css"),
    include_str!("../assets/style/docs.css"),
    include_str!("../assets/style/dashboard.css"),
    include_str!("../assets/style/doctor.css"),
);
const FAVICON: &str = include_str!("../assets/favicon.svg");
/// Crawlers may read the pages, but a lookup tells them nothing but their own address.
const ROBOTS: &str = "User-agent: *\nDisallow: /api/\n";

pub(crate) fn style() -> Reply {
    reply::asset("text/css; charset=utf-8", STYLE)
}

pub(crate) fn favicon() -> Reply {
    reply::asset("image/svg+xml", FAVICON)
}

pub(crate) fn robots() -> Reply {
    reply::asset("text/plain; charset=utf-8", ROBOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_ask_no_other_host() {
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert_eq!(FAVICON.matches("http").count(), 1, "the namespace, which is a name and not a request");
    }
}
