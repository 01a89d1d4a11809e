//! What the ledger promises beyond the contract of counters.

use super::counters::{BOOT, calm, key, remaining};
use crate::{DAY_MS, NOON, Store, later};
use ipse_model::{Charge, Key, Now};
use ipse_store::{Counters, KeyCharge, Subject, used_in_journal};
use std::fs;

const NEXT_BOOT: &str = "00000000-0000-0000-0000-000000000002";

/// A store with one key, and that key as the table would give it.
async fn with_key(daily_limit: u32) -> (Store, Key) {
    let store = super::store().await;
    let (_, record) = store.key(Some(daily_limit)).await;
    (store, key(record.id, daily_limit))
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
async fn a_clock_that_was_ahead_at_the_start_serves_no_day_twice() {
    let (store, key) = with_key(10).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for left in (0..10).rev() {
        assert_eq!(remaining(&*ledger, &key, NOON).await, left);
    }
    drop(ledger);
    // The program is started before the clock is set right: it stays on the day that it found.
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..later(NOON, 1000) };
    let ledger = store.ledger(BOOT, tomorrow).await;
    let KeyCharge::Charged(Charge::Granted(allowance)) =
        ledger.charge_key(&key, later(NOON, 2000)).await.unwrap()
    else {
        panic!("not granted");
    };
    assert_eq!((allowance.day, allowance.remaining), (tomorrow.day(), 9));
}

#[tokio::test]
async fn marks_of_a_day_count_when_the_clock_comes_back_to_it_after_a_new_boot() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for step in 0..10 {
        remaining(&*ledger, &key, calm(step)).await;
    }
    drop(ledger);
    // What came after the last sync is lost, and the clock is a day ahead.
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    drop(store.ledger(NEXT_BOOT, tomorrow).await);
    for _ in 0..2 {
        let ledger = store.ledger(NEXT_BOOT, calm(20)).await;
        let used = ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap();
        assert_eq!(used, 64, "the mark, and the same again in this boot");
    }
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
async fn the_journal_tells_what_was_not_folded() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for step in 0..250 {
        remaining(&*ledger, &key, calm(step)).await;
    }
    let used = used_in_journal(&store.folder, ipse_store::BootId::parse(BOOT), NOON.day()).unwrap();
    assert_eq!(used[&Subject::Key(key.id)], 250);
}
