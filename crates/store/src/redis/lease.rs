//! Counting without the shared engine: this node reserves ranges for itself in the records, and shares the minute out.
//!
//! The day stays exact, because ranges are disjoint whoever takes them. The minute is shared: of the requests that a key may
//! make, each node lets its part through. Beyond that it says that it does not know, and neither refuses nor pauses, for
//! others may not have used their part. Only who went over the whole limit at this one node is paused.

use super::reach::Away;
use crate::counters::KeyCharge;
use crate::records::Range;
use crate::{Error, Subject};
use ipse_model::{BURST_LIMIT, Charge, Day, DayAllowance, Key, Now, Window};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What this node holds while the shared engine is away.
#[derive(Default)]
pub(super) struct Lease {
    held: Mutex<HashMap<Subject, Held>>,
}

struct Held {
    day: Day,
    range: Range,
    window: Window,
}

/// What came of a try.
pub(super) enum Tried {
    /// It is decided.
    Charged(Charge),
    /// Of this day a range is needed first.
    Wants(Day),
    /// It was one too many at this node alone: its second-by-second counts.
    Burst(Box<[u32; 60]>),
}

impl Lease {
    /// Lets go of everything: the shared engine is back, and what is left of ranges stays unused.
    pub(super) fn end(&self) {
        let mut held = self.lock();
        if !held.is_empty() {
            *held = HashMap::new();
        }
    }

    /// Charges one request, if there is something to charge it to. `nodes` share the minute.
    pub(super) fn charge_key(&self, key: &Key, nodes: u32, now: Now) -> Result<Tried, Away> {
        let mut held = self.lock();
        let held = Self::of_day(&mut held, Subject::Key(key.id), now.day());
        let minute = held.window.last_minute(now.boot_ms);
        let recent: u32 = minute.iter().sum();
        if recent >= BURST_LIMIT {
            let mut minute = Box::new(minute);
            minute[minute.len() - 1] += 1;
            return Ok(Tried::Burst(minute));
        }
        if recent >= BURST_LIMIT / nodes.max(1) {
            return Err(Away::ShareGiven);
        }
        let tried = held.charge_day(key.daily_limit);
        if let Tried::Charged(_) = tried {
            held.window.admit(now.boot_ms);
        }
        Ok(tried)
    }

    /// Charges one request to the day alone.
    pub(super) fn charge_day(&self, subject: Subject, limit: u32, now: Now) -> Tried {
        Self::of_day(&mut self.lock(), subject, now.day()).charge_day(limit)
    }

    /// Takes a range that was reserved for this node.
    pub(super) fn take(&self, subject: Subject, day: Day, range: Range) {
        Self::of_day(&mut self.lock(), subject, day).range = range;
    }

    fn of_day(held: &mut HashMap<Subject, Held>, subject: Subject, day: Day) -> &mut Held {
        let none = Range { from: 0, to: 0 };
        let held =
            held.entry(subject).or_insert_with(|| Held { day, range: none, window: Window::default() });
        if held.day != day {
            (held.day, held.range) = (day, none);
        }
        held
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn charge_day(&mut self, limit: u32) -> Tried {
        if self.range.from >= self.range.to.min(limit) {
            return Tried::Wants(self.day);
        }
        self.range.from += 1;
        let remaining = limit.saturating_sub(self.range.from);
        Tried::Charged(Charge::Granted(DayAllowance { limit, remaining, day: self.day }))
    }
}

/// What is answered when nothing is left to reserve: that the day is used up, if that is known, and else that nothing is
/// known, because the shared engine may still hold a part.
pub(super) fn nothing_left(limit: u32, used: u32, day: Day) -> Result<KeyCharge, Error> {
    if used >= limit {
        let allowance = DayAllowance { limit, remaining: 0, day };
        return Ok(KeyCharge::Charged(Charge::DayUsedUp(allowance)));
    }
    Err(Away::Unsettled.into())
}
