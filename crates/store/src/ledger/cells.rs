//! What is known of each subject, in pages of neighbours.
//!
//! Keys are many, and a processor has few of them at hand: so all that a request needs of its key stands in two lines of
//! the cache, and what leads there is so small that it stays at hand.

use super::journal::{Entry, Segment};
use super::pages::Pages;
use crate::counters::Subject;
use crate::records::OutcomeRow;
use crate::tally::Tally;
use crate::{Error, Outcomes, UsageRow};
use ipse_model::{Day, KeyId, Meter, Now, Window};
use std::hint::black_box;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Subjects whose numbers differ in these bits alone stand in one page.
const PLACE_BITS: u32 = 4;
/// As many are foreseen together.
const FORESEEN_AT_ONCE: usize = 64;
const CELLS_PER_PAGE: usize = 1 << PLACE_BITS;
const PLACE_MASK: i64 = (1 << PLACE_BITS) - 1;

/// The cells of all subjects. Whoever is asked for brings a page of neighbours along, and pages stay.
#[derive(Debug)]
pub(super) struct Cells<F> {
    pages: Pages<Page<F>>,
    /// The day that every cell begins with. The records were asked for nothing before it, so nothing is counted there.
    first_day: Day,
}

#[derive(Debug)]
struct Page<F> {
    cells: [Cell<F>; CELLS_PER_PAGE],
}

/// The counters of one subject. Two lines of the cache, which nobody else's counters share: the lock stands at the beginning of
/// the first, and the number at the end of the second.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Cell<F> {
    state: Mutex<State<F>>,
    number: i64,
}

/// Where a cell stands.
#[derive(Debug)]
pub(super) struct Spot<'a, F> {
    page: &'a Arc<Page<F>>,
    place: usize,
}

/// A cell that is held on to.
#[derive(Debug)]
pub(super) struct Kept<F> {
    page: Arc<Page<F>>,
    place: usize,
}

#[derive(Debug)]
pub(super) struct State<F> {
    pub(super) meter: Meter,
    /// The generation of the burst window.
    pub(super) resumes: u32,
    /// Nothing if the key is served.
    pub(super) halt: Option<Box<Halt>>,
    pub(super) mark: Mark<F>,
    /// Whether the cell waits in the queue of the next fold.
    pub(super) changed: bool,
    /// Whether somebody will look whether the window is idle.
    pub(super) window_noted: bool,
    /// What became of a key's requests since the last fold.
    pub(super) tally: Tally,
    rare: Option<Box<Rare>>,
}

/// What hardly any cell has.
#[derive(Debug, Default)]
struct Rare {
    /// Days that ended since the last fold.
    ended: Vec<(Day, u32)>,
    /// Later days that were counted before, by a program whose clock was ahead of ours.
    ahead: Vec<UsageRow>,
}

/// Why a key is not served.
#[derive(Debug)]
pub(super) enum Halt {
    /// The pause of this generation is being written; all who come meanwhile wait for it.
    Pausing(u32, PauseNews),
    /// Paused while the window was of this generation.
    Paused(u32),
}

/// Tells whether a pause was written, as soon as that is known.
pub(super) type PauseNews = watch::Receiver<Option<Result<(), Error>>>;

/// How far the subject may be served today.
#[derive(Debug)]
pub(super) struct Mark<F> {
    /// On the disk.
    pub(super) durable: u32,
    /// In the journal, and asked to be made durable.
    pub(super) written: u32,
    /// Where `written` stands, until it is durable.
    pub(super) segment: Option<Arc<Segment<F>>>,
}

impl<F> Cells<F> {
    pub(super) fn new(first_day: Day) -> Self {
        Self { pages: Pages::new(), first_day }
    }

    /// The cell of a subject, to be held on to.
    pub(super) fn keep(&self, subject: Subject) -> Kept<F> {
        let (page, place) = page_and_place(subject);
        Kept { page: self.pages.keep(page, || Page::fresh(page, self.first_day)), place }
    }

