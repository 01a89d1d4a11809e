//! Reserves ranges in the records, for many subjects in one step.
//!
//! While one step is under way the next ones gather. Whoever asks for a subject that somebody else has asked for already
//! waits for the same range.

use super::Engine;
use super::protocol;
use crate::records::{Portion, Range, Wanted};
use crate::{Error, Subject};
use ipse_model::Day;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// As many subjects go into one step.
const AT_ONCE: usize = 500;

/// A wish for the next range of a day.
pub(super) struct Wish {
    pub(super) subject: Subject,
    pub(super) day: Day,
    pub(super) limit: u32,
    /// The moment, where tests say it.
    pub(super) clock: Option<i64>,
    pub(super) end: End,
}

/// Who gets the range.
pub(super) enum End {
    /// The shared engine; somebody may wait for that.
    Offer(Option<oneshot::Sender<Result<(), Error>>>),
    /// This node itself.
    Take(oneshot::Sender<Result<Range, Error>>),
}

impl End {
    /// Whether nobody waits any more.
    fn is_given_up(&self) -> bool {
        match self {
            Self::Offer(waiter) => waiter.as_ref().is_some_and(oneshot::Sender::is_closed),
            Self::Take(waiter) => waiter.is_closed(),
        }
    }
}

/// Serves wishes until nobody can have any.
pub(super) async fn serve(engine: Weak<Engine>, mut wishes: mpsc::UnboundedReceiver<Wish>) {
    let mut gathered = Vec::with_capacity(AT_ONCE);
    while wishes.recv_many(&mut gathered, AT_ONCE).await > 0 {
        let Some(engine) = engine.upgrade() else { return };
        let mut by_subject: HashMap<Subject, Vec<Wish>> = HashMap::new();
        for wish in gathered.drain(..).filter(|wish| !wish.end.is_given_up()) {
            by_subject.entry(wish.subject).or_default().push(wish);
        }
        let mut subjects: Vec<(Wanted, Vec<Wish>)> = by_subject.into_values().filter_map(wanted).collect();
        subjects.sort_unstable_by_key(|(wanted, _)| wanted.subject);
        let all: Vec<Wanted> = subjects.iter().map(|(wanted, _)| *wanted).collect();
        if all.is_empty() {
            continue;
        }
        let reserved = engine.records.reserve(&all).await;
        engine.note_records(reserved.as_ref().err());
        match reserved {
            Ok(ranges) => {
                let mut offers = JoinSet::new();
                for ((wanted, wishes), range) in subjects.into_iter().zip(ranges) {
                    let engine = Arc::clone(&engine);
                    offers.spawn(async move { hand_over(&engine, wanted, range, wishes).await });
                }
                offers.join_all().await;
            }
            Err(error) => {
                for wish in subjects.into_iter().flat_map(|(_, wishes)| wishes) {
                    tell(wish.end, Err(&error));
                }
            }
        }
        // Who was told that little is left before this came may be about to say so: that is no wish for yet another range.
        tokio::task::yield_now().await;
        let mut extending = engine.extending.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|wanted| {
            extending.remove(&wanted.subject);
        });
    }
}

/// What is reserved for several wishes of one subject: those of the latest day count.
fn wanted(mut wishes: Vec<Wish>) -> Option<(Wanted, Vec<Wish>)> {
    let day = wishes.iter().map(|wish| wish.day).max()?;
    wishes.retain(|wish| wish.day == day);
    let takers = wishes.iter().filter(|wish| matches!(wish.end, End::Take(_))).count();
    // What a node has left of a lease is lost when the engine is back.
    let portion = match u32::try_from(takers).unwrap_or(u32::MAX) {
        0 => Portion::PartOfDay,
        waiting => Portion::Few { waiting },
    };
    let first = wishes.first()?;
    Some((Wanted { subject: first.subject, day, limit: first.limit, portion }, wishes))
}

/// A range goes to one end only: to the node if it wants it, and else to the shared engine.
async fn hand_over(engine: &Arc<Engine>, wanted: Wanted, range: Range, wishes: Vec<Wish>) {
    if wishes.iter().any(|wish| matches!(wish.end, End::Take(_))) {
        engine.lease.take(wanted.subject, wanted.day, range);
        let error = Error::Counters(super::Away::Unsettled);
        for wish in wishes {
            match wish.end {
                End::Take(waiter) => drop(waiter.send(Ok(range))),
                end @ End::Offer(_) => tell(end, Err(&error)),
            }
        }
        return;
    }
    let clock = wishes.first().and_then(|wish| wish.clock);
    let teller = engine.teller(clock);
    let offered = protocol::offer(&teller, wanted.subject, wanted.day, range).await;
    wishes.into_iter().for_each(|wish| tell(wish.end, offered.as_ref().copied()));
}

fn tell(end: End, outcome: Result<(), &Error>) {
    match (end, outcome) {
        (End::Offer(Some(waiter)), outcome) => {
            let _ = waiter.send(outcome.map_err(Clone::clone));
        }
        (End::Take(waiter), Err(error)) => {
            let _ = waiter.send(Err(error.clone()));
        }
        (End::Offer(None), _) | (End::Take(_), Ok(())) => {}
    }
}
