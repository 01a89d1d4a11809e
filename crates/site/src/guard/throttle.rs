//! Patience with those who guess: the more often somebody fails, the longer the next try has to wait, up to a minute.
//!
//! Everything lives in memory, under hashes with a key that is made anew at each start: no address and no account can be
//! read from it. Tries that come too early are not looked at and change nothing, so nobody is locked out for longer than
//! a minute by what others do.

use ipse_model::{Address, Now};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Who or what is being patient with.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Subject<'a> {
    /// Passwords of one account, from devices that its owner has not come from.
    Account(&'a str),
    /// The same from one device that its owner has come from, by its mark: whatever strangers do, the owner gets in.
    Device(&'a str, &'a str),
    /// Codes of the second factor of one account, from devices that its owner has not come from.
    Code(i64),
    /// The same from one device that its owner has come from, by its mark: whoever knows the password and guesses codes
    /// does not keep the owner out.
    DeviceCode(i64, &'a str),
    /// The password of one account, asked of somebody who is signed in to it.
    Member(i64),
    /// Whatever comes from one source: an address, or a network of IPv6 as customers get it.
    Source(IpAddr),
    /// Mail to one address.
    Mail(&'a str),
    /// Accounts that one source makes.
    SignUps(IpAddr),
}

impl Subject<'_> {
    /// Everything that one caller does.
    pub(crate) fn source(address: Address) -> Self {
        Self::Source(network(address.ip()))
    }

    /// The accounts that one caller makes.
    pub(crate) fn sign_ups(address: Address) -> Self {
        Self::SignUps(network(address.ip()))
    }

    fn patience(self) -> Patience {
        match self {
            Self::Account(_) | Self::Device(..) | Self::Code(_) | Self::DeviceCode(..) | Self::Member(_) => {
                Patience { free: 5, longest_s: 60 }
            }
            // Many people may share an address.
            Self::Source(_) => Patience { free: 30, longest_s: 60 },
            Self::Mail(_) => Patience { free: 3, longest_s: 600 },
            Self::SignUps(_) => Patience { free: 20, longest_s: 600 },
        }
    }
}

#[derive(Clone, Copy)]
struct Patience {
    /// How many tries in a row go without waiting.
    free: u32,
    longest_s: u64,
}

impl Patience {
    /// How long after this many tries the next one has to wait: twice as long each time.
    fn wait_ms(self, tries: u32) -> u64 {
        match tries.checked_sub(self.free) {
            None | Some(0) => 0,
            Some(beyond) => 1000 * 2_u64.saturating_pow(beyond - 1).min(self.longest_s),
        }
    }
}

/// How long somebody has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) seconds: u64,
}

/// All who have tried within the last hour.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Hashes of two kinds, so that nobody can look for an address whose tries are taken for another's.
    keys: [RandomState; 2],
    tries: Mutex<HashMap<[u64; 2], Tries>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    count: u32,
    /// When the next one is looked at, by the time since boot.
    next_ms: u64,
    last_ms: u64,
}

/// After so long without a try everything is forgiven.
const FORGIVEN_MS: u64 = 3_600_000;
/// How many are remembered. Whoever comes with more sources than this makes us forget those who have failed least.
const MOST: usize = 200_000;

impl Throttle {
    /// Counts a try for each of the subjects, unless one of them has to wait: then it counts for none, and must not be
    /// looked at.
    pub(crate) fn admit(&self, subjects: &[Subject<'_>], now: Now) -> Result<(), Wait> {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let keys: Vec<_> = subjects.iter().map(|subject| (self.key(*subject), subject.patience())).collect();
        let wait_ms =
            keys.iter().filter_map(|(key, _)| tries.get(key)?.next_ms.checked_sub(now.boot_ms)).max();
        if let Some(wait_ms) = wait_ms.filter(|wait_ms| *wait_ms > 0) {
            return Err(Wait { seconds: wait_ms.div_ceil(1000) });
        }
        if tries.len() >= MOST {
            make_room(&mut tries, now);
        }
        for (key, patience) in keys {
            let tries = tries.entry(key).or_default();
            if now.boot_ms.saturating_sub(tries.last_ms) >= FORGIVEN_MS {
                tries.count = 0;
            }
            tries.count = tries.count.saturating_add(1);
            tries.last_ms = now.boot_ms;
            tries.next_ms = now.boot_ms + patience.wait_ms(tries.count);
        }
        Ok(())
    }

    /// Forgives a subject all its tries: it has shown that it is no guesser.
    pub(crate) fn forgive(&self, subject: Subject<'_>) {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key(subject));
    }

    /// Takes back the last try of a subject, which was no failure.
    pub(crate) fn take_back(&self, subject: Subject<'_>, now: Now) {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tries) = tries.get_mut(&self.key(subject)) {
            tries.count = tries.count.saturating_sub(1);
            tries.next_ms = tries.next_ms.min(now.boot_ms);
        }
    }

