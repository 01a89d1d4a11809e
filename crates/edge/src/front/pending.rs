//! Requests that somebody else decides. Their connections wait for that, and the loop goes on.

use super::Front;
use super::request::Came;
use crate::fault::HttpFault;
use crate::prompt::Prompt;
use crate::reply::Reply;
use crate::serve::Visit;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Questions wait for others for so many turns at most, and for so long if nothing else happens.
const HELD_TURNS: usize = 128;
pub(super) const HELD_NS: i64 = 1_000_000;
/// How long a loop that ends waits for verdicts.
const LAST_VERDICTS_WITHIN_MS: u64 = 1_000;
/// Nothing is waited for, and of a peer that is gone it is told once.
const NOTHING: EventFlags = EventFlags::ET;

/// A request whose verdict is to come.
pub(super) struct Pending {
    number: u64,
    body: Vec<u8>,
    /// What was read behind it.
    rest: Vec<u8>,
    /// There may be more of that.
    is_full: bool,
    /// The peer has closed its side.
    is_last: bool,
    /// Something happened on the connection meanwhile.
    is_stirred: bool,
}

/// A request that somebody else is asked about: its connection, and its number.
type Asked = (usize, u64);

/// Where verdicts lie until their loop has time for them.
pub(super) struct Verdicts<V>(Mutex<Vec<(Vec<Asked>, Vec<V>)>>);

impl<V> Default for Verdicts<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What is to be asked at the end of a turn, or of one soon after.
#[derive(Default)]
pub(super) struct Questions {
    asked: Vec<Asked>,
    last: u64,
    /// How many times somebody was asked who has not answered yet.
    deciding: usize,
    /// For how many turns there have been questions that are not asked yet.
    held_turns: usize,
}

/// What was read of a connection, as far as that is known.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// There may be more than fits.
    pub(super) is_full: bool,
    /// The peer has closed its side.
    pub(super) is_last: bool,
}

impl Questions {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Notes a request of which this body is written, and what was read behind it.
    pub(super) fn add(
        &mut self,
        connection: usize,
        body: Vec<u8>,
        rest: Vec<u8>,
        reading: Reading,
    ) -> Pending {
        self.last += 1;
        self.asked.push((connection, self.last));
        let Reading { is_full, is_last } = reading;
        Pending { number: self.last, body, rest, is_full, is_last, is_stirred: false }
    }

    /// Nothing happens: nobody else will join those who wait.
    pub(super) fn wait_for_nobody(&mut self) {
        if !self.is_empty() {
            self.held_turns = HELD_TURNS;
        }
    }

    /// A turn ends: what is to be asked now. Who comes while others are being decided waits for that, though not long, and not
    /// at the end of all: to ask costs much, and hardly more for many.
    fn due(&mut self, is_end: bool) -> Option<Vec<Asked>> {
        if self.is_empty() {
            return None;
        }
        if self.deciding > 0 && self.held_turns < HELD_TURNS && !is_end {
            self.held_turns += 1;
            return None;
        }
        self.held_turns = 0;
        self.deciding += 1;
        Some(std::mem::take(&mut self.asked))
    }

    /// What was asked in one step is decided.
    fn decided(&mut self) {
        self.deciding -= 1;
    }
}

