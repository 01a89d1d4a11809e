//! The ledger: exact and durable counters for one machine.
//!
//! Each charge is decided in memory under its own subject's lock and appended to the journal before that lock is
//! let go. Once a second the counts are folded into the database. To be exact after a power cut as well, a
//! subject is served only up to its *mark*, which is on the disk and stands at most [`MARK_STEP`] ahead of the
//! count; after a new boot counting goes on from the mark.

mod cells;
pub mod ground;
mod journal;
mod pages;
mod recovery;
mod sync;
mod windows;

pub use recovery::used_in_journal;

use crate::counters::{Counters, KeyCharge, Subject, Unwritten};
use crate::tally;
use crate::{BootId, CountersReport, DataFolder, Error, Records, UsageRow};
use cells::{Cells, Halt, Kept, PauseNews, Spot, State};
use ground::{FileOf, Ground, Machine, OutcomeRow};
use ipse_model::{
    BURST_WINDOW_MS, Charge, DEMO_DAILY_LIMIT, Day, DayAllowance, Key, KeyId, KeyState, Meter, Now,
};
use journal::{Entry, Journal, Segment};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, mpsc};
use tokio::sync::{oneshot, watch};
use windows::Windows;

/// How far the durable mark may stand ahead of the count: the most that a power cut can withhold.
const MARK_STEP: u32 = 64;
/// With fewer than these left before the mark, the next one is asked for, so that nobody has to wait for it.
const MARK_RESERVE: u32 = 32;
/// As many subjects are folded at once; when more have changed, each waits for its turn. A key that is asked for five times a
/// second would else be written to the database every second, which costs more than answering it.
const CELLS_AT_ONCE: usize = 1_000;
/// A segment is left when it is this old or this large.
const SEGMENT_MS: u64 = 20_000;
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// The local engine of [`Counters`].
pub struct Ledger<G: Ground = Machine> {
    ground: Arc<G>,
    cells: Cells<FileOf<G>>,
    demo: Kept<FileOf<G>>,
    journal: Journal<G::Disk>,
    /// Cells that changed since the last fold.
    changed: mpsc::Sender<Kept<FileOf<G>>>,
    /// How many have ever waited for a fold.
    queued: AtomicU64,
    /// What only the fold touches.
    folding: tokio::sync::Mutex<Folding<FileOf<G>>>,
    /// How many pauses were written.
    pauses: Arc<AtomicU64>,
}

struct Folding<F> {
    changed: mpsc::Receiver<Kept<F>>,
    /// What is being folded. It is empty between two folds, but keeps its memory.
    batch: Batch<F>,
    windows: Windows<F>,
    /// How many of those that waited had their turn.
    taken: u64,
    /// Segments that are no longer the active one.
    left: Vec<Left<F>>,
    segment_since: Option<u64>,
}

/// Cells that are folded together.
struct Batch<F> {
    cells: Vec<Kept<F>>,
    /// What the database does not know of them.
    rows: Vec<UsageRow>,
    outcomes: Vec<OutcomeRow>,
    /// Which of the cells have ended days among it, and how many.
    ended: Vec<(usize, usize)>,
}

/// A segment that is no longer the active one.
struct Left<F> {
    segment: Arc<Segment<F>>,
    /// Its records are folded when so many of those that waited had their turn; not known as long as somebody may append to it.
    folded_after: Option<u64>,
}

/// What was decided about a request under the lock of its cell.
#[derive(Clone, Copy)]
struct Decided {
    charge: Charge,
    /// What the day had used before.
    used_before: u32,
}

/// What a decision under the lock still has to wait for.
enum Then {
    Answer,
    /// Until the mark covers it.
    Durable(oneshot::Receiver<Result<(), Error>>),
}

impl Ledger {
    /// Recovers the counts of `folder` and goes on from them. Only one ledger may work on a folder: the caller holds
    /// its lock.
    pub async fn open(
        folder: &DataFolder,
        records: &Records,
        boot: Option<BootId>,
        now: Now,
    ) -> Result<Arc<Self>, Error> {
        records.bind_journal(folder).await?;
        let journal = folder.journal();
        let ground = Machine::new(records.clone()).map_err(|source| Error::file(&journal, source))?;
        Self::stand_on(ground, &journal, boot, now).await
    }
}

