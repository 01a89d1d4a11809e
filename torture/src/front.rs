//! The front against hyper: two servers of the same program, one with the front and one without, are told the same bytes in
//! the same writes, and everything that a caller can see of them must be the same.
//!
//! What is masked stands in `told.rs`. The clock of both stands still while connections are under way, and a day passes between
//! two batches of them, so each connection begins with a key that nobody has used.

mod agenda;
mod fields;
mod pair;
mod plan;
mod request;
mod talk;
mod told;
mod trial;

use crate::campaign::Options;
use crate::mischief::shown;
use agenda::{Agenda, BATCH, SLOW_BATCH};
use anyhow::{Result, anyhow, bail};
use ipse_store::Subject;
use pair::{Exempt, Pair};
use plan::{Ending, Plan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use talk::{Outcome, alike, talk};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use trial::{Verdict, try_again};

/// So many connections to each server at once.
const AT_ONCE: usize = 48;
/// So many pairs of servers, each with a clock of its own: while the last connections of a day take their time, or a day is
/// prepared, others have theirs.
const LANES: usize = 6;
/// After so many differences the rest is not of interest.
const MOST_DIFFERENCES: usize = 8;
/// So much of what both said alike is shown before the first difference.
const ALIKE_SHOWN: usize = 120;

pub(crate) fn work(options: &Options) -> Result<String> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let lanes = if options.count > BATCH { LANES } else { 1 };
    // One after the other, because each looks which threads there were before it.
    let pairs = (0..lanes).map(|_| Pair::start(options.count.min(BATCH))).collect::<Result<Vec<_>>>()?;
    let (agenda, differences) = (Mutex::new(Agenda::of(options)), Mutex::new(Vec::new()));
    let lanes: Result<Vec<Lane>> = std::thread::scope(|scope| {
        let (runtime, agenda, differences) = (&runtime, &agenda, &differences);
        let lane = |pair| scope.spawn(move || Lane::go(runtime, pair, agenda, differences));
        let lanes: Vec<_> = pairs.into_iter().map(lane).collect();
        lanes.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a lane panicked"))?).collect()
    });
    let (mut tally, mut settled) = (Tally::default(), Vec::new());
    for lane in lanes? {
        tally.add(lane.tally);
        settled.push(lane.settled);
    }
    let differences = differences.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Tally { connections, requests, answers, by_door, ends, by_the_moment, cut_by_resets } = tally;
    let listed = |counts: &BTreeMap<String, u64>| {
        let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        each.join(", ")
    };
    let figure = format!(
        "{connections} connections to each of two servers ({}) with {requests} requests and {answers} answers; ended: {}; \
         {by_the_moment} decided by the moment, {cut_by_resets} cut by a reset; {} differences",
        listed(&by_door),
        listed(&ends),
        differences.len()
    );
    if let Some(first) = differences.first() {
        bail!("{figure}; the first: {first}");
    }
    let charged: u64 = settled.into_iter().sum::<Result<u64>>()?;
    Ok(format!("{figure}; {charged} charged alike"))
}

/// What came of the days of one pair of servers.
struct Lane {
    tally: Tally,
    /// How much both have charged, if that is the same.
    settled: Result<u64>,
}

impl Lane {
    /// Has one day follow the other until there are no more.
    fn go(
        runtime: &Runtime,
        pair: Pair,
        agenda: &Mutex<Agenda>,
        differences: &Mutex<Vec<String>>,
    ) -> Result<Self> {
        let (mut tally, mut exempt, mut before) = (Tally::default(), Exempt::default(), Vec::<Plan>::new());
        let found = || differences.lock().unwrap_or_else(PoisonError::into_inner);
        while found().len() < MOST_DIFFERENCES {
            let mut coming = agenda.lock().unwrap_or_else(PoisonError::into_inner);
            let plans = coming.next_day(&pair);
            if let Some(tenths) = coming.tenths() {
                println!("  {tenths}0 %, {} differences", found().len());
            }
            drop(coming);
            if plans.is_empty() {
                break;
            }
            pair.fresh_day(before.iter().chain(&plans))?;
            before = plans.iter().filter(|plan| plan.may_be_paused()).cloned().collect();
            let today = pair.today();
            // Who resets may do so before a slow server has charged them.
            let resets = plans.iter().filter(|plan| plan.ending == Ending::ListenAndReset);
            exempt.subjects.extend(resets.map(|plan| (today, Subject::Key(plan.key.id))));
            for Doubt { plan, outcomes } in run(runtime, &pair, plans, &mut tally)? {
                exempt.subjects.insert((today, Subject::Key(plan.key.id)));
                if plan.is_of_demo() {
                    exempt.subjects.insert((today, Subject::Demo));
                }
                match try_again(runtime, &pair, &plan, outcomes, &mut exempt)? {
                    Verdict::ByTheMoment => tally.by_the_moment += 1,
                    Verdict::CutByReset => tally.cut_by_resets += 1,
                    Verdict::Different(outcomes) => {
                        let told = told(&plan, &outcomes);
                        println!("{told}");
                        found().push(told);
                    }
                }
                if found().len() >= MOST_DIFFERENCES {
                    break;
                }
            }
        }
        Ok(Self { tally, settled: pair.settle(&exempt) })
    }
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
    /// Connections on which the front's last answers were lost to a reset, once.
    cut_by_resets: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        let Self { connections, requests, answers, by_door, ends, by_the_moment, cut_by_resets } = other;
        self.connections += connections;
        self.requests += requests;
        self.answers += answers;
        self.by_the_moment += by_the_moment;
        self.cut_by_resets += cut_by_resets;
        for (counts, others) in [(&mut self.by_door, by_door), (&mut self.ends, ends)] {
            for (name, count) in others {
                *counts.entry(name).or_default() += count;
            }
        }
    }
}

/// A plan of which the two servers did not make the same.
struct Doubt {
    plan: Plan,
    outcomes: [Outcome; 2],
}

/// Carries out plans, many at once.
fn run(runtime: &Runtime, pair: &Pair, mut plans: Vec<Plan>, tally: &mut Tally) -> Result<Vec<Doubt>> {
    // Who has most to do begins first.
    plans.sort_by_key(|plan| Reverse(plan.steps.len()));
    let at_once = if plans.iter().all(|plan| plan.is_slow) { SLOW_BATCH } else { AT_ONCE };
    let plans = Arc::new(Mutex::new(VecDeque::from(plans)));
    runtime.block_on(async {
        let mut workers = JoinSet::new();
        for _ in 0..at_once {
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
                let ends = outcomes.each_ref().map(|outcome| outcome.end_of(&plan));
                *tally.ends.entry(format!("{:?}", ends[0])).or_default() += 1;
                if outcomes[0].told != outcomes[1].told || ends[0] != ends[1] {
                    doubts.push(Doubt { plan, outcomes });
                }
            }
        }
        Ok(doubts)
    })
}

/// A difference, for people.
fn told(plan: &Plan, [with, without]: &[Outcome; 2]) -> String {
    // A little of what is the same tells where that is.
    let from = alike(with, without).saturating_sub(ALIKE_SHOWN);
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
