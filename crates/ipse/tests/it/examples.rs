//! The examples of the documentation: taken from the page, given a real key, and run as a reader would.
//!
//! What runs depends on the languages of the machine; the output says which. curl, Python, Node.js, a browser and
//! cargo are always there.

use crate::browser::{dump, serve_page};
use crate::{House, Plan, TestKey};
use ipse_geo::Atlas;
use ipse_model::{Place, Scope};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const ADDRESS: &str = "81.2.69.142";
/// The clock of the house stands at noon.
const SECONDS_UNTIL_MIDNIGHT: &str = "Retry-After: 43200 s";

/// A server that knows where its caller is, with a key that has answers left and one that has none.
struct Stage {
    house: House,
    good: TestKey,
    used_up: TestKey,
    docs: String,
    dir: TempDir,
}

impl Stage {
    fn set() -> Self {
        let place = Place { city: Some("London".into()), ..Place::default() };
        let (house, keys) = House::build(Plan {
            settings: &[("pretend_ip", ADDRESS)],
            keys: &[(Scope::Geo, None), (Scope::Geo, Some(1))],
            atlas: Atlas::of(&[ADDRESS.parse().unwrap()], Some(&place), None),
            ..Plan::default()
        });
        let [good, used_up] = keys.try_into().unwrap_or_else(|_| panic!("two keys"));
        assert_eq!(house.get("/api/v1/ip", Some(&used_up)).status, 200);
        let docs = house.get("/docs", None).body;
        Self { house, good, used_up, docs, dir: tempfile::tempdir().unwrap() }
    }