impl<G: Ground> Ledger<G> {
    /// Recovers what the journal in a folder and the records hold, and goes on from it.
    pub async fn stand_on(
        ground: G,
        journal_folder: &Path,
        boot: Option<BootId>,
        now: Now,
    ) -> Result<Arc<Self>, Error> {
        let recovered = recovery::read(&ground.disk(), journal_folder, boot, now.day())?;
        let boot_name = boot.map(|boot| boot.to_string()).unwrap_or_default();
        let outcomes = match recovered.first_day() {
            Some(day) => recovered.outcomes(&ground.usage_since(day).await?, now),
            None => Vec::new(),
        };
        ground.recover(&recovered.rows(), &outcomes, &boot_name, now.day()).await?;

        let cells = Cells::new(now.day());
        for row in ground.usage_since(now.day()).await? {
            cells.keep(row.subject).lock().take_over(row);
        }
        let mut windows = Windows::default();
        for (subject, (resumes, times)) in recovered.windows() {
            let cell = cells.keep(subject);
            let mut state = cell.lock();
            state.resumes = resumes;
            for time in times {
                state.meter.window_mut().admit(time);
            }
            windows.note(cell.spot(), &mut state, now.boot_ms);
        }
        let demo = cells.keep(Subject::Demo);
        let (changed, receiver) = mpsc::channel();
        let folding = Folding {
            changed: receiver,
            batch: Batch::default(),
            windows,
            taken: 0,
            left: Vec::new(),
            segment_since: None,
        };
        let journal = Journal::begin(ground.disk(), journal_folder, boot, &window_copies(&cells, now))?;
        // Their counts are in the database, and their windows in the new segment.
        journal.remove_older()?;
        let (ground, folding, pauses) = (Arc::new(ground), folding.into(), Arc::default());
        let queued = AtomicU64::new(0);
        Ok(Arc::new(Self { ground, cells, demo, journal, changed, queued, folding, pauses }))
    }

    /// Folds what changed into the database and lets go of memory and files that are no longer needed. To be called
    /// about once a second.
    pub async fn fold(self: &Arc<Self>, now: Now) -> Result<(), Error> {
        let mut folding = self.folding.lock().await;
        if self.journal.is_broken() {
            // Before all else: until there is a new segment, nothing can be charged.
            self.leave_segment(&mut folding, now).await?;
        }
        for left in &mut folding.left {
            // Nobody appends to it any more, so all of its records are of cells that wait here, or have been folded since.
            if left.folded_after.is_none() && Arc::strong_count(&left.segment) == 1 {
                fence(Ordering::Acquire);
                left.folded_after = Some(self.queued.load(Ordering::Acquire));
            }
        }
        let folding = &mut *folding;
        folding.gather(now);
        let Batch { rows, outcomes, .. } = &folding.batch;
        if !(rows.is_empty() && outcomes.is_empty())
            && let Err(error) = self.ground.fold(rows, outcomes).await
        {
            self.put_back(folding);
            return Err(error);
        }
        folding.batch.forget_ended();
        folding.windows.shrink(now.boot_ms);
        self.tend_segments(folding, now).await
    }

    /// Has all of a batch that could not be written wait once more, behind all others.
    fn put_back(&self, folding: &mut Folding<FileOf<G>>) {
        for row in &folding.batch.outcomes {
            self.cells.with(Subject::Key(row.key), |cell| cell.lock().tally.put_back(row));
        }
        for cell in &folding.batch.cells {
            self.fold_later(cell.spot(), &mut cell.lock());
        }
        let queued = self.queued.load(Ordering::Acquire);
        folding
            .left
            .iter_mut()
            .filter_map(|left| left.folded_after.as_mut())
            .for_each(|after| *after = queued);
    }

    /// Folds exactly, so that not even a new boot withholds anything. To be called when nothing is charged any more.
    pub async fn close(&self, now: Now) -> Result<(), Error> {
        let mut folding = self.folding.lock().await;
        while folding.changed.try_recv().is_ok() {}
        folding.taken = self.queued.load(Ordering::Acquire);
        folding.left.clear();
        let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
        self.cells.for_each(|cell| {
            let mut state = cell.lock();
            let ended = state.changes(cell.subject(), &mut rows, &mut outcomes);
            state.forget_ended(ended);
        });
        self.ground.fold_exactly(&rows, &outcomes).await?;
        self.journal.rotate(&window_copies(&self.cells, now))?;
        self.journal.remove_older()
    }

