//! The doctor: the link to a running server, and the command line alone.

use crate::commands::{fail, ipse, run};
use crate::proxies::{behind_nginx, exchange};
use crate::{House, Plan, check_error, rate};
use ipse_store::{DataFolder, DoctorLinks};
use ipse_testkit::{Connection, Response, Server};
use serde_json::Value;
use std::fs::{self, File};

fn build(settings: &[(&str, &str)]) -> House {
    House::build(Plan { settings, ..Plan::default() }).0
}

/// A path of this house that opens the doctor.
pub(crate) fn link(house: &House) -> String {
    let folder = DataFolder::existing(&house.dir.path().join("data")).unwrap();
    let (token, _) = DoctorLinks::of(&folder).make(crate::NOON).unwrap();
    format!("/doctor/{}", token.reveal())
}

/// A text as if it had no lines, for looking for sentences.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check_holds(text: &str, parts: &[&str]) {
    let unbroken = unbroken(text);
    for part in parts {
        assert!(unbroken.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn behind_nginx_the_link_shows_the_caller_and_every_fact() {
    let proxied = behind_nginx(&[]);
    let path = link(&proxied.house);
    let text = proxied.fetch(&path, "127.0.0.2", &["--http2", "--tls-max", "1.2"]);
    check_holds(
        &text,
        &[
            "The caller is 127.0.0.2",
            "Peer 127.0.0.1, a trusted proxy (in 127.0.0.1/32)",
            "127.0.0.2 the caller Written by the peer 127.0.0.1",
            "HTTP version HTTP/2 from the trusted peer's header `x-http-version`",
            "TLS version TLSv1.2 from the trusted peer's header `x-tls-version`",
            "from the trusted peer's header `x-rtt`",
            "authorization: (hidden)",
        ],
    );
    assert!(!text.contains("About this request"), "there is nothing to complain about: {text}");
    // What the doctor itself says a liar would send.
    let lies =
        ["x-forwarded-for: 192.0.2.66", "x-tls-version: forged", "x-tls-cipher: forged", "x-rtt: forged"];
    let arguments: Vec<&str> = lies.iter().flat_map(|line| ["-H", line]).collect();
    let text = proxied.fetch(&path, "127.0.0.2", &arguments);
    assert!(text.starts_with("The caller is 127.0.0.2\n"), "{text}");
    assert!(!text.contains("Warning") && !text.contains("forged") && !text.contains("192.0.2.66"), "{text}");
    let page = proxied.fetch(&path, "127.0.0.2", &["-H", "accept: text/html"]);
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<p class=\"address\">127.0.0.2</p>"),
        "{page}"
    );
}

#[test]
fn a_proxy_that_passes_lies_on_is_found_out() {
    let house = build(&[("rtt_header", "x-rtt")]);
    let path = link(&house);
    // Whoever speaks from a trusted address and passes on what a caller sends.
    let text = house.send("GET", &path, &["x-forwarded-for: 192.0.2.66", "x-rtt: forged"]).body;
    check_holds(
        &text,
        &[
            "The caller is 192.0.2.66",
            "Warning The address that was found, 192.0.2.66, is the one that was made up",
            "Warning `x-rtt` came through",
            "a client could spoof this",
        ],
    );
}

#[test]
fn a_caller_whom_nobody_trusts_cannot_spoof() {
    let house = build(&[("trusted_proxy", "10.0.0.0/8")]);
    let text = house.send("GET", &link(&house), &["x-forwarded-for: 6.6.6.6", "forwarded: for=6.6.6.6"]).body;
    check_holds(
        &text,
        &[
            "The caller is 127.0.0.1 It is that of the peer, which is no trusted proxy",
            "6.6.6.6 not believed 127.0.0.1 is no trusted proxy: anybody could have written this.",
            "Note `x-forwarded-for` and `forwarded` are there, but 127.0.0.1 is no trusted proxy",
            "HTTP version HTTP/1.1 from the caller's own connection",
            "TLS version unknown the caller's connection is clear, without TLS",
        ],
    );
}

#[test]
fn whom_the_proxy_protocol_introduced_is_told() {
    let house = build(&[("proxy_listen", "127.0.0.1:0")]);
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", link(&house));
    let line = "PROXY TCP4 203.0.113.7 192.0.2.1 56324 80\r\n";
    let answer = exchange(house.addresses[1], format!("{line}{request}").as_bytes());
    check_holds(
        &answer,
        &[
            "The caller is 203.0.113.7",
            "Peer 127.0.0.1, a trusted proxy (in 127.0.0.0/8)",
            "Introduced 203.0.113.7, no trusted proxy, with the PROXY protocol",
            "Round trip unknown the socket is the proxy's own, and the PROXY protocol did not tell",
        ],
    );
}

/// All of a response but the moment.
fn without_date(response: &Response) -> (u16, Vec<(String, String)>, String) {
    let headers = response.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    (response.status, headers, response.body.clone())
}

#[test]
fn without_a_link_that_is_good_there_is_nothing() {
    let house = build(&[]);
    let path = link(&house);
    let wrong = format!("/doctor/{}", "0".repeat(32));
    for accept in ["accept: text/html", "accept: */*"] {
        let nothing = without_date(&house.send("GET", "/nowhere", &[accept]));
        assert_eq!(nothing.0, 404);
        for path in ["/doctor/", "/doctor/x", &wrong, &format!("{path}0"), &path.to_uppercase()] {
            assert_eq!(without_date(&house.send("GET", path, &[accept])), nothing, "{path}");
        }
        assert_eq!(without_date(&house.send("POST", &path, &[accept, "content-length: 0"])), nothing);
    }
    assert_eq!(house.get(&path, None).status, 200);
    assert_eq!(house.send("HEAD", &path, &[]).status, 200);
    house.hand.advance_ms(599_999);
    assert_eq!(house.get(&path, None).status, 200);
    house.hand.advance_ms(1);
    check_error(&house.get(&path, None), 404, "not_found");
}

