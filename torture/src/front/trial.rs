//! Whether two outcomes that are not the same are a difference, or what one server says now and the other a moment later.
//!
//! What a server reads in one piece and what in two is not in anybody's hand, and neither is what it has read when it closes.
//! So the same is done again and again, each time on a day of its own: a difference is what the front was seen to do and hyper
//! never, in whatever pieces hyper gets the same bytes.
//!
//! A server that closes while something lies unread has the kernel reset the connection, and what was not sent yet is lost. On a
//! busy machine that may be several answers, and on one that is not busy nobody sees it again. So if such a reset has cut what
//! hyper says, that is no difference, unless the front does it again.

use super::agenda::plan_of;
use super::pair::{Doors, Exempt, FEWEST_KEYS, Pair};
use super::plan::Plan;
use super::talk::{End, Outcome, alike, talk, talk_to};
use super::told::of_any_day;
use anyhow::Result;
use ipse_testkit::Random;
use std::collections::BTreeSet;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How often both do it again.
const TOGETHER: u64 = 6;
/// How often hyper gets the bytes in other pieces, on one connection or on many at once: some things it does only when it is
/// busy.
const IN_PIECES: u64 = 100;
const AT_ONCE: usize = FEWEST_KEYS;

pub(super) enum Verdict {
    ByTheMoment,
    /// The front said less than hyper, before a reset, and never again.
    CutByReset,
    /// An outcome that only the front has, beside one of hyper's.
    Different([Outcome; 2]),
}

pub(super) fn try_again(
    runtime: &Runtime,
    pair: &Pair,
    plan: &Plan,
    first: [Outcome; 2],
    exempt: &mut Exempt,
) -> Result<Verdict> {
    let mut random = Random::new(plan.seed);
    let mut fresh_day = |plans: &[Plan]| {
        pair.fresh_day(plans)?;
        exempt.days.insert(pair.today());
        anyhow::Ok(())
    };
    let was_reset = first[0].end == End::Reset;
    let any_day = |outcome: Outcome| any_day(&outcome, plan);
    let first = first.map(any_day);
    // What was seen of both.
    let [mut of_front, mut of_hyper] = first.clone().map(|outcome| BTreeSet::from([outcome]));
    let mut of_front_again = BTreeSet::new();
    for _ in 0..TOGETHER {
        fresh_day(std::slice::from_ref(plan))?;
        let [with, without] = runtime.block_on(talk(&pair.doors, plan))?;
        of_front_again.insert(any_day(with));
        of_hyper.insert(any_day(without));
    }
    of_front.extend(of_front_again.iter().cloned());
    // Of those who do it at once each has a key of their own: otherwise they would be told what the others are charged.
    let mut deal = pair.deal();
    let many: Vec<Plan> = (0..AT_ONCE).map_while(|_| plan_of(plan.seed, &mut deal)).collect();
    for _ in 0..IN_PIECES {
        if of_front.is_subset(&of_hyper) {
            break;
        }
        for plans in [std::slice::from_ref(plan), &many] {
            fresh_day(plans)?;
            let plans = plans.iter().map(|plan| plan.rearranged(&mut random)).collect();
            let outcomes = runtime.block_on(all_at_once(&pair.doors[1], plans))?;
            of_hyper.extend(outcomes.into_iter().map(any_day));
        }
    }
    if plan.may_be_paused() {
        // Their keys are others' tomorrow.
        fresh_day(&many)?;
    }
    let Some(with) = of_front.difference(&of_hyper).next().cloned() else {
        return Ok(Verdict::ByTheMoment);
    };
    let [first, _] = first;
    let is_cut = |without: &Outcome| without.end == first.end && without.told.starts_with(&first.told);
    if was_reset
        && of_front_again.is_subset(&of_hyper)
        && !of_front_again.contains(&first)
        && of_hyper.iter().any(is_cut)
    {
        return Ok(Verdict::CutByReset);
    }
    // What is nearest tells best what is different.
    let nearest = of_hyper.into_iter().max_by_key(|without| alike(&with, without));
    Ok(nearest.map_or(Verdict::ByTheMoment, |without| Verdict::Different([with, without])))
}

async fn all_at_once(doors: &Doors, plans: Vec<Plan>) -> Result<Vec<Outcome>> {
    let mut talks = JoinSet::new();
    for plan in plans {
        let doors = doors.clone();
        talks.spawn(async move { talk_to(&doors, &plan).await });
    }
    talks.join_all().await.into_iter().collect()
}

/// What was seen but for when the day ends, and for what is in nobody's hand.
fn any_day(outcome: &Outcome, plan: &Plan) -> Outcome {
    Outcome { told: of_any_day(&outcome.told), end: outcome.end_of(plan) }
}
