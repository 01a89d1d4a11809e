//! Hostile requests against the real process: whatever comes in, no answer is a 5xx, every answer of HTTP/1 is one of
//! ours, and the server is well afterwards.
//!
//! What is sent is made in `mischief.rs`. Here it is sent, and what comes back is judged.

use crate::campaign::Options;
use crate::coding::HEADERS;
use crate::mischief::{Conversation, Protocol, shown};
use crate::server;
use anyhow::{Context, Result, bail, ensure};
use ipse_model::DAILY_LIMIT;
use ipse_testkit::{Connection, Random};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u64 = 4;
/// A server that neither answers nor closes within this time hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so many conversations of a thread the server must answer a good request.
const CHECK_EVERY: u64 = 1_000;

pub(crate) fn work(options: &Options) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let (used_key, kept_key) =
        (server::create_key(folder.path(), DAILY_LIMIT)?, server::create_key(folder.path(), DAILY_LIMIT)?);
    let mut server = server::start(folder.path())?;
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let sent = AtomicU64::new(0);
    let mut tally = Tally::default();
    let outcomes: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let outcome = converse(options, server.address, &used_key, &next, &sent, &failed);
                    // The others need not go on.
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    outcome
                })
            })
            .collect();
        let panicked = |_| Err(anyhow::anyhow!("a thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let ended = server.process.try_wait()?;
    ensure!(
        ended.is_none(),
        "the server ended: {ended:?}; {:?}",
        outcomes.iter().find_map(|o| o.as_ref().err())
    );
    for outcome in outcomes {
        tally.add(&outcome?);
    }
    well(server.address, "/api/v1/ip", Some(&kept_key), "application/json")?;
    let Tally { conversations, requests, answers, http2, resets, statuses } = tally;
    let by_class: Vec<String> =
        (1..).zip(statuses).filter(|(_, n)| *n > 0).map(|(class, n)| format!("{n} × {class}xx")).collect();
    Ok(format!(
        "{requests} requests on {conversations} connections ({http2} of them HTTP/2), {answers} answers of HTTP/1 \
         ({}), {resets} connections reset; no 5xx, no crash, every answer ours",
        by_class.join(", ")
    ))
}

#[derive(Default)]
struct Tally {
    conversations: u64,
    requests: u64,
    answers: u64,
    http2: u64,
    resets: u64,
    /// By the first digit.
    statuses: [u64; 5],
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.conversations += other.conversations;
        self.requests += other.requests;
        self.answers += other.answers;
        self.http2 += other.http2;
        self.resets += other.resets;
        self.statuses.iter_mut().zip(other.statuses).for_each(|(sum, more)| *sum += more);
    }
}

/// One thread's part: conversation after conversation, until enough requests were sent.
fn converse(
    options: &Options,
    address: SocketAddr,
    key: &str,
    next: &AtomicU64,
    sent: &AtomicU64,
    failed: &AtomicBool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    while sent.load(Ordering::Relaxed) < options.count && !failed.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // Each conversation follows from the seed and its number, whichever thread has it.
        let mut random = Random::new(Random::new(options.seed).next() ^ Random::new(number).next());
        let conversation = Conversation::invent(&mut random, key);
        sent.fetch_add(conversation.requests, Ordering::Relaxed);
        let told = || format!("conversation {number}: {}", conversation.shown());
        let (received, reset) = exchange(address, &conversation).with_context(told)?;
        tally.conversations += 1;
        tally.requests += conversation.requests;
        tally.resets += u64::from(reset);
        match &conversation.protocol {
            Protocol::Http1 { heads } => {
                judge(&received, heads, reset, &mut tally)
                    .with_context(|| format!("answered {}", shown(&received)))
                    .with_context(told)?;
            }
            Protocol::Http2 => {
                tally.http2 += 1;
                judge_frames(&received).with_context(told)?;
            }
        }
        if number.is_multiple_of(CHECK_EVERY) {
            well(address, "/docs", None, "text/html; charset=utf-8").with_context(told)?;
        }
    }
    Ok(tally)
}

