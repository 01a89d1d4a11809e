//! Whether two outcomes that are not the same are a difference, or what one server says now and the other a moment later.
//!
//! What a server reads in one piece and what in two is not in anybody's hand, and neither is what it has read when it closes.
//! So the same is done again and again, each time on a day of its own: a difference is what the front was seen to do and
//! hyper never.

use super::pair::{Exempt, Pair};
use super::plan::Plan;
use super::talk::{Outcome, Pace, talk};
use super::told::of_any_day;
use anyhow::Result;
use ipse_testkit::Random;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;

const TRIALS: u64 = 60;
/// Where every trial had the same two outcomes, so many are enough.
const ENOUGH: u64 = 6;
/// Nobody else asks meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) enum Verdict {
    ByTheMoment,
    /// An outcome that only the front has, beside one of hyper's.
    Different([Outcome; 2]),
}

pub(super) fn try_again(
    runtime: &Runtime,
    pair: &Pair,
    plan: &Plan,
    first: &[Outcome; 2],
    exempt: &mut Exempt,
) -> Result<Verdict> {
    let mut random = Random::new(plan.seed);
    // What was seen of both, on days that began with the trial and on any.
    let (mut today, mut ever): ([BTreeSet<Outcome>; 2], [BTreeSet<Outcome>; 2]) = Default::default();
    for (ever, outcome) in ever.iter_mut().zip(first) {
        ever.insert(any_day(outcome));
    }
    let mut is_open = true;
    for trial in 0..TRIALS {
        pair.next_day();
        exempt.days.insert(pair.today());
        let pace = if trial < ENOUGH { Pace::AsPlanned } else { Pace::Varied(&mut random) };
        let outcomes = runtime.block_on(talk(&pair.doors, plan, PATIENCE, pace))?;
        for (place, outcome) in outcomes.iter().enumerate() {
            ever[place].insert(any_day(outcome));
            today[place].insert(outcome.clone());
        }
        is_open = !today[0].is_subset(&today[1]) || !ever[0].is_subset(&ever[1]);
        let is_certain = today.iter().all(|outcomes| outcomes.len() == 1) && trial + 1 >= ENOUGH;
        if !is_open || (is_certain && today[0] != today[1]) {
            break;
        }
    }
    // What comes next begins on a day that nobody has used.
    pair.next_day();
    if !is_open {
        return Ok(Verdict::ByTheMoment);
    }
    let of_front = today[0].difference(&today[1]).next().or_else(|| ever[0].difference(&ever[1]).next());
    let of_hyper = today[1].iter().next();
    let [with, without] = first.clone();
    Ok(Verdict::Different([of_front.cloned().unwrap_or(with), of_hyper.cloned().unwrap_or(without)]))
}

fn any_day(outcome: &Outcome) -> Outcome {
    Outcome { told: of_any_day(&outcome.told), end: outcome.end }
}
