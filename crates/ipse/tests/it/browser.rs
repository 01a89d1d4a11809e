//! A real browser: pages as it draws them, and the API as a page of another origin calls it.

use crate::{House, Plan};
use ipse_model::Scope;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

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
