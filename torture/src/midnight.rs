//! Midnight under load: whichever way the clock goes over it, every request is charged to one day, and to the right
//! one.
//!
//! Several connections ask while the clock is moved. What the answers say about a day is compared with when they can
//! have been asked, with each other, and with what the database holds after the server has stopped.

use crate::campaign::Options;
use crate::inside::{Inside, make_keys, with_records};
use anyhow::{Context, Result, ensure};
use ipse_edge::{Clock, ClockHand};
use ipse_model::{BURST_WINDOW_MS, DAILY_LIMIT, DEMO_DAILY_LIMIT, Day, Now};
use ipse_store::Subject;
use ipse_testkit::{Connection, Random, Response};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const FIRST_DAY: u32 = 20_772;
const MS_PER_DAY: i64 = 86_400_000;
const SECONDS_PER_DAY: i64 = 86_400;
const CONNECTIONS: u64 = 4;
/// All of one passage together stay below the burst limit of a single key.
const BATCHES: u64 = 64;
const LONGEST_BATCH: u64 = 4;
/// After so many midnights the server is stopped, looked into, and started again.
const MIDNIGHTS_PER_LIFE: u64 = 10;
/// Some keys have quotas that are used up during the passage itself.
const DAILY_LIMITS: [u32; 5] = [1, 12, 40, 300, DAILY_LIMIT];

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let folder = tempfile::tempdir()?;
    let callers = callers(folder.path())?;
    let mut books = Books::default();
    let mut clock = Now { unix_ms: i64::from(FIRST_DAY) * MS_PER_DAY, boot_ms: 10 * BURST_WINDOW_MS };
    let (mut midnights, mut lives) = (0, 0);
    while midnights < options.count {
        // The clock may have been set back while no server ran.
        if random.below(4) == 0 {
            clock.unix_ms -= MS_PER_DAY;
        }
        // A day never goes back while a server lives; the next one begins with the clock that it finds, and goes on
        // from what was counted on that day.
        books.begin_life(clock.day());
        let (product_clock, hand) = Clock::standing_at(clock);
        let inside = Inside::start(folder.path(), product_clock)?;
        for _ in 0..MIDNIGHTS_PER_LIFE.min(options.count - midnights) {
            clock = passage(&mut random, inside.address, &hand, &callers, clock, &mut books)
                .with_context(|| format!("midnight {midnights}"))?;
            midnights += 1;
        }
        inside.stop()?;
        books.compare(folder.path(), &callers).with_context(|| format!("after {midnights} midnights"))?;
        lives += 1;
    }
    let Books { requests, granted, used_up, wrong, first_wrong, .. } = books;
    let figure = format!(
        "{midnights} midnights in {lives} lives of a server, {requests} requests ({granted} granted, {used_up} over the \
         day's quota), {wrong} charged to the wrong day"
    );
    ensure!(wrong == 0, "{figure}; the first: {}", first_wrong.unwrap_or_default());
    Ok(figure)
}

/// Who asks.
struct Caller {
    subject: Subject,
    target: &'static str,
    key: Option<String>,
    limit: u32,
}

fn callers(data_dir: &Path) -> Result<Vec<Caller>> {
    let keys = make_keys(data_dir, &DAILY_LIMITS)?;
    let keyed = keys.into_iter().zip(DAILY_LIMITS).map(|(key, limit)| {
        let subject = Subject::Key(key.id);
        Caller { subject, target: "/api/v1/ip", key: Some(key.text), limit }
    });
    let demo =
        Caller { subject: Subject::Demo, target: "/api/v1/ip/demo", key: None, limit: DEMO_DAILY_LIMIT };
    Ok(keyed.chain([demo]).collect())
}

/// Goes over one midnight, or over several at once, and says where the clock stands afterwards.
fn passage(
    random: &mut Random,
    address: SocketAddr,
    hand: &ClockHand,
    callers: &[Caller],
    begin: Now,
    books: &mut Books,
) -> Result<Now> {
    // The minutes are far apart, so that no key is ever paused.
    let begin = Now { boot_ms: begin.boot_ms + BURST_WINDOW_MS, ..begin };
    let moves = moves(random, begin);
    let last = moves.last().copied().unwrap_or(begin);
    let moved = MovedClock::new(hand, begin, books.latest_shown, moves, random);
    let book = Mutex::new(books);
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let mut random = Random::new(random.next());
                let (moved, book) = (&moved, &book);
                scope.spawn(move || ask(&mut random, address, callers, moved, book))
            })
            .collect();
        askers
            .into_iter()
            .try_for_each(|asker| asker.join().map_err(|_| anyhow::anyhow!("an asker panicked"))?)
    })?;
    let books = book.into_inner().unwrap_or_else(PoisonError::into_inner);
    books.latest_shown = moved.latest();
    Ok(last)
}

