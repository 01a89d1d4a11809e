//! The last ten minutes: samples of what was counted, taken every two seconds, and the spans between them.

use ipse_model::{Durations, Now};
use ipse_site::Span;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often a sample is taken.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(2);
/// How many samples make up one span.
const SAMPLES_OF_SPAN: usize = 5;
/// How many spans are shown: ten minutes.
const SPANS: usize = 60;

/// What was counted until a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) answered: u64,
    pub(crate) over_quota: u64,
    pub(crate) refused: u64,
    pub(crate) errors: u64,
    pub(crate) durations: Durations,
}

/// The samples of the last minutes. Only whoever takes one and whoever looks at them ever waits for the lock.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The oldest first.
    samples: VecDeque<(u64, Sample)>,
    /// How many were ever taken: spans begin with every fifth of them, so that what is shown of one does not change.
    taken: usize,
}

impl History {
    /// Keeps one more sample, and lets go of those that are too old.
    pub(crate) fn take(&self, sample: Sample, now: Now) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.samples.push_back((now.boot_ms, sample));
        kept.taken += 1;
        while kept.samples.len() > SPANS * SAMPLES_OF_SPAN + 1 {
            kept.samples.pop_front();
        }
    }

    /// The last ten minutes up to this sample, the oldest first. The last span has only begun.
    pub(crate) fn spans(&self, sample: Sample, now: Now) -> Vec<Span> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.taken - kept.samples.len();
        let edges = kept
            .samples
            .iter()
            .enumerate()
            .filter(|(index, _)| (first + index).is_multiple_of(SAMPLES_OF_SPAN));
        let mut edges: Vec<(u64, Sample)> = edges.map(|(_, edge)| *edge).collect();
        edges.push((now.boot_ms, sample));
        let spans: Vec<Span> = edges.windows(2).map(|pair| span(&pair[0], &pair[1])).collect();
        let shown = spans.len().min(SPANS);
        let mut all = vec![Span::default(); SPANS - shown];
        all.extend(&spans[spans.len() - shown..]);
        all
    }
}

fn span((from_ms, from): &(u64, Sample), (to_ms, to): &(u64, Sample)) -> Span {
    Span {
        ms: to_ms.saturating_sub(*from_ms),
        answered: to.answered.wrapping_sub(from.answered),
        over_quota: to.over_quota.wrapping_sub(from.over_quota),
        refused: to.refused.wrapping_sub(from.refused),
        errors: to.errors.wrapping_sub(from.errors),
        durations: to.durations.since(&from.durations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Now {
        Now { unix_ms: 0, boot_ms: second * 1000 }
    }

    fn sample(answered: u64) -> Sample {
        Sample { answered, errors: answered / 2, ..Sample::default() }
    }

    #[test]
    fn a_node_without_a_past_has_empty_spans() {
        let spans = History::default().spans(sample(7), at(5));
        assert_eq!((spans.len(), spans[59]), (60, Span::default()));
    }

    #[test]
    fn what_happened_stands_in_its_own_span_and_stays_there() {
        let history = History::default();
        // One request a second for an hour.
        for index in 0..1800 {
            history.take(sample(index * 2), at(index * 2));
            let spans = history.spans(sample(index * 2 + 1), at(index * 2 + 1));
            assert_eq!(spans.len(), SPANS);
            let whole: Vec<&Span> = spans[..59].iter().filter(|span| span.ms > 0).collect();
            assert!(whole.iter().all(|span| (span.ms, span.answered) == (10_000, 10)), "{whole:?}");
            assert!(spans[59].ms < 10_000 && spans[59].answered == spans[59].ms / 1000, "{:?}", spans[59]);
        }
        let spans = history.spans(sample(3600), at(3600));
        assert_eq!(spans.iter().filter(|span| span.ms > 0).count(), 60);
        assert_eq!(spans[0].errors, 5);
    }

    #[test]
    fn a_clock_that_stands_still_is_no_trouble() {
        let history = History::default();
        (0..20).for_each(|index| history.take(sample(index), at(1)));
        assert!(history.spans(sample(20), at(1)).iter().all(|span| span.ms == 0));
    }
}
