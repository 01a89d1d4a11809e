//! What clients that nobody here wrote send behind the head of a request: curl over HTTP/1.1 and HTTP/2, aioquic over
//! HTTP/3.

use super::tls::{certificate, output};
use ipse_edge::{
    AddressHeader, CertificateFiles, Certificates, Clock, ConnectionLimits, Door, Edge, FactHeaders, Handed,
    ListenAddr, Manner, Nobody, Opening, QuicDoor, Reply, Secrecy, Tls, Trust, Visit,
};
use ipse_testkit::http3_client;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const LIMIT: usize = 1000;

/// An edge behind which every body is read and told.
struct Echo {
    _runtime: Runtime,
    folder: TempDir,
    address: SocketAddr,
}

impl Echo {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path(), "it", &["localhost", "127.0.0.1"]);
        let runtime = Runtime::new().unwrap();
        let inside = runtime.enter();
        let files = CertificateFiles { certificate, key };
        let tls = Tls::new(&Arc::new(Certificates::read(&[files]).unwrap())).unwrap();
        let opening = Opening { datagrams: true, shared: false };
        let anywhere: ListenAddr = "127.0.0.1:0".parse().unwrap();
        let opened = ipse_edge::bind(&[anywhere], opening, &mut Handed::default()).unwrap();
        let address = opened.datagrams[0].local_addr().unwrap();
        let door = |listener| Door { listener, manner: Manner::Tls(tls.clone()) };
        let edge = Edge {
            doors: opened.streams.into_iter().map(door).collect(),
            quic_doors: opened
                .datagrams
                .into_iter()
                .map(|socket| QuicDoor::open(socket, &tls).unwrap())
                .collect(),
            trust: Trust {
                proxies: Vec::new(),
                header: AddressHeader::Auto,
                pretend: None,
                colo: None,
                facts: FactHeaders::default(),
            },
            clock: Clock::system(),
            limits: ConnectionLimits { all: 100, each: 100 },
            drain: Duration::ZERO,
            service: |visit: Visit| async move {
                let told = match visit.body.read(LIMIT).await {
                    Ok(bytes) => format!("{:?} {}", visit.request.version, String::from_utf8_lossy(&bytes)),
                    Err(fault) => format!("{:?} {fault:?}", visit.request.version),
                };
                Reply::default().map(|_| told.into())
            },
            prompt: None::<Arc<Nobody>>,
            faults: Arc::new(|_| Reply::default()),
            secrecy: Secrecy::default(),
            traffic: Arc::default(),
        };
        runtime.spawn(edge.run(std::future::pending(), std::future::pending()));
        drop(inside);
        Self { _runtime: runtime, folder, address }
    }

    fn curl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "--max-time", "20", "--cacert"]);
        command.arg(self.folder.path().join("it.pem")).args(arguments);
        // Twice, on one connection.
        let url = format!("https://{}/", self.address);
        output(command.args([&url, &url]))
    }

    fn http3(&self, arguments: &[&str]) -> Vec<String> {
        let (python, script) = http3_client().unwrap();
        let mut command = Command::new(python);
        command.arg(script).args(["--method", "POST", "--count", "2", "--ca"]);
        command.arg(self.folder.path().join("it.pem")).args(arguments);
        let lines = output(command.arg(format!("https://{}/", self.address)));
        let answer = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        lines.lines().map(|line| answer(line)["body"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn curl_posts_over_http1_and_http2() {
    let echo = Echo::new();
    let (fits, too_large) = ("x".repeat(LIMIT), "x".repeat(LIMIT + 1));
    for (protocol, version) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
        for (body, expected) in [
            ("email=you%40example.com", "email=you%40example.com"),
            ("", ""),
            (&fits, &fits),
            (&too_large, "TooLarge"),
        ] {
            // One connection serves both requests, which curl tells.
            let told = echo.curl(&[protocol, "--data", body, "-w", " %{num_connects}\\n"]);
            assert_eq!(told, format!("{version} {expected} 1\n{version} {expected} 0\n"));
        }
        // What has no length comes in chunks over HTTP/1.1, and so closes the connection.
        let told = echo.curl(&[protocol, "-H", "transfer-encoding: chunked", "--data", "a=b", "-w", "\\n"]);
        assert_eq!(told, format!("{version} a=b\n{version} a=b\n"));
    }
}

#[test]
fn aioquic_posts_over_http3() {
    let echo = Echo::new();
    let (fits, too_large) = ("x".repeat(LIMIT), "x".repeat(LIMIT + 1));
    for (arguments, expected) in [
        (&["--body", "email=you%40example.com"][..], "email=you%40example.com"),
        (&[], ""),
        (&["--body", ""], ""),
        (&["--body", "a=b", "--header", "content-length: 3"], "a=b"),
        (&["--body", "a=b", "--header", "content-length: 4"], "Broken"),
        (&["--body", &fits], &fits),
        (&["--body", &too_large], "TooLarge"),
    ] {
        let expected = format!("HTTP/3.0 {expected}");
        assert_eq!(echo.http3(arguments), [expected.as_str(), expected.as_str()]);
    }
}