impl<S, F, P> Front<S, P>
where
    S: Fn(Visit) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
    P: Prompt,
{
    /// Has the requests decided that somebody else decides.
    pub(super) fn ask_elsewhere(&mut self) {
        let Some(asked) = self.turn.questions.due(self.house.is_closing()) else { return };
        let deciding = self.turn.prompt.decide(&mut self.turn.decided);
        let (verdicts, mailbox) = (Arc::clone(&self.verdicts), Arc::clone(&self.mailbox));
        self.runtime.spawn(async move {
            let decided = deciding.await;
            verdicts.0.lock().unwrap_or_else(PoisonError::into_inner).push((asked, decided));
            mailbox.ring();
        });
    }

    /// Something happened on a connection that waits. It is looked at when its verdict has come.
    pub(super) fn stir(&mut self, connection: usize) {
        let what = self.mark_of(connection);
        let Some(resting) = self.connections[connection].as_mut() else { return };
        let Some(pending) = resting.pending.as_mut() else { return };
        pending.is_stirred = true;
        // Who cannot be waited for any more is found out with their answer.
        let _ = epoll::modify(&self.epoll, &resting.guest.socket, what, NOTHING);
    }

    /// Answers all whose verdicts have come.
    pub(super) fn conclude_all(&mut self) {
        let all = std::mem::take(&mut *self.verdicts.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (asked, verdicts) in all {
            self.turn.questions.decided();
            for ((connection, number), verdict) in asked.into_iter().zip(verdicts) {
                self.conclude(connection, number, verdict);
            }
        }
    }

    fn conclude(&mut self, connection: usize, number: u64, verdict: P::Verdict) {
        let what = self.mark_of(connection);
        let Some(resting) = self.connections.get_mut(connection).and_then(Option::as_mut) else { return };
        let Some(pending) = resting.pending.take_if(|pending| pending.number == number) else { return };
        let Pending { body, rest, is_full, is_last, is_stirred, .. } = pending;
        if is_stirred {
            // Registering anew tells of what came meanwhile.
            let comes = resting.guest.something_comes();
            if epoll::modify(&self.epoll, &resting.guest.socket, what, comes).is_err() {
                return self.close(connection);
            }
        }
        let turn = &mut self.turn;
        turn.tell_time(self.house.clock.now());
        let begin = turn.output.len();
        turn.draft.head.clear();
        let spare = std::mem::replace(&mut turn.draft.body, body);
        turn.spare_bodies.push(spare);
        let concluded =
            catch_unwind(AssertUnwindSafe(|| turn.prompt.conclude(verdict, &mut turn.draft.head)));
        match concluded {
            Ok(Ok(())) => turn.write(&resting.guest.line.told),
            Ok(Err(reply)) => turn.write_reply(&self.house, resting, None, *reply),
            Err(_) => {
                let fault = (self.house.faults)(HttpFault::Panicked);
                turn.write_reply(&self.house, resting, None, fault);
            }
        }
        let from = turn.input.len();
        turn.input.extend_from_slice(&rest);
        let (bytes, reading) = (from..turn.input.len(), Reading { is_full, is_last });
        self.go_on(&mut Came::new(connection, bytes, reading), begin, 1);
    }

    /// Answers those who wait for verdicts, before the loop ends. Who waits in vain is let go.
    pub(super) fn await_verdicts(&mut self) {
        let begun_ms = self.house.clock.now().boot_ms;
        let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        loop {
            self.end_turn();
            let passed_ms = self.house.clock.now().boot_ms.saturating_sub(begun_ms);
            let waits = |connection: &usize| {
                self.connections[*connection].as_ref().is_some_and(|resting| resting.pending.is_some())
            };
            let waiting: Vec<usize> = (0..self.connections.len()).filter(waits).collect();
            if waiting.is_empty() {
                return;
            }
            if passed_ms >= LAST_VERDICTS_WITHIN_MS {
                return waiting.into_iter().for_each(|connection| self.close(connection));
            }
            // Either is a reason to look.
            let _ = poll(&mut [PollFd::new(&*self.mailbox, PollFlags::IN)], Some(&timeout));
            self.mailbox.take();
            self.conclude_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(questions: &mut Questions) {
        let reading = Reading { is_full: false, is_last: false };
        questions.add(7, Vec::new(), Vec::new(), reading);
    }

    fn due(questions: &mut Questions) -> Option<usize> {
        questions.due(false).map(|asked| asked.len())
    }

    /// Questions of whom one is being decided.
    fn asked_once() -> Questions {
        let mut questions = Questions::default();
        assert_eq!(due(&mut questions), None);
        add(&mut questions);
        assert_eq!(due(&mut questions), Some(1), "where nobody decides, nobody is waited for");
        questions
    }

    #[test]
    fn what_comes_while_others_are_decided_is_asked_together() {
        let mut questions = asked_once();
        for _ in 0..10 {
            add(&mut questions);
            assert_eq!(due(&mut questions), None);
        }
        questions.decided();
        assert_eq!(due(&mut questions), Some(10));
        assert_eq!(due(&mut questions), None);
    }

    #[test]
    fn nobody_waits_long_for_others() {
        let mut questions = asked_once();
        // What happened while nothing was to be asked says nothing about what comes then.
        questions.wait_for_nobody();
        add(&mut questions);
        (0..HELD_TURNS).for_each(|_| assert_eq!(due(&mut questions), None));
        assert_eq!(due(&mut questions), Some(1));
        add(&mut questions);
        assert_eq!(due(&mut questions), None);
        questions.wait_for_nobody();
        assert_eq!(due(&mut questions), Some(1));
        add(&mut questions);
        assert_eq!(questions.due(true).map(|asked| asked.len()), Some(1), "at the end");
    }
}
