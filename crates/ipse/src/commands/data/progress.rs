//! A bar for whoever watches; nothing where nobody does.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// One thing that takes a while.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar whose length is told with its first progress.
    pub(super) fn new(what: &str) -> Self {
        Self::styled(what, "{msg:32} [{bar:30}] {percent:>3} %  {elapsed}")
    }

    /// The same for bytes that come over a network.
    pub(super) fn bytes(what: &str) -> Self {
        Self::styled(what, "{msg:32} [{bar:30}] {bytes} of {total_bytes}  {bytes_per_sec}")
    }

    /// Something whose end cannot be foreseen.
    pub(super) fn spinner(what: &str) -> Self {
        let bar = Self::styled(what, "{msg:32} {spinner}  {elapsed}");
        bar.0.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    pub(super) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn styled(what: &str, template: &str) -> Self {
        // indicatif draws to standard error, and only if that is a terminal.
        let bar = ProgressBar::new(0).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}
