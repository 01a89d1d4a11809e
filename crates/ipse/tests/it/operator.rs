//! The operator's listener: what it tells, to whom, and what it never tells.

use crate::{House, NOON, Plan, TestKey, geo};
use ipse::{Config, Geo, Server};
use ipse_edge::{Clock, Handed};
use ipse_geo::Atlas;
use ipse_model::Scope;
use ipse_testkit::{Connection, Response};
use std::net::TcpListener;
use std::time::Duration;

/// A server with a key and a listener for its operator.
pub(crate) fn overseen(settings: &[(&str, &str)]) -> (House, TestKey) {
    let settings = [&[("admin_listen", "127.0.0.1:0")], settings].concat();
    let plan = Plan { settings: &settings, keys: &[(Scope::Full, None)], ..Plan::default() };
    let (house, mut keys) = House::build(plan);
    (house, keys.remove(0))
}

impl House {
    /// One request to the operator's listener.
    fn oversee(&self, path: &str, headers: &[&str]) -> Response {
        let mut connection = Connection::open(self.operator.unwrap()).unwrap();
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        connection.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap();
        connection.receive().unwrap()
    }

    pub(crate) fn metrics(&self) -> String {
        let response = self.oversee("/metrics", &["host: localhost"]);
        assert_eq!(response.status, 200);
        response.body
    }
}

#[track_caller]
pub(crate) fn check_lines(metrics: &str, lines: &[&str]) {
    for line in lines {
        assert!(metrics.lines().any(|found| found == *line), "{line} is missing in {metrics}");
    }
}

#[test]
fn what_was_asked_is_counted_by_what_became_of_it() {
    let (house, key) = overseen(&[]);
    for _ in 0..3 {
        assert_eq!(house.get("/api/v1/ip", Some(&key)).status, 200);
    }
    house.get("/api/v1/ip", None);
    house.get("/api/v1/ip?key=nonsense", None);
    house.get("/api/v1/ip/demo", None);
    house.get("/api/v1/meta", None);
    house.get("/openapi.json", None);
    house.get("/api/nowhere", None);
    house.get("/docs", None);
    house.get("/nowhere", None);
    house.send("OPTIONS", "/api/v1/ip", &[]);
    house.send("POST", "/api/v1/ip/demo", &[]);
    let mut rubbish = house.connect();
    rubbish.send(b"rubbish\r\n\r\n").unwrap();
    assert_eq!(rubbish.receive().unwrap().status, 400);
    check_lines(
        &house.metrics(),
        &[
            "ipse_build_info{version=\"0.1.0\"} 1.0",
            "ipse_ready 1.0",
            "ipse_degraded 0.0",
            "ipse_requests_total{route=\"ip\",outcome=\"answered\",protocol=\"HTTP/1.1\"} 3",
            "ipse_requests_total{route=\"ip\",outcome=\"answered\",protocol=\"HTTP/2\"} 0",
            "ipse_requests_total{route=\"ip\",outcome=\"missing_key\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"ip\",outcome=\"invalid_key\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"ip\",outcome=\"preflight\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"demo\",outcome=\"answered\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"demo\",outcome=\"method_not_allowed\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"meta\",outcome=\"answered\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"openapi\",outcome=\"answered\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"unknown\",outcome=\"not_found\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"page\",outcome=\"answered\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"page\",outcome=\"refused\",protocol=\"HTTP/1.1\"} 1",
            "ipse_request_duration_seconds_count{route=\"ip\"} 6",
            // The clock stands still.
            "ipse_request_duration_seconds_bucket{le=\"0.00001\",route=\"ip\"} 6",
            "ipse_request_duration_seconds_bucket{le=\"+Inf\",route=\"ip\"} 6",
            "ipse_faults_total{fault=\"bad_request\"} 1",
            "ipse_charges_total{subject=\"key\",outcome=\"granted\"} 3",
            "ipse_charges_total{subject=\"demo\",outcome=\"granted\"} 1",
            "ipse_pauses_total 0",
            "ipse_keys 1.0",
            "ipse_counters_info{engine=\"ledger\",outage_policy=\"none\"} 1.0",
            "ipse_counters_away 0.0",
            "ipse_connections_accepted_total{way=\"clear\"} 14",
            "ipse_connections_limit 10000.0",
            "process_start_time_seconds 1794744000.0",
        ],
    );
}

