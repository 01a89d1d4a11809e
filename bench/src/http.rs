//! `bench http`: clear connections, those that stay and those that come for one request, and how long callers wait.

use crate::load::{Manner, Rhythm};
use crate::noise::Noise;
use crate::peer::Peer;
use crate::rounds::{Asked, Outcome, Scenario, play};
use crate::stage::Stage;
use crate::table::Table;
use anyhow::Result;

const CONNECTIONS: usize = 64;
/// What is asked of everybody.
pub(crate) const KEEP_ALIVE: Scenario = Scenario {
    name: "keep-alive HTTP/1.1",
    manner: Manner::Clear,
    rhythm: Rhythm::KeepAlive,
    resumes: false,
    connections: CONNECTIONS,
    requests: 20_000,
};
const FRESH: Scenario = Scenario {
    name: "one request for each new clear connection",
    rhythm: Rhythm::Fresh,
    requests: 5_000,
    ..KEEP_ALIVE
};
const PACED: Scenario = Scenario {
    name: "10,000 requests a second",
    rhythm: Rhythm::Paced(10_000),
    requests: 7_000,
    ..KEEP_ALIVE
};
const PACED_TWICE: Scenario = Scenario {
    name: "20,000 requests a second",
    rhythm: Rhythm::Paced(20_000),
    requests: 14_000,
    ..KEEP_ALIVE
};

/// What was seen of clear connections.
pub(crate) struct Http {
    pub(crate) keep_alive: Vec<Outcome>,
    pub(crate) fresh: Vec<Outcome>,
    pub(crate) paced: Vec<Outcome>,
    paced_twice: Vec<Outcome>,
}

pub(crate) fn bench(rounds: usize) -> Result<()> {
    let stage = Stage::whole()?;
    let noise = Noise::begin()?;
    let http = measure(&stage, rounds)?;
    noise.tell(&http.keep_alive)
}

pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<Http> {
    let mut asked = Vec::new();
    for peer in Peer::ALL {
        asked.push(Asked::new(peer.start(stage, &stage.cores.of_server())?));
    }
    play_all(stage, &mut asked, rounds)
}

/// Every scenario, with these peers.
pub(crate) fn play_all(stage: &Stage, asked: &mut [Asked], rounds: usize) -> Result<Http> {
    // Each is printed as soon as it is there: whatever fails later takes nothing away from it.
    let keep_alive = play(stage, asked, &KEEP_ALIVE, rounds)?;
    Table::of_cost(KEEP_ALIVE.name, &keep_alive).print();
    let fresh = play(stage, asked, &FRESH, rounds)?;
    Table::of_cost(FRESH.name, &fresh).print();
    let paced = play(stage, asked, &PACED, rounds)?;
    Table::of_latency(PACED.name, &paced).print();
    let paced_twice = play(stage, asked, &PACED_TWICE, rounds)?;
    Table::of_latency(PACED_TWICE.name, &paced_twice).print();
    Ok(Http { keep_alive, fresh, paced, paced_twice })
}

/// A few requests to everybody, held to nothing but that all answers are right.
pub(crate) fn short(stage: &Stage) -> Result<()> {
    for peer in Peer::ALL {
        let mut asked = Asked::new(peer.start(stage, &stage.cores.of_server())?);
        for scenario in [KEEP_ALIVE, FRESH, PACED, PACED_TWICE] {
            asked.run(stage, &Scenario { requests: 300, connections: 8, ..scenario })?;
        }
    }
    Ok(())
}

impl Http {
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![
            Table::of_cost(KEEP_ALIVE.name, &self.keep_alive),
            Table::of_cost(FRESH.name, &self.fresh),
            Table::of_latency(PACED.name, &self.paced),
            Table::of_latency(PACED_TWICE.name, &self.paced_twice),
        ]
    }
}