    fn key(&self, subject: Subject<'_>) -> [u64; 2] {
        [self.keys[0].hash_one(subject), self.keys[1].hash_one(subject)]
    }
}

/// Customers get networks of IPv6 of this size, so who has one address has them all.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

fn make_room(tries: &mut HashMap<[u64; 2], Tries>, now: Now) {
    tries.retain(|_, tries| now.boot_ms.saturating_sub(tries.last_ms) < FORGIVEN_MS);
    if tries.len() < MOST {
        return;
    }
    let mut counts: Vec<u32> = tries.values().map(|tries| tries.count).collect();
    let middle = counts.len() / 2;
    let (_, middle, _) = counts.select_nth_unstable(middle);
    let few = *middle;
    // Half of them go, even if all have failed equally often.
    let mut to_go = tries.len() / 2;
    tries.retain(|_, tries| {
        let stays = tries.count > few || to_go == 0;
        to_go -= usize::from(!stays);
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { unix_ms: 0, boot_ms: 10_000_000 + seconds * 1000 }
    }

    #[test]
    fn each_failure_beyond_the_free_ones_doubles_the_wait_up_to_a_minute() {
        let throttle = Throttle::default();
        let account = [Subject::Account("a@b.c")];
        let mut moment = 0;
        for _ in 0..5 {
            assert_eq!(throttle.admit(&account, at(moment)), Ok(()));
        }
        assert_eq!(throttle.admit(&account, at(moment)), Ok(()), "the sixth finds no wait, and makes one");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            assert_eq!(throttle.admit(&account, at(moment)), Err(Wait { seconds }));
            assert_eq!(throttle.admit(&account, at(moment)), Err(Wait { seconds }), "asking changes nothing");
            moment += seconds;
            assert_eq!(throttle.admit(&account, at(moment)), Ok(()));
        }
        assert_eq!(throttle.admit(&account, at(moment + 3600)), Ok(()), "an hour later all is forgiven");
        assert_eq!(throttle.admit(&account, at(moment + 3600)), Ok(()));
    }

    #[test]
    fn strangers_do_not_lock_out_a_device_of_the_owner() {
        let throttle = Throttle::default();
        let mut admitted = 0;
        for number in 0..10_000_u32 {
            let source = Subject::Source(IpAddr::from(number.to_be_bytes()));
            admitted += u32::from(throttle.admit(&[Subject::Account("a@b.c"), source], at(0)).is_ok());
        }
        assert_eq!(admitted, 6);
        assert_eq!(throttle.admit(&[Subject::Device("a@b.c", "mark")], at(0)), Ok(()));
    }

    #[test]
    fn who_has_to_wait_for_one_subject_is_counted_for_none() {
        let throttle = Throttle::default();
        for _ in 0..6 {
            throttle.admit(&[Subject::Code(1)], at(0)).unwrap();
        }
        let source = Subject::source(Address::new("192.0.2.1".parse().unwrap()));
        for _ in 0..1000 {
            throttle.admit(&[source, Subject::Code(1)], at(0)).unwrap_err();
        }
        assert_eq!(throttle.admit(&[source], at(0)), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let source = |ip: &str| format!("{:?}", Subject::source(Address::new(ip.parse().unwrap())));
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), source("2001:db8:1:2::"));
        assert_ne!(source("2001:db8:1:2::"), source("2001:db8:1:3::"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }

    #[test]
    fn success_is_forgiven_and_what_was_no_failure_taken_back() {
        let throttle = Throttle::default();
        for _ in 0..6 {
            throttle.admit(&[Subject::Code(1), Subject::Code(2)], at(0)).unwrap();
        }
        throttle.forgive(Subject::Code(1));
        assert_eq!(throttle.admit(&[Subject::Code(1)], at(0)), Ok(()));
        throttle.take_back(Subject::Code(2), at(0));
        assert_eq!(throttle.admit(&[Subject::Code(2)], at(0)), Ok(()));
        throttle.admit(&[Subject::Code(2)], at(0)).unwrap_err();
    }

    #[test]
    fn memory_is_bounded_and_those_who_failed_most_are_remembered() {
        let mut tries: HashMap<[u64; 2], Tries> = HashMap::new();
        for number in 0..100 {
            let count = if number < 10 { 9 } else { 1 };
            tries.insert([number, 0], Tries { count, next_ms: 0, last_ms: at(0).boot_ms });
        }
        make_room(&mut tries, at(0));
        assert_eq!(tries.len(), 100, "there is room");
        make_room(&mut tries, at(3600));
        assert!(tries.is_empty(), "all were forgiven");
        for number in 0..u64::try_from(MOST).unwrap() {
            let count = if number < 10 { 9 } else { 1 };
            tries.insert([number, 0], Tries { count, next_ms: 0, last_ms: at(0).boot_ms });
        }
        make_room(&mut tries, at(0));
        assert_eq!(tries.len(), MOST / 2);
        assert!((0..10).all(|number| tries.contains_key(&[number, 0])));
    }
}
