//! What is true of a simulated machine, whatever its ledger thinks: who was answered, when, and what the records hold.

use super::super::seen::Seen;
use super::twin::Usage;
use ipse_model::{BURST_LIMIT, BURST_WINDOW_MS, Charge, Day, DayAllowance, KeyId, Now};
use ipse_store::Subject;
use std::collections::HashMap;

/// How many a power cut may withhold.
const WITHHELD: u32 = 64;

/// A key, as the records have it, and what became of its requests.
#[derive(Default)]
pub(super) struct Known {
    pub(super) limit: u32,
    pub(super) resumes: u32,
    pub(super) is_paused: bool,
    /// Whether a caller was told that it is paused, since it was last resumed.
    pub(super) was_told: bool,
    /// When it was asked for and when that was let through, since it was resumed and the machine was started.
    asked: Vec<u64>,
    passed: Vec<u64>,
}

/// Everything that is known of one world.
#[derive(Default)]
pub(super) struct Book {
    pub(super) usage: Usage,
    pub(super) records_away: bool,
    pub(super) keys: Vec<Known>,
    /// How often the machine was started.
    pub(super) boots: u64,
    /// Numbers that were answered, of each subject and day.
    answered: HashMap<(Subject, Day), Vec<u64>>,
    /// How many were answered.
    served: HashMap<(Subject, Day), u32>,
    /// How many were granted and taken back: whoever was counted meanwhile leaves their number to the next.
    taken_back: HashMap<(Subject, Day), u32>,
    /// Of those, the numbers that were served again.
    again: HashMap<(Subject, Day), u32>,
    /// How often each subject asked on each day, and the day that a process counts, which never goes back.
    asked: HashMap<(Subject, Day), u32>,
    days: HashMap<Subject, Day>,
    first_day: Option<Day>,
    /// The latest day that was counted since the clock was last set back.
    latest_day: Option<Day>,
    /// How much starts of the machine may have withheld of any day.
    withheld: u32,
    pub(super) faults: Vec<String>,
    pub(super) seen: Seen,
}

/// One request, when it was made.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) place: usize,
    pub(super) resumes: u32,
    pub(super) was_told: bool,
    pub(super) boot: u64,
    pub(super) now: Now,
}

impl Book {
    /// Nothing has happened to keys with these limits.
    pub(super) fn new(limits: &[u32]) -> Self {
        let keys = limits.iter().map(|&limit| Known { limit, ..Known::default() }).collect();
        Self { keys, ..Self::default() }
    }

    /// Notes that a key is asked for, by a process that knows it as resumed so often.
    pub(super) fn ask(&mut self, place: usize, resumes: u32, now: Now) -> Asked {
        let key = &mut self.keys[place];
        key.asked.push(now.boot_ms);
        Asked { place, resumes, was_told: key.was_told, boot: self.boots, now }
    }

    /// Somebody asked on a day, whatever came of it.
    pub(super) fn ask_on(&mut self, subject: Subject, day: Day) {
        let latest = self.days.entry(subject).or_insert(self.first_day.unwrap_or(day));
        *latest = day.max(*latest);
        self.latest_day = self.latest_day.max(Some(*latest));
        // What was refused for another reason did not move the count to its day: a later request may count on either.
        for day in day.0..=latest.0 {
            *self.asked.entry((subject, Day(day))).or_default() += 1;
        }
    }

    /// A new process begins with the day that it finds. A clean stop settles that day alone: if the clock had been ahead, the
    /// day that it had reached may later begin at its mark.
    pub(super) fn begin_on(&mut self, day: Day) {
        if self.latest_day.is_some_and(|latest| day < latest) {
            self.withheld += WITHHELD;
            self.latest_day = Some(day);
        }
        self.first_day = Some(day);
        self.days.clear();
    }

    /// What a caller was told of a key that was charged.
    pub(super) fn tell(&mut self, asked: Asked, charge: Charge) {
        let subject = subject_of(asked.place);
        match charge {
            Charge::Granted(allowance) => {
                self.answer(subject, allowance);
                self.pass(asked);
            }
            Charge::DayUsedUp(allowance) => {
                self.refuse(subject, allowance);
                self.pass(asked);
            }
            Charge::BurstExceeded => self.tell_paused(asked),
        }
    }

    /// What a caller was told of a key that is paused.
    pub(super) fn tell_paused(&mut self, asked: Asked) {
        let key = &mut self.keys[asked.place];
        if key.resumes != asked.resumes {
            return;
        }
        if !key.is_paused {
            self.faults.push(format!("key {} was called paused before it was", asked.place + 1));
        }
        key.was_told = true;
    }

