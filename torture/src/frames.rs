//! Hostile frames of HTTP/2 and HTTP/3: the server lives, its memory does not grow, and whoever asks well is answered.
//!
//! What is said is made in `http2.rs` and `http3.rs`, half of the frames each, and said in `tcp.rs` and `quic.rs`. It
//! comes in batches; after each a good client asks in every version of HTTP, and memory is looked at.

mod good;
mod http2;
mod http3;
mod quic;
mod tcp;

use crate::campaign::Options;
use crate::secret::Secret;
use crate::server;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::Random;
use ipse_testkit::vitals::{mebibytes, resident_bytes};
use std::collections::VecDeque;
use std::fs::File;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// What is asked for where the request itself is good.
const PATHS: &[&str] =
    &["/api/v1/meta", "/api/v1/ip", "/api/v1/ip/demo", "/docs", "/openapi.json", "/nowhere"];
/// Conversations at the same time, of each version.
const AT_ONCE: usize = 4;
/// A server that neither answers nor closes within this time hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many connections stay open though nothing is said on them any more, of both versions together.
const SILENT: usize = 60;
/// Frames from one look at the server to the next, at least.
const BATCH: u64 = 100;
const MOST_BATCHES: u64 = 100;
const FEWEST_BATCHES: u64 = 10;
/// How much more memory the last fifth of the batches may need than the second: what a leak of a few bytes for each frame
/// would exceed.
const GROWTH_BYTES: u64 = 8 * 1024 * 1024;
const GROWTH_PERCENT: u64 = 10;

pub(crate) fn work(options: &Options) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let secret = Secret::make(folder.path())?;
    let log = folder.path().join("log");
    let mut command = ipse_testkit::program(server::program()?);
    // Who was not heard saying goodbye is not waited for for long at the end.
    command.args(["serve", "--drain-seconds", "1"]).stderr(Stdio::from(File::create(&log)?));
    secret.show_by(&mut command);
    let mut server = server::start_with(command, &folder.path().join("data"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let caller = quic::Caller::new(&secret, server.https()?)?;
        let crowd = Arc::new(Crowd {
            address: server.address,
            caller,
            seed: options.seed,
            silent: Mutex::default(),
            lines: [Line::default(), Line::default()],
        });
        let batches = (options.count / BATCH).clamp(FEWEST_BATCHES, MOST_BATCHES);
        let mut memory = Vec::new();
        good::well(crowd.address, &crowd.caller, PATIENCE).await?;
        for batch in 1..=batches {
            crowd.send_until(options.count / 2 * batch / batches).await?;
            good::well(crowd.address, &crowd.caller, PATIENCE)
                .await
                .context("a good client was disturbed")?;
            memory.push(resident_bytes(&server)?);
        }
        crowd.caller.leave().await;
        anyhow::Ok((crowd.said(), memory))
    });
    let ended = server.process.try_wait()?;
    ensure!(ended.is_none(), "the server ended: {ended:?}; {:?}", outcome.err());
    let told = || std::fs::read_to_string(&log).context("no log");
    // Why a conversation failed may stand in the log.
    let ([http2, http3], memory) = outcome.with_context(|| format!("log: {:?}", told()))?;
    drop(runtime);
    let (code, _) = server.stop("TERM")?;
    let log = told()?;
    ensure!(code == Some(0), "the server ended with {code:?}: {log}");
    ensure!(!log.contains("panicked") && !log.contains("ERROR"), "the server broke something: {log}");
    let (early, late) = fifths(&memory);
    let figure = format!(
        "{} frames of HTTP/2 on {} connections with {} answers, {} of HTTP/3 on {} with {}: no crash, no panic, no \
         500, every good client answered; memory {} MiB in the second fifth, {} in the last, {} at most",
        http2.frames,
        http2.connections,
        http2.answers,
        http3.frames,
        http3.connections,
        http3.answers,
        mebibytes(early),
        mebibytes(late),
        mebibytes(memory.iter().copied().max().unwrap_or_default())
    );
    ensure!(late <= early + early * GROWTH_PERCENT / 100 + GROWTH_BYTES, "memory grows: {figure}");
    Ok(figure)
}

