//! Which address is answered by what.

use crate::lookup::{AtOnce, Foreseen, Lookup, Outcome, granted, json};
use crate::meta::Meta;
use crate::openapi;
use crate::reply::Replies;
use crate::requests::{ApiOutcome, ApiRoute, Requests};
use bytes::Bytes;
use http::{Method, Version};
use ipse_edge::{Ask, Draft, Prompt, Reply, Said, Stopwatch, Visit};
use ipse_model::{Links, Now};
use ipse_store::{Asked, Counters, Error, KeyCharge, Unwritten};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

const LOOKUP: &str = "/api/v1/ip";
const DEMO: &str = "/api/v1/ip/demo";
const META: &str = "/api/v1/meta";
const OPENAPI: &str = "/openapi.json";

/// So many charges in a row must fail before the next one is taken to fail as well: one may need what others do not.
const FAILS_AFTER: u32 = 5;
/// How long a failure says something about the next request.
const FAILS_FOR_MS: i64 = 10_000;

/// Everything under `/api`, and the description of it.
pub struct Api<C> {
    lookup: Lookup<C>,
    replies: Replies,
    openapi: Bytes,
    /// How many charges in a row failed. Only the first of them is logged, so that a lasting failure fills no log.
    failures: AtomicU32,
    /// When a charge last failed, by the wall clock.
    failed_ms: AtomicI64,
    requests: Arc<Requests>,
}

impl<C: Counters> Api<C> {
    /// An API that names these addresses.
    #[must_use]
    pub fn new(lookup: Lookup<C>, links: &Links) -> Self {
        let replies = Replies::new(links.clone());
        let openapi = openapi::document(&links.base_url, &replies).into();
        Self {
            lookup,
            replies,
            openapi,
            failures: AtomicU32::new(0),
            failed_ms: AtomicI64::new(0),
            requests: Arc::default(),
        }
    }

    /// Whether an address belongs to the API.
    #[must_use]
    pub fn owns(path: &str) -> bool {
        path == OPENAPI || path == "/api" || path.starts_with("/api/")
    }

    /// What was asked so far.
    #[must_use]
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Whether the last lookups could not be charged, a short while ago. Who has seen none for longer does not know any more: a
    /// balancer that sends nobody because of this must send somebody for it to end.
    #[must_use]
    pub fn is_failing(&self, now: Now) -> bool {
        let since = now.unix_ms.saturating_sub(self.failed_ms.load(Ordering::Relaxed));
        self.failures.load(Ordering::Relaxed) >= FAILS_AFTER && since < FAILS_FOR_MS
    }

    /// The reply to a visit of an address that the API owns.
    pub async fn answer(&self, visit: &Visit) -> Reply {
        let method = &visit.request.method;
        let (route, (outcome, reply)) = match visit.request.uri.path() {
            LOOKUP => (
                ApiRoute::Lookup,
                match *method {
                    // HEAD is GET without the body, which the edge leaves out.
                    Method::GET | Method::HEAD => self.reply(self.lookup.keyed(visit).await, visit.now),
                    _ => self.without_answer(method, "GET, HEAD, OPTIONS"),
                },
            ),
            DEMO => (
                ApiRoute::Demo,
                match *method {
                    Method::GET | Method::HEAD => self.reply(self.lookup.demo(visit).await, visit.now),
                    _ => self.without_answer(method, "GET, HEAD, OPTIONS"),
                },
            ),
            META => (
                ApiRoute::Meta,
                match *method {
                    Method::GET | Method::HEAD => {
                        let meta = json(&Meta::of(&self.lookup.atlas.load())).into();
                        (ApiOutcome::Answered, Replies::document(meta))
                    }
                    _ => self.without_answer(method, "GET, HEAD, OPTIONS"),
                },
            ),
            OPENAPI => (
                ApiRoute::Description,
                match *method {
                    Method::GET | Method::HEAD => {
                        (ApiOutcome::Answered, Replies::document(self.openapi.clone()))
                    }
                    _ => self.without_answer(method, "GET, HEAD"),
                },
            ),
            _ => (ApiRoute::Unknown, (ApiOutcome::NotFound, self.replies.not_found())),
        };
        self.requests.note(route, outcome, visit.request.version, visit.stopwatch.elapsed_ns());
        reply
    }

    /// What is said where nothing is looked up: to a preflight, if the route takes any, or that this is no way to ask.
    fn without_answer(&self, method: &Method, allow: &'static str) -> (ApiOutcome, Reply) {
        if *method == Method::OPTIONS && allow.ends_with("OPTIONS") {
            (ApiOutcome::Preflight, Replies::preflight())
        } else {
            (ApiOutcome::MethodNotAllowed, self.replies.method_not_allowed(allow))
        }
    }

    fn reply(&self, outcome: Result<Outcome, Error>, now: Now) -> (ApiOutcome, Reply) {
        match outcome {
            Ok(outcome) => {
                self.charged();
                (ApiOutcome::from(&outcome), self.replies.outcome(outcome))
            }
            Err(error) => {
                self.not_charged(&error, now);
                (ApiOutcome::Error, self.replies.internal_error())
            }
        }
    }

    fn charged(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 && self.failures.swap(0, Ordering::Relaxed) > 0 {
            tracing::info!("requests are charged again");
        }
    }

    fn not_charged(&self, error: &Error, now: Now) {
        self.failed_ms.store(now.unix_ms, Ordering::Relaxed);
        if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
            let transient = error.transient();
            tracing::error!(error = %error, transient, "requests cannot be charged and are answered with 500");
        }
    }
}

