//! What this node has seen of its subjects since the last fold: how far their days are used, and what became of requests.

use crate::records::OutcomeRow;
use crate::spread::Spread;
use crate::tally::Tally;
use crate::{Outcomes, Subject, UsageRow};
use ipse_model::{Day, Now};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests of many keys are noted at once, so not all behind one lock.
const STRIPES: usize = 64;
/// As many subjects are handed over at once, or a few more; others wait for the next time. Else a key that is asked for five
/// times a second would be written to the database every second, which costs more than answering it.
const SUBJECTS_AT_ONCE: usize = 2_000;

#[derive(Default)]
struct Seen {
    tally: Tally,
    /// How far days are used: nearly always one.
    days: Vec<(Day, u32)>,
}

type Stripe = HashMap<Subject, Seen, Spread>;

/// What is to be folded next.
pub(super) struct News {
    stripes: Vec<Mutex<Stripe>>,
    /// The stripe that is handed over next.
    next: AtomicUsize,
}

impl News {
    pub(super) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }

    /// Notes what became of a request, and how far its day is used, if that is known. The demo is nobody's, so nobody
    /// looks at its outcomes.
    pub(super) fn note(&self, subject: Subject, now: Now, used: Option<(Day, u32)>, outcome: Outcomes) {
        let mut stripe = self.stripe(subject);
        let seen = stripe.entry(subject).or_default();
        if let Some((day, used)) = used {
            seen.raise(day, used);
        }
        if subject != Subject::Demo {
            let day = used.map_or(now.day(), |(day, _)| day);
            seen.tally.add(now, day, outcome);
        }
    }

    /// Hands over what is there, or a part of it, in the order in which rows are written.
    pub(super) fn take(&self) -> (Vec<UsageRow>, Vec<OutcomeRow>) {
        let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
        let mut subjects = 0;
        for _ in 0..self.stripes.len() {
            if subjects >= SUBJECTS_AT_ONCE {
                break;
            }
            let place = self.next.fetch_add(1, Ordering::Relaxed) % self.stripes.len();
            let mut stripe = self.stripes[place].lock().unwrap_or_else(PoisonError::into_inner);
            let found = stripe.len();
            // About as many will be noted until the next time.
            let all = std::mem::replace(&mut *stripe, Stripe::with_capacity_and_hasher(found, Spread));
            drop(stripe);
            subjects += found;
            for (subject, mut seen) in all {
                if let Subject::Key(key) = subject {
                    seen.tally.take(key, &mut outcomes);
                }
                // The mark stands where it was reserved up to, which the records know better.
                let row = |(day, used)| UsageRow { subject, day, used, mark: used };
                rows.extend(seen.days.into_iter().map(row));
            }
        }
        rows.sort_unstable_by_key(|row| (row.subject, row.day));
        outcomes.sort_unstable_by_key(|row| (row.key, row.hour));
        (rows, outcomes)
    }

    /// Takes back what could not be written.
    pub(super) fn put_back(&self, rows: &[UsageRow], outcomes: &[OutcomeRow]) {
        for row in rows {
            self.stripe(row.subject).entry(row.subject).or_default().raise(row.day, row.used);
        }
        for row in outcomes {
            let subject = Subject::Key(row.key);
            self.stripe(subject).entry(subject).or_default().tally.put_back(row);
        }
    }

    /// How far a subject was seen to be used on a day since the last fold.
    pub(super) fn used(&self, subject: Subject, day: Day) -> Option<u32> {
        let stripe = self.stripe(subject);
        let (_, used) = stripe.get(&subject)?.days.iter().find(|(seen, _)| *seen == day)?;
        Some(*used)
    }

    /// Forgets a subject that is no more.
    pub(super) fn forget(&self, subject: Subject) {
        self.stripe(subject).remove(&subject);
    }

    fn stripe(&self, subject: Subject) -> MutexGuard<'_, Stripe> {
        let place = usize::try_from(subject.number().unsigned_abs()).unwrap_or(0) % self.stripes.len();
        self.stripes[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn raise(&mut self, day: Day, used: u32) {
        match self.days.iter_mut().find(|(seen, _)| *seen == day) {
            Some((_, highest)) => *highest = used.max(*highest),
            None => self.days.push((day, used)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{ANSWERED, REFUSED};
    use ipse_model::KeyId;
    use std::collections::HashSet;

    const NOW: Now = Now { unix_ms: 86_400_000, boot_ms: 0 };

    #[test]
    fn when_there_is_much_everybody_has_their_turn() {
        let news = News::new();
        let keys = 3 * SUBJECTS_AT_ONCE;
        for key in 1..=keys {
            news.note(Subject::Key(KeyId(i64::try_from(key).unwrap())), NOW, Some((Day(1), 1)), ANSWERED);
        }
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let (rows, outcomes) = news.take();
            assert_eq!(rows.len(), outcomes.len());
            assert!(rows.len() < SUBJECTS_AT_ONCE + SUBJECTS_AT_ONCE / 10, "{}", rows.len());
            seen.extend(rows.iter().map(|row| row.subject));
        }
        assert_eq!((seen.len(), news.take().0.len()), (keys, 0));
    }

    #[test]
    fn what_could_not_be_written_is_written_with_what_came_since() {
        let news = News::new();
        let key = Subject::Key(KeyId(65));
        news.note(key, NOW, Some((Day(1), 5)), ANSWERED);
        news.note(key, NOW, Some((Day(1), 4)), ANSWERED);
        news.note(Subject::Demo, NOW, Some((Day(1), 9)), ANSWERED);
        let (rows, outcomes) = news.take();
        assert_eq!(
            rows.iter().map(|row| (row.subject, row.used)).collect::<Vec<_>>(),
            [(Subject::Demo, 9), (key, 5)]
        );
        assert_eq!(outcomes.len(), 1, "nobody looks at outcomes of the demo");
        assert!(news.take().0.is_empty());
        news.note(key, NOW, None, REFUSED);
        news.put_back(&rows, &outcomes);
        assert_eq!(news.used(key, Day(1)), Some(5));
        let (rows, outcomes) = news.take();
        assert_eq!((rows.len(), outcomes[0].outcomes.answered, outcomes[0].outcomes.refused), (2, 2, 1));
    }
}
