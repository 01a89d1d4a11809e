//! The ledger: exact and durable counters for one machine.
//!
//! Each charge is decided in memory under its own subject's lock and appended to the journal before that lock is
//! let go. Once a second the counts are folded into the database. To be exact after a power cut as well, a
//! subject is served only up to its *mark*, which is on the disk and stands at most [`MARK_STEP`] ahead of the
//! count; after a new boot counting goes on from the mark.

pub mod ground;
mod journal;
mod recovery;
mod sync;

pub use recovery::used_in_journal;

use crate::counters::{Counters, KeyCharge, Subject, Unwritten};
use crate::spread::Spread;
use crate::tally::{self, Tally};
use crate::{BootId, CountersReport, DataFolder, Error, Outcomes, Records, UsageRow};
use ground::{FileOf, Ground, Machine, OutcomeRow};
use ipse_model::{
    BURST_WINDOW_MS, Charge, DEMO_DAILY_LIMIT, Day, DayAllowance, Key, KeyId, KeyState, Meter, Now, Window,
};
use journal::{Entry, Journal, Segment};
use papaya::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use tokio::sync::{oneshot, watch};

/// How far the durable mark may stand ahead of the count: the most that a power cut can withhold.
const MARK_STEP: u32 = 64;
/// With fewer than these left before the mark, the next one is asked for, so that nobody has to wait for it.
const MARK_RESERVE: u32 = 32;
/// As many subjects are folded at once; when more have changed, each waits for its turn. A key that is asked for five times a
/// second would else be written to the database every second, which costs more than answering it.
const CELLS_AT_ONCE: usize = 2_000;
/// A segment is left when it is this old or this large.
const SEGMENT_MS: u64 = 20_000;
const SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// The local engine of [`Counters`].
pub struct Ledger<G: Ground = Machine> {
    ground: Arc<G>,
    cells: Cells<FileOf<G>>,
    demo: Arc<Cell<FileOf<G>>>,
    journal: Journal<G::Disk>,
    /// Cells that changed since the last fold.
    changed: mpsc::Sender<Arc<Cell<FileOf<G>>>>,
    /// How many have ever waited for a fold.
    queued: AtomicU64,
    /// What only the fold touches.
    folding: tokio::sync::Mutex<Folding<FileOf<G>>>,
    /// The day that the program was started on. The records were asked for nothing before it, so nothing is counted there.
    first_day: Day,
    /// How many pauses were written.
    pauses: Arc<AtomicU64>,
}

type Cells<F> = HashMap<Subject, Arc<Cell<F>>, Spread>;

struct Folding<F> {
    changed: mpsc::Receiver<Arc<Cell<F>>>,
    /// Cells whose burst window may hold memory.
    with_window: Vec<Weak<Cell<F>>>,
    /// How many of those that waited had their turn.
    taken: u64,
    /// Segments that are no longer the active one.
    left: Vec<Left<F>>,
    segment_since: Option<u64>,
}

/// A segment that is no longer the active one.
struct Left<F> {
    segment: Arc<Segment<F>>,
    /// Its records are folded when so many of those that waited had their turn; not known as long as somebody may append to it.
    folded_after: Option<u64>,
}

/// The counters of one subject.
#[derive(Debug)]
struct Cell<F> {
    subject: Subject,
    state: Mutex<State<F>>,
}

#[derive(Debug)]
struct State<F> {
    meter: Meter,
    /// The generation of the burst window.
    resumes: u32,
    phase: Phase,
    mark: Mark<F>,
    /// Whether the cell waits in the queue of the next fold.
    changed: bool,
    /// Days that ended since the last fold.
    ended: Vec<(Day, u32)>,
    /// What became of a key's requests since the last fold.
    tally: Tally,
    /// Later days that were counted before, by a program whose clock was ahead of ours.
    ahead: Vec<UsageRow>,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// The pause of this generation is being written; all who come meanwhile wait for it.
    Pausing(u32, watch::Receiver<Option<Result<(), Error>>>),
    /// Paused while the window was of this generation.
    Paused(u32),
}

