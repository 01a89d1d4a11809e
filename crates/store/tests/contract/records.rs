//! The contract of `Records`.

use crate::{NOON, create, email, later};
use ipse_model::{DAILY_LIMIT, DEMO_DAILY_LIMIT, Day, KeyId, KeyState, Scope};
use ipse_store::{Error, Portion, Subject, Wanted};
use std::collections::HashSet;

/// A calm minute, but for its last second.
const MINUTE: [u32; 60] = {
    let mut minute = [0; 60];
    minute[59] = 301;
    minute
};

#[tokio::test]
async fn a_new_key_is_active_with_the_free_limit() {
    let store = super::store().await;
    let account = email("me@example.com");
    let (text, record) = create(&store.records, &account, None).await.unwrap();
    assert_eq!(record.account, "me@example.com");
    assert_eq!((record.state, record.scope, record.daily_limit), (KeyState::Active, Scope::Geo, DAILY_LIMIT));
    assert_eq!(record.last_four, text.last_four());
    assert_eq!(store.records.key(record.id).await.unwrap(), Some(record));
}

#[tokio::test]
async fn an_account_holds_ten_keys_and_deleting_one_frees_its_place() {
    let store = super::store().await;
    let account = email("me@example.com");
    for _ in 0..10 {
        assert!(create(&store.records, &account, None).await.is_some());
    }
    assert!(create(&store.records, &account, None).await.is_none());
    let keys = store.records.keys(Some(&account)).await.unwrap();
    // Whatever its state, a key that exists counts.
    assert!(store.records.set_active(keys[0].id, false).await.unwrap());
    assert!(create(&store.records, &account, None).await.is_none());
    assert!(store.records.delete_key(keys[0].id).await.unwrap());
    let (_, fresh) = create(&store.records, &account, None).await.unwrap();
    assert!(keys.iter().all(|key| key.id != fresh.id), "a number is never given out again");
    assert!(create(&store.records, &account, None).await.is_none());
}

#[tokio::test]
async fn a_hundred_parallel_creates_end_with_exactly_ten() {
    let store = super::store().await;
    // Two programs on one folder: each has connections of its own.
    let other = store.open().await;
    let creates = (0..100).map(|i| {
        let records = if i % 2 == 0 { store.records.clone() } else { other.clone() };
        tokio::spawn(async move { create(&records, &email("me@example.com"), None).await.is_some() })
    });
    let mut made = 0;
    for create in creates.collect::<Vec<_>>() {
        made += u32::from(create.await.unwrap());
    }
    assert_eq!(made, 10);
    assert_eq!(store.records.keys(Some(&email("me@example.com"))).await.unwrap().len(), 10);
}

#[tokio::test]
async fn states_change_and_say_whether_they_did() {
    let store = super::store().await;
    let records = &store.records;
    let (_, key) = store.key(None).await;
    let state = async || records.key(key.id).await.unwrap().unwrap().state;

    assert!(!records.resume(key.id).await.unwrap(), "it was not paused");
    assert!(records.pause(key.id, NOON).await.unwrap());
    assert!(!records.pause(key.id, later(NOON, 5)).await.unwrap());
    let paused = records.key(key.id).await.unwrap().unwrap();
    assert_eq!((paused.state, paused.paused_ms), (KeyState::Paused, Some(NOON.unix_ms)));

    assert!(records.set_active(key.id, false).await.unwrap());
    assert_eq!(state().await, KeyState::Inactive);
    assert!(!records.set_active(key.id, false).await.unwrap());
    assert!(records.set_active(key.id, true).await.unwrap());
    assert_eq!(state().await, KeyState::Paused, "deactivating is no way around a pause");

    assert!(records.resume(key.id).await.unwrap());
    assert_eq!(state().await, KeyState::Active);
    let none = KeyId(999);
    assert!(!records.pause(none, NOON).await.unwrap() && !records.delete_key(none).await.unwrap());
    assert!(
        records.roll(none, 0, NOON).await.unwrap().is_none() && records.key(none).await.unwrap().is_none()
    );
}

