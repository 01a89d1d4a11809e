//! Connections that are not to be used any more, though they are open.
//!
//! A server that can only be read stays so for its connections: who reached a standby, or a primary that was set so, goes on
//! there while everybody who connects anew is led to the server that can be written. So when one says that it can only be
//! read, all that were open at that moment are given up when they are next wanted.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Until which moment connections are doubted.
#[derive(Debug, Default)]
pub(super) struct Doubt(Mutex<Option<Instant>>);

impl Doubt {
    /// All connections that are open now are doubted.
    pub(super) fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
    }

    /// Whether a connection that was opened so long ago is doubted.
    pub(super) fn is_about(&self, age: Duration) -> bool {
        let begun = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.is_some_and(|begun| age >= now().saturating_duration_since(begun))
    }
}

/// Time on this machine is only ever compared with itself here.
#[expect(clippy::disallowed_methods, reason = "no request's moment, but the age of a connection")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_open_before_is_doubted() {
        let doubt = Doubt::default();
        assert!(!doubt.is_about(Duration::from_secs(9)), "nothing was doubted yet");
        doubt.begin();
        assert!(doubt.is_about(Duration::from_secs(9)));
        // waits for: time that passes, so that a connection can be younger.
        while doubt.is_about(Duration::ZERO) {}
    }
}
