//! The contract of `Counters`, over every engine.

use crate::{DAY_MS, NOON, Store, later};
use ipse_model::{Charge, DayAllowance, Key, KeyId, KeyState, Now, Scope};
use ipse_store::{
    Asked, Counters, Engine, KeyCharge, Outage, Records, Shared, SharedClock, SharedPlan, Subject,
};
use ipse_testkit::{Flavour, Redis};
use std::sync::Arc;
use std::time::Duration;

/// Runs each test over each engine.
macro_rules! over_every_engine {
    ($($test:ident),* $(,)?) => {
        mod ledger {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Kind::Ledger).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Kind::Shared(ipse_testkit::Flavour::Redis)).await;
            })*
        }
        mod valkey {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Kind::Shared(ipse_testkit::Flavour::Valkey)).await;
            })*
        }
    };
}

over_every_engine!(
    a_day_has_as_many_answers_as_its_limit,
    the_demo_has_one_quota_and_no_burst_limit,
    the_301st_request_of_a_minute_pauses_the_key_durably,
    resuming_starts_a_fresh_minute,
    a_key_paused_by_hand_is_charged_nothing,
    of_many_at_once_exactly_three_hundred_pass_and_one_pauses,
    of_many_asked_together_each_is_charged_as_if_it_came_alone,
    the_day_turns_at_midnight_and_never_back,
    charges_survive_the_death_of_the_process_without_one_lost,
    the_burst_window_goes_on_after_the_death_of_the_process,
    the_burst_window_goes_on_after_a_clean_stop_and_not_after_a_resume,
    a_fold_that_fails_loses_nothing,
    a_pause_that_cannot_be_written_is_an_error_and_no_pause,
    a_deleted_key_leaves_no_usage_behind,
);

/// Which engine.
#[derive(Clone, Copy)]
enum Kind {
    Ledger,
    Shared(Flavour),
}

impl Kind {
    /// How much of a day may be lost to its owner when a process dies: of the shared engine, a range that was on its way.
    fn withheld_by_a_death(self) -> u32 {
        match self {
            Self::Ledger => 0,
            Self::Shared(_) => 64,
        }
    }
}

/// A store, and what it takes to open the engine of its counters, again and again as after the death of a process.
struct Bench {
    store: Store,
    server: Option<Redis>,
}

impl Bench {
    async fn new(kind: Kind) -> Self {
        let server = match kind {
            Kind::Ledger => None,
            Kind::Shared(flavour) => Some(Redis::start(flavour).unwrap()),
        };
        Self { store: super::store().await, server }
    }

    async fn open(&self, now: Now) -> Engine {
        self.open_on(&self.store.records, now).await
    }

    async fn open_on(&self, records: &Records, now: Now) -> Engine {
        match &self.server {
            None => Engine::Ledger(self.store.ledger_on(records, BOOT, now).await),
            Some(server) => {
                // A machine that is busy may take its time.
                let patience = Duration::from_secs(20);
                Engine::Shared(shared_with(&server.url(), Outage::Closed, patience, records).await)
            }
        }
    }
}

/// The shared engine at an address, by the clock of these tests.
pub(super) async fn shared_with(
    url: &str,
    outage: Outage,
    patience: Duration,
    records: &Records,
) -> Arc<Shared> {
    let (url, clock) = (url.parse().unwrap(), SharedClock::Callers);
    Shared::open(SharedPlan { url, authority: None, outage, patience, clock }, records).await.unwrap()
}

pub(super) const BOOT: &str = "00000000-0000-0000-0000-000000000001";

pub(super) fn key(id: KeyId, daily_limit: u32) -> Key {
    Key { id, scope: Scope::Geo, state: KeyState::Active, daily_limit, resumes: 0 }
}

/// A bench with one key, and that key as the table would give it.
async fn with_key(kind: Kind, daily_limit: u32) -> (Bench, Key) {
    let bench = Bench::new(kind).await;
    let (_, record) = bench.store.key(Some(daily_limit)).await;
    (bench, key(record.id, daily_limit))
}

