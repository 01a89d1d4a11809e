//! Whole days of keys over three nodes, while the engine is killed, frozen, flushed, cut off, failed over and split in
//! two, and nodes and the database are killed: no key is served more than its day, and none is paused or refused for it.
//!
//! A key asks as quickly as it can, over all nodes at once. Whenever that pauses it, its owner resumes it, until all nodes say
//! that its day is used up. Several keys do so at the same time.

use super::engine::{Engine, Mishap};
use super::house::{House, NODES, PATIENT};
use crate::campaign::Options;
use crate::inside::MadeKey;
use crate::tally::Tally;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_model::DAILY_LIMIT;
use ipse_testkit::{Connection, Flavour, Random, Response, Server, Stopwatch};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::sleep;
use std::time::Duration;

const DAYS_AT_ONCE: usize = 10;
/// In one round each node is asked so often with a key: all together more than a minute allows.
const ROUND: usize = 140;
/// So many answers at each node must say that the day is used up before it is over.
const LAST_WORDS: usize = 20;
const SHORTEST_PEACE_MS: u64 = 200;
const LONGEST_PEACE_MS: u64 = 2_000;
/// What one mishap may withhold of a day: two ranges that the engine had, and one on the way to each node.
const WITHHELD: i64 = 5 * (DAILY_LIMIT / 16) as i64;
/// How long a node may take to find its engine again, during which it may still lease, or count with a master that
/// sentinels have replaced: they are asked once a second.
const FOUND_AGAIN: Duration = Duration::from_secs(3);
/// Who got no answer tries again after this.
const AFTER_NONE: Duration = Duration::from_millis(10);
const RESUMED_WITHIN: Duration = Duration::from_secs(30);
/// A node that hears late of a pause may tell of it so long after the key was resumed.
const OLD_NEWS: Duration = Duration::from_secs(3);

/// In what sort of house some days are lived.
struct Manner {
    flavour: Flavour,
    is_watched: bool,
    outage: &'static str,
}

const MANNERS: [Manner; 4] = [
    Manner { flavour: Flavour::Redis, is_watched: false, outage: "closed" },
    Manner { flavour: Flavour::Valkey, is_watched: true, outage: "lease" },
    Manner { flavour: Flavour::Valkey, is_watched: false, outage: "lease" },
    Manner { flavour: Flavour::Redis, is_watched: true, outage: "closed" },
];

/// What happened, over all houses.
#[derive(Default)]
struct Events {
    of_engines: BTreeMap<Mishap, u64>,
    nodes_killed: u64,
    databases_killed: u64,
    answers: i64,
    fewest: Option<i64>,
    resumes: usize,
    unanswered: usize,
}

/// What those who ask share.
struct Town<'a> {
    house: &'a House,
    doors: [RwLock<SocketAddr>; NODES],
    clock: Stopwatch,
    days_left: AtomicUsize,
    failed: AtomicBool,
    resumes: AtomicUsize,
    unanswered: AtomicUsize,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let mut events = Events::default();
    let days = usize::try_from(options.count)?;
    let houses = MANNERS.len().min(days);
    for (number, manner) in MANNERS.iter().enumerate().take(houses) {
        let share = days / houses + usize::from(number < days % houses);
        let told = || format!("{:?}, watched: {}, {}", manner.flavour, manner.is_watched, manner.outage);
        live_in(manner, share, &mut random, &mut events).with_context(told)?;
    }
    let Events { of_engines, nodes_killed, databases_killed, answers, fewest, resumes, unanswered } = events;
    let suffered: Vec<String> =
        of_engines.iter().map(|(mishap, times)| format!("{mishap:?} {times}")).collect();
    let all: i64 = i64::from(DAILY_LIMIT) * i64::try_from(days)?;
    Ok(format!(
        "{days} days of {DAILY_LIMIT} over {NODES} nodes: 0 over-served, 0 false pauses or refusals; {answers} of {all} answered \
         (on one day {} at least), {unanswered} got no answer or 500, {resumes} pauses resumed; the engine: {}; nodes killed \
         {nodes_killed}, databases killed {databases_killed}",
        fewest.unwrap_or_default(),
        suffered.join(", ")
    ))
}

