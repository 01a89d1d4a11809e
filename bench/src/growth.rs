//! `bench growth`: what a request costs ipse, and how much memory it takes, as keys, connections and cores become more.
//!
//! One key alone may ask 300 times a minute, which is too few to measure: the smallest number of keys is the one with which a
//! minute of a run stays under that.

use crate::load::{Manner, Rhythm};
use crate::noise::Noise;
use crate::peer::Peer;
use crate::rounds::{Asked, Outcome, Scenario, play, play_in};
use crate::stage::Stage;
use crate::table::{Table, quartiles};
use anyhow::Result;
use ipse_testkit::vitals::mebibytes;

const KEYS: [usize; 4] = [2_000, 20_000, 200_000, 1_000_000];
const CONNECTIONS: [usize; 4] = [64, 500, 2_000, 10_000];
const REQUESTS: usize = 40_000;

/// One step of growth: how much there was, and what was seen.
pub(crate) struct Step {
    pub(crate) amount: usize,
    pub(crate) outcome: Outcome,
}

pub(crate) struct Growth {
    pub(crate) keys: Vec<Step>,
    pub(crate) connections: Vec<Step>,
    pub(crate) cores: Vec<Step>,
}

const KEEP_ALIVE: Scenario = Scenario {
    name: "growth",
    manner: Manner::Clear,
    rhythm: Rhythm::KeepAlive,
    resumes: false,
    connections: 64,
    requests: REQUESTS,
};

pub(crate) fn bench(rounds: usize) -> Result<()> {
    let noise = Noise::begin()?;
    measure(rounds)?;
    noise.tell_of_host()
}

pub(crate) fn measure(rounds: usize) -> Result<Growth> {
    let shown = |what: &str, steps: Result<Vec<Step>>| {
        let steps = steps?;
        table(what, &steps).print();
        anyhow::Ok(steps)
    };
    Ok(Growth {
        connections: shown("connections", by_connections(rounds, &CONNECTIONS))?,
        cores: shown("cores", by_cores(rounds))?,
        keys: shown("keys", by_keys(rounds, &KEYS))?,
    })
}

/// Few of everything, to see that it works.
pub(crate) fn short(stage: &Stage) -> Result<()> {
    let mut asked = Asked::new(Peer::Ipse.start(stage, &stage.cores.every())?);
    for connections in [1, 200] {
        asked.run(stage, &Scenario { requests: 400, connections, ..KEEP_ALIVE })?;
    }
    Ok(())
}

/// A server for each number of keys; all stand beside each other.
fn by_keys(rounds: usize, numbers: &[usize]) -> Result<Vec<Step>> {
    let mut stages = Vec::new();
    for number in numbers {
        let stage = Stage::of_keys(*number)?;
        let mut asked = Asked::new(Peer::Ipse.start(&stage, &stage.cores.of_server())?);
        // The first request of a key does more than all others.
        asked.run(&stage, &Scenario { requests: *number, ..KEEP_ALIVE })?;
        stages.push((stage, asked));
    }
    let mut servers: Vec<(&Stage, &mut Asked)> =
        stages.iter_mut().map(|(stage, asked)| (&*stage, asked)).collect();
    let turns: Vec<(usize, Scenario)> = (0..servers.len()).map(|server| (server, KEEP_ALIVE)).collect();
    Ok(steps_of(numbers, play_in(&mut servers, &turns, rounds)?))
}

/// A server for each number of connections.
fn by_connections(rounds: usize, numbers: &[usize]) -> Result<Vec<Step>> {
    let stage = Stage::whole()?;
    let mut servers = Vec::new();
    for _ in numbers {
        servers.push(Asked::new(Peer::Ipse.start(&stage, &stage.cores.of_server())?));
    }
    let mut servers: Vec<(&Stage, &mut Asked)> = servers.iter_mut().map(|asked| (&stage, asked)).collect();
    let scenarios = numbers.iter().map(|connections| Scenario { connections: *connections, ..KEEP_ALIVE });
    let turns: Vec<(usize, Scenario)> = scenarios.enumerate().collect();
    Ok(steps_of(numbers, play_in(&mut servers, &turns, rounds)?))
}

/// One core, and all of them. Whoever asks needs one of them too.
fn by_cores(rounds: usize) -> Result<Vec<Step>> {
    let stage = Stage::whole()?;
    let (one, every) = (stage.cores.of_server(), stage.cores.every());
    let mut servers =
        [Asked::new(Peer::Ipse.start(&stage, &one)?), Asked::new(Peer::Ipse.start(&stage, &every)?)];
    Ok(steps_of(&[1, every.len()], play(&stage, &mut servers, &KEEP_ALIVE, rounds)?))
}

fn steps_of(amounts: &[usize], outcomes: Vec<Outcome>) -> Vec<Step> {
    amounts.iter().zip(outcomes).map(|(amount, outcome)| Step { amount: *amount, outcome }).collect()
}

impl Growth {
    pub(crate) fn tables(&self) -> Vec<Table> {
        [("keys", &self.keys), ("connections", &self.connections), ("cores", &self.cores)]
            .into_iter()
            .map(|(what, steps)| table(what, steps))
            .collect()
    }
}

fn table(what: &str, steps: &[Step]) -> Table {
    let title = format!("ipse, keep-alive HTTP/1.1, as {what} become more");
    let mut table = Table::new(&title, &[what, "CPU µs", "quartiles", "× first", "memory MiB"]);
    for step in steps {
        let cost = step.outcome.processor_us();
        table.row(vec![
            step.amount.to_string(),
            format!("{:.2}", cost.median()),
            quartiles(&cost),
            format!("{:.2}", cost.over(&steps[0].outcome.processor_us()).median()),
            mebibytes(step.outcome.resident_bytes()).to_string(),
        ]);
    }
    table
}
