//! Which burst windows hold memory, and when they give it back.

use super::cells::{Kept, Spot, State};
use std::collections::VecDeque;

/// How long after it was looked at a window is looked at again.
const LOOK_EVERY_MS: u64 = 30_000;

/// Cells whose burst window may hold memory. Each stands here once, with the moment that it was looked at; the one that was not
/// looked at for the longest time comes first.
#[derive(Debug)]
pub(super) struct Windows<F>(VecDeque<(u64, Kept<F>)>);

impl<F> Windows<F> {
    /// Has the window looked at later.
    pub(super) fn note(&mut self, cell: Spot<'_, F>, state: &mut State<F>, boot_ms: u64) {
        if !std::mem::replace(&mut state.window_noted, true) {
            self.0.push_back((boot_ms, cell.keep()));
        }
    }

    /// Gives the memory of idle windows back, of those whose turn it is.
    pub(super) fn shrink(&mut self, boot_ms: u64) {
        let is_due = |(looked_ms, _): &mut (u64, _)| boot_ms.saturating_sub(*looked_ms) >= LOOK_EVERY_MS;
        while let Some((_, cell)) = self.0.pop_front_if(is_due) {
            let mut state = cell.lock();
            state.window_noted = state.meter.window_mut().shrink(boot_ms);
            let holds_memory = state.window_noted;
            drop(state);
            if holds_memory {
                self.0.push_back((boot_ms, cell));
            }
        }
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }
}

impl<F> Default for Windows<F> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::Cells;
    use super::*;
    use crate::Subject;
    use ipse_model::{Day, KeyId};
    use std::fs::File;

    fn holds_memory(cell: &Kept<File>) -> bool {
        cell.lock().meter.window().times().count() > 0
    }

    #[test]
    fn an_idle_window_gives_its_memory_back_within_half_a_minute() {
        let cells = Cells::<File>::new(Day(0));
        let mut windows = Windows::default();
        let kept: Vec<_> = (1..100).map(|number| cells.keep(Subject::Key(KeyId(number)))).collect();
        for (cell, boot_ms) in kept.iter().zip((0..).step_by(700)) {
            let mut state = cell.lock();
            state.meter.window_mut().admit(boot_ms);
            // As often as it is folded.
            for later_ms in [0, 1_000] {
                windows.note(cell.spot(), &mut state, boot_ms + later_ms);
            }
        }
        assert_eq!(windows.0.len(), kept.len());
        for boot_ms in (0..300_000).step_by(1_000) {
            windows.shrink(boot_ms);
            for (cell, admitted_ms) in kept.iter().zip((0..).step_by(700)) {
                if boot_ms < admitted_ms + 120_000 {
                    assert!(holds_memory(cell), "{boot_ms}");
                }
                if boot_ms >= admitted_ms + 120_000 + 31_000 {
                    assert!(!holds_memory(cell), "{boot_ms}");
                }
            }
        }
        assert!(windows.0.is_empty() && windows.0.capacity() < 8, "{}", windows.0.capacity());
    }

    #[test]
    fn a_window_that_is_used_again_is_noted_again() {
        let cells = Cells::<File>::new(Day(0));
        let mut windows = Windows::default();
        let cell = cells.keep(Subject::Key(KeyId(7)));
        for boot_ms in [0, 600_000] {
            cell.lock().meter.window_mut().admit(boot_ms);
            windows.note(cell.spot(), &mut cell.lock(), boot_ms);
            windows.shrink(boot_ms + 29_999);
            assert!(holds_memory(&cell));
            windows.shrink(boot_ms + 120_000);
            assert!(!holds_memory(&cell));
        }
    }

    #[test]
    fn a_key_that_is_forgotten_is_not_noted_twice() {
        let cells = Cells::<File>::new(Day(0));
        let mut windows = Windows::default();
        let cell = cells.keep(Subject::Key(KeyId(7)));
        windows.note(cell.spot(), &mut cell.lock(), 0);
        cells.forget(KeyId(7));
        windows.note(cell.spot(), &mut cell.lock(), 1);
        assert_eq!(windows.0.len(), 1);
    }
}
