//! The 301st request of a minute, raced over many connections: who wins must not matter, only how many.

use crate::campaign::Options;
use crate::inside::{Inside, MadeKey, make_keys};
use anyhow::{Context, Result, ensure};
use ipse_edge::Clock;
use ipse_model::{BURST_LIMIT, DAILY_LIMIT, KeyState};
use ipse_testkit::{Connection, Random, Response, Stopwatch};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::Duration;

const TARGET: &str = "/api/v1/ip";
const FEWEST_CONNECTIONS: u64 = 8;
const MOST_CONNECTIONS: u64 = 32;
const MOST_BEYOND: u64 = 100;
/// One race in so many is followed by a resume and a second race with the same key.
const RESUMED_ONE_IN: u64 = 4;
/// The server looks for changes of keys four times a second and promises them within one.
const RESUME_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let folder = tempfile::tempdir()?;
    let keys = make_keys(folder.path(), &vec![DAILY_LIMIT; usize::try_from(options.count)?])?;
    let inside = Inside::start(folder.path(), Clock::system())?;
    let (mut requests, mut resumed) = (0, 0);
    for (number, key) in keys.iter().enumerate() {
        let told = |what: &str| format!("race {number}, {what}");
        requests += race(&mut random, &inside, key, 0, BURST_LIMIT).with_context(|| told("first minute"))?;
        if random.below(RESUMED_ONE_IN) == 0 {
            let first = resume(&inside, key).with_context(|| told("resume"))?;
            // The request that was one too many is charged to the day as well, and so is the one that found the
            // key resumed.
            ensure!(first == i64::from(DAILY_LIMIT - BURST_LIMIT - 2), told(&format!("{first} remained")));
            let charged = BURST_LIMIT + 2;
            let left = BURST_LIMIT - 1;
            requests +=
                race(&mut random, &inside, key, charged, left).with_context(|| told("fresh minute"))?;
            resumed += 1;
        }
    }
    inside.stop()?;
    Ok(format!(
        "{} races ({resumed} of them again after a resume), {requests} requests: each granted exactly {BURST_LIMIT} and \
         paused its key exactly once",
        keys.len()
    ))
}

/// One race, after which the record says that the key is paused.
fn race(random: &mut Random, inside: &Inside, key: &MadeKey, charged: u32, left: u32) -> Result<u64> {
    let total = race_over(random, &[inside.address], &key.text, charged, left)?;
    let record = inside.wait(inside.records.key(key.id))?.context("the key is gone")?;
    ensure!(record.state == KeyState::Paused, "the record says {:?}", record.state);
    Ok(total)
}

/// Sends more requests at once than are left of the minute, over all of these doors, and says how many. `charged` is what
/// the day has counted before, `left` how many of them must be granted.
pub(crate) fn race_over(
    random: &mut Random,
    doors: &[SocketAddr],
    key: &str,
    charged: u32,
    left: u32,
) -> Result<u64> {
    let connections = FEWEST_CONNECTIONS + random.below(MOST_CONNECTIONS - FEWEST_CONNECTIONS + 1);
    let total = u64::from(left) + 1 + random.below(MOST_BEYOND);
    let before = Clock::system().now().unix_seconds();
    let responses = all_at_once(random, doors, key, connections, total)?;
    let after = Clock::system().now().unix_seconds();

    let granted: Vec<&Response> = responses.iter().filter(|response| response.status == 200).collect();
    let refused: Vec<&Response> = responses.iter().filter(|response| response.status == 429).collect();
    let told = format!("{total} requests on {connections} connections, {} granted", granted.len());
    ensure!(granted.len() + refused.len() == responses.len(), "{told}, other answers than 200 and 429");
    ensure!(granted.len() == left as usize, "{told} instead of {left}");
    let pausing = refused.iter().filter(|response| response.body.contains("is now paused")).count();
    let paused = refused.iter().filter(|response| response.body.contains("This API key is paused")).count();
    ensure!(pausing == 1, "{told}, {pausing} answers say that they paused the key");
    ensure!(paused + 1 == refused.len(), "{told}, {paused} of {} say that it is paused", refused.len());
    for response in refused {
        let numbers = ["retry-after", "x-ratelimit-limit", "x-ratelimit-remaining"];
        let found = numbers.iter().map(|name| response.number(name)).collect::<Result<Vec<_>>>()?;
        ensure!(found == [60, i64::from(BURST_LIMIT), 0], "{told}, {numbers:?} are {found:?}");
        let reset = response.number("x-ratelimit-reset")?;
        ensure!((before + 60..=after + 60).contains(&reset), "{told}, reset {reset} is not in a minute");
    }
    exactly_once(&granted, charged).context(told)?;
    Ok(total)
}