/// Lives some days in one house.
fn live_in(manner: &Manner, days: usize, random: &mut Random, events: &mut Events) -> Result<()> {
    let house = House::new(&[("IPSE_OUTAGE", manner.outage), PATIENT])?;
    let keys = house.keys(&vec![DAILY_LIMIT; days])?;
    let mut engine = match manner.is_watched {
        true => Engine::watched(manner.flavour)?,
        false => Engine::alone(manner.flavour, NODES)?,
    };
    let mut nodes = (0..NODES).map(|node| house.node(node, &engine.url(node))).collect::<Result<Vec<_>>>()?;
    for some in keys.chunks(DAYS_AT_ONCE) {
        // What the last mishap of other days withholds is none of these.
        engine.settle()?;
        let tallies: Vec<Tally> =
            some.iter().map(|key| Tally::new(Some(key.text.clone()), DAILY_LIMIT, WITHHELD)).collect();
        let town = Town {
            house: &house,
            doors: [nodes[0].address, nodes[1].address, nodes[2].address].map(RwLock::new),
            clock: Stopwatch::start(),
            days_left: AtomicUsize::new(some.len()),
            failed: AtomicBool::new(false),
            resumes: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
        };
        std::thread::scope(|scope| {
            let owners: Vec<_> = some
                .iter()
                .zip(&tallies)
                .map(|(key, tally)| {
                    let (town, random) = (&town, Random::new(random.next()));
                    scope.spawn(move || {
                        let lived = town.live(key, tally, random);
                        town.failed.fetch_or(lived.is_err(), Ordering::SeqCst);
                        town.days_left.fetch_sub(1, Ordering::SeqCst);
                        lived
                    })
                })
                .collect();
            let suffered = town.suffer(&mut engine, &mut nodes, &tallies, random, events);
            town.failed.fetch_or(suffered.is_err(), Ordering::SeqCst);
            for owner in owners {
                owner.join().map_err(|_| anyhow!("an owner panicked"))??;
            }
            suffered
        })?;
        for tally in &tallies {
            let answers = tally.answers();
            events.answers += answers;
            events.fewest = Some(events.fewest.map_or(answers, |fewest| fewest.min(answers)));
        }
        events.resumes += town.resumes.load(Ordering::SeqCst);
        events.unanswered += town.unanswered.load(Ordering::SeqCst);
    }
    Ok(())
}

