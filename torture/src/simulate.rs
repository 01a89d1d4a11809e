//! The protocol of shared counters in a world that is all chance: crashes, partitions, clocks that jump, engines that forget,
//! fall behind and split in two, replies that are lost and come late. Each world follows from its seed.
//!
//! What nodes do is the product's own code; what engines do is a twin of the function that they run.

mod node;
mod twin;
mod world;

use crate::campaign::Options;
use crate::random::Random;
use anyhow::{Result, ensure};
use node::Nodes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use world::{Seen, World};

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
                    one(Random::new(options.seed ^ world.rotate_left(32)).next(), requests);
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
    let Seen { requests, answered, used_up, pauses, unknown, mishaps } = seen;
    let figure = format!(
        "{requests} requests in {worlds} worlds with {mishaps} mishaps: {answered} answered, {used_up} over the day, {pauses} pauses, \
         {unknown} not decided; {} violations",
        faults.len()
    );
    ensure!(faults.is_empty(), "{figure}; the first: {}", faults[0]);
    // A run that never reached a limit has shown nothing.
    let reached = answered > 0 && used_up > 0 && (options.count < 100_000 || pauses > 0) && unknown > 0;
    ensure!(reached, "the requests reached no limit: {figure}");
    Ok(figure)
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.answered += more.answered;
        self.used_up += more.used_up;
        self.pauses += more.pauses;
        self.unknown += more.unknown;
        self.mishaps += more.mishaps;
    }
}

/// Lives through one world.
fn one(seed: u64, requests: u64) -> (Seen, Vec<String>) {
    let mut random = Random::new(seed);
    let nodes_count = 1 + random.index(4);
    let keys_count = 1 + random.index(3);
    // Some worlds are calm, some are nothing but trouble; in some a key is asked for all the time, in some hardly.
    let mishap_in = *random.pick(&[50, 500, 5_000, u64::MAX]);
    let pace_ms = *random.pick(&[2, 40, 400, 4_000]);
    let mut nodes = Nodes::new(World::new(random.clone(), nodes_count, keys_count), nodes_count);
    for node in 0..nodes_count {
        nodes.world().connect(node);
    }
    while nodes.world().seen.requests < requests {
        {
            let mut world = nodes.world();
            world.now += random.below(pace_ms);
            if random.below(mishap_in) == 0 {
                world.mishap();
            }
            if random.below(2_000) == 0 {
                // The night falls at once.
                world.now += (86_400_000 - world.now % 86_400_000).saturating_sub(random.below(20));
            }
            if random.below(4) > 0 {
                world.deliver();
            }
            let node = random.index(nodes_count);
            if world.lines[node].is_none() && random.below(20) == 0 {
                world.connect(node);
            }
            if random.below(50) == 0 {
                world.find_out();
            }
            if random.below(300) == 0 {
                let place = random.index(keys_count);
                world.resume(place);
            }
        }
        nodes.go_on();
        let node = random.index(nodes_count);
        if random.below(mishap_in.saturating_mul(4)) == 0 {
            nodes.kill(node);
        }
        if random.below(20) == 0 {
            nodes.hear(node);
        }
        if !nodes.is_busy() && random.below(3) == 0 {
            nodes.request(node, random.index(keys_count));
        }
    }
    while !nodes.world().is_quiet() {
        nodes.world().deliver();
        nodes.go_on();
    }
    let mut world = nodes.world();
    (world.seen, std::mem::take(&mut world.faults))
}
