//! Whether two outcomes that are not the same are a difference, or what one server says now and the other a moment later.
//!
//! What a server reads in one piece and what in two is not in anybody's hand, and neither is what it has read when it closes.
//! So the same is done again and again, each time on a day of its own: a difference is what the front was seen to do and hyper
//! never, in whatever pieces hyper gets the same bytes.

use super::pair::{Doors, Exempt, Pair};
use super::plan::Plan;
use super::talk::{Outcome, talk, talk_to};
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
const AT_ONCE: usize = 16;

pub(super) enum Verdict {
    ByTheMoment,
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
    let mut fresh_day = || {
        pair.fresh_day([plan])?;
        exempt.days.insert(pair.today());
        anyhow::Ok(())
    };
    // What was seen of both.
    let [mut of_front, mut of_hyper] = first.map(|outcome| BTreeSet::from([any_day(outcome)]));
    for _ in 0..TOGETHER {
        fresh_day()?;
        let [with, without] = runtime.block_on(talk(&pair.doors, plan))?;
        of_front.insert(any_day(with));
        of_hyper.insert(any_day(without));
    }
    for _ in 0..IN_PIECES {
        if of_front.is_subset(&of_hyper) {
            break;
        }
        for connections in [1, AT_ONCE] {
            fresh_day()?;
            let plans: Vec<Plan> = (0..connections).map(|_| plan.rearranged(&mut random)).collect();
            let outcomes = runtime.block_on(all_at_once(&pair.doors[1], plans))?;
            of_hyper.extend(outcomes.into_iter().map(any_day));
        }
    }
    let only_of_front = of_front.difference(&of_hyper).next().cloned();
    Ok(match (only_of_front, of_hyper.pop_first()) {
        (Some(with), Some(without)) => Verdict::Different([with, without]),
        _ => Verdict::ByTheMoment,
    })
}

async fn all_at_once(doors: &Doors, plans: Vec<Plan>) -> Result<Vec<Outcome>> {
    let mut talks = JoinSet::new();
    for plan in plans {
        let doors = doors.clone();
        talks.spawn(async move { talk_to(&doors, &plan).await });
    }
    talks.join_all().await.into_iter().collect()
}

fn any_day(Outcome { told, end }: Outcome) -> Outcome {
    Outcome { told: of_any_day(&told), end }
}
