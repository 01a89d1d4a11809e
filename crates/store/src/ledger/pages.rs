//! Pages by their numbers, which stay once they are there.
//!
//! Numbers are given out one behind the other. So nearly all pages are found by their number alone, in two steps and without
//! a lock, and only those of numbers that are very high stand in a map.

use crate::spread::Spread;
use papaya::HashMap;
use std::sync::{Arc, OnceLock};

const SHELVES: usize = 1024;
const PAGES_PER_SHELF: usize = 1024;

#[derive(Debug)]
pub(super) struct Pages<P> {
    shelves: Box<[OnceLock<Shelf<P>>]>,
    far: HashMap<i64, Arc<P>, Spread>,
}

type Shelf<P> = Box<[OnceLock<Arc<P>>]>;

impl<P> Pages<P> {
    pub(super) fn new() -> Self {
        Self { shelves: empty(SHELVES), far: HashMap::with_hasher(Spread) }
    }

    /// A page, which `fresh` makes if it is not there yet.
    pub(super) fn keep(&self, number: i64, fresh: impl FnOnce() -> P) -> Arc<P> {
        let fresh = || Arc::new(fresh());
        let Some((shelf, place)) = shelf_and_place(number) else {
            return Arc::clone(self.far.pin().get_or_insert_with(number, fresh));
        };
        let shelf = self.shelves[shelf].get_or_init(|| empty(PAGES_PER_SHELF));
        Arc::clone(shelf[place].get_or_init(fresh))
    }

    /// Does something with a page, if it is there.
    pub(super) fn with<T>(&self, number: i64, work: impl FnOnce(&Arc<P>) -> T) -> Option<T> {
        match shelf_and_place(number) {
            Some(_) => self.near(number).map(work),
            None => self.far.pin().get(&number).map(work),
        }
    }

    /// A page that stands on a shelf.
    pub(super) fn near(&self, number: i64) -> Option<&Arc<P>> {
        let (shelf, place) = shelf_and_place(number)?;
        self.shelves[shelf].get()?[place].get()
    }

    /// Does something with every page.
    pub(super) fn for_each(&self, mut work: impl FnMut(&P)) {
        let shelves = self.shelves.iter().filter_map(OnceLock::get);
        shelves.flatten().filter_map(OnceLock::get).for_each(|page| work(page));
        self.far.pin().values().for_each(|page| work(page));
    }
}

fn empty<T>(length: usize) -> Box<[OnceLock<T>]> {
    std::iter::repeat_with(OnceLock::new).take(length).collect()
}

/// Where a page stands, unless its number is too high for a shelf.
fn shelf_and_place(number: i64) -> Option<(usize, usize)> {
    let number = usize::try_from(number).ok()?;
    let shelf = number / PAGES_PER_SHELF;
    (shelf < SHELVES).then_some((shelf, number % PAGES_PER_SHELF))
}
