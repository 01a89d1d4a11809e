//! Fault campaigns against the real thing: `cargo xtask torture NAME [--count N] [--seed N]`.
//!
//! Each campaign prints its seed, its figure and the command that replays it, and fails if the figure misses its
//! target. `short` runs every campaign in a small form; the tests do.

#![expect(clippy::print_stdout, reason = "campaigns report to the terminal")]

mod burst;
mod campaign;
mod coding;
mod damage;
mod disk;
mod files;
mod flood;
mod frames;
mod front;
mod geo;
mod hostile;
mod idle;
mod inside;
mod keys;
mod kill;
mod load;
mod login;
mod midnight;
mod mischief;
mod nodes;
mod paced;
mod power;
mod reload;
mod reload_log;
mod restart;
mod rtt;
mod secret;
mod server;
mod simulate;
mod snapshots;
mod spoof;
mod stage;
mod start;
mod steady;
mod tally;
mod window;

use anyhow::{Result, bail};
use campaign::{Campaign, Options};
use std::process::ExitCode;

/// Every campaign: its name, its full count, its count in the tests, and what it does.
const CAMPAIGNS: &[Campaign] = &[
    Campaign { name: "window", full_count: 1_000_000, short_count: 50_000, work: window::work },
    Campaign { name: "burst", full_count: 1_000, short_count: 20, work: burst::work },
    Campaign { name: "midnight", full_count: 1_000, short_count: 20, work: midnight::work },
    Campaign { name: "hostile", full_count: 1_000_000, short_count: 5_000, work: hostile::work },
    Campaign { name: "frames", full_count: 1_000_000, short_count: 2_000, work: frames::work },
    Campaign { name: "flood", full_count: 1_000_000, short_count: 3_000, work: flood::work },
    Campaign { name: "spoof", full_count: 1_000_000, short_count: 3_000, work: spoof::work },
    Campaign { name: "front", full_count: 1_000_000, short_count: 300, work: front::work },
    Campaign { name: "files", full_count: 100_000, short_count: 132, work: files::work },
    Campaign { name: "geo", full_count: 1_000_000, short_count: 20_000, work: geo::work },
    Campaign { name: "kill", full_count: 1_000, short_count: 20, work: kill::work },
    Campaign { name: "power", full_count: 500, short_count: 5, work: power::work },
    Campaign { name: "restart", full_count: 100, short_count: 3, work: restart::work },
    Campaign { name: "reload", full_count: 1_000, short_count: 4, work: reload::work },
    Campaign { name: "rtt", full_count: 20, short_count: 5, work: rtt::work },
    Campaign { name: "login", full_count: 10_000, short_count: 300, work: login::work },
    Campaign { name: "nodes burst", full_count: 10_000, short_count: 10, work: nodes::burst },
    Campaign { name: "nodes day", full_count: 200, short_count: 2, work: nodes::day },
    Campaign { name: "nodes spread", full_count: 1_000, short_count: 20, work: nodes::spread },
    Campaign { name: "nodes outage", full_count: 150, short_count: 6, work: nodes::outage },
    Campaign { name: "simulate", full_count: 100_000_000, short_count: 400_000, work: simulate::work },
    Campaign { name: "idle", full_count: 20_000, short_count: 200, work: idle::work },
];

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let names: Vec<&str> = CAMPAIGNS.iter().map(|campaign| campaign.name).collect();
    match arguments {
        [command] if command == "short" => {
            for campaign in CAMPAIGNS {
                campaign.run(&Options { count: campaign.short_count, seed: ipse_testkit::fresh_seed() })?;
            }
            start::bench_short()?;
            geo::speed::bench_short()?;
            keys::bench_short()?;
            nodes::cost::bench_short()
        }
        // The campaign `files` starts itself again to read what may be the end of whoever reads it.
        [command] if command == files::READER => files::read_until_end(),
        // The campaign `flood` starts itself again as the attacker.
        [command, rest @ ..] if command == flood::ATTACKER => flood::attack(rest),
        // The measurement `keys` starts itself again to load a table.
        [command, place] if command == keys::LOADER => keys::load(place),
        [command, rest @ ..] if command == "bench" => match rest {
            [name] if name == "start" => start::bench(),
            [name] if name == "geo" => geo::speed::bench(),
            [name] if name == "keys" => keys::bench(),
            [name] if name == "nodes" => nodes::cost::bench(),
            _ => bail!(
                "there are four measurements, of one length each: bench start, bench geo, bench keys and bench nodes"
            ),
        },
        [first, rest @ ..] => {
            // Some have a name of two words.
            let two = rest.first().map(|second| format!("{first} {second}"));
            let named = |name: &str| CAMPAIGNS.iter().find(|campaign| campaign.name == name);
            let (campaign, rest) = match two.as_deref().and_then(named) {
                Some(campaign) => (Some(campaign), &rest[1..]),
                None => (named(first), rest),
            };
            match campaign {
                Some(campaign) => campaign.run(&Options::parse(rest, campaign.full_count)?),
                None => bail!("there is no campaign {first:?}; there are short, {}", names.join(", ")),
            }
        }
        [] => bail!("name a campaign: short, {}", names.join(", ")),
    }
}