#[test]
fn a_burst_a_used_up_day_and_a_switched_off_key_are_told_apart() {
    let settings = [("admin_listen", "127.0.0.1:0")];
    let keys = [(Scope::Ip, None), (Scope::Ip, Some(2)), (Scope::Ip, None)];
    let (house, keys) = House::build(Plan { settings: &settings, keys: &keys, ..Plan::default() });
    let mut connection = house.connect();
    let mut ask = |key: &TestKey| connection.get("/api/v1/ip", Some(&key.text)).unwrap().status;
    let burst: Vec<u16> = (0..303).map(|_| ask(&keys[0])).collect();
    assert_eq!(burst[299..], [200, 429, 429, 429]);
    assert_eq!([ask(&keys[1]), ask(&keys[1]), ask(&keys[1])], [200, 200, 429]);
    let off = keys[2].clone();
    house.change(
        async |records| records.set_active(off.id, false).await.unwrap(),
        || house.get("/api/v1/ip", Some(&off)).status == 403,
    );
    let metrics = house.metrics();
    check_lines(
        &metrics,
        &[
            "ipse_requests_total{route=\"ip\",outcome=\"burst_exceeded\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"ip\",outcome=\"paused\",protocol=\"HTTP/1.1\"} 2",
            "ipse_requests_total{route=\"ip\",outcome=\"day_used_up\",protocol=\"HTTP/1.1\"} 1",
            "ipse_requests_total{route=\"ip\",outcome=\"inactive_key\",protocol=\"HTTP/1.1\"} 1",
            "ipse_charges_total{subject=\"key\",outcome=\"burst_exceeded\"} 1",
            "ipse_charges_total{subject=\"key\",outcome=\"day_used_up\"} 1",
            "ipse_pauses_total 1",
            "ipse_keys 3.0",
        ],
    );
}

#[test]
fn nothing_of_a_caller_is_in_any_number_or_page() {
    let (house, key) = overseen(&[("tls_listen", "127.0.0.1:0"), ("tls_self_signed", "yes")]);
    for path in [
        format!("/api/v1/ip?key={}&canary-query", key.text),
        "/api/v1/ip/demo?canary-query".to_owned(),
        "/canary-path?canary-query".to_owned(),
        "/api/canary-path".to_owned(),
    ] {
        house.send("GET", &path, &["x-forwarded-for: 203.0.113.217", "user-agent: canary-agent"]);
    }
    house.send("CANARY", "/canary-path", &["canary-header: canary"]);
    let owner = "owner@example.com";
    for path in ["/metrics", "/", "/?still", "/readyz", "/healthz"] {
        let told = house.oversee(path, &["host: localhost", "accept: text/html"]).body;
        for secret in ["203.0.113.217", key.text.as_str(), "canary", "CANARY", owner] {
            assert!(!told.contains(secret), "{secret} in {path}: {told}");
        }
        let four = &key.text[key.text.len() - 4..];
        assert!(path == "/" || path == "/?still" || !told.contains(four), "{four} in {path}: {told}");
    }
}

#[test]
fn a_name_that_a_stranger_could_bend_is_not_answered() {
    let (house, _) = overseen(&[("admin_host", "ipse-1.internal")]);
    let style = "/assets/style.css";
    for path in ["/", "/metrics", "/doctor", style, "/nowhere"] {
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"] {
            let response = house.oversee(path, &[&format!("host: {host}")]);
            assert_eq!(response.status, 421, "{path} {host}");
            assert!(response.body.contains("--admin-host") && response.body.len() < 200, "{}", response.body);
        }
        for host in ["localhost:1", "127.0.0.1", "[::1]:9464", "ipse-1.internal:9464"] {
            let response = house.oversee(path, &[&format!("host: {host}")]);
            assert_eq!(response.status, if path == "/nowhere" { 404 } else { 200 }, "{path} {host}");
            // No page of another origin reads it.
            assert_eq!(response.header("access-control-allow-origin"), None, "{path}");
            if path != style {
                assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
                assert_eq!(response.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
            }
        }
    }
    // A balancer asks by whatever name it has.
    for (path, body) in [("/healthz", "alive\n"), ("/readyz", "ready\n")] {
        let response = house.oversee(path, &["host: evil.example"]);
        assert_eq!((response.status, response.body.as_str()), (200, body));
    }
    let mut connection = Connection::open(house.operator.unwrap()).unwrap();
    connection.send(b"POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").unwrap();
    let response = connection.receive().unwrap();
    assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    let (house, _) = overseen(&[]);
    let form = |accept: &str| {
        let response = house.oversee("/metrics", &["host: localhost", &format!("accept: {accept}")]);
        let type_of_counter =
            response.body.lines().find(|line| line.ends_with(" counter")).unwrap().to_owned();
        (
            response.header("content-type").unwrap().to_owned(),
            type_of_counter,
            response.body.ends_with("# EOF\n"),
        )
    };
    let plain = ("text/plain; version=0.0.4; charset=utf-8", "# TYPE ipse_requests_total counter", false);
    assert_eq!(form("*/*"), (plain.0.to_owned(), plain.1.to_owned(), plain.2));
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5";
    let open =
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", "# TYPE ipse_requests counter", true);
    assert_eq!(form(prometheus), (open.0.to_owned(), open.1.to_owned(), open.2));
}

