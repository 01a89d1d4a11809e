//! What was asked of the API and what came of it, in numbers: by route, outcome and protocol, and how long it took.
//!
//! A lookup pays a reading of the clock and three additions for this, and nothing else. Whoever shows the numbers reads
//! them from here; nothing here knows who asked.

use crate::lookup::Outcome;
use http::Version;
use ipse_model::{Counts, DURATION_BUCKETS, Durations, Refusal, duration_bucket};

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiRoute {
    /// `/api/v1/ip`.
    Lookup,
    /// `/api/v1/ip/demo`.
    Demo,
    /// `/api/v1/meta`.
    Meta,
    /// `/openapi.json`.
    Description,
    /// Any other path under `/api`.
    Unknown,
}

impl ApiRoute {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lookup, Self::Demo, Self::Meta, Self::Description, Self::Unknown];

    /// Its name in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Lookup => "ip",
            Self::Demo => "demo",
            Self::Meta => "meta",
            Self::Description => "openapi",
            Self::Unknown => "unknown",
        }
    }

    /// What can come of asking for it.
    #[must_use]
    pub fn outcomes(self) -> &'static [ApiOutcome] {
        use ApiOutcome::{
            Answered, BurstExceeded, DayUsedUp, Error, InactiveKey, InvalidKey, MethodNotAllowed, MissingKey,
            NotFound, Paused, Preflight,
        };
        match self {
            Self::Lookup => &[
                Answered,
                MissingKey,
                InvalidKey,
                InactiveKey,
                Paused,
                BurstExceeded,
                DayUsedUp,
                Error,
                Preflight,
                MethodNotAllowed,
            ],
            Self::Demo => &[Answered, DayUsedUp, Error, Preflight, MethodNotAllowed],
            Self::Meta => &[Answered, Preflight, MethodNotAllowed],
            Self::Description => &[Answered, MethodNotAllowed],
            Self::Unknown => &[NotFound],
        }
    }
}

/// What can come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiOutcome {
    /// It was answered.
    Answered,
    /// No key came with it.
    MissingKey,
    /// Its key does not exist.
    InvalidKey,
    /// Its key is switched off.
    InactiveKey,
    /// Its key was paused before.
    Paused,
    /// It was one too many within a minute, and paused its key.
    BurstExceeded,
    /// The day of its key, or of the demo, is used up.
    DayUsedUp,
    /// It could not be charged: something of ours is broken.
    Error,
    /// A browser asked whether it may ask.
    Preflight,
    /// The route knows no such method.
    MethodNotAllowed,
    /// There is no such route.
    NotFound,
}

impl ApiOutcome {
    const COUNT: usize = 11;

    /// Its name in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::MissingKey => "missing_key",
            Self::InvalidKey => "invalid_key",
            Self::InactiveKey => "inactive_key",
            Self::Paused => "paused",
            Self::BurstExceeded => "burst_exceeded",
            Self::DayUsedUp => "day_used_up",
            Self::Error => "error",
            Self::Preflight => "preflight",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::NotFound => "not_found",
        }
    }
}

impl From<&Outcome> for ApiOutcome {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered(..) => Self::Answered,
            Outcome::Refused(Refusal::MissingKey) => Self::MissingKey,
            Outcome::Refused(Refusal::InvalidKey) => Self::InvalidKey,
            Outcome::Refused(Refusal::InactiveKey) => Self::InactiveKey,
            Outcome::Refused(Refusal::Paused(_)) => Self::Paused,
            Outcome::Refused(Refusal::BurstExceeded(_)) => Self::BurstExceeded,
            Outcome::Refused(Refusal::DayUsedUp(..) | Refusal::DemoUsedUp(..)) => Self::DayUsedUp,
        }
    }
}

/// All counts of one API.
#[derive(Debug, Default)]
pub struct Requests(Counts<{ TIMES + ApiRoute::ALL.len() * TIMES_OF_ROUTE }>);

/// Behind the counts of requests, the buckets of each route and the sum of its times.
const TIMES: usize = ApiRoute::ALL.len() * ApiOutcome::COUNT * PROTOCOLS.len();
const TIMES_OF_ROUTE: usize = DURATION_BUCKETS + 1;

/// What requests come over, by the word for it.
pub const PROTOCOLS: [&str; 4] = ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"];

/// Where a version stands among [`PROTOCOLS`]. Nothing but these is ever served.
#[inline]
#[must_use]
pub(crate) fn protocol(version: Version) -> usize {
    match version {
        Version::HTTP_2 => 2,
        Version::HTTP_3 => 3,
        Version::HTTP_11 => 1,
        _ => 0,
    }
}

impl Requests {
    #[inline]
    pub(crate) fn note(&self, route: ApiRoute, outcome: ApiOutcome, version: Version, took_ns: u64) {
        self.note_alike(1, route, outcome, version, took_ns);
    }

    /// The same of so many that are alike in all of this.
    #[inline]
    pub(crate) fn note_alike(
        &self,
        count: u64,
        route: ApiRoute,
        outcome: ApiOutcome,
        version: Version,
        took_ns: u64,
    ) {
        let counts = self.0.own();
        counts.add(place(route, outcome, protocol(version)), count);
        let times = TIMES + route as usize * TIMES_OF_ROUTE;
        counts.add(times + duration_bucket(took_ns), count);
        counts.add(times + DURATION_BUCKETS, took_ns.wrapping_mul(count));
    }

    /// How many requests for a route came over one of the [`PROTOCOLS`] and had this outcome.
    #[must_use]
    pub fn count(&self, route: ApiRoute, outcome: ApiOutcome, protocol: usize) -> u64 {
        self.0.sum(place(route, outcome, protocol))
    }

    /// How many had this outcome, over whatever they came.
    #[must_use]
    pub fn total(&self, route: ApiRoute, outcome: ApiOutcome) -> u64 {
        (0..PROTOCOLS.len()).map(|protocol| self.count(route, outcome, protocol)).sum()
    }

    /// How long requests for a route took, from the moment they are judged by until their reply was made.
    #[must_use]
    pub fn durations(&self, route: ApiRoute) -> Durations {
        let times = TIMES + route as usize * TIMES_OF_ROUTE;
        Durations {
            buckets: std::array::from_fn(|bucket| self.0.sum(times + bucket)),
            sum_ns: self.0.sum(times + DURATION_BUCKETS),
        }
    }
}

#[inline]
fn place(route: ApiRoute, outcome: ApiOutcome, protocol: usize) -> usize {
    (route as usize * ApiOutcome::COUNT + outcome as usize) * PROTOCOLS.len() + protocol
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_in_a_place_of_its_own() {
        let versions = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2, Version::HTTP_3];
        let requests = Requests::default();
        let mut times = 0;
        for route in ApiRoute::ALL {
            for outcome in route.outcomes() {
                for version in versions {
                    times += 1;
                    requests.note(route, *outcome, version, 20_000);
                    requests.note_alike(times - 1, route, *outcome, version, 20_000);
                }
            }
        }
        let mut seen = 0;
        for route in ApiRoute::ALL {
            let mut of_route = 0;
            for outcome in route.outcomes() {
                for protocol in 0..PROTOCOLS.len() {
                    seen += 1;
                    assert_eq!(requests.count(route, *outcome, protocol), seen, "{route:?} {outcome:?}");
                    of_route += seen;
                }
            }
            let durations = requests.durations(route);
            assert_eq!((durations.buckets[1], durations.sum_ns), (of_route, of_route * 20_000));
            assert_eq!(durations.count(), of_route);
        }
        assert_eq!(ApiOutcome::NotFound as usize, ApiOutcome::COUNT - 1);
    }
}
