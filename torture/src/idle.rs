//! Idle connections over TLS, all open at once: the server holds every one of them, in little memory, and goes on
//! answering.

pub(crate) mod caller;

use crate::campaign::Options;
use crate::inside::make_keys;
use crate::secret::Secret;
use crate::server;
use anyhow::{Context, Result, anyhow, ensure};
use caller::{Caller, Connecting};
use ipse_model::DAILY_LIMIT;
use ipse_testkit::Stopwatch;
use ipse_testkit::vitals::{allow_descriptors, mebibytes, resident_bytes};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

/// What 20,000 connections may take.
const TARGET_BYTES: u64 = 400 * 1024 * 1024;
const TARGET_CONNECTIONS: u64 = 20_000;
/// With fewer than these the campaign is the short one, where the program may not be optimised, and what a process takes
/// anyway comes and goes: it notices what is far off.
const FULL_CONNECTIONS: u64 = 5_000;
const LENIENT_BYTES: u64 = 64 * 1024 * 1024;
const LENIENT_BYTES_EACH: u64 = 100 * 1024;
/// Descriptors that are no connections, in the server and here.
const OTHER_DESCRIPTORS: u64 = 80;
/// Few enough that no key is ever paused, however often each of them asks while the others are opened.
const CONNECTIONS_PER_KEY: u64 = 20;
/// Handshakes under way at the same time.
const AT_ONCE: usize = 64;
/// Where callers come from: one address has no port for each of them.
const SOURCES: u8 = 8;
/// The server lets go of who asks nothing for a minute.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// How long nobody asks anything before memory is looked at.
const IDLE: Duration = Duration::from_secs(8);
const SHORT_IDLE: Duration = Duration::from_millis(200);
/// One of so many is asked again at the end.
const SAMPLE_ONE_IN: usize = 20;

pub(crate) fn work(options: &Options) -> Result<String> {
    let connections = options.count;
    let is_full = connections >= FULL_CONNECTIONS;
    allow_descriptors(connections + OTHER_DESCRIPTORS)?;
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let limits = vec![DAILY_LIMIT; usize::try_from(connections / CONNECTIONS_PER_KEY + 1)?];
    let keys: Vec<Arc<str>> = make_keys(&data_dir, &limits)?.into_iter().map(|key| key.text.into()).collect();
    let secret = Secret::make(folder.path())?;
    let mut command = ipse_testkit::program(server::program()?);
    command.arg("serve");
    secret.show_by(&mut command);
    command.args(["--max-connections", &(connections + 10).to_string()]);
    let server = server::start_with(command, &data_dir)?;
    let connecting = Connecting::new(&secret, server.https()?)?;

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // The first answer brings what every later one shares.
        let mut first = connecting.caller(Ipv4Addr::LOCALHOST.into(), &keys[0]).await?;
        first.ask().await?;
        let before = resident_bytes(&server)?;
        let watch = Stopwatch::start();
        let mut callers = open(&connecting, &keys, connections - 1).await?;
        callers.push(first);
        let opened_seconds = watch.seconds();
        // Once more, so that all of them are idle at the same time and none for long.
        let mut callers = ask_all(callers).await.context("a connection was not kept while others were opened")?;
        // waits for: the server to have nothing more to do for anybody, which nothing announces
        tokio::time::sleep(if is_full { IDLE } else { SHORT_IDLE }).await;
        let taken = resident_bytes(&server)?.saturating_sub(before);
        for caller in callers.iter_mut().step_by(SAMPLE_ONE_IN) {
            caller.ask().await.context("an idle connection does not live any more")?;
        }
        let mut late = connecting.caller(Ipv4Addr::LOCALHOST.into(), &keys[0]).await?;
        late.ask().await.context("a new caller is not answered")?;

        let limit = if is_full {
            TARGET_BYTES * connections / TARGET_CONNECTIONS
        } else {
            LENIENT_BYTES + LENIENT_BYTES_EACH * connections
        };
        let figure = format!(
            "{connections} idle connections over TLS, opened in {opened_seconds:.1} s, take {} MiB beyond the data: {} \
             bytes each, of at most {} MiB",
            mebibytes(taken),
            taken / connections,
            mebibytes(limit)
        );
        ensure!(taken <= limit, "{figure}");
        Ok(figure)
    })
}

/// Opens so many connections, asks once on each, and again on those that wait for the others for long.
async fn open(connecting: &Connecting, keys: &[Arc<str>], count: u64) -> Result<Vec<Caller>> {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let (opened, mut opens) = mpsc::unbounded_channel();
    let (all_open, are_all_open) = watch::channel(false);
    let mut opening = JoinSet::new();
    for number in 0..count {
        let key = Arc::clone(&keys[usize::try_from(number)? % keys.len()]);
        let source = Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(number % u64::from(SOURCES))?);
        let (connecting, at_once, opened) = (connecting.clone(), Arc::clone(&at_once), opened.clone());
        let mut are_all_open = are_all_open.clone();
        opening.spawn(async move {
            let mut caller = {
                let _permit = at_once.acquire().await?;
                let mut caller = connecting.caller(source.into(), &key).await?;
                caller.ask().await?;
                caller
            };
            let _ = opened.send(());
            while tokio::time::timeout(ASK_EVERY, are_all_open.wait_for(|all| *all)).await.is_err() {
                caller.ask().await.context("a connection was not kept while others were opened")?;
            }
            Ok(caller)
        });
    }
    for _ in 0..count {
        tokio::select! {
            _ = opens.recv() => {}
            // Nobody is done before all are there, but for a failure.
            Some(ended) = opening.join_next() => { ended.map_err(|_| anyhow!("a caller panicked"))??; }
        }
    }
    let _ = all_open.send(true);
    joined(opening).await
}

/// Asks once on every connection, on some of them at the same time.
async fn ask_all(callers: Vec<Caller>) -> Result<Vec<Caller>> {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut asking = JoinSet::new();
    for mut caller in callers {
        let at_once = Arc::clone(&at_once);
        asking.spawn(async move {
            let _permit = at_once.acquire().await?;
            caller.ask().await?;
            Ok(caller)
        });
    }
    joined(asking).await
}

/// The first that fails ends the others.
async fn joined(mut tasks: JoinSet<Result<Caller>>) -> Result<Vec<Caller>> {
    let mut callers = Vec::with_capacity(tasks.len());
    while let Some(caller) = tasks.join_next().await {
        callers.push(caller.map_err(|_| anyhow!("a caller panicked"))??);
    }
    Ok(callers)
}
