//! HTTP/3 as clients see it that nobody here wrote: aioquic, and a real browser.

use super::browser::chromium;
use super::tls::{Secure, output};
use ipse_testkit::http3_client;
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Command;

impl Secure {
    /// What aioquic prints, with the certificate as the only one that it trusts: one answer a line.
    fn http3(&self, arguments: &[&str], target: &str, door: SocketAddr) -> Vec<Value> {
        let (python, script) = http3_client().unwrap();
        let key = format!("authorization: Bearer {}", self.key.text);
        let mut command = Command::new(python);
        command.arg(script).args(["--header", &key, "--ca"]).arg(self.folder.path().join("it.pem"));
        let lines = output(command.args(arguments).arg(format!("https://{door}{target}")));
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The body of an answer as JSON.
fn body(answer: &Value) -> Value {
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn the_facts_of_a_connection_are_those_that_aioquic_asked_for() {
    let secure = Secure::new(&[]);
    for door in secure.doors {
        for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
            let answers = secure.http3(&["--cipher", cipher, "--count", "2"], "/api/v1/ip", door);
            assert_eq!(answers.len(), 2);
            for answer in answers.iter().map(body) {
                assert_eq!(answer["http_protocol"], "HTTP/3", "{answer}");
                assert_eq!(answer["tls_version"], "TLSv1.3", "{answer}");
                assert_eq!(answer["tls_cipher"], cipher, "{answer}");
                assert!(answer["rtt"].as_u64().is_some_and(|rtt| rtt < 1_000), "{answer}");
                let field = if door.is_ipv4() { "ip" } else { "ipv6" };
                assert_eq!(answer[field], door.ip().to_string(), "{answer}");
            }
        }
    }
}

#[test]
fn an_answer_has_the_same_headers_as_over_tcp() {
    let secure = Secure::new(&[("hsts_seconds", "60")]);
    let over_tcp =
        secure.curl(&["-D", "-", "-o", "/dev/null"], &format!("https://{}/api/v1/ip", secure.doors[0]));
    let names = |lines: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<String> = lines.map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let over_tcp = names(&mut over_tcp.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0)));
    let answer = secure.http3(&[], "/api/v1/ip", secure.doors[0]).remove(0);
    let mut over_quic: Vec<&str> =
        answer["headers"].as_object().unwrap().keys().map(String::as_str).collect();
    // Who is there already need not be told where it is.
    over_quic.push("alt-svc");
    assert_eq!(names(&mut over_quic.into_iter()), over_tcp);
}

#[test]
fn answers_on_a_connection_are_alike_whoever_gives_them() {
    let secure = Secure::new(&[("hsts_seconds", "60")]);
    let told = |arguments: &[&str]| {
        let answers = secure.http3(&[arguments, &["--count", "3"]].concat(), "/api/v1/ip", secure.doors[0]);
        answers.into_iter().enumerate().map(|(number, mut answer)| {
            let mut body = body(&answer);
            // What may be another one from request to request.
            assert!(body["rtt"].take().is_u64());
            let headers = answer["headers"].as_object_mut().unwrap();
            assert!(headers["date"].take().is_string() && headers["content-length"].take().is_string());
            let left: usize = headers["x-ratelimit-remaining"].take().as_str().unwrap().parse().unwrap();
            (format!("{} {:?} {body}", answer["status"], answer["headers"]), left + number)
        })
    };
    // The first of a connection is the library's, and so is one with something unusual; the others are not.
    let mut all: Vec<_> = told(&[]).chain(told(&["--header", "te: trailers"])).collect();
    assert_eq!((all[0].1, all[3].1), (all[2].1, all[5].1), "each was charged once");
    all.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(all.len(), 1, "{all:?}");
}

#[test]
fn callers_of_https_are_told_of_http3_where_it_is() {
    for (setting, expected) in [("yes", true), ("no", false)] {
        let secure = Secure::new(&[("http3", setting)]);
        for door in secure.doors {
            let head = secure.curl(&["-I"], &format!("https://{door}/"));
            let told = head.contains(&format!("alt-svc: h3=\":{}\"; ma=86400", door.port()));
            assert_eq!(told, expected, "{head}");
        }
        let clear = secure.curl(&["-I"], &format!("http://{}/", secure.house.address));
        assert!(!clear.contains("alt-svc"), "{clear}");
    }
}

#[test]
fn what_a_caller_forges_is_not_believed_over_http3() {
    let secure = Secure::new(&[("trusted_proxy", "10.0.0.0/8"), ("tls_version_header", "x-tls-version")]);
    let forged = ["--header", "x-forwarded-for: 203.0.113.9", "--header", "x-tls-version: TLSv1.2"];
    let answers = secure.http3(&[&forged[..], &["--count", "2"]].concat(), "/api/v1/ip", secure.doors[0]);
    for answer in answers.iter().map(body) {
        assert_eq!((&answer["ip"], &answer["tls_version"]), (&"127.0.0.1".into(), &"TLSv1.3".into()));
    }
}

#[test]
fn faults_and_methods_are_answered_as_everywhere() {
    let secure = Secure::new(&[]);
    let door = secure.doors[0];
    let long = format!("/{}", "x".repeat(9_000));
    let wide = format!("x-wide: {}", "x".repeat(20_000));
    for (arguments, target, status, error) in [
        (&["--method", "POST"][..], "/api/v1/ip", 405, "method_not_allowed"),
        (&[], long.as_str(), 414, "uri_too_long"),
        (&["--header", &wide], "/api/v1/ip", 431, "header_too_large"),
        (&["--header", "connection: close"], "/api/v1/ip", 400, "bad_request"),
    ] {
        let answer = secure.http3(arguments, target, door).remove(0);
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(body(&answer)["error"], error, "{answer}");
    }
}

#[test]
fn a_browser_speaks_http2_and_http3() {
    let secure = Secure::new(&[]);
    // Over QUIC a browser believes no certificate that it does not know, but for those it is told by their key.
    let script = "openssl x509 -in it.pem -pubkey -noout | openssl pkey -pubin -outform der \
                  | openssl dgst -sha256 -binary | openssl base64";
    let key = output(Command::new("sh").args(["-c", script]).current_dir(secure.folder.path()));
    let believe = format!("--ignore-certificate-errors-spki-list={}", key.trim());
    for (family, door) in ["ip", "ipv6"].iter().zip(secure.doors) {
        for (quic, http) in [("--disable-quic", "HTTP/2"), ("--origin-to-force-quic-on=*", "HTTP/3")] {
            let url = format!("https://{door}/api/v1/ip?key={}", secure.key.text);
            let document = chromium(&[&believe, quic], &url);
            let begin = document.find('{').unwrap_or_else(|| panic!("no answer: {document}"));
            let end = document.rfind('}').unwrap();
            let answer: Value = serde_json::from_str(&document[begin..=end]).unwrap();
            assert_eq!(answer["http_protocol"], http, "{answer}");
            assert_eq!(answer["tls_version"], "TLSv1.3", "{answer}");
            assert_eq!(answer[*family], door.ip().to_string(), "{answer}");
            assert!(answer["tls_cipher"].as_str().unwrap().starts_with("TLS_") && answer["rtt"].is_u64());
        }
    }
}