pub(super) async fn remaining(counters: &impl Counters, key: &Key, now: Now) -> u32 {
    match counters.charge_key(key, now).await.unwrap() {
        KeyCharge::Charged(Charge::Granted(allowance)) => allowance.remaining,
        other => panic!("not granted: {other:?}"),
    }
}

/// Moments far enough apart that no burst comes of them.
pub(super) fn calm(step: u32) -> Now {
    later(NOON, step * 250)
}

async fn a_day_has_as_many_answers_as_its_limit(kind: Kind) {
    let (bench, key) = with_key(kind, 100).await;
    let counters = bench.open(NOON).await;
    for left in (0..100).rev() {
        assert_eq!(remaining(&counters, &key, calm(100 - left)).await, left);
    }
    let used_up = DayAllowance { limit: 100, remaining: 0, day: NOON.day() };
    for step in 101..120 {
        let charge = counters.charge_key(&key, calm(step)).await.unwrap();
        assert_eq!(charge, KeyCharge::Charged(Charge::DayUsedUp(used_up)));
    }
    assert_eq!(counters.used(Subject::Key(key.id), NOON.day()).await.unwrap(), 100);
}

async fn of_many_asked_together_each_is_charged_as_if_it_came_alone(kind: Kind) {
    let (bench, few) = with_key(kind, 5).await;
    let counters = bench.open(NOON).await;
    // Of so large a day one range is enough for all of them.
    let (_, record) = bench.store.key(Some(10_000)).await;
    let many = key(record.id, 10_000);
    let (_, record) = bench.store.key(Some(10_000)).await;
    let paused = Key { state: KeyState::Paused, ..key(record.id, 10_000) };
    let asked = |key: Option<Key>| Asked { key, now: NOON };
    // One of each in turn, and at last as many of one as a minute allows and one more.
    let mut all = Vec::new();
    for _ in 0..8 {
        all.extend([Some(few), None, Some(many), Some(paused)].map(asked));
    }
    all.extend(std::iter::repeat_n(asked(Some(many)), 293));
    let charged: Vec<KeyCharge> =
        counters.charge_all(all.clone()).await.into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(charged.len(), all.len());
    let of = |key: Option<Key>| {
        let of_key = all.iter().zip(&charged).filter(move |(asked, _)| asked.key == key);
        of_key.map(|(_, charge)| *charge).collect::<Vec<_>>()
    };
    let left = |limit: u32| {
        move |remaining: u32| {
            let allowance = DayAllowance { limit, remaining, day: NOON.day() };
            KeyCharge::Charged(Charge::Granted(allowance))
        }
    };
    let mut granted: Vec<KeyCharge> = (0..5).rev().map(left(5)).collect();
    let used_up = DayAllowance { limit: 5, remaining: 0, day: NOON.day() };
    granted.extend([KeyCharge::Charged(Charge::DayUsedUp(used_up)); 3]);
    let mut of_few = of(Some(few));
    of_few.sort_by_key(|charge| match charge {
        KeyCharge::Charged(Charge::Granted(allowance)) => 5 - allowance.remaining,
        _ => 6,
    });
    assert_eq!(of_few, granted);
    let demo: Vec<KeyCharge> = of(None);
    assert_eq!(demo.len(), 8);
    assert!(demo.iter().all(|charge| matches!(charge, KeyCharge::Charged(Charge::Granted(_)))), "{demo:?}");
    assert_eq!(of(Some(paused)), [KeyCharge::Paused; 8]);
    let of_many = of(Some(many));
    let passed =
        of_many.iter().filter(|charge| matches!(charge, KeyCharge::Charged(Charge::Granted(_)))).count();
    let bursts =
        of_many.iter().filter(|charge| **charge == KeyCharge::Charged(Charge::BurstExceeded)).count();
    assert_eq!((of_many.len(), passed, bursts), (301, 300, 1));
    assert_eq!(counters.used(Subject::Key(few.id), NOON.day()).await.unwrap(), 5);
    assert_eq!(counters.used(Subject::Demo, NOON.day()).await.unwrap(), 8);
}