    /// Leaves the active segment when it is old or large, and deletes those whose records are in the database
    /// and too old for any burst window.
    async fn tend_segments(
        self: &Arc<Self>,
        folding: &mut Folding<FileOf<G>>,
        now: Now,
    ) -> Result<(), Error> {
        let taken = folding.taken;
        let mut done = Vec::new();
        folding.left.retain(|left| {
            let is_folded = left.folded_after.is_some_and(|after| taken >= after);
            let is_old = now.boot_ms.saturating_sub(left.segment.latest_ms()) >= BURST_WINDOW_MS;
            let keep = !(is_old && is_folded);
            if !keep {
                done.push(Arc::clone(&left.segment));
            }
            keep
        });
        if !done.is_empty() {
            let ledger = Arc::clone(self);
            let removing =
                self.ground.aside(move || done.iter().try_for_each(|segment| ledger.journal.remove(segment)));
            removing.await.ok_or(Error::JournalBroken)??;
        }
        let bytes = self.journal.active_bytes();
        let since = *folding.segment_since.get_or_insert(now.boot_ms);
        let old = now.boot_ms.saturating_sub(since) >= SEGMENT_MS && bytes > 0;
        if old || bytes >= SEGMENT_BYTES {
            self.leave_segment(folding, now).await?;
        }
        Ok(())
    }

    /// Begins a new segment of the journal, off the threads that answer requests.
    async fn leave_segment(
        self: &Arc<Self>,
        folding: &mut Folding<FileOf<G>>,
        now: Now,
    ) -> Result<(), Error> {
        let ledger = Arc::clone(self);
        let rotating = self.ground.aside(move || ledger.journal.rotate(&[]));
        let left = rotating.await.ok_or(Error::JournalBroken)??;
        folding.left.push(Left { segment: left, folded_after: None });
        folding.segment_since = Some(now.boot_ms);
        Ok(())
    }

    /// Has the cell folded with the next ones.
    fn fold_later(&self, cell: Spot<'_, FileOf<G>>, state: &mut State<FileOf<G>>) {
        if !std::mem::replace(&mut state.changed, true) {
            self.queued.fetch_add(1, Ordering::Release);
            let _ = self.changed.send(cell.keep());
        }
    }

    /// Counts a request that is refused and charged nothing.
    fn refuse(&self, cell: Spot<'_, FileOf<G>>, state: &mut State<FileOf<G>>, now: Now) {
        state.count(cell.subject(), now, tally::REFUSED);
        self.fold_later(cell, state);
    }

    /// Charges under the lock and appends to the journal; if that fails, nothing was charged.
    fn charge(
        &self,
        cell: Spot<'_, FileOf<G>>,
        state: &mut State<FileOf<G>>,
        now: Now,
        rule: impl FnOnce(&mut Meter) -> Charge,
    ) -> Result<(Charge, Then), Error> {
        state.turn_to(now.day());
        let used_before = state.meter.used();
        let charge = rule(&mut state.meter);
        let then = self.enter(cell, state, now, None, Decided { charge, used_before })?;
        Ok((charge, then))
    }

    /// Enters what was decided in the journal; if that fails, it is undone. With somebody who writes for many, what nobody else
    /// waits for is left to them.
    fn enter(
        &self,
        cell: Spot<'_, FileOf<G>>,
        state: &mut State<FileOf<G>>,
        now: Now,
        unwritten: Option<&mut Unwritten>,
        Decided { charge, used_before }: Decided,
    ) -> Result<Then, Error> {
        let (subject, used) = (cell.subject(), state.meter.used());
        // Every request of a key stands in its window, but for the one that no longer fitted.
        let in_window = subject != Subject::Demo && charge != Charge::BurstExceeded;
        if used == used_before && !in_window {
            return Ok(Then::Answer);
        }
        let (granted, mark) = match charge {
            Charge::Granted(allowance) => (true, next_mark(state.mark.written, used, allowance.limit)),
            Charge::DayUsedUp(_) | Charge::BurstExceeded => (false, state.mark.written),
        };
        let raised = mark > state.mark.written;
        let entry = Entry { mark, ..state.entry(subject, in_window, now.boot_ms) };
        match unwritten {
            Some(unwritten) if !raised => unwritten.add(entry),
            _ => match self.journal.append(entry) {
                Ok(segment) if raised => (state.mark.written, state.mark.segment) = (mark, Some(segment)),
                Ok(_) => {}
                Err(error) => {
                    state.meter.take_back(used_before, in_window);
                    return Err(error);
                }
            },
        }
        match charge {
            Charge::Granted(_) => state.count(subject, now, tally::ANSWERED),
            Charge::DayUsedUp(_) => state.count(subject, now, tally::OVER_QUOTA),
            // It becomes a refusal when the pause is written, and not before.
            Charge::BurstExceeded => {}
        }
        self.fold_later(cell, state);
        let waits = granted && used > state.mark.durable;
        if !raised && !waits {
            return Ok(Then::Answer);
        }
        let (sender, receiver) = oneshot::channel();
        self.make_durable(cell, state, sender);
        Ok(if waits { Then::Durable(receiver) } else { Then::Answer })
    }

