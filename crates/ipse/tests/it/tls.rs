//! HTTPS as clients see it that nobody here wrote: curl, nghttp and openssl.

use super::{House, Plan, TestKey};
use ipse_model::Scope;
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A server that speaks HTTPS on IPv4 and IPv6, and the certificate it shows.
pub(crate) struct Secure {
    pub(crate) house: House,
    pub(crate) key: TestKey,
    /// Of IPv4 and of IPv6.
    pub(crate) doors: [SocketAddr; 2],
    pub(crate) folder: TempDir,
}

impl Secure {
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path(), "it", &["localhost", "127.0.0.1", "::1"]);
        let mut all = vec![
            ("tls_listen", "127.0.0.1:0,[::1]:0"),
            ("tls_cert", certificate.to_str().unwrap()),
            ("tls_key", key.to_str().unwrap()),
        ];
        all.extend(settings);
        let plan = Plan { settings: &all, keys: &[(Scope::Full, None)], ..Plan::default() };
        let (house, mut keys) = House::build(plan);
        let doors = [house.addresses[1], house.addresses[2]];
        Self { house, key: keys.remove(0), doors, folder }
    }

    /// What curl prints, with the certificate as the only one that it trusts.
    pub(crate) fn curl(&self, arguments: &[&str], url: &str) -> String {
        let certificate = self.folder.path().join("it.pem");
        let key = format!("authorization: Bearer {}", self.key.text);
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "-H", &key, "--cacert"]).arg(certificate);
        output(command.args(arguments).arg(url))
    }

    fn answer(&self, arguments: &[&str], door: SocketAddr) -> Value {
        let body = self.curl(arguments, &format!("https://{door}/api/v1/ip"));
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }
}

/// Makes a certificate for these names that signs itself: the files of it and of its key.
pub(crate) fn certificate(folder: &Path, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (folder.join(format!("{file}.pem")), folder.join(format!("{file}.key")));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// What a command that succeeds prints.
#[track_caller]
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

#[test]
fn the_facts_of_a_connection_are_those_that_curl_asked_for() {
    let secure = Secure::new(&[]);
    let versions: [(&[&str], &str, &str); 4] = [
        (&["--tls13-ciphers", "TLS_AES_128_GCM_SHA256"], "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        (&["--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256"], "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        (
            &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384"],
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ),
        (
            &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ),
    ];
    for door in secure.doors {
        for (arguments, version, cipher) in versions {
            for (protocol, http) in
                [("--http1.0", "HTTP/1.0"), ("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")]
            {
                let answer = secure.answer(&[arguments, &[protocol]].concat(), door);
                assert_eq!(answer["tls_version"], version, "{answer}");
                assert_eq!(answer["tls_cipher"], cipher, "{answer}");
                assert_eq!(answer["http_protocol"], http, "{answer}");
                assert!(answer["rtt"].is_u64(), "{answer}");
                let field = if door.is_ipv4() { "ip" } else { "ipv6" };
                assert_eq!(answer[field], door.ip().to_string(), "{answer}");
            }
        }
    }
}

#[test]
fn nghttp_is_answered_over_http2() {
    let secure = Secure::new(&[]);
    for door in secure.doors {
        let body = output(Command::new("nghttp").arg(format!("https://{door}/api/v1/ip/demo")));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&answer["http_protocol"], &answer["tls_version"]), (&"HTTP/2".into(), &"TLSv1.3".into()));
    }
}

#[test]
fn what_a_proxy_forwards_tells_nothing_of_its_own_tls() {
    let secure = Secure::new(&[]);
    let answer = secure.answer(&["-H", "x-forwarded-for: 203.0.113.9"], secure.doors[0]);
    assert_eq!(answer["ip"], "203.0.113.9");
    for field in ["tls_version", "tls_cipher", "http_protocol", "rtt"] {
        assert!(answer[field].is_null(), "{field}: {answer}");
    }
}

#[test]
fn a_session_is_resumed() {
    let secure = Secure::new(&[]);
    let session = secure.folder.path().join("session");
    let session = session.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        for (option, expected) in [("-sess_out", "New, TLSv1."), ("-sess_in", "Reused, TLSv1.")] {
            let door = secure.doors[0].to_string();
            let request = "printf 'GET /api/v1/ip/demo HTTP/1.0\\r\\n\\r\\n'";
            let client = format!("openssl s_client -connect {door} {version} {option} {session} -ign_eof");
            let told = output(Command::new("sh").args(["-c", &format!("{request} | {client} 2>&1")]));
            assert!(told.contains(expected) && told.contains("200 OK"), "{version} {option}: {told}");
        }
    }
}

#[test]
fn old_versions_of_tls_are_refused() {
    let secure = Secure::new(&[]);
    for version in ["-tls1", "-tls1_1"] {
        let mut command = Command::new("openssl");
        command.args(["s_client", version, "-cipher", "DEFAULT@SECLEVEL=0", "-connect"]);
        let output = command.arg(secure.doors[0].to_string()).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("alert"), "{version}: {told}");
    }
}

