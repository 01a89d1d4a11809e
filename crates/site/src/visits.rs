//! What was asked of the pages and what came of it, in numbers, and how long it took.

use http::{StatusCode, Version};
use ipse_model::{Counts, DURATION_BUCKETS, Durations, duration_bucket};

/// What can come of asking for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// It was shown, or led on to another.
    Answered,
    /// There is none, or not for this visitor, or not in this way.
    Refused,
    /// Something of ours is broken, or there is more to do than can be done.
    Error,
}

impl PageOutcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Answered, Self::Refused, Self::Error];

    /// Its name in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Error => "error",
        }
    }

    fn of(status: StatusCode) -> Self {
        if status.is_server_error() {
            Self::Error
        } else if status.is_client_error() {
            Self::Refused
        } else {
            Self::Answered
        }
    }
}

/// All counts of one site.
#[derive(Debug, Default)]
pub struct PageVisits(Counts<{ TIMES + DURATION_BUCKETS + 1 }>);

/// HTTP/1.0, HTTP/1.1, HTTP/2 and HTTP/3, in this order.
const PROTOCOLS: usize = 4;
/// Behind the counts, the buckets and the sum of all times.
const TIMES: usize = PageOutcome::ALL.len() * PROTOCOLS;

impl PageVisits {
    pub(crate) fn note(&self, status: StatusCode, version: Version, took_ns: u64) {
        let protocol = match version {
            Version::HTTP_3 => 3,
            Version::HTTP_2 => 2,
            Version::HTTP_11 => 1,
            _ => 0,
        };
        let counts = self.0.own();
        counts.add(PageOutcome::of(status) as usize * PROTOCOLS + protocol, 1);
        counts.add(TIMES + duration_bucket(took_ns), 1);
        counts.add(TIMES + DURATION_BUCKETS, took_ns);
    }

    /// How many requests had this outcome, over one of the protocols: HTTP/1.0, HTTP/1.1, HTTP/2 and HTTP/3, in this order.
    #[must_use]
    pub fn count(&self, outcome: PageOutcome, protocol: usize) -> u64 {
        self.0.sum(outcome as usize * PROTOCOLS + protocol.min(PROTOCOLS - 1))
    }

    /// How many had this outcome, over whatever they came.
    #[must_use]
    pub fn total(&self, outcome: PageOutcome) -> u64 {
        (0..PROTOCOLS).map(|protocol| self.count(outcome, protocol)).sum()
    }

    /// How long they took.
    #[must_use]
    pub fn durations(&self) -> Durations {
        Durations {
            buckets: std::array::from_fn(|bucket| self.0.sum(TIMES + bucket)),
            sum_ns: self.0.sum(TIMES + DURATION_BUCKETS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_what_became_of_them() {
        let visits = PageVisits::default();
        for (status, version) in [
            (StatusCode::OK, Version::HTTP_11),
            (StatusCode::SEE_OTHER, Version::HTTP_2),
            (StatusCode::NOT_FOUND, Version::HTTP_3),
            (StatusCode::SERVICE_UNAVAILABLE, Version::HTTP_10),
        ] {
            visits.note(status, version, 30_000_000);
        }
        let counts = PageOutcome::ALL.map(|outcome| [0, 1, 2, 3].map(|at| visits.count(outcome, at)));
        assert_eq!(counts, [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]);
        assert_eq!(visits.total(PageOutcome::Answered), 2);
        assert_eq!((visits.durations().count(), visits.durations().sum_ns), (4, 120_000_000));
    }
}
