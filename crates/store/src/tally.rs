//! What became of a key's requests since the last fold, by the hour.
//!
//! Nothing is decided by it: it is what the owner sees.

use crate::Outcomes;
use crate::records::OutcomeRow;
use ipse_model::{Day, KeyId, Now};

const MS_PER_HOUR: i64 = 3_600_000;
const HOURS_PER_DAY: u32 = 24;

/// Nearly always of one hour, and empty after a fold. That hour stands here itself, so that counting needs no other memory.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    hour: u32,
    /// Nothing at all if the tally is empty.
    sum: Sum,
    /// Those of further hours.
    #[expect(clippy::box_collection, reason = "a vector of its own would take three times the room here")]
    more: Option<Box<Vec<(u32, Outcomes)>>>,
}

/// Outcomes that are small, because they are of one hour at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    answered: u32,
    over_quota: u32,
    refused: u32,
}

impl Tally {
    /// Adds what became of a request that was judged by `now` on a day that may be ahead of it.
    pub(crate) fn add(&mut self, now: Now, day: Day, outcomes: Outcomes) {
        self.add_to(hour_of(now.unix_ms, day), outcomes);
    }

    /// Takes back what was added, unless it is in the database already.
    pub(crate) fn take_back(&mut self, now: Now, day: Day, outcomes: Outcomes) {
        let hour = hour_of(now.unix_ms, day);
        if self.hour == hour && self.sum.answered > 0 {
            let answered = u32::try_from(outcomes.answered).unwrap_or(u32::MAX);
            self.sum.answered = self.sum.answered.saturating_sub(answered);
        } else if let Some((_, sum)) = self.more_mut().find(|(counted, _)| *counted == hour) {
            sum.answered = sum.answered.saturating_sub(outcomes.answered);
        }
    }

    /// Empties the tally into rows for the database.
    pub(crate) fn take(&mut self, key: KeyId, rows: &mut Vec<OutcomeRow>) {
        let sum = std::mem::take(&mut self.sum);
        if sum != Sum::default() {
            rows.push(OutcomeRow { key, hour: self.hour, outcomes: sum.into() });
        }
        let more = self.more.take().into_iter().flat_map(|more| *more);
        rows.extend(more.map(|(hour, outcomes)| OutcomeRow { key, hour, outcomes }));
    }

    /// Takes back what could not be written.
    pub(crate) fn put_back(&mut self, row: &OutcomeRow) {
        self.add_to(row.hour, row.outcomes);
    }

    fn add_to(&mut self, hour: u32, outcomes: Outcomes) {
        if (self.hour == hour || self.sum == Sum::default())
            && let Some(sum) = self.sum.with(outcomes)
        {
            (self.hour, self.sum) = (hour, sum);
            return;
        }
        if let Some((_, sum)) = self.more_mut().find(|(counted, _)| *counted == hour) {
            *sum += outcomes;
            return;
        }
        self.more.get_or_insert_default().push((hour, outcomes));
    }

    fn more_mut(&mut self) -> impl Iterator<Item = &mut (u32, Outcomes)> {
        self.more.iter_mut().flat_map(|more| more.iter_mut())
    }
}

impl Sum {
    /// With more added, unless that is too much to be small.
    fn with(self, more: Outcomes) -> Option<Self> {
        let sum = |small: u32, more: u64| u32::try_from(u64::from(small).checked_add(more)?).ok();
        Some(Self {
            answered: sum(self.answered, more.answered)?,
            over_quota: sum(self.over_quota, more.over_quota)?,
            refused: sum(self.refused, more.refused)?,
        })
    }
}

impl From<Sum> for Outcomes {
    fn from(sum: Sum) -> Self {
        Self { answered: sum.answered.into(), over_quota: sum.over_quota.into(), refused: sum.refused.into() }
    }
}