    /// Grants a request that fits under the mark of the present day: whatever else it may be needs more than this moment.
    fn grant(
        &self,
        cell: Spot<'_, FileOf<G>>,
        state: &mut State<FileOf<G>>,
        now: Now,
        unwritten: &mut Unwritten,
        rule: impl FnOnce(&mut Meter) -> Option<DayAllowance>,
    ) -> Option<DayAllowance> {
        let used_before = state.meter.used();
        let is_under_mark = now.day() <= state.meter.day() && used_before < state.mark.durable;
        // Whether the journal is broken is seen again when it is written.
        if !is_under_mark || (unwritten.is_empty() && self.journal.is_broken()) {
            return None;
        }
        let allowance = rule(&mut state.meter)?;
        let decided = Decided { charge: Charge::Granted(allowance), used_before };
        // After an error nothing was charged.
        self.enter(cell, state, now, Some(unwritten), decided).ok()?;
        unwritten.granted.push((cell.subject(), now));
        Some(allowance)
    }

    /// Takes back what was granted and could not be written. Some of it may stand in the journal all the same, and others may
    /// have been charged since: the journal then tells of more than is counted, and withholds it after a restart.
    fn take_back(&self, subject: Subject, now: Now) {
        self.cells.with(subject, |cell| {
            let mut state = cell.lock();
            let used = state.meter.used();
            if state.meter.day() == now.day() && used > 0 {
                state.meter.take_back(used - 1, !cell.is_demo());
            }
            let day = now.day().max(state.meter.day());
            state.tally.take_back(now, day, tally::ANSWERED);
        });
    }

    /// Has the written mark synced, and tells `waiter` when it is.
    fn make_durable(
        &self,
        cell: Spot<'_, FileOf<G>>,
        state: &State<FileOf<G>>,
        waiter: oneshot::Sender<Result<(), Error>>,
    ) {
        let Some(segment) = state.mark.segment.clone() else {
            // The written mark is durable already.
            let _ = waiter.send(Ok(()));
            return;
        };
        let (day, mark) = (state.meter.day(), state.mark.written);
        let cell = cell.keep();
        self.ground.sync_later(
            segment,
            Box::new(move |outcome| {
                let mut state = cell.lock();
                let told = match outcome {
                    Ok(()) => {
                        if state.meter.day() == day {
                            state.mark.durable = state.mark.durable.max(mark);
                            // It may stand above: of a key that was forgotten meanwhile, nothing is written.
                            if state.mark.durable >= state.mark.written {
                                state.mark.segment = None;
                            }
                        }
                        Ok(())
                    }
                    Err(_) => {
                        // The kernel may forget what it failed to write: the next charge writes the mark again, into
                        // a new segment.
                        state.mark.written = state.mark.durable;
                        state.mark.segment = None;
                        Err(Error::JournalBroken)
                    }
                };
                drop(state);
                let _ = waiter.send(told);
            }),
        );
    }

