//! The front against hyper: two servers of the same program, one with the front and one without, are told the same bytes in
//! the same writes, and everything that a caller can see of them must be the same.
//!
//! Only `Date` and the round-trip time are masked. The clock of both stands still while connections are under way, and moves
//! between them.

mod fields;
mod pair;
mod plan;
mod request;
mod talk;
mod told;
mod trial;

use crate::campaign::Options;
use crate::mischief::shown;
use anyhow::{Result, anyhow, bail};
use ipse_testkit::Random;
use pair::{Exempt, Pair};
use plan::{Class, Ending, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use talk::{Outcome, Pace, talk};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use trial::{Verdict, try_again};

/// So many connections to each server at once.
const AT_ONCE: usize = 96;
/// So many connections between two moves of the clock, each with a key of its own.
const BATCH: u64 = 2_048;
/// A day has so many of these.
const BATCHES_A_DAY: u64 = 12;
/// Two servers that have not said the same within this time differ.
const PATIENCE: Duration = Duration::from_secs(5);
/// After so many differences the rest is not of interest.
const MOST_DIFFERENCES: usize = 8;

pub(crate) fn work(options: &Options) -> Result<String> {
    let pair = Pair::start(options.count.min(BATCH))?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (mut tally, mut exempt, mut differences) = (Tally::default(), Exempt::default(), Vec::new());
    let (mut next, mut batches) = (0, 0);
    while next < options.count {
        let plans = plans(&pair, options, &mut next);
        if plans.is_empty() {
            bail!("there are too few keys");
        }
        let doubts = run(&runtime, &pair, plans, &mut tally)?;
        batches += 1;
        pair.next_minute();
        for Doubt { plan, outcomes } in doubts {
            let today = pair.today();
            exempt.subjects.extend([(today, plan.subject), (today, ipse_store::Subject::Demo)]);
            let verdict = try_again(&runtime, &pair, &plan, &outcomes, &mut exempt)?;
            match verdict {
                Verdict::ByTheMoment => tally.by_the_moment += 1,
                Verdict::Different(outcomes) => {
                    let told = told(&plan, &outcomes);
                    println!("{told}");
                    differences.push(told);
                }
            }
        }
        if differences.len() >= MOST_DIFFERENCES {
            break;
        }
        if batches % BATCHES_A_DAY == 0 {
            pair.next_day();
        }
    }
    let settled = pair.settle(&exempt);
    let Tally { connections, requests, answers, by_door, ends, by_the_moment } = tally;
    let listed = |counts: &BTreeMap<String, u64>| {
        let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        each.join(", ")
    };
    let figure = format!(
        "{connections} connections to each of two servers ({}) with {requests} requests and {answers} answers; ended: {}; \
         {by_the_moment} decided by the moment; {} differences",
        listed(&by_door),
        listed(&ends),
        differences.len()
    );
    if let Some(first) = differences.first() {
        bail!("{figure}; the first: {first}");
    }
    Ok(format!("{figure}; {} charged alike", settled?))
}

/// What was seen.
#[derive(Default)]
struct Tally {
    connections: u64,
    requests: u64,
    answers: u64,
    by_door: BTreeMap<String, u64>,
    ends: BTreeMap<String, u64>,
    /// Connections of which both servers say now one thing, now another.
    by_the_moment: u64,
}

/// A plan of which the two servers did not make the same.
struct Doubt {
    plan: Plan,
    outcomes: [Outcome; 2],
}

/// The plans of the next batch: as many as there are keys for.
fn plans(pair: &Pair, options: &Options, next: &mut u64) -> Vec<Plan> {
    let mut deal = pair.deal();
    let mut plans = Vec::new();
    while *next < options.count && (plans.len() as u64) < BATCH {
        // The seeds of connections follow each other, so that any of them can be replayed alone.
        let seed = options.seed.wrapping_add(*next);
        let mut random = Random::new(Random::new(seed).next());
        let class = Class::draw(&mut random);
        let Some(key) = deal.take(class) else { break };
        plans.push(Plan::invent(seed, &mut random, class, key));
        *next += 1;
    }
    plans
}

/// Carries out plans, many at once; but those that ask for the demo one after the other, because they share what is charged.
fn run(runtime: &Runtime, pair: &Pair, plans: Vec<Plan>, tally: &mut Tally) -> Result<Vec<Doubt>> {
    let (demo, mut others): (Vec<_>, Vec<_>) = plans.into_iter().partition(Plan::is_of_demo);
    // Who takes their time begins first.
    others.sort_by_key(|plan| !plan.is_slow());
    let queue = |plans: Vec<Plan>| Arc::new(Mutex::new(VecDeque::from(plans)));
    let (demo, others) = (queue(demo), queue(others));
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for number in 0..AT_ONCE {
            let plans = Arc::clone(if number == 0 { &demo } else { &others });
            let doors = pair.doors.clone();
            workers.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let plan = plans.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(plan) = plan else { return Ok(done) };
                    let outcomes = talk(&doors, &plan, PATIENCE, Pace::AsPlanned).await?;
                    done.push((plan, outcomes));
                }
            });
        }
        let mut doubts = Vec::new();
        while let Some(done) = workers.join_next().await {
            let done: Result<Vec<(Plan, [Outcome; 2])>> = done.map_err(|_| anyhow!("a caller panicked"))?;
            for (plan, outcomes) in done? {
                tally.connections += 1;
                tally.requests += plan.requests;
                *tally.by_door.entry(format!("{:?}", plan.door)).or_default() += 1;
                if plan.ending == Ending::Vanish {
                    continue;
                }
                tally.answers += told::answers(&outcomes[0].told) as u64;
                *tally.ends.entry(format!("{:?}", outcomes[0].end)).or_default() += 1;
                if outcomes[0] != outcomes[1] {
                    doubts.push(Doubt { plan, outcomes });
                }
            }
        }
        Ok(doubts)
    })
}

/// A difference, for people.
fn told(plan: &Plan, [with, without]: &[Outcome; 2]) -> String {
    let side = |outcome: &Outcome| format!("{:?} after {}", outcome.end, shown(&outcome.told));
    format!(
        "a difference: {}\n  with the front: {}\n  without: {}\n  replay with: cargo xtask torture front --count 1 --seed {}",
        plan.shown(),
        side(with),
        side(without),
        plan.seed
    )
}
