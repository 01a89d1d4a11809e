//! What became of requests, as the owner of a key sees it.

use crate::{DAY_MS, NOON, Store, later};
use ipse_model::{Day, Key, KeyId, KeyState, Now, Scope};
use ipse_store::{Counters, Ledger, Outcomes, Records};

const BOOT: &str = "00000000-0000-0000-0000-000000000001";
const NEXT_BOOT: &str = "00000000-0000-0000-0000-000000000002";
const HOUR_MS: u32 = 3_600_000;

async fn with_key(daily_limit: u32) -> (Store, Key) {
    let store = super::store().await;
    let (_, record) = store.key(Some(daily_limit)).await;
    let key = Key { id: record.id, scope: Scope::Geo, state: KeyState::Active, daily_limit, resumes: 0 };
    (store, key)
}

fn outcomes(answered: u64, over_quota: u64, refused: u64) -> Outcomes {
    Outcomes { answered, over_quota, refused }
}

async fn by_day(records: &Records, id: KeyId) -> Vec<(Day, Outcomes)> {
    records.outcomes_by_day(id, Day(0)).await.unwrap()
}

/// Charges some requests, far enough apart that no burst comes of them, and returns the moment after them.
async fn charge(ledger: &Ledger, key: &Key, count: u32, from: Now) -> Now {
    for step in 0..count {
        ledger.charge_key(key, later(from, step * 250)).await.unwrap();
    }
    later(from, count * 250)
}

#[tokio::test]
async fn every_outcome_is_told_by_day_and_by_hour() {
    let (store, key) = with_key(10).await;
    let ledger = store.ledger(BOOT, NOON).await;
    charge(&ledger, &key, 12, NOON).await;
    ledger.fold(later(NOON, 5000)).await.unwrap();
    ledger.note_refusal(key.id, later(NOON, HOUR_MS));
    let paused = Key { state: KeyState::Paused, ..key };
    ledger.charge_key(&paused, later(NOON, HOUR_MS)).await.unwrap();
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, boot_ms: NOON.boot_ms + 86_400_000 };
    charge(&ledger, &key, 1, tomorrow).await;
    ledger.fold(tomorrow).await.unwrap();
    let records = &store.records;
    let today = NOON.day();
    let expected = [(today, outcomes(10, 2, 2)), (Day(today.0 + 1), outcomes(1, 0, 0))];
    assert_eq!(by_day(records, key.id).await, expected);
    assert_eq!(records.outcomes_by_day(key.id, Day(today.0 + 1)).await.unwrap(), expected[1..]);
    let hours = records.outcomes_by_hour(key.id, today).await.unwrap();
    assert_eq!(hours, [(12, outcomes(10, 2, 0)), (13, outcomes(0, 0, 2))]);
    // A fold without news adds nothing.
    ledger.fold(tomorrow).await.unwrap();
    assert_eq!(by_day(records, key.id).await, expected);
}

#[tokio::test]
async fn the_request_that_pauses_a_key_and_those_behind_it_are_refused() {
    let (store, key) = with_key(10_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for _ in 0..310 {
        ledger.charge_key(&key, NOON).await.unwrap();
    }
    ledger.close(NOON).await.unwrap();
    assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), outcomes(300, 0, 10))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_none_is_lost_while_folding_goes_on() {
    let (store, key) = with_key(200).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let charges = (0..400).map(|_| {
        let ledger = std::sync::Arc::clone(&ledger);
        tokio::spawn(async move { ledger.charge_key(&key, NOON).await.unwrap() })
    });
    for charge in charges.collect::<Vec<_>>() {
        charge.await.unwrap();
        ledger.fold(NOON).await.unwrap();
    }
    ledger.close(NOON).await.unwrap();
    assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), outcomes(200, 100, 100))]);
}

#[tokio::test]
async fn the_demo_has_no_owner_to_be_told_anything() {
    let store = super::store().await;
    let ledger = store.ledger(BOOT, NOON).await;
    ledger.charge_demo(NOON).await.unwrap().unwrap();
    ledger.close(NOON).await.unwrap();
    assert_eq!(store.ask("SELECT COUNT(*) FROM outcomes_by_day"), "0");
}

#[tokio::test]
async fn a_clean_stop_loses_no_outcome() {
    let (store, key) = with_key(5).await;
    for round in 1..=3 {
        let ledger = store.ledger(if round == 2 { NEXT_BOOT } else { BOOT }, NOON).await;
        charge(&ledger, &key, 1, later(NOON, round * 1000)).await;
        ledger.note_refusal(key.id, NOON);
        ledger.close(later(NOON, 5000)).await.unwrap();
        let expected = outcomes(round.into(), 0, round.into());
        assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), expected)]);
    }
}

#[tokio::test]
async fn answers_survive_the_death_of_the_process() {
    let (store, key) = with_key(20).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let now = charge(&ledger, &key, 7, NOON).await;
    ledger.fold(now).await.unwrap();
    let now = charge(&ledger, &key, 9, now).await;
    // Nothing is folded or closed: what the next one knows, it has from the journal.
    drop(ledger);
    let ledger = store.ledger(BOOT, later(now, HOUR_MS)).await;
    assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), outcomes(16, 0, 0))]);
    let hours = store.records.outcomes_by_hour(key.id, NOON.day()).await.unwrap();
    assert_eq!(hours, [(12, outcomes(16, 0, 0))], "in the hour in which they were made");
    // Nor is one counted twice by whoever starts next.
    drop(ledger);
    let ledger = store.ledger(BOOT, later(now, HOUR_MS)).await;
    charge(&ledger, &key, 6, later(now, HOUR_MS)).await;
    drop(ledger);
    let ledger = store.ledger(BOOT, later(now, HOUR_MS + 5000)).await;
    assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), outcomes(20, 2, 0))]);
    drop(ledger);
}

// A transaction that failed is taken back by a task of its own, while this one waits for the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fold_that_fails_is_made_good_by_the_next() {
    let (store, key) = with_key(20).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let now = charge(&ledger, &key, 3, NOON).await;
    ledger.note_refusal(key.id, now);
    store.ask("ALTER TABLE outcomes_by_hour RENAME TO away");
    assert!(ledger.fold(now).await.is_err());
    let now = charge(&ledger, &key, 2, now).await;
    store.ask("ALTER TABLE away RENAME TO outcomes_by_hour");
    ledger.fold(now).await.unwrap();
    assert_eq!(by_day(&store.records, key.id).await, [(NOON.day(), outcomes(5, 0, 1))]);
    assert_eq!(store.records.usage(NOON.day()).await.unwrap()[0].used, 5);
}

#[tokio::test]
async fn a_deleted_key_leaves_no_outcomes_behind() {
    let (store, key) = with_key(10).await;
    let ledger = store.ledger(BOOT, NOON).await;
    charge(&ledger, &key, 3, NOON).await;
    store.records.delete_key(key.id).await.unwrap();
    ledger.fold(NOON).await.unwrap();
    assert_eq!(by_day(&store.records, key.id).await, []);
}