#[test]
fn a_node_that_cannot_charge_is_not_ready_and_says_so() {
    let (house, key) = overseen(&[]);
    let mut connection = house.connect();
    for _ in 0..300 {
        assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
    }
    house.runtime.block_on(house.records.close());
    // One may need what others do not; of five in a row the next one is like them.
    for asked in 1..=5 {
        assert_eq!(house.oversee("/readyz", &["host: x"]).status, 200, "before {asked}");
        assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 500);
    }
    let response = house.oversee("/readyz", &["host: x"]);
    assert_eq!(response.status, 503);
    assert!(response.body.starts_with("not ready\nmissing: Lookups cannot be charged"), "{}", response.body);
    let alive = house.oversee("/healthz", &["host: x"]);
    assert_eq!((alive.status, alive.body.as_str()), (200, "alive\n"), "a restart would help nobody");
    check_lines(
        &house.metrics(),
        &["ipse_ready 0.0", "ipse_charges_total{subject=\"key\",outcome=\"error\"} 5"],
    );
    let page = house.oversee("/", &["host: localhost"]).body;
    assert!(page.contains("It is not ready.") && page.contains("Lookups cannot be charged"), "{page}");
    // The records are gone for whoever reads changes of keys as well, which makes nothing less ready.
    wait(|| house.metrics().contains("ipse_chore_failing{chore=\"keys\"} 1.0"));
    // If nobody asks for a while it is ready again: a balancer that sends nobody must not keep it out for ever.
    house.hand.advance_ms(9_999);
    assert_eq!(house.oversee("/readyz", &["host: x"]).status, 503);
    house.hand.advance_ms(1);
    assert_eq!(house.oversee("/readyz", &["host: x"]).status, 200);
    assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 500);
    assert_eq!(house.oversee("/readyz", &["host: x"]).status, 503);
    // A minute later the window is empty, no pause is to be written, and the journal takes the count.
    house.hand.advance_ms(60_000);
    assert_eq!(house.connect().get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
    let response = house.oversee("/readyz", &["host: x"]);
    assert_eq!(response.status, 200);
    assert!(
        response.body.starts_with("ready\ndegraded: Changes of keys cannot be read"),
        "{}",
        response.body
    );
}

#[test]
fn a_node_that_stops_is_alive_and_not_ready_until_it_is_gone() {
    let (mut house, _) = overseen(&[]);
    // Somebody is in the middle of sending a form, which is waited for.
    let mut busy = house.connect();
    let head = format!("POST /signin HTTP/1.1\r\nhost: x\r\norigin: {}\r\n", house.base_url);
    let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 4\r\n\r\na=";
    busy.send(format!("{head}{form}").as_bytes()).unwrap();
    // The server has the request once it counts the connection that came behind it.
    assert_eq!(house.get("/docs", None).status, 200);
    drop(house.stop.take());
    wait(|| house.oversee("/readyz", &["host: x"]).status == 503);
    let told = house.oversee("/readyz", &["host: x"]).body;
    assert!(told.contains("missing: The server is stopping"), "{told}");
    assert_eq!(house.oversee("/healthz", &["host: x"]).status, 200);
    busy.send(b"b1").unwrap();
    busy.receive().unwrap();
    drop(busy);
    house.end();
    assert!(Connection::open(house.operator.unwrap()).is_err());
}

