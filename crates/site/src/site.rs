//! `Site`: from a path to its page.

use crate::doctor::{self, Examination};
use crate::operator::Operator;
use crate::{assets, docs, enterprise, home, legal, reply, signup};
use http::Method;
use ipse_edge::{Reply, Visit};
use ipse_geo::Atlas;
use ipse_model::Links;

/// All pages of one installation.
#[derive(Debug)]
pub struct Site {
    links: Links,
    // The same for everybody, so made once: however many ask at once, there is one copy in memory.
    docs: Reply,
    signup: Reply,
    enterprise: Reply,
    privacy: Reply,
    terms: Reply,
}

impl Site {
    /// The pages, with the links that they name and what the operator says.
    #[must_use]
    pub fn new(links: Links, operator: &Operator) -> Self {
        Self {
            docs: docs::answer(&links),
            signup: signup::answer(&links),
            enterprise: enterprise::answer(&links, operator),
            privacy: legal::privacy(&links, operator),
            terms: legal::terms(&links, operator),
            links,
        }
    }

    /// Answers everything outside `/api` and `/openapi.json`, with what the atlas knows of the visitor.
    #[must_use]
    pub fn answer(&self, visit: &Visit, atlas: &Atlas) -> Reply {
        let links = &self.links;
        let asked = &visit.request.headers;
        let page: &dyn Fn() -> Reply = match visit.request.uri.path() {
            "/" => &|| home::answer(links, visit, atlas),
            "/docs" => &|| self.docs.clone(),
            "/signup" => &|| self.signup.clone(),
            "/enterprise" => &|| self.enterprise.clone(),
            "/privacy" => &|| self.privacy.clone(),
            "/terms" => &|| self.terms.clone(),
            "/assets/style.css" => &assets::style,
            "/assets/copy.js" => &assets::copy_script,
            "/assets/docs.js" => &assets::docs_script,
            "/favicon.svg" => &assets::favicon,
            "/robots.txt" => &assets::robots,
            _ => return reply::not_found(links, &visit.request.headers),
        };
        // The edge cuts the body of an answer to HEAD.
        let reply = if visit.request.method == Method::GET || visit.request.method == Method::HEAD {
            page()
        } else {
            reply::method_not_allowed(links, asked, "GET, HEAD")
        };
        reply::packed(reply, asked)
    }