#[tokio::test]
async fn a_burst_does_not_pause_a_key_that_was_resumed_meanwhile() {
    let store = super::store().await;
    let (_, key) = store.key(None).await;
    assert!(store.records.pause_for_burst(key.id, 0, &MINUTE, NOON).await.unwrap());
    assert!(store.records.resume(key.id).await.unwrap());
    assert!(!store.records.pause_for_burst(key.id, 0, &MINUTE, NOON).await.unwrap());
    assert!(store.records.pause_for_burst(key.id, 1, &MINUTE, NOON).await.unwrap());
}

#[tokio::test]
async fn rolling_changes_the_text_and_nothing_else() {
    let store = super::store().await;
    let (old, key) = store.key(Some(77)).await;
    let new = store.records.roll(key.id, 0, NOON).await.unwrap().unwrap();
    assert!(new != old);
    let rolled = store.records.key(key.id).await.unwrap().unwrap();
    assert_eq!(rolled.last_four, new.last_four());
    assert_eq!((rolled.id, rolled.daily_limit, rolled.created_ms), (key.id, 77, key.created_ms));
}

#[tokio::test]
async fn scope_and_limit_can_be_changed_later() {
    let store = super::store().await;
    let (_, key) = store.key(None).await;
    assert!(store.records.set_scope(key.id, Scope::Full).await.unwrap());
    assert!(!store.records.set_scope(key.id, Scope::Full).await.unwrap());
    assert!(store.records.set_daily_limit(key.id, 5).await.unwrap());
    assert!(!store.records.set_daily_limit(key.id, 5).await.unwrap());
    let changed = store.records.key(key.id).await.unwrap().unwrap();
    assert_eq!((changed.scope, changed.daily_limit), (Scope::Full, 5));
}

#[tokio::test]
async fn deleting_an_account_deletes_its_keys_and_no_others() {
    let store = super::store().await;
    let (mine, theirs) = (email("me@example.com"), email("them@example.com"));
    for account in [&mine, &mine, &theirs] {
        create(&store.records, account, None).await.unwrap();
    }
    assert!(!store.records.create_account(&mine, NOON).await.unwrap());
    let counts =
        store.records.accounts().await.unwrap().into_iter().map(|account| (account.email, account.keys));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("me@example.com".to_owned(), 2), ("them@example.com".to_owned(), 1)]
    );
    assert!(store.records.delete_account(&mine).await.unwrap());
    assert!(!store.records.delete_account(&mine).await.unwrap());
    assert_eq!(store.records.keys(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn key_texts_do_not_repeat() {
    let store = super::store().await;
    let mut seen = HashSet::new();
    for _ in 0..20 {
        assert!(seen.insert(store.key(None).await.0.reveal().to_owned()));
    }
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused() {
    let store = super::store().await;
    store.records.close().await;
    store.ask("INSERT INTO schema_migrations VALUES (999)");
    let error = store.database().open().await.unwrap_err();
    assert!(matches!(error, Error::TooNew { .. }) && !error.transient(), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("newer version") && error.contains("999") && !error.contains("pass/word"),
        "{error}"
    );
}

#[tokio::test]
async fn a_day_that_is_spent_leaves_nothing_and_the_next_is_whole() {
    let store = super::store().await;
    let account = email("me@example.com");
    let (_, free) = create(&store.records, &account, None).await.unwrap();
    let (_, small) = create(&store.records, &account, Some(7)).await.unwrap();
    let wanted = |day| {
        [(Subject::Demo, DEMO_DAILY_LIMIT), (Subject::Key(free.id), DAILY_LIMIT), (Subject::Key(small.id), 7)]
            .map(|(subject, limit)| Wanted { subject, day, limit, portion: Portion::Few { waiting: 1 } })
    };
    let is_left = async |day| {
        let ranges = store.records.reserve(&wanted(day)).await.unwrap();
        ranges.iter().map(|range| range.to > range.from).collect::<Vec<_>>()
    };
    assert_eq!(is_left(NOON.day()).await, [true; 3]);
    store.records.spend_day(NOON.day()).await.unwrap();
    assert_eq!(is_left(NOON.day()).await, [false; 3]);
    let used = store.records.usage(NOON.day()).await.unwrap();
    assert_eq!(used.iter().map(|row| row.used).max(), Some(DAILY_LIMIT));
    assert_eq!(is_left(Day(NOON.day().0 + 1)).await, [true; 3]);
}
