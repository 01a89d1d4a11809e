//! Geo data: what is inside the program, what an operator builds, and how a running server takes it.

use crate::commands::{fail, ipse, run};
use crate::{House, Plan, check_error, check_every_response, json};
use ipse_testkit::{Connection, Response, Server};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Writes a vendor's files and builds a snapshot of them; `city` tells two snapshots apart.
fn build(folder: &Path, city: &str, output: &str) -> String {
    let cities = format!(
        "81.2.69.0,81.2.69.255,GB,England,,{city},EC2V,51.5142,-0.0931,\n\
         84.0.0.0,84.0.0.255,DE,Bavaria,,Munich,,48.1374,11.5755,\n\
         2a00::,2a00::ffff,IT,Lombardy,,Milan,,45.4642,9.19,\n"
    );
    fs::write(folder.join("dbip-city.csv"), cities).unwrap();
    let networks =
        "81.2.69.0,81.2.69.255,20712,Andrews & Arnold Ltd\n84.0.0.0,84.0.0.255,16509,\"Amazon.com, Inc.\"\n";
    fs::write(folder.join("asn.csv"), networks).unwrap();
    run(folder, &["data", "build", "--city", "dbip-city.csv", "--asn", "asn.csv", "-o", output])
}

fn lookup(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(folder, &[&["data", "lookup"], arguments].concat())).unwrap()
}

fn demo(address: std::net::SocketAddr) -> Response {
    let mut connection = Connection::open(address).unwrap();
    let request = "GET /api/v1/ip/demo HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 81.2.69.142\r\n\r\n";
    connection.send(request.as_bytes()).unwrap();
    connection.receive().unwrap()
}

#[test]
fn the_program_knows_places_and_networks_without_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ipse(dir.path(), &["serve"]), &dir.path().join("ipse-data")).unwrap();
    let body = json(&demo(server.address));
    for (field, expected) in [
        ("city", "London"),
        ("region", "England"),
        ("region_code", "GB-ENG"),
        ("country", "GB"),
        ("country_name", "United Kingdom"),
        ("continent", "EU"),
        ("timezone", "Europe/London"),
        ("currency", "GBP"),
        ("org", "Andrews & Arnold Ltd"),
        ("as", "AS20712 Andrews & Arnold Ltd"),
    ] {
        assert_eq!(body[field], expected);
    }
    assert_eq!((&body["asn"], &body["is_eu"]), (&20_712.into(), &false.into()));
    assert!(body["latitude"].as_f64().is_some_and(|latitude| (51.0..52.0).contains(&latitude)));
    assert!(matches!(body["timezone_offset"].as_i64(), Some(0 | 3600)));
    let (_, output) = server.stop("TERM").unwrap();
    assert!(output.contains("inside the program"), "{output}");
    let six = lookup(dir.path(), &["2001:4860:4860::8888"]);
    assert!(six["country"].is_string() && six["asn"].is_number(), "{six}");
}

#[test]
fn a_snapshot_is_built_looked_into_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let report = build(dir.path(), "London", "one.ipse");
    for part in
        ["dbip-city.csv", "region_code where region is known", "by another name of the region", "asn.csv"]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    let found = lookup(dir.path(), &["--file", "one.ipse", "--explain", "84.0.0.7", "2a00::1", "10.0.0.1"]);
    let munich = &found[0];
    assert_eq!((&munich["city"], &munich["region_code"]), (&"Munich".into(), &"DE-BY".into()));
    assert_eq!((&munich["is_eu"], &munich["currency"]), (&true.into(), &"EUR".into()));
    assert_eq!((&munich["hosting"], &munich["proxy"]), (&true.into(), &false.into()));
    assert_eq!(munich["timezone"], "Europe/Berlin");
    assert!(munich["explain"]["hosting"].as_str().is_some_and(|why| why.contains("list")), "{munich}");
    assert!(munich["explain"]["region_code"].as_str().is_some_and(|why| why.contains("another name")));
    assert_eq!((&found[1]["region_code"], &found[1]["asn"]), (&"IT-25".into(), &Value::Null));
    assert_eq!((&found[1]["proxy"], &found[1]["hosting"]), (&Value::Null, &Value::Null));
    assert!(found[2]["explain"]["note"].as_str().is_some_and(|note| note.contains("private")));
    let info: Value =
        serde_json::from_str(&run(dir.path(), &["data", "info", "--json", "--file", "one.ipse"])).unwrap();
    assert_eq!(info["sources"][0]["file"], "dbip-city.csv");
    assert!(run(dir.path(), &["data", "info", "--file", "one.ipse"]).contains("days old"));
    assert!(run(dir.path(), &["data", "verify", "one.ipse"]).contains("is whole"));
}

