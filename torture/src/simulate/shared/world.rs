//! Engines, records and the network between them, all of it in memory and moved by one source of chance.
//!
//! The network is worse than real ones: messages overtake each other, are lost before or after they had an effect, and come
//! long after whoever sent them gave up. Nothing is ever delivered twice: no connection does that.

use super::super::seen::Seen;
use super::twin::State;
use ipse_model::{Day, KeyId, Now};
use ipse_store::steps::{Call, Minute, Verdict};
use ipse_store::{Away, Portion, Range, Subject};
use ipse_testkit::Random;
use std::collections::{HashMap, VecDeque};

const MINUTE_MS: u64 = 60_000;
/// After a clock was moved, or an engine forgot, so long minutes are not what they seem.
const TROUBLE_MS: u64 = 3 * MINUTE_MS;
const BURST_LIMIT: usize = 300;

/// One server of the engine.
#[derive(Default)]
pub(super) struct Engine {
    states: HashMap<Subject, State>,
    backup: HashMap<Subject, State>,
    /// How often its process was started, and how often it was made a master.
    process: u64,
    history: u64,
    /// How far its clock is off.
    skew_ms: i64,
}

impl Engine {
    fn incarnation(&self, place: usize) -> u64 {
        (self.process << 40) | (self.history << 8) | u64::try_from(place).unwrap_or(0)
    }
}

/// A connection of a node.
#[derive(Clone, Copy)]
pub(super) struct Line {
    engine: usize,
    incarnation: u64,
}

/// What is on its way.
pub(super) struct Message {
    /// Who waits for the reply, if somebody still does.
    waiter: Option<u64>,
    errand: Errand,
    /// The reply, when the errand is done.
    reply: Option<Reply>,
}

#[derive(Clone)]
pub(super) enum Errand {
    Ask(Line, Subject, Call),
    Reserve(Subject, Day, u32, Portion),
    Pause(KeyId, Minute),
    Moment,
}

pub(super) enum Reply {
    Verdict(Verdict),
    Range(Range),
    Paused,
    Passed,
}

/// What one node alone was asked for one key, and let through, by the time since it was started.
#[derive(Clone, Default)]
pub(super) struct Alone {
    asked: VecDeque<u64>,
    let_through: VecDeque<u64>,
}

impl Alone {
    pub(super) fn asked(&mut self, now: Now) {
        remember(&mut self.asked, now.boot_ms);
    }
}

/// A key, as the records have it.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) limit: u32,
    pub(super) resumes: u32,
    pub(super) is_paused: bool,
}

