//! Real proxies before the server, with the configurations that the documentation gives.

use super::tls::{certificate, output};
use super::{House, Plan, TestKey};
use ipse_model::Scope;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxies.md");

/// The block of the documentation in this language.
fn block(language: &str) -> String {
    let docs = fs::read_to_string(DOCS).unwrap();
    let (_, begin) = docs.split_once(&format!("```{language}\n")).unwrap();
    begin.split_once("\n```").unwrap().0.to_owned() + "\n"
}

/// A server with the documented settings, and a proxy before it.
pub(crate) struct Proxied {
    proxy: Child,
    port: u16,
    folder: TempDir,
    key: TestKey,
    pub(crate) house: House,
}

impl Proxied {
    /// Starts a proxy whose documented configuration is in `language` by the command that `start` makes of its file.
    fn new(language: &str, settings: &[(&str, &str)], start: impl Fn(&Path, &Path) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let documented: toml::Table = block("toml").parse().unwrap();
        let mut all: Vec<(&str, &str)> =
            documented.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
        // Callers are on this machine too, and nobody to be believed.
        all.push(("trusted_proxy", "127.0.0.1/32"));
        all.extend(settings);
        let (house, mut keys) =
            House::build(Plan { settings: &all, keys: &[(Scope::Full, None)], ..Plan::default() });
        let (pem, key) = certificate(folder.path(), "it", &["ip.example.com"]);
        let both = folder.path().join("both");
        fs::write(&both, [fs::read(&pem).unwrap(), fs::read(&key).unwrap()].concat()).unwrap();
        let port = free_port();
        let introduced = house.addresses.last().unwrap().to_string();
        let mut text = block(language);
        for (documented, here) in [
            ("/etc/ssl/ip.example.com.pem", pem.to_str().unwrap()),
            ("/etc/ssl/ip.example.com.key", key.to_str().unwrap()),
            ("/etc/ssl/ip.example.com.both", both.to_str().unwrap()),
            ("127.0.0.1:8080", &house.address.to_string()),
            ("127.0.0.1:8081", &introduced),
            ("https://ip.example.com {", &format!("https://ip.example.com:{port} {{")),
            (":443", &format!(":{port}")),
            ("listen 443", &format!("listen {port}")),
        ] {
            text = text.replace(documented, here);
        }
        let file = folder.path().join("configuration");
        fs::write(&file, text).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = start(&file, folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let proxied = Self { proxy: command.spawn().unwrap(), port, folder, key: keys.remove(0), house };
        proxied.wait();
        proxied
    }

    fn wait(&self) {
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            // waits for: the proxy to listen
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the proxy never listened: {}", fs::read_to_string(self.folder.path().join("log")).unwrap());
    }

    /// The answer to curl, which comes to the proxy from this address and with these arguments.
    fn answer(&self, from: &str, arguments: &[&str]) -> Value {
        let body = self.fetch("/api/v1/ip", from, arguments);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// What curl gets from a path of the proxy.
    pub(crate) fn fetch(&self, path: &str, from: &str, arguments: &[&str]) -> String {
        let to = if from.contains(':') { "[::1]" } else { "127.0.0.1" };
        let host = format!("ip.example.com:{}:{to}", self.port);
        let key = format!("authorization: Bearer {}", self.key.text);
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "-H", &key, "--resolve", &host, "--cacert"]);
        command.arg(self.folder.path().join("it.pem")).args(["--interface", from]).args(arguments);
        output(command.arg(format!("https://ip.example.com:{}{path}", self.port)))
    }

    /// Asks in all ways, and checks that everything told is true.
    fn check(&self, knows_rtt: bool) {
        for (from, field) in [("127.0.0.2", "ip"), ("::1", "ipv6")] {
            for (protocol, http) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")] {
                for (tls, version, cipher) in TLS {
                    let forged = FORGED.iter().flat_map(|line| ["-H", line]);
                    let arguments: Vec<&str> = tls.iter().copied().chain([protocol]).chain(forged).collect();
                    let answer = self.answer(from, &arguments);
                    assert_eq!(answer[field], from, "{answer}");
                    assert_eq!(answer["http_protocol"], *http, "{answer}");
                    assert_eq!(answer["tls_version"], *version, "{answer}");
                    assert_eq!(answer["tls_cipher"], *cipher, "{answer}");
                    let rtt = answer["rtt"].as_u64();
                    assert_eq!(rtt.is_some(), knows_rtt, "{answer}");
                    assert!(rtt.is_none_or(|rtt| rtt < 1000), "{answer}");
                }
            }
        }
    }
}