#[test]
fn an_operators_file_flags_and_spares_networks() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "one.ipse");
    fs::write(dir.path().join("own.txt"), "allow AS16509\ndeny 20712 proxy our own finding\n").unwrap();
    let sources = ["data", "build", "--city", "dbip-city.csv", "--asn", "asn.csv"];
    run(dir.path(), &[&sources[..], &["--flags", "own.txt", "-o", "two.ipse"]].concat());
    let found = lookup(dir.path(), &["--file", "two.ipse", "--explain", "84.0.0.7", "81.2.69.142"]);
    assert_eq!((&found[0]["hosting"], &found[1]["proxy"]), (&false.into(), &true.into()));
    assert_eq!(found[1]["explain"]["proxy"], "own.txt, line 2: our own finding");
    fs::write(dir.path().join("own.txt"), "deny AS16509\n").unwrap();
    let said = fail(dir.path(), &[&sources[..], &["--flags", "own.txt", "-o", "two.ipse"]].concat(), 1);
    assert!(said.contains("own.txt, line 1") && said.contains("hosting"), "{said}");
}

#[test]
fn the_same_sources_on_the_same_day_make_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "any.ipse");
    for output in ["one.ipse", "two.ipse"] {
        let date = ["--date", "2026-06-17", "-o", output];
        let sources = ["data", "build", "--city", "dbip-city.csv", "--asn", "asn.csv"];
        run(dir.path(), &[&sources[..], &date[..]].concat());
    }
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("one.ipse"), read("two.ipse"));
}

#[test]
fn what_changed_between_two_snapshots_is_told() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "one.ipse");
    build(dir.path(), "Lambeth", "two.ipse");
    let same = run(dir.path(), &["data", "diff", "one.ipse", "one.ipse"]);
    assert!(same.contains("same place and network"), "{same}");
    let changed = run(dir.path(), &["data", "diff", "one.ipse", "two.ipse"]);
    let city = changed.lines().find(|line| line.starts_with("city")).unwrap();
    assert_eq!(city.split_whitespace().collect::<Vec<_>>(), ["city", "256", "0", "0", "0"]);
    assert!(changed.contains("London") && changed.contains("Lambeth"), "{changed}");
}

#[test]
fn a_file_that_cannot_be_used_is_told_what_is_wrong_with_it() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "good.ipse");
    let good = fs::read(dir.path().join("good.ipse")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("cut.ipse", &good[..good.len() / 2]);
    write("foreign.ipse", b"\x89PNG and so on");
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    write("damaged.ipse", &damaged);
    for (file, sentence) in [
        ("cut.ipse", "it was cut off"),
        ("foreign.ipse", "no snapshot of ipse"),
        ("damaged.ipse", "checksum"),
        ("missing.ipse", "No such file"),
    ] {
        for arguments in [
            &["data", "verify", file][..],
            &["data", "info", "--file", file],
            &["data", "lookup", "--file", file, "8.8.8.8"],
            &["data", "diff", file, "good.ipse"],
            &["data", "diff", "good.ipse", file],
            &["serve", "--geo-data", file],
        ] {
            let said = fail(dir.path(), arguments, 1);
            assert!(said.contains(file) && said.contains(sentence), "{arguments:?}: {said}");
        }
    }
    let said = fail(dir.path(), &["data", "build", "--city", "foreign.ipse", "-o", "new.ipse"], 1);
    assert!(said.contains("foreign.ipse") && !dir.path().join("new.ipse").exists(), "{said}");
    let said = fail(dir.path(), &["data", "build", "-o", "new.ipse"], 1);
    assert!(said.contains("--city"), "{said}");
}