#[test]
fn the_page_hides_secrets_and_escapes_what_was_sent() {
    let house = build(&[]);
    let path = format!("{}?key=canary", link(&house));
    let headers = [
        "accept: text/html",
        "authorization: Bearer canary-1",
        "cookie: session=canary-2",
        "x-api-key: canary-3",
        "referer: https://ip.example.com/?key=canary-4",
        "x-else: ipse_canary",
        "x-forwarded-for: <script>alert('x')</script>",
        "x-hostile: \"><img src=x onerror=alert(1)>",
    ];
    let page = house.send("GET", &path, &headers);
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("x-robots-tag"), Some("noindex"));
    assert!(!page.body.contains("canary"), "{}", page.body);
    assert_eq!(page.body.matches("(hidden)").count(), 5);
    assert!(
        !page.body.replace("<script src=\"/assets/", "").contains("<script")
            && !page.body.contains("<img src=x"),
        "{}",
        page.body
    );
    assert!(page.body.contains("&#60;script&#62;alert("), "{}", page.body);
}

#[test]
fn the_doctor_is_charged_to_nobody() {
    let house = build(&[]);
    let path = link(&house);
    for _ in 0..3 {
        assert_eq!(house.get(&path, None).status, 200);
    }
    assert_eq!(rate(&house.get("/api/v1/ip/demo", None)).1, 999);
}

#[test]
fn the_command_makes_a_link_that_a_running_server_knows_at_once() {
    let dir = tempfile::tempdir().unwrap();
    check_holds(
        &run(dir.path(), &["doctor"]),
        &["There is no link, because there is no data at ./ipse-data yet"],
    );
    let log = dir.path().join("log");
    let mut command = ipse(dir.path(), &["serve", "--log-level", "trace"]);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start(command, &dir.path().join("ipse-data")).unwrap();
    let printed = run(dir.path(), &["doctor", "--listen", &server.address.to_string()]);
    check_holds(
        &printed,
        &["Trusted proxies 127.0.0.0/8, ::1/128", "base_url is not set", "-H 'x-forwarded-for: 192.0.2.66'"],
    );
    let url = format!("http://localhost:{}/doctor/", server.address.port());
    let token = printed.split(&url).nth(1).unwrap().split_whitespace().next().unwrap();
    let mut connection = Connection::open(server.address).unwrap();
    connection
        .send(
            format!("GET /doctor/{token} HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 203.0.113.217\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
    let shown = connection.receive().unwrap();
    assert_eq!(shown.status, 200);
    assert!(shown.body.starts_with("The caller is 203.0.113.217\n"), "{}", shown.body);
    let json: Value = serde_json::from_str(&run(dir.path(), &["doctor", "--json"])).unwrap();
    assert_eq!(json["doors"][0]["at"], "localhost:8080");
    assert!(json["link"].as_str().unwrap().contains("/doctor/"), "{json}");
    server.stop("TERM").unwrap();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("DEBUG"), "the log is there: {logged}");
    let kept = fs::read_to_string(dir.path().join("ipse-data/doctor")).unwrap();
    for secret in [token, "203.0.113.217"] {
        assert!(!logged.contains(secret) && !kept.contains(secret), "{logged}{kept}");
    }
}

#[test]
fn a_request_is_judged_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let list = "X-Forwarded-For: 6.6.6.6, 81.2.69.142, 10.1.1.1";
    let arguments = [
        &["doctor", "--peer", "127.0.0.1", "--header", list, "--header", "Authorization: Bearer secret"][..],
        &["--listen", "0.0.0.0:80", "--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8"],
    ]
    .concat();
    let text = run(dir.path(), &arguments);
    check_holds(
        &text,
        &[
            "The caller is 81.2.69.142",
            "6.6.6.6 not believed",
            "81.2.69.142 the caller",
            "10.1.1.1 a proxy A trusted proxy (in 10.0.0.0/8)",
            "Warning Anyone in 10.0.0.0/8 can come to 0.0.0.0:80 past your proxy",
            "authorization: (hidden)",
        ],
    );
    assert!(!dir.path().join("ipse-data").exists(), "nothing is made for it");
    let json = run(dir.path(), &[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["address"], "81.2.69.142");
    assert_eq!(json["readings"][0]["hops"][2]["fate"], "a proxy");
    assert_eq!(json["facts"]["rtt"]["value"], Value::Null);
    assert_eq!(json["configuration"][0]["weight"], "warning");
    assert_eq!(json["headers"][1]["value"], Value::Null);
}

#[test]
fn what_is_no_request_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    assert!(fail(dir.path(), &["doctor", "--peer", "me"], 2).contains("--peer"));
    assert!(fail(dir.path(), &["doctor", "--header", "a: b"], 2).contains("--peer"));
    let error = fail(dir.path(), &["doctor", "--peer", "::1", "--header", "nothing"], 2);
    assert!(error.contains("a header is a name, a colon and a value"), "{error}");
    let error = fail(dir.path(), &["doctor", "--trusted-proxy", "everybody"], 1);
    assert!(error.contains("a network such as 10.0.0.0/8"), "{error}");
}