/// Waits for something that happens beside the test.
pub(crate) fn wait(happened: impl Fn() -> bool) {
    for _ in 0..1000 {
        if happened() {
            return;
        }
        // waits for: a task of the server's, which nobody announces
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never happened");
}

#[test]
fn the_doctor_needs_no_link_there() {
    let (house, _) = overseen(&[("trusted_proxy", "127.0.0.1")]);
    let headers = ["host: localhost:9464", "x-forwarded-for: 6.6.6.6, 81.2.69.142"];
    let text = house.oversee("/doctor", &headers).body;
    assert!(text.starts_with("The caller is 81.2.69.142\n"), "{text}");
    let page = house.oversee("/doctor", &[headers[0], headers[1], "accept: text/html"]).body;
    assert!(page.contains("<p class=\"address\">81.2.69.142</p>"), "{page}");
    assert!(page.contains("http://localhost:9464/doctor</code>") && !page.contains("ten minutes"), "{page}");
    assert_eq!(house.get("/doctor", None).status, 404, "the public doors know nothing of it");
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(house.get(path, None).status, 404, "{path}");
    }
}

#[test]
fn the_overview_shows_what_happened_and_follows_it() {
    let plan = Plan {
        settings: &[("admin_listen", "127.0.0.1:0")],
        keys: &[(Scope::Full, None)],
        atlas: geo::atlas(),
        ..Plan::default()
    };
    let (house, keys) = House::build(plan);
    house.get("/api/v1/ip", Some(&keys[0]));
    let page = house.oversee("/", &["host: localhost", "accept: text/html"]);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    for part in
        ["All is well.", "<code>ip</code>", "<code>ledger</code>", "http-equiv=\"refresh\"", "overview.js"]
    {
        assert!(page.body.contains(part), "{part} is missing in {}", page.body);
    }
    let still = house.oversee("/?still", &["host: localhost"]).body;
    assert!(!still.contains("http-equiv") && !still.contains("overview.js"), "{still}");
}

#[test]
fn a_listener_that_nobody_asked_for_is_done_without_where_another_program_is() {
    // Whoever has the place, this test or another program of this machine: it is taken.
    let _taken = TcpListener::bind("127.0.0.1:9464");
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let start = |more: &[(&str, &str)]| {
        let settings =
            [&[("listen", "127.0.0.1:0"), ("data_dir", data_dir.to_str().unwrap())], more].concat();
        let config = Config::from_settings(&settings).unwrap();
        let geo = Geo::of(Atlas::empty(), &config);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (clock, _) = Clock::standing_at(NOON);
        let geo = std::future::ready(Ok(geo));
        let started = runtime.block_on(Server::start(config, clock, Handed::default(), geo));
        started.map(|server| (server.addresses().len(), server.operator_addresses().len()))
    };
    assert_eq!(start(&[]).unwrap(), (1, 0));
    let error = start(&[("admin_listen", "localhost:9464")]).unwrap_err().to_string();
    assert!(error.contains("9464 is in use") && error.contains("--admin-listen"), "{error}");
}

#[test]
fn others_than_this_machine_are_let_in_only_if_that_is_said() {
    let read = |settings: &[(&str, &str)]| Config::from_settings(settings).map_err(|error| error.to_string());
    for outside in ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464", "10.0.0.1:9464", "127.0.0.1:1,[::]:9464"] {
        let error = read(&[("admin_listen", outside)]).unwrap_err();
        assert!(error.contains("IPSE_ADMIN_LISTEN") && error.contains("admin_open"), "{error}");
        assert!(read(&[("admin_listen", outside), ("admin_open", "yes")]).is_ok(), "{outside}");
    }
    for inside in
        ["127.0.0.2:9464", "[::1]:9464", "[::ffff:127.0.0.1]:9464", "localhost:1", "unix:/run/x", "none"]
    {
        assert!(read(&[("admin_listen", inside)]).is_ok(), "{inside}");
    }
    assert!(read(&[("admin_listen", "none,localhost:1")]).is_err());
    assert!(read(&[("admin_host", "ipse-1.internal:9464")]).is_err());
}
