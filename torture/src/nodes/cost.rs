//! `bench nodes`: what a keyed lookup costs a node that counts in Redis, against one that counts alone, in one run.
//!
//! Both are the real program, asked in turn by the same callers. What counts is the processor time that the kernel accounts
//! to each.

use super::house::{House, PATIENT};
use crate::idle::caller::Connecting;
use crate::inside::{MadeKey, make_keys};
use crate::secret::Secret;
use crate::{keys, server};
use anyhow::{Context, Result, anyhow, ensure};
use ipse_model::DAILY_LIMIT;
use ipse_testkit::vitals::processor_time;
use ipse_testkit::{Connection, Flavour, Redis, Server};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 64;
const ROUNDS: usize = 12;
const REQUESTS: usize = 40_000;
/// Enough that none is asked with more often than a minute allows.
const KEYS: usize = 6_400;
/// Of so many lookups, one comes on a new connection over TLS besides.
const HANDSHAKE_ONE_IN: usize = 20;
const MOST_TIMES: f64 = 2.0;
const SHORT_ROUNDS: usize = 2;
const SHORT_REQUESTS: usize = 640;
const SHORT_KEYS: usize = 128;

/// The measurement, held to its targets, and that of a million keys.
pub(crate) fn bench() -> Result<()> {
    let cost = measure(ROUNDS, REQUESTS, KEYS, Some(MOST_TIMES));
    let held = keys::bench();
    cost.and(held)
}

/// A few requests, held to nothing but that all of them are answered.
pub(crate) fn bench_short() -> Result<()> {
    measure(SHORT_ROUNDS, SHORT_REQUESTS, SHORT_KEYS, None)
}

/// One of the two nodes, and what its lookups took of each process: for each round, for each request.
struct Side {
    door: SocketAddr,
    process: u32,
    keys: Vec<MadeKey>,
    took: Vec<Duration>,
}

fn measure(rounds: usize, requests: usize, keys: usize, target: Option<f64>) -> Result<()> {
    println!(
        "bench nodes: {rounds} rounds of {requests} lookups in turn, {CONNECTIONS} connections, {keys} keys; replay with: \
         cargo xtask bench nodes"
    );
    let limits = vec![DAILY_LIMIT; keys];
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let keys_alone = make_keys(&data_dir, &limits)?;
    let secret = Secret::make(folder.path())?;
    let mut command = ipse_testkit::program(server::program()?);
    command.arg("serve");
    secret.show_by(&mut command);
    let alone = server::start_with(command, &data_dir)?;
    let house = House::new(&[PATIENT])?;
    let engine = Redis::start(Flavour::Redis)?;
    let keys_together = house.keys(&limits)?;
    let together = house.node(0, &engine.url())?;
    let side =
        |node: &Server, keys| Side { door: node.address, process: node.process.id(), keys, took: Vec::new() };
    let mut sides = [side(&alone, keys_alone), side(&together, keys_together)];
    for side in &mut sides {
        // What is made with the first request of a key is no part of what a request costs.
        side.round(requests)?;
        side.took.clear();
    }
    let (mut of_engine, mut of_database, mut of_handshakes) = (Vec::new(), Vec::new(), Vec::new());
    let handshakes = requests / HANDSHAKE_ONE_IN;
    for _ in 0..rounds {
        sides[0].round(requests)?;
        of_handshakes.push(sides[0].over_tls(&secret, alone.https()?, handshakes)?);
        let before = (processor_time(&[engine.id()?])?, processor_time(&house.postgres.processes()?)?);
        sides[1].round(requests)?;
        let each = u32::try_from(requests)?;
        of_engine.push((processor_time(&[engine.id()?])? - before.0) / each);
        // Connections may have ended, and their time with them.
        of_database.push(processor_time(&house.postgres.processes()?)?.saturating_sub(before.1) / each);
    }
    let [alone, together] = sides.map(|side| side.took);
    let mut times: Vec<f64> =
        alone.iter().zip(&together).map(|(one, other)| other.as_secs_f64() / one.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let ratio = times[times.len() / 2];
    println!("  processor time for each lookup, median of {rounds} rounds:");
    println!("  a node alone, in its ledger: {}", told(alone));
    println!("  the same, each on a new connection over TLS, full handshake: {}", told(of_handshakes));
    println!("  a node with others, in Redis: {}", told(together));
    println!("  beside it, Redis: {}", told(of_engine));
    println!("  beside it, PostgreSQL: {}", told(of_database));
    println!("  with Redis {ratio:.2} times ({:.2} to {:.2})", times[0], times[times.len() - 1]);
    if let Some(most) = target {
        println!("    target: at most {most:.1} times");
        ensure!(ratio <= most, "bench nodes: {ratio:.2} times, at most {most:.1} are allowed");
    }
    Ok(())
}

fn told(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let us = |place: usize| took[place].as_secs_f64() * 1_000_000.0;
    let last = took.len() - 1;
    format!("{:.1} µs ({:.1} to {:.1})", us(took.len() / 2), us(0), us(last))
}

impl Side {
    /// Asks so often, over all connections and keys.
    fn round(&mut self, requests: usize) -> Result<()> {
        let before = processor_time(&[self.process])?;
        let of_each = self.keys.len().div_ceil(CONNECTIONS);
        let (door, share) = (self.door, requests / CONNECTIONS);
        std::thread::scope(|scope| {
            let callers: Vec<_> =
                self.keys.chunks(of_each).map(|keys| scope.spawn(move || ask(door, keys, share))).collect();
            callers
                .into_iter()
                .try_for_each(|caller| caller.join().map_err(|_| anyhow!("a caller panicked"))?)
        })?;
        self.took.push((processor_time(&[self.process])? - before) / u32::try_from(requests)?);
        Ok(())
    }

    /// Asks so often, each time on a new connection that knows nothing of those before. Says what each took.
    fn over_tls(&self, secret: &Secret, door: SocketAddr, requests: usize) -> Result<Duration> {
        let before = processor_time(&[self.process])?;
        tokio::runtime::Runtime::new()?.block_on(async {
            let mut asking = JoinSet::new();
            for key in self.keys.iter().cycle().take(requests) {
                while asking.len() >= CONNECTIONS {
                    asking.join_next().await.context("somebody asks")???;
                }
                let (connecting, key) = (Connecting::new(secret, door)?, key.text.as_str().into());
                asking.spawn(async move { connecting.caller(door.ip(), &key).await?.ask().await });
            }
            while let Some(asked) = asking.join_next().await {
                asked??;
            }
            anyhow::Ok(())
        })?;
        Ok((processor_time(&[self.process])? - before) / u32::try_from(requests)?)
    }
}

fn ask(door: SocketAddr, keys: &[MadeKey], requests: usize) -> Result<()> {
    let mut connection = Connection::open(door)?;
    for key in keys.iter().cycle().take(requests) {
        let response = connection.get("/api/v1/ip", Some(&key.text))?;
        ensure!(response.status == 200, "answered {}: {}", response.status, response.body);
    }
    Ok(())
}
