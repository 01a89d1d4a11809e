//! Updates of geo data: the command as an operator types it, and the timer inside a server.

use crate::commands::{fail, ipse, run};
use crate::{NOON, json};
use ipse::{Config, Geo, Rhythm, Server};
use ipse_edge::{Clock, Handed};
use ipse_geo::Atlas;
use ipse_model::Address;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CITY: &str = "11.0.0.0,126.255.255.255,NA,US,California,Mountain View,37.386,-122.0838\n";
const NEWER_CITY: &str = "11.0.0.0,126.255.255.255,NA,US,California,Palo Alto,37.44,-122.14\n";
const ASN: &str = "11.0.0.0,126.255.255.255,15169,Google LLC\n";
const LITTLE: &str = "81.2.69.0,81.2.69.255,NA,US,California,Mountain View,37.386,-122.0838\n";

/// A vendor on this machine: files by path, each with the hash of its content as its tag. What is no file is 404.
struct Vendor {
    address: SocketAddr,
    files: Arc<Mutex<HashMap<String, String>>>,
    /// Requests by path and status.
    seen: Arc<Mutex<Vec<(String, u16)>>>,
}

impl Vendor {
    fn new(files: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let vendor = Self {
            address: listener.local_addr().unwrap(),
            files: Arc::new(Mutex::new(HashMap::new())),
            seen: Arc::default(),
        };
        files.iter().for_each(|(path, content)| vendor.put(path, content));
        let (files, seen) = (Arc::clone(&vendor.files), Arc::clone(&vendor.seen));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (path, tag) = read_head(&stream);
                let content = files.lock().unwrap().get(path.split('?').next().unwrap()).cloned();
                let (status, answer) = match content {
                    None => (404, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()),
                    Some(content) => match format!("\"{:x}\"", fnv(&content)) {
                        same if Some(&same) == tag.as_ref() => {
                            (304, "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned())
                        }
                        tag => {
                            let length = content.len();
                            let head =
                                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: {tag}\r\n\r\n");
                            (200, head + &content)
                        }
                    },
                };
                seen.lock().unwrap().push((path, status));
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        vendor
    }

    fn put(&self, path: &str, content: &str) {
        self.files.lock().unwrap().insert(path.to_owned(), content.to_owned());
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The statuses of all answers so far.
    fn statuses(&self) -> Vec<u16> {
        self.seen.lock().unwrap().iter().map(|(_, status)| *status).collect()
    }
}

fn read_head(stream: &TcpStream) -> (String, Option<String>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
    let tags: Vec<_> =
        lines.filter_map(|line| Some(line.strip_prefix("if-none-match: ")?.to_owned())).collect();
    (path, tags.into_iter().next())
}

fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn city(snapshot: &Path) -> Option<String> {
    let atlas = Atlas::read(&fs::read(snapshot).ok()?).unwrap();
    let place = atlas.find(Address::new("81.2.69.142".parse().unwrap())).place()?;
    place.city.map(|city| city.to_string())
}

#[test]
fn the_command_updates_and_says_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let vendor = Vendor::new(&[("/city.csv", CITY), ("/asn.csv", ASN)]);
    let [city_source, asn_source] = [
        format!("city:{}", vendor.url("/city.csv")),
        format!("asn:{}", vendor.url("/asn.csv?token=secret_1")),
    ];
    let arguments = ["data", "update", "--geo-source", &city_source, "--geo-source", &asn_source];
    let snapshot = dir.path().join("ipse-data/geo.ipse");

    let output = ipse(dir.path(), &arguments).output().unwrap();
    let (said, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{told}");
    for part in ["before none", "city.csv", "asn.csv", "SOURCE", "IPv4", "country", "52.45 %"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    assert!(told.contains("Wrote ./ipse-data/geo.ipse. A running server takes it by itself."), "{told}");
    assert!(!format!("{said}{told}").contains("secret_1"));
    assert_eq!(city(&snapshot).as_deref(), Some("Mountain View"));

    let before = fs::read(&snapshot).unwrap();
    let said = run(dir.path(), &arguments);
    assert!(said.starts_with("Already up to date: ./ipse-data/geo.ipse is version "), "{said}");
    assert_eq!(fs::read(&snapshot).unwrap(), before);
    assert_eq!(vendor.statuses(), [200, 200, 304, 304]);
    let said = run(dir.path(), &[&arguments[..], &["--force"]].concat());
    assert!(said.starts_with("Version  ") && !said.contains("before none"), "{said}");

    let before = fs::read(&snapshot).unwrap();
    vendor.put("/city.csv", LITTLE);
    let error = fail(dir.path(), &arguments, 1);
    assert!(error.contains("the new data knows country of 0.00 % of IPv4"), "{error}");
    vendor.files.lock().unwrap().clear();
    let error = fail(dir.path(), &arguments, 1);
    assert!(error.contains("the vendor has no such file") && !error.contains("secret_1"), "{error}");
    assert_eq!(fs::read(&snapshot).unwrap(), before, "a failure changes nothing");
}

#[test]
fn a_licence_key_is_shown_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let source = "city:https://me:secret_2@a.example/city.mmdb?token=secret_3";
    let output = ipse(dir.path(), &["config", "show", "--maxmind-key", "secret_1", "--geo-source", source])
        .env("IPSE_MAXMIND_ACCOUNT", "42")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(shown.contains("(hidden)") && shown.contains("city:https://a.example/city.mmdb?…"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");

    let key = dir.path().join("key");
    fs::write(&key, "secret key\n").unwrap();
    let arguments = ["--maxmind-account", "42", "--maxmind-key-file", key.to_str().unwrap()];
    let update = [&["data", "update", "--geo-source", "city:maxmind:GeoLite2-City"], &arguments[..]].concat();
    let serve = [&["serve", "--geo-update-hours", "24"], &arguments[..]].concat();
    let check = [&["config", "check", "--geo-update-hours", "24"], &arguments[..]].concat();
    for arguments in [update, serve, check] {
        let error = fail(dir.path(), &arguments, 1);
        assert!(error.ends_with("there must be the licence key in it and nothing else\n"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert!(!dir.path().join("ipse-data").exists(), "nothing is made before it is known to work");
}

/// Waits until something is so.
#[track_caller]
fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        // waits for: the server's timer, which announces nothing to the outside
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to be");
}

#[test]
fn a_server_updates_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let vendor = Vendor::new(&[("/city.csv", CITY)]);
    let settings = [
        ("listen", "127.0.0.1:0"),
        ("admin_listen", "none"),
        ("data_dir", data_dir.to_str().unwrap()),
        ("geo_source", &format!("city:{}", vendor.url("/city.csv"))),
        ("geo_update_hours", "24"),
    ];
    let mut config = Config::from_settings(&settings).unwrap();
    let soon = Duration::from_millis(20);
    config.geo_updates.rhythm =
        Some(Rhythm { every: soon, after_failure: soon, first_within: Duration::ZERO });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (clock, _hand) = Clock::standing_at(NOON);
    let geo = Geo::of(Atlas::empty(), &config);
    let server = runtime
        .block_on(Server::start(config, clock, Handed::default(), std::future::ready(Ok(geo))))
        .unwrap();
    let address = server.addresses()[0];
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or_default() };
    let running = runtime.spawn(server.run(stopped, std::future::pending()));

    let snapshot = data_dir.join("geo.ipse");
    wait_for(|| city(&snapshot).as_deref() == Some("Mountain View"));
    // A vendor that is gone for a while is asked again, and the old data stays.
    vendor.files.lock().unwrap().clear();
    wait_for(|| vendor.statuses().iter().filter(|status| **status == 404).count() >= 2);
    assert_eq!(city(&snapshot).as_deref(), Some("Mountain View"));
    vendor.put("/city.csv", NEWER_CITY);
    wait_for(|| city(&snapshot).as_deref() == Some("Palo Alto"));
    let mut connection = ipse_testkit::Connection::open(address).unwrap();
    assert_eq!(json(&connection.get("/api/v1/ip/demo", None).unwrap())["status"], "success");

    drop(stop);
    runtime.block_on(running).unwrap().unwrap();
}
