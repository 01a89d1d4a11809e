//! How long each peer takes from its start to its first answer, with its data and its keys in place.

use crate::figures::Figures;
use crate::peer::Peer;
use crate::stage::Stage;
use crate::table::{Table, quartiles};
use anyhow::{Result, ensure};
use ipse_testkit::Connection;

/// What was seen of one peer, in milliseconds.
pub(crate) struct Started {
    peer: Peer,
    ms: Figures,
}

/// Starts everybody once in each round, in an order that moves on.
pub(crate) fn measure(stage: &Stage, rounds: usize) -> Result<Vec<Started>> {
    let mut all = Peer::ALL.map(|peer| Started { peer, ms: Figures::default() });
    for round in 0..rounds {
        for turn in 0..all.len() {
            let Started { peer, ms } = &mut all[(turn + round) % Peer::ALL.len()];
            ms.0.push(start(stage, *peer)?);
        }
    }
    table(&all).print();
    Ok(all.into())
}

fn start(stage: &Stage, peer: Peer) -> Result<f64> {
    let running = peer.start(stage, &stage.cores.of_server())?;
    let answered = Connection::open(running.clear)?.get("/api/v1/ip", Some(stage.keys[0].reveal()))?;
    let ms = running.begun.seconds() * 1e3;
    ensure!(answered.status == 200, "{} answered {}: {}", peer.name(), answered.status, answered.body);
    Ok(ms)
}

pub(crate) fn table(all: &[Started]) -> Table {
    let mut table = Table::new("start to the first answer", &["", "ms", "quartiles"]);
    for Started { peer, ms } in all {
        table.row(vec![peer.name().to_owned(), format!("{:.0}", ms.median()), quartiles(ms)]);
    }
    table
}
