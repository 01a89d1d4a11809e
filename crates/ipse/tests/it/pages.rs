//! The pages, as a browser or a script asks for them.

use super::tls::output;
use crate::browser::chromium;
use crate::{House, Plan, check_error};
use std::net::TcpListener;
use std::process::Command;

#[test]
fn the_front_page_shows_the_visitor_and_is_charged_to_nobody() {
    let (house, _) = House::build(Plan { settings: &[("pretend_ip", "81.2.69.142")], ..Plan::default() });
    for _ in 0..3 {
        let page = house.get("/", None);
        assert_eq!(page.status, 200);
        assert!(page.body.contains("81.2.69.142"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
    }
    assert_eq!(crate::rate(&house.get("/api/v1/ip/demo", None)).1, 999);
}

#[test]
fn a_visitor_is_told_their_own_address_and_nobody_is_charged() {
    let (house, _) = House::build(Plan { settings: &[("pretend_ip", "81.2.69.142")], ..Plan::default() });
    for _ in 0..3 {
        let told = house.get("/own-address", None);
        assert_eq!((told.status, told.body.as_str()), (200, "81.2.69.142"));
        assert_eq!(told.header("access-control-allow-origin"), Some("*"));
        assert_eq!(told.header("cache-control"), Some("no-store"));
    }
    assert_eq!(crate::rate(&house.get("/api/v1/ip/demo", None)).1, 999);
}

#[test]
fn the_front_page_shows_both_addresses_where_both_families_lead_here() {
    let ipv6_only = |pretend_ip| {
        let settings = [("listen", "[::1]:0"), ("pretend_ip", pretend_ip)];
        House::build(Plan { settings: &settings, ..Plan::default() }).0
    };
    let shown = |port: u16| {
        let host = format!("v6.test:{port}");
        let settings = [("pretend_ip", "81.2.69.142"), ("ipv6_host", &*host)];
        let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
        // Without a script there is a link to where the other address is shown.
        let link = format!("<a href=\"http://{host}/\">See your IPv6 address</a>");
        assert!(house.get("/", None).body.contains(&link));
        let resolving = ["--host-resolver-rules=MAP v6.test [::1]"];
        let document = chromium(&resolving, &format!("http://{}/", house.address));
        let (_, line) = document.split_once("id=\"other-address\"").unwrap();
        line.split("</p>").next().unwrap().to_owned()
    };
    let right = ipv6_only("2001:4860:4860::8888");
    let line = shown(right.address.port());
    assert!(line.contains("Over IPv6:</span> <span class=\"mono\">2001:4860:4860::8888</span>"), "{line}");
    // An answer over the wrong family is no IPv6, and no answer is none either.
    let wrong = ipv6_only("8.8.8.8");
    assert!(shown(wrong.address.port()).contains("No IPv6 here"));
    let nobody = TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
    assert!(shown(nobody.port()).contains("No IPv6 here"));
}

#[test]
fn an_unknown_page_is_html_for_people_and_json_for_programs() {
    let (house, _) = House::build(Plan::default());
    check_error(&house.get("/nowhere", None), 404, "not_found");
    let page = house.send("GET", "/nowhere", &["accept: text/html,*/*"]);
    assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")));
    check_error(&house.send("POST", "/docs", &["content-length: 0"]), 405, "method_not_allowed");
}

#[test]
fn a_browser_gets_pages_packed_and_only_once() {
    let (house, _) = House::build(Plan::default());
    let url = |path: &str| format!("http://{}{path}", house.address);
    let curl = |arguments: &[&str], path: &str| {
        output(Command::new("curl").args(["-sS", "--noproxy", "*"]).args(arguments).arg(url(path)))
    };
    let style = house.get("/", None).body.split("href=\"/assets/style.css").nth(1).unwrap().to_owned();
    let style = format!("/assets/style.css{}", style.split('"').next().unwrap());
    for (path, kept) in [
        ("/docs", "no-cache"),
        (style.as_str(), "public, max-age=31536000, immutable"),
        ("/assets/style.css", "public, max-age=3600"),
    ] {
        for protocol in ["--http1.1", "--http2-prior-knowledge"] {
            let plain = curl(&[protocol], path);
            assert_eq!(curl(&[protocol, "--compressed"], path), plain);
            let size = ["--compressed", "-o", "/dev/null", "-w", "%{size_download}"];
            let size: usize = curl(&[&[protocol][..], &size].concat(), path).parse().unwrap();
            assert!(size * 2 < plain.len(), "{path}: {size} of {}", plain.len());
            let head = curl(&[protocol, "-I", "--compressed"], path);
            assert!(head.contains(&format!("content-length: {size}\r\n")), "{head}");
            assert!(head.contains(&format!("cache-control: {kept}\r\n")), "{head}");
            let tag = head.split("etag: ").nth(1).unwrap().lines().next().unwrap();
            for arguments in [&["-i"][..], &["-I"]] {
                let has = format!("if-none-match: {tag}");
                let again = curl(&[&[protocol, "-H", &has][..], arguments].concat(), path);
                assert!(
                    again.contains(" 304") && again.contains(&format!("cache-control: {kept}")),
                    "{again}"
                );
                assert!(again.ends_with("\r\n\r\n") && !again.contains("content-length"), "{again}");
            }
        }
    }
}

#[test]
fn links_can_be_configured() {
    let settings = [
        ("base_url", "https://ip.example.com/"),
        ("docs_url", "https://docs.example.com/ip"),
        ("signup_url", "https://example.com/join"),
        ("enterprise_url", "https://example.com/more"),
    ];
    let plan = Plan { settings: &settings, keys: &[(ipse_model::Scope::Ip, Some(1))], ..Plan::default() };
    let (house, keys) = House::build(plan);
    let docs = |target: &str| crate::json(&house.get(target, Some(&keys[0])))["docs"].clone();
    assert_eq!(docs("/api/nowhere"), "https://docs.example.com/ip#not_found");
    house.get("/api/v1/ip", Some(&keys[0]));
    let used_up = crate::json(&house.get("/api/v1/ip", Some(&keys[0])));
    assert_eq!(used_up["enterprise"], "https://example.com/more");
    for _ in 0..1000 {
        house.get("/api/v1/ip/demo", None);
    }
    assert_eq!(crate::json(&house.get("/api/v1/ip/demo", None))["signup"], "https://example.com/join");
    assert_eq!(crate::json(&house.get("/openapi.json", None))["servers"][0]["url"], "https://ip.example.com");
}

#[test]
fn an_operator_is_reached_and_has_texts_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let terms = dir.path().join("terms.md");
    std::fs::write(&terms, "# House rules\n\nBe kind to <b>others</b>.\n").unwrap();
    let settings = [("contact", "ops@example.com"), ("terms_file", terms.to_str().unwrap())];
    let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
    let shown = house.get("/terms", None).body;
    assert!(shown.contains("<h1>House rules</h1>"), "{shown}");
    assert!(shown.contains("<p>Be kind to &#60;b&#62;others&#60;/b&#62;.</p>"), "{shown}");
    for page in ["/enterprise", "/privacy", "/terms"] {
        assert!(house.get(page, None).body.contains("href=\"mailto:ops@example.com\""), "{page}");
    }
    // Without a word from the operator there is our own text, and nobody is named.
    let (house, _) = House::build(Plan::default());
    assert!(house.get("/terms", None).body.contains("<h1>Terms of use</h1>"));
    assert!(house.get("/privacy", None).body.contains("<h1>Privacy</h1>"));
    for page in ["/enterprise", "/privacy", "/terms"] {
        assert!(!house.get(page, None).body.contains("mailto:"), "{page}");
    }
}