    /// Writes the pause in a task of its own, so that it happens even if its caller hangs up.
    fn begin_pause(
        &self,
        cell: Spot<'_, FileOf<G>>,
        state: &mut State<FileOf<G>>,
        id: KeyId,
        now: Now,
    ) -> PauseNews {
        let (sender, receiver) = watch::channel(None);
        state.halt = Some(Box::new(Halt::Pausing(state.resumes, receiver.clone())));
        let mut minute = state.meter.window().last_minute(now.boot_ms);
        // The one that was too many did not get into the window.
        minute[minute.len() - 1] += 1;
        let (ground, cell, resumes) = (Arc::clone(&self.ground), cell.keep(), state.resumes);
        let pauses = Arc::clone(&self.pauses);
        self.ground.begin(async move {
            let outcome = ground.pause_for_burst(id, resumes, &minute, now).await;
            pauses.fetch_add(u64::from(matches!(outcome, Ok(true))), Ordering::Relaxed);
            let outcome = outcome.map(drop);
            let mut state = cell.lock();
            if matches!(state.halt.as_deref(), Some(Halt::Pausing(of, _)) if *of == resumes) {
                // If it failed the window is still full: the next request tries again.
                state.halt = outcome.is_ok().then(|| Box::new(Halt::Paused(resumes)));
            }
            drop(state);
            let _ = sender.send(Some(outcome));
        });
        receiver
    }
}

impl<G: Ground> Counters for Ledger<G> {
    async fn charge_key(&self, key: &Key, now: Now) -> Result<KeyCharge, Error> {
        enum Step {
            Wait(PauseNews, KeyCharge),
            Charged(Charge, Then),
        }
        let cell = self.cells.keep(Subject::Key(key.id));
        let step = {
            let mut state = cell.lock();
            if key.resumes > state.resumes {
                state.resumes = key.resumes;
                state.meter.window_mut().clear();
            }
            if let Some(Halt::Paused(resumes) | Halt::Pausing(resumes, _)) = state.halt.as_deref()
                && *resumes < state.resumes
            {
                // It was resumed since, which may be heard of before the records say that the pause is written.
                state.halt = None;
            }
            if let Some(Halt::Pausing(_, done)) = state.halt.as_deref()
                && done.has_changed().is_err()
                && done.borrow().is_none()
            {
                // The task that was to write the pause is gone without a word.
                state.halt = None;
            }
            match state.halt.as_deref() {
                Some(Halt::Pausing(_, done)) => Step::Wait(done.clone(), KeyCharge::Paused),
                Some(Halt::Paused(_)) => {
                    self.refuse(cell.spot(), &mut state, now);
                    return Ok(KeyCharge::Paused);
                }
                None if key.state == KeyState::Paused && key.resumes == state.resumes => {
                    self.refuse(cell.spot(), &mut state, now);
                    return Ok(KeyCharge::Paused);
                }
                None => {
                    let (charge, then) = self.charge(cell.spot(), &mut state, now, |meter| {
                        meter.charge_key(now, key.daily_limit)
                    })?;
                    match charge {
                        Charge::BurstExceeded => Step::Wait(
                            self.begin_pause(cell.spot(), &mut state, key.id, now),
                            KeyCharge::Charged(Charge::BurstExceeded),
                        ),
                        charge => Step::Charged(charge, then),
                    }
                }
            }
        };
        match step {
            Step::Charged(charge, then) => {
                then.wait().await?;
                Ok(KeyCharge::Charged(charge))
            }
            Step::Wait(mut done, outcome) => match done.wait_for(Option::is_some).await {
                Ok(written) => match written.as_ref() {
                    Some(Err(error)) => Err(error.clone()),
                    _ => {
                        self.refuse(cell.spot(), &mut cell.lock(), now);
                        Ok(outcome)
                    }
                },
                Err(_) => Err(Error::JournalBroken),
            },
        }
    }

    async fn charge_demo(&self, now: Now) -> Result<Result<DayAllowance, DayAllowance>, Error> {
        let (charge, then) = {
            let mut state = self.demo.lock();
            self.charge(self.demo.spot(), &mut state, now, |meter| meter.charge_day(now, DEMO_DAILY_LIMIT))?
        };
        then.wait().await?;
        Ok(match charge {
            Charge::Granted(allowance) => Ok(allowance),
            Charge::DayUsedUp(allowance) => Err(allowance),
            Charge::BurstExceeded => unreachable!("the demo has no burst limit"),
        })
    }

    fn foresee(&self, keys: impl Iterator<Item = KeyId>) {
        self.cells.foresee(keys.map(Subject::Key));
    }

