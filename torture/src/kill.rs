//! The campaign `kill`: the program dies at any moment, and nothing that a client was told is forgotten.
//!
//! The server is killed under load, while it starts and while it stops, and started again on the same folder. After
//! each restart every count is compared with the answers received. A folder serves for some cycles; then a new one
//! brings a fresh demo quota.

use crate::campaign::Options;
use crate::load;
use crate::server;
use crate::tally::{Gap, Tally};
use anyhow::{Context, Result, ensure};
use ipse_testkit::{Random, Server, Stopwatch};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Cycles on one data folder.
const CYCLES_PER_FOLDER: u64 = 200;
/// Small limits are reached by the day's quota, large ones by bursts. None is 300, which bursts answer with.
const LIMITS: [u32; 6] = [50, 200, 500, 1_000, 10_000, 10_000];
const LONGEST_LIFE_MS: u64 = 350;
/// One cycle in so many lives until a segment of the journal was left.
const LONG_EVERY: u64 = 250;
/// The last of so many cycles lives until such a segment was deleted as well.
const VERY_LONG_EVERY: u64 = 1_000;

/// What happened.
#[derive(Default)]
struct Events {
    starting: u64,
    stopping: u64,
    pauses_kept: u64,
    in_flight: i64,
    answers: i64,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let clock = Stopwatch::start();
    let mut events = Events::default();
    let mut cycle = 0;
    while cycle < options.count {
        let folder = tempfile::tempdir()?;
        let tallies = load::tallies(folder.path(), &LIMITS, 0)?;
        let end = options.count.min(cycle + CYCLES_PER_FOLDER);
        while cycle < end {
            one(folder.path(), &tallies, &clock, &mut random, cycle, &mut events)
                .with_context(|| format!("in cycle {}", cycle + 1))?;
            cycle += 1;
        }
        let server = server::start(folder.path())?;
        events.in_flight += in_flight(&load::probe(server.address, &tallies, &clock)?);
        events.answers += tallies.iter().map(Tally::answers).sum::<i64>();
    }
    let Events { starting, stopping, pauses_kept, in_flight, answers } = events;
    Ok(format!(
        "0 counts lost and 0 answers beyond a limit over {cycle} kills under load ({stopping} of them while stopping) \
         and {starting} while starting; {answers} answers, {in_flight} more charged in flight, {pauses_kept} pauses \
         kept over a restart"
    ))
}

fn one(
    folder: &Path,
    tallies: &[Tally],
    clock: &Stopwatch,
    random: &mut Random,
    cycle: u64,
    events: &mut Events,
) -> Result<()> {
    if random.below(4) == 0 {
        die_while_starting(folder, random)?;
        events.starting += 1;
    }
    let paused: Vec<bool> = tallies.iter().map(Tally::is_paused).collect();
    let server = server::start(folder)?;
    events.in_flight += in_flight(&load::probe(server.address, tallies, clock)?);
    let mut to_resume = Vec::new();
    for (index, paused) in paused.into_iter().enumerate().filter(|(_, paused)| *paused) {
        ensure!(tallies[index].is_paused() == paused, "a pause was forgotten");
        events.pauses_kept += 1;
        match random.below(8) {
            0 => {
                load::resume(folder, tallies, index)?;
                load::wait_for_resume(server.address, &tallies[index], clock)?;
            }
            1..6 => to_resume.push(index),
            _ => {}
        }
    }
    let lasting = lifetime(cycle, random);
    let stopping = (random.below(8) == 0).then(|| Duration::from_micros(random.below(20_000)));
    load::run(server.address, tallies, clock, random, lasting, || {
        if let Some(before) = stopping {
            terminate(&server)?;
            std::thread::sleep(before);
        }
        server.kill()
    })?;
    events.stopping += u64::from(stopping.is_some());
    tallies.iter().for_each(|tally| tally.fault(clock.elapsed(), false));
    to_resume.into_iter().try_for_each(|index| load::resume(folder, tallies, index))
}

fn lifetime(cycle: u64, random: &mut Random) -> Duration {
    let ms = match cycle + 1 {
        number if number.is_multiple_of(VERY_LONG_EVERY) => 84_000 + random.below(4_000),
        number if number.is_multiple_of(LONG_EVERY) => 21_000 + random.below(4_000),
        _ => random.below(LONGEST_LIFE_MS),
    };
    Duration::from_millis(ms)
}

/// Starts the server and kills it before, or soon after, it listens.
fn die_while_starting(folder: &Path, random: &mut Random) -> Result<()> {
    let mut command = Command::new(server::program()?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).env("IPSE_LOG_LEVEL", "warn").spawn()?;
    std::thread::sleep(Duration::from_micros(random.below(40_000)));
    process.kill()?;
    process.wait()?;
    Ok(())
}

/// Asks the server to stop, as a service manager does.
fn terminate(server: &Server) -> Result<()> {
    let status = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status()?;
    ensure!(status.success(), "cannot send SIGTERM");
    Ok(())
}

fn in_flight(gaps: &[Gap]) -> i64 {
    gaps.iter().map(|gap| gap.beyond_answers).sum()
}
