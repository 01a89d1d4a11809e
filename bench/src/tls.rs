//! `bench tls`: TLS 1.3 with the same curve and certificate for everybody: connections that stay, those that come for one request,
//! and handshakes alone.

use crate::load::{Manner, Rhythm};
use crate::noise::Noise;
use crate::peer::Peer;
use crate::rounds::{Asked, Outcome, Scenario, play, play_in};
use crate::stage::Stage;
use crate::table::Table;
use anyhow::Result;

const KEEP_ALIVE: Scenario = Scenario {
    name: "TLS 1.3, keep-alive HTTP/1.1",
    manner: Manner::Tls,
    rhythm: Rhythm::KeepAlive,
    resumes: false,
    connections: 64,
    requests: 14_000,
};
const HTTP2: Scenario =
    Scenario { name: "TLS 1.3, HTTP/2, one request at a time", manner: Manner::Http2, ..KEEP_ALIVE };
const FRESH: Scenario = Scenario {
    name: "one request for each new TLS 1.3 connection",
    rhythm: Rhythm::Fresh,
    requests: 1_000,
    ..KEEP_ALIVE
};
const HANDSHAKES: Scenario =
    Scenario { name: "full handshakes", rhythm: Rhythm::Handshakes, requests: 1_000, ..KEEP_ALIVE };
const RESUMED: Scenario = Scenario { name: "resumed handshakes", resumes: true, ..HANDSHAKES };

const HTTP3: Scenario =
    Scenario { name: "HTTP/3, one request at a time", manner: Manner::Http3, requests: 7_000, ..KEEP_ALIVE };

/// What was seen of connections with TLS.
pub(crate) struct Tls {
    pub(crate) keep_alive: Vec<Outcome>,
    pub(crate) http2: Vec<Outcome>,
    pub(crate) fresh: Vec<Outcome>,
    pub(crate) handshakes: Vec<Outcome>,
    pub(crate) resumed: Vec<Outcome>,
    /// Of ipse alone: nobody else here speaks it.
    pub(crate) http3: Vec<Outcome>,
}

pub(crate) fn bench(rounds: usize) -> Result<()> {
    let stage = Stage::whole()?;
    let noise = Noise::begin()?;
    measure(&stage, rounds)?;
    noise.tell_of_host()
}

fn peers(stage: &Stage) -> Result<Vec<Asked>> {
    let start = |peer: Peer| Ok(Asked::new(peer.start(stage, &stage.cores.of_server())?));
    [Peer::Nginx, Peer::Ipse].into_iter().map(start).collect()
}

pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<Tls> {
    let mut asked = peers(stage)?;
    let mut cost = |scenario: &Scenario| {
        let outcomes = play(stage, &mut asked, scenario, rounds)?;
        Table::of_cost(scenario.name, &outcomes).print();
        anyhow::Ok(outcomes)
    };
    let (keep_alive, fresh) = (cost(&KEEP_ALIVE)?, cost(&FRESH)?);
    let mut shaken = |scenario: &Scenario| {
        let outcomes = play(stage, &mut asked, scenario, rounds)?;
        Table::of_handshakes(scenario.name, &outcomes).print();
        anyhow::Ok(outcomes)
    };
    let (handshakes, resumed) = (shaken(&HANDSHAKES)?, shaken(&RESUMED)?);
    // Both are compared, so they take turns. Nobody else here speaks HTTP/3.
    let mut servers: Vec<(&Stage, &mut Asked)> = asked.iter_mut().map(|asked| (stage, asked)).collect();
    let mut http2 = play_in(&mut servers, &[(0, HTTP2), (1, HTTP2), (1, HTTP3)], rounds)?;
    let http3 = http2.split_off(2);
    Table::of_cost(HTTP2.name, &http2).print();
    Table::of_cost(HTTP3.name, &http3).print();
    Ok(Tls { keep_alive, http2, fresh, handshakes, resumed, http3 })
}

/// A few requests to everybody, held to nothing but that all answers are right.
pub(crate) fn short(stage: &Stage) -> Result<()> {
    for mut asked in peers(stage)? {
        for scenario in [KEEP_ALIVE, HTTP2, FRESH, HANDSHAKES, RESUMED] {
            asked.run(stage, &Scenario { requests: 100, connections: 8, ..scenario })?;
        }
        if asked.running.peer == Peer::Ipse {
            asked.run(stage, &Scenario { requests: 100, connections: 8, ..HTTP3 })?;
        }
    }
    Ok(())
}

impl Tls {
    pub(crate) fn tables(&self) -> Vec<Table> {
        vec![
            Table::of_cost(KEEP_ALIVE.name, &self.keep_alive),
            Table::of_cost(HTTP2.name, &self.http2),
            Table::of_cost(FRESH.name, &self.fresh),
            Table::of_handshakes(HANDSHAKES.name, &self.handshakes),
            Table::of_handshakes(RESUMED.name, &self.resumed),
            Table::of_cost(HTTP3.name, &self.http3),
        ]
    }
}