/// How far the subject may be served today.
#[derive(Debug)]
struct Mark<F> {
    /// On the disk.
    durable: u32,
    /// In the journal, and asked to be made durable.
    written: u32,
    /// Where `written` stands, until it is durable.
    segment: Option<Arc<Segment<F>>>,
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

        let cells: Cells<FileOf<G>> = HashMap::with_hasher(Spread);
        for row in ground.usage_since(now.day()).await? {
            let cell = Arc::clone(
                cells.pin().get_or_insert_with(row.subject, || Cell::fresh(row.subject, now.day())),
            );
            let mut state = cell.lock();
            if row.day == now.day() {
                state.go_on_from(row);
            } else {
                state.ahead.push(row);
            }
        }
        let mut with_window = Vec::new();
        for (subject, (resumes, times)) in recovered.windows() {
            let cell =
                Arc::clone(cells.pin().get_or_insert_with(subject, || Cell::fresh(subject, now.day())));
            let mut state = cell.lock();
            state.resumes = resumes;
            for time in times {
                state.meter.window_mut().admit(time);
            }
            drop(state);
            with_window.push(Arc::downgrade(&cell));
        }
        let demo = Arc::clone(
            cells.pin().get_or_insert_with(Subject::Demo, || Cell::fresh(Subject::Demo, now.day())),
        );
        let (changed, receiver) = mpsc::channel();
        let folding =
            Folding { changed: receiver, with_window, taken: 0, left: Vec::new(), segment_since: None };
        let journal = Journal::begin(ground.disk(), journal_folder, boot, &window_copies(&cells, now))?;
        // Their counts are in the database, and their windows in the new segment.
        journal.remove_older()?;
        let (ground, folding, pauses) = (Arc::new(ground), folding.into(), Arc::default());
        let first_day = now.day();
        let queued = AtomicU64::new(0);
        Ok(Arc::new(Self { ground, cells, demo, journal, changed, queued, folding, first_day, pauses }))
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
        let cells: Vec<_> = folding.changed.try_iter().take(CELLS_AT_ONCE).collect();
        folding.taken += cells.len() as u64;
        let mut rows = Vec::with_capacity(cells.len());
        let mut outcomes = Vec::with_capacity(cells.len());
        let ended: Vec<usize> =
            cells.iter().map(|cell| cell.lock().changes(cell.subject, &mut rows, &mut outcomes)).collect();
        if !(rows.is_empty() && outcomes.is_empty())
            && let Err(error) = self.ground.fold(&rows, &outcomes).await
        {
            let mut outcomes = outcomes.iter().peekable();
            for cell in cells {
                let mut state = cell.lock();
                // They are in the order of their cells.
                while let Some(row) = outcomes.next_if(|row| Subject::Key(row.key) == cell.subject) {
                    state.tally.put_back(row);
                }
                self.fold_later(&cell, &mut state);
            }
            // They wait once more, behind all others.
            let queued = self.queued.load(Ordering::Acquire);
            folding
                .left
                .iter_mut()
                .filter_map(|left| left.folded_after.as_mut())
                .for_each(|after| *after = queued);
            return Err(error);
        }
        for (cell, ended) in cells.iter().zip(ended) {
            cell.lock().ended.drain(..ended);
        }
        folding.with_window.extend(cells.iter().map(Arc::downgrade));
        folding.with_window.sort_unstable_by_key(Weak::as_ptr);
        folding.with_window.dedup_by_key(|cell| Weak::as_ptr(cell));
        folding.with_window.retain(|cell| {
            cell.upgrade().is_some_and(|cell| cell.lock().meter.window_mut().shrink(now.boot_ms))
        });
        self.tend_segments(&mut folding, now).await
    }

    /// Folds exactly, so that not even a new boot withholds anything. To be called when nothing is charged any more.
    pub async fn close(&self, now: Now) -> Result<(), Error> {
        let mut folding = self.folding.lock().await;
        while folding.changed.try_recv().is_ok() {}
        folding.taken = self.queued.load(Ordering::Acquire);
        folding.left.clear();
        let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
        for cell in self.cells.pin().values() {
            let mut state = cell.lock();
            state.changes(cell.subject, &mut rows, &mut outcomes);
            state.ended.clear();
        }
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

    fn cell(&self, subject: Subject, day: Day) -> Arc<Cell<FileOf<G>>> {
        let cells = self.cells.pin();
        if let Some(cell) = cells.get(&subject) {
            return Arc::clone(cell);
        }
        Arc::clone(cells.get_or_insert_with(subject, || Cell::fresh(subject, day.max(self.first_day))))
    }

    /// Has the cell folded with the next ones.
    fn fold_later(&self, cell: &Arc<Cell<FileOf<G>>>, state: &mut State<FileOf<G>>) {
        if !std::mem::replace(&mut state.changed, true) {
            self.queued.fetch_add(1, Ordering::Release);
            let _ = self.changed.send(Arc::clone(cell));
        }
    }

    /// Counts a request that is refused and charged nothing.
    fn refuse(&self, cell: &Arc<Cell<FileOf<G>>>, state: &mut State<FileOf<G>>, now: Now) {
        state.count(cell.subject, now, tally::REFUSED);
        self.fold_later(cell, state);
    }

    /// Charges under the lock and appends to the journal; if that fails, nothing was charged. With somebody who writes for
    /// many, what nobody else waits for is left to them.
    fn charge(
        &self,
        cell: &Arc<Cell<FileOf<G>>>,
        state: &mut State<FileOf<G>>,
        now: Now,
        unwritten: Option<&mut Unwritten>,
        rule: impl FnOnce(&mut Meter) -> Charge,
    ) -> Result<(Charge, Then), Error> {
        state.turn_to(now.day());
        let used_before = state.meter.used();
        let charge = rule(&mut state.meter);
        // Every request of a key stands in its window, but for the one that no longer fitted.
        let in_window = cell.subject != Subject::Demo && charge != Charge::BurstExceeded;
        let counted = state.meter.used() != used_before;
        if !counted && !in_window {
            return Ok((charge, Then::Answer));
        }
        let used = state.meter.used();
        let granted = match charge {
            Charge::Granted(allowance) => Some(allowance),
            Charge::DayUsedUp(_) | Charge::BurstExceeded => None,
        };
        let mut mark = state.mark.written;
        if let Some(allowance) = granted
            && (used.saturating_add(MARK_RESERVE) > mark && mark < allowance.limit)
        {
            mark = used.saturating_add(MARK_STEP - 1).min(allowance.limit).max(used);
        }
        let entry = Entry { mark, ..state.entry(cell.subject, in_window, now.boot_ms) };
        let raised = mark > state.mark.written;
        let segment = match unwritten {
            Some(unwritten) if !raised => {
                unwritten.add(entry);
                None
            }
            _ => match self.journal.append(entry) {
                Ok(segment) => Some(segment),
                Err(error) => {
                    state.meter.take_back(used_before, in_window);
                    return Err(error);
                }
            },
        };
        match charge {
            Charge::Granted(_) => state.count(cell.subject, now, tally::ANSWERED),
            Charge::DayUsedUp(_) => state.count(cell.subject, now, tally::OVER_QUOTA),
            // It becomes a refusal when the pause is written, and not before.
            Charge::BurstExceeded => {}
        }
        self.fold_later(cell, state);
        if raised {
            state.mark.written = mark;
            state.mark.segment = segment;
        }
        let waits = granted.is_some() && used > state.mark.durable;
        if !raised && !waits {
            return Ok((charge, Then::Answer));
        }
        let (sender, receiver) = oneshot::channel();
        self.make_durable(cell, state, sender);
        Ok((charge, if waits { Then::Durable(receiver) } else { Then::Answer }))
    }

    /// Grants a request that fits under the mark of the present day: whatever else it may be needs more than this moment.
    fn grant(
        &self,
        cell: &Arc<Cell<FileOf<G>>>,
        state: &mut State<FileOf<G>>,
        now: Now,
        limit: u32,
        unwritten: &mut Unwritten,
        rule: impl FnOnce(&mut Meter) -> Charge,
    ) -> Option<DayAllowance> {
        let used = state.meter.used();
        let is_under_mark = now.day() <= state.meter.day() && used < limit && used < state.mark.durable;
        if !is_under_mark || self.journal.is_broken() {
            return None;
        }
        match self.charge(cell, state, now, Some(unwritten), rule) {
            Ok((Charge::Granted(allowance), _)) => {
                unwritten.granted.push((cell.subject, now));
                Some(allowance)
            }
            // After an error nothing was charged; and nothing else is possible under the mark.
            Ok((Charge::DayUsedUp(_) | Charge::BurstExceeded, _)) | Err(_) => None,
        }
    }

    /// Takes back what was granted and could not be written. Others may have been charged since: the journal then tells of one
    /// more than is counted, and withholds it after a restart.
    fn take_back(&self, subject: Subject, now: Now) {
        let cells = self.cells.pin();
        let Some(cell) = cells.get(&subject) else { return };
        let mut state = cell.lock();
        let used = state.meter.used();
        if state.meter.day() == now.day() && used > 0 {
            state.meter.take_back(used - 1, subject != Subject::Demo);
        }
        let day = now.day().max(state.meter.day());
        state.tally.take_back(now, day, tally::ANSWERED);
    }

    /// Has the written mark synced, and tells `waiter` when it is.
    fn make_durable(
        &self,
        cell: &Arc<Cell<FileOf<G>>>,
        state: &State<FileOf<G>>,
        waiter: oneshot::Sender<Result<(), Error>>,
    ) {
        let Some(segment) = state.mark.segment.clone() else {
            // The written mark is durable already.
            let _ = waiter.send(Ok(()));
            return;
        };
        let (day, mark) = (state.meter.day(), state.mark.written);
        let cell = Arc::clone(cell);
        self.ground.sync_later(
            segment,
            Box::new(move |outcome| {
                let mut state = cell.lock();
                let told = match outcome {
                    Ok(()) => {
                        if state.meter.day() == day {
                            state.mark.durable = state.mark.durable.max(mark);
                            if state.mark.durable == state.mark.written {
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
        cell: &Arc<Cell<FileOf<G>>>,
        state: &mut State<FileOf<G>>,
        id: KeyId,
        now: Now,
    ) -> watch::Receiver<Option<Result<(), Error>>> {
        let (sender, receiver) = watch::channel(None);
        state.phase = Phase::Pausing(state.resumes, receiver.clone());
        let mut minute = state.meter.window().last_minute(now.boot_ms);
        // The one that was too many did not get into the window.
        minute[minute.len() - 1] += 1;
        let (ground, cell, resumes) = (Arc::clone(&self.ground), Arc::clone(cell), state.resumes);
        let pauses = Arc::clone(&self.pauses);
        self.ground.begin(async move {
            let outcome = ground.pause_for_burst(id, resumes, &minute, now).await;
            pauses.fetch_add(u64::from(matches!(outcome, Ok(true))), Ordering::Relaxed);
            let outcome = outcome.map(drop);
            let mut state = cell.lock();
            if matches!(state.phase, Phase::Pausing(of, _) if of == resumes) {
                // If it failed the window is still full: the next request tries again.
                state.phase = if outcome.is_ok() { Phase::Paused(resumes) } else { Phase::Open };
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
            Wait(watch::Receiver<Option<Result<(), Error>>>, KeyCharge),
            Charged(Charge, Then),
        }
        let cell = self.cell(Subject::Key(key.id), now.day());
        let step = {
            let mut state = cell.lock();
            if key.resumes > state.resumes {
                state.resumes = key.resumes;
                state.meter.window_mut().clear();
            }
            if let Phase::Paused(resumes) | Phase::Pausing(resumes, _) = state.phase
                && resumes < state.resumes
            {
                // It was resumed since, which may be heard of before the records say that the pause is written.
                state.phase = Phase::Open;
            }
            if let Phase::Pausing(_, done) = &state.phase
                && done.has_changed().is_err()
                && done.borrow().is_none()
            {
                // The task that was to write the pause is gone without a word.
                state.phase = Phase::Open;
            }
            match &state.phase {
                Phase::Pausing(_, done) => Step::Wait(done.clone(), KeyCharge::Paused),
                Phase::Paused(_) => {
                    self.refuse(&cell, &mut state, now);
                    return Ok(KeyCharge::Paused);
                }
                Phase::Open if key.state == KeyState::Paused && key.resumes == state.resumes => {
                    self.refuse(&cell, &mut state, now);
                    return Ok(KeyCharge::Paused);
                }
                Phase::Open => {
                    let (charge, then) = self.charge(&cell, &mut state, now, None, |meter| {
                        meter.charge_key(now, key.daily_limit)
                    })?;
                    match charge {
                        Charge::BurstExceeded => Step::Wait(
                            self.begin_pause(&cell, &mut state, key.id, now),
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
                        self.refuse(&cell, &mut cell.lock(), now);
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
            self.charge(&self.demo, &mut state, now, None, |meter| meter.charge_day(now, DEMO_DAILY_LIMIT))?
        };
        then.wait().await?;
        Ok(match charge {
            Charge::Granted(allowance) => Ok(allowance),
            Charge::DayUsedUp(allowance) => Err(allowance),
            Charge::BurstExceeded => unreachable!("the demo has no burst limit"),
        })
    }

    fn grant_key(&self, key: &Key, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        let cells = self.cells.pin();
        let cell = cells.get(&Subject::Key(key.id))?;
        let mut state = cell.lock();
        let is_open = matches!(state.phase, Phase::Open) && key.state == KeyState::Active;
        if !is_open || key.resumes != state.resumes || state.meter.window().is_full(now.boot_ms) {
            return None;
        }
        let limit = key.daily_limit;
        self.grant(cell, &mut state, now, limit, unwritten, |meter| meter.charge_key(now, limit))
    }

    fn grant_demo(&self, now: Now, unwritten: &mut Unwritten) -> Option<DayAllowance> {
        let mut state = self.demo.lock();
        self.grant(&self.demo, &mut state, now, DEMO_DAILY_LIMIT, unwritten, |meter| {
            meter.charge_day(now, DEMO_DAILY_LIMIT)
        })
    }

    fn write(&self, unwritten: &mut Unwritten) -> Result<(), Error> {
        let written = match unwritten.records.is_empty() {
            true => Ok(()),
            false => self.journal.append_all(&unwritten.records, unwritten.latest_ms).map(drop),
        };
        if written.is_err() {
            unwritten.granted.iter().rev().for_each(|(subject, now)| self.take_back(*subject, *now));
        }
        unwritten.granted.clear();
        unwritten.records.clear();
        written
    }

    fn note_refusal(&self, key: KeyId, now: Now) {
        let cell = self.cell(Subject::Key(key), now.day());
        self.refuse(&cell, &mut cell.lock(), now);
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        if let Some(cell) = self.cells.pin().get(&subject) {
            let state = cell.lock();
            if state.meter.day() == day {
                return Ok(state.meter.used());
            }
        }
        self.ground.used(subject, day).await
    }

    fn forget(&self, key: KeyId) {
        self.cells.pin().remove(&Subject::Key(key));
    }

    fn engine_report(&self) -> CountersReport {
        CountersReport { engine: "ledger", pauses: self.pauses.load(Ordering::Relaxed), shared: None }
    }
}

impl Unwritten {
    fn add(&mut self, entry: Entry) {
        self.records.extend_from_slice(&entry.to_bytes());
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

impl<F> Default for Mark<F> {
    fn default() -> Self {
        Self { durable: 0, written: 0, segment: None }
    }
}

impl<F> Cell<F> {
    fn fresh(subject: Subject, day: Day) -> Arc<Self> {
        let state = State {
            meter: Meter::new(day, 0, Window::default()),
            resumes: 0,
            phase: Phase::Open,
            mark: Mark::default(),
            changed: false,
            ended: Vec::new(),
            tally: Tally::default(),
            ahead: Vec::new(),
        };
        Arc::new(Self { subject, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        // Nothing panics between two related changes, so a poisoned state is still a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> State<F> {
    /// Turns to a later day, whose mark begins at nothing.
    fn turn_to(&mut self, day: Day) {
        if day <= self.meter.day() {
            return;
        }
        // Even if it was folded just now: that fold may yet fail.
        if self.meter.used() > 0 {
            self.ended.push((self.meter.day(), self.meter.used()));
        }
        self.meter.turn_to(day, 0);
        self.mark = Mark::default();
        if let Some(row) = self.ahead.iter().find(|row| row.day == day).copied() {
            self.go_on_from(row);
        }
        self.ahead.retain(|row| row.day > day);
    }

    /// Takes over what is known of the present day, all of it durable.
    fn go_on_from(&mut self, row: UsageRow) {
        let mark = row.mark.max(row.used);
        self.meter = Meter::new(row.day, row.used, std::mem::take(self.meter.window_mut()));
        self.mark = Mark { durable: mark, written: mark, segment: None };
    }

    fn entry(&self, subject: Subject, in_window: bool, boot_ms: u64) -> Entry {
        Entry {
            subject,
            day: self.meter.day(),
            used: self.meter.used(),
            mark: self.mark.written,
            resumes: self.resumes,
            in_window,
            copied: false,
            boot_ms,
        }
    }

    /// Counts what became of a request. The demo is nobody's, so nobody looks at its outcomes.
    fn count(&mut self, subject: Subject, now: Now, outcome: Outcomes) {
        if subject != Subject::Demo {
            self.tally.add(now, now.day().max(self.meter.day()), outcome);
        }
    }

    /// Adds what the database does not know yet, and says how many ended days are among it. Those are kept until they
    /// are known to be written; outcomes are handed over, because the database adds them up.
    fn changes(
        &mut self,
        subject: Subject,
        rows: &mut Vec<UsageRow>,
        outcomes: &mut Vec<OutcomeRow>,
    ) -> usize {
        if let Subject::Key(key) = subject {
            self.tally.take(key, outcomes);
        }
        rows.extend(self.ended.iter().map(|&(day, used)| UsageRow { subject, day, used, mark: used }));
        let (day, used) = (self.meter.day(), self.meter.used());
        if used > 0 {
            rows.push(UsageRow { subject, day, used, mark: self.mark.written.max(used) });
        }
        self.changed = false;
        self.ended.len()
    }
}

/// The burst windows of the last minute, to be repeated in a new segment before all others are deleted.
fn window_copies<F>(cells: &Cells<F>, now: Now) -> Vec<Entry> {
    let mut copies = Vec::new();
    for cell in cells.pin().values() {
        let state = cell.lock();
        let recent = |time: &u64| now.boot_ms.saturating_sub(*time) < BURST_WINDOW_MS;
        let times = state.meter.window().times().filter(recent);
        copies.extend(times.map(|boot_ms| Entry {
            mark: 0,
            copied: true,
            ..state.entry(cell.subject, true, boot_ms)
        }));
    }
    copies
}