impl Town<'_> {
    /// Lets one thing after the other happen until all days are over.
    fn suffer(
        &self,
        engine: &mut Engine,
        nodes: &mut [Server],
        tallies: &[Tally],
        random: &mut Random,
        events: &mut Events,
    ) -> Result<()> {
        loop {
            let peace = SHORTEST_PEACE_MS + random.below(LONGEST_PEACE_MS - SHORTEST_PEACE_MS);
            let until = self.clock.elapsed() + Duration::from_millis(peace);
            while self.clock.elapsed() < until {
                if self.days_left.load(Ordering::SeqCst) == 0 || self.failed.load(Ordering::SeqCst) {
                    return Ok(());
                }
                sleep(AFTER_NONE);
            }
            engine.settle()?;
            tallies.iter().for_each(Tally::trouble);
            match random.below(8) {
                0 => {
                    self.house.postgres.kill()?;
                    sleep(Duration::from_millis(random.below(1_000)));
                    self.house.postgres.start_again()?;
                    events.databases_killed += 1;
                }
                1 | 2 => {
                    let node = random.index(NODES);
                    nodes[node].process.kill()?;
                    nodes[node].process.wait()?;
                    nodes[node] = self.house.node(node, &engine.url(node))?;
                    *self.doors[node].write().unwrap_or_else(PoisonError::into_inner) = nodes[node].address;
                    events.nodes_killed += 1;
                }
                _ => *events.of_engines.entry(engine.suffer(random)?).or_default() += 1,
            }
            sleep(FOUND_AGAIN);
            tallies.iter().for_each(|tally| tally.calm(self.clock.elapsed()));
        }
    }

    /// One key's day.
    fn live(&self, key: &MadeKey, tally: &Tally, mut random: Random) -> Result<()> {
        let mut resumed = None;
        loop {
            let last_words = std::thread::scope(|scope| {
                let askers: Vec<_> = (0..NODES)
                    .map(|node| {
                        let random = Random::new(random.next());
                        scope.spawn(move || self.ask_round(node, tally, resumed, random))
                    })
                    .collect();
                let joined = askers
                    .into_iter()
                    .map(|asker| asker.join().map_err(|_| anyhow!("one who asks panicked"))?);
                joined.collect::<Result<Vec<usize>>>()
            })?;
            if self.failed.load(Ordering::SeqCst) || last_words.iter().all(|words| *words >= LAST_WORDS) {
                return Ok(());
            }
            if tally.is_paused() {
                self.resume(key, tally)?;
                resumed = Some(self.clock.elapsed());
            }
        }
    }

    /// Asks one node until the key is paused, or often enough. Says how often the day was used up.
    fn ask_round(
        &self,
        node: usize,
        tally: &Tally,
        resumed: Option<Duration>,
        mut random: Random,
    ) -> Result<usize> {
        let mut connection = None;
        let mut last_words = 0;
        for _ in 0..ROUND {
            if tally.is_paused() || self.failed.load(Ordering::SeqCst) {
                break;
            }
            if let Some(response) = self.ask(node, tally, resumed, &mut connection)? {
                last_words += usize::from(response.status == 429 && !tally.is_burst(&response)?);
            }
            if random.below(50) == 0 {
                connection = None;
            }
        }
        Ok(last_words)
    }

    /// Asks once. Nothing is returned if there was no answer, or one that tells of a pause that is over.
    fn ask(
        &self,
        node: usize,
        tally: &Tally,
        resumed: Option<Duration>,
        connection: &mut Option<Connection>,
    ) -> Result<Option<Response>> {
        let ticket = tally.begin(self.clock.elapsed()).context("no pace forbids it")?;
        match self.answer(node, tally, connection) {
            Ok(response) if self.is_old_news(&response, resumed) => {
                tally.still_paused(ticket);
                sleep(AFTER_NONE);
                Ok(None)
            }
            Ok(response) if response.status != 500 => {
                tally.answered(ticket, self.clock.elapsed(), &response)?;
                Ok(Some(response))
            }
            without => {
                let told = without.map(|response| response.body).unwrap_or_default();
                ensure!(told.is_empty() || told.contains("internal_error"), "500 with {told}");
                tally.unanswered(ticket, self.clock.elapsed());
                self.unanswered.fetch_add(1, Ordering::SeqCst);
                sleep(AFTER_NONE);
                Ok(None)
            }
        }
    }

    /// Whether an answer may tell of the pause before. One that tells of a new pause is another.
    fn is_old_news(&self, response: &Response, resumed: Option<Duration>) -> bool {
        response.status == 429
            && response.body.contains("This API key is paused")
            && resumed.is_some_and(|resumed| self.clock.elapsed() - resumed < OLD_NEWS)
    }

    fn answer(&self, node: usize, tally: &Tally, connection: &mut Option<Connection>) -> Result<Response> {
        let mut open = match connection.take() {
            Some(open) => open,
            None => Connection::open(*self.doors[node].read().unwrap_or_else(PoisonError::into_inner))?,
        };
        let response = open.get(tally.target(), tally.key.as_deref())?;
        *connection = Some(open);
        Ok(response)
    }

    /// Resumes a key, and waits until every node knows. Nothing else is asked with it meanwhile.
    fn resume(&self, key: &MadeKey, tally: &Tally) -> Result<()> {
        let begin = self.clock.elapsed();
        while self.house.wait(self.house.records.resume(key.id)).is_err() {
            ensure!(self.clock.elapsed() - begin < RESUMED_WITHIN, "a key could not be resumed");
            sleep(AFTER_NONE);
        }
        tally.resumed_amid_faults();
        self.resumes.fetch_add(1, Ordering::SeqCst);
        for node in 0..NODES {
            let mut connection = None;
            loop {
                ensure!(self.clock.elapsed() - begin < RESUMED_WITHIN, "a resumed key is still paused");
                let ticket = tally.begin(self.clock.elapsed()).context("no pace forbids it")?;
                match self.answer(node, tally, &mut connection) {
                    Ok(response) if tally.is_burst(&response)? => tally.still_paused(ticket),
                    Ok(response) if response.status != 500 => {
                        tally.answered(ticket, self.clock.elapsed(), &response)?;
                        break;
                    }
                    _ => tally.unanswered(ticket, self.clock.elapsed()),
                }
                sleep(AFTER_NONE);
            }
        }
        Ok(())
    }
}
