//! How many connections may be open, in all and from one address.
//!
//! What is known of an address is a count under a hash whose key is drawn at each start, for as long as a connection of
//! that address is open: there are never more counts than connections, and none outlives the process.

use ipse_model::Address;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many may be shaking hands, at all doors together, without having shown that what we send to their address reaches
/// them.
pub(crate) const STRANGERS: usize = 64;

/// All who are connected.
pub(crate) struct Crowd {
    all: Arc<Semaphore>,
    capacity: u32,
    /// Each place holds one more of it. Who waits for all permits takes those that are free, so they cannot be counted.
    present: Arc<()>,
    /// For those of whom nobody knows yet whether they are where they say they are.
    pub(crate) strangers: Arc<Semaphore>,
    /// How many connections one address may have.
    each: usize,
    key: RandomState,
    counts: Mutex<HashMap<u64, usize>>,
}

/// The place of one connection among all.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _present: Arc<()>,
}

/// The place of one connection among those of its address.
pub(crate) struct Seat {
    crowd: Arc<Crowd>,
    hash: u64,
}

impl Crowd {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        let capacity = u32::try_from(all.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self {
            all: Arc::new(Semaphore::new(capacity as usize)),
            capacity,
            present: Arc::default(),
            strangers: Arc::new(Semaphore::new(STRANGERS)),
            each,
            key: RandomState::new(),
            counts: Mutex::default(),
        }
    }

    /// A place as soon as one is free.
    pub(crate) async fn place(&self) -> Option<Place> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Place { _permit: permit, _present: Arc::clone(&self.present) })
    }

    /// A place if one is free now.
    pub(crate) fn free_place(&self) -> Option<Place> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _permit: permit, _present: Arc::clone(&self.present) })
    }

    /// One more connection of this address, unless it has as many as it may.
    pub(crate) fn seat(self: &Arc<Self>, address: Address) -> Option<Seat> {
        let hash = self.key.hash_one(household(address));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(hash).or_default();
        if *count >= self.each {
            return None;
        }
        *count += 1;
        Some(Seat { crowd: Arc::clone(self), hash })
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        Arc::strong_count(&self.present) - 1
    }

    /// Returns when nobody is connected any more.
    pub(crate) async fn all_gone(&self) {
        let _ = self.all.acquire_many(self.capacity).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.hash) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.hash);
            }
        }
    }
}

/// One connection to the internet: an address of IPv4, or the network of IPv6 within which a customer chooses freely.
fn household(address: Address) -> u128 {
    const CHOSEN_FREELY: u32 = 64;
    match address.ip() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        // The mark keeps the lowest networks of IPv6 apart from IPv4.
        IpAddr::V6(ip) => (u128::from(ip) >> CHOSEN_FREELY) | (1 << CHOSEN_FREELY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(text: &str) -> Address {
        Address::new(text.parse().unwrap())
    }

    #[test]
    fn one_address_has_so_many_seats_and_no_more() {
        let crowd = Arc::new(Crowd::new(10, 2));
        let [one, other] = [address("192.0.2.1"), address("192.0.2.2")];
        let seats = [crowd.seat(one).unwrap(), crowd.seat(one).unwrap()];
        assert!(crowd.seat(one).is_none() && crowd.seat(other).is_some());
        drop(seats);
        assert!(crowd.counts.lock().unwrap().is_empty(), "nothing is kept about those who are gone");
        assert!(crowd.seat(one).is_some());
    }

    #[track_caller]
    fn check(one: &str, other: &str, same: bool) {
        assert_eq!(household(address(one)) == household(address(other)), same, "{one} {other}");
    }

    #[test]
    fn a_network_of_ipv6_is_one_household() {
        check("2001:db8::1", "2001:db8::ffff:2", true);
        check("2001:db8::1", "2001:db8:0:1::1", false);
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("0.0.0.1", "0:0:0:1::", false);
    }

    #[tokio::test]
    async fn whoever_waits_for_the_end_does_not_count_as_connected() {
        let crowd = Crowd::new(10, 1);
        let place = crowd.place().await.unwrap();
        let mut all_gone = Box::pin(crowd.all_gone());
        assert_eq!(all_gone.as_mut().now_or_never(), None);
        assert_eq!(crowd.open(), 1);
        drop(place);
        all_gone.await;
        assert_eq!(crowd.open(), 0);
    }

    #[tokio::test]
    async fn places_are_free_again_when_connections_end() {
        let crowd = Crowd::new(1, 1);
        let place = crowd.place().await.unwrap();
        assert!(crowd.free_place().is_none());
        assert_eq!(crowd.open(), 1);
        drop(place);
        crowd.all_gone().await;
        assert_eq!(crowd.open(), 0);
    }
}
