//! A real browser: pages as it draws them, and the API as a page of another origin calls it.

use crate::accounts::code;
use crate::scene::Scene;
use crate::weight::MOST_SHIFT;
use crate::{House, Plan};
use ipse_model::Scope;
use ipse_testkit::Flow;
use serde::Deserialize;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// How one visit of one page went, as `flows/visits.mjs` tells it.
#[derive(Deserialize)]
pub(crate) struct PageVisit {
    /// The page, the width and the theme.
    pub(crate) visit: String,
    status: u16,
    expected_status: u16,
    title: String,
    pub(crate) requests: Vec<PageRequest>,
    /// By how much things jumped while it was loaded: the sum of all layout shifts.
    pub(crate) shifted: f64,
    pub(crate) shifted_what: Vec<String>,
    /// What makes it wider than its window.
    pub(crate) sideways: Vec<String>,
    /// What axe finds wrong.
    pub(crate) violations: Vec<String>,
    pub(crate) keyboard: Keyboard,
    complaints: Vec<String>,
}

/// Something that was loaded for a page, the page itself included.
#[derive(Deserialize)]
pub(crate) struct PageRequest {
    pub(crate) url: String,
    /// As they came over the wire, with the headers.
    pub(crate) bytes: f64,
}

/// How a page is for whoever has only the key Tab.
#[derive(Deserialize)]
pub(crate) struct Keyboard {
    pub(crate) stops: u32,
    pub(crate) unreached: Vec<String>,
    pub(crate) unseen: Vec<String>,
}

/// Every page, in both themes and several widths. They are visited once, by one browser, for all tests that look at them.
static VISITS: LazyLock<Result<Vec<PageVisit>, String>> = LazyLock::new(|| {
    let scene = Scene::set();
    let host = |house: &House| house.base_url.trim_start_matches("http://").to_owned();
    let flow = flow(&scene.plain.base_url, "visits")
        .and_host(host(&scene.with_mail))
        .and_host(host(&scene.closed))
        .and_host(scene.plain.operator.unwrap().to_string());
    visits(&flow.given(scene.given.clone()).at_most(600), |secret| {
        // The code of this moment was used to switch it on.
        scene.plain.hand.advance_ms(60_000);
        code(secret, scene.plain.hand.now())
    })
});

/// Makes the visits, for which somebody tells what an app shows.
fn visits(flow: &Flow, code: impl Fn(&str) -> String) -> Result<Vec<PageVisit>, String> {
    let told = flow.run_with(|_, secret| Ok(code(secret.as_str().unwrap()).into()));
    let told = told.map_err(|error| format!("{error:#}"))?;
    told.into_iter().map(|visit| serde_json::from_value(visit).map_err(|error| error.to_string())).collect()
}

/// A flow of the folder `flows`, at a server.
pub(crate) fn flow(base_url: &str, name: &str) -> Flow {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/flows");
    Flow::new(folder.join(format!("{name}.mjs")), base_url)
}

/// Fails with all that is to be said against any visit.
#[track_caller]
pub(crate) fn check_visits(faults: impl Fn(&PageVisit) -> Vec<String>) {
    let visits = VISITS.as_ref().unwrap_or_else(|error| panic!("{error}"));
    assert!(!visits.is_empty(), "no page was visited");
    let told: Vec<String> = visits
        .iter()
        .flat_map(|visit| faults(visit).into_iter().map(|fault| format!("{}: {fault}", visit.visit)))
        .collect();
    assert!(told.is_empty(), "{} faults:\n{}", told.len(), told.join("\n"));
}

/// The document as Chromium has it after it loaded a page.
pub(crate) fn dump(url: &str) -> String {
    chromium(&[], url)
}

/// The same, with more arguments.
pub(crate) fn chromium(arguments: &[&str], url: &str) -> String {
    let chromium = std::env::var_os("XTASK_CHROMIUM")
        .expect("XTASK_CHROMIUM names a Chromium: run the tests with cargo xtask test");
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=15000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Serves one page on a port, and so on an origin, of its own.
pub(crate) fn serve_page(html: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                html.len()
            );
            let _ = stream.write_all(format!("{head}{html}").as_bytes());
        }
    });
    url
}

