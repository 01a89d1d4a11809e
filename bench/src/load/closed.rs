//! As many requests as there are connections are under way, always: what a request costs, and how many there can be.

use super::channel::Dialing;
use super::requests::Requests;
use super::speech::{Caller, Room};
use super::{Plan, Rhythm, Seen};
use anyhow::{Context, Result, ensure};
use ipse_testkit::Stopwatch;
use ipse_testkit::vitals::ProcessorTime;

pub(super) fn run(plan: &Plan, requests: &mut Requests) -> Result<Seen> {
    let is_fresh = plan.rhythm != Rhythm::KeepAlive;
    let dialing = Dialing::new(plan.door, plan.manner, plan.resumes)?;
    let mut callers = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        callers.push(begin(plan, &dialing, requests)?);
    }
    let mut room = Room::new();
    let mut seen = Seen { answers: plan.requests, ..Seen::default() };
    let mut begun = Measurement::begin(plan)?;
    let (mut answered, last) = (0, plan.warm_up + plan.requests);
    // Round and round: who is looked at in vain was asked last, so that all the others have been looked at since.
    for place in (0..callers.len()).cycle() {
        loop {
            let caller = &mut callers[place];
            if plan.rhythm == Rhythm::Handshakes {
                if caller.channel.has_ticket()?.is_some() {
                    break;
                }
            } else if let Some(answer) = caller.answer(&mut room)? {
                seen.answer_bytes = answer.bytes;
                if seen.wants_sample(plan, answered) {
                    let body = String::from_utf8_lossy(answer.body).into_owned();
                    let number = caller.asked.context("nothing was asked")?;
                    seen.samples.push((requests.of(number).address.to_owned(), body));
                }
                break;
            }
            pause();
        }
        answered += 1;
        if answered == plan.warm_up {
            begun = Measurement::begin(plan)?;
        }
        if answered == last {
            break;
        }
        if is_fresh {
            let next = begin(plan, &dialing, requests)?;
            let gone = std::mem::replace(&mut callers[place], next);
            ensure!(
                gone.channel.is_resumed() == plan.resumes || answered < plan.warm_up,
                "a handshake was not of the kind that was asked for"
            );
            gone.channel.close();
        } else {
            callers[place].ask(requests.deal())?;
        }
    }
    begun.end(&mut seen)?;
    Ok(seen)
}

fn begin(plan: &Plan, dialing: &Dialing, requests: &mut Requests) -> Result<Caller> {
    let mut caller = Caller::new(dialing.dial()?, plan.manner);
    if plan.rhythm != Rhythm::Handshakes {
        caller.ask(requests.deal())?;
    }
    Ok(caller)
}

/// Looking again at once would hold the lock that the answer comes through, and keep the core from a server that has to share it.
fn pause() {
    for _ in 0..64 {
        std::hint::spin_loop();
    }
    std::thread::yield_now();
}

/// From when on it counts.
pub(super) struct Measurement {
    watch: Stopwatch,
    processor: ProcessorTime,
}

impl Measurement {
    pub(super) fn begin(plan: &Plan) -> Result<Self> {
        Ok(Self { processor: ProcessorTime::of(&plan.processes)?, watch: Stopwatch::start() })
    }

    pub(super) fn end(&self, seen: &mut Seen) -> Result<()> {
        seen.seconds = self.watch.seconds();
        seen.processor_seconds = self.processor.since()?.as_secs_f64();
        Ok(())
    }
}