/// What curl is asked to speak, and how that is told.
const TLS: &[(&[&str], &str, &str)] = &[
    (&["--tls13-ciphers", "TLS_AES_128_GCM_SHA256"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
    (
        &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        "TLSv1.2",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
];

/// What a caller would like to be believed.
const FORGED: &[&str] = &[
    "x-forwarded-for: 6.6.6.6",
    "forwarded: for=6.6.6.6",
    "x-real-ip: 6.6.6.6",
    "x-tls-version: TLSv1.3",
    "x-tls-cipher: TLS_CHACHA20_POLY1305_SHA256",
    "x-http-version: HTTP/3",
    "x-rtt: 77777",
];

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// A port that is free on both families, and below those that the system gives to whoever asks for any: a test that runs
/// at the same time cannot be given it before the proxy listens.
pub(crate) fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(64).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + u16::try_from(number % 20_000).unwrap();
        let free = ["0.0.0.0", "::"].map(|ip| TcpListener::bind((ip, port)).is_ok());
        if free == [true, true] {
            return port;
        }
    }
}

/// nginx as the documentation sets it up, with what these settings add to ours.
pub(crate) fn behind_nginx(settings: &[(&str, &str)]) -> Proxied {
    Proxied::new("nginx", settings, |file, folder| {
        let mut command = Command::new("nginx");
        command.arg("-c").arg(file).arg("-p").arg(folder);
        command.args(["-e", "stderr", "-g"]);
        command.arg(format!("daemon off; master_process off; pid {};", folder.join("pid").display()));
        command
    })
}

#[test]
fn nginx_tells_the_truth() {
    behind_nginx(&[]).check(true);
}

fn haproxy(file: &Path, _: &Path) -> Command {
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(file);
    command
}

#[test]
fn haproxy_tells_the_truth_in_headers() {
    Proxied::new("haproxy", &[], haproxy).check(true);
}

#[test]
fn haproxy_tells_the_truth_with_the_proxy_protocol() {
    Proxied::new("haproxy-proxy", &[("proxy_listen", "127.0.0.1:0")], haproxy).check(false);
}

/// What comes back for these bytes until the connection ends.
pub(crate) fn exchange(door: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(door).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

const REQUEST: &str = "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const LINE: &str = "PROXY TCP4 203.0.113.7 192.0.2.1 56324 80\r\n";

#[test]
fn an_introduction_is_required_at_its_door_and_refused_at_others() {
    let (house, _) = House::build(Plan { settings: &[("proxy_listen", "127.0.0.1:0")], ..Plan::default() });
    let [ordinary, introduced] = house.addresses[..] else { panic!("two doors") };
    let both = format!("{LINE}{REQUEST}");
    assert!(exchange(introduced, both.as_bytes()).contains(r#""ip":"203.0.113.7""#));
    assert_eq!(exchange(introduced, REQUEST.as_bytes()), "");
    let version_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\xc0\0\x02\x01\xdc\x04\0\x50";
    let version_2 = [&version_2[..], REQUEST.as_bytes()].concat();
    assert!(exchange(introduced, &version_2).contains(r#""ip":"203.0.113.7""#));
    for bytes in [both.as_bytes(), &version_2] {
        let answer = exchange(ordinary, bytes);
        assert!(answer.starts_with("HTTP/1.1 400 ") && !answer.contains("203.0.113.7"), "{answer}");
    }
}

#[test]
fn nobody_but_a_trusted_proxy_introduces() {
    let settings = [("proxy_listen", "127.0.0.1:0"), ("trusted_proxy", "10.0.0.0/8")];
    let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
    assert_eq!(exchange(house.addresses[1], format!("{LINE}{REQUEST}").as_bytes()), "");
}

#[test]
fn a_proxy_that_looks_whether_we_live_is_answered_as_itself() {
    let (house, _) = House::build(Plan { settings: &[("proxy_listen", "127.0.0.1:0")], ..Plan::default() });
    let forged = REQUEST.replace("host: x", "host: x\r\nx-forwarded-for: 203.0.113.7");
    for request in [REQUEST, &forged] {
        let answer = exchange(house.addresses[1], format!("PROXY UNKNOWN\r\n{request}").as_bytes());
        assert!(answer.contains(r#""ip":"127.0.0.1""#), "{answer}");
    }
}

#[test]
fn caddy_tells_the_truth() {
    let proxied = Proxied::new("caddy", &[], |file, folder| {
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        command
    });
    proxied.check(false);
}
