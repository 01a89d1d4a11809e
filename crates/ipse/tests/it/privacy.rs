//! No address, no key and no query string is written anywhere.

use crate::commands::{ipse, run};
use ipse_testkit::{Connection, Server};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Addresses that stand nowhere else in the world.
const CANARIES: [&str; 3] = ["203.0.113.217", "2001:db8:ca11:ab1e::77", "198.51.100.231"];

fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
}

fn contains(bytes: &[u8], canary: &[u8]) -> bool {
    bytes.windows(canary.len()).any(|window| window == canary)
}

#[test]
fn nothing_is_written_at_the_most_talkative_level() {
    let dir = tempfile::tempdir().unwrap();
    let key = run(dir.path(), &["key", "create", "--account", "me@example.com", "--scope", "full"])
        .trim()
        .to_owned();
    let log = dir.path().join("ipse-data/log.txt");
    let mut command = ipse(dir.path(), &["serve", "--log-level", "trace"]);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start(command, &dir.path().join("ipse-data")).unwrap();
    let mut connection = Connection::open(server.address).unwrap();
    for canary in CANARIES {
        for target in [
            format!("/api/v1/ip?key={key}&scope=full&secret=canary-query"),
            "/api/v1/ip/demo?canary-query".to_owned(),
            "/?canary-query".to_owned(),
            "/nowhere/canary-path?canary-query".to_owned(),
            "/api/nowhere?canary-query".to_owned(),
        ] {
            let request = format!(
                "GET {target} HTTP/1.1\r\nhost: canary-host\r\nauthorization: Bearer {key}\r\nx-forwarded-for: {canary}\r\n\r\n"
            );
            connection.send(request.as_bytes()).unwrap();
            let body = connection.receive().unwrap().body;
            assert!(
                !target.starts_with("/api/v1") || body.contains(canary),
                "the answer is about the caller"
            );
        }
    }
    // Enough for a pause, over HTTP/2 as well, and rubbish of both kinds.
    for _ in 0..301 {
        connection.send(format!("GET /api/v1/ip HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nx-forwarded-for: {}\r\n\r\n", CANARIES[0]).as_bytes()).unwrap();
        connection.receive().unwrap();
    }
    let curl = Command::new("curl")
        .args(["-s", "--http2-prior-knowledge", "-H", &format!("X-Forwarded-For: {}", CANARIES[1])])
        .arg(format!("http://{}/api/v1/ip?key={key}&canary-query", server.address))
        .output()
        .unwrap();
    assert!(curl.status.success());
    connection.send(format!("GARBAGE {} {key}\r\n\r\n", CANARIES[2]).as_bytes()).unwrap();
    connection.receive().unwrap();

    let mut written = Vec::new();
    files(dir.path(), &mut written);
    let (code, output) = server.stop("TERM").unwrap();
    assert_eq!(code, Some(0));
    written.push(("the start message".to_owned(), output.into_bytes()));
    files(dir.path(), &mut written);
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("DEBUG") && logged.contains("paused"), "the log is there: {logged}");
    for (name, bytes) in &written {
        for canary in
            CANARIES.iter().copied().chain([key.as_str(), "canary-query", "canary-path", "canary-host"])
        {
            assert!(!contains(bytes, canary.as_bytes()), "{canary} stands in {name}");
        }
        // Nor in binary.
        assert!(!contains(bytes, &[203, 0, 113, 217]) && !contains(bytes, &[217, 113, 0, 203]), "{name}");
        assert!(!contains(bytes, &[0x20, 0x01, 0x0d, 0xb8, 0xca, 0x11, 0xab, 0x1e]), "{name}");
    }
}

#[test]
fn core_dumps_are_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ipse(dir.path(), &["serve"]), &dir.path().join("ipse-data")).unwrap();
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.process.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
}
