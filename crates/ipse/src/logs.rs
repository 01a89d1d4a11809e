//! Log lines and panic messages: what is written while the server runs.

use crate::config::LogFormat;
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Logs to standard error. Only our own crates speak: libraries log requests, headers and statements, which hold
/// addresses and keys.
pub(crate) fn start(level: Level, format: LogFormat) {
    let ours = Targets::new().with_target("ipse", level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            lines.with_ansi(colours).with_target(false).boxed()
        }
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines.with_filter(ours)).try_init();
    std::panic::set_hook(Box::new(|panic| {
        // The message may hold what a caller sent; the place of the panic is enough to find it.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(panic.place = place, "a part of the program panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CANARY: &str = "203.0.113.217 ipse_secret";

    /// Panics in a process of its own, because the hook and the log belong to a whole process.
    #[test]
    fn a_panic_tells_nothing_of_what_it_was_about() {
        const ROLE: &str = "PANIC_IN_A_CHILD";
        if std::env::var_os(ROLE).is_some() {
            start(Level::TRACE, LogFormat::Text);
            let _ = std::panic::catch_unwind(|| panic!("{CANARY}"));
            return;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "logs::tests::a_panic_tells_nothing_of_what_it_was_about", "--nocapture"])
            .env(ROLE, "1")
            .output()
            .unwrap();
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(said.contains("panicked") && said.contains("logs.rs"), "the place is told: {said}");
        assert!(!said.contains("203.0.113.217") && !said.contains("ipse_secret"), "{said}");
    }
}
