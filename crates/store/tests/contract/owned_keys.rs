//! Keys as their owners see and change them.

use crate::{NOON, later, sign_up};
use ipse_model::{DAILY_LIMIT, KeyId, KeyState, KeyText, Scope};
use ipse_store::{AccountId, Counters, Created, KeyRecord, KeyTable, OldText, Records};

async fn create(records: &Records, account: AccountId) -> Option<(KeyText, KeyRecord)> {
    match records.create_key_of(account, "shop", Scope::Ip, NOON).await.unwrap() {
        Created::Key { text, record } => Some((text, record)),
        Created::AccountIsFull => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_parallel_creates_of_one_owner_end_with_exactly_ten() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    // Two programs on one folder: each has connections of its own.
    let other = store.open().await;
    let creates = (0..100).map(|i| {
        let records = if i % 2 == 0 { store.records.clone() } else { other.clone() };
        tokio::spawn(async move { create(&records, me).await.is_some() })
    });
    let mut made = 0;
    for create in creates.collect::<Vec<_>>() {
        made += u32::from(create.await.unwrap());
    }
    assert_eq!(made, 10);
    assert_eq!(store.records.keys_of(me).await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_key_of_somebody_else_is_as_one_that_does_not_exist() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    let (text, theirs) = create(records, them).await.unwrap();
    let before = records.key_of(them, theirs.id).await.unwrap().unwrap();
    assert_eq!((before.record.scope, before.record.daily_limit), (Scope::Ip, DAILY_LIMIT));
    for id in [theirs.id, KeyId(999)] {
        assert_eq!(records.key_of(me, id).await.unwrap(), None);
        assert!(!records.rename(me, id, "mine").await.unwrap());
        assert!(!records.set_scope_of(me, id, Scope::Full).await.unwrap());
        assert!(!records.set_active_of(me, id, false).await.unwrap());
        assert_eq!(records.roll_of(me, id, 0, NOON).await.unwrap(), None);
        assert_eq!(records.roll_of(me, id, 1000, NOON).await.unwrap(), None);
        assert!(!records.delete_key_of(me, id).await.unwrap());
    }
    assert_eq!(records.key_of(them, theirs.id).await.unwrap(), Some(before));
    let table = KeyTable::load(records).await.unwrap();
    assert!(table.find(&text.hash(), NOON).is_some());
    records.pause(theirs.id, NOON).await.unwrap();
    assert!(!records.resume_of(me, theirs.id).await.unwrap());
    assert_eq!(records.key(theirs.id).await.unwrap().unwrap().state, KeyState::Paused);
    assert_eq!(records.keys_of(me).await.unwrap(), []);
}

#[tokio::test]
async fn owners_change_their_keys() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let (_, key) = create(records, me).await.unwrap();
    let record = async || records.key_of(me, key.id).await.unwrap().unwrap().record;
    assert_eq!(record().await, key);
    assert!(records.rename(me, key.id, "<script>").await.unwrap());
    assert!(records.set_scope_of(me, key.id, Scope::Full).await.unwrap());
    assert!(!records.set_scope_of(me, key.id, Scope::Full).await.unwrap(), "it had it already");
    let changed = record().await;
    assert_eq!((changed.name.as_str(), changed.scope), ("<script>", Scope::Full));
    assert!(records.set_active_of(me, key.id, false).await.unwrap());
    assert_eq!(record().await.state, KeyState::Inactive);
    assert!(records.set_active_of(me, key.id, true).await.unwrap());
    assert!(!records.resume_of(me, key.id).await.unwrap(), "it is not paused");
    records.pause(key.id, NOON).await.unwrap();
    assert!(records.resume_of(me, key.id).await.unwrap());
    assert_eq!(record().await.state, KeyState::Active);
    assert!(records.delete_key_of(me, key.id).await.unwrap());
    assert_eq!(records.key_of(me, key.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_rolled_key_works_under_both_texts_until_the_old_one_ends() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let (first, key) = create(records, me).await.unwrap();
    let table = KeyTable::load(records).await.unwrap();
    let second = records.roll_of(me, key.id, 1000, NOON).await.unwrap().unwrap();
    table.refresh(NOON).await.unwrap();
    let (last, after) = (later(NOON, 999), later(NOON, 1000));
    for table in [&table, &KeyTable::load(records).await.unwrap()] {
        assert_eq!(table.find(&first.hash(), last).unwrap().id, key.id);
        assert!(table.find(&first.hash(), after).is_none() && table.find(&second.hash(), after).is_some());
        assert!(table.find_fresh(&first.hash(), after).await.is_none());
        assert_eq!(table.len(), 1, "it is one key");
    }
    let old = records.key_of(me, key.id).await.unwrap().unwrap().old_text;
    let expected = OldText { last_four: first.last_four().to_owned(), ends_ms: NOON.unix_ms + 1000 };
    assert_eq!(old, Some(expected));

    // What changes of the key changes under both texts.
    records.set_scope_of(me, key.id, Scope::Full).await.unwrap();
    table.refresh(last).await.unwrap();
    assert_eq!(table.find(&first.hash(), last).unwrap().scope, Scope::Full);

    // Only the latest old text lives on.
    let third = records.roll_of(me, key.id, 5000, last).await.unwrap().unwrap();
    table.refresh(last).await.unwrap();
    assert!(table.find(&first.hash(), last).is_none());
    assert!(
        table.find(&second.hash(), later(last, 4999)).is_some() && table.find(&third.hash(), last).is_some()
    );
    let fourth = records.roll_of(me, key.id, 0, last).await.unwrap().unwrap();
    table.refresh(last).await.unwrap();
    assert!(table.find(&second.hash(), last).is_none() && table.find(&third.hash(), last).is_none());
    assert!(table.find(&fourth.hash(), last).is_some());
    assert_eq!(records.key_of(me, key.id).await.unwrap().unwrap().old_text, None);
}

#[tokio::test]
async fn an_old_text_goes_with_its_key_and_with_its_time() {
    let store = super::store().await;
    let records = &store.records;
    let (first, key) = store.key(None).await;
    let table = KeyTable::load(records).await.unwrap();
    records.roll(key.id, 1000, NOON).await.unwrap().unwrap();
    table.refresh(NOON).await.unwrap();
    // A refresh after its end forgets it: even a clock that was set back finds nothing.
    table.refresh(later(NOON, 1000)).await.unwrap();
    assert!(table.find(&first.hash(), NOON).is_none());
    let (first, key) = store.key(None).await;
    records.roll(key.id, 1000, NOON).await.unwrap().unwrap();
    table.refresh(NOON).await.unwrap();
    assert!(table.find(&first.hash(), NOON).is_some());
    records.delete_key(key.id).await.unwrap();
    table.refresh(NOON).await.unwrap();
    assert!(table.find(&first.hash(), NOON).is_none());
    assert_eq!(table.take_gone(), [key.id]);
}

#[tokio::test]
async fn a_pause_tells_the_minute_that_did_it() {
    let store = super::store().await;
    let records = &store.records;
    let me = sign_up(records, "me@example.com").await;
    let (text, key) = create(records, me).await.unwrap();
    let table = KeyTable::load(records).await.unwrap();
    let found = table.find(&text.hash(), NOON).unwrap();
    let ledger = store.ledger("00000000-0000-0000-0000-000000000001", NOON).await;
    // One a second for twenty seconds, then all at once.
    for second in 0..20 {
        ledger.charge_key(&found, later(NOON, second * 1000)).await.unwrap();
    }
    let burst = later(NOON, 40_500);
    for _ in 0..281 {
        ledger.charge_key(&found, burst).await.unwrap();
    }
    let owned = records.key_of(me, key.id).await.unwrap().unwrap();
    assert_eq!(owned.record.paused_ms, Some(burst.unix_ms));
    let minute = owned.pause_minute.unwrap();
    assert_eq!((minute.len(), minute.iter().sum::<u32>(), minute[59]), (60, 301, 281));
    assert_eq!(minute[19..39], [1; 20], "{minute:?}");
    assert_eq!(owned.last_used, None, "nothing is folded yet");
    ledger.fold(burst).await.unwrap();
    assert_eq!(records.key_of(me, key.id).await.unwrap().unwrap().last_used, Some(NOON.day()));
    let noted = records.activity(me, 1).await.unwrap();
    assert_eq!(
        (noted[0].what.as_str(), noted[0].key, noted[0].at_ms),
        ("key_paused", Some(key.id), burst.unix_ms)
    );

    records.resume_of(me, key.id).await.unwrap();
    assert_eq!(records.key_of(me, key.id).await.unwrap().unwrap().pause_minute, None);
    records.pause(key.id, burst).await.unwrap();
    let by_hand = records.key_of(me, key.id).await.unwrap().unwrap();
    assert_eq!((by_hand.record.state, by_hand.pause_minute), (KeyState::Paused, None));
}
