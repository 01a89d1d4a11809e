//! What owners are told, each thing once.

use crate::{DAY_MS, NOON, Store, email, later};
use ipse_model::{KeyId, Now};
use ipse_store::{Notice, NoticeKind, Records};

/// Writes what a key has used today, as a fold does.
fn use_today(store: &Store, id: KeyId, used: u32) {
    let day = NOON.day().0;
    let sql = format!(
        "INSERT INTO usage VALUES ({id}, {day}, {used}, {used}) ON CONFLICT (subject, day) DO UPDATE SET used = {used}"
    );
    store.ask(&sql);
}

async fn due(records: &Records, now: Now) -> Vec<(NoticeKind, KeyId)> {
    let due = records.due_notices(now).await.unwrap();
    due.into_iter().map(|notice| (notice.kind, notice.key)).collect()
}

#[tokio::test]
async fn a_pause_is_told_once_and_the_next_one_again() {
    let store = super::store().await;
    let records = &store.records;
    let (text, key) = store.key(None).await;
    assert_eq!(due(records, NOON).await, []);
    use_today(&store, key.id, 301);
    records.pause_for_burst(key.id, 0, &[301], NOON).await.unwrap();
    let expected = Notice {
        kind: NoticeKind::Paused,
        key: key.id,
        key_name: "test".to_owned(),
        last_four: text.last_four().to_owned(),
        email: key.account.clone(),
        daily_limit: key.daily_limit,
        used: 301,
        paused_ms: Some(NOON.unix_ms),
    };
    assert_eq!(records.due_notices(NOON).await.unwrap(), [expected]);
    assert_eq!(due(records, NOON).await, []);
    records.resume(key.id).await.unwrap();
    records.pause_for_burst(key.id, 1, &[301], later(NOON, 5)).await.unwrap();
    assert_eq!(due(records, later(NOON, 5)).await, [(NoticeKind::Paused, key.id)]);
}

#[tokio::test]
async fn a_pause_of_long_ago_is_no_news() {
    let store = super::store().await;
    let (_, key) = store.key(None).await;
    store.records.pause(key.id, NOON).await.unwrap();
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    assert_eq!(due(&store.records, tomorrow).await, []);
}

#[tokio::test]
async fn four_fifths_of_the_quota_and_all_of_it_are_told_once_a_day() {
    let store = super::store().await;
    let records = &store.records;
    let (_, key) = store.key(Some(11)).await;
    use_today(&store, key.id, 8);
    assert_eq!(due(records, NOON).await, [], "8 of 11 are less than four fifths");
    use_today(&store, key.id, 9);
    assert_eq!(due(records, NOON).await, [(NoticeKind::EightyPercent, key.id)]);
    use_today(&store, key.id, 10);
    assert_eq!(due(records, NOON).await, []);
    use_today(&store, key.id, 11);
    assert_eq!(due(records, NOON).await, [(NoticeKind::UsedUp, key.id)]);
    assert_eq!(due(records, NOON).await, []);
    // Another day, another quota.
    let tomorrow = Now { unix_ms: NOON.unix_ms + DAY_MS, ..NOON };
    assert_eq!(due(records, tomorrow).await, []);
    store.ask(&format!("INSERT INTO usage VALUES ({}, {}, 9, 9)", key.id, tomorrow.day().0));
    assert_eq!(due(records, tomorrow).await, [(NoticeKind::EightyPercent, key.id)]);
}

#[tokio::test]
async fn who_hears_that_all_is_used_does_not_hear_that_most_of_it_is() {
    let store = super::store().await;
    let (_, key) = store.key(Some(10)).await;
    use_today(&store, key.id, 10);
    assert_eq!(due(&store.records, NOON).await, [(NoticeKind::UsedUp, key.id)]);
    // The operator raises the limit, so that most but not all is used.
    store.records.set_daily_limit(key.id, 12).await.unwrap();
    assert_eq!(due(&store.records, NOON).await, []);
}

#[tokio::test]
async fn who_wants_no_mail_gets_none_even_of_what_came_before() {
    let store = super::store().await;
    let records = &store.records;
    let (_, key) = store.key(Some(10)).await;
    let owner = records.login(&email(&key.account)).await.unwrap().unwrap().id;
    use_today(&store, key.id, 9);
    records.pause(key.id, NOON).await.unwrap();
    records.set_notices(owner, false, false).await.unwrap();
    assert_eq!(due(records, NOON).await, []);
    records.set_notices(owner, true, true).await.unwrap();
    assert_eq!(due(records, NOON).await, [], "it counts as told");
    use_today(&store, key.id, 10);
    records.set_notices(owner, false, true).await.unwrap();
    assert_eq!(due(records, NOON).await, [(NoticeKind::UsedUp, key.id)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_ask_at_once_one_is_told() {
    let store = super::store().await;
    let (_, key) = store.key(Some(10)).await;
    use_today(&store, key.id, 9);
    store.records.pause(key.id, NOON).await.unwrap();
    // Two programs on one folder: each has connections of its own.
    let other = store.open().await;
    let asking = (0..20).map(|i| {
        let records = if i % 2 == 0 { store.records.clone() } else { other.clone() };
        tokio::spawn(async move { due(&records, NOON).await.len() })
    });
    let mut told = 0;
    for asked in asking.collect::<Vec<_>>() {
        told += asked.await.unwrap();
    }
    assert_eq!(told, 2, "the pause and the quota");
}
