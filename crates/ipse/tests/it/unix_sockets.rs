//! Doors that are files: for proxies on the same machine.

use super::tls::output;
use super::{House, Plan};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// A server with doors of its own in a folder: for HTTP, and for the PROXY protocol.
fn house(folder: &Path) -> House {
    let (http, proxy) =
        (format!("unix:{}/http", folder.display()), format!("unix:{}/proxy", folder.display()));
    let listen = format!("127.0.0.1:0,{http}");
    House::build(Plan { settings: &[("listen", &listen), ("proxy_listen", &proxy)], ..Plan::default() }).0
}

fn curl(socket: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new("curl");
    command.args(["-sS", "--noproxy", "*", "--unix-socket"]).arg(socket).args(arguments);
    let body = output(command.arg("http://x/api/v1/ip/demo"));
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn a_peer_at_a_file_counts_as_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let _house = house(folder.path());
    let socket = folder.path().join("http");
    let itself = curl(&socket, &[]);
    assert_eq!((&itself["ip"], &itself["http_protocol"]), (&"127.0.0.1".into(), &"HTTP/1.1".into()));
    assert!(itself["rtt"].is_null(), "a file has no distance: {itself}");
    let forwarded = curl(&socket, &["-H", "x-forwarded-for: 203.0.113.9"]);
    assert_eq!(forwarded["ip"], "203.0.113.9");
    let http2 = curl(&socket, &["--http2-prior-knowledge"]);
    assert_eq!(http2["http_protocol"], "HTTP/2");
}

#[test]
fn callers_are_introduced_at_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let _house = house(folder.path());
    let mut stream = UnixStream::connect(folder.path().join("proxy")).unwrap();
    stream.write_all(b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 80\r\n").unwrap();
    stream.write_all(b"GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(r#""ip":"203.0.113.7""#), "{answer}");
}

#[test]
fn one_connection_serves_many_requests() {
    let folder = tempfile::tempdir().unwrap();
    let _house = house(folder.path());
    let mut stream = UnixStream::connect(folder.path().join("http")).unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).unwrap();
            assert!(length > 0, "the connection was closed");
            answer.extend_from_slice(&part[..length]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}
