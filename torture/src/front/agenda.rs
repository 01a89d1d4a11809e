//! Which connections are made on which day: those of one batch of seeds, but for those that take their time. These wait until
//! there are many of them, and have days of their own, on which they take their time together.

use super::pair::{Deal, Pair};
use super::plan::{Class, Plan};
use crate::campaign::Options;
use ipse_testkit::Random;

/// So many connections on one day, each with a key of its own. They leave some of the demo's day.
pub(super) const BATCH: u64 = 4_096;
/// In one batch of so many the demo is used up before it begins.
const DEMO_USED_UP: u64 = 4;
/// So many that take their time on one day, and all at once.
pub(super) const SLOW_BATCH: usize = 512;

/// What is still to be done.
pub(super) struct Agenda {
    seed: u64,
    count: u64,
    /// How many seeds were looked at.
    next: u64,
    /// Seeds of those that take their time; those that find the demo used up apart.
    slow: [Vec<u64>; 2],
    /// How many tenths of all that was when it was last told.
    told: u64,
}

impl Agenda {
    pub(super) fn of(options: &Options) -> Self {
        Self { seed: options.seed, count: options.count, next: 0, slow: Default::default(), told: 0 }
    }

    /// The plans of the next day; none when everything is done.
    pub(super) fn next_day(&mut self, pair: &Pair) -> Vec<Plan> {
        let mut plans = Vec::new();
        while plans.is_empty() && self.next < self.count {
            if let Some(slow) = self.slow.iter_mut().find(|slow| slow.len() >= SLOW_BATCH) {
                return slow_plans(slow, pair);
            }
            plans = self.next_batch(pair);
        }
        match self.slow.iter_mut().find(|slow| plans.is_empty() && !slow.is_empty()) {
            Some(slow) => slow_plans(slow, pair),
            None => plans,
        }
    }

    /// How many tenths of all have been handed out, if more than when it was last asked. Of a few it is not told.
    pub(super) fn tenths(&mut self) -> Option<u64> {
        let tenths = if self.count > BATCH { self.next * 10 / self.count } else { 0 };
        let is_news = tenths > self.told;
        self.told = tenths;
        is_news.then_some(tenths)
    }

    /// As many as there are keys for, up to the end of a batch.
    fn next_batch(&mut self, pair: &Pair) -> Vec<Plan> {
        let (mut deal, mut plans) = (pair.deal(), Vec::new());
        while self.next < self.count {
            // The seeds of connections follow each other, so that any of them can be replayed alone.
            let seed = self.seed.wrapping_add(self.next);
            let Some(plan) = plan_of(seed, &mut deal) else { break };
            if plan.is_slow {
                deal.give_back(plan.class);
                self.slow[usize::from(demo_is_used_up(seed))].push(seed);
            } else {
                plans.push(plan);
            }
            self.next += 1;
            if seed.wrapping_add(1).is_multiple_of(BATCH) {
                break;
            }
        }
        plans
    }
}

/// Whether the connection of this seed, and with it its batch, finds the demo used up.
pub(super) fn demo_is_used_up(seed: u64) -> bool {
    (seed / BATCH) % DEMO_USED_UP == DEMO_USED_UP - 1
}

/// The plan of a seed with a key that nobody else has; none if there are no more.
pub(super) fn plan_of(seed: u64, deal: &mut Deal<'_>) -> Option<Plan> {
    let mut random = Random::new(Random::new(seed).next());
    let class = Class::draw(&mut random);
    let key = deal.take(class)?;
    Some(Plan::invent(seed, &mut random, class, key))
}

/// Takes as many as there are keys for.
fn slow_plans(slow: &mut Vec<u64>, pair: &Pair) -> Vec<Plan> {
    let (mut deal, mut plans) = (pair.deal(), Vec::new());
    while plans.len() < SLOW_BATCH
        && let Some(plan) = slow.last().and_then(|seed| plan_of(*seed, &mut deal))
    {
        slow.pop();
        plans.push(plan);
    }
    plans
}