    /// Does something with the cell of a subject, unless neither it nor its neighbours were ever asked for.
    pub(super) fn with<T>(&self, subject: Subject, work: impl FnOnce(Spot<'_, F>) -> T) -> Option<T> {
        let (page, place) = page_and_place(subject);
        self.pages.with(page, |page| work(Spot { page, place }))
    }

    /// Looks at the cells of several subjects, so that they are at hand for whoever locks them next.
    pub(super) fn foresee(&self, subjects: impl Iterator<Item = Subject>) {
        let mut cells = [None; FORESEEN_AT_ONCE];
        for (cell, subject) in cells.iter_mut().zip(subjects) {
            let (page, place) = page_and_place(subject);
            *cell = self.pages.near(page).map(|page| &page.cells[place]);
        }
        for cell in cells.into_iter().flatten() {
            // One of them stands in each line.
            black_box((cell.number, cell.state.is_poisoned()));
        }
    }

    /// Does something with every cell.
    pub(super) fn for_each(&self, mut work: impl FnMut(&Cell<F>)) {
        self.pages.for_each(|page| page.cells.iter().for_each(&mut work));
    }

    /// Begins the cell of a key anew.
    pub(super) fn forget(&self, key: KeyId) {
        self.with(Subject::Key(key), |cell| {
            let mut state = cell.lock();
            // It may still wait in the queue, and for whoever looks at windows.
            let (changed, window_noted) = (state.changed, state.window_noted);
            *state = State { changed, window_noted, ..State::fresh(self.first_day) };
        });
    }
}

/// The number of a subject's page, and where in it the subject stands.
fn page_and_place(subject: Subject) -> (i64, usize) {
    let number = subject.number();
    (number >> PLACE_BITS, usize::try_from(number & PLACE_MASK).unwrap_or(0))
}

impl<F> Page<F> {
    fn fresh(page: i64, day: Day) -> Self {
        let cells = std::array::from_fn(|place| Cell {
            number: (page << PLACE_BITS) | i64::try_from(place).unwrap_or(0),
            state: Mutex::new(State::fresh(day)),
        });
        Self { cells }
    }
}

impl<F> Cell<F> {
    pub(super) fn subject(&self) -> Subject {
        Subject::from_number(self.number)
    }

    pub(super) fn is_demo(&self) -> bool {
        self.subject() == Subject::Demo
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<F>> {
        // Nothing panics between two related changes, so a poisoned state is still a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Spot<'_, F> {
    pub(super) fn keep(&self) -> Kept<F> {
        Kept { page: Arc::clone(self.page), place: self.place }
    }
}

impl<F> Clone for Spot<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Spot<'_, F> {}

impl<F> Deref for Spot<'_, F> {
    type Target = Cell<F>;

    fn deref(&self) -> &Cell<F> {
        &self.page.cells[self.place]
    }
}

impl<F> Kept<F> {
    pub(super) fn spot(&self) -> Spot<'_, F> {
        Spot { page: &self.page, place: self.place }
    }
}

impl<F> Deref for Kept<F> {
    type Target = Cell<F>;

    fn deref(&self) -> &Cell<F> {
        &self.page.cells[self.place]
    }
}

impl<F> Default for Mark<F> {
    fn default() -> Self {
        Self { durable: 0, written: 0, segment: None }
    }
}

impl<F> State<F> {
    fn fresh(day: Day) -> Self {
        Self {
            meter: Meter::new(day, 0, Window::default()),
            resumes: 0,
            halt: None,
            mark: Mark::default(),
            changed: false,
            window_noted: false,
            tally: Tally::default(),
            rare: None,
        }
    }

    /// Turns to a later day, whose mark begins at nothing.
    pub(super) fn turn_to(&mut self, day: Day) {
        if day <= self.meter.day() {
            return;
        }
        // Even if it was folded just now: that fold may yet fail.
        if self.meter.used() > 0 {
            let ended = (self.meter.day(), self.meter.used());
            self.rare.get_or_insert_default().ended.push(ended);
        }
        self.meter.turn_to(day, 0);
        self.mark = Mark::default();
        let Some(rare) = &mut self.rare else { return };
        let counted = rare.ahead.iter().find(|row| row.day == day).copied();
        rare.ahead.retain(|row| row.day > day);
        if let Some(row) = counted {
            self.go_on_from(row);
        }
    }

    /// Takes over what the records know of the first day or of a later one, all of it durable.
    pub(super) fn take_over(&mut self, row: UsageRow) {
        if row.day == self.meter.day() {
            self.go_on_from(row);
        } else {
            self.rare.get_or_insert_default().ahead.push(row);
        }
    }

    fn go_on_from(&mut self, row: UsageRow) {
        let mark = row.mark.max(row.used);
        self.meter = Meter::new(row.day, row.used, std::mem::take(self.meter.window_mut()));
        self.mark = Mark { durable: mark, written: mark, segment: None };
    }