    /// What the doctor tells about one request. Whoever may not see it gets what [`answer`](Self::answer) says.
    #[must_use]
    pub fn examine(&self, visit: &Visit, examination: &Examination<'_>) -> Reply {
        doctor::answer(&self.links, visit, examination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use crate::packing::tests::unpacked;
    use bytes::Bytes;
    use http::{HeaderMap, Request, StatusCode};
    use ipse_edge::{Connection, RequestBody};
    use ipse_model::{Address, Client, Degrees, HttpVersion, Network, Now, Place};
    use std::net::IpAddr;

    const PAGES: [&str; 6] = ["/", "/docs", "/signup", "/enterprise", "/privacy", "/terms"];
    const ASSETS: [&str; 5] =
        ["/assets/style.css", "/assets/copy.js", "/assets/docs.js", "/favicon.svg", "/robots.txt"];
    const PUBLIC_ADDRESS: &str = "81.2.69.142";

    struct Answered {
        status: StatusCode,
        headers: HeaderMap,
        body: String,
    }

    impl Answered {
        #[track_caller]
        fn header(&self, name: &str) -> &str {
            self.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
        }
    }

    fn ask(method: &str, path: &str, accept: &str, ip: &str, atlas: &Atlas) -> Answered {
        let (status, headers, body) = ask_with(method, path, &[("accept", accept)], ip, atlas);
        Answered { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    fn ask_with(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        ip: &str,
        atlas: &Atlas,
    ) -> (StatusCode, HeaderMap, Bytes) {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        let client = Client {
            address: Address::new(ip.parse().unwrap()),
            http: Some(HttpVersion::Http11),
            tls_version: None,
            tls_cipher: None,
            rtt_ms: None,
            colo: None,
        };
        let now = Now { unix_ms: 1_784_116_800_000, boot_ms: 0 };
        let connection = Connection::imagined(client.address.ip());
        let visit = Visit { client, now, request: request.into_parts().0, connection };
        let (head, body) = ipse_edge::whole(Site::new(links(), &Operator::default()).answer(&visit, atlas));
        Answered {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// The addresses that the tests know something about.
    fn addresses() -> [IpAddr; 2] {
        [PUBLIC_ADDRESS, "2001:4860:4860::8888"].map(|ip| ip.parse().unwrap())
    }

    fn get(path: &str) -> Answered {
        ask("GET", path, "text/html", PUBLIC_ADDRESS, &Atlas::empty())
    }

    /// The values of an attribute, such as `href`.
    fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let begin = format!(" {name}=\"");
        html.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
    }

    #[test]
    fn every_reply_carries_the_headers_that_protect_it() {
        #[track_caller]
        fn check(method: &str, path: &str, status: u16, content_type: &str, cache_control: &str) {
            for accept in ["text/html", "*/*"] {
                let answered = ask(method, path, accept, PUBLIC_ADDRESS, &Atlas::empty());
                assert_eq!(answered.status, status, "{path}");
                let is_refused_program = status >= 400 && accept == "*/*";
                let content_type = if is_refused_program { "application/json" } else { content_type };
                assert_eq!(answered.header("content-type"), content_type, "{path}");
                assert_eq!(answered.header("cache-control"), cache_control, "{path}");
                assert_eq!(answered.header("access-control-allow-origin"), "*");
                assert_eq!(answered.header("referrer-policy"), "no-referrer");
                assert_eq!(answered.header("vary"), "accept-encoding", "{path}");
                assert_eq!(
                    answered.header("content-security-policy"),
                    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                     form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
                );
            }
        }
        const HTML: &str = "text/html; charset=utf-8";
        for method in ["GET", "HEAD"] {
            check(method, "/", 200, HTML, "no-store");
            check(method, "/?utm=1", 200, HTML, "no-store");
            check(method, "/own-address", 200, "text/plain; charset=utf-8", "no-store");
            check(method, "/docs", 200, HTML, "no-cache");
            check(method, "/signup", 200, HTML, "no-cache");
            check(method, "/enterprise", 200, HTML, "no-cache");
            check(method, "/privacy", 200, HTML, "no-cache");
            check(method, "/terms", 200, HTML, "no-cache");
            check(method, "/assets/copy.js", 200, "text/javascript; charset=utf-8", "public, max-age=3600");
            check(method, "/assets/docs.js", 200, "text/javascript; charset=utf-8", "public, max-age=3600");
            check(method, "/assets/style.css", 200, "text/css; charset=utf-8", "public, max-age=3600");
            check(method, "/favicon.svg", 200, "image/svg+xml", "public, max-age=3600");
            check(method, "/robots.txt", 200, "text/plain; charset=utf-8", "public, max-age=3600");
        }
        for method in ["GET", "POST", "OPTIONS"] {
            check(method, "/nothing", 404, HTML, "no-store");
            check(method, "/docs/", 404, HTML, "no-store");
        }
        check("POST", "/", 405, HTML, "no-store");
        check("DELETE", "/assets/style.css", 405, HTML, "no-store");
    }

    #[test]
    fn pages_and_files_are_packed_for_who_can_unpack_them() {
        for path in PAGES.into_iter().chain(["/assets/style.css", "/nothing"]) {
            let ask = |encoding| {
                let headers = [("accept", "text/html"), ("accept-encoding", encoding)];
                ask_with("GET", path, &headers, PUBLIC_ADDRESS, &Atlas::empty())
            };
            let (_, headers, plain) = ask("identity");
            assert_eq!(headers.get("content-encoding"), None, "{path}");
            let (_, headers, packed) = ask("gzip, deflate, br");
            assert_eq!(headers["content-encoding"], "gzip", "{path}");
            assert!(packed.len() * 2 < plain.len(), "{path}: {} of {}", packed.len(), plain.len());
            assert_eq!(unpacked(&packed).as_bytes(), plain, "{path}");
        }
    }

    #[test]
    fn what_a_browser_has_already_is_not_sent_again() {
        for path in ["/docs", "/signup", "/enterprise"].into_iter().chain(ASSETS) {
            let first = get(path);
            let tag = first.header("etag");
            let headers = [("if-none-match", tag)];
            let (status, again, body) = ask_with("GET", path, &headers, PUBLIC_ADDRESS, &Atlas::empty());
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
            for name in ["etag", "cache-control", "vary", "access-control-allow-origin"] {
                assert_eq!(again[name], first.header(name), "{path}: {name}");
            }
        }
        assert_eq!(get("/").headers.get("etag"), None, "the front page is another for each visitor");
    }

    #[test]
    fn programs_are_refused_in_json() {
        #[track_caller]
        fn check(method: &str, path: &str, code: &str) {
            let answered = ask(method, path, "*/*", PUBLIC_ADDRESS, &Atlas::empty());
            let body: serde_json::Value = serde_json::from_str(&answered.body).unwrap();
            let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["error", "message", "docs"]);
            assert_eq!(body["error"], code);
            assert_eq!(body["docs"], format!("https://ip.example/docs#{code}"));
        }
        check("GET", "/nothing", "not_found");
        check("PUT", "/docs", "method_not_allowed");
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        for accept in ["text/html", "*/*"] {
            let answered = ask("POST", "/docs", accept, PUBLIC_ADDRESS, &Atlas::empty());
            assert_eq!(answered.header("allow"), "GET, HEAD");
        }
    }

    #[test]
    fn every_page_is_whole_and_says_what_it_is() {
        for path in PAGES.into_iter().chain(["/nothing"]) {
            let html = get(path).body;
            for part in ["<!doctype html>", "<html lang=\"en\">", "<main ", "href=\"#content\"", "</html>"] {
                assert!(html.contains(part), "{path}: {part}");
            }
            let title = html.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
            assert!(title.ends_with(" · ipse") && title.len() > " · ipse".len(), "{path}: {title}");
            assert_eq!(html.matches("<h1").count(), 1, "{path}");
            assert_eq!(html.matches("<table").count(), html.matches("<caption").count(), "{path}");
            assert!(!attributes(&html, "content").iter().any(|content| content.is_empty()), "{path}");
        }
    }

    #[test]
    fn pages_hold_no_script_and_no_style_of_their_own() {
        for path in PAGES {
            let html = get(path).body;
            for part in ["<style", " style=", " onclick=", "javascript:", "<iframe"] {
                assert!(!html.contains(part), "{path}: {part}");
            }
            for script in html.split("<script ").skip(1) {
                let (attributes, rest) = script.split_once('>').unwrap();
                assert!(attributes.starts_with("src=\"/assets/") && attributes.ends_with(" defer"), "{path}");
                assert!(rest.starts_with("</script>"), "{path}");
            }
            // But for the examples, which are text.
            assert!(!html.contains("<script>"), "{path}");
        }
    }

    #[test]
    fn the_form_that_takes_a_key_cannot_put_it_into_an_address() {
        let html = get("/docs").body;
        let form = html.split("<form ").nth(1).unwrap().split("</form>").next().unwrap();
        let (attributes, fields) = form.split_once('>').unwrap();
        assert!(attributes.contains(" hidden"), "without a script nothing could be done with it");
        assert!(
            !attributes.contains("action=") && !fields.contains(" name=") && !fields.contains("formaction")
        );
        assert!(fields.contains("id=\"try-key\" type=\"text\" autocomplete=\"off\""));
        let without_script = html.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
        assert!(without_script.contains("curl -i -H"));
    }

    #[test]
    fn every_page_that_stays_the_same_names_its_own_address() {
        for path in ["/docs", "/enterprise", "/privacy", "/terms"] {
            let canonical = format!("<link rel=\"canonical\" href=\"https://ip.example{path}\">");
            assert!(get(path).body.contains(&canonical), "{path}");
        }
    }

    #[test]
    fn headings_go_down_step_by_step() {
        for path in PAGES.into_iter().chain(["/nothing"]) {
            let html = get(path).body;
            let mut level = 0;
            for heading in html.split("<h").skip(1) {
                let Some(next) = heading.chars().next().and_then(|digit| digit.to_digit(10)) else {
                    continue;
                };
                // The list of contents stands beside the title, and before it in the text.
                assert!(level == 0 || next <= level + 1, "{path}: from {level} to {next}");
                level = next;
            }
        }
    }

    #[test]
    fn every_link_leads_somewhere_on_this_server() {
        for path in PAGES.into_iter().chain(["/nothing"]) {
            let html = get(path).body;
            let links = ["href", "src"].into_iter().flat_map(|name| attributes(&html, name));
            for link in links {
                let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = if target.is_empty() { path } else { target };
                let target = target.strip_prefix("https://ip.example").unwrap_or(target);
                assert!(target.starts_with('/'), "{path} links to {link}");
                assert!(
                    PAGES.contains(&target)
                        || ASSETS.contains(&target)
                        || ["/openapi.json", "/nothing", "/dashboard"].contains(&target),
                    "{path} links to {link}"
                );
                if !fragment.is_empty() {
                    let there = get(target).body;
                    assert!(attributes(&there, "id").contains(&fragment), "{path} links to {link}");
                }
            }
        }
    }

    #[test]
    fn ids_are_unique_and_labels_point_to_them() {
        for path in PAGES {
            let html = get(path).body;
            let mut ids = attributes(&html, "id");
            let describing = attributes(&html, "aria-describedby");
            for label in attributes(&html, "aria-labelledby").into_iter().chain(describing) {
                assert!(ids.contains(&label), "{path}: {label}");
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{path}");
        }
    }

    #[test]
    fn every_error_has_its_anchor() {
        let html = get("/docs").body;
        let ids = attributes(&html, "id");
        for id in [
            "missing_api_key",
            "invalid_api_key",
            "inactive_api_key",
            "daily_quota",
            "burst_limit",
            "paused_key",
            "demo_quota",
            "internal_error",
            "not_found",
            "method_not_allowed",
            "bad_request",
            "header_too_large",
        ] {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let hostile = "<script>alert('x')</script>\"&</dd>";
        let place = Place {
            city: Some(hostile.into()),
            region: Some(hostile.into()),
            country_name: Some(hostile.into()),
            continent: Some(hostile.into()),
            postal_code: Some(hostile.into()),
            currency: Some(hostile.into()),
            position: Degrees::latitude(1.0).zip(Degrees::longitude(1.0)),
            ..Place::default()
        };
        let network = Network { asn: Some(64_496), org: Some(hostile.into()), ..Network::default() };
        let atlas = Atlas::of(&addresses(), Some(&place), Some(&network));
        let html = ask("GET", "/", "text/html", PUBLIC_ADDRESS, &atlas).body;
        assert!(!html.contains("<script>") && !html.contains("'x'"));
        // Seven facts, in the JSON the same and the formatted `as`; the place in words, and the map's.
        assert_eq!(html.matches("&#60;script&#62;").count(), 7 + 8 + 2);
    }

    #[test]
    fn the_front_page_shows_the_visitor() {
        #[track_caller]
        fn check(ip: &str, atlas: &Atlas, shown: &[&str]) {
            let html = ask("GET", "/", "text/html", ip, atlas).body;
            for part in shown {
                assert!(html.contains(part), "{part}");
            }
        }
        let position = Degrees::latitude(51.5142).zip(Degrees::longitude(-0.0931));
        let place = Place { city: Some("London".into()), position, ..Place::default() };
        let atlas = Atlas::of(&addresses(), Some(&place), None);
        let map = ["aria-label=\"Map: London\"", "<path class=\"marker marker-dot\" d=\"M999.6 130.1h0\"/>"];
        check(PUBLIC_ADDRESS, &atlas, &["81.2.69.142</p>", "<p class=\"place\">London</p>", map[0], map[1]]);
        check(PUBLIC_ADDRESS, &atlas, &["<dd>London</dd>", "<dd class=\"unknown\">unknown</dd>"]);
        check("2001:4860:4860::8888", &atlas, &["2001:4860:4860::8888</p>", "<dd>HTTP/1.1</dd>"]);
        let no_marker = "aria-label=\"World map, without a marker\"";
        check(PUBLIC_ADDRESS, &Atlas::empty(), &["has no record of it", no_marker]);
        check("10.0.0.1", &Atlas::empty(), &["10.0.0.1</p>", "private or reserved", no_marker]);
        check(
            "127.0.0.1",
            &Atlas::empty(),
            &[
                "very machine",
                "ipse key create --account you@example.com",
                "https://ip.example<wbr>/api/v1/ip",
            ],
        );
    }

    #[test]
    fn every_fact_is_explained_by_the_words_of_the_documentation() {
        let html = get("/").body;
        for (id, explanation) in [
            ("about-ip", "<code>ip</code> The IPv4 address; null if you came over IPv6."),
            (
                "about-region",
                "<code>region_code</code> The region’s whole ISO 3166-2 code, such as <code>US-CA</code>.",
            ),
            ("about-rtt", "<code>rtt</code> Round-trip time to the server in milliseconds"),
        ] {
            let (_, behind) = html.split_once(&format!(" role=\"tooltip\" id=\"{id}\">")).unwrap();
            assert!(behind.split("</span></span>").next().unwrap().contains(explanation), "{id}");
        }
        assert_eq!(html.matches("class=\"term\"").count(), html.matches("role=\"tooltip\"").count());
    }

    #[test]
    fn a_visitor_is_told_their_own_address_alone() {
        for ip in [PUBLIC_ADDRESS, "2001:4860:4860::8888", "127.0.0.1"] {
            assert_eq!(ask("GET", "/own-address", "*/*", ip, &Atlas::empty()).body, ip);
        }
        assert_eq!(ask("POST", "/own-address", "*/*", PUBLIC_ADDRESS, &Atlas::empty()).status, 405);
    }
}
