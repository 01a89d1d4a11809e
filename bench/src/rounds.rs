//! Rounds: every peer once in each, in an order that moves on, so that what the machine does meanwhile falls on all of them.

use crate::figures::Figures;
use crate::load::{Manner, Plan, Rhythm, Seen};
use crate::peer::{Peer, Running};
use crate::stage::Stage;
use crate::truth;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::net::IpAddr;

/// A server that uses less of its core was not what held a run up.
const BUSY: f64 = 0.8;
/// Where the generator stood still during more than one request of so many, nothing is known of how long callers wait.
const VOID_ONE_IN: usize = 5;
/// So many answers of each run are compared with the truth.
const SAMPLES: usize = 64;
/// A run begins with a part of its requests that is not counted, to warm up.
const WARM_UP_ONE_IN: usize = 10;

/// What is done with a peer in each round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) manner: Manner,
    pub(crate) rhythm: Rhythm,
    /// Whether new connections come back with tickets of older ones.
    pub(crate) resumes: bool,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
}

/// A peer on the stage, and how far keys were dealt to it.
pub(crate) struct Asked {
    pub(crate) running: Running,
    dealt: usize,
}

/// What was seen of one peer in one scenario, round by round.
pub(crate) struct Outcome {
    pub(crate) peer: Peer,
    pub(crate) seen: Vec<Seen>,
}

impl Asked {
    pub(crate) fn new(running: Running) -> Self {
        Self { running, dealt: 0 }
    }

    /// One run.
    pub(crate) fn run(&mut self, stage: &Stage, scenario: &Scenario) -> Result<Seen> {
        let door = match scenario.manner {
            Manner::Clear => self.running.clear,
            Manner::Tls | Manner::Http2 | Manner::Http3 => self.running.tls.context("it speaks no TLS")?,
        };
        let warm_up = (scenario.requests / WARM_UP_ONE_IN).max(2 * scenario.connections);
        let plan = Plan {
            door,
            manner: scenario.manner,
            rhythm: scenario.rhythm,
            resumes: scenario.resumes,
            connections: scenario.connections,
            warm_up,
            requests: scenario.requests,
            first: self.dealt,
            keys: stage.keys_file.clone(),
            addresses: stage.addresses_file.clone(),
            processes: self.running.processes.clone(),
            cores: stage.cores.of_load(),
            samples: SAMPLES,
        };
        self.dealt += warm_up + scenario.requests + scenario.connections;
        let mut seen =
            plan.carry_out().with_context(|| format!("{}: {}", scenario.name, self.running.peer.name()))?;
        self.check(stage, &seen)?;
        seen.samples.clear();
        Ok(seen)
    }

    /// Holds what was answered to the truth.
    fn check(&self, stage: &Stage, seen: &Seen) -> Result<()> {
        for (ip, body) in &seen.samples {
            let compared = if self.running.peer.looks_up() {
                let ip: IpAddr = ip.parse()?;
                truth::compare(body.as_bytes(), &truth::expected(&stage.atlas, ip)?)
            } else {
                serde_json::from_str::<Value>(body).map(drop).map_err(Into::into)
            };
            compared.with_context(|| format!("{} is not right about {ip}", self.running.peer.name()))?;
        }
        Ok(())
    }
}

/// All rounds of one scenario, with every peer.
pub(crate) fn play(
    stage: &Stage,
    asked: &mut [Asked],
    scenario: &Scenario,
    rounds: usize,
) -> Result<Vec<Outcome>> {
    let mut servers: Vec<(&Stage, &mut Asked)> = asked.iter_mut().map(|asked| (stage, asked)).collect();
    let turns: Vec<(usize, Scenario)> = (0..servers.len()).map(|server| (server, *scenario)).collect();
    play_in(&mut servers, &turns, rounds)
}

/// All rounds, where every turn is of one of the servers and has a scenario of its own. The first round warms up and is not counted.
pub(crate) fn play_in(
    servers: &mut [(&Stage, &mut Asked)],
    turns: &[(usize, Scenario)],
    rounds: usize,
) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = turns
        .iter()
        .map(|(server, _)| Outcome { peer: servers[*server].1.running.peer, seen: Vec::new() })
        .collect();
    for round in 0..=rounds {
        for turn in 0..turns.len() {
            let place = (turn + round) % turns.len();
            let (server, scenario) = &turns[place];
            let (stage, asked) = &mut servers[*server];
            let seen = asked.run(stage, scenario)?;
            if round > 0 {
                outcomes[place].seen.push(seen);
            }
        }
    }
    for (outcome, (_, scenario)) in outcomes.iter().zip(turns) {
        outcome.was_kept(scenario)?;
    }
    Ok(outcomes)
}

impl Outcome {
    /// Figures of each round.
    pub(crate) fn of(&self, figure: impl Fn(&Seen) -> f64) -> Figures {
        Figures(self.seen.iter().map(figure).collect())
    }

    /// Processor time of a request, in microseconds.
    pub(crate) fn processor_us(&self) -> Figures {
        self.of(Seen::processor_us)
    }

    /// Requests a second; nothing if the generator was what held them up. What a request costs is known all the same: it is
    /// counted, and not concluded from how many there were.
    pub(crate) fn per_second(&self) -> Option<f64> {
        (self.of(Seen::share).median() >= BUSY).then(|| self.of(Seen::per_second).median())
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.seen.iter().map(|seen| seen.resident_bytes).max().unwrap_or_default()
    }

    /// Whether the generator kept the rate; without that a run says nothing about the server.
    fn was_kept(&self, scenario: &Scenario) -> Result<()> {
        let void: usize = self.seen.iter().map(|seen| seen.void).sum();
        let all: usize = self.seen.iter().map(|seen| seen.answers).sum();
        ensure!(
            void * VOID_ONE_IN <= all,
            "{}: the generator stood still during {void} of {all} requests to {}: nothing is reported. Let the machine \
             do nothing else meanwhile.",
            scenario.name,
            self.peer.name()
        );
        Ok(())
    }
}
