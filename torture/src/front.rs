//! The front against hyper: two servers of the same program, one with the front and one without, are told the same bytes in
//! the same writes, and everything that a caller can see of them must be the same.
//!
//! What is masked stands in `told.rs`. The clock of both stands still while connections are under way, and a day passes between
//! two batches of them, so each connection begins with a key that nobody has used.

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
use ipse_store::Subject;
use ipse_testkit::Random;
use pair::{Exempt, Pair};
use plan::{Class, Ending, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use talk::{Outcome, talk};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use trial::{Verdict, try_again};

/// So many connections to each server at once.
const AT_ONCE: usize = 128;
/// So many connections on one day, each with a key of its own. They leave some of the demo's day.
const BATCH: u64 = 4_096;
/// In one batch of so many the demo is used up before it begins.
const DEMO_USED_UP: u64 = 4;
/// After so many differences the rest is not of interest.
const MOST_DIFFERENCES: usize = 8;
/// So much of what both said alike is shown before the first difference.
const ALIKE_SHOWN: usize = 120;

pub(crate) fn work(options: &Options) -> Result<String> {
    let pair = Pair::start(options.count.min(BATCH))?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let (mut tally, mut exempt, mut differences) = (Tally::default(), Exempt::default(), Vec::new());
    let (mut next, mut before) = (0, Vec::<Plan>::new());
    while next < options.count && differences.len() < MOST_DIFFERENCES {
        let plans = plans(&pair, options, &mut next);
        if plans.is_empty() {
            bail!("there are too few keys");
        }
        pair.fresh_day(before.iter().chain(&plans))?;
        before = plans.iter().filter(|plan| plan.may_be_paused()).cloned().collect();
        let today = pair.today();
        // Who resets may do so before a slow server has charged them.
        let resets = plans.iter().filter(|plan| plan.ending == Ending::ListenAndReset);
        exempt.subjects.extend(resets.map(|plan| (today, Subject::Key(plan.key.id))));
        let doubts = run(&runtime, &pair, plans, &mut tally)?;
        for Doubt { plan, outcomes } in doubts {
            exempt.subjects.insert((today, Subject::Key(plan.key.id)));
            if plan.is_of_demo() {
                exempt.subjects.insert((today, Subject::Demo));
            }
            match try_again(&runtime, &pair, &plan, outcomes, &mut exempt)? {
                Verdict::ByTheMoment => tally.by_the_moment += 1,
                Verdict::Different(outcomes) => {
                    let told = told(&plan, &outcomes);
                    println!("{told}");
                    differences.push(told);
                }
            }
            if differences.len() >= MOST_DIFFERENCES {
                break;
            }
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

/// Whether the connection of this seed, and with it its batch, finds the demo used up.
fn demo_is_used_up(seed: u64) -> bool {
    (seed / BATCH) % DEMO_USED_UP == DEMO_USED_UP - 1
}

/// The plans of the next batch: as many as there are keys for.
fn plans(pair: &Pair, options: &Options, next: &mut u64) -> Vec<Plan> {
    let mut deal = pair.deal();
    let mut plans = Vec::new();
    while *next < options.count {
        // The seeds of connections follow each other, so that any of them can be replayed alone.
        let seed = options.seed.wrapping_add(*next);
        let mut random = Random::new(Random::new(seed).next());
        let class = Class::draw(&mut random);
        let Some(key) = deal.take(class) else { break };
        plans.push(Plan::invent(seed, &mut random, class, key));
        *next += 1;
        if (seed + 1).is_multiple_of(BATCH) {
            break;
        }
    }
    plans
}

/// Carries out plans, many at once.
fn run(runtime: &Runtime, pair: &Pair, mut plans: Vec<Plan>, tally: &mut Tally) -> Result<Vec<Doubt>> {
    // Who takes their time begins first.
    plans.sort_by_key(|plan| !plan.is_slow);
    let plans = Arc::new(Mutex::new(VecDeque::from(plans)));
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (plans, doors) = (Arc::clone(&plans), pair.doors.clone());
            workers.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let plan = plans.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(plan) = plan else { return Ok(done) };
                    let outcomes = talk(&doors, &plan).await?;
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
    let alike = with.told.iter().zip(&without.told).take_while(|(one, other)| one == other).count();
    // A little of what is the same tells where that is.
    let from = alike.saturating_sub(ALIKE_SHOWN);
    let side = |outcome: &Outcome| {
        format!(
            "{:?} after {} bytes, {from} and then {}",
            outcome.end,
            outcome.told.len(),
            shown(&outcome.told[from..])
        )
    };
    format!(
        "a difference: {}\n  with the front: {}\n  without: {}\n  replay with: cargo xtask torture front --count 1 --seed {}",
        plan.shown(),
        side(with),
        side(without),
        plan.seed
    )
}