/// The hour of a moment, counted from 1970, within the day that it is charged to: a clock that was set back does not
/// move the hour out of that day.
pub(crate) fn hour_of(unix_ms: i64, day: Day) -> u32 {
    let first = day.0.saturating_mul(HOURS_PER_DAY);
    let hour = u32::try_from(unix_ms.div_euclid(MS_PER_HOUR)).unwrap_or(0);
    hour.clamp(first, first.saturating_add(HOURS_PER_DAY - 1))
}

/// One request that was answered.
pub(crate) const ANSWERED: Outcomes = Outcomes { answered: 1, over_quota: 0, refused: 0 };
/// One request that found the day's quota used up.
pub(crate) const OVER_QUOTA: Outcomes = Outcomes { answered: 0, over_quota: 1, refused: 0 };
/// One request that was refused for any other reason.
pub(crate) const REFUSED: Outcomes = Outcomes { answered: 0, over_quota: 0, refused: 1 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_one_of_its_day() {
        const DAY: Day = Day(10);
        let first = 10 * 86_400_000;
        assert_eq!(hour_of(first, DAY), 240);
        assert_eq!(hour_of(first + 3_599_999, DAY), 240);
        assert_eq!(hour_of(first + 3_600_000, DAY), 241);
        assert_eq!(hour_of(first - 1, DAY), 240, "the clock was set back over midnight");
        assert_eq!(hour_of(first + 86_400_000, DAY), 263);
        assert_eq!(hour_of(-5, Day(0)), 0);
    }

    #[test]
    fn what_could_not_be_written_is_counted_with_what_came_since() {
        let mut tally = Tally::default();
        let now = Now { unix_ms: 0, boot_ms: 0 };
        tally.add(now, Day(0), ANSWERED);
        tally.add(now, Day(0), REFUSED);
        let mut rows = Vec::new();
        tally.take(KeyId(7), &mut rows);
        let refused = Outcomes { answered: 1, over_quota: 0, refused: 1 };
        assert_eq!(rows, [OutcomeRow { key: KeyId(7), hour: 0, outcomes: refused }]);
        tally.add(Now { unix_ms: MS_PER_HOUR, boot_ms: 0 }, Day(0), OVER_QUOTA);
        tally.add(now, Day(0), ANSWERED);
        rows.iter().for_each(|row| tally.put_back(row));
        rows.clear();
        tally.take(KeyId(7), &mut rows);
        assert_eq!(rows.iter().map(|row| row.hour).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(rows[1].outcomes, Outcomes { answered: 2, over_quota: 0, refused: 1 });
    }

    #[test]
    fn what_is_taken_back_leaves_no_row() {
        let (first, second) =
            (Now { unix_ms: 0, boot_ms: 0 }, Now { unix_ms: MS_PER_HOUR, boot_ms: 3_600_000 });
        let mut tally = Tally::default();
        tally.add(first, Day(0), ANSWERED);
        tally.add(second, Day(0), ANSWERED);
        tally.add(second, Day(0), ANSWERED);
        tally.take_back(first, Day(0), ANSWERED);
        tally.take_back(second, Day(0), ANSWERED);
        let mut rows = Vec::new();
        tally.take(KeyId(7), &mut rows);
        assert_eq!(rows, [OutcomeRow { key: KeyId(7), hour: 1, outcomes: ANSWERED }]);
        tally.take(KeyId(7), &mut rows);
        tally.take_back(second, Day(0), ANSWERED);
        tally.take(KeyId(7), &mut rows);
        assert_eq!(rows.len(), 1, "what is in the database already is not taken back");
    }

    #[test]
    fn more_than_fits_into_a_small_sum_is_not_lost() {
        let mut tally = Tally::default();
        let many = Outcomes { refused: u64::from(u32::MAX) + 5, ..Outcomes::default() };
        let now = Now { unix_ms: 0, boot_ms: 0 };
        tally.add(now, Day(0), REFUSED);
        tally.add(now, Day(0), many);
        tally.add(now, Day(0), REFUSED);
        let mut rows = Vec::new();
        tally.take(KeyId(7), &mut rows);
        assert_eq!(rows.iter().map(|row| row.outcomes.refused).sum::<u64>(), many.refused + 2);
    }
}
