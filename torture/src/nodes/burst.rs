//! The 301st request of a minute, raced over three nodes: they pause a key as one would.

use super::house::{House, NODES, PATIENT};
use crate::burst::race_over;
use crate::campaign::Options;
use anyhow::{Context, Result, ensure};
use ipse_model::{BURST_LIMIT, DAILY_LIMIT, KeyState};
use ipse_testkit::{Flavour, Random, Redis};
use std::net::SocketAddr;

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let mut requests = 0;
    for (flavour, races) in
        [(Flavour::Redis, options.count.div_ceil(2)), (Flavour::Valkey, options.count / 2)]
    {
        let house = House::new(&[PATIENT])?;
        let keys = house.keys(&vec![DAILY_LIMIT; usize::try_from(races)?])?;
        let engine = Redis::start(flavour)?;
        let nodes = (0..NODES).map(|number| house.node(number, &engine.url())).collect::<Result<Vec<_>>>()?;
        let doors: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
        for (number, key) in keys.iter().enumerate() {
            requests += race_over(&mut random, &doors, &key.text, 0, BURST_LIMIT)
                .with_context(|| format!("race {number} with {flavour:?}"))?;
        }
        let listed = house.wait(house.records.keys(None))?;
        let paused = listed.iter().filter(|key| key.state == KeyState::Paused).count();
        ensure!(paused == keys.len(), "{paused} of {} keys are paused", keys.len());
    }
    Ok(format!(
        "{} races over {NODES} nodes, half with Redis and half with Valkey, {requests} requests: each granted exactly \
         {BURST_LIMIT} and paused its key exactly once",
        options.count
    ))
}
