//! Restarts under load: a server stops, the next one takes over its sockets, and no caller notices.
//!
//! The sockets belong to the campaign, as they would to systemd. Callers of every kind ask all the time: on connections
//! that stay open, on new ones, over HTTP/1.1, HTTP/2 and HTTP/3, with and without a key. Whatever is asked must be
//! answered, and what is charged must be what was answered.

use crate::campaign::Options;
use crate::server;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ipse_testkit::{Connection, Random, Server, Sockets, http3_client};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const STEADY_CALLERS: usize = 3;
/// Well below what pauses a key.
const KEYED_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_THOUGHT_US: u64 = 4_000;
/// How long a server lives before the next takes over.
const SHORTEST_LIFE_MS: u64 = 100;
const LONGEST_LIFE_MS: u64 = 500;
/// How many requests curl and aioquic make on one connection.
const OVER_HTTP2: usize = 20;
const OVER_HTTP3: usize = 5;

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let folder = tempfile::tempdir()?;
    let key = server::create_key(folder.path(), 10_000)?;
    let sockets = Sockets::open()?;
    let (http, https) = (sockets.http()?, sockets.https()?);
    let (ending, counts) = (AtomicBool::new(false), Counts::default());
    let last = std::thread::scope(|scope| {
        let mut server = Some(start(folder.path(), &sockets)?);
        let (ending, counts) = (&ending, &counts);
        let mut callers = Vec::new();
        for _ in 0..STEADY_CALLERS {
            let random = Random::new(random.next());
            callers.push(scope.spawn(move || steady(http, random, ending, &counts.http1)));
        }
        callers.push(scope.spawn(move || each_anew(http, ending, &counts.http1)));
        callers.push(scope.spawn(move || over_http2(https, ending, &counts.http2)));
        callers.push(scope.spawn(move || over_http3(https, ending, &counts.http3)));
        let key = &key;
        callers.push(scope.spawn(move || keyed(http, key, ending, &counts.keyed)));
        let mut restarts = || {
            for _ in 0..options.count {
                let life = SHORTEST_LIFE_MS + random.below(LONGEST_LIFE_MS - SHORTEST_LIFE_MS);
                std::thread::sleep(Duration::from_millis(life));
                if ending.load(Ordering::SeqCst) {
                    bail!("a caller failed");
                }
                let (code, _) = server.take().context("no server runs")?.stop("TERM")?;
                ensure!(code == Some(0), "a server ended with {code:?}");
                server = Some(start(folder.path(), &sockets)?);
            }
            Ok(())
        };
        let restarted = restarts();
        ending.store(true, Ordering::SeqCst);
        let mut failed = Vec::new();
        for caller in callers {
            if let Err(error) = caller.join().map_err(|_| anyhow!("a caller panicked"))? {
                failed.push(format!("{error:#}"));
            }
        }
        ensure!(failed.is_empty(), "callers failed: {}", failed.join("; "));
        restarted.map(|()| server)
    })?;
    if let Some(last) = last {
        last.stop("TERM")?;
    }
    let used = used_today(folder.path())?;
    let keyed = counts.keyed.load(Ordering::SeqCst);
    ensure!(used == keyed, "{keyed} keyed requests were answered and {used} charged");
    let told = |count: &AtomicU64| count.load(Ordering::SeqCst);
    Ok(format!(
        "{} restarts, 0 requests failed: {} over HTTP/1.1, {} over HTTP/2, {} over HTTP/3; {keyed} with a key, {used} charged",
        options.count,
        told(&counts.http1),
        told(&counts.http2),
        told(&counts.http3)
    ))
}

#[derive(Default)]
struct Counts {
    http1: AtomicU64,
    http2: AtomicU64,
    http3: AtomicU64,
    keyed: AtomicU64,
}

fn start(folder: &Path, sockets: &Sockets) -> Result<Server> {
    let mut command = ipse_testkit::program(server::program()?);
    command.arg("serve");
    sockets.hand_to(&mut command)?;
    server::start_with(command, folder)
}

/// Runs one caller until the end; whoever fails ends the campaign.
fn until_the_end(ending: &AtomicBool, mut ask: impl FnMut() -> Result<()>) -> Result<()> {
    while !ending.load(Ordering::SeqCst) {
        if let Err(error) = ask() {
            ending.store(true, Ordering::SeqCst);
            return Err(error);
        }
    }
    Ok(())
}

/// Asks on a connection that stays open for as long as the server wants it to.
fn ask(
    connection: &mut Option<Connection>,
    address: SocketAddr,
    target: &str,
    key: Option<&str>,
) -> Result<()> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::open(address)?,
    };
    let response = open.get(target, key)?;
    ensure!(response.status == 200, "{target} was answered with {}: {}", response.status, response.body);
    if response.header("connection") != Some("close") {
        *connection = Some(open);
    }
    Ok(())
}

fn steady(address: SocketAddr, mut random: Random, ending: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let mut connection = None;
    until_the_end(ending, || {
        std::thread::sleep(Duration::from_micros(random.below(LONGEST_THOUGHT_US)));
        ask(&mut connection, address, "/api/v1/meta", None).context("on a connection that stays open")?;
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

fn each_anew(address: SocketAddr, ending: &AtomicBool, count: &AtomicU64) -> Result<()> {
    until_the_end(ending, || {
        std::thread::sleep(Duration::from_micros(LONGEST_THOUGHT_US / 2));
        ask(&mut None, address, "/api/v1/meta", None).context("on a new connection")?;
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

fn keyed(address: SocketAddr, key: &str, ending: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let mut connection = None;
    until_the_end(ending, || {
        std::thread::sleep(KEYED_PAUSE);
        ask(&mut connection, address, "/api/v1/ip", Some(key)).context("with a key")?;
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

fn over_http2(address: SocketAddr, ending: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let url = format!("https://{address}/api/v1/meta");
    until_the_end(ending, || {
        let mut curl = Command::new("curl");
        curl.args(["-sSk", "--noproxy", "*", "--http2", "--fail", "-w", "%{http_version}\n"]);
        for _ in 0..OVER_HTTP2 {
            curl.arg(&url).args(["-o", "/dev/null"]);
        }
        let told = answers(&mut curl).context("curl over HTTP/2")?;
        let answered = told.lines().filter(|version| *version == "2").count();
        ensure!(answered == OVER_HTTP2, "curl had {answered} answers of {OVER_HTTP2} over HTTP/2");
        count.fetch_add(answered as u64, Ordering::SeqCst);
        Ok(())
    })
}

fn over_http3(address: SocketAddr, ending: &AtomicBool, count: &AtomicU64) -> Result<()> {
    let (python, script) = http3_client()?;
    let url = format!("https://{address}/api/v1/meta");
    until_the_end(ending, || {
        let mut client = Command::new(&python);
        client.arg(&script).args(["--insecure", "--count", &OVER_HTTP3.to_string(), &url]);
        let told = answers(&mut client).context("aioquic over HTTP/3")?;
        let answered = told.lines().filter(|line| line.contains("\"status\": 200")).count();
        ensure!(answered == OVER_HTTP3, "aioquic had {answered} answers of {OVER_HTTP3}");
        count.fetch_add(answered as u64, Ordering::SeqCst);
        Ok(())
    })
}

/// What a command that succeeds prints.
fn answers(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// What was charged to the one key.
fn used_today(folder: &Path) -> Result<u64> {
    let keys: serde_json::Value = serde_json::from_str(&server::ipse(folder, &["key", "list", "--json"])?)?;
    keys[0]["used_today"].as_u64().context("no count of the key")
}
