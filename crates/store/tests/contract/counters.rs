//! The contract of `Counters`, and what the ledger promises beyond it.

use crate::{DAY_MS, NOON, Store, later};
use ipse_model::{Charge, DayAllowance, Key, KeyId, KeyState, Now, Scope};
use ipse_store::{Counters, KeyCharge, Ledger, Subject, used_in_journal};
use std::fs;
use std::sync::Arc;

const BOOT: &str = "00000000-0000-0000-0000-000000000001";
const NEXT_BOOT: &str = "00000000-0000-0000-0000-000000000002";

fn key(id: KeyId, daily_limit: u32) -> Key {
    Key { id, scope: Scope::Geo, state: KeyState::Active, daily_limit, resumes: 0 }
}

/// A store with one key, and that key as the table would give it.
async fn with_key(daily_limit: u32) -> (Store, Key) {
    let store = super::store().await;
    let (_, record) = store.key(Some(daily_limit)).await;
    (store, key(record.id, daily_limit))
}

async fn remaining(counters: &impl Counters, key: &Key, now: Now) -> u32 {
    match counters.charge_key(key, now).await.unwrap() {
        KeyCharge::Charged(Charge::Granted(allowance)) => allowance.remaining,
        other => panic!("not granted: {other:?}"),
    }
}

/// Moments far enough apart that no burst comes of them.
fn calm(step: u32) -> Now {
    later(NOON, step * 250)
}

#[tokio::test]
async fn a_day_has_as_many_answers_as_its_limit() {
    let (store, key) = with_key(100).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for left in (0..100).rev() {
        assert_eq!(remaining(&*ledger, &key, calm(100 - left)).await, left);
    }
    let used_up = DayAllowance { limit: 100, remaining: 0, day: NOON.day() };
    for step in 101..120 {
        let charge = ledger.charge_key(&key, calm(step)).await.unwrap();
        assert_eq!(charge, KeyCharge::Charged(Charge::DayUsedUp(used_up)));
    }
    assert_eq!(ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap(), 100);
}

#[tokio::test]
async fn the_demo_has_one_quota_and_no_burst_limit() {
    let store = super::store().await;
    let ledger = store.ledger(BOOT, NOON).await;
    for left in (0..1000).rev() {
        assert_eq!(ledger.charge_demo(NOON).await.unwrap().unwrap().remaining, left);
    }
    assert_eq!(ledger.charge_demo(NOON).await.unwrap().unwrap_err().remaining, 0);
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    assert_eq!(ledger.charge_demo(tomorrow).await.unwrap().unwrap().remaining, 999);
}

