//! The engine goes away, refused or as a black hole, and comes back: how long answers take meanwhile, whether any of them
//! is wrong, and whether the node finds the engine again without a hand.

use super::house::House;
use crate::campaign::Options;
use crate::inside::MadeKey;
use crate::steady::Figures;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_model::{DAILY_LIMIT, KeyState};
use ipse_testkit::{Connection, Flavour, Link, Random, Redis, Response, Stopwatch, Way};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

const CLIENTS: usize = 3;
/// Enough that none is asked with more often than a minute allows.
const KEYS_OF_EACH: usize = 200;
const PERIOD: Duration = Duration::from_millis(2);
const SHORTEST_AWAY_MS: u64 = 300;
const LONGEST_AWAY_MS: u64 = 1_500;
/// All answers are right again so soon after the engine is back.
const BACK_WITHIN: Duration = Duration::from_secs(3);
const CALM: Duration = Duration::from_millis(200);
const LONGEST_ANSWER_MS: u32 = 50;
/// Fewer say nothing about one in a hundred.
const ENOUGH: u64 = 20;

/// How the engine is away.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// Its machine says that nobody is there.
    Refused,
    /// Connections end, and new ones as well.
    Cut,
    /// It is there and says nothing.
    Frozen,
    /// Nothing arrives, and nothing comes back.
    BlackHole,
    /// It hears, and what it says is lost.
    Deaf,
}

/// What those who ask go by.
const CALM_PHASE: u8 = 0;
const AWAY_PHASE: u8 = 1;
const OVER_PHASE: u8 = 2;

#[derive(Default)]
struct Seen {
    /// How many microseconds answers took while the engine was away, and otherwise.
    while_away: Vec<u64>,
    otherwise: Vec<u64>,
    answered: u64,
    undecided: u64,
    /// Those that were not decided though the engine was there: on a busy machine some take too long.
    too_slow: u64,
    longest_back: Duration,
}

/// One policy's house.
struct Trial<'a> {
    door: SocketAddr,
    outage: &'static str,
    keys: &'a [MadeKey],
    phase: AtomicU8,
    seen: Mutex<Seen>,
    /// What was told to remain, with which key: nothing twice.
    remaining: Mutex<HashSet<(i64, i64)>>,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let mut told = Vec::new();
    let (mut while_away, mut otherwise) = (Vec::new(), Vec::new());
    for outage in ["closed", "lease", "open"] {
        let seen = trial(outage, options.count.div_ceil(3), &mut random).context(outage)?;
        told.push(format!(
            "{outage}: {} answered and {} not decided ({} though the engine was there), back after {:.0} ms at most",
            seen.answered,
            seen.undecided,
            seen.too_slow,
            seen.longest_back.as_secs_f64() * 1_000.0
        ));
        while_away.extend(seen.while_away);
        otherwise.extend(seen.otherwise);
    }
    let too_long = while_away.iter().filter(|took| **took > 1_000 * u64::from(LONGEST_ANSWER_MS)).count();
    let (away, calm) = (Figures::of(&while_away), Figures::of(&otherwise));
    let figure = format!(
        "{} outages (refused, cut, frozen, black hole, deaf), 0 wrong answers, all over without a hand; {}; while away {away}, {too_long} \
         of them over {} ms; otherwise {calm}",
        options.count.div_ceil(3) * 3,
        told.join("; "),
        LONGEST_ANSWER_MS
    );
    ensure!(options.count < ENOUGH || away.p99_ms <= f64::from(LONGEST_ANSWER_MS), "{figure}");
    Ok(figure)
}