/// The moments that the clock is set to, one after the other, while requests are on their way.
fn moves(random: &mut Random, begin: Now) -> Vec<Now> {
    let today = begin.unix_ms.div_euclid(MS_PER_DAY);
    let midnight = (today + 1) * MS_PER_DAY;
    let near = |random: &mut Random| i64::try_from(random.below(3)).unwrap_or_default();
    let before = midnight - 1 - near(random);
    let after = midnight + near(random);
    let days = 2 + i64::try_from(random.below(30)).unwrap_or_default();
    let far = midnight + days * MS_PER_DAY;
    let wall = match random.below(6) {
        0 | 1 => vec![before, after],
        // Set back over midnight, for the rest of the passage or for a while.
        2 => vec![before, after, before],
        3 => vec![before, after, before, after, before - MS_PER_DAY, after],
        // A clock that was wrong by days, and one that is put right.
        4 => vec![before, far],
        _ => vec![before, far, after, far],
    };
    let at = |(step, unix_ms)| Now { unix_ms, boot_ms: begin.boot_ms + step };
    (0..).zip(wall).map(at).collect()
}

/// One connection's part of a passage.
fn ask(
    random: &mut Random,
    address: SocketAddr,
    callers: &[Caller],
    moved: &MovedClock<'_>,
    book: &Mutex<&mut Books>,
) -> Result<()> {
    let mut connection = Connection::open(address)?;
    while moved.next_batch() {
        let index = usize::try_from(random.below(callers.len() as u64))?;
        let caller = &callers[index];
        let batch = 1 + random.below(LONGEST_BATCH);
        let asked = moved.asked();
        let latest_told = lock(book).latest_told(index);
        for _ in 0..batch {
            connection.send_get(caller.target, caller.key.as_deref())?;
        }
        for _ in 0..batch {
            let response = connection.receive()?;
            let (earliest, latest) = moved.days_since(asked);
            let earliest = earliest.max(latest_told);
            lock(book).note(index, caller, &response, earliest, latest)?;
        }
    }
    Ok(())
}

/// The clock with a memory of what it has shown.
struct MovedClock<'a> {
    hand: &'a ClockHand,
    state: Mutex<Moves>,
    /// Held by who moves the clock, so that moves follow each other.
    moving: Mutex<()>,
}

struct Moves {
    batches: u64,
    /// Before which batches the clock is moved, and to what.
    due: VecDeque<(u64, Now)>,
    /// Every day that the clock showed or is about to show, in order.
    shown: Vec<Day>,
    /// How many of them it has certainly been set to.
    settled: usize,
    /// The latest day that was ever shown.
    latest: Day,
}

impl<'a> MovedClock<'a> {
    fn new(hand: &'a ClockHand, begin: Now, latest: Day, moves: Vec<Now>, random: &mut Random) -> Self {
        hand.set(begin);
        let mut at: Vec<u64> = moves.iter().map(|_| random.below(BATCHES)).collect();
        at.sort_unstable();
        let state = Moves {
            batches: 0,
            due: at.into_iter().zip(moves).collect(),
            shown: vec![begin.day()],
            settled: 1,
            latest: latest.max(begin.day()),
        };
        Self { hand, state: Mutex::new(state), moving: Mutex::new(()) }
    }

    /// Whether there is another batch to send. Whoever takes one at which the clock is due moves it first, while the
    /// others' requests are on their way.
    fn next_batch(&self) -> bool {
        let number = {
            let mut state = lock(&self.state);
            state.batches += 1;
            state.batches - 1
        };
        let moving = lock(&self.moving);
        loop {
            let mut state = lock(&self.state);
            let Some(&(at, moment)) = state.due.front() else { break };
            if at > number {
                break;
            }
            state.due.pop_front();
            state.shown.push(moment.day());
            state.latest = state.latest.max(moment.day());
            drop(state);
            self.hand.set(moment);
            let mut state = lock(&self.state);
            state.settled = state.shown.len();
        }
        drop(moving);
        number < BATCHES
    }

    /// Marks the moment before a request is sent.
    fn asked(&self) -> usize {
        lock(&self.state).settled - 1
    }

    /// The earliest day that the clock can have shown since then, and the latest that it ever showed.
    fn days_since(&self, asked: usize) -> (Day, Day) {
        let state = lock(&self.state);
        let earliest = state.shown[asked..].iter().min().copied().unwrap_or(state.latest);
        (earliest, state.latest)
    }

    fn latest(&self) -> Day {
        lock(&self.state).latest
    }
}

