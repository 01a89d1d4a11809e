//! The function of shared counters once more, in Rust, so that a hundred million calls of it take minutes.
//!
//! That it says the same as the text that engines run is tried against real ones (`tests`).

use ipse_model::{BURST_LIMIT, BURST_WINDOW_MS, Day};
use ipse_store::steps::{Call, Minute, Verdict};
use std::collections::VecDeque;

const MS_PER_DAY: u64 = 86_400_000;
const RESERVE: u32 = 2;
const RESERVE_PART: u32 = 32;
const ASK_AGAIN_MS: u64 = 100;
const STATE_KEPT_MS: u64 = 3 * MS_PER_DAY;
const WINDOW_KEPT_MS: u64 = 120_000;
const WINDOW_RENEWED_MS: u64 = 30_000;

/// What an engine keeps of one subject.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// None before the first range.
    incarnation: Option<u64>,
    day: u32,
    used: u32,
    mark: u32,
    further: (u32, u32),
    generation: u32,
    pause: Pause,
    /// How many moments the state says there are; the list may have ended before it.
    count: u32,
    last: u64,
    renewed: u64,
    asked: u64,
    ends: Option<u64>,
    window: VecDeque<u64>,
    window_ends: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pause {
    #[default]
    None,
    Begun,
    Written,
}

impl State {
    /// Runs the function.
    pub(super) fn call(&mut self, incarnation: u64, now: u64, call: &Call) -> Verdict {
        self.expire(now);
        let mut day = u32::try_from(now / MS_PER_DAY).unwrap_or(u32::MAX);
        if self.day == day + 1 {
            day = self.day;
        }
        let is_ours = self.incarnation == Some(incarnation) && self.day == day;
        match *call {
            Call::Look => {
                let known = self.incarnation == Some(incarnation);
                Verdict::Seen(known.then_some((Day(self.day), self.used)))
            }
            Call::Confirm { generation } => {
                if self.generation == generation && self.pause == Pause::Begun {
                    self.pause = Pause::Written;
                }
                Verdict::Done
            }
            Call::Offer { day: offered, from, to } => {
                if offered.0 != day {
                    return Verdict::Late;
                }
                self.asked = 0;
                if is_ours {
                    self.extend(from, to);
                } else {
                    self.incarnation = Some(incarnation);
                    (self.day, self.used, self.mark) = (day, from, to);
                    self.further = (0, 0);
                    self.ends = Some(now + STATE_KEPT_MS);
                }
                Verdict::Done
            }
            Call::Charge { generation, limit } => {
                if generation > self.generation {
                    self.generation = generation;
                    self.pause = Pause::None;
                    self.forget_minute();
                    self.last = 0;
                    self.ends = Some(now + STATE_KEPT_MS);
                }
                self.charge(incarnation, day, now, limit, true)
            }
            Call::ChargeDay { limit } => self.charge(incarnation, day, now, limit, false),
        }
    }

    fn extend(&mut self, from: u32, to: u32) {
        let has_further = self.further.0 != self.further.1;
        if from == to {
            if self.used >= self.mark && !has_further {
                (self.used, self.mark) = (from, to);
            }
        } else if from == self.mark {
            if to == self.further.0 && self.further.0 < self.further.1 {
                (self.mark, self.further) = (self.further.1, (0, 0));
            } else {
                self.mark = to;
            }
        } else if from > self.mark && !has_further {
            self.further = (from, to);
        } else if from == self.further.1 && has_further {
            self.further.1 = to;
        }
    }

