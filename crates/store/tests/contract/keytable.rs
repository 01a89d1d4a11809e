//! The key table follows the records.

use crate::NOON;
use ipse_model::{KeyHash, KeyState, Scope};
use ipse_store::KeyTable;

#[tokio::test]
async fn changes_of_another_process_arrive_with_the_next_refresh() {
    let store = super::store().await;
    let (first, _) = store.key(None).await;
    let table = KeyTable::load(&store.records).await.unwrap();
    assert!(table.find(&first.hash(), NOON).is_some());

    let other = store.open().await;
    let (text, key) = {
        let account = crate::email("new@example.com");
        crate::create(&other, &account, Some(5)).await.unwrap()
    };
    assert!(table.find(&text.hash(), NOON).is_none());
    table.refresh(NOON).await.unwrap();
    assert_eq!(table.take_gone(), []);
    let found = table.find(&text.hash(), NOON).unwrap();
    assert_eq!((found.id, found.daily_limit, found.state), (key.id, 5, KeyState::Active));
    let unknown = KeyHash([7; 32]);
    let mut both = [None; 2];
    table.find_all([text.hash(), unknown].into_iter().zip(&mut both));
    assert_eq!(both.map(|key| key.map(|key| key.id)), [Some(key.id), None]);

    other.set_scope(key.id, Scope::Full).await.unwrap();
    other.pause(key.id, NOON).await.unwrap();
    table.refresh(NOON).await.unwrap();
    let found = table.find(&text.hash(), NOON).unwrap();
    assert_eq!((found.scope, found.state, found.resumes), (Scope::Full, KeyState::Paused, 0));

    other.resume(key.id).await.unwrap();
    let rolled = other.roll(key.id, 0, NOON).await.unwrap().unwrap();
    table.refresh(NOON).await.unwrap();
    assert!(table.find(&text.hash(), NOON).is_none(), "the old text is invalid at once");
    assert_eq!(table.find(&rolled.hash(), NOON).unwrap().resumes, 1);

    other.delete_key(key.id).await.unwrap();
    table.refresh(NOON).await.unwrap();
    assert_eq!(table.take_gone(), [key.id]);
    assert!(table.find(&rolled.hash(), NOON).is_none());
    assert_eq!(table.len(), 1);
    table.refresh(NOON).await.unwrap();
    assert_eq!(table.take_gone(), []);
}

#[tokio::test]
async fn deleting_an_account_takes_its_keys_out_of_the_table() {
    let store = super::store().await;
    let account = crate::email("me@example.com");
    for _ in 0..3 {
        crate::create(&store.records, &account, None).await.unwrap();
    }
    let table = KeyTable::load(&store.records).await.unwrap();
    store.records.delete_account(&account).await.unwrap();
    table.refresh(NOON).await.unwrap();
    assert_eq!(table.take_gone().len(), 3);
    assert!(table.is_empty());
}

#[tokio::test]
async fn a_table_that_lags_behind_the_log_compares_everything() {
    let store = super::store().await;
    let (_, doomed) = store.key(None).await;
    let (kept, _) = store.key(None).await;
    let table = KeyTable::load(&store.records).await.unwrap();
    store.records.delete_key(doomed.id).await.unwrap();
    // More changes than the log keeps would take minutes here: forget them as the log does.
    store.ask("DELETE FROM key_changes; UPDATE sequences SET value = value + 1 WHERE name = 'key_change'");
    table.refresh(NOON).await.unwrap();
    assert_eq!(table.take_gone(), [doomed.id]);
    assert!(table.find(&kept.hash(), NOON).is_some() && table.len() == 1);
}

#[tokio::test]
async fn a_key_that_was_made_a_moment_ago_is_found() {
    let store = super::store().await;
    let table = KeyTable::load(&store.records).await.unwrap();
    for _ in 0..5 {
        let (text, _) = store.key(None).await;
        let hash = text.hash();
        assert!(table.find(&hash, NOON).is_none());
        // Many callers at once, of whom one reads for all.
        let finders = (0..20).map(|_| table.find_fresh(&hash, NOON));
        for found in futures_util::future::join_all(finders).await {
            assert!(found.is_some());
        }
    }
    assert!(table.find_fresh(&KeyHash([7; 32]), NOON).await.is_none());
}