    pub(super) fn entry(&self, subject: Subject, in_window: bool, boot_ms: u64) -> Entry {
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
    pub(super) fn count(&mut self, subject: Subject, now: Now, outcome: Outcomes) {
        if subject != Subject::Demo {
            self.tally.add(now, now.day().max(self.meter.day()), outcome);
        }
    }

    /// Adds what the database does not know yet, and says how many ended days are among it. Those are kept until they
    /// are known to be written; outcomes are handed over, because the database adds them up.
    pub(super) fn changes(
        &mut self,
        subject: Subject,
        rows: &mut Vec<UsageRow>,
        outcomes: &mut Vec<OutcomeRow>,
    ) -> usize {
        if let Subject::Key(key) = subject {
            self.tally.take(key, outcomes);
        }
        let ended = self.rare.as_ref().map_or(&[][..], |rare| &rare.ended);
        rows.extend(ended.iter().map(|&(day, used)| UsageRow { subject, day, used, mark: used }));
        let (day, used) = (self.meter.day(), self.meter.used());
        if used > 0 {
            rows.push(UsageRow { subject, day, used, mark: self.mark.written.max(used) });
        }
        self.changed = false;
        ended.len()
    }

    /// Forgets as many ended days, which are written.
    pub(super) fn forget_ended(&mut self, count: usize) {
        if let Some(rare) = &mut self.rare {
            rare.ended.drain(..count.min(rare.ended.len()));
            if rare.ended.is_empty() && rare.ahead.is_empty() {
                self.rare = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::mem::offset_of;

    fn key(number: i64) -> Subject {
        Subject::Key(KeyId(number))
    }

    #[test]
    fn a_cell_is_two_lines_of_the_cache() {
        assert_eq!((size_of::<Cell<File>>(), align_of::<Cell<File>>()), (128, 128));
        assert_eq!((offset_of!(Cell<File>, state), offset_of!(Cell<File>, number)), (0, 120));
        assert_eq!(size_of::<Mark<File>>(), 16);
    }

    #[test]
    fn every_subject_has_a_cell_of_its_own() {
        let cells = Cells::<File>::new(Day(3));
        let last_on_a_shelf = (1 << 24) - 1;
        for number in (0..100).chain([last_on_a_shelf, last_on_a_shelf + 1, i64::MAX, i64::MAX - 1]) {
            let subject = Subject::from_number(number);
            let cell = cells.keep(subject);
            assert_eq!((cell.subject(), cell.is_demo()), (subject, number == 0));
            cell.lock().resumes = u32::try_from(number).unwrap_or(u32::MAX);
        }
        assert_eq!(cells.with(key(17), |cell| cell.lock().resumes), Some(17));
        assert_eq!(cells.with(key(31), |cell| cell.keep().spot().lock().resumes), Some(31));
        for number in [last_on_a_shelf, last_on_a_shelf + 1] {
            let resumes = cells.with(key(number), |cell| cell.lock().resumes);
            assert_eq!(resumes, u32::try_from(number).ok());
        }
        cells.foresee((0..200).chain([last_on_a_shelf, i64::MAX]).map(Subject::from_number));
        for nobody in [5_000, 50_000, 1 << 30] {
            assert!(cells.with(key(nobody), |_| ()).is_none(), "nobody asked for it, nor for a neighbour");
        }
        let mut seen = 0;
        cells.for_each(|cell| seen += usize::from(cell.lock().resumes > 0));
        assert_eq!(seen, 103, "all but the demo's");
    }

    #[test]
    fn a_cell_that_is_forgotten_begins_anew_where_it_stands() {
        let cells = Cells::<File>::new(Day(3));
        let cell = cells.keep(key(7));
        let mut state = cell.lock();
        state.turn_to(Day(4));
        state.meter.charge_key(Now { unix_ms: 4 * 86_400_000, boot_ms: 5 }, 10);
        state.turn_to(Day(5));
        (state.resumes, state.halt, state.changed) = (2, Some(Box::new(Halt::Paused(2))), true);
        state.mark.durable = 64;
        drop(state);
        cells.forget(KeyId(7));
        let mut state = cell.lock();
        assert_eq!((state.meter.day(), state.meter.used(), state.resumes), (Day(3), 0, 0));
        assert_eq!((state.mark.durable, state.meter.window().times().count()), (0, 0));
        assert!(state.halt.is_none() && state.changed, "it still waits for its turn");
        let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
        assert_eq!(state.changes(key(7), &mut rows, &mut outcomes), 0);
        assert!(rows.is_empty() && outcomes.is_empty());
    }

    #[test]
    fn days_that_ended_are_told_until_they_are_known_to_be_written() {
        let cells = Cells::<File>::new(Day(3));
        let cell = cells.keep(key(7));
        let mut state = cell.lock();
        let row = |day: u32, used: u32| UsageRow { subject: key(7), day: Day(day), used, mark: used };
        state.take_over(row(3, 9));
        state.take_over(row(5, 4));
        state.turn_to(Day(4));
        state.turn_to(Day(5));
        let (mut rows, mut outcomes) = (Vec::new(), Vec::new());
        assert_eq!(state.changes(key(7), &mut rows, &mut outcomes), 1);
        assert_eq!(rows, [row(3, 9), row(5, 4)]);
        state.turn_to(Day(6));
        state.forget_ended(1);
        rows.clear();
        assert_eq!(state.changes(key(7), &mut rows, &mut outcomes), 1);
        assert_eq!(rows, [row(5, 4)]);
        state.forget_ended(1);
        assert!(state.rare.is_none());
    }
}
