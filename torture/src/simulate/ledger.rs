//! A machine that counts alone, in a world of its own: its process dies at any step, its power fails, its disk and its records fail,
//! its clock is set.
//!
//! The ledger is the product's own, journal and recovery included. The disk, the records and the threads below it are chance's.

mod book;
mod disk;
mod rig;
mod turn;
mod twin;

use super::seen::Seen;
use book::{Asked, Book, subject_of};
use disk::{Drive, Failure};
use ipse_model::{BURST_WINDOW_MS, Day, Key, KeyId, KeyState, Now, Scope};
use ipse_store::{BootId, Counters, Error, KeyCharge, Ledger, Subject};
use ipse_testkit::Random;
use rig::{Rig, Wanted, Work, lock};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// At most so many requests are under way at once.
const AT_ONCE: usize = 48;
const MS_PER_DAY: i64 = 86_400_000;

/// What a process is about.
enum Task {
    Request(Work),
    Chore(Work),
}

/// A request as a process sees it.
enum Asks {
    Key(Key, Asked),
    Demo(Now),
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Clean,
    Died,
    PowerCut,
}

/// A machine and what runs on it.
struct Machine {
    random: Random,
    book: Arc<Mutex<Book>>,
    drive: Drive,
    boot_ms: u64,
    /// What the wall clock is ahead of the time since the machine was started.
    wall_ms: i64,
    ledger: Arc<Mutex<Option<Arc<Ledger<Rig>>>>>,
    wanted: Arc<Mutex<Wanted>>,
    tasks: Vec<Task>,
    /// What the process knows of the keys.
    table: Vec<(u32, bool)>,
    /// Whether a fold is under way, or a stop, or a start.
    is_folding: Arc<Mutex<bool>>,
    is_stopping: bool,
    is_starting: bool,
    /// Set by a process that ended by itself: whether everything was written down.
    has_stopped: Arc<Mutex<Option<bool>>>,
    /// What was counted when the last process ended, and how that was.
    before: Vec<(Subject, Day, u32)>,
    last: End,
}

/// Lives through one world.
pub(super) fn one(seed: u64, requests: u64) -> (Seen, Vec<String>) {
    let mut random = Random::new(seed);
    let keys = 1 + random.index(3);
    let mishap_in = *random.pick(&[50, 500, 5_000, u64::MAX]);
    let pace_ms = *random.pick(&[2, 40, 400, 4_000]);
    let mut machine = Machine::new(random.clone(), keys);
    while lock(&machine.book).seen.requests < requests {
        machine.boot_ms += random.below(pace_ms);
        if random.below(2_000) == 0 {
            // The night falls at once.
            let left = MS_PER_DAY - machine.now().unix_ms.rem_euclid(MS_PER_DAY);
            machine.boot_ms += left.unsigned_abs().saturating_sub(random.below(20));
        }
        if random.below(mishap_in) == 0 {
            machine.mishap();
        }
        machine.look_after();
        if random.below(4) == 0 {
            machine.sync();
        }
        if random.below(2) == 0 {
            machine.go_on();
        }
        if random.below(60) == 0 {
            machine.fold();
        }
        if random.below(20) == 0 {
            machine.hear();
        }
        if random.below(300) == 0 {
            let place = random.index(keys);
            lock(&machine.book).resume(place);
        }
        if machine.requests_under_way() < AT_ONCE {
            match random.below(8) {
                0 => machine.take_turns(),
                _ => machine.request(random.index(keys + 1)),
            }
        }
    }
    machine.end(End::Died);
    let mut book = lock(&machine.book);
    (book.seen, std::mem::take(&mut book.faults))
}

impl Machine {
    fn new(mut random: Random, keys: usize) -> Self {
        let limits = [1, 5, 63, 64, 65, 130, 300, 301, 1_000];
        let limits: Vec<u32> = (0..keys).map(|_| *random.pick(&limits)).collect();
        let wall_ms = 20_000 * MS_PER_DAY + i64::try_from(random.below(86_400_000)).unwrap_or(0);
        Self {
            drive: Drive::new(random.clone()),
            table: vec![(0, false); keys],
            book: Arc::new(Mutex::new(Book::new(&limits))),
            random,
            boot_ms: 1_000,
            wall_ms,
            ledger: Arc::default(),
            wanted: Arc::default(),
            tasks: Vec::new(),
            is_folding: Arc::default(),
            is_stopping: false,
            is_starting: false,
            has_stopped: Arc::default(),
            before: Vec::new(),
            last: End::Clean,
        }
    }

    fn now(&self) -> Now {
        let unix_ms = self.wall_ms.saturating_add(i64::try_from(self.boot_ms).unwrap_or(0));
        Now { unix_ms, boot_ms: self.boot_ms }
    }

    fn requests_under_way(&self) -> usize {
        self.tasks.iter().filter(|task| matches!(task, Task::Request(_))).count()
    }

