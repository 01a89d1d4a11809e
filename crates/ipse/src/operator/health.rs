//! How the node is doing: what it does again and again, and whether it is ready for callers.
//!
//! Ready means that a lookup that comes now would be answered. What is only worse than it should be, because the records
//! cannot be asked for a while, does not make a node less ready: a balancer that sent callers elsewhere would find the
//! other nodes in the same state, and nobody would be served though everybody could be.

use ipse_model::Now;
use ipse_store::{CountersReport, Outage};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is known without asking anybody.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Changes of keys are read.
    pub(crate) keys: Pulse,
    /// Counts are written to the records.
    pub(crate) folds: Pulse,
    /// Owners are told what happened to their keys, and what has ended is cleared away.
    pub(crate) accounts: Pulse,
    /// New geo data is taken.
    pub(crate) geo: Pulse,
    stopping: AtomicBool,
}

impl Health {
    /// No new callers are to come from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What is missing and what is worse than it should be.
    pub(crate) fn condition(&self, requests_fail: bool, counters: &CountersReport) -> Condition {
        let shared = counters.shared.as_ref();
        let away = shared.and_then(|(policy, report)| Some((*policy, report.away.as_ref()?)));
        let records_away = shared.and_then(|(policy, report)| Some((*policy, report.records_away.as_ref()?)));
        let mut condition = Condition::default();
        if self.stopping.load(Ordering::Relaxed) {
            condition.missing.push(
                "The server is stopping: requests in progress are finished, and no new callers are to come."
                    .to_owned(),
            );
        }
        match away {
            Some((Outage::Closed, away)) => condition
                .missing
                .push(format!("Lookups cannot be charged and are answered with 500: {away}.")),
            Some((policy, away)) => condition
                .worse
                .push(format!("Lookups are decided on this node alone (`{}`): {away}.", policy.word())),
            None if requests_fail => {
                let why = records_away.map_or("the log says why", |(_, why)| why);
                condition
                    .missing
                    .push(format!("Lookups cannot be charged and are answered with 500: {why}."));
            }
            None => {}
        }
        if let Some((policy, why)) = records_away {
            let meanwhile = match policy {
                Outage::Closed | Outage::Lease => "answered with 500",
                Outage::Open => "answered unchecked (`open`)",
            };
            condition
                .worse
                .push(format!("Lookups that need a new range of their day are {meanwhile}: {why}."));
        }
        for (pulse, sentence) in [
            (&self.keys, "Changes of keys cannot be read, and the keys that are known are served on"),
            (&self.folds, "Counts cannot be written to the records, and are kept on this node meanwhile"),
            (&self.accounts, "Owners cannot be told what happened to their keys"),
            (&self.geo, "The new geo data cannot be used, and the old is served on"),
        ] {
            if let Some(why) = pulse.failure() {
                condition.worse.push(format!("{sentence}: {why}."));
            }
        }
        condition
    }
}

/// The state of a node in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Why it is not ready.
    pub(crate) missing: Vec<String>,
    /// What is not as it should be, though it is ready.
    pub(crate) worse: Vec<String>,
}

impl Condition {
    pub(crate) fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    /// One line for each: what is missing, and behind it what is worse.
    pub(crate) fn lines(&self) -> String {
        let first = if self.is_ready() { "ready\n" } else { "not ready\n" };
        let missing = self.missing.iter().map(|sentence| format!("missing: {sentence}\n"));
        let worse = self.worse.iter().map(|sentence| format!("degraded: {sentence}\n"));
        missing.chain(worse).fold(first.to_owned(), |text, line| text + &line)
    }
}

/// Something that is done again and again.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    done: AtomicU64,
    failed: AtomicU64,
    /// Why it could not be done the last time, if it could not.
    failure: Mutex<Option<String>>,
    last_ms: AtomicI64,
}

impl Pulse {
    /// Notes whether it could be done this time, and if not, why.
    pub(crate) fn beat<E: Display>(&self, outcome: &Result<(), E>, now: Now) {
        let failure = outcome.as_ref().err().map(E::to_string);
        if failure.is_none() {
            self.done.fetch_add(1, Ordering::Relaxed);
            self.last_ms.store(now.unix_ms, Ordering::Relaxed);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Why it could not be done the last time, if it could not.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// When it was done for the last time; `None` if never.
    pub(crate) fn last_ms(&self) -> Option<i64> {
        (self.done() > 0).then(|| self.last_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_store::{Away, SharedReport};

    const NOW: Now = Now { unix_ms: 5000, boot_ms: 1 };

    #[test]
    fn a_node_that_can_answer_is_ready_whatever_else_fails() {
        let (health, ledger) = (Health::default(), CountersReport { engine: "ledger", ..Default::default() });
        assert_eq!(health.condition(false, &ledger).lines(), "ready\n");
        health.keys.beat(&Err("the database is away"), NOW);
        let condition = health.condition(false, &ledger);
        assert!(condition.is_ready());
        assert_eq!(
            condition.lines(),
            "ready\ndegraded: Changes of keys cannot be read, and the keys that are known are served on: \
             the database is away.\n"
        );
        health.keys.beat(&Ok::<_, &str>(()), NOW);
        assert_eq!(health.condition(false, &ledger), Condition::default());
        assert_eq!((health.keys.done(), health.keys.failed(), health.keys.last_ms()), (1, 1, Some(5000)));
        assert_eq!(health.folds.last_ms(), None);
    }

    #[test]
    fn a_node_that_cannot_answer_says_why() {
        let health = Health::default();
        let mut report = CountersReport { engine: "ledger", ..Default::default() };
        let lines = |report: &CountersReport, fails| health.condition(fails, report).lines();
        assert!(lines(&report, true).starts_with("not ready\nmissing: Lookups cannot be charged"));
        report.engine = "redis";
        let shared = |policy, away| Some((policy, SharedReport { away, ..SharedReport::default() }));
        report.shared = shared(Outage::Closed, Some(Away::NoReply));
        let told = "not ready\nmissing: Lookups cannot be charged and are answered with 500: the shared counters did not \
                    answer in time.\n";
        assert_eq!(lines(&report, false), told);
        report.shared = shared(Outage::Lease, Some(Away::NoReply));
        // The last request may have failed just before the engine was found to be away.
        assert!(
            lines(&report, true)
                .starts_with("ready\ndegraded: Lookups are decided on this node alone (`lease`)")
        );
        report.shared = shared(Outage::Closed, None);
        assert_eq!(lines(&report, false), "ready\n");
        let records_away = Some("the database is away".to_owned());
        report.shared = Some((Outage::Open, SharedReport { records_away, ..SharedReport::default() }));
        let told = "ready\ndegraded: Lookups that need a new range of their day are answered unchecked (`open`): the \
                    database is away.\n";
        assert_eq!(lines(&report, false), told);
        assert!(lines(&report, true).starts_with(
            "not ready\nmissing: Lookups cannot be charged and are answered with 500: the database is away.\n"
        ));
        health.stop();
        assert!(lines(&report, false).starts_with("not ready\nmissing: The server is stopping"));
    }
}
