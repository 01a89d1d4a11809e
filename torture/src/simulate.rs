//! The protocol of shared counters in a world that is all chance: crashes, partitions, clocks that jump, engines that forget,
//! fall behind and split in two, replies that are lost and come late. Each world follows from its seed.
//!
//! What nodes do is the product's own code; what engines do is a twin of the function that they run.

mod seen;
mod shared;

use crate::campaign::Options;
use crate::random::Random;
use anyhow::{Result, ensure};
use seen::Seen;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Requests in one world: enough for days to end and keys to be paused, and so few that a fault is found again quickly.
const REQUESTS_EACH: u64 = 4_000;

pub(crate) fn work(options: &Options) -> Result<String> {
    let worlds = options.count.div_ceil(REQUESTS_EACH);
    let next = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (mut seen, mut faults) = (Seen::default(), Vec::new());
    thread::scope(|scope| {
        let run = || {
            let (mut seen, mut faults) = (Seen::default(), Vec::new());
            loop {
                let world = next.fetch_add(1, Ordering::Relaxed);
                if world >= worlds {
                    return (seen, faults);
                }
                let requests = REQUESTS_EACH.min(options.count - world * REQUESTS_EACH);
                let (of_world, found) =
                    shared::one(Random::new(options.seed ^ world.rotate_left(32)).next(), requests);
                seen += of_world;
                faults.extend(found.into_iter().map(|fault| format!("world {world}: {fault}")));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            match thread.join() {
                Ok((of_thread, found)) => {
                    seen += of_thread;
                    faults.extend(found);
                }
                Err(_) => faults.push("the simulation itself panicked".to_owned()),
            }
        }
    });
    let Seen { requests, answered, leased, paused_alone, used_up, pauses, unknown, mishaps } = seen;
    let figure = format!(
        "{requests} requests in {worlds} worlds with {mishaps} mishaps: {answered} answered, {leased} of them \
         without the engines, {used_up} over the day, {pauses} pauses, {paused_alone} \
         found by one node alone, {unknown} not decided; {} violations",
        faults.len()
    );
    ensure!(faults.is_empty(), "{figure}; the first: {}", faults[0]);
    // A run that never reached a limit has shown nothing.
    let reached = answered > 0 && used_up > 0 && (options.count < 100_000 || pauses > 0) && unknown > 0;
    ensure!(reached, "the requests reached no limit: {figure}");
    Ok(figure)
}
