//! HTTP itself: versions, keep-alive, and answers to what is no request.

use crate::{House, check_error, json};
use ipse_testkit::Connection;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

#[track_caller]
fn check_raw(house: &House, bytes: &[u8], status: u16, error: &str) {
    let mut connection = house.connect();
    connection.send(bytes).unwrap();
    let response = connection.receive().unwrap();
    check_error(&response, status, error);
    assert!(response.header("date").is_some());
    assert_eq!(response.header("connection"), Some("close"));
    assert!(connection.is_closed(), "nothing after it can be trusted");
}

#[test]
fn what_is_no_request_gets_the_same_error_body() {
    let (house, _) = House::with_key();
    for bytes in [
        &b"GARBAGE\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad name: x\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ] {
        check_raw(&house, bytes, 400, "bad_request");
    }
}

#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused_and_the_connection_closed() {
    let (house, _) = House::with_key();
    let post = "POST /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n";
    for request in [
        format!("{post}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n"),
        format!("{post}content-length: 4\r\ncontent-length: 5\r\n\r\nabcd"),
        format!("{post}content-length: 4\r\ncontent-length: 4\r\n\r\nabcd"),
        format!("{post}content-length: 4, 4\r\n\r\nabcd"),
        format!("{post}content-length: +4\r\n\r\nabcd"),
        format!("{post}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        "GET /api/v1/ip/demo HTTP/1.1\nhost: x\n\n".to_owned(),
        "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\na: b\r\n\r\n".to_owned(),
        "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n".to_owned(),
        "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\na : b\r\n\r\n".to_owned(),
        "GET /api/v1/ip/demo HTTP/1.1\r\n host: x\r\n\r\n".to_owned(),
    ] {
        // What is hidden behind it must not be answered.
        let hidden = "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n\r\n";
        check_raw(&house, format!("{request}{hidden}").as_bytes(), 400, "bad_request");
    }
}

#[test]
fn headers_too_large_get_the_same_error_body() {
    let (house, _) = House::with_key();
    let large = format!("GET /api/v1/ip HTTP/1.1\r\nhost: x\r\nx-large: {}\r\n\r\n", "x".repeat(100_000));
    check_raw(&house, large.as_bytes(), 431, "header_too_large");
    let many: String = (0..500).map(|i| format!("x-{i}: y\r\n")).collect();
    check_raw(&house, format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes(), 431, "header_too_large");
    // Too large for us and small enough for the parser.
    let response = house.send("GET", "/api/v1/ip", &[&format!("x-large: {}", "x".repeat(20_000))]);
    check_error(&response, 431, "header_too_large");
}

#[test]
fn an_address_that_is_too_long_gets_the_same_error_body() {
    let (house, key) = House::with_key();
    let fits = format!("/api/v1/ip?scope=ip&x={}", "x".repeat(8_000));
    assert_eq!(house.get(&fits, Some(&key)).status, 200);
    let long = format!("/api/v1/ip?x={}", "x".repeat(9_000));
    check_error(&house.get(&long, Some(&key)), 414, "uri_too_long");
    let over_http2 = curl(&house, &[&long, "--http2-prior-knowledge", "-i"]);
    assert!(over_http2.starts_with("HTTP/2 414") && over_http2.contains("uri_too_long"), "{over_http2}");
}