#[tokio::test]
async fn the_301st_request_of_a_minute_pauses_the_key_durably() {
    let (store, key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..300 {
        remaining(&*ledger, &key, NOON).await;
    }
    let charge = ledger.charge_key(&key, later(NOON, 59_999)).await.unwrap();
    assert_eq!(charge, KeyCharge::Charged(Charge::BurstExceeded));
    assert_eq!(store.records.key(key.id).await.unwrap().unwrap().state, KeyState::Paused);
    for ms in [0, 60_000, 3_600_000] {
        assert_eq!(ledger.charge_key(&key, later(NOON, ms)).await.unwrap(), KeyCharge::Paused);
    }
    assert_eq!(
        ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap(),
        301,
        "a paused key is charged nothing"
    );
}

#[tokio::test]
async fn resuming_starts_a_fresh_minute() {
    let (store, mut key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..301 {
        ledger.charge_key(&key, NOON).await.unwrap();
    }
    assert!(store.records.resume(key.id).await.unwrap());
    key.resumes = 1;
    for _ in 0..300 {
        remaining(&*ledger, &key, NOON).await;
    }
    // A request that still holds the key as it was before does not undo the resuming.
    let stale = Key { resumes: 0, state: KeyState::Paused, ..key };
    assert_eq!(ledger.charge_key(&stale, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
    assert_eq!(ledger.charge_key(&key, NOON).await.unwrap(), KeyCharge::Paused);
}

#[tokio::test]
async fn a_key_paused_by_hand_is_charged_nothing() {
    let (store, key) = with_key(10).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let paused = Key { state: KeyState::Paused, ..key };
    assert_eq!(ledger.charge_key(&paused, NOON).await.unwrap(), KeyCharge::Paused);
    assert_eq!(remaining(&*ledger, &key, NOON).await, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_exactly_three_hundred_pass_and_one_pauses() {
    let (store, key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let charges = (0..400).map(|_| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move { ledger.charge_key(&key, NOON).await.unwrap() })
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

#[tokio::test]
async fn the_day_turns_at_midnight_and_never_back() {
    let (store, key) = with_key(10).await;
    let midnight = Now { unix_ms: (i64::from(NOON.day().0) + 1) * DAY_MS, ..NOON };
    let before = Now { unix_ms: midnight.unix_ms - 1, ..NOON };
    let ledger = store.ledger(BOOT, NOON).await;
    for left in (7..10).rev() {
        assert_eq!(remaining(&*ledger, &key, before).await, left);
    }
    assert_eq!(remaining(&*ledger, &key, midnight).await, 9);
    assert_eq!(remaining(&*ledger, &key, before).await, 8, "the clock went back, the day does not");
    ledger.fold(midnight).await.unwrap();
    let used = async |day| store.records.usage(day).await.unwrap()[0].used;
    assert_eq!((used(before.day()).await, used(midnight.day()).await), (3, 2));
}

#[tokio::test]
async fn a_clock_set_back_before_a_start_serves_no_day_twice() {
    let (store, key) = with_key(10).await;
    let today = later(NOON, 1000);
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..today };
    let ledger = store.ledger(BOOT, NOON).await;
    assert_eq!(remaining(&*ledger, &key, NOON).await, 9);
    assert_eq!(remaining(&*ledger, &key, tomorrow).await, 9);
    drop(ledger);
    // The next program finds the clock where it was before: that day goes on, and so does the one after it.
    let ledger = store.ledger(BOOT, today).await;
    assert_eq!(remaining(&*ledger, &key, today).await, 8);
    assert_eq!(remaining(&*ledger, &key, tomorrow).await, 8);
}

#[tokio::test]
async fn charges_survive_the_death_of_the_process_without_one_lost() {
    let (store, key) = with_key(500).await;
    let mut expected = 500;
    for round in 0..5 {
        // Nothing is folded or closed: what the next one knows, it has from the journal.
        let ledger = store.ledger(BOOT, calm(round * 50)).await;
        for step in 0..50 {
            expected -= 1;
            assert_eq!(remaining(&*ledger, &key, calm(round * 50 + step)).await, expected);
        }
    }
    let used = used_in_journal(&store.folder, ipse_store::BootId::parse(BOOT), NOON.day()).unwrap();
    assert_eq!(used[&Subject::Key(key.id)], 250);
}

#[tokio::test]
async fn the_burst_window_goes_on_after_the_death_of_the_process() {
    let (store, key) = with_key(10_000).await;
    for round in 0..3 {
        let ledger = store.ledger(BOOT, later(NOON, round)).await;
        for _ in 0..100 {
            remaining(&*ledger, &key, later(NOON, round)).await;
        }
    }
    let ledger = store.ledger(BOOT, later(NOON, 59_999)).await;
    let charge = ledger.charge_key(&key, later(NOON, 59_999)).await.unwrap();
    assert_eq!(charge, KeyCharge::Charged(Charge::BurstExceeded));
}

#[tokio::test]
async fn the_burst_window_goes_on_after_a_clean_stop_and_not_after_a_resume() {
    let (store, mut key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..300 {
        remaining(&*ledger, &key, NOON).await;
    }
    ledger.close(NOON).await.unwrap();
    drop(ledger);
    let ledger = store.ledger(BOOT, NOON).await;
    assert_eq!(ledger.charge_key(&key, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
    store.records.resume(key.id).await.unwrap();
    key.resumes = 1;
    remaining(&*ledger, &key, NOON).await;
    drop(ledger);
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..299 {
        remaining(&*ledger, &key, NOON).await;
    }
    assert_eq!(ledger.charge_key(&key, NOON).await.unwrap(), KeyCharge::Charged(Charge::BurstExceeded));
}

#[tokio::test]
async fn after_a_new_boot_nothing_is_served_twice_and_at_most_64_are_withheld() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let mut served = 0;
    for step in 0..200 {
        remaining(&*ledger, &key, calm(step)).await;
        served += 1;
    }
    drop(ledger);
    let ledger = store.ledger(NEXT_BOOT, calm(200)).await;
    let used = ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap();
    assert!((served..=served + 64).contains(&used), "{used}");
    // From there it goes on, and ends at the limit.
    let mut step = 200;
    while let KeyCharge::Charged(Charge::Granted(_)) = ledger.charge_key(&key, calm(step)).await.unwrap() {
        served += 1;
        step += 1;
    }
    assert!((500 - 64..=500).contains(&served), "{served}");
}

#[tokio::test]
async fn a_clean_stop_withholds_nothing_even_after_a_new_boot() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for step in 0..10 {
        remaining(&*ledger, &key, calm(step)).await;
    }
    ledger.close(calm(10)).await.unwrap();
    drop(ledger);
    let ledger = store.ledger(NEXT_BOOT, calm(11)).await;
    assert_eq!(remaining(&*ledger, &key, calm(12)).await, 489);
}

#[tokio::test]
async fn folding_writes_the_counts_and_lets_old_segments_go() {
    let (store, key) = with_key(5_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let segments = || fs::read_dir(store.folder.journal()).unwrap().count();
    for minute in 0..10 {
        for step in 0..100 {
            remaining(&*ledger, &key, later(NOON, minute * 60_000 + step * 250)).await;
        }
        let now = later(NOON, minute * 60_000 + 30_000);
        ledger.fold(now).await.unwrap();
        assert_eq!(store.records.usage(NOON.day()).await.unwrap()[0].used, (minute + 1) * 100);
        assert!(segments() <= 4, "{} segments after {minute} minutes", segments());
    }
    drop(ledger);
    let ledger = store.ledger(BOOT, later(NOON, 600_000)).await;
    assert_eq!(remaining(&*ledger, &key, later(NOON, 600_000)).await, 3_999);
    assert_eq!(segments(), 1, "what was recovered is folded");
}

#[tokio::test]
async fn a_fold_that_fails_loses_nothing() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for step in 0..10 {
        remaining(&*ledger, &key, calm(step)).await;
    }
    // The database goes away.
    store.records.close().await;
    assert!(ledger.fold(calm(10)).await.is_err());
    assert_eq!(remaining(&*ledger, &key, calm(11)).await, 489, "charging does not need the database");
    drop(ledger);
    let records = store.open().await;
    let ledger =
        Ledger::open(&store.folder, &records, ipse_store::BootId::parse(BOOT), calm(12)).await.unwrap();
    assert_eq!(remaining(&*ledger, &key, calm(12)).await, 488);
}

#[tokio::test]
async fn a_pause_that_cannot_be_written_is_an_error_and_no_pause() {
    let (store, key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..300 {
        remaining(&*ledger, &key, NOON).await;
    }
    store.records.close().await;
    assert!(ledger.charge_key(&key, NOON).await.is_err());
    assert!(ledger.charge_key(&key, NOON).await.is_err());
    // The window moves on, and the key was never paused.
    remaining(&*ledger, &key, later(NOON, 60_000)).await;
}

#[tokio::test]
async fn a_deleted_key_leaves_no_usage_behind() {
    let (store, key) = with_key(10).await;
    let ledger = store.ledger(BOOT, NOON).await;
    remaining(&*ledger, &key, NOON).await;
    store.records.delete_key(key.id).await.unwrap();
    ledger.forget(key.id);
    ledger.fold(NOON).await.unwrap();
    assert_eq!(store.records.usage(NOON.day()).await.unwrap(), []);
}
