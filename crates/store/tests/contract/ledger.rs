//! What the ledger promises beyond the contract of counters.

use super::counters::{BOOT, calm, key, remaining};
use crate::{DAY_MS, NOON, Store, later};
use ipse_model::KeyState;
use ipse_model::{Charge, Key, KeyId, Now};
use ipse_store::{Counters, KeyCharge, Ledger, Subject, Unwritten, used_in_journal};
use std::fs;
use std::sync::Arc;
use tokio::task::JoinSet;

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

/// Grants one request, if the ledger does, and says what remains.
fn granted(ledger: &Ledger, key: &Key, now: Now, unwritten: &mut Unwritten) -> Option<u32> {
    ledger.grant_key(key, now, unwritten).map(|allowance| allowance.remaining)
}

#[tokio::test]
async fn what_is_granted_and_written_is_counted_like_any_charge() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let mut unwritten = Unwritten::default();
    let mut grants = 0;
    for step in 0..500 {
        let left = 499 - step;
        match granted(&ledger, &key, calm(step), &mut unwritten) {
            Some(remaining) => {
                assert_eq!(remaining, left);
                grants += 1;
            }
            // Whoever can wait is asked where this moment is not enough.
            None => assert_eq!(remaining(&*ledger, &key, calm(step)).await, left),
        }
        if step % 7 == 0 {
            ledger.write(&mut unwritten).unwrap();
        }
    }
    assert!(grants > 400, "{grants}");
    assert_eq!(granted(&ledger, &key, calm(500), &mut unwritten), None, "the day is used up");
    ledger.write(&mut unwritten).unwrap();
    drop(ledger);
    let ledger = store.ledger(BOOT, calm(501)).await;
    assert_eq!(ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap(), 500);
}

#[tokio::test]
async fn what_was_granted_and_never_written_was_never_answered() {
    let (store, key) = with_key(500).await;
    let ledger = store.ledger(BOOT, NOON).await;
    assert_eq!(remaining(&*ledger, &key, calm(0)).await, 499);
    let mut unwritten = Unwritten::default();
    assert_eq!(granted(&ledger, &key, calm(1), &mut unwritten), Some(498));
    ledger.write(&mut unwritten).unwrap();
    assert_eq!(granted(&ledger, &key, calm(2), &mut unwritten), Some(497));
    drop(ledger);
    let ledger = store.ledger(BOOT, calm(3)).await;
    assert_eq!(ledger.used(Subject::Key(key.id), NOON.day()).await.unwrap(), 2);
}

#[tokio::test]
async fn only_what_needs_nothing_but_this_moment_is_granted() {
    let (store, key) = with_key(1_000).await;
    let ledger = store.ledger(BOOT, NOON).await;
    let mut unwritten = Unwritten::default();
    assert_eq!(granted(&ledger, &key, NOON, &mut unwritten), None, "no mark is on the disk");
    remaining(&*ledger, &key, NOON).await;
    assert_eq!(granted(&ledger, &key, NOON, &mut unwritten), Some(998));
    let paused = Key { state: KeyState::Paused, ..key };
    assert_eq!(granted(&ledger, &paused, NOON, &mut unwritten), None);
    let resumed = Key { resumes: 1, ..key };
    assert_eq!(granted(&ledger, &resumed, NOON, &mut unwritten), None, "its minute is to be cleared");
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    assert_eq!(granted(&ledger, &key, tomorrow, &mut unwritten), None, "the day is to be turned");
    // The rest of the minute, with marks that are raised in between.
    let mut answered = 2;
    while answered < 300 {
        if granted(&ledger, &key, NOON, &mut unwritten).is_none() {
            remaining(&*ledger, &key, NOON).await;
        }
        answered += 1;
    }
    assert_eq!(granted(&ledger, &key, NOON, &mut unwritten), None, "one more pauses the key");
    ledger.write(&mut unwritten).unwrap();
    let charge = ledger.charge_key(&key, NOON).await.unwrap();
    assert_eq!(charge, KeyCharge::Charged(Charge::BurstExceeded));
    assert_eq!(granted(&ledger, &key, later(NOON, 60_000), &mut unwritten), None, "it is paused");
}

#[tokio::test]
async fn the_demo_is_granted_within_its_mark() {
    let store = super::store().await;
    let ledger = store.ledger(BOOT, NOON).await;
    let mut unwritten = Unwritten::default();
    assert!(ledger.grant_demo(NOON, &mut unwritten).is_none());
    assert_eq!(ledger.charge_demo(NOON).await.unwrap().unwrap().remaining, 999);
    assert_eq!(ledger.grant_demo(NOON, &mut unwritten).unwrap().remaining, 998);
    ledger.write(&mut unwritten).unwrap();
    drop(ledger);
    let ledger = store.ledger(BOOT, NOON).await;
    assert_eq!(ledger.charge_demo(NOON).await.unwrap().unwrap().remaining, 997);
}

#[tokio::test]
async fn many_keys_are_folded_in_turns_and_none_is_forgotten() {
    // In five turns.
    const KEYS: i64 = 4_500;
    let store = super::store().await;
    let ledger = store.ledger(BOOT, NOON).await;
    let key = |number: i64| key(KeyId(number), 10);
    let mut charges = JoinSet::new();
    for number in 1..=KEYS {
        let ledger = Arc::clone(&ledger);
        charges.spawn(async move { remaining(&*ledger, &key(number), NOON).await });
    }
    charges.join_all().await;
    let segments = || fs::read_dir(store.folder.journal()).unwrap().count();
    // What is old is left, and deleted only when all keys had their turn.
    let mut seen = Vec::new();
    for turn in 0..5 {
        ledger.fold(later(NOON, 120_000 + turn * 60_000)).await.unwrap();
        seen.push(segments());
    }
    assert_eq!(seen, [1, 2, 2, 2, 1]);
}

#[tokio::test]
async fn however_many_keys_have_news_each_is_written_once() {
    // A number that no way to cut rows into parts divides evenly.
    const KEYS: i64 = 681;
    let (store, first) = with_key(1_000).await;
    let account = "(SELECT MIN(id) FROM accounts)";
    store.ask(&format!(
        "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {KEYS}) \
         INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, resumes, created_ms) \
         SELECT i, {account}, 'key', 'hash of ' || i, '0000', 'geo', 1000, 1, 0, 0 FROM numbers WHERE i <> {}",
        first.id,
    ));
    let ledger = store.ledger(BOOT, NOON).await;
    let mut charges = JoinSet::new();
    for number in 1..=KEYS {
        let ledger = Arc::clone(&ledger);
        charges.spawn(async move {
            for _ in 0..=number % 3 {
                remaining(&*ledger, &key(KeyId(number), 1_000), NOON).await;
            }
        });
    }
    charges.join_all().await;
    let expected = (1..=KEYS).map(|number| number * (1 + number % 3)).sum::<i64>().to_string();
    ledger.fold(NOON).await.unwrap();
    let sums = || {
        [
            "SELECT SUM(subject * used) FROM usage",
            "SELECT SUM(key_id * answered) FROM outcomes_by_day",
            "SELECT SUM(key_id * answered) FROM outcomes_by_hour",
        ]
        .map(|sql| store.ask(sql))
    };
    assert_eq!(sums(), [(); 3].map(|()| expected.clone()));
    let above = || store.ask("SELECT COUNT(*) FROM usage WHERE mark > used");
    assert_eq!(above(), KEYS.to_string());
    ledger.close(NOON).await.unwrap();
    assert_eq!(sums(), [(); 3].map(|()| expected.clone()));
    assert_eq!(above(), "0");
}