    /// Something goes wrong, or right again.
    fn mishap(&mut self) {
        lock(&self.book).seen.mishaps += 1;
        match self.random.below(10) {
            0 | 1 => self.end(End::Died),
            2 => self.drive.die_after(self.random.below(40)),
            3 => self.end(End::PowerCut),
            4 => self.drive.fail_next(Failure::Sync),
            5 => self.drive.fail_next(Failure::Write),
            6 => {
                let mut book = lock(&self.book);
                book.records_away = !book.records_away;
            }
            7 => {
                let most = 10_i64.pow(u32::try_from(self.random.below(9)).unwrap_or(0));
                let by = i64::try_from(self.random.below(2 * most.unsigned_abs() + 1)).unwrap_or(0) - most;
                self.wall_ms += by;
            }
            8 => self.stop(),
            // A machine that stops properly and is started again.
            _ if self.last == End::Clean && lock(&self.ledger).is_none() && !self.is_starting => self.boot(),
            _ => self.stop(),
        }
    }

    /// Sees to it that a process runs, and that a dead one is found.
    fn look_after(&mut self) {
        if !self.drive.is_alive() {
            self.end(End::Died);
        }
        let has_stopped = lock(&self.has_stopped).take();
        if let Some(is_clean) = has_stopped {
            self.end(if is_clean { End::Clean } else { End::Died });
        }
        if !self.is_starting && lock(&self.ledger).is_none() && self.random.below(10) == 0 {
            self.start();
        }
    }

    fn start(&mut self) {
        self.drive.next_process();
        self.hear();
        self.is_starting = true;
        lock(&self.book).begin_on(self.now().day());
        let rig = Rig {
            drive: self.drive.clone(),
            book: Arc::clone(&self.book),
            wanted: Arc::clone(&self.wanted),
            random: Mutex::new(Random::new(self.random.next())),
        };
        let boot = BootId::parse(&format!("{:032x}", lock(&self.book).boots + 1));
        let (now, ledger, has_stopped) =
            (self.now(), Arc::clone(&self.ledger), Arc::clone(&self.has_stopped));
        let (book, drive) = (Arc::clone(&self.book), self.drive.clone());
        self.tasks.push(Task::Chore(Box::pin(async move {
            match Ledger::stand_on(rig, Path::new("journal"), boot, now).await {
                Ok(opened) => *lock(&ledger) = Some(opened),
                Err(Error::Damaged { what, .. }) if drive.is_alive() => {
                    lock(&book).faults.push(format!("the journal was found to be damaged: {what}"));
                }
                // It says why, and ends.
                Err(_) => *lock(&has_stopped) = Some(false),
            }
        })));
    }

    /// The process is asked to stop: it finishes what it is about.
    fn stop(&mut self) {
        self.is_stopping = lock(&self.ledger).is_some();
    }

    /// When nothing is charged any more, everything is written down.
    fn close(&mut self) {
        let Some(ledger) = lock(&self.ledger).clone() else { return };
        let (now, has_stopped) = (self.now(), Arc::clone(&self.has_stopped));
        self.tasks.push(Task::Chore(Box::pin(async move {
            let is_clean = ledger.close(now).await.is_ok();
            *lock(&has_stopped) = Some(is_clean);
        })));
    }

    /// The process is no more, and all that it was about.
    fn end(&mut self, end: End) {
        let ledger = lock(&self.ledger).take();
        let today = self.now().day();
        if let Some(ledger) = &ledger {
            let subjects = (0..self.table.len()).map(subject_of).chain([Subject::Demo]);
            let before = |subject| Some((subject, today, counted(ledger, subject, today)?));
            self.before = subjects.filter_map(before).collect();
            self.last = if end == End::Clean { End::Clean } else { End::Died };
        }
        self.drive.next_process();
        self.tasks.clear();
        *lock(&self.wanted) = Wanted::default();
        (self.is_stopping, self.is_starting) = (false, false);
        *lock(&self.is_folding) = false;
        *lock(&self.has_stopped) = None;
        if end == End::PowerCut {
            self.drive.lose_power();
            self.boot();
        }
    }

    /// The machine is started anew.
    fn boot(&mut self) {
        lock(&self.book).boot(self.last == End::Clean);
        if self.last != End::Clean {
            self.last = End::PowerCut;
        }
        self.wall_ms += i64::try_from(self.boot_ms).unwrap_or(0);
        self.boot_ms = self.random.below(2 * BURST_WINDOW_MS);
        self.wall_ms -= i64::try_from(self.boot_ms).unwrap_or(0);
    }

