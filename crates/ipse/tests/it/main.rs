//! The behaviour of the whole server, over real sockets.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod accessibility;
mod accounts;
mod acme;
mod address;
mod backup;
mod bodies;
mod browser;
mod commands;
mod configuration;
mod connections;
mod container;
mod cors;
mod data;
mod demo;
mod deploy;
mod doctor;
mod examples;
mod flows;
mod geo;
mod hand_over;
mod http3;
mod http_layer;
mod keys;
mod limits;
mod lookup;
mod mail;
mod nodes;
mod openapi;
mod operator;
mod pages;
mod postgres;
mod privacy;
mod prometheus;
mod proxies;
mod scene;
mod site_guards;
mod start_stop;
mod storage;
mod tls;
mod unix_sockets;
mod update;
mod weight;

use ipse::{Config, Geo, Server};
use ipse_edge::{Clock, ClockHand, Handed};
use ipse_geo::Atlas;
use ipse_model::{KeyId, Now, Scope};
use ipse_store::{Created, DataFolder, NewKey, Records};
use ipse_testkit::{Connection, Response};
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// 2026-11-15 12:00 UTC.
const NOON: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 5_000_000 };
/// The midnight that ends that day.
const MIDNIGHT: i64 = 1_794_787_200;

/// A whole server in this process, with a clock that tests move.
struct House {
    runtime: Runtime,
    address: SocketAddr,
    /// All of its doors.
    addresses: Vec<SocketAddr>,
    /// Where the operator looks, if they can.
    operator: Option<SocketAddr>,
    base_url: String,
    hand: ClockHand,
    records: Records,
    dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

/// A key of the house.
#[derive(Clone)]
struct TestKey {
    id: KeyId,
    text: String,
}

/// How a house is to be.
#[derive(Default)]
struct Plan<'a> {
    settings: &'a [(&'a str, &'a str)],
    keys: &'a [(Scope, Option<u32>)],
    atlas: Atlas,
    /// Where the clock stands at first; noon if it does not matter.
    now: Option<Now>,
}

impl House {
    /// A server with one key of each scope.
    fn with_scopes() -> (Self, [TestKey; 3]) {
        let plan = Plan { keys: &Scope::ALL.map(|scope| (scope, None)), ..Plan::default() };
        let (house, keys) = Self::build(plan);
        (house, keys.try_into().unwrap_or_else(|_| panic!("three keys")))
    }

    /// A server with one key of the scope `full`.
    fn with_key() -> (Self, TestKey) {
        Self::with_limited_key(None)
    }

    /// A server with one key of the scope `full` and a daily limit.
    fn with_limited_key(daily_limit: Option<u32>) -> (Self, TestKey) {
        let (house, mut keys) = Self::build(Plan { keys: &[(Scope::Full, daily_limit)], ..Plan::default() });
        (house, keys.remove(0))
    }

    fn build(plan: Plan<'_>) -> (Self, Vec<TestKey>) {
        let runtime = Runtime::new().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data").to_string_lossy().into_owned();
        let mut settings =
            vec![("listen", "127.0.0.1:0"), ("admin_listen", "none"), ("data_dir", data_dir.as_str())];
        settings.extend(plan.settings);
        let config = Config::from_settings(&settings).unwrap();
        let (clock, hand) = Clock::standing_at(plan.now.unwrap_or(NOON));
        let (server, keys) = runtime.block_on(async {
            let folder = DataFolder::create(&config.data_dir).unwrap();
            let records = Records::open(&folder).await.unwrap();
            let mut keys = Vec::new();
            for (scope, daily_limit) in plan.keys {
                keys.push(create_key(&records, *scope, *daily_limit).await);
            }
            records.close().await;
            let geo = Geo::of(plan.atlas, &config);
            (
                Server::start(config, clock, Handed::default(), std::future::ready(Ok(geo))).await.unwrap(),
                keys,
            )
        });
        let (addresses, base_url) = (server.addresses().to_vec(), server.base_url().to_owned());
        let (address, operator) = (addresses[0], server.operator_addresses().first().copied());
        let records = server.records().clone();
        let (stop, stopped) = oneshot::channel();
        let running = runtime.spawn(async move {
            let stop = async { stopped.await.unwrap_or_default() };
            server.run(stop, std::future::pending()).await.unwrap();
        });
        let (stop, running) = (Some(stop), Some(running));
        (Self { runtime, address, addresses, operator, base_url, hand, records, dir, stop, running }, keys)
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// One GET on a connection of its own.
    fn get(&self, target: &str, key: Option<&TestKey>) -> Response {
        self.connect().get(target, key.map(|key| key.text.as_str())).unwrap()
    }

    /// One request with these header lines.
    fn send(&self, method: &str, target: &str, headers: &[&str]) -> Response {
        let mut connection = self.connect();
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        connection.send(format!("{method} {target} HTTP/1.1\r\nhost: x\r\n{lines}\r\n").as_bytes()).unwrap();
        if method == "HEAD" { connection.receive_head().unwrap() } else { connection.receive().unwrap() }
    }

    /// Changes something about a key and waits until the server has seen it. That it does so within a second is held by
    /// the tests of the commands; here a busy machine may take longer.
    fn change(&self, change: impl AsyncFnOnce(&Records) -> bool, seen: impl Fn() -> bool) {
        assert!(self.runtime.block_on(change(&self.records)), "nothing was changed");
        for _ in 0..500 {
            if seen() {
                return;
            }
            // waits for: the server to read the change, which it promises within a second
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server never saw the change");
    }
}

impl House {
    /// Stops the server and waits until everything is written.
    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take() {
            let _ = self.runtime.block_on(running);
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.end();
    }
}

async fn create_key(records: &Records, scope: Scope, daily_limit: Option<u32>) -> TestKey {
    let account = "owner@example.com".parse().unwrap();
    let new = NewKey { account: &account, name: "test", scope, daily_limit };
    match records.create_key(&new, NOON).await.unwrap() {
        Created::Key { text, record } => TestKey { id: record.id, text: text.reveal().to_owned() },
        Created::AccountIsFull => panic!("the account is full"),
    }
}

/// The body as JSON.
fn json(response: &Response) -> serde_json::Value {
    serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("{error}: {}", response.body))
}

/// The names of the body's fields, in their order.
fn fields(response: &Response) -> Vec<String> {
    json(response).as_object().unwrap().keys().cloned().collect()
}

/// Checks the status, the code and the form of an error.
#[track_caller]
fn check_error(response: &Response, status: u16, error: &str) {
    assert_eq!(response.status, status, "{}", response.body);
    let body = json(response);
    assert_eq!(body["error"], error);
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert!(body["docs"].as_str().is_some_and(|docs| docs.starts_with("http://") && docs.contains('#')));
    let mut extra = fields(response);
    extra.retain(|name| !["error", "message", "docs", "enterprise", "signup"].contains(&name.as_str()));
    assert_eq!(extra, [] as [&str; 0]);
    check_every_response(response);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    // Only a 429 tells of limits.
    for name in ["retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
        assert_eq!(response.header(name).is_some(), status == 429, "{name}");
    }
}

/// What must stand on every response of the API.
#[track_caller]
fn check_every_response(response: &Response) {
    assert_eq!(response.header("access-control-allow-origin"), Some("*"), "{response:?}");
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(response.header("access-control-allow-credentials"), None);
}

/// The values of the rate headers: limit, remaining, reset.
#[track_caller]
fn rate(response: &Response) -> (i64, i64, i64) {
    let number = |name| response.number(name).unwrap();
    (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-ratelimit-reset"))
}
