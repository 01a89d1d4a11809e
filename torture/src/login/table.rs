//! What was seen, beside what it is held to.

use std::fmt;

/// Rows, in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

struct Row {
    what: &'static str,
    target: String,
    seen: String,
    is_met: bool,
}

impl Table {
    pub(crate) fn add(&mut self, what: &'static str, target: impl Into<String>, seen: String, is_met: bool) {
        self.0.push(Row { what, target: target.into(), seen, is_met });
    }

    /// Whether every target is met.
    pub(crate) fn is_met(&self) -> bool {
        self.0.iter().all(|row| row.is_met)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Row { what, target, seen, is_met }) in self.0.iter().enumerate() {
            let (line, verdict) =
                (if number == 0 { "" } else { "\n  " }, if *is_met { "" } else { "MISSED: " });
            write!(f, "{line}{what}: {verdict}{seen} (target: {target})")?;
        }
        Ok(())
    }
}
