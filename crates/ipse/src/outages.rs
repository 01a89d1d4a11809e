//! What the log says when shared counters, or the database that they get their ranges from, go away and come back.

use ipse_store::{Outage, Shared, SharedReport};

/// Who is away, as far as it was told.
#[derive(Default)]
pub(crate) struct Outages {
    counters: Absence,
    records: Absence,
}

/// Whether somebody is away, and what had been counted when they were last there.
#[derive(Default)]
struct Absence {
    is_away: bool,
    before: Counted,
}

/// What was decided without the shared counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    uncounted: u64,
    leased: u64,
}

/// What has changed since somebody was last looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// They are away.
    Gone,
    /// They are back, and so much was decided without them.
    Back(Counted),
}

impl Outages {
    /// Says who went away and what that means, and who is back. To be called about once a second.
    pub(crate) fn tell(&mut self, shared: &Shared) {
        let report = shared.report();
        match (self.counters.note(report.away.is_some(), &report), &report.away) {
            (Some(Change::Gone), Some(away)) => {
                let meanwhile = match shared.outage() {
                    Outage::Closed => "requests are answered with 500",
                    Outage::Lease => "this node reserves answers in the database",
                    Outage::Open => "everything is answered, and counts are not exact",
                };
                tracing::error!(error = %away, meanwhile, "the shared counters are away");
            }
            (Some(Change::Back(Counted { uncounted, leased })), _) => {
                tracing::info!(
                    report.uncounted = uncounted,
                    report.leased = leased,
                    "the shared counters are back"
                );
            }
            _ => {}
        }
        match (self.records.note(report.records_away.is_some(), &report), &report.records_away) {
            (Some(Change::Gone), Some(why)) => {
                let meanwhile = match shared.outage() {
                    Outage::Closed | Outage::Lease => "requests that need one are answered with 500",
                    Outage::Open => "requests that need one are answered, and counts are not exact",
                };
                tracing::error!(
                    error = why,
                    meanwhile,
                    "the database gives no new ranges to the shared counters"
                );
            }
            (Some(Change::Back(Counted { uncounted, .. })), _) => {
                tracing::info!(report.uncounted = uncounted, "the database gives new ranges again");
            }
            _ => {}
        }
    }
}

impl Absence {
    fn note(&mut self, is_away: bool, report: &SharedReport) -> Option<Change> {
        let now = Counted { uncounted: report.uncounted, leased: report.leased };
        let before = self.before;
        if !is_away {
            self.before = now;
        }
        match (std::mem::replace(&mut self.is_away, is_away), is_away) {
            (false, true) => Some(Change::Gone),
            (true, false) => Some(Change::Back(Counted {
                uncounted: now.uncounted - before.uncounted,
                leased: now.leased - before.leased,
            })),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_back_is_told_with_what_that_outage_left_uncounted() {
        let mut absence = Absence::default();
        let mut note = |is_away, uncounted, leased| {
            let report = SharedReport { uncounted, leased, ..SharedReport::default() };
            absence.note(is_away, &report)
        };
        assert_eq!(note(false, 0, 0), None);
        // Some were answered before it was looked again.
        assert_eq!(note(true, 3, 1), Some(Change::Gone));
        assert_eq!(note(true, 5, 1), None);
        assert_eq!(note(false, 8, 2), Some(Change::Back(Counted { uncounted: 8, leased: 2 })));
        assert_eq!(note(false, 8, 2), None);
        assert_eq!(note(true, 8, 2), Some(Change::Gone));
        assert_eq!(note(false, 9, 2), Some(Change::Back(Counted { uncounted: 1, leased: 0 })));
    }
}
