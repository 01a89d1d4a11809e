//! Certificates from an authority that nobody here wrote: Pebble, on loopback, with its own DNS server.

use super::proxies::free_port;
use super::tls::{certificate, output};
use super::{House, Plan};
use ipse_edge::Clock;
use ipse_model::Now;
use ipse_testkit::program;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const DOMAINS: [&str; 2] = ["one.ipse.example", "two.ipse.example"];
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How long a certificate is good that this authority issues.
const LIFETIME_DAYS: i64 = 90;

/// Where an authority will be, with a certificate for its own address.
struct Place {
    folder: TempDir,
    /// Of the directory, of the management, and of the DNS server and its management.
    ports: [u16; 4],
    ca: PathBuf,
}

/// A running authority. It forgets everything when it ends.
struct Authority {
    processes: [Child; 2],
    /// The root of what it issues.
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ca, _) = certificate(folder.path(), "pebble", &["127.0.0.1"]);
        Self { folder, ports: [(); 4].map(|()| free_port()), ca }
    }

    fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.ports[0])
    }

    /// Starts the authority, which looks for proofs of all names at this port.
    fn open(&self, proofs_at: u16) -> Authority {
        let [directory, management, dns, dns_management] = self.ports;
        let own = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let config = serde_json::json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{directory}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": own("pebble.pem"),
            "privateKey": own("pebble.key"),
            "httpPort": 1,
            "tlsPort": proofs_at,
            "certificateValidityPeriod": LIFETIME_DAYS * 24 * 60 * 60,
        }});
        fs::write(own("pebble.json"), config.to_string()).unwrap();
        let quiet = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let dns_address = format!("127.0.0.1:{dns}");
        let names = quiet(
            Command::new("pebble-challtestsrv")
                .args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""])
                .args(["-defaultIPv4", "127.0.0.1", "-dns01", &dns_address])
                .args(["-management", &format!("127.0.0.1:{dns_management}")]),
        );
        let pebble = quiet(
            Command::new("pebble")
                .args(["-strict", "-config", &own("pebble.json"), "-dnsserver", &dns_address])
                .env("PEBBLE_VA_NOSLEEP", "1")
                // Each order is to be proven.
                .env("PEBBLE_AUTHZREUSE", "0"),
        );
        let root = self.folder.path().join("root.pem");
        let authority = Authority { processes: [names, pebble], root };
        eventually("the authority listens", || {
            let mut curl = Command::new("curl");
            curl.args(["-sSf", "--noproxy", "*", "--cacert"]).arg(&self.ca).arg("-o").arg(&authority.root);
            let fetched = curl.arg(format!("https://127.0.0.1:{management}/roots/0")).output().unwrap();
            let open = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
            open(dns) && open(directory) && fetched.status.success()
        });
        authority
    }

    /// The settings of a server that asks here.
    fn settings<'a>(&'a self, directory: &'a str, domains: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("tls_listen", "127.0.0.1:0"),
            ("acme_domain", domains),
            ("acme_directory", directory),
            ("acme_ca", self.ca.to_str().unwrap()),
            ("acme_email", "you@example.com"),
        ]
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1500 {
        if is_so() {
            return;
        }
        // waits for: another process, or a task that looks each second
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never came to be: {what}");
}

/// What the door shows to a caller that asks for a name: the serial number, and everything that openssl says of it.
fn shown(door: SocketAddr, name: &str) -> (String, String) {
    let client = format!("openssl s_client -connect {door} -servername {name} </dev/null 2>/dev/null");
    let read = "openssl x509 -noout -serial -issuer -ext subjectAltName";
    let text = output(Command::new("sh").args(["-c", &format!("{client} | {read}")]));
    let serial = text.lines().find_map(|line| line.strip_prefix("serial=")).unwrap().to_owned();
    (serial, text)
}

/// Whether a caller who trusts these is answered under a name.
fn is_answered(door: SocketAddr, name: &str, trusted: &Path) -> bool {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--noproxy", "*", "--cacert"]).arg(trusted);
    curl.args(["--resolve", &format!("{name}:{}:127.0.0.1", door.port())]);
    let told = curl.arg(format!("https://{name}:{}/api/v1/ip/demo", door.port())).output().unwrap();
    told.status.success() && String::from_utf8_lossy(&told.stdout).contains("\"status\":\"success\"")
}

/// The file of this name in the one authority's folder.
fn kept(data_dir: &Path, name: &str) -> PathBuf {
    let folders: Vec<_> =
        fs::read_dir(data_dir.join("acme")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].join(name)
}

#[track_caller]
fn check_private(path: &Path) {
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
}

fn later(now: Now, ms: i64) -> Now {
    Now { unix_ms: now.unix_ms + ms, boot_ms: now.boot_ms + u64::try_from(ms).unwrap() }
}

/// Lets time go by on a server's clock, so that its pauses end, until something is so.
#[track_caller]
fn in_time(house: &House, what: &str, is_so: impl Fn() -> bool) {
    eventually(what, || {
        house.hand.advance_ms(60_000);
        is_so()
    });
}

