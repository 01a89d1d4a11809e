//! So many requests a second, each at its moment: how long callers wait.
//!
//! A request whose moment has come while all connections are busy leaves late, and its wait began when it was meant to leave. While
//! the generator itself stands still, because the machine has something else for its core to do, it sees nothing: what was
//! under way or due then is left out, counted, and too much of it voids the run.

use super::channel::Dialing;
use super::closed::Measurement;
use super::requests::Requests;
use super::speech::{Caller, Room};
use super::{Plan, Seen};
use anyhow::{Context, Result};
use ipse_testkit::Stopwatch;
use std::time::Duration;

/// Going round once takes a part of this, however many connections are looked at.
const STANDSTILL: Duration = Duration::from_micros(100);

/// A request that is under way.
struct Asked {
    caller: Caller,
    due: Duration,
    /// Whether the generator stood still meanwhile.
    is_void: bool,
}

pub(super) fn run(plan: &Plan, requests: &mut Requests, rate: u32) -> Result<Seen> {
    let dialing = Dialing::new(plan.door, plan.manner, false)?;
    let mut idle = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        idle.push(Caller::new(dialing.dial()?, plan.manner));
    }
    let mut asked: Vec<Asked> = Vec::with_capacity(plan.connections);
    let mut room = Room::new();
    let mut seen = Seen { answers: plan.requests, ..Seen::default() };
    let all = plan.warm_up + plan.requests;
    let (mut left, mut answered) = (0, 0);
    let mut begun = Measurement::begin(plan)?;
    let moment = |number: usize| Duration::from_secs(1) / rate * u32::try_from(number).unwrap_or(u32::MAX);
    let watch = Stopwatch::start();
    // When it was last looked, and the end of the last standstill.
    let (mut looked, mut stood_until) = (Duration::ZERO, Duration::ZERO);
    while answered < all {
        let now = watch.elapsed();
        if now - looked > STANDSTILL {
            stood_until = now;
            asked.iter_mut().for_each(|asked| asked.is_void = true);
        }
        looked = now;
        let due = moment(left);
        if left < all
            && now >= due
            && let Some(mut caller) = idle.pop()
        {
            caller.ask(requests.deal())?;
            asked.push(Asked { caller, due, is_void: due < stood_until });
            left += 1;
            if left == plan.warm_up {
                begun = Measurement::begin(plan)?;
                // Asking the kernel for it takes a while as well.
                looked = watch.elapsed();
                stood_until = looked;
            }
        }
        let mut place = 0;
        while place < asked.len() {
            let Some(answer) = asked[place].caller.answer(&mut room)? else {
                place += 1;
                continue;
            };
            seen.answer_bytes = answer.bytes;
            if seen.wants_sample(plan, answered) {
                let body = String::from_utf8_lossy(answer.body).into_owned();
                let number = asked[place].caller.asked.context("nothing was asked")?;
                seen.samples.push((requests.of(number).address.to_owned(), body));
            }
            let Asked { caller, due, is_void } = asked.swap_remove(place);
            if answered >= plan.warm_up {
                if is_void {
                    seen.void += 1;
                } else {
                    seen.latencies_us.push((watch.elapsed() - due).as_secs_f64() * 1e6);
                }
            }
            answered += 1;
            // Whoever has rested longest asks next.
            idle.insert(0, caller);
        }
    }
    begun.end(&mut seen)?;
    seen.latencies_us.sort_unstable_by(f64::total_cmp);
    Ok(seen)
}