async fn the_demo_has_one_quota_and_no_burst_limit(kind: Kind) {
    let bench = Bench::new(kind).await;
    let counters = bench.open(NOON).await;
    for left in (0..1000).rev() {
        assert_eq!(counters.charge_demo(NOON).await.unwrap().unwrap().remaining, left);
    }
    assert_eq!(counters.charge_demo(NOON).await.unwrap().unwrap_err().remaining, 0);
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    assert_eq!(counters.charge_demo(tomorrow).await.unwrap().unwrap().remaining, 999);
}

async fn the_301st_request_of_a_minute_pauses_the_key_durably(kind: Kind) {
    let (bench, key) = with_key(kind, 10_000).await;
    let counters = bench.open(NOON).await;
    for _ in 0..300 {
        remaining(&counters, &key, NOON).await;
    }
    let charge = counters.charge_key(&key, later(NOON, 59_999)).await.unwrap();
    assert_eq!(charge, KeyCharge::Charged(Charge::BurstExceeded));
    assert_eq!(bench.store.records.key(key.id).await.unwrap().unwrap().state, KeyState::Paused);
    for ms in [0, 60_000, 3_600_000] {
        assert_eq!(counters.charge_key(&key, later(NOON, ms)).await.unwrap(), KeyCharge::Paused);
    }
    assert_eq!(
        counters.used(Subject::Key(key.id), NOON.day()).await.unwrap(),
        301,
        "a paused key is charged nothing"
    );
}