/// Ends what a thread does, also where a test fails.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls both doors again and again, and says how often; each call must be answered.
fn call_until(over: &AtomicBool, house: &House) -> u32 {
    let (clear, door) = (house.addresses[0], house.addresses[1]);
    let mut answers = 0;
    while !over.load(Ordering::Relaxed) {
        let urls = [format!("https://{door}/api/v1/meta"), format!("http://{clear}/api/v1/meta")];
        output(Command::new("curl").args(["-sSfk", "--noproxy", "*"]).args(urls));
        answers += 1;
    }
    answers
}

#[test]
fn a_certificate_is_obtained_kept_and_renewed_while_callers_are_served() {
    let place = Place::new();
    let (directory, domains) = (place.directory(), DOMAINS.join(","));
    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().join("data");
    let mut settings = place.settings(&directory, &domains);
    settings.push(("data_dir", data_dir.to_str().unwrap()));
    let start = Clock::system().now();
    let build = || House::build(Plan { settings: &settings, now: Some(start), ..Plan::default() }).0;
    let house = build();
    let door = house.addresses[1];

    // Nobody is there to ask: callers are served all the same, with a certificate that signs itself.
    for name in DOMAINS {
        let (_, text) = shown(door, name);
        assert!(text.contains("issuer=CN = rcgen") && text.contains(name), "{text}");
    }
    let over = AtomicBool::new(false);
    let authority = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| call_until(&over, &house));
        let until = Until(&over);
        let authority = place.open(door.port());
        in_time(&house, "a certificate is issued", || is_answered(door, DOMAINS[0], &authority.root));
        let (first, _) = shown(door, DOMAINS[0]);
        for name in DOMAINS {
            assert!(is_answered(door, name, &authority.root), "{name}");
            let (serial, text) = shown(door, name);
            assert_eq!(serial, first);
            assert!(DOMAINS.iter().all(|name| text.contains(&format!("DNS:{name}"))), "{text}");
        }
        let [account, certificate] = ["account.json", "certificate.pem"].map(|name| kept(&data_dir, name));
        eventually("it is kept", || certificate.exists());
        check_private(&account);
        check_private(&certificate);
        let registered = fs::read(&account).unwrap();

        // Two thirds of its time go by.
        house.hand.set(later(start, (LIFETIME_DAYS * 2 / 3 + 1) * DAY_MS));
        eventually("it is renewed", || shown(door, DOMAINS[0]).0 != first);
        assert!(is_answered(door, DOMAINS[0], &authority.root));
        assert_eq!(fs::read(&account).unwrap(), registered, "the account is used again");

        // The authority forgets who we are.
        drop(authority);
        let authority = place.open(door.port());
        in_time(&house, "it is renewed", || is_answered(door, DOMAINS[1], &authority.root));
        assert_ne!(fs::read(&account).unwrap(), registered, "a new account was registered");
        drop(until);
        assert!(traffic.join().unwrap() > 0);
        authority
    });

    // A restart asks nobody.
    let certificate = kept(&data_dir, "certificate.pem");
    let serial = || {
        let told =
            output(Command::new("openssl").args(["x509", "-noout", "-serial", "-in"]).arg(&certificate));
        told.trim().trim_start_matches("serial=").to_owned()
    };
    eventually("it is kept", || shown(door, DOMAINS[0]).0 == serial());
    drop(house);
    let kept = serial();
    let root = fs::read(&authority.root).unwrap();
    drop(authority);
    let trusted = place.folder.path().join("last-root.pem");
    fs::write(&trusted, root).unwrap();
    let asked = TcpListener::bind(("127.0.0.1", place.ports[0])).unwrap();
    asked.set_nonblocking(true).unwrap();
    let house = build();
    let door = house.addresses[1];
    assert_eq!(shown(door, DOMAINS[1]).0, kept);
    assert!(DOMAINS.iter().all(|name| is_answered(door, name, &trusted)));
    assert_eq!(asked.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(serial(), kept);
}

#[test]
fn a_certificate_from_a_file_is_shown_beside_an_issued_one() {
    let place = Place::new();
    let directory = place.directory();
    let (file, key) = certificate(place.folder.path(), "file", &["file.example"]);
    let mut settings = place.settings(&directory, DOMAINS[0]);
    settings.extend([("tls_cert", file.to_str().unwrap()), ("tls_key", key.to_str().unwrap())]);
    let now = Some(Clock::system().now());
    let (house, _) = House::build(Plan { settings: &settings, now, ..Plan::default() });
    let door = house.addresses[1];
    assert!(is_answered(door, "file.example", &file));
    let authority = place.open(door.port());
    in_time(&house, "a certificate is issued", || is_answered(door, DOMAINS[0], &authority.root));
    assert!(is_answered(door, "file.example", &file));
    assert!(shown(door, "other.example").1.contains("file.example"), "the first is for everybody else");
}

