//! A real Prometheus: it collects the metrics, and answers whatever the dashboard and the alerts of `deploy` ask.

use crate::operator::{overseen, wait};
use crate::proxies::free_port;
use ipse_testkit::encode;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// Runs promtool, and says what it said.
#[track_caller]
fn promtool(arguments: &[&str], folder: &Path, input: Option<&str>) -> String {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(input) = input {
        let file = folder.join("input");
        fs::write(&file, input).unwrap();
        command.stdin(fs::File::open(file).unwrap());
    }
    let output = command.output().unwrap();
    let told =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {told}");
    told
}

/// A running Prometheus.
struct Prometheus {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Prometheus {
    /// One that collects from this target, with our alerts.
    fn start(target: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("prometheus.yml");
        let alerts = deploy("alerts.yml");
        fs::write(
            &config,
            format!(
                "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 500ms }}\n\
                 rule_files: ['{}']\n\
                 scrape_configs: [{{ job_name: ipse, static_configs: [{{ targets: ['{target}'] }}] }}]\n",
                alerts.display()
            ),
        )
        .unwrap();
        promtool(&["check", "config", config.to_str().unwrap()], folder.path(), None);
        let port = free_port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .spawn()
            .unwrap();
        Self { process, port, _folder: folder }
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let output =
            Command::new("curl").args(["-sS", "--noproxy", "*", &url]).stderr(Stdio::null()).output();
        serde_json::from_slice(&output.ok()?.stdout).ok()
    }

    /// How many rows an expression gives; an error in words if it cannot be asked.
    fn rows(&self, expression: &str) -> Result<usize, String> {
        let path = format!("/api/v1/query?{}", encode(&[("query", expression)]));
        let answer = self.ask(&path).ok_or("there is no answer")?;
        if answer["status"] == "success" {
            Ok(answer["data"]["result"].as_array().map_or(0, Vec::len))
        } else {
            Err(answer["error"].to_string())
        }
    }

    fn wait(&self, what: &str, happened: impl Fn() -> bool) {
        for _ in 0..600 {
            if happened() {
                return;
            }
            // waits for: another program, which announces nothing
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("Prometheus never had {what}");
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The expressions of every panel, with the name of the panel, as Grafana would send them.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap_or_default();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title.to_owned(), target["expr"].as_str().unwrap().to_owned()))
    });
    let filled = |text: String| {
        text.replace("$__rate_interval", "30s").replace("$job", "ipse").replace("$instance", ".+")
    };
    targets.map(|(title, expression)| (title, filled(expression))).collect()
}

#[test]
fn prometheus_collects_and_answers_every_panel_and_every_alert() {
    let (house, key) = overseen(&[("tls_listen", "127.0.0.1:0"), ("tls_self_signed", "yes")]);
    let prometheus = Prometheus::start(&house.operator.unwrap().to_string());
    let mut connection = house.connect();
    let two_scrapes = "count_over_time(up{job=\"ipse\"}[1m]) >= 2";
    prometheus.wait("two scrapes", || prometheus.rows(two_scrapes) == Ok(1));
    for _ in 0..20 {
        assert_eq!(connection.get("/api/v1/ip", Some(&key.text)).unwrap().status, 200);
        connection.get("/api/v1/ip", None).unwrap();
        connection.get("/docs", None).unwrap();
    }
    let counted = "ipse_requests_total{route=\"ip\",outcome=\"answered\",protocol=\"HTTP/1.1\"} == 20";
    prometheus.wait("all requests", || prometheus.rows(counted) == Ok(1));
    let grown = "rate(ipse_request_duration_seconds_count{route=\"ip\"}[30s]) > 0";
    prometheus.wait("a rate", || prometheus.rows(grown) == Ok(1));

    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(deploy("grafana.json")).unwrap()).unwrap();
    let expressions = expressions(&dashboard);
    assert!(expressions.len() >= 20, "{}", expressions.len());
    for (title, expression) in &expressions {
        let rows =
            prometheus.rows(expression).unwrap_or_else(|error| panic!("{title}: {expression}: {error}"));
        // A single machine has no engine that could be away, and the data of this test has no age.
        let may_be_empty = expression.contains("ipse_counters_") || expression.contains("ipse_geo_data_age");
        assert!(rows > 0 || may_be_empty, "{title}: {expression} gives nothing");
    }
    let types = prometheus.ask("/api/v1/metadata?metric=ipse_request_duration_seconds").unwrap();
    assert_eq!(types["data"]["ipse_request_duration_seconds"][0]["type"], "histogram");

    let rules = || prometheus.ask("/api/v1/rules").map(|answer| answer["data"]["groups"].clone());
    let all = |groups: &Value| -> Vec<Value> {
        groups
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect()
    };
    prometheus.wait("every rule", || {
        rules().is_some_and(|groups| {
            let rules = all(&groups);
            !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok")
        })
    });
    let firing: Vec<String> = all(&rules().unwrap())
        .iter()
        .filter(|rule| rule["state"] == "firing")
        .map(|rule| rule["name"].to_string())
        .collect();
    assert_eq!(firing, [] as [&str; 0], "a healthy node wakes nobody");
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let folder = deploy("");
    let told = promtool(&["check", "rules", "alerts.yml"], &folder, None);
    assert!(told.contains("SUCCESS"), "{told}");
    let told = promtool(&["test", "rules", "alerts.test.yml"], &folder, None);
    assert!(told.contains("SUCCESS"), "{told}");
    let [alerts, tests] =
        ["alerts.yml", "alerts.test.yml"].map(|file| fs::read_to_string(deploy(file)).unwrap());
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has no test");
    }
}

#[test]
fn every_metric_is_explained_and_nothing_else_is() {
    let (house, key) = overseen(&[("tls_listen", "127.0.0.1:0"), ("tls_self_signed", "yes")]);
    house.get("/api/v1/ip", Some(&key));
    // A chore has a moment when it was done once.
    wait(|| house.metrics().contains("\nipse_chore_last_timestamp_seconds{"));
    let metrics = house.metrics();
    let folder = tempfile::tempdir().unwrap();
    promtool(&["check", "metrics"], folder.path(), Some(&metrics));
    let told: BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name.to_owned())
        .collect();
    let docs =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).unwrap();
    let explained: BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`'))
        .map(|(name, _)| name.split('{').next().unwrap_or(name).to_owned())
        .filter(|name| name.starts_with("ipse_") || name.starts_with("process_"))
        .collect();
    let missing: Vec<_> = told.difference(&explained).collect();
    assert!(missing.is_empty(), "docs/metrics.md says nothing of {missing:?}");
    // Only engines that nodes share have these, and only data with a date has an age.
    let elsewhere =
        |name: &&String| name.starts_with("ipse_counters_") || *name == "ipse_geo_data_age_seconds";
    let unknown: Vec<_> = explained.difference(&told).filter(|name| !elsewhere(name)).collect();
    assert!(unknown.is_empty(), "nobody tells {unknown:?}, which docs/metrics.md explains");
    // The dashboard and the alerts ask only for what there is.
    for file in ["grafana.json", "alerts.yml"] {
        let text = fs::read_to_string(deploy(file)).unwrap();
        for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let name =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            let is_metric = name.starts_with("ipse_") || name.starts_with("process_");
            assert!(!is_metric || explained.contains(name) || explained.contains(word), "{word} in {file}");
        }
    }
}
