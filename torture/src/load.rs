//! The keys of a data folder, and clients that ask with them until the server is taken from under them.

use crate::server;
use crate::tally::{Gap, Tally};
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::{Connection, Random, Stopwatch};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STEADY_KEYS: usize = 2;
const STEADY_LIMIT: u32 = 100_000;
const DEMO_LIMIT: u32 = 1_000;
const CLIENTS: usize = 6;
const LONGEST_THOUGHT_US: u64 = 4_000;
/// In the last moments nobody thinks, so that many requests are in flight when the end comes.
const LONGEST_HURRY_US: u64 = 12_000;
/// Now and then a client asks for the same thing many times without a thought, to overtake the syncing of marks.
const STREAK_ONE_IN: u64 = 16;
const LONGEST_STREAK: u64 = 100;
/// A change made on the command line is seen by the running server within a second; the rest is for a busy machine.
const RESUMED_WITHIN: Duration = Duration::from_secs(3);

/// Makes keys with these daily limits in a new folder, and steady ones. They and the demo are what clients ask for;
/// `allowance` is how much one fault may withhold of each.
pub(crate) fn tallies(folder: &Path, limits: &[u32], allowance: i64) -> Result<Vec<Tally>> {
    let key = |limit| anyhow::Ok(Tally::new(Some(server::create_key(folder, limit)?), limit, allowance));
    let mut tallies = limits.iter().map(|limit| key(*limit)).collect::<Result<Vec<_>>>()?;
    for _ in 0..STEADY_KEYS {
        tallies.push(key(STEADY_LIMIT)?.steady());
    }
    tallies.push(Tally::new(None, DEMO_LIMIT, allowance));
    Ok(tallies)
}

/// Resumes the key of a tally while nothing is asked. Keys are numbered in the order in which they were made.
pub(crate) fn resume(folder: &Path, tallies: &[Tally], index: usize) -> Result<()> {
    server::ipse(folder, &["key", "resume", &(index + 1).to_string()])?;
    tallies[index].resumed();
    Ok(())
}

/// Asks for everything in `tallies` from several connections for as long as `lasting`, then calls `end`, which must
/// end the server: what is asked at that moment stays unanswered.
pub(crate) fn run(
    address: SocketAddr,
    tallies: &[Tally],
    clock: &Stopwatch,
    random: &mut Random,
    lasting: Duration,
    end: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (hurry, ending) = (AtomicBool::new(false), AtomicBool::new(false));
    let last_moments = Duration::from_micros(random.below(LONGEST_HURRY_US));
    std::thread::scope(|scope| {
        let start = |_| {
            let (random, hurry, ending) = (Random::new(random.next()), &hurry, &ending);
            scope.spawn(move || ask(address, tallies, clock, random, hurry, ending))
        };
        let clients: Vec<_> = (0..CLIENTS).map(start).collect();
        std::thread::sleep(lasting);
        hurry.store(true, Ordering::SeqCst);
        std::thread::sleep(last_moments);
        ending.store(true, Ordering::SeqCst);
        let ended = end();
        for client in clients {
            client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        ended
    })
}

/// Asks once for everything after a restart, while nothing else is asked, and checks every count.
pub(crate) fn probe(address: SocketAddr, tallies: &[Tally], clock: &Stopwatch) -> Result<Vec<Gap>> {
    let mut connection = Connection::open(address)?;
    let mut gaps = Vec::new();
    for tally in tallies {
        let Some(ticket) = tally.begin(clock.elapsed()) else { continue };
        let response = connection.get(tally.target(), tally.key.as_deref())?;
        gaps.extend(tally.probed(ticket, clock.elapsed(), &response)?);
    }
    Ok(gaps)
}

/// Waits until the running server has seen that a key was resumed.
pub(crate) fn wait_for_resume(address: SocketAddr, tally: &Tally, clock: &Stopwatch) -> Result<()> {
    let mut connection = Connection::open(address)?;
    let begin = clock.elapsed();
    loop {
        let ticket = tally.begin(clock.elapsed()).context("a steady key is never paused")?;
        let response = connection.get(tally.target(), tally.key.as_deref())?;
        // A key that is still paused charges nothing, so these answers leave no trace.
        if response.status == 429 && response.number("x-ratelimit-limit")? == 300 {
            tally.resumed();
            ensure!(clock.elapsed() - begin < RESUMED_WITHIN, "a resumed key is still paused");
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        return tally.answered(ticket, clock.elapsed(), &response);
    }
}

fn ask(
    address: SocketAddr,
    tallies: &[Tally],
    clock: &Stopwatch,
    mut random: Random,
    hurry: &AtomicBool,
    ending: &AtomicBool,
) -> Result<()> {
    let excused = |error| if ending.load(Ordering::SeqCst) { Ok(()) } else { Err(error) };
    let mut connection = match Connection::open(address) {
        Ok(connection) => connection,
        Err(error) => return excused(error),
    };
    loop {
        if !hurry.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(random.below(LONGEST_THOUGHT_US)));
        }
        let tally = random.pick(tallies);
        let streak = if random.below(STREAK_ONE_IN) == 0 { random.below(LONGEST_STREAK) } else { 1 };
        for _ in 0..streak {
            let Some(ticket) = tally.begin(clock.elapsed()) else { break };
            match connection.get(tally.target(), tally.key.as_deref()) {
                Ok(response) => tally.answered(ticket, clock.elapsed(), &response)?,
                Err(error) => {
                    tally.unanswered(ticket, clock.elapsed());
                    return excused(error.context("an answer did not come though the server was not ended"));
                }
            }
        }
    }
}