    fn charge(&mut self, incarnation: u64, day: u32, now: u64, limit: u32, has_window: bool) -> Verdict {
        let is_ours = self.incarnation == Some(incarnation) && self.day == day;
        let mut is_full = false;
        if has_window {
            if self.count > 0 && (now < self.last || now - self.last >= BURST_WINDOW_MS) {
                self.forget_minute();
            }
            if self.count >= BURST_LIMIT {
                match self.window.front() {
                    Some(oldest) => is_full = now.saturating_sub(*oldest) < BURST_WINDOW_MS,
                    None => self.count = 0,
                }
            }
            if self.pause == Pause::Written || self.pause == Pause::Begun && is_full {
                return Verdict::Paused(self.minute(now));
            }
        }
        if !is_ours {
            self.incarnation = Some(incarnation);
            (self.day, self.used, self.mark) = (day, 0, 0);
            (self.further, self.asked) = ((0, 0), now);
            self.ends = Some(now + STATE_KEPT_MS);
            return Verdict::Reserve(Day(day));
        }
        if self.used >= self.mark && self.used < limit {
            if self.further.0 == self.further.1 {
                if now.checked_sub(self.asked).is_some_and(|since| since < ASK_AGAIN_MS) {
                    return Verdict::Wait;
                }
                self.asked = now;
                return Verdict::Reserve(Day(day));
            }
            (self.used, self.mark) = self.further;
            self.further = (0, 0);
        }
        let is_within = self.used < limit;
        if is_within {
            self.used += 1;
        }
        if is_full {
            self.pause = Pause::Begun;
            return Verdict::Burst(self.minute(now));
        }
        if has_window {
            self.window.push_back(now);
            if self.count >= BURST_LIMIT {
                self.window.pop_front();
            }
            if self.count == 0 || now < self.renewed || now - self.renewed >= WINDOW_RENEWED_MS {
                self.window_ends = Some(now + WINDOW_KEPT_MS);
                self.renewed = now;
            }
            self.pause = Pause::None;
            self.count = (self.count + 1).min(BURST_LIMIT);
            self.last = now;
        }
        let (day, used) = (Day(day), self.used);
        if !is_within {
            return Verdict::UsedUp { day, used };
        }
        let is_low = self.mark < limit
            && self.further.0 == self.further.1
            && self.mark - self.used < RESERVE.max(limit / RESERVE_PART)
            && now.checked_sub(self.asked).is_some_and(|since| since >= ASK_AGAIN_MS);
        if is_low {
            self.asked = now;
        }
        Verdict::Granted { day, used, is_low }
    }

    fn minute(&self, now: u64) -> Minute {
        Minute { generation: self.generation, moment: now, times: self.window.iter().copied().collect() }
    }

    fn forget_minute(&mut self) {
        self.count = 0;
        self.window.clear();
        self.window_ends = None;
    }

