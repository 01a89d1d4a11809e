//! Turns, as the front takes them: requests are granted one by one, what was granted is written in one step, and only then
//! somebody is told. Two loops do so beside each other, and beside them others are charged one at a time.

use super::book::Asked;
use super::rig::lock;
use super::{Asks, Machine};
use ipse_model::{Charge, DayAllowance};
use ipse_store::{Counters, Subject, Unwritten};

/// As much happens, at most, while loops take their turns.
const STEPS: u64 = 40;

/// What one loop has granted and not told.
#[derive(Default)]
struct Turn {
    unwritten: Unwritten,
    granted: Vec<(Granted, DayAllowance)>,
}

enum Granted {
    Key(Asked),
    Demo,
}

impl Machine {
    /// Both loops take turns. It is over within a moment, so that nothing else happens to the machine meanwhile.
    pub(super) fn take_turns(&mut self) {
        let mut turns = [Turn::default(), Turn::default()];
        for _ in 0..=self.random.below(STEPS) {
            let (place, turn) = (self.random.index(self.table.len() + 1), self.random.index(turns.len()));
            match self.random.below(10) {
                0 => self.request(place),
                1 if !self.is_stopping => self.go_on(),
                2 => self.sync(),
                3 => self.end_turn(&mut turns[turn]),
                _ => self.grant(place, &mut turns[turn]),
            }
        }
        turns.iter_mut().for_each(|turn| self.end_turn(turn));
    }

    /// A caller asks whoever answers at once, and else in the way of all others.
    fn grant(&mut self, place: usize, turn: &mut Turn) {
        let Some((ledger, asks)) = self.ask(place) else { return };
        let allowance = match &asks {
            Asks::Key(key, asked) => ledger.grant_key(key, asked.now, &mut turn.unwritten),
            Asks::Demo(now) => ledger.grant_demo(*now, &mut turn.unwritten),
        };
        match (allowance, asks) {
            (Some(allowance), Asks::Key(_, asked)) => turn.granted.push((Granted::Key(asked), allowance)),
            (Some(allowance), Asks::Demo(_)) => turn.granted.push((Granted::Demo, allowance)),
            (None, asks) => self.charge(ledger, asks),
        }
    }

    /// Has what was granted written, and then told.
    fn end_turn(&mut self, turn: &mut Turn) {
        let Turn { unwritten, granted } = turn;
        let Some(ledger) = lock(&self.ledger).clone() else { return };
        let written = ledger.write(unwritten);
        let mut book = lock(&self.book);
        for (who, allowance) in granted.drain(..) {
            let subject = match &who {
                Granted::Key(asked) => super::subject_of(asked.place),
                Granted::Demo => Subject::Demo,
            };
            match (&written, who) {
                // The disk failed, or the process died, which may have been behind the last byte.
                (Err(_), _) => book.take_back(subject, allowance),
                (Ok(()), Granted::Demo) => {
                    book.seen.granted += 1;
                    book.answer(Subject::Demo, allowance);
                }
                (Ok(()), Granted::Key(asked)) => {
                    book.seen.granted += 1;
                    book.tell(asked, Charge::Granted(allowance));
                }
            }
        }
    }
}