#[test]
fn a_page_of_another_origin_reads_answers_errors_and_rate_headers() {
    let (house, keys) = House::build(Plan { keys: &[(Scope::Full, None)], ..Plan::default() });
    let script = format!(
        r#"<!doctype html><pre id="out">nothing</pre><script>
        (async () => {{
          const base = "http://{address}", key = "{key}", lines = [];
          const tell = async (name, response) => lines.push(name, response.status,
            response.headers.get("X-RateLimit-Limit"), response.headers.get("X-RateLimit-Remaining"),
            response.headers.get("Retry-After"), JSON.stringify(await response.json()));
          try {{
            await tell("keyed", await fetch(base + "/api/v1/ip", {{ headers: {{ Authorization: "Bearer " + key }} }}));
            await tell("query", await fetch(base + "/api/v1/ip?scope=ip&key=" + key));
            await tell("demo", await fetch(base + "/api/v1/ip/demo"));
            await tell("missing", await fetch(base + "/api/v1/ip"));
          }} catch (error) {{ lines.push("failed: " + error); }}
          document.getElementById("out").textContent = lines.join("|") + "|done";
        }})();
        </script>"#,
        address = house.address,
        key = keys[0].text,
    );
    let document = dump(&serve_page(script));
    assert!(document.contains("|done"), "{document}");
    assert!(document.contains(r#"keyed|200|10000|9999||{"status":"success","ip":"127.0.0.1""#), "{document}");
    assert!(
        document.contains(r#"query|200|10000|9998||{"status":"success","ip":"127.0.0.1","ipv6":null}"#),
        "{document}"
    );
    assert!(document.contains("demo|200|1000|999||"), "{document}");
    assert!(document.contains(r#"missing|401||||{"error":"missing_api_key""#), "{document}");
}

#[test]
fn the_front_page_shows_a_visitor_where_they_are() {
    let (house, _) = House::build(Plan { settings: &[("pretend_ip", "81.2.69.142")], ..Plan::default() });
    let document = dump(&format!("http://{}/", house.address));
    assert!(document.contains("81.2.69.142") && document.contains("HTTP/1.1"), "{document}");
    let docs = dump(&format!("http://{}/docs#burst_limit", house.address));
    assert!(docs.contains("id=\"burst_limit\""));
}

#[test]
fn every_page_loads_without_a_complaint_of_the_browser() {
    check_visits(|visit| {
        let mut faults = visit.complaints.clone();
        if visit.status != visit.expected_status {
            faults.push(format!("the status {} instead of {}", visit.status, visit.expected_status));
        }
        if !visit.title.ends_with(" · ipse") {
            faults.push(format!("the title {:?}", visit.title));
        }
        faults
    });
}

/// Everything is wrong with it that the visits of our own pages are to find.
const BAD_PAGE: &str = r##"<!doctype html><title>Bad</title>
<meta http-equiv="content-security-policy" content="img-src http:">
<style>:focus { outline: none } div { width: 3000px } .later { height: 200px }</style>
<body><p style="color: #ddd; background: #fff">Nobody can read this.</p>
<a href="#a">one</a> <a href="#b" style="position: absolute; left: -999px">two</a>
<button onfocus="document.querySelector('a').focus()">trap</button> <button>behind it</button>
<img src="http://localhost:1/picture"><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><div>wide</div>
<script>
// One frame shows the page, and the next one moves it.
addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => {
  document.body.insertAdjacentHTML("afterbegin", "<p class=later>Late</p>");
})));
</script>"##;

#[test]
fn the_visits_find_whatever_is_wrong_with_a_page() {
    let base_url = serve_page(BAD_PAGE.to_owned());
    let given = serde_json::json!({ "pages": [{ "name": "bad", "path": "/" }] });
    let visits = visits(&flow(&base_url, "visits").given(given), |_| panic!("nobody signs in")).unwrap();
    assert_eq!(visits.len(), 5);
    let found = |faults: &[String], words: &str| {
        assert!(faults.iter().any(|fault| fault.contains(words)), "{words} is not in {faults:#?}");
    };
    for visit in &visits {
        assert!(visit.shifted > MOST_SHIFT, "{}: things jump by {}", visit.visit, visit.shifted);
        found(&visit.shifted_what, "Nobody can read this");
        found(&visit.sideways, "<div>wide</div>");
        found(&visit.complaints, "a request to another host: localhost:1");
        found(&visit.complaints, "Content Security Policy");
        assert!(visit.requests.iter().any(|request| request.url.contains("localhost:1")));
    }
    let of = |parts: &'static [&str]| {
        visits.iter().filter(|visit| parts.iter().any(|part| visit.visit.contains(part)))
    };
    for visit in of(&["320 px", "1280 px"]) {
        found(&visit.violations, "color-contrast");
    }
    for visit in of(&["320 px, light", "1280 px, light"]) {
        found(&visit.violations, "image-alt");
    }
    for visit in of(&["1280 px"]) {
        found(&visit.keyboard.unseen, "the focus is out of sight: <a href=\"#b\"");
        found(&visit.keyboard.unseen, "no ring of 2 px or more around the focus (none");
    }
    for visit in of(&["1280 px, light"]) {
        found(&visit.keyboard.unreached, "behind it");
    }
}

#[test]
fn a_flow_that_fails_says_where_and_why_with_a_picture() {
    let base_url = serve_page("<!doctype html><title>It</title><main>It is here.</main>".to_owned());
    let failing = flow(&base_url, "failing");
    let error = failing.run_with(|question, about| Ok(serde_json::json!([question, about]))).unwrap_err();
    let error = format!("{error:#}");
    let answered =
        "at the step “look”: “It is here.” is to be seen, and [\"a question\",{\"of\":1}] was answered";
    for part in [answered, "- open\n- look\n", "what can be read: It is here.", "a script threw: on purpose"]
    {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    let picture = error.split("a picture: ").nth(1).unwrap().lines().next().unwrap();
    assert!(std::fs::read(picture).unwrap().starts_with(b"\x89PNG"));
    let unanswered = format!("{:#}", failing.run().unwrap_err());
    assert!(unanswered.contains("the flow asks for `a question`, and nobody answers"), "{unanswered}");
}