#[test]
fn a_request_of_http_1_1_has_exactly_one_host() {
    let (house, _) = House::with_key();
    check_raw(&house, b"GET /api/v1/ip/demo HTTP/1.1\r\n\r\n", 400, "bad_request");
    check_raw(&house, b"GET /api/v1/ip/demo HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400, "bad_request");
    check_raw(&house, b"GET /api/v1/ip/demo HTTP/1.1\r\nhost: a b\r\n\r\n", 400, "bad_request");
}

#[test]
fn an_error_after_good_requests_leaves_their_answers_whole() {
    let (house, _) = House::with_key();
    let mut connection = house.connect();
    let good = "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n\r\n";
    connection.send(format!("{good}{good}GARBAGE\r\n\r\n").as_bytes()).unwrap();
    for _ in 0..2 {
        let response = connection.receive().unwrap();
        assert_eq!((response.status, &json(&response)["status"]), (200, &"success".into()));
    }
    check_error(&connection.receive().unwrap(), 400, "bad_request");
    assert!(connection.is_closed());
}

#[test]
fn a_connection_is_kept_and_its_version_is_told() {
    let (house, key) = House::with_key();
    let mut connection = house.connect();
    for _ in 0..3 {
        let response = connection.get("/api/v1/ip", Some(&key.text)).unwrap();
        assert_eq!(json(&response)["http_protocol"], "HTTP/1.1");
    }
    let mut old = house.connect();
    old.send(format!("GET /api/v1/ip?key={} HTTP/1.0\r\n\r\n", key.text).as_bytes()).unwrap();
    assert_eq!(json(&old.receive().unwrap())["http_protocol"], "HTTP/1.0");
    assert!(old.is_closed());
}

#[test]
fn a_body_nobody_asked_for_does_no_harm() {
    let (house, key) = House::with_key();
    let mut connection = house.connect();
    let authorization = format!("authorization: Bearer {}", key.text);
    connection
        .send(
            format!(
                "GET /api/v1/ip HTTP/1.1\r\nhost: x\r\n{authorization}\r\ncontent-length: 5\r\n\r\nhello"
            )
            .as_bytes(),
        )
        .unwrap();
    assert_eq!(connection.receive().unwrap().status, 200);
}

/// curl is a client that nobody here wrote.
fn curl(house: &House, arguments: &[&str]) -> String {
    let url = format!("http://{}{}", house.address, arguments[0]);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "10"])
        .args(&arguments[1..])
        .arg(url)
        .output()
        .expect("curl is needed: cargo xtask test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn clear_text_http2_is_spoken_and_told() {
    let (house, key) = House::with_key();
    let bearer = format!("Authorization: Bearer {}", key.text);
    let body = curl(&house, &["/api/v1/ip", "--http2-prior-knowledge", "-H", &bearer]);
    assert!(body.contains(r#""http_protocol":"HTTP/2""#), "{body}");
    let head = curl(&house, &["/api/v1/ip", "--http2-prior-knowledge", "--head", "-H", &bearer]);
    assert!(head.starts_with("HTTP/2 200") && head.contains("x-ratelimit-remaining: 9998"), "{head}");
    let upgrade = curl(&house, &["/api/v1/ip", "--http2", "-H", &bearer]);
    assert!(upgrade.contains(r#""http_protocol":"HTTP/1.1""#), "an offer to upgrade is declined: {upgrade}");
}

#[test]
fn errors_over_http2_have_the_same_body() {
    let (house, _) = House::with_key();
    let missing = curl(&house, &["/api/v1/ip", "--http2-prior-knowledge", "-i"]);
    assert!(missing.starts_with("HTTP/2 401") && missing.contains("missing_api_key"), "{missing}");
    let large = format!("x-large: {}", "x".repeat(60_000));
    let large = curl(&house, &["/api/v1/ip", "--http2-prior-knowledge", "-i", "-H", &large]);
    assert!(large.starts_with("HTTP/2 431") && large.contains("header_too_large"), "{large}");
    assert!(large.contains("access-control-allow-origin: *"), "{large}");
    let many: Vec<String> = (0..150).map(|i| format!("x-{i}: y")).collect();
    let mut arguments = vec!["/api/v1/ip", "--http2-prior-knowledge", "-i"];
    many.iter().for_each(|line| arguments.extend(["-H", line]));
    let many = curl(&house, &arguments);
    assert!(many.starts_with("HTTP/2 431") && many.contains("header_too_large"), "{many}");
    let large = format!("x-large: {}", "x".repeat(60_000));
    let head = curl(&house, &["/api/v1/ip", "--http2-prior-knowledge", "--head", "-H", &large]);
    assert!(head.starts_with("HTTP/2 431"), "HEAD has no body, whatever goes wrong: {head}");
}

/// A frame of HTTP/2 on stream `stream`.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn thousands_of_fields_over_http2_get_the_same_body() {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    const CONTINUATION: u8 = 9;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let (house, _) = House::with_key();
    // GET, /, http, localhost; then fields named a and b, as no library would let us send them.
    let mut block = b"\x82\x84\x86\x01\x09localhost".to_vec();
    block.extend(b"\x00\x01a\x01b".repeat(20_000));
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    let chunks: Vec<&[u8]> = block.chunks(16_384).collect();
    for (i, chunk) in chunks.iter().enumerate() {
        let kind = if i == 0 { HEADERS } else { CONTINUATION };
        let last = if i + 1 == chunks.len() { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, last | if i == 0 { END_STREAM } else { 0 }, 1, chunk));
    }
    let mut stream = TcpStream::connect(house.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&received).contains("#header_too_large\"}") {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "no body came: {received:?}");
        received.extend_from_slice(&buffer[..read]);
    }
}

#[test]
fn many_streams_of_one_connection_are_answered() {
    let (house, _) = House::with_key();
    let output = Command::new("h2load")
        .args(["-n", "500", "-c", "2", "-m", "50", &format!("http://{}/api/v1/ip/demo", house.address)])
        .output()
        .expect("h2load is needed: cargo xtask test installs it");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(report.contains("500 succeeded, 0 failed"), "{report}");
    assert!(report.contains("500 2xx"), "{report}");
}

#[test]
fn a_slow_request_is_answered_when_it_is_whole() {
    let (house, _) = House::with_key();
    let mut connection: Connection = house.connect();
    for byte in b"GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n\r\n" {
        connection.send(&[*byte]).unwrap();
    }
    assert_eq!(connection.receive().unwrap().status, 200);
}