#[test]
fn callers_who_speak_clearly_are_led_to_https() {
    let secure = Secure::new(&[("https_redirect", "yes"), ("hsts_seconds", "86400")]);
    let (clear, port) = (secure.house.address, secure.doors[0].port());
    let location = |url: String, arguments: &[&str]| {
        let arguments = [&["-o", "/dev/null", "-w", "%{response_code} %{redirect_url}"], arguments].concat();
        secure.curl(&arguments, &url)
    };
    let expected = |host: &str| format!("308 https://{host}:{port}/api/v1/ip/demo?pretty=1");
    let target = "api/v1/ip/demo?pretty=1";
    assert_eq!(location(format!("http://{clear}/{target}"), &[]), expected("127.0.0.1"));
    assert_eq!(
        location(format!("http://{clear}/{target}"), &["--http2-prior-knowledge"]),
        expected("127.0.0.1")
    );
    let host = ["-H", "host: ipse.example:8080"];
    assert_eq!(location(format!("http://{clear}/{target}"), &host), expected("ipse.example"));
    let host = ["-H", "host: [2001:db8::1]:80"];
    assert_eq!(location(format!("http://{clear}/{target}"), &host), expected("[2001:db8::1]"));
    // Also at the door of HTTPS itself.
    assert_eq!(location(format!("http://127.0.0.1:{port}/{target}"), &[]), expected("127.0.0.1"));
    let head = secure.curl(&["-I"], &format!("https://{}/", secure.doors[0]));
    assert!(head.contains("strict-transport-security: max-age=86400"), "{head}");
    let clear = secure.curl(&["-I"], &format!("http://{clear}/"));
    assert!(!clear.contains("strict-transport-security"), "{clear}");
}

#[test]
fn a_clear_door_is_served_unless_callers_are_to_be_led_away() {
    let secure = Secure::new(&[]);
    let body = secure.curl(&[], &format!("http://{}/api/v1/ip", secure.house.address));
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert!(answer["tls_version"].is_null() && answer["tls_cipher"].is_null(), "{answer}");
    let head = secure.curl(&["-I"], &format!("https://{}/", secure.doors[0]));
    assert!(!head.contains("strict-transport-security"), "{head}");
}

#[test]
fn a_replaced_certificate_is_shown_without_a_restart() {
    let secure = Secure::new(&[]);
    let url = format!("https://{}/api/v1/ip/demo", secure.doors[0]);
    secure.curl(&[], &url);
    // Curl trusts the file's newest content alone.
    certificate(secure.folder.path(), "it", &["127.0.0.1"]);
    for _ in 0..500 {
        let trusted = secure.folder.path().join("it.pem");
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "--cacert"]).arg(trusted).arg(&url);
        if command.output().unwrap().status.success() {
            return;
        }
        // waits for: the server to look at the files, which it does each second
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the new certificate was never shown");
}

#[test]
fn the_certificate_is_that_of_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = [
        certificate(folder.path(), "one", &["one.example"]),
        certificate(folder.path(), "two", &["two.example"]),
    ];
    let list = |of: fn(&(PathBuf, PathBuf)) -> &PathBuf| {
        pairs.iter().map(|pair| of(pair).to_str().unwrap()).collect::<Vec<_>>().join(",")
    };
    let (certificates, keys) = (list(|pair| &pair.0), list(|pair| &pair.1));
    let settings = [("tls_listen", "127.0.0.1:0"), ("tls_cert", &certificates), ("tls_key", &keys)];
    let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
    let port = house.addresses[1].port();
    for name in ["one", "two"] {
        let resolve = format!("{name}.example:{port}:127.0.0.1");
        let trusted = folder.path().join(format!("{name}.pem"));
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "--resolve", &resolve, "--cacert"]).arg(trusted);
        let body = output(command.arg(format!("https://{name}.example:{port}/api/v1/ip/demo")));
        assert!(body.contains("\"status\":\"success\""), "{body}");
    }
}

#[test]
fn a_certificate_is_made_for_trying_https() {
    let settings = [("tls_listen", "127.0.0.1:0"), ("tls_self_signed", "yes")];
    let (house, _) = House::build(Plan { settings: &settings, ..Plan::default() });
    let url = format!("https://{}/api/v1/ip/demo", house.addresses[1]);
    let body = output(Command::new("curl").args(["-sSk", "--noproxy", "*", &url]));
    assert!(body.contains("\"tls_version\":\"TLSv1.3\""), "{body}");
    assert!(house.base_url.starts_with("https://localhost:"), "{}", house.base_url);
}

#[test]
fn a_redirect_can_be_followed_from_pages_of_other_origins() {
    let settings = [("https_redirect", "yes"), ("base_url", "https://ip.example.com")];
    let secure = Secure::new(&settings);
    let url = format!("http://{}/api/v1/ip/demo", secure.house.address);
    let head = secure.curl(&["-D", "-", "-o", "/dev/null", "-H", "host: ip.example.com:80"], &url);
    // The base URL knows at which port callers find HTTPS; the door may have another.
    assert!(
        head.starts_with("HTTP/1.1 308 ")
            && head.contains("location: https://ip.example.com/api/v1/ip/demo\r"),
        "{head}"
    );
    assert!(
        head.contains("access-control-allow-origin: *") && head.contains("cache-control: no-store"),
        "{head}"
    );
    let preflight =
        ["-X", "OPTIONS", "-o", "/dev/null", "-w", "%{response_code}", "-H", "origin: https://a.example"];
    let preflight = [&preflight[..], &["-H", "access-control-request-method: GET"]].concat();
    assert_eq!(secure.curl(&preflight, &url), "204", "browsers follow no redirect of a preflight");
    let by_proxy =
        secure.curl(&["-H", "x-forwarded-proto: https", "-H", "x-forwarded-for: 203.0.113.9"], &url);
    assert!(by_proxy.contains("203.0.113.9"), "what came to a proxy by HTTPS is served: {by_proxy}");
    for host in ["host:", "host: :80", "host: ::1"] {
        let body = secure.curl(&["--http1.0", "-H", host], &url);
        assert!(body.contains("bad_request"), "{host}: {body}");
    }
    let told = secure.curl(&["-I"], &format!("https://{}/", secure.doors[0]));
    assert!(told.contains("alt-svc: h3=\":443\""), "{told}");
}