/// What the answers said.
struct Books {
    requests: u64,
    granted: u64,
    used_up: u64,
    wrong: u64,
    first_wrong: Option<String>,
    /// In this life of the server.
    latest_shown: Day,
    /// The latest day that each caller was told in this life.
    told: BTreeMap<usize, Day>,
    /// By caller and day.
    accounts: BTreeMap<(usize, Day), Account>,
}

impl Default for Books {
    fn default() -> Self {
        let latest_shown = Day(FIRST_DAY);
        let (told, accounts) = (BTreeMap::new(), BTreeMap::new());
        Self {
            requests: 0,
            granted: 0,
            used_up: 0,
            wrong: 0,
            first_wrong: None,
            latest_shown,
            told,
            accounts,
        }
    }
}

#[derive(Default)]
struct Account {
    /// What each granted answer said is left.
    remaining: Vec<i64>,
    used_up: u64,
    /// Whether the database was seen to hold it; a later life may add to it.
    compared: usize,
}

impl Books {
    fn begin_life(&mut self, day: Day) {
        self.latest_shown = day;
        self.told.clear();
    }

    /// The latest day that this caller was told in this life. Its day never goes back.
    fn latest_told(&self, caller: usize) -> Day {
        self.told.get(&caller).copied().unwrap_or(Day(0))
    }

    /// Notes an answer that was charged to a day between these two, or to the wrong one.
    fn note(
        &mut self,
        index: usize,
        caller: &Caller,
        response: &Response,
        earliest: Day,
        latest: Day,
    ) -> Result<()> {
        self.requests += 1;
        let reset = response.number("x-ratelimit-reset")?;
        let remaining = response.number("x-ratelimit-remaining")?;
        let limit = response.number("x-ratelimit-limit")?;
        ensure!(limit == i64::from(caller.limit), "the limit is {limit} instead of {}", caller.limit);
        ensure!(reset % SECONDS_PER_DAY == 0, "{reset} is no midnight");
        let day = Day(u32::try_from(reset / SECONDS_PER_DAY - 1)?);
        let subject = caller.subject;
        if day < earliest || day > latest {
            self.wrong(|| format!("{subject:?} was charged to {day:?}, asked {earliest:?} to {latest:?}"));
        }
        let told = self.told.entry(index).or_insert(day);
        *told = day.max(*told);
        let account = self.accounts.entry((index, day)).or_default();
        match response.status {
            200 => {
                account.remaining.push(remaining);
                self.granted += 1;
            }
            429 if remaining == 0 && !response.body.contains("paused") => {
                account.used_up += 1;
                self.used_up += 1;
            }
            status => anyhow::bail!("{subject:?} was answered {status}: {}", response.body),
        }
        Ok(())
    }

    /// Compares every day with itself and with the database.
    fn compare(&mut self, data_dir: &Path, callers: &[Caller]) -> Result<()> {
        let fresh = self.accounts.iter().filter(|(_, account)| account.compared < account.remaining.len());
        let mut days: Vec<Day> = fresh.map(|((_, day), _)| *day).collect();
        days.sort_unstable();
        days.dedup();
        let stored = with_records(data_dir, async |records| {
            let mut stored = BTreeMap::new();
            for day in days {
                stored.insert(day, records.usage(day).await?);
            }
            Ok(stored)
        })?;
        for (day, rows) in stored {
            for (index, caller) in callers.iter().enumerate() {
                let row = rows.iter().find(|row| row.subject == caller.subject);
                let used = row.map_or(0, |row| u64::from(row.used));
                let (told, whole) = self.account(index, caller, day);
                let subject = caller.subject;
                if used != told {
                    let told = || format!("{subject:?}, {day:?}: {told} answers, {used} in the database");
                    self.wrong(told);
                }
                if !whole {
                    self.wrong(|| format!("{subject:?}, {day:?}: what remained is no whole sequence"));
                }
            }
        }
        Ok(())
    }

    /// How many answers name this day, and whether what remained was told to each once, without a gap.
    fn account(&mut self, index: usize, caller: &Caller, day: Day) -> (u64, bool) {
        let Some(account) = self.accounts.get_mut(&(index, day)) else { return (0, true) };
        account.compared = account.remaining.len();
        account.remaining.sort_unstable_by(|a, b| b.cmp(a));
        let limit = i64::from(caller.limit);
        let whole = (1..).zip(&account.remaining).all(|(used, remaining)| *remaining == limit - used);
        let told = account.remaining.len() as u64;
        (told, whole && (account.used_up == 0 || told == u64::from(caller.limit)))
    }

    fn wrong(&mut self, told: impl FnOnce() -> String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert_with(told);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
