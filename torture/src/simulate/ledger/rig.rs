//! What a simulated ledger stands on: a disk, records and whoever carries out what it asks for, each when chance wants it.

use super::book::Book;
use super::disk::{Drive, Open};
use ipse_model::{Day, KeyId, Now};
use ipse_store::ground::{Done, Ground, OutcomeRow, Segment};
use ipse_store::{Error, Subject, UsageRow};
use ipse_testkit::Random;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a process asked for and nobody did yet. It is gone with the process.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) syncs: VecDeque<(Arc<Segment<Open>>, Done)>,
    pub(super) begun: Vec<Work>,
}

/// One process, as its ledger sees it.
pub(super) struct Rig {
    pub(super) drive: Drive,
    pub(super) book: Arc<Mutex<Book>>,
    pub(super) wanted: Arc<Mutex<Wanted>>,
    pub(super) random: Mutex<Random>,
}

/// Waits until it is asked for once more.
#[derive(Default)]
struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Rig {
    /// Asks the records, which take their time, may be away, and may do it and not be heard.
    async fn ask<T>(&self, change: impl FnOnce(&mut Book) -> T) -> Result<T, Error> {
        Pause::default().await;
        let chance = lock(&self.random).below(100);
        if self.drive.step().is_err() || lock(&self.book).records_away || chance < 2 {
            return Err(Error::JournalBroken);
        }
        let done = change(&mut lock(&self.book));
        Pause::default().await;
        if chance < 3 || !self.drive.is_alive() { Err(Error::JournalBroken) } else { Ok(done) }
    }
}

impl Ground for Rig {
    type Disk = Drive;

    fn disk(&self) -> Drive {
        self.drive.clone()
    }

    fn sync_later(&self, segment: Arc<Segment<Open>>, done: Done) {
        lock(&self.wanted).syncs.push_back((segment, done));
    }

    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        lock(&self.wanted).begun.push(Box::pin(work));
    }

    async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        Pause::default().await;
        Some(work())
    }

    async fn usage_since(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        self.ask(|book| book.usage.since(day)).await
    }

    async fn recover(
        &self,
        rows: &[UsageRow],
        _: &[OutcomeRow],
        boot: &str,
        today: Day,
    ) -> Result<(), Error> {
        self.ask(|book| book.usage.recover(rows, boot, today)).await
    }

    async fn fold(&self, rows: &[UsageRow], _: &[OutcomeRow]) -> Result<(), Error> {
        self.ask(|book| book.usage.fold(rows)).await
    }

    async fn fold_exactly(&self, rows: &[UsageRow], _: &[OutcomeRow]) -> Result<(), Error> {
        self.ask(|book| book.usage.fold_exactly(rows)).await
    }

    async fn pause_for_burst(
        &self,
        id: KeyId,
        resumes: u32,
        minute: &[u32; 60],
        now: Now,
    ) -> Result<bool, Error> {
        self.ask(|book| book.pause(id, resumes, minute, now)).await
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        self.ask(|book| book.usage.used(subject, day)).await
    }
}

pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