    /// The new process goes on from where the last one was.
    fn compare(&mut self) {
        let Some(ledger) = lock(&self.ledger).clone() else { return };
        // One charge may stand in the journal that the dead process did not hear of.
        let most = match self.last {
            End::Clean => 0,
            End::Died => 1,
            End::PowerCut => 64,
        };
        let today = self.now().day();
        for (subject, day, before) in std::mem::take(&mut self.before) {
            if day == today
                && let Some(after) = counted(&ledger, subject, day)
            {
                lock(&self.book).go_on(subject, day, before, after, most);
            }
        }
        self.last = End::Died;
    }

    /// The thread that syncs comes to its next job.
    fn sync(&mut self) {
        let job = lock(&self.wanted).syncs.pop_front();
        if let Some((segment, done)) = job {
            let outcome = segment.sync();
            if self.drive.is_alive() {
                done(&outcome);
            }
        }
    }

    /// Some work that waits goes on.
    fn go_on(&mut self) {
        let begun = std::mem::take(&mut lock(&self.wanted).begun);
        self.tasks.extend(begun.into_iter().map(Task::Chore));
        if self.is_stopping && self.tasks.is_empty() {
            self.close();
        }
        if self.tasks.is_empty() {
            return;
        }
        let place = self.random.index(self.tasks.len());
        let (Task::Request(work) | Task::Chore(work)) = &mut self.tasks[place];
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            drop(self.tasks.swap_remove(place));
        }
        if self.is_starting && lock(&self.ledger).is_some() {
            self.is_starting = false;
            self.compare();
        }
    }

    /// Once a second what changed is folded into the records.
    fn fold(&mut self) {
        let Some(ledger) = lock(&self.ledger).clone() else { return };
        if self.is_stopping || std::mem::replace(&mut *lock(&self.is_folding), true) {
            return;
        }
        let (now, is_folding) = (self.now(), Arc::clone(&self.is_folding));
        self.tasks.push(Task::Chore(Box::pin(async move {
            let _ = ledger.fold(now).await;
            *lock(&is_folding) = false;
        })));
    }

    /// The process hears of changes of keys.
    fn hear(&mut self) {
        let book = lock(&self.book);
        for (known, key) in self.table.iter_mut().zip(&book.keys) {
            *known = (key.resumes, key.is_paused);
        }
    }

    /// A caller asks for a key, or for the demo behind the last of them.
    fn request(&mut self, place: usize) {
        if let Some((ledger, asks)) = self.ask(place) {
            self.charge(ledger, asks);
        }
    }

    /// Notes that somebody asks; nobody hears it where no process runs.
    fn ask(&self, place: usize) -> Option<(Arc<Ledger<Rig>>, Asks)> {
        let mut book = lock(&self.book);
        book.seen.requests += 1;
        let ledger = lock(&self.ledger).clone().filter(|_| !self.is_stopping)?;
        let now = self.now();
        let Some(&(resumes, is_paused)) = self.table.get(place) else {
            book.ask_on(Subject::Demo, now.day());
            return Some((ledger, Asks::Demo(now)));
        };
        let state = if is_paused { KeyState::Paused } else { KeyState::Active };
        let id = KeyId(i64::try_from(place).unwrap_or(0) + 1);
        let key = Key { id, scope: Scope::Geo, state, daily_limit: book.keys[place].limit, resumes };
        let asked = book.ask(place, resumes, now);
        book.ask_on(subject_of(place), now.day());
        Some((ledger, Asks::Key(key, asked)))
    }

    /// Has a request charged by itself.
    fn charge(&mut self, ledger: Arc<Ledger<Rig>>, asks: Asks) {
        let (book, drive) = (Arc::clone(&self.book), self.drive.clone());
        let mut work: Work = Box::pin(async move {
            match asks {
                Asks::Key(key, asked) => {
                    let charged = ledger.charge_key(&key, asked.now).await;
                    if drive.is_alive() {
                        tell(&book, asked, &charged);
                    }
                }
                Asks::Demo(now) => {
                    let charged = ledger.charge_demo(now).await;
                    if drive.is_alive() {
                        let mut book = lock(&book);
                        match charged {
                            Ok(Ok(allowance)) => book.answer(Subject::Demo, allowance),
                            Ok(Err(allowance)) => book.refuse(Subject::Demo, allowance),
                            Err(_) => book.seen.unknown += 1,
                        }
                    }
                }
            }
        });
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.tasks.push(Task::Request(work));
        }
    }
}

fn tell(book: &Mutex<Book>, asked: Asked, charged: &Result<KeyCharge, Error>) {
    let mut book = lock(book);
    match charged {
        Ok(KeyCharge::Charged(charge)) => book.tell(asked, *charge),
        Ok(KeyCharge::Paused) => book.tell_paused(asked),
        Err(_) => book.seen.unknown += 1,
    }
}

/// How much a ledger has counted, if it knows that without asking the records.
fn counted(ledger: &Ledger<Rig>, subject: Subject, day: Day) -> Option<u32> {
    let mut used = Box::pin(ledger.used(subject, day));
    match used.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(used) => used.ok(),
        Poll::Pending => None,
    }
}