/// What is known of a request before it is decided.
fn foreseen_of(ask: &Ask<'_>) -> Foreseen {
    match path_and_query(ask.target) {
        (path, query) if path == LOOKUP.as_bytes() => Foreseen::keyed(ask, query),
        _ => Foreseen::without_key(ask),
    }
}

fn path_and_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(end) => (&target[..end], Some(&target[end + 1..])),
        None => (target, None),
    }
}

/// What was decided in one turn, and what is still to be.
#[derive(Default)]
pub struct Turn {
    foreseen: Vec<Foreseen>,
    unwritten: Unwritten,
    /// What is answered when all of it is written, and how many one behind the other are alike.
    answered: Vec<(Answered, u64)>,
    pending: Vec<(Asked, Stopwatch)>,
}

/// A request that is answered.
#[derive(PartialEq)]
struct Answered {
    route: ApiRoute,
    version: Version,
    stopwatch: Stopwatch,
}

impl Turn {
    /// Notes a request that is answered. Most of a turn began together.
    fn note(&mut self, answered: Answered) {
        match self.answered.last_mut() {
            Some((alike, count)) if *alike == answered => *count += 1,
            _ => self.answered.push((answered, 1)),
        }
    }
}

/// What was decided about a request.
pub struct Verdict {
    asked: Asked,
    stopwatch: Stopwatch,
    charged: Result<KeyCharge, Error>,
}

impl<C: Counters> Prompt for Api<C> {
    type Turn = Turn;
    type Verdict = Verdict;

    fn answers_at_once(&self) -> bool {
        !self.lookup.counters.asks_elsewhere()
    }

    fn foresee<'a>(&self, asks: impl Iterator<Item = Ask<'a>>, turn: &mut Turn) {
        turn.foreseen.clear();
        turn.foreseen.extend(asks.map(|ask| foreseen_of(&ask)));
        self.lookup.foresee(&mut turn.foreseen);
    }

    /// Lookups that are answered, or may be; whatever else comes of them is told the other way.
    fn answer(&self, ask: &Ask<'_>, turn: &mut Turn, draft: &mut Draft) -> Said {
        let (path, query) = path_and_query(ask.target);
        let (unwritten, body) = (&mut turn.unwritten, &mut draft.body);
        let (route, done) = if path == LOOKUP.as_bytes() {
            let foreseen = ask.foreseen.and_then(|number| turn.foreseen.get(number).copied());
            let foreseen = foreseen.unwrap_or_else(|| foreseen_of(ask));
            (ApiRoute::Lookup, self.lookup.keyed_at_once(ask, query, foreseen, unwritten, body))
        } else if path == DEMO.as_bytes() {
            (ApiRoute::Demo, self.lookup.demo_at_once(ask, unwritten, body))
        } else {
            return Said::Nothing;
        };
        match done {
            None => Said::Nothing,
            Some(AtOnce::Asked(asked)) => {
                turn.pending.push((asked, ask.stopwatch.clone()));
                Said::Body
            }
            Some(AtOnce::Granted(allowance)) => {
                self.replies.write_answered(allowance, &mut draft.head);
                turn.note(Answered { route, version: ask.version, stopwatch: ask.stopwatch.clone() });
                Said::Answer
            }
        }
    }

    fn keep(&self, turn: &mut Turn, now: Now) -> Result<(), Box<Reply>> {
        if turn.unwritten.is_empty() {
            return Ok(());
        }
        let (outcome, kept) = match self.lookup.counters.write(&mut turn.unwritten) {
            Ok(()) => {
                self.charged();
                (ApiOutcome::Answered, Ok(()))
            }
            Err(error) => {
                self.not_charged(&error, now);
                (ApiOutcome::Error, Err(Box::new(self.replies.internal_error())))
            }
        };
        if let Some((last, _)) = turn.answered.last() {
            // All of them end together.
            let end = last.stopwatch.reading();
            for (Answered { route, version, stopwatch }, count) in turn.answered.drain(..) {
                self.requests.note_alike(count, route, outcome, version, stopwatch.until(end));
            }
        }
        kept
    }

    fn decide(&self, turn: &mut Turn) -> impl Future<Output = Vec<Verdict>> + Send + 'static {
        let (counters, pending) = (Arc::clone(&self.lookup.counters), std::mem::take(&mut turn.pending));
        async move {
            let asked = pending.iter().map(|(asked, _)| *asked).collect();
            let charged = counters.charge_all(asked).await;
            let verdict = |((asked, stopwatch), charged)| Verdict { asked, stopwatch, charged };
            pending.into_iter().zip(charged).map(verdict).collect()
        }
    }

    fn conclude(&self, verdict: Verdict, head: &mut Vec<u8>) -> Result<(), Box<Reply>> {
        let Verdict { asked: Asked { key, now }, stopwatch, charged } = verdict;
        let route = if key.is_some() { ApiRoute::Lookup } else { ApiRoute::Demo };
        let otherwise = |outcome| {
            let (outcome, reply) = self.reply(outcome, now);
            (outcome, Err(Box::new(reply)))
        };
        let (outcome, concluded) = match charged.map(|charge| granted(key.as_ref(), charge, now)) {
            Ok(Ok(allowance)) => {
                self.charged();
                self.replies.write_answered(allowance, head);
                (ApiOutcome::Answered, Ok(()))
            }
            Ok(Err(refusal)) => otherwise(Ok(Outcome::Refused(refusal))),
            Err(error) => otherwise(Err(error)),
        };
        self.requests.note(route, outcome, Version::HTTP_11, stopwatch.elapsed_ns());
        concluded
    }
}