fn trial(outage: &'static str, count: u64, random: &mut Random) -> Result<Seen> {
    let house = House::new(&[("IPSE_OUTAGE", outage)])?;
    let keys = house.keys(&vec![DAILY_LIMIT; CLIENTS * KEYS_OF_EACH])?;
    let mut engine = Redis::start(Flavour::Redis)?;
    let link = Link::to(engine.address)?;
    let node = house.node(0, &format!("redis://{}", link.address))?;
    let trial = Trial {
        door: node.address,
        outage,
        keys: &keys,
        phase: AtomicU8::new(CALM_PHASE),
        seen: Mutex::default(),
        remaining: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let trial = &trial;
                scope.spawn(move || {
                    let asked = trial.ask(number);
                    // Nobody waits for one who has failed.
                    if asked.is_err() {
                        trial.phase.store(OVER_PHASE, Ordering::SeqCst);
                    }
                    asked
                })
            })
            .collect();
        let mut suffer = || {
            for _ in 0..count {
                sleep(CALM);
                if trial.phase.load(Ordering::SeqCst) == OVER_PHASE {
                    break;
                }
                let kinds = [Away::Refused, Away::Cut, Away::Frozen, Away::BlackHole, Away::Deaf];
                trial.without(*random.pick(&kinds), &mut engine, &link, random)?;
            }
            anyhow::Ok(())
        };
        let suffered = suffer();
        trial.phase.store(OVER_PHASE, Ordering::SeqCst);
        for client in clients {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        suffered
    })?;
    let listed = house.wait(house.records.keys(None))?;
    ensure!(listed.iter().all(|key| key.state == KeyState::Active), "a key was paused");
    Ok(trial.seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Trial<'_> {
    /// Takes the engine away and brings it back.
    fn without(&self, away: Away, engine: &mut Redis, link: &Link, random: &mut Random) -> Result<()> {
        let lasting =
            Duration::from_millis(SHORTEST_AWAY_MS + random.below(LONGEST_AWAY_MS - SHORTEST_AWAY_MS));
        self.phase.store(AWAY_PHASE, Ordering::SeqCst);
        match away {
            Away::Refused => engine.kill(),
            Away::Cut => link.set(Way::Closed),
            Away::Frozen => engine.freeze(true)?,
            Away::BlackHole => link.set(Way::Held),
            Away::Deaf => link.set(Way::RepliesHeld),
        }
        sleep(lasting);
        match away {
            Away::Refused => engine.run()?,
            Away::Frozen => engine.freeze(false)?,
            Away::Cut | Away::BlackHole | Away::Deaf => link.set(Way::Open),
        }
        let clock = Stopwatch::start();
        let mut connection = Connection::open(self.door)?;
        // The demo tells when the engine decides again, and costs no key anything.
        let is_back = |response: &Response| match self.outage {
            "closed" => response.status == 200,
            // Nothing in an answer tells who has decided it; the next calm shows it.
            _ => true,
        };
        while !is_back(&connection.get("/api/v1/ip/demo", None)?) {
            ensure!(clock.elapsed() < BACK_WITHIN, "{away:?}: not back after {} s", BACK_WITHIN.as_secs());
            sleep(PERIOD);
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.longest_back = seen.longest_back.max(clock.elapsed());
        drop(seen);
        self.phase.store(CALM_PHASE, Ordering::SeqCst);
        Ok(())
    }

    /// Asks with one key after the other until it is over.
    fn ask(&self, number: usize) -> Result<()> {
        let own = &self.keys[number * KEYS_OF_EACH..][..KEYS_OF_EACH];
        let mut connection = Connection::open(self.door)?;
        let clock = Stopwatch::start();
        for key in own.iter().cycle() {
            let phase = self.phase.load(Ordering::SeqCst);
            if phase == OVER_PHASE {
                break;
            }
            let begin = clock.elapsed();
            let response = connection.get("/api/v1/ip?scope=ip", Some(&key.text))?;
            let took = u64::try_from((clock.elapsed() - begin).as_micros())?;
            // What was under way when the phase changed may belong to either.
            let was_away = phase == AWAY_PHASE || self.phase.load(Ordering::SeqCst) == AWAY_PHASE;
            self.note(key, &response, took, was_away)?;
            sleep(PERIOD);
        }
        Ok(())
    }

    fn note(&self, key: &MadeKey, response: &Response, took: u64, was_away: bool) -> Result<()> {
        match response.status {
            200 if self.outage != "open" => {
                let told = (key.id.0, response.number("x-ratelimit-remaining")?);
                let mut remaining = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
                ensure!(remaining.insert(told), "the same number was served twice: {told:?}");
            }
            200 => {}
            500 => {
                ensure!(response.body.contains("internal_error"), "500 with {}", response.body);
                ensure!(self.outage != "open", "500 though everything is to be answered");
            }
            status => anyhow::bail!("a wrong answer: {status} {}", response.body),
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match was_away {
            true => seen.while_away.push(took),
            false => seen.otherwise.push(took),
        }
        seen.answered += u64::from(response.status == 200);
        seen.undecided += u64::from(response.status == 500);
        seen.too_slow += u64::from(response.status == 500 && !was_away);
        Ok(())
    }
}