    /// What has ended is no more, as engines do it.
    fn expire(&mut self, now: u64) {
        if self.window_ends.is_some_and(|ends| ends <= now) {
            self.window.clear();
            self.window_ends = None;
        }
        if self.ends.is_some_and(|ends| ends <= now) {
            let (window, window_ends) = (std::mem::take(&mut self.window), self.window_ends);
            *self = Self { window, window_ends, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_store::steps::FUNCTION;
    use ipse_testkit::Random;
    use ipse_testkit::{Flavour, Redis};
    use std::fmt::Write;

    /// What an engine says that comes to this verdict.
    fn written(verdict: &Verdict) -> String {
        let minute = |name: &str, minute: &Minute| {
            let mut text = format!("*4\r\n{}:{}\r\n:{}\r\n", bulk(name), minute.generation, minute.moment);
            let _ = write!(text, "*{}\r\n", minute.times.len());
            minute.times.iter().for_each(|time| text.push_str(&bulk(&time.to_string())));
            text
        };
        match verdict {
            Verdict::Granted { day, used, is_low } => {
                format!(":{}\r\n", ((u64::from(day.0) << 32) | u64::from(*used)) * 2 + u64::from(*is_low))
            }
            Verdict::UsedUp { day, used } => format!("*3\r\n{}:{}\r\n:{used}\r\n", bulk("used_up"), day.0),
            Verdict::Reserve(day) => format!("*2\r\n{}:{}\r\n", bulk("reserve"), day.0),
            Verdict::Wait => format!("*1\r\n{}", bulk("wait")),
            Verdict::Done => format!("*1\r\n{}", bulk("done")),
            Verdict::Late => format!("*1\r\n{}", bulk("late")),
            Verdict::Burst(at) => minute("burst", at),
            Verdict::Paused(at) => minute("paused", at),
            Verdict::Stale => "a matter of the engine's own clock".to_owned(),
            Verdict::Seen(_) => "looked at in the store's own tests".to_owned(),
        }
    }

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn words(incarnation: u64, now: u64, call: &Call) -> Vec<String> {
        let (wanted, rest) = match *call {
            Call::Charge { generation, limit } => ("charge", vec![generation, limit]),
            Call::ChargeDay { limit } => ("charge_day", vec![0, limit]),
            Call::Offer { day, from, to } => ("offer", vec![day.0, from, to]),
            Call::Confirm { generation } => ("confirm", vec![generation]),
            Call::Look => ("look", Vec::new()),
        };
        let mut words: Vec<String> =
            ["EVAL", FUNCTION, "2", "{it}", "{it}w", wanted].map(str::to_owned).to_vec();
        words.extend([incarnation.to_string(), now.to_string(), String::new()]);
        words.extend(rest.iter().map(u32::to_string));
        words
    }

    /// As many numbers are in a range at least.
    const FEWEST_GIVEN: u32 = 4;

    /// A call that might come next.
    fn some_call(random: &mut Random, day: u32, mark: &mut u32, generation: u32, limit: u32) -> Call {
        match random.below(100) {
            0..=84 => Call::Charge { generation, limit },
            85..=87 => Call::ChargeDay { limit },
            88 => Call::Confirm { generation },
            89 => Call::Charge { generation: generation + 1, limit },
            _ => {
                // Mostly the next range, and sometimes one that leaves a gap, is late, or empty.
                let from =
                    *mark + u32::try_from(random.below(20) / 19 * u64::from(FEWEST_GIVEN)).unwrap_or(0);
                let to = if random.below(20) == 0 { from } else { from + FEWEST_GIVEN.max(limit / 16) };
                *mark = to;
                let day = if random.below(30) == 0 { day + 1 } else { day };
                Call::Offer { day: Day(day), from, to }
            }
        }
    }

    #[track_caller]
    fn check_against(flavour: Flavour) {
        let engine = Redis::start(flavour).unwrap();
        let mut random = Random::new(7);
        for round in 0..12_u64 {
            engine.say(&["FLUSHALL"]).unwrap();
            let (mut state, mut mark, mut generation) = (State::default(), 0, 0);
            let mut now = 20_000 * MS_PER_DAY + random.below(MS_PER_DAY);
            let pace = *random.pick(&[3, 150, 1_000]);
            let limit = *random.pick(&[60, 700, 3_000]);
            let mut incarnation = round;
            for _ in 0..500 {
                // An engine ends what is over by its own clock, which stands still against ours: so nothing ends here.
                state.ends = None;
                state.window_ends = None;
                now = match random.below(200) {
                    0 => now - random.below(5_000),
                    1 => now + random.below(100_000),
                    2 => now - now % MS_PER_DAY + MS_PER_DAY - 1,
                    _ => now + random.below(pace),
                };
                if random.below(250) == 0 {
                    incarnation += 100;
                }
                let day = u32::try_from(now / MS_PER_DAY).unwrap();
                let call = some_call(&mut random, day, &mut mark, generation, limit);
                if let Call::Charge { generation: newer, .. } = call {
                    generation = newer;
                }
                let words = words(incarnation, now, &call);
                let told = engine.say(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
                let verdict = state.call(incarnation, now, &call);
                assert_eq!(told, written(&verdict), "round {round}: {call:?} at {now}");
            }
        }
    }

    #[test]
    fn the_twin_says_what_redis_says() {
        check_against(Flavour::Redis);
    }

    #[test]
    fn the_twin_says_what_valkey_says() {
        check_against(Flavour::Valkey);
    }
}