    /// An answer leaves: its number must never have left before.
    pub(super) fn answer(&mut self, subject: Subject, allowance: DayAllowance) {
        self.seen.answered += 1;
        let number = allowance.limit - allowance.remaining;
        let numbers = self.answered.entry((subject, allowance.day)).or_default();
        let (word, bit) = (usize::try_from(number / 64).unwrap_or(0), 1_u64 << (number % 64));
        if numbers.len() <= word {
            numbers.resize(word + 1, 0);
        }
        let was_answered = numbers[word] & bit != 0 || number == 0;
        numbers[word] |= bit;
        let day = allowance.day.0;
        if was_answered {
            let taken_back = self.taken_back_of(subject, allowance.day);
            let again = self.again.entry((subject, allowance.day)).or_default();
            *again += 1;
            if *again > taken_back {
                self.faults.push(format!("number {number} of {subject:?} on day {day} was served twice"));
            }
        }
        let served = self.served.entry((subject, allowance.day)).or_default();
        *served += 1;
        if *served > allowance.limit {
            self.faults.push(format!("{subject:?} was served {served} times on day {day}"));
        }
    }

    /// A request was granted and could not be written: nobody is told.
    pub(super) fn take_back(&mut self, subject: Subject, allowance: DayAllowance) {
        self.seen.unknown += 1;
        self.seen.taken_back += 1;
        *self.taken_back.entry((subject, allowance.day)).or_default() += 1;
    }

    fn taken_back_of(&self, subject: Subject, day: Day) -> u32 {
        self.taken_back.get(&(subject, day)).copied().unwrap_or(0)
    }

    /// A refusal leaves: so often was asked, but for what starts of the machine may withhold.
    pub(super) fn refuse(&mut self, subject: Subject, allowance: DayAllowance) {
        self.seen.used_up += 1;
        let asked = self.asked.get(&(subject, allowance.day)).copied().unwrap_or(0);
        if asked.saturating_add(self.withheld) < allowance.limit {
            let day = allowance.day.0;
            self.faults.push(format!("{subject:?} was refused on day {day} before it was used up"));
        }
    }

    /// A request got past the burst limit: of any minute no more than may.
    fn pass(&mut self, asked: Asked) {
        let key = &mut self.keys[asked.place];
        if key.resumes != asked.resumes || self.boots != asked.boot {
            return;
        }
        if asked.was_told {
            self.faults.push(format!("the pause of key {} was forgotten", asked.place + 1));
        }
        // What waited for the disk is told later than what came after it.
        let place = key.passed.partition_point(|time| *time <= asked.now.boot_ms);
        key.passed.insert(place, asked.now.boot_ms);
        let limit = BURST_LIMIT as usize;
        let mut minutes =
            key.passed.iter().zip(key.passed.iter().skip(limit)).skip(place.saturating_sub(limit));
        if minutes.any(|(first, last)| last - first < BURST_WINDOW_MS) {
            self.faults
                .push(format!("more requests of key {} passed within a minute than may", asked.place + 1));
        }
    }

    /// A pause is written: the key must have been over its limit.
    pub(super) fn pause(&mut self, id: KeyId, resumes: u32, minute: &[u32; 60], now: Now) -> bool {
        let place = usize::try_from(id.0 - 1).unwrap_or(0);
        let key = &mut self.keys[place];
        if key.is_paused || key.resumes != resumes {
            return false;
        }
        key.is_paused = true;
        self.seen.pauses += 1;
        let is_recent = |time: &&u64| now.boot_ms.saturating_sub(**time) < BURST_WINDOW_MS;
        let recent = key.asked.iter().filter(is_recent).count();
        if recent <= BURST_LIMIT as usize || minute.iter().sum::<u32>() <= BURST_LIMIT {
            self.faults.push(format!("key {} was paused, and was not over its limit", id.0));
        }
        true
    }

    /// The owner resumes a key.
    pub(super) fn resume(&mut self, place: usize) {
        let key = &mut self.keys[place];
        if std::mem::replace(&mut key.is_paused, false) {
            let (limit, resumes) = (key.limit, key.resumes + 1);
            *key = Known { limit, resumes, ..Known::default() };
        }
    }

    /// The machine is started: nobody knows of the minute before.
    pub(super) fn boot(&mut self, is_clean: bool) {
        self.boots += 1;
        if !is_clean {
            self.withheld += WITHHELD;
        }
        for key in &mut self.keys {
            key.asked.clear();
            key.passed.clear();
        }
    }

    /// A process goes on from what the last one had counted. What that took back may stand in the journal all the same.
    pub(super) fn go_on(&mut self, subject: Subject, day: Day, before: u32, after: u32, most: u32) {
        if after > before + most + self.taken_back_of(subject, day) {
            self.faults.push(format!("{subject:?} went on from {after}, and had used {before}"));
        }
    }
}

pub(super) fn subject_of(place: usize) -> Subject {
    Subject::Key(KeyId(i64::try_from(place).unwrap_or(0) + 1))
}