#[test]
fn another_name_and_another_address_are_told_to_the_authority_and_the_old_certificate_stays_meanwhile() {
    let place = Place::new();
    let (directory, domains) = (place.directory(), DOMAINS.join(","));
    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().join("data");
    let port = free_port();
    let (listen, authority) = (format!("127.0.0.1:{port}"), place.open(port));
    let build = |domains, email| {
        let mut settings = place.settings(&directory, domains);
        settings.extend([("tls_listen", listen.as_str()), ("data_dir", data_dir.to_str().unwrap())]);
        settings.push(("acme_email", email));
        House::build(Plan { settings: &settings, now: Some(Clock::system().now()), ..Plan::default() }).0
    };
    let account = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(kept(&data_dir, "account.json")).unwrap()).unwrap()
    };
    let house = build(DOMAINS[0], "one@example.com");
    let door = house.addresses[1];
    in_time(&house, "a certificate is issued", || is_answered(door, DOMAINS[0], &authority.root));
    eventually("it is kept", || kept(&data_dir, "certificate.pem").exists());
    drop(house);
    let first = account();
    assert_eq!(first["email"], "one@example.com");

    let house = build(&domains, "two@example.com");
    // Whoever was served before is served on, whatever comes of the new name.
    assert!(is_answered(door, DOMAINS[0], &authority.root));
    in_time(&house, "a certificate for both is issued", || {
        DOMAINS.iter().all(|name| is_answered(door, name, &authority.root))
    });
    let second = account();
    assert_eq!(
        (&second["email"], &second["credentials"]),
        (&"two@example.com".into(), &first["credentials"])
    );
}

/// What openssl says of a handshake with a door where it speaks as an authority does.
fn speak_as_an_authority(door: SocketAddr, protocols: &str) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-servername", DOMAINS[0], "-alpn", protocols, "-connect", &door.to_string()]);
    let told = command.stdin(Stdio::null()).output().unwrap();
    let text = [told.stdout, told.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (told.status.success(), text)
}

#[test]
fn who_speaks_as_an_authority_gets_nothing() {
    let place = Place::new();
    let directory = place.directory();
    let asking = [
        place.settings(&directory, DOMAINS[0]),
        vec![("tls_listen", "127.0.0.1:0"), ("tls_self_signed", "yes")],
    ];
    for (settings, alert) in asking.iter().zip(["alert", "alert no application protocol"]) {
        let (house, _) = House::build(Plan { settings, ..Plan::default() });
        let door = house.addresses[1];
        let (agreed, text) = speak_as_an_authority(door, "acme-tls/1");
        assert!(!agreed && text.contains(alert) && text.contains("no peer certificate available"), "{text}");
        // HTTP is preferred to it by everybody who offers both.
        let (agreed, text) = speak_as_an_authority(door, "acme-tls/1,http/1.1");
        assert!(agreed && text.contains("ALPN protocol: http/1.1"), "{text}");
    }
    // One who agrees on it by the side is let go without an answer.
    let (house, _) = House::build(Plan { settings: &asking[0], ..Plan::default() });
    let request = "printf 'GET / HTTP/1.0\\r\\n\\r\\n'";
    let client =
        format!("openssl s_client -alpn acme-tls/1,x -connect {} -ign_eof 2>&1 || true", house.addresses[1]);
    let text = output(Command::new("sh").args(["-c", &format!("{request} | {client}")]));
    assert!(text.contains("ALPN protocol: acme-tls/1") && !text.contains("HTTP/1"), "{text}");
}

#[test]
fn an_authority_that_cannot_verify_a_name_is_quoted_in_the_log() {
    let place = Place::new();
    // Nobody listens where it looks for the proof.
    let _authority = place.open(free_port());
    let data = tempfile::tempdir().unwrap();
    let mut command = program(env!("CARGO_BIN_EXE_ipse"));
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log-format",
        "json",
        "--log-level",
        "trace",
        "--data-dir",
    ]);
    command.arg(data.path());
    for (name, value) in place.settings(&place.directory(), DOMAINS[0]) {
        command.arg(format!("--{}", name.replace('_', "-"))).arg(value);
    }
    let mut server =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = String::new();
    let failure = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .inspect(|line| log += &format!("{line}\n"))
        .find(|line| line.contains("no certificate was obtained"));
    let _ = server.kill();
    let _ = server.wait();
    let failure: serde_json::Value =
        serde_json::from_str(&failure.unwrap_or_else(|| panic!("{log}"))).unwrap();
    let error = failure["error"].as_str().unwrap();
    assert!(error.starts_with("the authority could not verify one.ipse.example: "), "{error}");
    assert!(error.contains("Failed to connect"), "{error}");
    assert_eq!(failure["level"], "ERROR");
    assert_eq!(failure["message"], "no certificate was obtained; callers see one that nobody has signed");
    assert!((44..=60).contains(&failure["next_attempt_s"].as_u64().unwrap()), "{failure}");
    // The account is there already, and nothing of its key is told.
    let account = kept(data.path(), "account.json");
    check_private(&account);
    let account: serde_json::Value = serde_json::from_slice(&fs::read(account).unwrap()).unwrap();
    let secret = account["credentials"]["key_pkcs8"].as_str().unwrap();
    assert!(secret.len() > 100 && !log.contains(&secret[..20]) && !log.contains("PRIVATE"), "{log}");
}
