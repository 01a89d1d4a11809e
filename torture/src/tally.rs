//! What clients have seen of one key or of the demo, and what every further answer must therefore say.
//!
//! A request counts as charged for certain once its 200 was received, and as perhaps charged while its answer has not
//! come or never will. Every check is conservative in that sense: what it reports cannot be explained by timing.

use anyhow::{Context, Result, ensure};
use ipse_testkit::Response;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BURST_LIMIT: usize = 300;
/// The server counts in whole milliseconds, so two of its moments may lie up to one closer than they seem to it.
const BURST_WINDOW: Duration = Duration::from_millis(59_998);
/// A request whose answer was lost may have caused a pause that is only noticed after a restart.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
const STEADY_REQUESTS: usize = 280;
const STEADY_GAP: Duration = Duration::from_millis(230);

/// The record of one subject.
pub(crate) struct Tally {
    /// The key's text; the demo has none.
    pub(crate) key: Option<String>,
    limit: i64,
    /// Whether its requests are paced so that it may never be paused.
    steady: bool,
    /// How much one fault may withhold.
    allowance: i64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    days: BTreeMap<i64, Day>,
    /// The present day, named by its end as `X-RateLimit-Reset` does.
    day: i64,
    /// The count that the server told last.
    known: i64,
    /// Answers since then.
    answered: i64,
    /// Requests since then that may have been charged although no answer says so.
    unsure: i64,
    /// Faults since then.
    faults: i64,
    /// Since when clients know of the pause.
    paused: Option<Duration>,
    /// Since when the server's burst window exists: it does not outlive a boot.
    window_since: Duration,
    requests: VecDeque<Request>,
    next_ticket: u64,
}

#[derive(Default)]
struct Day {
    answers: i64,
    /// The values of `X-RateLimit-Remaining` that were given out.
    remaining: HashSet<i64>,
}

struct Request {
    ticket: u64,
    sent: Duration,
    /// When it was over, with an answer or without one.
    over: Option<Duration>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Answered,
    Refused,
}

/// A request that was begun and must be ended.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    number: u64,
    sent: Duration,
}

/// How a count stood after a fault, beside what clients knew before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gap {
    /// Requests counted beyond the answers received.
    pub(crate) beyond_answers: i64,
    /// Requests of unknown outcome, which explain as many of them.
    pub(crate) in_flight: i64,
}

impl Tally {
    pub(crate) fn new(key: Option<String>, limit: u32, allowance: i64) -> Self {
        Self { key, limit: limit.into(), steady: false, allowance, state: Mutex::default() }
    }

    /// The same, but with requests so far apart that they never add up to a burst.
    pub(crate) fn steady(self) -> Self {
        Self { steady: true, ..self }
    }

