//! Numbers that only grow, raised by many threads at once.
//!
//! A request may raise one for a few instructions and no more: there is no lock, no memory to ask for and no name to look
//! up. Each thread raises a copy that hardly anybody else touches, and whoever wants to know adds the copies up.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many copies there are of every number. More threads than that share some of them, and are still exact.
const STRIPES: usize = 16;
const UNKNOWN: usize = usize::MAX;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// `N` numbers, all of which begin with zero.
pub struct Counts<const N: usize>(Box<[Stripe<N>; STRIPES]>);

/// One copy of them. Two never share a line of the processor's cache, nor the one that is fetched with it.
#[repr(align(128))]
struct Stripe<const N: usize>([AtomicU64; N]);

impl<const N: usize> Counts<N> {
    /// The copy that this thread raises.
    #[inline]
    #[must_use]
    pub fn own(&self) -> OwnCounts<'_, N> {
        OwnCounts(&self.0[own_stripe() % STRIPES].0)
    }

    /// What one of the numbers has come to.
    #[must_use]
    pub fn sum(&self, index: usize) -> u64 {
        let copies = self.0.iter().filter_map(|stripe| stripe.0.get(index));
        // They wrap around as the copies do, so that a difference of two sums is right for ever.
        copies.map(|count| count.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// One thread's copy of all the numbers.
pub struct OwnCounts<'a, const N: usize>(&'a [AtomicU64; N]);

impl<const N: usize> OwnCounts<'_, N> {
    /// Raises one of the numbers. One that there is not is not raised.
    #[inline]
    pub fn add(&self, index: usize, amount: u64) {
        if let Some(count) = self.0.get(index) {
            count.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        let stripe = |_| Stripe(std::array::from_fn(|_| AtomicU64::new(0)));
        Self(Box::new(std::array::from_fn(stripe)))
    }
}

impl<const N: usize> fmt::Debug for Counts<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..N).map(|index| self.sum(index))).finish()
    }
}

#[inline]
fn own_stripe() -> usize {
    // A thread that is about to end may have let go of its number already.
    STRIPE.try_with(|stripe| if stripe.get() == UNKNOWN { number(stripe) } else { stripe.get() }).unwrap_or(0)
}

/// Gives a thread its number when it counts for the first time.
#[cold]
fn number(stripe: &Cell<usize>) -> usize {
    stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
    stripe.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_threads_count() {
        let counts = Counts::<3>::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * STRIPES {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        counts.own().add(0, 1);
                        counts.own().add(2, 7);
                    }
                });
            }
        });
        let threads = 3 * STRIPES as u64;
        assert_eq!([0, 1, 2].map(|index| counts.sum(index)), [threads * 1000, 0, threads * 7000]);
        assert_eq!(format!("{counts:?}"), format!("[{}, 0, {}]", threads * 1000, threads * 7000));
    }

    #[test]
    fn a_number_that_there_is_not_is_nothing() {
        let counts = Counts::<1>::default();
        counts.own().add(1, 1);
        assert_eq!([counts.sum(0), counts.sum(1)], [0, 0]);
    }
}
