//! The sliding window against counting by hand: the same moments go to the product's rules and to a model that
//! keeps every moment and counts them all, each time.

use crate::campaign::Options;
use anyhow::{Result, ensure};
use ipse_model::{BURST_LIMIT, BURST_WINDOW_MS, Charge, Day, DayAllowance, Meter, Now, Window};
use ipse_testkit::Random;

const MS_PER_DAY: i64 = 86_400_000;
/// A run ends after this many steps at most, because the model looks at all of them in each.
const LONGEST_RUN: u64 = 3_000;

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let (mut steps, mut runs) = (0, 0);
    let mut seen = Seen::default();
    let mut differences = Vec::new();
    while steps < options.count {
        let length = (1 + random.below(LONGEST_RUN)).min(options.count - steps);
        run(&mut random, runs, length, &mut seen, &mut differences);
        steps += length;
        runs += 1;
    }
    let Seen { admitted, refused, cleared, taken_back, used_up } = seen;
    let figure = format!(
        "{steps} steps in {runs} runs ({admitted} admitted, {refused} refused, {used_up} over the day, {taken_back} \
         taken back, {cleared} resumes), {} differences",
        differences.len()
    );
    let first = differences.first().map(String::as_str).unwrap_or_default();
    ensure!(differences.is_empty(), "{figure}; the first: {first}");
    // A campaign that never reached an edge has shown nothing.
    let reached = admitted > 0 && (options.count < 50_000 || (refused > 0 && cleared > 0 && used_up > 0));
    ensure!(reached, "the steps reached no limit: {figure}");
    Ok(figure)
}

/// What the steps came to.
#[derive(Default)]
struct Seen {
    admitted: u64,
    refused: u64,
    used_up: u64,
    taken_back: u64,
    cleared: u64,
}

/// How the moments of one run follow each other.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Nearly all in the same millisecond.
    Standing,
    /// Bursts of about the limit, apart by about the window: every edge of 60,000 ms.
    Edges,
    /// About as many as are allowed.
    Trickle,
    /// Several times as many as are allowed.
    Rush,
    /// Long silences between a few requests.
    Idle,
    /// Each step chooses anew.
    Mixed,
}

const PACES: [Pace; 6] = [Pace::Standing, Pace::Edges, Pace::Trickle, Pace::Rush, Pace::Idle, Pace::Mixed];

fn run(random: &mut Random, number: u64, length: u64, seen: &mut Seen, differences: &mut Vec<String>) {
    let pace = *random.pick(&PACES);
    let daily_limit = *random.pick(&[1, 250, 299, 300, 301, 10_000, u32::MAX]);
    // Threads that bring their moments out of order.
    let disordered = random.below(2) == 0;
    // How many requests a paused key makes before its owner resumes it.
    let patience = *random.pick(&[1, 8, 64, 1_000]);
    let begin = *random.pick(&[0, 1, BURST_WINDOW_MS - 1, BURST_WINDOW_MS, 86_400_000, u64::from(u32::MAX)]);
    let mut clock = Now { unix_ms: moment_of_day(random), boot_ms: begin };
    let mut window = Window::default();
    let mut meter = Meter::new(clock.day(), 0, Window::default());
    let mut model = Model { times: Vec::new(), day: clock.day(), used: 0 };
    for step in 0..length {
        let before = clock.boot_ms;
        advance(random, pace, &mut clock);
        // The fold gives memory back, maybe just before a request that read the clock earlier.
        let idle = clock.boot_ms - before >= BURST_WINDOW_MS;
        if random.below(if idle { 2 } else { 16 }) == 0 {
            let held = window.shrink(clock.boot_ms);
            meter.window_mut().shrink(clock.boot_ms);
            if !held && model.within(clock.boot_ms) > 0 {
                differences.push(format!("run {number} ({pace:?}), step {step}: a window in use was freed"));
            }
        }
        let moment = if disordered && random.below(3) == 0 {
            Now { boot_ms: clock.boot_ms.saturating_sub(random.below(20)), ..clock }
        } else {
            clock
        };
        // What a charge is taken back to is the count after the day has turned.
        let used_before = if moment.day() > model.day { 0 } else { model.used };
        let expected = model.charge(moment, daily_limit);
        let admitted = expected != Charge::BurstExceeded;
        let (found, found_admitted) = (meter.charge_key(moment, daily_limit), window.admit(moment.boot_ms));
        if found != expected || found_admitted != admitted {
            differences.push(format!(
                "run {number} ({pace:?}), step {step}, {moment:?}, limit {daily_limit}: expected {expected:?}, the \
                 meter said {found:?} and the window {found_admitted}"
            ));
        }
        match expected {
            Charge::Granted(_) => seen.admitted += 1,
            Charge::DayUsedUp(_) => seen.used_up += 1,
            Charge::BurstExceeded => seen.refused += 1,
        }
        match random.below(64) {
            // The journal could not be written.
            0 if admitted => {
                model.take_back(used_before);
                meter.take_back(used_before, true);
                // The bare window has no such operation, so it begins again from what the meter holds.
                window = meter.window().clone();
                seen.taken_back += 1;
            }
            // A paused key stays paused until it is resumed.
            1..64 if !admitted && random.below(patience) == 0 => {
                model.times.clear();
                window.clear();
                meter.window_mut().clear();
                seen.cleared += 1;
            }
            _ => {}
        }
    }
}