/// Sends everything, and reads until the server closes. Says also whether it did so with a reset, which may swallow
/// what it had said.
fn exchange(address: SocketAddr, conversation: &Conversation) -> Result<(Vec<u8>, bool)> {
    let mut stream = TcpStream::connect(address).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut broken = false;
    for piece in &conversation.pieces {
        match stream.write_all(piece) {
            Ok(()) => {}
            // The server has heard enough; what it said is still to be read.
            Err(error) if is_end(&error) => {
                broken = true;
                break;
            }
            Err(error) => return Err(error).context("the server takes no more bytes"),
        }
    }
    if conversation.half_close && !broken {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => Ok((received, broken)),
        Err(error) if is_end(&error) => Ok((received, true)),
        Err(error) => {
            Err(error).context(format!("the server neither answers nor closes: {}", shown(&received)))
        }
    }
}

pub(crate) fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}

/// Judges every answer in a stream of HTTP/1. `heads` tells of each request that is one whether it is HEAD.
fn judge(received: &[u8], heads: &[bool], cut: bool, tally: &mut Tally) -> Result<()> {
    let mut rest = received;
    let mut number = 0;
    while !rest.is_empty() {
        let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
            ensure!(cut, "a head without an end");
            return Ok(());
        };
        let head = std::str::from_utf8(&rest[..end]).context("a head that is no text")?;
        rest = &rest[end + 4..];
        let mut lines = head.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let status: u16 = status_line
            .strip_prefix("HTTP/1.")
            .and_then(|line| line.get(2..5))
            .and_then(|status| status.parse().ok())
            .with_context(|| format!("{status_line:?} is no status line"))?;
        ensure!((100..500).contains(&status), "{status_line}");
        if status < 200 {
            continue;
        }
        let headers: Vec<(String, &str)> = lines
            .map(|line| {
                let (name, value) = line.split_once(':').with_context(|| format!("{line:?} is no header"))?;
                Ok((name.to_ascii_lowercase(), value.trim()))
            })
            .collect::<Result<_>>()?;
        let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
        ensure!(header("access-control-allow-origin") == Some("*"), "{status} is not open to every origin");
        ensure!(header("x-content-type-options") == Some("nosniff"), "{status} is none of ours");
        // What stood in the place of the last request may have been HEAD as well.
        let is_head =
            heads.get(number).copied().unwrap_or_else(|| rest.is_empty() || rest.starts_with(b"HTTP/1."));
        number += 1;
        tally.answers += 1;
        tally.statuses[usize::from(status / 100) - 1] += 1;
        if status == 204 || status == 304 {
            continue;
        }
        let content_type = header("content-type").unwrap_or_default();
        let length: usize = header("content-length").context("no content-length")?.parse()?;
        // The HTTP layer refuses what it cannot read with a body, even if HEAD could be read in it.
        if is_head && !(rest.len() == length && header("connection") == Some("close")) {
            continue;
        }
        let Some(body) = rest.get(..length) else {
            ensure!(cut, "the body of {status} is cut");
            return Ok(());
        };
        rest = &rest[length..];
        match content_type {
            "application/json" => {
                let body: serde_json::Value = serde_json::from_slice(body).context("no JSON")?;
                ensure!(body.is_object(), "{status} holds no object");
                ensure!(status < 400 || body["error"].is_string(), "{status} names no error");
            }
            "text/html; charset=utf-8" => {
                ensure!(
                    body.starts_with(b"<!doctype html>") && body.trim_ascii_end().ends_with(b"</html>"),
                    "no whole page"
                );
            }
            other => bail!("{status} is {other:?}"),
        }
    }
    Ok(())
}

/// HTTP/2 is only looked at for the one status of ours that must not be: its table has 500 as entry 14.
pub(crate) fn judge_frames(received: &[u8]) -> Result<()> {
    const STATUS_500: u8 = 0x80 | 14;
    let mut rest = received;
    while let Some((head, after)) = rest.split_at_checked(9) {
        if head.starts_with(b"HTTP/1.") {
            return judge(rest, &[], true, &mut Tally::default());
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        ensure!(!(head[3] == HEADERS && after.first() == Some(&STATUS_500)), "an answer of HTTP/2 is 500");
        let Some(next) = after.get(length..) else { break };
        rest = next;
    }
    Ok(())
}

/// Asks for something good, as a caller who knows nothing of all this.
fn well(address: SocketAddr, target: &str, key: Option<&str>, content_type: &str) -> Result<()> {
    let response = Connection::open(address)?.get(target, key).context("a good request is not answered")?;
    let found = (response.status, response.header("content-type"));
    ensure!(found == (200, Some(content_type)), "a good request is answered {found:?}: {}", response.body);
    Ok(())
}
