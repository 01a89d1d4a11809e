//! Nodes that count together, in a world of their own.
//!
//! What nodes do is the product's own code; what engines do is a twin of the function that they run.

mod node;
mod twin;
mod world;

use super::seen::Seen;
use ipse_testkit::Random;
use node::Nodes;
use world::World;

/// Lives through one world.
pub(super) fn one(seed: u64, requests: u64) -> (Seen, Vec<String>) {
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
            nodes.fold(node);
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
