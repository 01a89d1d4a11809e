//! How long nodes go on answering after a key was deactivated on another one: from the owner's click to the last answer.

use super::house::{House, NODES, PATIENT};
use crate::campaign::Options;
use crate::inside::MadeKey;
use crate::login::people::{home, sign_up};
use crate::steady::Figures;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ipse_model::DAILY_LIMIT;
use ipse_testkit::{Connection, Flavour, Random, Redis, Stopwatch, Visitor};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

/// As many keys as an account may have.
const KEYS_OF_EACH: usize = 10;
const MOST_OWNERS: usize = 20;
/// How often each node is asked with one key: so that it stays below what pauses it.
const PERIOD: Duration = Duration::from_millis(2);
/// Nobody asks for longer before the click than this.
const LONGEST_BEFORE_US: u64 = 20_000;
const PATIENCE: Duration = Duration::from_secs(10);
const P99_MS: f64 = 50.0;
const LONGEST_MS: f64 = 1_000.0;
/// Fewer say nothing about one in a hundred.
const ENOUGH: u64 = 200;

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let house = House::new(&[PATIENT, ("IPSE_TRUSTED_PROXY", "127.0.0.1")])?;
    let engine = Redis::start(Flavour::Redis)?;
    let nodes = (0..NODES).map(|node| house.node(node, &engine.url())).collect::<Result<Vec<_>>>()?;
    let doors: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let count = usize::try_from(options.count)?;
    let sign_up = |number: usize| {
        sign_up(doors[0], &format!("torture-{number}@example.com"), home(u32::try_from(number)?))
    };
    let owners = count.div_ceil(KEYS_OF_EACH).min(MOST_OWNERS);
    let mut owners = (0..owners).map(sign_up).collect::<Result<Vec<_>>>()?;
    // Ten to an account, in the order of the accounts.
    let keys = house.keys(&vec![DAILY_LIMIT; owners.len() * KEYS_OF_EACH])?;
    let mut took = Vec::with_capacity(count * (NODES - 1));
    for (sample, key) in (0..count).zip(keys.iter().enumerate().cycle()) {
        let (place, key) = key;
        let owner = &mut owners[place / KEYS_OF_EACH];
        let told = || format!("sample {sample}");
        took.extend(one(owner, key, &doors, &mut random).with_context(told)?);
    }
    let figures = Figures::of(&took);
    let figure = format!(
        "{count} keys deactivated on one node, last answers on two others after the owner's click: {figures} (targets: p99 \
         {P99_MS} ms, at most {LONGEST_MS} ms)"
    );
    let is_met = figures.max_ms <= LONGEST_MS && (options.count < ENOUGH || figures.p99_ms <= P99_MS);
    ensure!(is_met, "{figure}");
    Ok(figure)
}

/// Deactivates a key while the other nodes are asked with it, and reactivates it. Says when each of them answered for the
/// last time, in microseconds.
fn one(owner: &mut Visitor, key: &MadeKey, doors: &[SocketAddr], random: &mut Random) -> Result<Vec<u64>> {
    let page = format!("/dashboard/keys/{}", key.id.0);
    for door in doors {
        await_status(*door, key, 200)?;
    }
    let before = Duration::from_micros(random.below(LONGEST_BEFORE_US));
    let clock = Stopwatch::start();
    let took = std::thread::scope(|scope| {
        let askers: Vec<_> =
            doors[1..].iter().map(|door| scope.spawn(|| last_answer(*door, key, &clock))).collect();
        sleep(before);
        let clicked = clock.elapsed();
        let reply = owner.submit(&page, &format!("{page}/deactivate"), &[])?;
        ensure!(reply.status == 303, "the click was answered with {}: {}", reply.status, reply.body);
        let mut took = Vec::new();
        for asker in askers {
            let last = asker.join().map_err(|_| anyhow!("one who asks panicked"))??;
            took.push(u64::try_from(last.saturating_sub(clicked).as_micros())?);
        }
        Ok(took)
    })?;
    let reply = owner.submit(&page, &format!("{page}/reactivate"), &[])?;
    ensure!(reply.status == 303, "the key is not reactivated: {}: {}", reply.status, reply.body);
    Ok(took)
}

/// Asks until the key is refused, and says when the last answer came.
fn last_answer(door: SocketAddr, key: &MadeKey, clock: &Stopwatch) -> Result<Duration> {
    let mut connection = Connection::open(door)?;
    let mut last = Duration::ZERO;
    while clock.elapsed() < PATIENCE {
        let response = connection.get("/api/v1/ip", Some(&key.text))?;
        match response.status {
            200 => last = clock.elapsed(),
            403 => return Ok(last),
            status => bail!("answered {status}: {}", response.body),
        }
        sleep(PERIOD);
    }
    bail!("still answered after {} s", PATIENCE.as_secs())
}

fn await_status(door: SocketAddr, key: &MadeKey, wanted: u16) -> Result<()> {
    let mut connection = Connection::open(door)?;
    let clock = Stopwatch::start();
    loop {
        let response = connection.get("/api/v1/ip", Some(&key.text))?;
        if response.status == wanted {
            return Ok(());
        }
        ensure!(clock.elapsed() < PATIENCE, "still {}: {}", response.status, response.body);
        sleep(PERIOD);
    }
}