async fn resuming_starts_a_fresh_minute(kind: Kind) {
    let (bench, mut key) = with_key(kind, 10_000).await;
    let counters = bench.open(NOON).await;
    for _ in 0..301 {
        counters.charge_key(&key, NOON).await.unwrap();
    }
    assert!(bench.store.records.resume(key.id).await.unwrap());
    key.resumes = 1;
    for _ in 0..300 {
        remaining(&counters, &key, NOON).await;
    }
    // A request that still holds the key as it was before does not undo the resuming.
    let stale = Key { resumes: 0, state: KeyState::Paused, ..key };
    assert_eq!(counters.charge_key(&stale, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
    assert_eq!(counters.charge_key(&key, NOON).await.unwrap(), KeyCharge::Paused);
}

async fn a_key_paused_by_hand_is_charged_nothing(kind: Kind) {
    let (bench, key) = with_key(kind, 10).await;
    let counters = bench.open(NOON).await;
    let paused = Key { state: KeyState::Paused, ..key };
    assert_eq!(counters.charge_key(&paused, NOON).await.unwrap(), KeyCharge::Paused);
    assert_eq!(remaining(&counters, &key, NOON).await, 9);
}

async fn of_many_at_once_exactly_three_hundred_pass_and_one_pauses(kind: Kind) {
    let (bench, key) = with_key(kind, 10_000).await;
    let counters = bench.open(NOON).await;
    let charges = (0..400).map(|_| {
        let counters = counters.clone();
        tokio::spawn(async move { counters.charge_key(&key, NOON).await.unwrap() })
    });
    let (mut granted, mut burst, mut paused) = (0, 0, 0);
    for charge in charges.collect::<Vec<_>>() {
        match charge.await.unwrap() {
            KeyCharge::Charged(Charge::Granted(_)) => granted += 1,
            KeyCharge::Charged(Charge::BurstExceeded) => burst += 1,
            KeyCharge::Paused => paused += 1,
            KeyCharge::Charged(Charge::DayUsedUp(_)) => panic!("the day is not used up"),
        }
    }
    assert_eq!((granted, burst, paused), (300, 1, 99));
}

async fn the_day_turns_at_midnight_and_never_back(kind: Kind) {
    let (bench, key) = with_key(kind, 10).await;
    let midnight = Now { unix_ms: (i64::from(NOON.day().0) + 1) * DAY_MS, ..NOON };
    let before = Now { unix_ms: midnight.unix_ms - 1, ..NOON };
    let counters = bench.open(NOON).await;
    for left in (7..10).rev() {
        assert_eq!(remaining(&counters, &key, before).await, left);
    }
    assert_eq!(remaining(&counters, &key, midnight).await, 9);
    assert_eq!(remaining(&counters, &key, before).await, 8, "the clock went back, the day does not");
    counters.fold(midnight).await.unwrap();
    let used = async |day| bench.store.records.usage(day).await.unwrap()[0].used;
    assert_eq!((used(before.day()).await, used(midnight.day()).await), (3, 2));
}

async fn charges_survive_the_death_of_the_process_without_one_lost(kind: Kind) {
    let (bench, key) = with_key(kind, 1_000).await;
    let mut left = Vec::new();
    for round in 0..5 {
        // Nothing is folded or closed: what the next one knows, it has from the engine.
        let counters = bench.open(calm(round * 50)).await;
        for step in 0..50 {
            left.push(remaining(&counters, &key, calm(round * 50 + step)).await);
        }
    }
    assert!(left.is_sorted_by(|one, next| one > next), "no number is served twice: {left:?}");
    let withheld = 750 - left[249];
    assert!(withheld <= 4 * kind.withheld_by_a_death(), "{withheld}: {left:?}");
}

async fn the_burst_window_goes_on_after_the_death_of_the_process(kind: Kind) {
    let (bench, key) = with_key(kind, 10_000).await;
    for round in 0..3 {
        let counters = bench.open(later(NOON, round)).await;
        for _ in 0..100 {
            remaining(&counters, &key, later(NOON, round)).await;
        }
    }
    let counters = bench.open(later(NOON, 59_999)).await;
    let charge = counters.charge_key(&key, later(NOON, 59_999)).await.unwrap();
    assert_eq!(charge, KeyCharge::Charged(Charge::BurstExceeded));
}

async fn the_burst_window_goes_on_after_a_clean_stop_and_not_after_a_resume(kind: Kind) {
    let (bench, mut key) = with_key(kind, 10_000).await;
    let counters = bench.open(NOON).await;
    for _ in 0..300 {
        remaining(&counters, &key, NOON).await;
    }
    counters.close(NOON).await.unwrap();
    drop(counters);
    let counters = bench.open(NOON).await;
    assert_eq!(counters.charge_key(&key, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
    bench.store.records.resume(key.id).await.unwrap();
    key.resumes = 1;
    remaining(&counters, &key, NOON).await;
    drop(counters);
    let counters = bench.open(NOON).await;
    for _ in 0..299 {
        remaining(&counters, &key, NOON).await;
    }
    assert_eq!(counters.charge_key(&key, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
}

async fn a_fold_that_fails_loses_nothing(kind: Kind) {
    let (bench, key) = with_key(kind, 500).await;
    let counters = bench.open(NOON).await;
    for step in 0..10 {
        remaining(&counters, &key, calm(step)).await;
    }
    // The database goes away.
    bench.store.records.close().await;
    assert!(counters.fold(calm(10)).await.is_err());
    assert_eq!(remaining(&counters, &key, calm(11)).await, 489, "charging does not need the database");
    drop(counters);
    let records = bench.store.open().await;
    let counters = bench.open_on(&records, calm(12)).await;
    assert_eq!(remaining(&counters, &key, calm(12)).await, 488);
}

async fn a_pause_that_cannot_be_written_is_an_error_and_no_pause(kind: Kind) {
    let (bench, key) = with_key(kind, 10_000).await;
    let counters = bench.open(NOON).await;
    for _ in 0..300 {
        remaining(&counters, &key, NOON).await;
    }
    bench.store.records.close().await;
    assert!(counters.charge_key(&key, NOON).await.is_err());
    assert!(counters.charge_key(&key, NOON).await.is_err());
    // The window moves on, and the key was never paused.
    remaining(&counters, &key, later(NOON, 60_000)).await;
}

async fn a_deleted_key_leaves_no_usage_behind(kind: Kind) {
    let (bench, key) = with_key(kind, 10).await;
    let counters = bench.open(NOON).await;
    remaining(&counters, &key, NOON).await;
    bench.store.records.delete_key(key.id).await.unwrap();
    counters.forget(key.id);
    counters.fold(NOON).await.unwrap();
    assert_eq!(bench.store.records.usage(NOON.day()).await.unwrap(), []);
}