/// Waits until the server answers with this city.
#[track_caller]
fn wait_for_city(server: &Server, city: &str) {
    for _ in 0..500 {
        let answer = demo(server.address);
        assert_eq!(answer.status, 200, "no request fails meanwhile");
        if json(&answer)["city"] == city {
            return;
        }
        // waits for: the server to look at the file, which it does each second
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the server never served {city}");
}

/// Waits until the server has said this.
#[track_caller]
fn wait_for_log(log: &Path, part: &str) {
    for _ in 0..500 {
        if fs::read_to_string(log).unwrap().contains(part) {
            return;
        }
        // waits for: the server to look at the file, which it does each second
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the server never said {part:?}");
}

#[test]
fn a_running_server_takes_new_data_and_keeps_the_old_when_the_new_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "served.ipse");
    let mut command = ipse(dir.path(), &["serve", "--geo-data", "served.ipse"]);
    command.stderr(fs::File::create(dir.path().join("log")).unwrap());
    let server = Server::start(command, &dir.path().join("data")).unwrap();
    wait_for_city(&server, "London");
    // The command writes beside the file and moves it there.
    build(dir.path(), "Lambeth", "served.ipse");
    wait_for_city(&server, "Lambeth");
    let good = fs::read(dir.path().join("served.ipse")).unwrap();
    fs::write(dir.path().join("served.ipse"), &good[..good.len() - 7]).unwrap();
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &pid]).status().unwrap().success());
    wait_for_log(&dir.path().join("log"), "it was cut off, or something was added");
    assert_eq!(json(&demo(server.address))["city"], "Lambeth", "the old data is served on");
    fs::remove_file(dir.path().join("served.ipse")).unwrap();
    build(dir.path(), "London", "served.ipse");
    wait_for_city(&server, "London");
    let (code, output) = server.stop("TERM").unwrap();
    assert_eq!(code, Some(0), "{output}");
}

#[test]
fn the_data_folders_own_snapshot_takes_the_place_of_the_built_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("ipse-data");
    let server = Server::start(ipse(dir.path(), &["serve"]), &data_dir).unwrap();
    build(dir.path(), "Lambeth", "ipse-data/geo.ipse");
    wait_for_city(&server, "Lambeth");
    server.stop("TERM").unwrap();
    assert_eq!(lookup(dir.path(), &["81.2.69.142"])["city"], "Lambeth");
    // A damaged one does not keep the server from starting.
    fs::write(data_dir.join("geo.ipse"), "damaged").unwrap();
    let server = Server::start(ipse(dir.path(), &["serve"]), &data_dir).unwrap();
    wait_for_city(&server, "London");
}

#[test]
fn the_data_behind_the_answers_is_told_to_anybody_and_charged_to_nobody() {
    let (house, key) = House::with_key();
    let before = house.get("/api/v1/ip", Some(&key)).number("x-ratelimit-remaining").unwrap();
    for _ in 0..3 {
        let meta = house.get("/api/v1/meta", Some(&key));
        assert_eq!(meta.status, 200);
        check_every_response(&meta);
        assert_eq!(meta.header("x-ratelimit-limit"), None);
    }
    let after = house.get("/api/v1/ip", Some(&key)).number("x-ratelimit-remaining").unwrap();
    assert_eq!(before - 1, after);
    assert_eq!(house.send("OPTIONS", "/api/v1/meta", &[]).status, 204);
    check_error(&house.send("POST", "/api/v1/meta", &[]), 405, "method_not_allowed");

    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), "London", "one.ipse");
    let atlas = ipse_geo::Atlas::read(&fs::read(dir.path().join("one.ipse")).unwrap()).unwrap();
    let version = ipse_geo::short_version(atlas.version()).to_owned();
    let (house, _) = House::build(Plan { atlas, ..Plan::default() });
    let meta = json(&house.get("/api/v1/meta", None));
    assert_eq!((&meta["status"], &meta["version"]), (&"success".into(), &version.into()));
    assert!(meta["built"].as_str().is_some_and(|built| built.ends_with('Z')), "{meta}");
    assert_eq!(meta["sources"][0]["kind"], "city");
    assert_eq!(meta["sources"][1]["kind"], "asn");
}

#[test]
fn the_front_page_names_the_sources_of_its_data_with_links() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(ipse(dir.path(), &["serve"]), &dir.path().join("ipse-data")).unwrap();
    let page = Connection::open(server.address).unwrap().get("/", None).unwrap();
    assert!(page.body.contains("<a href=\"https://db-ip.com\">IP Geolocation by DB-IP</a>"), "{}", page.body);
    assert!(page.body.contains("<a href=\"https://www.routeviews.org\">"), "{}", page.body);
}