    fn grant_key(&self, key: &Key, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        let grant = |cell: Spot<'_, FileOf<G>>| {
            let mut state = cell.lock();
            let is_open = state.halt.is_none() && key.state == KeyState::Active;
            if !is_open || key.resumes != state.resumes {
                return None;
            }
            self.grant(cell, &mut state, now, unwritten, |meter| meter.grant_key(now, key.daily_limit))
        };
        self.cells.with(Subject::Key(key.id), grant)?
    }

    fn grant_demo(&self, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        let mut state = self.demo.lock();
        let rule = |meter: &mut Meter| meter.grant_day(now, DEMO_DAILY_LIMIT);
        self.grant(self.demo.spot(), &mut state, now, unwritten, rule)
    }

    fn write(&self, unwritten: &mut Unwritten) -> Result<(), Error> {
        let written = match unwritten.records.is_empty() {
            true => Ok(()),
            false => self.journal.append_all(&mut unwritten.records, unwritten.latest_ms),
        };
        if written.is_err() {
            unwritten.granted.iter().rev().for_each(|(subject, now)| self.take_back(*subject, *now));
        }
        unwritten.granted.clear();
        unwritten.records.clear();
        written
    }

    fn note_refusal(&self, key: KeyId, now: Now) {
        let cell = self.cells.keep(Subject::Key(key));
        self.refuse(cell.spot(), &mut cell.lock(), now);
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        let known = self.cells.with(subject, |cell| {
            let state = cell.lock();
            (state.meter.day() == day).then(|| state.meter.used())
        });
        match known.flatten() {
            Some(used) => Ok(used),
            None => self.ground.used(subject, day).await,
        }
    }

    fn forget(&self, key: KeyId) {
        self.cells.forget(key);
    }

    fn engine_report(&self) -> CountersReport {
        CountersReport { engine: "ledger", pauses: self.pauses.load(Ordering::Relaxed), shared: None }
    }
}

impl<F> Folding<F> {
    /// Takes the next cells from the queue, with what the database does not know of them in the order of its rows.
    fn gather(&mut self, now: Now) {
        let Self { changed, batch: Batch { cells, rows, outcomes, ended }, windows, taken, .. } = self;
        cells.clear();
        rows.clear();
        outcomes.clear();
        ended.clear();
        cells.extend(changed.try_iter().take(CELLS_AT_ONCE));
        *taken += cells.len() as u64;
        for (place, cell) in cells.iter().enumerate() {
            let mut state = cell.lock();
            let days = state.changes(cell.subject(), rows, outcomes);
            if days > 0 {
                ended.push((place, days));
            }
            windows.note(cell.spot(), &mut state, now.boot_ms);
        }
        rows.sort_unstable_by_key(|row| (row.subject, row.day));
        outcomes.sort_unstable_by_key(|row| (row.key, row.hour));
    }
}

impl<F> Batch<F> {
    /// Forgets ended days, which are written.
    fn forget_ended(&self) {
        for (place, days) in &self.ended {
            self.cells[*place].lock().forget_ended(*days);
        }
    }
}

impl<F> Default for Batch<F> {
    fn default() -> Self {
        Self { cells: Vec::new(), rows: Vec::new(), outcomes: Vec::new(), ended: Vec::new() }
    }
}

impl Unwritten {
    fn add(&mut self, entry: Entry) {
        self.records.extend_from_slice(&entry.unsealed());
        self.latest_ms = self.latest_ms.max(entry.boot_ms);
    }
}

impl Then {
    async fn wait(self) -> Result<(), Error> {
        match self {
            Self::Answer => Ok(()),
            Self::Durable(receiver) => receiver.await.unwrap_or(Err(Error::JournalBroken)),
        }
    }
}

/// How far a subject is to be served from now on: further than the mark that is written, if little is left before it.
fn next_mark(written: u32, used: u32, limit: u32) -> u32 {
    if used.saturating_add(MARK_RESERVE) > written && written < limit {
        used.saturating_add(MARK_STEP - 1).min(limit).max(used)
    } else {
        written
    }
}

/// The burst windows of the last minute, to be repeated in a new segment before all others are deleted.
fn window_copies<F>(cells: &Cells<F>, now: Now) -> Vec<Entry> {
    let mut copies = Vec::new();
    cells.for_each(|cell| {
        let state = cell.lock();
        let recent = |time: &u64| now.boot_ms.saturating_sub(*time) < BURST_WINDOW_MS;
        let times = state.meter.window().times().filter(recent);
        copies.extend(times.map(|boot_ms| Entry {
            mark: 0,
            copied: true,
            ..state.entry(cell.subject(), true, boot_ms)
        }));
    });
    copies
}