    /// The program as the page shows it, with a real key, in a file.
    fn program(&self, language: &str, key: &TestKey, file: &str) -> PathBuf {
        let path = self.dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, self.text(language, key)).unwrap();
        path
    }

    fn text(&self, language: &str, key: &TestKey) -> String {
        let begin = format!("aria-label=\"Example: {language}\"><code>");
        let shown = self.docs.split(&begin).nth(1).unwrap_or_else(|| panic!("no example for {language}"));
        let shown = shown.split("</code>").next().unwrap();
        let base_url = format!("http://{}", self.house.address);
        unescaped(shown).replace(&self.house.base_url, &base_url).replace("YOUR_KEY", &key.text)
    }

    /// Runs a program twice: it tells the answer, and it tells a refusal and when to come back.
    #[track_caller]
    fn check(&self, language: &str, file: &str, command: impl Fn(&Path) -> Command) {
        let output = run(command(&self.program(language, &self.good, file)));
        assert!(output.status.success(), "{language}: {output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        let (first, second) =
            told.trim_end().split_once('\n').unwrap_or_else(|| panic!("{language}: {told}"));
        assert_eq!(first.trim_end(), format!("{ADDRESS}, London"), "{language}");
        assert!(second.ends_with(" requests left today") && second.starts_with("99"), "{language}: {second}");

        let output = run(command(&self.program(language, &self.used_up, file)));
        assert!(!output.status.success(), "{language}: {output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("rate_limit_exceeded: The daily quota of 1 requests"), "{language}: {told}");
        assert!(told.contains(SECONDS_UNTIL_MIDNIGHT), "{language}: {told}");
        assert_eq!(output.stdout, b"", "{language}");
    }
}

/// Only what a page escapes.
fn unescaped(html: &str) -> String {
    let letters = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
    letters.iter().fold(html.to_owned(), |text, (escaped, letter)| text.replace(escaped, letter))
}

/// Runs without a proxy, which would not find this machine.
fn run(mut command: Command) -> Output {
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// A program of the machine, if it is there.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

#[expect(clippy::print_stderr, reason = "a test that depends on the machine says what it did")]
fn tell(language: &str, ran: bool) {
    eprintln!(
        "example in {language}: {}",
        if ran { "ran" } else { "not run, because it is not on this machine" }
    );
}

#[test]
fn curl_shows_the_answer_and_the_headers() {
    let stage = Stage::set();
    let shell = |key: &TestKey| {
        let mut command = Command::new("sh");
        command.arg(stage.program("curl", key, "example.sh"));
        String::from_utf8(run(command).stdout).unwrap().to_lowercase()
    };
    let told = shell(&stage.good);
    for part in ["http/1.1 200 ok", "x-ratelimit-remaining: 9999", &format!("\"ip\":\"{ADDRESS}\"")] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    let told = shell(&stage.used_up);
    for part in ["http/1.1 429 too many requests", "retry-after: 43200", "rate_limit_exceeded"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    tell("curl", true);
}

#[test]
fn python_and_node_tell_answers_and_refusals() {
    let stage = Stage::set();
    let python = std::env::var_os("XTASK_PYTHON").unwrap_or_else(|| OsString::from("python3"));
    stage.check("Python", "example.py", |file| {
        let mut command = Command::new(&python);
        command.arg(file);
        command
    });
    tell("Python", true);
    stage.check("Node.js", "example.mjs", |file| {
        let mut command = Command::new("node");
        command.arg(file);
        command
    });
    tell("Node.js", true);
}

#[test]
fn a_page_of_another_origin_tells_answers_and_refusals() {
    let stage = Stage::set();
    let document = dump(&serve_page(stage.text("Browser", &stage.good)));
    assert!(document.contains(&format!("<p id=\"where\">{ADDRESS}, London</p>")), "{document}");
    let document = dump(&serve_page(stage.text("Browser", &stage.used_up)));
    assert!(document.contains("<p id=\"where\">The daily quota of 1 requests is used up."), "{document}");
    assert!(document.contains(&format!("({SECONDS_UNTIL_MIDNIGHT})</p>")), "{document}");
    tell("a browser", true);
}

#[test]
fn rust_is_built_and_tells_answers_and_refusals() {
    let stage = Stage::set();
    // What it needs is in the workspace's own lock file, and so at hand without a network.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = "[package]\nname = \"example\"\nedition = \"2024\"\n\n[dependencies]\nserde_json = \"1\"\n\
                    ureq = { version = \"3\", default-features = false, features = [\"json\"] }\n\n[workspace]\n";
    fs::write(stage.dir.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(root.join("Cargo.lock"), stage.dir.path().join("Cargo.lock")).unwrap();
    stage.check("Rust", "src/main.rs", |_| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--offline", "--target-dir"]);
        // Crates that were built once are not built again.
        command.arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples"));
        command.current_dir(stage.dir.path()).env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
        command
    });
    tell("Rust", true);
}

#[test]
fn go_and_php_tell_answers_and_refusals_where_they_are() {
    let stage = Stage::set();
    let go = find("go");
    if let Some(go) = &go {
        stage.check("Go", "example.go", |file| {
            let mut command = Command::new(go);
            // What was built once is not built again.
            command.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
            command.arg("run").arg(file).current_dir(stage.dir.path());
            command
        });
    }
    tell("Go", go.is_some());
    let php = find("php");
    if let Some(php) = &php {
        stage.check("PHP", "example.php", |file| {
            let mut command = Command::new(php);
            command.arg(file);
            command
        });
    }
    tell("PHP", php.is_some());
}

#[test]
fn the_scripts_of_the_page_may_call_this_server_alone_and_keep_nothing() {
    let (house, _) = House::build(Plan::default());
    let page = house.get("/docs", None);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self';") && policy.contains("connect-src 'self';"), "{policy}");
    let script = house.get("/assets/docs.js", None);
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    for way in ["localStorage", "sessionStorage", "indexedDB", "cookie", "location", "history", "?key="] {
        assert!(!script.body.contains(way), "{way}");
    }
    let description = crate::json(&house.get("/openapi.json", None));
    let version = description["info"]["version"].as_str().unwrap();
    assert!(
        page.body.contains(&format!("<h3>Interface {version}</h3>")),
        "the changelog begins with what is served"
    );
}
