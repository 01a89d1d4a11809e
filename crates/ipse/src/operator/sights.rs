//! Where all the numbers of one node are read: plain counters that the crates below keep, gathered when somebody looks.

use super::health::{Condition, Health};
use super::history::{History, Sample};
use super::vitals::Vitals;
use arc_swap::ArcSwap;
use ipse_api::{ApiOutcome, ApiRoute, PROTOCOLS, Requests};
use ipse_edge::{Certificates, FaultKind, Traffic, Way, WayReport};
use ipse_geo::{Atlas, short_version};
use ipse_model::Now;
use ipse_site::{Chore, Overview, PageOutcome, PageVisits};
use ipse_store::{CountersReport, KeyTable};
use std::sync::Arc;

/// Everything that can be looked at.
pub(crate) struct Sights {
    pub(crate) requests: Arc<Requests>,
    pub(crate) visits: Arc<PageVisits>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) keys: Arc<KeyTable>,
    pub(crate) atlas: Arc<ArcSwap<Atlas>>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) health: Arc<Health>,
    /// Asks the counters how they are doing.
    pub(crate) counters: Box<dyn Fn() -> CountersReport + Send + Sync>,
    /// Whether the last lookup could not be charged.
    pub(crate) requests_fail: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) most_connections: usize,
    pub(crate) started: Now,
}

impl Sights {
    /// Whether the node is ready, and what is missing.
    pub(crate) fn condition(&self) -> Condition {
        self.health.condition((self.requests_fail)(), &(self.counters)())
    }

    /// What was counted of lookups until now. What is no lookup has no quota and is nobody's success or failure.
    pub(crate) fn sample(&self) -> Sample {
        let mut sample = Sample::default();
        for route in [ApiRoute::Lookup, ApiRoute::Demo] {
            for outcome in route.outcomes() {
                let count = self.requests.total(route, *outcome);
                match outcome {
                    ApiOutcome::Answered => sample.answered += count,
                    ApiOutcome::DayUsedUp => sample.over_quota += count,
                    ApiOutcome::Error => sample.errors += count,
                    ApiOutcome::Preflight => {}
                    ApiOutcome::MissingKey
                    | ApiOutcome::InvalidKey
                    | ApiOutcome::InactiveKey
                    | ApiOutcome::Paused
                    | ApiOutcome::BurstExceeded
                    | ApiOutcome::MethodNotAllowed
                    | ApiOutcome::NotFound => sample.refused += count,
                }
            }
            sample.durations = sample.durations.and(&self.requests.durations(route));
        }
        sample
    }

    /// All that the page shows.
    pub(crate) fn overview(&self, history: &History, now: Now) -> Overview {
        let Condition { missing, worse } = self.condition();
        let (atlas, vitals) = (self.atlas.load(), Vitals::read());
        Overview {
            version: env!("CARGO_PKG_VERSION"),
            now,
            up_seconds: now.boot_ms.saturating_sub(self.started.boot_ms) / 1000,
            missing,
            worse,
            spans: history.spans(self.sample(), now),
            requests: self.asked(),
            protocols: some((0..PROTOCOLS.len()).map(|at| (PROTOCOLS[at], self.over(at)))),
            ways: self.ways(),
            most_connections: u64::try_from(self.most_connections).unwrap_or(u64::MAX),
            faults: some(FaultKind::ALL.map(|kind| (kind.word(), self.traffic.faults(kind)))),
            keys: u64::try_from(self.keys.len()).unwrap_or(u64::MAX),
            counters: (self.counters)(),
            chores: self.chores(),
            geo_version: short_version(atlas.version()).to_owned(),
            geo_built: atlas.about().built,
            certificates: self.endings(),
            memory_bytes: vitals.memory_bytes,
            descriptors: vitals.descriptors.zip(vitals.most_descriptors),
            cpu_seconds: vitals.cpu_ms / 1000,
        }
    }

    /// For which name each certificate is, and when it ends.
    pub(super) fn endings(&self) -> Vec<(String, i64)> {
        self.certificates.as_ref().map(|certificates| certificates.endings()).unwrap_or_default()
    }

    /// Requests by route and outcome: what is answered always, and else only what there was.
    fn asked(&self) -> Vec<(&'static str, &'static str, u64)> {
        let api = ApiRoute::ALL.into_iter().flat_map(|route| {
            route
                .outcomes()
                .iter()
                .map(move |outcome| (route.word(), outcome.word(), self.requests.total(route, *outcome)))
        });
        let pages = PageOutcome::ALL.map(|outcome| ("page", outcome.word(), self.visits.total(outcome)));
        api.chain(pages).filter(|(_, outcome, count)| *count > 0 || *outcome == "answered").collect()
    }

    /// The ways by which somebody came, or tried to.
    fn ways(&self) -> Vec<(&'static str, WayReport)> {
        let ways = Way::ALL.map(|way| (way.word(), self.traffic.way(way)));
        ways.into_iter().filter(|(_, report)| *report != WayReport::default()).collect()
    }

    fn over(&self, protocol: usize) -> u64 {
        let api = ApiRoute::ALL.into_iter().flat_map(|route| {
            route.outcomes().iter().map(move |outcome| self.requests.count(route, *outcome, protocol))
        });
        api.chain(PageOutcome::ALL.map(|outcome| self.visits.count(outcome, protocol))).sum()
    }

    fn chores(&self) -> Vec<Chore> {
        let Health { keys, folds, accounts, geo, .. } = &*self.health;
        let all = [
            ("Changes of keys", keys),
            ("Writing of counts", folds),
            ("Letters and clearing", accounts),
            ("New geo data", geo),
        ];
        let chores = all.into_iter().map(|(what, pulse)| Chore {
            what,
            done: pulse.done(),
            failed: pulse.failed(),
            is_failing: pulse.failure().is_some(),
            last_ms: pulse.last_ms(),
        });
        chores.collect()
    }
}

/// Those of which there were any.
fn some(all: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}
