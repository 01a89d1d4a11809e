//! Counting without the shared engine: this node reserves ranges for itself in the records, and shares the minute out.
//!
//! The day stays exact, because ranges are disjoint whoever takes them. The minute is shared: of the requests that a key may
//! make, each node lets its part through. Beyond that it says that it does not know, and neither refuses nor pauses, for
//! others may not have used their part. Only who went over the whole limit at this one node is paused.

use super::function::Minute;
use super::protocol::Engines;
use super::reach::Away;
use crate::counters::KeyCharge;
use crate::records::Range;
use crate::{Error, Subject};
use ipse_model::{
    BURST_LIMIT, BURST_WINDOW_MS, Charge, DEMO_DAILY_LIMIT, Day, DayAllowance, Key, Now, Window,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How often a charge is tried again after a range was reserved for it: others may have used all of it up.
const ROUNDS: u32 = 4;

/// What this node holds while the shared engine is away.
#[derive(Default)]
pub struct Lease {
    held: Mutex<HashMap<Subject, Held>>,
    /// Days of which the shared engine said that they are used up, with their limits.
    spent: papaya::HashMap<Subject, (Day, u32)>,
}

struct Held {
    day: Day,
    /// Those of the day that are not used up, in the order in which they were taken.
    ranges: VecDeque<Range>,
    /// The generation of the burst window.
    resumes: u32,
    window: Window,
}

/// What came of a try.
enum Tried {
    /// It is decided.
    Charged(Charge),
    /// Of this day a range is needed first.
    Wants(Day),
    /// It was one too many at this node alone.
    Burst(Minute),
}

/// Charges one request of a key to ranges of this node. `nodes` share the minute.
pub async fn lease_key(
    engines: &impl Engines,
    lease: &Lease,
    key: &Key,
    nodes: u32,
    now: Now,
) -> Result<KeyCharge, Error> {
    let (subject, limit) = (Subject::Key(key.id), key.daily_limit);
    for _ in 0..ROUNDS {
        match lease.charge_key(key, nodes, now)? {
            Tried::Charged(charge) => return Ok(KeyCharge::Charged(charge)),
            Tried::Burst(minute) => {
                engines.pause(key.id, minute).await?;
                return Ok(KeyCharge::Charged(Charge::BurstExceeded));
            }
            Tried::Wants(day) => {
                if let Some(allowance) = want(engines, lease, subject, day, limit).await? {
                    return Ok(KeyCharge::Charged(Charge::DayUsedUp(allowance)));
                }
            }
        }
    }
    Err(Away::Unsettled.into())
}

/// Charges one request of the demo to ranges of this node.
pub async fn lease_demo(
    engines: &impl Engines,
    lease: &Lease,
    now: Now,
) -> Result<Result<DayAllowance, DayAllowance>, Error> {
    for _ in 0..ROUNDS {
        match lease.charge_demo(now) {
            Ok(allowance) => return Ok(Ok(allowance)),
            Err(day) => {
                if let Some(allowance) = want(engines, lease, Subject::Demo, day, DEMO_DAILY_LIMIT).await? {
                    return Ok(Err(allowance));
                }
            }
        }
    }
    Err(Away::Unsettled.into())
}

/// Has a range taken. If nothing is left to reserve, it is told that the day is used up if the shared engine said so before, and
/// else that nothing is known, because it may still hold a part, and so may other nodes.
async fn want(
    engines: &impl Engines,
    lease: &Lease,
    subject: Subject,
    day: Day,
    limit: u32,
) -> Result<Option<DayAllowance>, Error> {
    let range = engines.take(subject, day, limit).await?;
    if range.from < range.to {
        return Ok(None);
    }
    if lease.is_spent(subject, day, limit) {
        return Ok(Some(DayAllowance { limit, remaining: 0, day }));
    }
    Err(Away::Unsettled.into())
}

impl Lease {
    /// The shared engine is back. What is left stays here as long as the minute of its key is remembered, so that an engine
    /// that comes and goes costs a key neither a range each time nor its minute; then it stays unused.
    pub fn rest(&self, now: Now) {
        let mut held = self.lock();
        if !held.is_empty() {
            held.retain(|_, held| held.window.shrink(now.boot_ms));
        }
        let today = now.day();
        self.spent.pin().retain(|_, (day, _)| *day >= today);
    }

    /// The shared engine said that a day is used up.
    pub fn note_spent(&self, subject: Subject, allowance: DayAllowance) {
        self.spent.pin().insert(subject, (allowance.day, allowance.limit));
    }

    fn is_spent(&self, subject: Subject, day: Day, limit: u32) -> bool {
        self.spent.pin().get(&subject).is_some_and(|(spent, most)| *spent == day && limit <= *most)
    }

    /// Takes a range that was reserved for this node.
    pub fn take(&self, subject: Subject, day: Day, range: Range) {
        let mut held = self.lock();
        let held = Self::of_day(&mut held, subject, day);
        if held.day == day && range.from < range.to {
            held.ranges.push_back(range);
        }
    }

    /// Charges one request, if there is something to charge it to.
    fn charge_key(&self, key: &Key, nodes: u32, now: Now) -> Result<Tried, Away> {
        let mut held = self.lock();
        let held = Self::of_day(&mut held, Subject::Key(key.id), now.day());
        if key.resumes > held.resumes {
            held.resumes = key.resumes;
            held.window.clear();
        }
        let age = |time: u64| now.boot_ms.saturating_sub(time);
        let minute = || held.window.times().filter(|time| age(*time) < BURST_WINDOW_MS);
        let recent = minute().count();
        if recent >= BURST_LIMIT as usize {
            // Moments of the window are of this machine's own clock, which nobody else has.
            let moment = u64::try_from(now.unix_ms).unwrap_or(0);
            let times = minute().map(|time| moment.saturating_sub(age(time))).collect();
            return Ok(Tried::Burst(Minute { generation: held.resumes, moment, times }));
        }
        if recent >= (BURST_LIMIT / nodes.max(1)) as usize {
            return Err(Away::ShareGiven);
        }
        Ok(match held.charge_day(key.daily_limit) {
            Some(allowance) => {
                held.window.admit(now.boot_ms);
                Tried::Charged(Charge::Granted(allowance))
            }
            None => Tried::Wants(held.day),
        })
    }

    /// Charges one request to the day alone, or says of which day a range is needed.
    fn charge_demo(&self, now: Now) -> Result<DayAllowance, Day> {
        let mut held = self.lock();
        let held = Self::of_day(&mut held, Subject::Demo, now.day());
        held.charge_day(DEMO_DAILY_LIMIT).ok_or(held.day)
    }

    fn of_day(held: &mut HashMap<Subject, Held>, subject: Subject, day: Day) -> &mut Held {
        let held = held.entry(subject).or_insert_with(|| Held {
            day,
            ranges: VecDeque::new(),
            resumes: 0,
            window: Window::default(),
        });
        // The day never goes back by a clock that was set back a little. From a day that is further ahead, it does.
        if day > held.day || day.0 + 1 < held.day.0 {
            held.day = day;
            held.ranges.clear();
        }
        held
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn charge_day(&mut self, limit: u32) -> Option<DayAllowance> {
        let range = self.ranges.front_mut().filter(|range| range.from < limit)?;
        range.from += 1;
        let (used, is_used_up) = (range.from, range.from >= range.to);
        if is_used_up {
            self.ranges.pop_front();
        }
        Some(DayAllowance { limit, remaining: limit.saturating_sub(used), day: self.day })
    }
}