/// What was said in conversations, and what came of it.
#[derive(Clone, Copy, Default)]
struct Said {
    frames: u64,
    connections: u64,
    answers: u64,
}

/// A frame that the server sent.
struct Told<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

/// All hostile clients.
struct Crowd {
    address: SocketAddr,
    caller: quic::Caller,
    seed: u64,
    silent: Mutex<VecDeque<Silent>>,
    lines: [Line; 2],
}

/// The conversations of one version of HTTP.
#[derive(Default)]
struct Line {
    /// The number of the next conversation.
    next: AtomicU64,
    frames: AtomicU64,
    said: Mutex<Said>,
}

#[derive(Clone, Copy)]
enum Version {
    Http2,
    Http3,
}

enum Silent {
    Tcp(#[expect(dead_code, reason = "held open")] tcp::Silent),
    Quic(#[expect(dead_code, reason = "held open")] quic::Silent),
}

impl Crowd {
    /// Goes on until so many frames of each version were sent.
    async fn send_until(self: &Arc<Self>, goal: u64) -> Result<()> {
        let mut talking = JoinSet::new();
        for version in [Version::Http2, Version::Http3] {
            for _ in 0..AT_ONCE {
                let crowd = Arc::clone(self);
                talking.spawn(async move {
                    let line = &crowd.lines[version as usize];
                    while line.frames.load(Ordering::Relaxed) < goal {
                        let number = line.next.fetch_add(1, Ordering::Relaxed);
                        let told = || format!("conversation {number} of {}", version.name());
                        let said = crowd.converse(version, number).await.with_context(told)?;
                        line.frames.fetch_add(said.frames, Ordering::Relaxed);
                        line.said.lock().unwrap_or_else(PoisonError::into_inner).add(said);
                    }
                    anyhow::Ok(())
                });
            }
        }
        while let Some(ended) = talking.join_next().await {
            ended.map_err(|error| anyhow!("a client panicked: {error}"))??;
        }
        Ok(())
    }

    async fn converse(&self, version: Version, number: u64) -> Result<Said> {
        // Each conversation follows from the seed, its version and its number, whoever has it.
        let mut random =
            Random::new(Random::new(self.seed ^ version as u64).next() ^ Random::new(number).next());
        let (said, silent) = match version {
            Version::Http2 => {
                let conversation = http2::Conversation::invent(&mut random);
                let (said, silent) = tcp::converse(self.address, &conversation, PATIENCE).await?;
                (said, silent.map(Silent::Tcp))
            }
            Version::Http3 => {
                let conversation = http3::Conversation::invent(&mut random);
                let (said, silent) = self.caller.converse(&conversation, PATIENCE).await?;
                (said, silent.map(Silent::Quic))
            }
        };
        if let Some(silent) = silent {
            let mut all = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
            all.push_back(silent);
            if all.len() > SILENT {
                all.pop_front();
            }
        }
        Ok(said)
    }

    fn said(&self) -> [Said; 2] {
        self.lines.each_ref().map(|line| *line.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

impl Said {
    fn add(&mut self, other: Self) {
        self.frames += other.frames;
        self.connections += other.connections;
        self.answers += other.answers;
    }
}

fn path(random: &mut Random) -> &'static str {
    random.pick::<&str>(PATHS)
}

/// What is in the middle of the second fifth, and of the last. The first is when a process finds its size.
fn fifths(samples: &[u64]) -> (u64, u64) {
    let fifth = samples.len() / 5;
    let middle = |samples: &[u64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    (middle(&samples[fifth..2 * fifth]), middle(&samples[samples.len() - fifth..]))
}