/// What was found to be wrong.
pub(super) type Fault = String;

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    engines: [Engine; 2],
    /// The one that everybody is sent to.
    master: usize,
    /// Whether the other one still thinks to be the master.
    is_split: bool,
    records_away: bool,
    /// Whether nobody reaches any engine.
    engines_away: bool,
    /// Whether nodes go on without the engines.
    pub(super) leases: bool,
    marks: HashMap<(Subject, Day), u32>,
    /// How far days are used, as nodes fold it.
    used: HashMap<(Subject, Day), u32>,
    pub(super) keys: Vec<Known>,
    pub(super) lines: Vec<Option<Line>>,
    messages: Vec<Message>,
    replies: HashMap<u64, Result<Reply, Away>>,
    /// Whose replies have come.
    pub(super) ready: Vec<u64>,
    next: u64,
    /// Numbers that were answered, of each subject and day.
    answered: HashMap<(Subject, Day), Vec<u64>>,
    /// When the function was asked to charge a key, and when it granted it, by true time.
    asked: Vec<VecDeque<u64>>,
    granted: Vec<VecDeque<u64>>,
    trouble_until: u64,
    /// Of each node and key.
    pub(super) alone: Vec<Vec<Alone>>,
    /// How far the wall clocks of nodes are off.
    walls_ms: Vec<i64>,
    /// Until when some node has forgotten a part of its minute.
    forgotten_until: u64,
    /// The longest that a request went on after it was judged by the clock.
    longest_ms: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(mut random: Random, nodes: usize, keys: usize) -> Self {
        // Somewhere on a day, and often shortly before its end.
        let now = 20_000 * 86_400_000 + random.below(86_400_000);
        let limits = [1, 5, 63, 64, 65, 130, 300, 301, 1_000, 3_000];
        let known =
            |random: &mut Random| Known { limit: *random.pick(&limits), resumes: 0, is_paused: false };
        let keys: Vec<Known> = (0..keys).map(|_| known(&mut random)).collect();
        let count = keys.len();
        let leases = random.below(2) == 0;
        // In some worlds there has never been an engine.
        let engines_away = leases && random.below(3) == 0;
        Self {
            random,
            now,
            engines: [Engine { process: 1, ..Engine::default() }, Engine { process: 2, ..Engine::default() }],
            master: 0,
            is_split: false,
            records_away: false,
            engines_away,
            leases,
            marks: HashMap::new(),
            used: HashMap::new(),
            keys,
            lines: vec![None; nodes],
            messages: Vec::new(),
            replies: HashMap::new(),
            ready: Vec::new(),
            next: 0,
            answered: HashMap::new(),
            asked: vec![VecDeque::new(); count],
            granted: vec![VecDeque::new(); count],
            trouble_until: 0,
            alone: vec![vec![Alone::default(); count]; nodes],
            walls_ms: vec![0; nodes],
            forgotten_until: 0,
            longest_ms: 0,
            faults: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Sends a node's errand, and says by which number its reply is known.
    pub(super) fn send(&mut self, errand: Errand) -> u64 {
        self.next += 1;
        self.messages.push(Message { waiter: Some(self.next), errand, reply: None });
        self.next
    }

    pub(super) fn take_reply(&mut self, number: u64) -> Option<Result<Reply, Away>> {
        self.replies.remove(&number)
    }

    /// Whoever waited for these is gone.
    pub(super) fn forget_waiters(&mut self, is_gone: impl Fn(u64) -> bool) {
        for message in &mut self.messages {
            message.waiter = message.waiter.filter(|waiter| !is_gone(*waiter));
        }
        self.replies.retain(|waiter, _| !is_gone(*waiter));
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.messages.is_empty()
    }

    /// Lets one message go one step further.
    pub(super) fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let place = self.random.index(self.messages.len());
        let chance = self.random.below(1000);
        // The node gives up, and what it sent goes on.
        if chance < 5
            && let Some(waiter) = self.messages[place].waiter.take()
        {
            self.answer(waiter, Err(Away::NoReply));
            return;
        }
        if self.messages[place].reply.is_none() && chance >= 10 {
            let errand = self.messages[place].errand.clone();
            match self.carry_out(errand) {
                Ok(reply) => self.messages[place].reply = Some(reply),
                Err(away) => {
                    let message = self.messages.swap_remove(place);
                    message.waiter.into_iter().for_each(|waiter| self.answer(waiter, Err(away.clone())));
                }
            }
            return;
        }
        // The reply arrives, or is lost on either way.
        let message = self.messages.swap_remove(place);
        if let Some(waiter) = message.waiter {
            let reply = message.reply.filter(|_| chance >= 20).ok_or(Away::NoReply);
            self.answer(waiter, reply);
        }
    }

    fn answer(&mut self, waiter: u64, reply: Result<Reply, Away>) {
        self.replies.insert(waiter, reply);
        self.ready.push(waiter);
    }

    fn carry_out(&mut self, errand: Errand) -> Result<Reply, Away> {
        match errand {
            Errand::Ask(line, subject, call) => self.ask(line, subject, &call).map(Reply::Verdict),
            Errand::Moment => Ok(Reply::Passed),
            _ if self.records_away => Err(Away::NoReply),
            Errand::Reserve(subject, day, limit, portion) => {
                let mark = self.marks.entry((subject, day)).or_default();
                let range = Range::after(*mark, limit, portion);
                *mark = range.to;
                Ok(Reply::Range(range))
            }
            Errand::Pause(key, minute) => {
                self.pause(key, &minute);
                Ok(Reply::Paused)
            }
        }
    }

    fn ask(&mut self, line: Line, subject: Subject, call: &Call) -> Result<Verdict, Away> {
        let is_master = line.engine == self.master || self.is_split;
        let engine = &mut self.engines[line.engine];
        // A connection ends with the process, and with its being a master.
        if self.engines_away || !is_master || engine.incarnation(line.engine) != line.incarnation {
            return Err(Away::NoReply);
        }
        let now = self.now.saturating_add_signed(engine.skew_ms);
        let verdict = engine.states.entry(subject).or_default().call(line.incarnation, now, call);
        if let (Subject::Key(KeyId(id)), Call::Charge { generation, .. }) = (subject, call) {
            let place = usize::try_from(id - 1).unwrap_or(0);
            remember(&mut self.asked[place], self.now);
            let since = self.now - MINUTE_MS.min(self.now);
            let is_calm = self.now > self.trouble_until && !self.is_split;
            let recent = |times: &VecDeque<u64>| times.iter().rev().take_while(|time| **time > since).count();
            if let Verdict::Burst(_) = verdict
                && is_calm
                && recent(&self.asked[place]) <= BURST_LIMIT
            {
                self.faults.push(format!("key {id} was found to be over its limit, and was not"));
            }
            let is_current = *generation == self.keys[place].resumes;
            if let (Verdict::Granted { .. } | Verdict::UsedUp { .. }, true) = (&verdict, is_current) {
                remember(&mut self.granted[place], self.now);
                if is_calm && recent(&self.granted[place]) > BURST_LIMIT {
                    self.faults.push(format!("more requests of key {id} passed within a minute than may"));
                }
            }
        }
        Ok(verdict)
    }

    fn pause(&mut self, id: KeyId, minute: &Minute) {
        let place = usize::try_from(id.0 - 1).unwrap_or(0);
        let key = &mut self.keys[place];
        if key.is_paused || key.resumes != minute.generation {
            return;
        }
        key.is_paused = true;
        self.seen.pauses += 1;
    }

    /// An answer leaves: its number must never have left before.
    pub(super) fn answered(&mut self, subject: Subject, day: Day, limit: u32, remaining: u32) {
        self.seen.answered += 1;
        let number = limit - remaining;
        let numbers = self.answered.entry((subject, day)).or_default();
        let (word, bit) = (usize::try_from(number / 64).unwrap_or(0), 1_u64 << (number % 64));
        if numbers.len() <= word {
            numbers.resize(word + 1, 0);
        }
        if numbers[word] & bit != 0 || number == 0 || number > limit {
            self.faults.push(format!("number {number} of {subject:?} on day {} was served twice", day.0));
        }
        numbers[word] |= bit;
        let used = self.used.entry((subject, day)).or_default();
        *used = number.max(*used);
    }

    /// The clocks of a node: the one on the wall, which may be off, and the one that nobody sets.
    pub(super) fn now_of(&self, node: usize) -> Now {
        let unix_ms = i64::try_from(self.now).unwrap_or(0) + self.walls_ms[node];
        Now { unix_ms, boot_ms: self.now }
    }

    /// A node let a request through without the engines: all of them together let as many through as may.
    pub(super) fn leased(&mut self, node: usize, place: usize, resumes: u32, now: Now) {
        self.seen.leased += 1;
        self.longest_ms = self.longest_ms.max(self.now - now.boot_ms);
        if self.keys[place].resumes != resumes {
            return;
        }
        let times = &mut self.alone[node][place].let_through;
        // What comes late counts as of the last one.
        let moment = times.back().map_or(now.boot_ms, |last| now.boot_ms.max(*last));
        remember(times, moment);
        // By so much a request may have been counted later than it is here.
        let since = moment - MINUTE_MS.saturating_sub(self.longest_ms).min(moment);
        let recent = |alone: &Vec<Alone>| {
            let times = alone[place].let_through.iter().rev();
            times.skip_while(|time| **time > moment).take_while(|time| **time > since).count()
        };
        if self.now > self.forgotten_until && self.alone.iter().map(recent).sum::<usize>() > BURST_LIMIT {
            self.faults.push(format!(
                "more requests of key {} passed within a minute without the engines",
                place + 1
            ));
        }
    }

    /// A node that is alone called a key over its limit: it must have been asked so often itself.
    pub(super) fn paused_alone(&mut self, node: usize, place: usize, resumes: u32, now: Now) {
        self.seen.paused_alone += 1;
        self.longest_ms = self.longest_ms.max(self.now - now.boot_ms);
        let since = now.boot_ms.saturating_sub(MINUTE_MS + self.longest_ms);
        if self.keys[place].resumes == resumes
            && self.alone[node][place].asked.iter().filter(|time| **time > since).count() <= BURST_LIMIT
        {
            self.faults.push(format!(
                "key {} was paused without the engines, and was not over its limit",
                place + 1
            ));
        }
    }

    /// A node died, and its minute with it.
    pub(super) fn forgot_minute(&mut self) {
        self.forgotten_until = self.now + TROUBLE_MS;
    }

    /// A refusal leaves: every number must have been given out.
    pub(super) fn used_up(&mut self, subject: Subject, day: Day, limit: u32) {
        self.seen.used_up += 1;
        if self.marks.get(&(subject, day)).copied().unwrap_or(0) < limit {
            self.faults
                .push(format!("{subject:?} was refused on day {} before its numbers were given out", day.0));
        }
    }

    /// Connects a node to whom it finds.
    pub(super) fn connect(&mut self, node: usize) {
        if self.engines_away {
            return;
        }
        let engine = if self.is_split && self.random.below(2) == 0 { 1 - self.master } else { self.master };
        self.lines[node] = Some(Line { engine, incarnation: self.engines[engine].incarnation(engine) });
    }

    /// Nodes find out which of their connections lead nowhere.
    pub(super) fn find_out(&mut self) {
        let (engines, master, is_split) = (&self.engines, self.master, self.is_split);
        for line in &mut self.lines {
            *line = line.filter(|line| {
                let is_master = line.engine == master || is_split;
                is_master && engines[line.engine].incarnation(line.engine) == line.incarnation
            });
        }
    }

    /// Something goes wrong, or right again.
    pub(super) fn mishap(&mut self) {
        self.seen.mishaps += 1;
        let master = self.master;
        match self.random.below(15) {
            0 => self.engines[master].states.clear(),
            1 => {
                let engine = &mut self.engines[master];
                engine.process += 2;
                engine.states.clear();
            }
            2 => {
                let engine = &mut self.engines[master];
                engine.process += 2;
                engine.states = engine.backup.clone();
            }
            3 => {
                let engine = &mut self.engines[master];
                engine.backup = engine.states.clone();
                return;
            }
            // What the master has reaches the other one.
            4 | 5 => {
                self.replicate();
                return;
            }
            // The other one becomes the master, with what it had heard of; the first may go on beside it.
            6 => {
                self.master = 1 - master;
                self.engines[1 - master].history += 1;
                self.is_split = self.random.below(2) == 0;
            }
            // The first gives up, and takes over what its successor has.
            7 => {
                self.is_split = false;
                self.replicate();
            }
            8 => {
                let by = self.some_skew_ms();
                let place = self.random.index(2);
                self.engines[place].skew_ms += by;
            }
            9 => {
                self.records_away = !self.records_away;
                return;
            }
            10 if self.leases => {
                self.engines_away = !self.engines_away;
                if self.engines_away {
                    self.lines.fill(None);
                }
                return;
            }
            11 => {
                let node = self.random.index(self.lines.len());
                self.walls_ms[node] = self.some_skew_ms();
                return;
            }
            _ => {
                let node = self.random.index(self.lines.len());
                self.lines[node] = None;
                return;
            }
        }
        self.trouble_until = self.now + TROUBLE_MS;
    }

    /// By how much a clock may jump.
    fn some_skew_ms(&mut self) -> i64 {
        let most = 10_i64.pow(u32::try_from(self.random.below(6)).unwrap_or(0));
        i64::try_from(self.random.below(2 * most.unsigned_abs() + 1)).unwrap_or(0) - most
    }

    fn replicate(&mut self) {
        if !self.is_split {
            let (master, other) = (self.master, 1 - self.master);
            self.engines[other].states = self.engines[master].states.clone();
        }
    }

    /// The owner resumes a key.
    pub(super) fn resume(&mut self, place: usize) {
        let key = &mut self.keys[place];
        if std::mem::replace(&mut key.is_paused, false) {
            key.resumes += 1;
            self.granted[place].clear();
            for alone in &mut self.alone {
                alone[place] = Alone::default();
            }
        }
    }
}

fn remember(times: &mut VecDeque<u64>, now: u64) {
    times.push_back(now);
    if times.len() > 2 * BURST_LIMIT {
        times.pop_front();
    }
}
