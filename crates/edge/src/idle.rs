//! Whether a connection is still of use to its peer.

use crate::serve::IDLE_TIMEOUT;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often it is looked whether something was asked.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After how many looks without a request a connection is let go.
const PATIENCE: u64 = IDLE_TIMEOUT.as_secs() / LOOK_EVERY.as_secs();
/// How long any connection is kept. After that its peer makes a new one, which may find a better way, and nobody holds a
/// place for ever.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3600);

/// Notes whether something is asked. No library has a deadline for a connection that stalls within the preface of HTTP/2,
/// or that has asked once and then only keeps itself alive.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    was_asked: AtomicBool,
    /// How many requests have no answer yet.
    open: AtomicUsize,
}

/// A request that has no answer yet.
pub(crate) struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Idle {
    /// Something is asked, and has an answer when this is dropped.
    pub(crate) fn asked(&self) -> Open {
        self.0.was_asked.store(true, Ordering::Relaxed);
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.0))
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) > 0
    }

    /// Returns when nothing was asked for too long, or when the connection is as old as one may become.
    pub(crate) async fn rest(&self) {
        let mut quiet = 0;
        for _ in 0..LIFETIME.as_secs() / LOOK_EVERY.as_secs() {
            tokio::time::sleep(LOOK_EVERY).await;
            quiet = if self.0.was_asked.swap(false, Ordering::Relaxed) { 0 } else { quiet + 1 };
            if quiet == PATIENCE {
                return;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the runtime, by which it sleeps")]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_connection_rests_when_nothing_is_asked() {
        let idle = Idle::default();
        let open = idle.asked();
        assert!(idle.is_busy());
        drop(open);
        assert!(!idle.is_busy());
        let start = Instant::now();
        idle.rest().await;
        assert_eq!(start.elapsed(), IDLE_TIMEOUT + LOOK_EVERY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_for_ever_ends_after_an_hour() {
        let idle = Idle::default();
        let asking = async {
            loop {
                drop(idle.asked());
                // waits for: the next request, on a paused clock
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let start = Instant::now();
        tokio::select! {
            () = idle.rest() => {}
            () = asking => {}
        }
        assert_eq!(start.elapsed(), Duration::from_secs(3600));
    }
}
