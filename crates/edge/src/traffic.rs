//! What comes and goes at the doors, in numbers: who was let in, who was not, and what was no request at all.
//!
//! Numbers only: nothing here knows who anybody was. A connection costs far more than counting it, so one copy is enough.

use crate::fault::{FaultReplies, HttpFault};
use crate::tcp::Manner;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The ways in, by what is spoken at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Clear HTTP.
    Clear,
    /// TLS.
    Tls,
    /// Behind a proxy that introduces its callers with the PROXY protocol.
    Introduced,
    /// QUIC.
    Quic,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Clear, Self::Tls, Self::Introduced, Self::Quic];

    /// Its name in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Tls => "tls",
            Self::Introduced => "proxy",
            Self::Quic => "quic",
        }
    }

    pub(crate) fn of(manner: &Manner) -> Self {
        match manner {
            Manner::Clear => Self::Clear,
            Manner::Tls(_) => Self::Tls,
            Manner::Introduced(_) => Self::Introduced,
        }
    }
}

/// What was wrong with a request that nobody above was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKind(HttpFault);

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self(HttpFault::BadRequest),
        Self(HttpFault::TargetTooLong),
        Self(HttpFault::HeaderTooLarge),
        Self(HttpFault::Panicked),
    ];

    /// Its name in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self.0 {
            HttpFault::BadRequest => "bad_request",
            HttpFault::TargetTooLong => "target_too_long",
            HttpFault::HeaderTooLarge => "header_too_large",
            HttpFault::Panicked => "panicked",
        }
    }
}

/// All counts of all doors.
#[derive(Debug, Default)]
pub struct Traffic {
    ways: [OneWay; Way::ALL.len()],
    faults: [AtomicU64; FaultKind::ALL.len()],
    redirected: AtomicU64,
}

#[derive(Debug, Default)]
struct OneWay {
    accepted: AtomicU64,
    ended: AtomicU64,
    over_limit: AtomicU64,
    full: AtomicU64,
    failed_handshakes: AtomicU64,
}

/// What one way in has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayReport {
    /// How many connections were let in.
    pub accepted: u64,
    /// How many of them are still there.
    pub open: u64,
    /// How many were closed at once, because their address had as many as one may have.
    pub over_limit: u64,
    /// How many were sent away because there was no place left. Only QUIC does that; others wait in the kernel.
    pub full: u64,
    /// How many never got through the handshake of TLS.
    pub failed_handshakes: u64,
}

impl Traffic {
    /// What one way in has seen.
    #[must_use]
    pub fn way(&self, way: Way) -> WayReport {
        let of = &self.ways[way as usize];
        // Whoever ends was let in before, so the ends are read first.
        let ended = of.ended.load(Ordering::Acquire);
        let accepted = of.accepted.load(Ordering::Acquire);
        WayReport {
            accepted,
            open: accepted.saturating_sub(ended),
            over_limit: of.over_limit.load(Ordering::Relaxed),
            full: of.full.load(Ordering::Relaxed),
            failed_handshakes: of.failed_handshakes.load(Ordering::Relaxed),
        }
    }

    /// How often a request had this fault.
    #[must_use]
    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.faults[kind.0 as usize].load(Ordering::Relaxed)
    }

    /// How many requests were sent on to HTTPS.
    #[must_use]
    pub fn redirected(&self) -> u64 {
        self.redirected.load(Ordering::Relaxed)
    }

    /// What is said about each fault, and counts it.
    pub(crate) fn counting(self: &Arc<Self>, faults: FaultReplies) -> FaultReplies {
        let traffic = Arc::clone(self);
        Arc::new(move |fault| {
            traffic.faults[fault as usize].fetch_add(1, Ordering::Relaxed);
            faults(fault)
        })
    }

    /// Counts a connection for as long as what is returned lives.
    pub(crate) fn enter(self: &Arc<Self>, way: Way) -> Presence {
        self.ways[way as usize].accepted.fetch_add(1, Ordering::Release);
        Presence { traffic: Arc::clone(self), way }
    }

    pub(crate) fn over_limit(&self, way: Way) {
        self.ways[way as usize].over_limit.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn full(&self, way: Way) {
        self.ways[way as usize].full.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed_handshake(&self, way: Way) {
        self.ways[way as usize].failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn redirect(&self) {
        self.redirected.fetch_add(1, Ordering::Relaxed);
    }
}

/// One connection that is open.
pub(crate) struct Presence {
    traffic: Arc<Traffic>,
    way: Way,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.traffic.ways[self.way as usize].ended.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Reply;

    #[test]
    fn whoever_is_gone_is_not_open_any_more() {
        let traffic = Arc::new(Traffic::default());
        let one = traffic.enter(Way::Tls);
        let _other = traffic.enter(Way::Tls);
        drop(one);
        traffic.over_limit(Way::Tls);
        let report = WayReport { accepted: 2, open: 1, over_limit: 1, ..WayReport::default() };
        assert_eq!(traffic.way(Way::Tls), report);
        assert_eq!(traffic.way(Way::Clear), WayReport::default());
    }

    #[test]
    fn every_fault_is_counted_by_its_own_name() {
        let traffic = Arc::new(Traffic::default());
        let faults = traffic.counting(Arc::new(|_| Reply::default()));
        for (times, kind) in FaultKind::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| drop(faults(kind.0)));
        }
        assert_eq!(FaultKind::ALL.map(|kind| traffic.faults(kind)), [0, 1, 2, 3]);
        assert_eq!(Way::ALL.map(|way| way as usize), [0, 1, 2, 3]);
    }
}