/// Each number of what is left of the day was told to one caller.
fn exactly_once(granted: &[&Response], charged: u32) -> Result<()> {
    let number = |name| granted.iter().map(|response| response.number(name)).collect::<Result<Vec<_>>>();
    let (mut remaining, resets) = (number("x-ratelimit-remaining")?, number("x-ratelimit-reset")?);
    // A race over midnight counts in two days; the campaign of that name looks at those.
    if resets.iter().any(|reset| *reset != resets[0]) {
        return Ok(());
    }
    remaining.sort_unstable_by(|a, b| b.cmp(a));
    let first = i64::from(DAILY_LIMIT - charged) - 1;
    let expected = remaining.iter().enumerate().map(|(index, _)| first - i64::try_from(index).unwrap_or(0));
    ensure!(expected.eq(remaining.iter().copied()), "what remained was told twice or not at all");
    Ok(())
}

fn all_at_once(
    random: &mut Random,
    doors: &[SocketAddr],
    key: &str,
    connections: u64,
    total: u64,
) -> Result<Vec<Response>> {
    let request = format!("GET {TARGET} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n");
    let mut shares = vec![0_usize; usize::try_from(connections)?];
    for _ in 0..total {
        let index = random.below(connections);
        shares[usize::try_from(index)?] += 1;
    }
    let start = Barrier::new(shares.len());
    let opened = doors.iter().cycle().take(shares.len());
    let opened = opened.map(|door| Connection::open(*door)).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let runners: Vec<_> = opened
            .into_iter()
            .zip(shares)
            .map(|(mut connection, share)| {
                // Some send all they have without waiting, some one after the other.
                let pipelined = random.below(2) == 0;
                let (start, request) = (&start, request.as_str());
                scope.spawn(move || {
                    start.wait();
                    if pipelined {
                        connection.send(request.repeat(share).as_bytes())?;
                    }
                    let one = |_| {
                        if !pipelined {
                            connection.send(request.as_bytes())?;
                        }
                        connection.receive()
                    };
                    (0..share).map(one).collect::<Result<Vec<_>>>()
                })
            })
            .collect();
        let mut responses = Vec::new();
        for runner in runners {
            responses.extend(runner.join().map_err(|_| anyhow::anyhow!("a runner panicked"))??);
        }
        Ok(responses)
    })
}

/// Resumes the key and waits until the server knows. Returns what remained of the day after the first answer.
fn resume(inside: &Inside, key: &MadeKey) -> Result<i64> {
    ensure!(inside.wait(inside.records.resume(key.id))?, "the key was not paused");
    let mut connection = Connection::open(inside.address)?;
    let watch = Stopwatch::start();
    loop {
        let response = connection.get(TARGET, Some(&key.text))?;
        if response.status == 200 {
            return response.number("x-ratelimit-remaining");
        }
        ensure!(watch.elapsed() < RESUME_LIMIT, "the key is still paused");
        // The server looks for it in its own time; asking without a pause would only slow it down.
        std::thread::sleep(Duration::from_millis(5));
    }
}
