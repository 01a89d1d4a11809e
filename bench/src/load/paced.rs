//! So many requests a second, each at its moment: how long callers wait.
//!
//! A request whose moment has come while all connections are busy leaves late, and its wait began when it was meant to leave.

use super::channel::Dialing;
use super::closed::Measurement;
use super::requests::Requests;
use super::speech::{Caller, Room};
use super::{Plan, Seen};
use anyhow::Result;
use ipse_testkit::Stopwatch;
use std::time::Duration;

/// Later than this, though a connection was free, is the generator's own fault.
const LATE: Duration = Duration::from_micros(100);

pub(super) fn run(plan: &Plan, requests: &mut Requests, rate: u32) -> Result<Seen> {
    let dialing = Dialing::new(plan.door, plan.manner, false)?;
    let mut idle = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        idle.push(Caller::new(dialing.dial()?, plan.manner));
    }
    let mut asking: Vec<(Caller, Duration)> = Vec::with_capacity(plan.connections);
    let mut room = Room::new();
    let mut seen = Seen { answers: plan.requests, ..Seen::default() };
    let all = plan.warm_up + plan.requests;
    let (mut left, mut answered) = (0, 0);
    let mut begun = Measurement::begin(plan)?;
    let moment = |number: usize| Duration::from_secs(1) / rate * u32::try_from(number).unwrap_or(u32::MAX);
    let watch = Stopwatch::start();
    let mut had_room = true;
    while answered < all {
        let due = moment(left);
        let now = watch.elapsed();
        if left < all
            && now >= due
            && let Some(mut caller) = idle.pop()
        {
            if had_room && now - due > LATE && left >= plan.warm_up {
                seen.late += 1;
            }
            caller.ask(requests.deal())?;
            asking.push((caller, due));
            left += 1;
            if left == plan.warm_up {
                begun = Measurement::begin(plan)?;
            }
        }
        had_room = !idle.is_empty();
        let mut place = 0;
        while place < asking.len() {
            let (caller, due) = &mut asking[place];
            let Some(answer) = caller.answer(&mut room)? else {
                place += 1;
                continue;
            };
            let waited = watch.elapsed().saturating_sub(*due);
            seen.answer_bytes = answer.bytes;
            if answered >= plan.warm_up {
                seen.latencies_us.push(waited.as_secs_f64() * 1e6);
            }
            answered += 1;
            // Whoever has rested longest asks next.
            idle.insert(0, asking.swap_remove(place).0);
        }
    }
    begun.end(&mut seen)?;
    seen.latencies_us.sort_unstable_by(f64::total_cmp);
    Ok(seen)
}
