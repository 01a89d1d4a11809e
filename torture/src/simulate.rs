//! The counters in worlds that are all chance, each of which follows from its seed. In half of them nodes count together: they die, are cut
//! off, their engines forget, fall behind and split in two, replies are lost and come late. In the other half one machine
//! counts alone: its process dies, its power fails, its disk and its records fail. Clocks jump in all of them.
//!
//! What decides is the product's own code.

mod ledger;
mod seen;
mod shared;

use crate::campaign::Options;
use anyhow::{Result, ensure};
use ipse_testkit::Random;
use seen::Seen;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Requests in one world: enough for days to end and keys to be paused, and so few that a fault is found again quickly.
const REQUESTS_EACH: u64 = 4_000;

/// What was seen of both engines.
#[derive(Default)]
struct Both {
    shared: Seen,
    ledger: Seen,
    faults: Vec<String>,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let worlds = options.count.div_ceil(REQUESTS_EACH);
    let next = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all = Both::default();
    thread::scope(|scope| {
        let run = || {
            let mut seen = Both::default();
            loop {
                let world = next.fetch_add(1, Ordering::Relaxed);
                if world >= worlds {
                    return seen;
                }
                let requests = REQUESTS_EACH.min(options.count - world * REQUESTS_EACH);
                let seed = Random::new(options.seed ^ world.rotate_left(32)).next();
                let found = if world.is_multiple_of(2) {
                    let (of_world, found) = shared::one(seed, requests);
                    seen.shared += of_world;
                    found
                } else {
                    let (of_world, found) = ledger::one(seed, requests);
                    seen.ledger += of_world;
                    found
                };
                seen.faults.extend(found.into_iter().map(|fault| format!("world {world}: {fault}")));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            match thread.join() {
                Ok(seen) => {
                    all.shared += seen.shared;
                    all.ledger += seen.ledger;
                    all.faults.extend(seen.faults);
                }
                Err(_) => all.faults.push("the simulation itself panicked".to_owned()),
            }
        }
    });
    let figure = format!(
        "{worlds} worlds; counted together: {}; counted alone: {}; {} violations",
        all.shared,
        all.ledger,
        all.faults.len()
    );
    ensure!(all.faults.is_empty(), "{figure}; the first: {}", all.faults[0]);
    for seen in [all.shared, all.ledger] {
        // A run that never reached a limit has shown nothing.
        let has_answers = seen.answered > 0 && seen.used_up > 0 && seen.unknown > 0;
        let has_pauses = options.count < 100_000 || seen.pauses > 0;
        ensure!(has_answers && has_pauses, "the requests reached no limit: {figure}");
    }
    ensure!(options.count < 100_000 || all.shared.leased > 0, "nobody counted without the engines: {figure}");
    ensure!(options.count < 100_000 || all.ledger.taken_back > 0, "no turn failed to be written: {figure}");
    Ok(figure)
}