    pub(crate) fn target(&self) -> &'static str {
        if self.key.is_some() { "/api/v1/ip?scope=ip" } else { "/api/v1/ip/demo" }
    }

    /// To be called before a request is sent. `None` if the pace forbids it.
    pub(crate) fn begin(&self, now: Duration) -> Option<Ticket> {
        let mut state = self.lock();
        let horizon = BURST_WINDOW + NOTICED_WITHIN;
        let old = |request: &Request| request.over.is_some_and(|over| over + horizon < now);
        while state.requests.front().is_some_and(old) {
            state.requests.pop_front();
        }
        let too_early = |last: &Request| now.saturating_sub(last.sent) < STEADY_GAP;
        if self.steady
            && (state.requests.len() >= STEADY_REQUESTS || state.requests.back().is_some_and(too_early))
        {
            return None;
        }
        let number = state.next_ticket;
        state.next_ticket += 1;
        state.requests.push_back(Request {
            ticket: number,
            sent: now,
            over: None,
            outcome: Outcome::Unknown,
        });
        Some(Ticket { number, sent: now })
    }

    /// The server died before the answer came.
    pub(crate) fn unanswered(&self, ticket: Ticket, now: Duration) {
        let mut state = self.lock();
        state.end(ticket, now, Outcome::Unknown);
        state.unsure += 1;
    }

    /// An answer came: checks it and notes what it says.
    pub(crate) fn answered(&self, ticket: Ticket, now: Duration, response: &Response) -> Result<()> {
        let mut state = self.lock();
        self.note(&mut state, ticket, now, response).with_context(|| self.name())
    }

    /// The first answer after a restart, while nothing else is asked: checks the count and makes it the known one.
    /// Says how it stood if that can be told, which is so when one fault has passed since the last time.
    pub(crate) fn probed(&self, ticket: Ticket, now: Duration, response: &Response) -> Result<Option<Gap>> {
        let mut state = self.lock();
        let mut gap = None;
        if !self.is_burst(response)? && matches!(response.status, 200 | 429) {
            state.turn_to(response.number("x-ratelimit-reset")?);
            let charged = i64::from(response.status == 200);
            let count = self.limit - response.number("x-ratelimit-remaining")? - charged;
            gap = self.settle(&mut state, count).with_context(|| self.name())?;
        }
        self.note(&mut state, ticket, now, response).with_context(|| self.name())?;
        Ok(gap)
    }

    /// The server, or the machine with it, was lost. Nothing may be under way.
    pub(crate) fn fault(&self, now: Duration, machine: bool) {
        let mut state = self.lock();
        state.faults += 1;
        if machine {
            state.window_since = now;
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.lock().paused.is_some()
    }

    /// A fault begins, while requests are under way. Until it is [over](Tally::calm), minutes are not what they seem.
    pub(crate) fn trouble(&self) {
        let mut state = self.lock();
        state.faults += 1;
        state.window_since = Duration::MAX;
    }

    /// The fault is over, and what it cost the server of the last minute is lost.
    pub(crate) fn calm(&self, now: Duration) {
        self.lock().window_since = now;
    }

    /// The answer told once more of a pause that is over, because the news has not come there yet. Nothing was charged.
    pub(crate) fn still_paused(&self, ticket: Ticket) {
        self.lock().requests.retain(|request| request.ticket != ticket.number);
    }

    /// The key was resumed while nothing was under way. What was not answered may still be charged, to the fresh minute.
    pub(crate) fn resumed_amid_faults(&self) {
        let mut state = self.lock();
        state.paused = None;
        state.requests.retain(|request| request.outcome == Outcome::Unknown);
    }

    /// The key was resumed while nothing was under way: it has a fresh minute.
    pub(crate) fn resumed(&self) {
        let mut state = self.lock();
        state.paused = None;
        state.requests.clear();
    }

    /// All answers received.
    pub(crate) fn answers(&self) -> i64 {
        self.lock().days.values().map(|day| day.answers).sum()
    }

    fn settle(&self, state: &mut State, count: i64) -> Result<Option<Gap>> {
        let State { known, answered, unsure, faults, .. } = *state;
        let seen = known + answered;
        ensure!(count >= seen, "counts lost: the server counts {count}, clients received {seen} answers");
        let explained = seen + unsure + self.allowance * faults;
        ensure!(
            count <= explained,
            "too much withheld: the server counts {count}; {seen} answers received and {unsure} requests of unknown \
             outcome explain at most {explained} after {faults} faults"
        );
        (state.known, state.answered, state.unsure, state.faults) = (count, 0, 0, 0);
        Ok((faults == 1).then_some(Gap { beyond_answers: count - seen, in_flight: unsure }))
    }

    fn note(&self, state: &mut State, ticket: Ticket, now: Duration, response: &Response) -> Result<()> {
        match response.status {
            200 => {
                state.end(ticket, now, Outcome::Answered);
                self.granted(state, ticket, now, response)
            }
            429 if self.is_burst(response)? => {
                state.end(ticket, now, Outcome::Refused);
                if state.paused.is_none() {
                    state.check_pause(ticket)?;
                    state.paused = Some(now);
                    // The request that caused the pause was charged, and is one of those refused.
                    state.unsure += 1;
                }
                Ok(())
            }
            429 => {
                state.end(ticket, now, Outcome::Refused);
                self.day_used_up(state, response)
            }
            status => anyhow::bail!("answered {status}: {}", response.body),
        }
    }

    fn granted(&self, state: &mut State, ticket: Ticket, now: Duration, response: &Response) -> Result<()> {
        let limit = response.number("x-ratelimit-limit")?;
        ensure!(limit == self.limit, "X-RateLimit-Limit is {limit}");
        let reset = response.number("x-ratelimit-reset")?;
        let remaining = response.number("x-ratelimit-remaining")?;
        state.turn_to(reset);
        if reset == state.day {
            state.answered += 1;
        }
        let day = state.days.entry(reset).or_default();
        day.answers += 1;
        ensure!(day.answers <= self.limit, "served beyond the limit: {} answers on one day", day.answers);
        ensure!(
            day.remaining.insert(remaining),
            "counts lost: X-RateLimit-Remaining was {remaining} twice on one day"
        );
        if let Some(paused) = state.paused {
            ensure!(ticket.sent <= paused, "answered although it was paused and nobody resumed it");
        }
        if self.key.is_some() {
            state.check_burst(now)?;
        }
        Ok(())
    }

    fn day_used_up(&self, state: &mut State, response: &Response) -> Result<()> {
        let remaining = response.number("x-ratelimit-remaining")?;
        ensure!(remaining == 0, "refused for the day with {remaining} remaining");
        state.turn_to(response.number("x-ratelimit-reset")?);
        let under_way = state.requests.iter().filter(|request| request.over.is_none()).count();
        let most = state.known + state.answered + state.unsure + self.allowance * state.faults;
        let most = most + i64::try_from(under_way)?;
        ensure!(most >= self.limit, "refused for the day after at most {most} charges");
        Ok(())
    }

    /// Whether this is the 429 of a burst or of a paused key; no key here has the burst limit as its daily one.
    pub(crate) fn is_burst(&self, response: &Response) -> Result<bool> {
        Ok(self.key.is_some() && response.status == 429 && response.number("x-ratelimit-limit")? == 300)
    }

    fn name(&self) -> String {
        let limit = self.limit;
        if self.key.is_some() { format!("a key with the daily limit {limit}") } else { "the demo".to_owned() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&mut self, ticket: Ticket, now: Duration, outcome: Outcome) {
        if let Some(request) = self.requests.iter_mut().rfind(|request| request.ticket == ticket.number) {
            request.over = Some(now);
            request.outcome = outcome;
        }
    }

    /// Turns to a later day. What is unsure may belong to either.
    fn turn_to(&mut self, day: i64) {
        if day > self.day {
            (self.day, self.known, self.answered) = (day, 0, 0);
        }
    }

    /// No more answers within a minute than the burst limit, counting only requests that lie in it whole.
    fn check_burst(&self, now: Duration) -> Result<()> {
        let begin = now.saturating_sub(BURST_WINDOW).max(self.window_since);
        let within = |request: &&Request| request.outcome == Outcome::Answered && request.sent > begin;
        let answers = self.requests.iter().filter(within).count();
        ensure!(answers <= BURST_LIMIT, "served beyond the burst limit: {answers} answers within a minute");
        Ok(())
    }

    /// A pause needs as many requests before it as the burst limit, counting all that may lie in its minute.
    fn check_pause(&self, ticket: Ticket) -> Result<()> {
        let begin = ticket.sent.saturating_sub(BURST_WINDOW + NOTICED_WITHIN);
        let may_count = |request: &&Request| {
            request.ticket != ticket.number && request.over.is_none_or(|over| over >= begin)
        };
        let requests = self.requests.iter().filter(may_count).count();
        ensure!(requests >= BURST_LIMIT, "paused after at most {requests} requests in a minute");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, limit: i64, remaining: i64) -> Response {
        let header = |name: &str, value: i64| (name.to_owned(), value.to_string());
        let headers = vec![
            header("x-ratelimit-limit", limit),
            header("x-ratelimit-remaining", remaining),
            header("x-ratelimit-reset", 86_400),
        ];
        Response { status, headers, body: String::new() }
    }

    fn key(allowance: i64) -> Tally {
        Tally::new(Some("key".to_owned()), 1_000, allowance)
    }

    /// Asks at a second and is told what remains; returns what is wrong with that.
    fn ask(tally: &Tally, second: u64, remaining: i64) -> Option<String> {
        let now = Duration::from_secs(second);
        let ticket = tally.begin(now).unwrap();
        let checked = tally.answered(ticket, now, &response(200, 1_000, remaining));
        checked.err().map(|error| format!("{error:#}"))
    }

    #[track_caller]
    fn check_after_a_fault(allowance: i64, unanswered: u64, remaining: i64, expected: &str) {
        let tally = key(allowance);
        for used in 1..=10 {
            assert_eq!(ask(&tally, 0, 1_000 - used), None);
        }
        for _ in 0..unanswered {
            tally.unanswered(tally.begin(Duration::ZERO).unwrap(), Duration::ZERO);
        }
        tally.fault(Duration::ZERO, false);
        let ticket = tally.begin(Duration::ZERO).unwrap();
        let told = match tally.probed(ticket, Duration::ZERO, &response(200, 1_000, remaining)) {
            Ok(gap) => format!("{} beyond", gap.unwrap().beyond_answers),
            Err(error) => format!("{error:#}"),
        };
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn a_count_is_explained_by_answers_requests_in_flight_and_the_allowance() {
        check_after_a_fault(0, 0, 989, "0 beyond");
        check_after_a_fault(0, 0, 990, "counts lost");
        check_after_a_fault(0, 0, 988, "too much withheld");
        check_after_a_fault(0, 1, 988, "1 beyond");
        check_after_a_fault(64, 1, 924, "65 beyond");
        check_after_a_fault(64, 1, 923, "too much withheld");
    }

    #[test]
    fn a_number_of_the_day_is_given_out_once() {
        let tally = key(0);
        assert_eq!(ask(&tally, 0, 999), None);
        assert!(ask(&tally, 0, 999).is_some_and(|error| error.contains("twice on one day")));
    }

    #[test]
    fn more_than_a_burst_within_a_minute_is_noticed() {
        let tally = key(0);
        for used in 1..=300 {
            assert_eq!(ask(&tally, 1, 1_000 - used), None);
        }
        assert!(ask(&tally, 60, 699).is_some_and(|error| error.contains("beyond the burst limit")));
        assert_eq!(ask(&tally, 61, 698), None);
    }

    #[test]
    fn a_pause_needs_a_burst_and_lasts_until_it_is_resumed() {
        let tally = key(0);
        let pause = |second| {
            let now = Duration::from_secs(second);
            tally.answered(tally.begin(now).unwrap(), now, &response(429, 300, 0))
        };
        for used in 1..=299 {
            assert_eq!(ask(&tally, 1, 1_000 - used), None);
        }
        assert!(pause(2).is_err_and(|error| format!("{error:#}").contains("paused after at most 299")));
        assert_eq!(ask(&tally, 2, 700), None);
        pause(3).unwrap();
        assert!(ask(&tally, 70, 699).is_some_and(|error| error.contains("although it was paused")));
        tally.resumed();
        assert_eq!(ask(&tally, 70, 698), None);
    }
}
