//! Whether a connection is still of use to its peer.

use crate::serve::IDLE_TIMEOUT;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// For how many rests in a row a connection is kept: an hour. After that its peer makes a new one, which may find a
/// better way, and nobody holds a place for ever.
const RESTS: u32 = 60;

/// Notes whether something is asked. No library has a deadline for a connection that stalls within the preface of HTTP/2,
/// or that has asked once and then only keeps itself alive.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<AtomicBool>);

impl Idle {
    /// Something is asked.
    pub(crate) fn asked(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns when nothing was asked for too long, or when the connection is as old as one may become.
    pub(crate) async fn rest(&self) {
        for _ in 0..RESTS {
            tokio::time::sleep(IDLE_TIMEOUT).await;
            if !self.0.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the runtime, by which it sleeps")]
mod tests {
    use super::*;
    use tokio::time::{Duration, Instant};

    #[tokio::test(start_paused = true)]
    async fn a_connection_rests_when_nothing_is_asked() {
        let idle = Idle::default();
        idle.asked();
        let start = Instant::now();
        idle.rest().await;
        assert_eq!(start.elapsed(), IDLE_TIMEOUT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_for_ever_ends_after_an_hour() {
        let idle = Idle::default();
        let asking = async {
            loop {
                idle.asked();
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
