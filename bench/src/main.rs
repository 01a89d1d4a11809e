//! Measurements side by side: `cargo xtask bench [NAME] [--quick]`.
//!
//! ipse stands beside what a user would pick instead and beside the least that a server can do, in one run on one machine.
//! `short` asks everybody a few times, and holds nobody to a time; the tests do.

#![expect(clippy::print_stdout, reason = "measurements report to the terminal")]

mod compare;
mod cores;
mod figures;
mod growth;
mod http;
mod instructions;
mod keys;
mod ledger;
mod load;
mod mmdb;
mod noise;
mod page;
mod peer;
mod plot;
mod rounds;
mod stage;
mod startup;
mod table;
mod targets;
mod tls;
mod truth;

use anyhow::{Result, bail};
use instructions::Purpose;
use std::process::ExitCode;

/// Rounds of a run that counts, and of one in a hurry. They are many and short: what disturbs a machine for a second then falls on
/// one of them, or on all peers of it.
const ROUNDS: usize = 27;
const QUICK_ROUNDS: usize = 9;
/// What takes long to set up has one of so many.
const GROWTH_ONE_IN: usize = 3;

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
    let (quick, words): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| *word == "--quick");
    let rounds = if quick.is_empty() { ROUNDS } else { QUICK_ROUNDS };
    match words[..] {
        // This program starts itself again as what it measures, and as who asks.
        [peer::SERVER, ..] => {
            end_with_parent()?;
            peer::serve(&arguments[1..])
        }
        [load::GENERATOR] => {
            end_with_parent()?;
            load::generate()
        }
        [] => page::bench(rounds),
        ["short"] => short(),
        ["http"] => http::bench(rounds),
        ["tls"] => tls::bench(rounds),
        ["compare", base] => compare::bench(base, rounds),
        ["ledger"] => ledger::bench(),
        ["growth"] => growth::bench(rounds / GROWTH_ONE_IN),
        ["instructions"] => instructions::bench(&stage::Stage::short()?, Purpose::Compare),
        ["instructions", "--record"] => instructions::bench(&stage::Stage::short()?, Purpose::Record),
        _ => bail!(
            "there are http, tls, growth, instructions, ledger, compare BASE and short; start, geo, keys and nodes are measured elsewhere"
        ),
    }
}

fn short() -> Result<()> {
    let stage = stage::Stage::short()?;
    http::short(&stage)?;
    tls::short(&stage)?;
    growth::short(&stage)?;
    startup::measure(&stage, 1)?;
    println!("bench: all peers answer, and all answers are right");
    Ok(())
}

/// Whoever started this may be killed, and nobody else would end what it started.
fn end_with_parent() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}