fn advance(random: &mut Random, pace: Pace, clock: &mut Now) {
    let step_ms = match pace {
        Pace::Standing => u64::from(random.below(100) == 0),
        Pace::Edges => match random.below(400) {
            0 => BURST_WINDOW_MS - 1,
            1 => BURST_WINDOW_MS,
            2 => BURST_WINDOW_MS + 1,
            3 => BURST_WINDOW_MS / 2,
            4 => 1,
            _ => 0,
        },
        // 200 ms apart is exactly the limit.
        Pace::Trickle => *random.pick(&[190, 195, 199, 200, 200, 201, 205]),
        Pace::Rush => random.below(100),
        Pace::Idle => {
            if random.below(20) == 0 {
                random.below(100 * BURST_WINDOW_MS)
            } else {
                random.below(1_000)
            }
        }
        Pace::Mixed => {
            let pace = *random.pick(&PACES[..PACES.len() - 1]);
            return advance(random, pace, clock);
        }
    };
    clock.boot_ms += step_ms;
    clock.unix_ms += i64::try_from(step_ms).unwrap_or_default();
    // The wall clock may be set, or stand; the window must not notice.
    match random.below(2_000) {
        0 => clock.unix_ms += MS_PER_DAY,
        1 => clock.unix_ms -= MS_PER_DAY,
        2 => clock.unix_ms += MS_PER_DAY * 3,
        _ => {}
    }
}

/// The rules as they are told, with no thought of speed.
struct Model {
    /// Every request that was within the limit since the last resume.
    times: Vec<u64>,
    day: Day,
    used: u32,
}

impl Model {
    fn charge(&mut self, now: Now, daily_limit: u32) -> Charge {
        // The window only moves forward.
        let moment = self.times.last().map_or(now.boot_ms, |last| now.boot_ms.max(*last));
        let admitted = self.within(moment) < BURST_LIMIT as usize;
        if admitted {
            self.times.push(moment);
        }
        if now.day() > self.day {
            self.day = now.day();
            self.used = 0;
        }
        let granted = self.used < daily_limit;
        self.used += u32::from(granted);
        let allowance =
            DayAllowance { limit: daily_limit, remaining: daily_limit - self.used, day: self.day };
        match (admitted, granted) {
            (false, _) => Charge::BurstExceeded,
            (true, true) => Charge::Granted(allowance),
            (true, false) => Charge::DayUsedUp(allowance),
        }
    }

    /// How many of the requests are younger than a minute.
    fn within(&self, moment: u64) -> usize {
        self.times.iter().filter(|time| moment.saturating_sub(**time) < BURST_WINDOW_MS).count()
    }

    fn take_back(&mut self, used_before: u32) {
        self.times.pop();
        self.used = used_before;
    }
}

/// Some moment of some day in this century.
fn moment_of_day(random: &mut Random) -> i64 {
    let day = i64::try_from(20_000 + random.below(10_000)).unwrap_or_default();
    let within = *random.pick(&[0, 1, MS_PER_DAY / 2, MS_PER_DAY - 60_000, MS_PER_DAY - 2, MS_PER_DAY - 1]);
    day * MS_PER_DAY + within
}
