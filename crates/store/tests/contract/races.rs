//! Everybody at once: no writer stands in another's way for ever, and every promise holds afterwards.

use crate::{NOON, create, email, hash, later, proof, sign_up};
use ipse_model::{Key, KeyState, Scope};
use ipse_store::{
    AccountId, Activity, Counters, Created, KeyTable, Ledger, NewToken, Portion, Records, Subject,
    TokenPurpose, Wanted,
};
use std::sync::Arc;

const WRITERS: u32 = 100;

/// Whatever may be done at once by the owners of a few accounts, the operator, and the servers themselves.
async fn write(records: &Records, ledger: &Arc<Ledger>, owners: &[AccountId], number: u32) {
    let now = later(NOON, number);
    let owner = owners[number as usize / 12 % owners.len()];
    let keys = records.keys_of(owner).await.unwrap();
    let key = keys.get(number as usize / 7 % keys.len().max(1)).map(|key| key.record.id);
    match (number % 12, key) {
        (0, _) | (_, None) => {
            if let Created::Key { record, .. } =
                records.create_key_of(owner, "race", Scope::Geo, now).await.unwrap()
            {
                records.note_of_key(record.id, Activity::KeyCreated, None, now).await.unwrap();
            }
        }
        (1, Some(key)) => drop(records.roll_of(owner, key, 1000, now).await.unwrap()),
        (2, Some(key)) => {
            records.pause_for_burst(key, 0, &[301], now).await.unwrap();
            records.resume(key).await.unwrap();
        }
        (3, Some(key)) => {
            records.set_active(key, number % 24 < 12).await.unwrap();
            records.set_scope_of(owner, key, Scope::Full).await.unwrap();
        }
        (4, Some(key)) => drop(records.delete_key_of(owner, key).await.unwrap()),
        (5, _) => {
            records.begin_session(&proof(owner), &hash(1000 + number), "Firefox", false, now).await.unwrap();
            records.end_sessions(owner, None).await.unwrap();
        }
        (6, _) => records.set_password(owner, "$argon2id$one", None, now).await.unwrap(),
        (7, _) => {
            let token = NewToken {
                hash: &hash(2000 + number),
                purpose: TokenPurpose::Reset,
                account: Some(owner),
                email: None,
                password: None,
                ends_ms: NOON.unix_ms + i64::from(number % 24),
            };
            records.make_token(&token, now).await.unwrap();
            records.take_token(token.hash, token.purpose, NOON).await.unwrap();
        }
        (8, Some(key)) => {
            let wanted = keys.iter().rev().map(|key| Subject::Key(key.record.id));
            let wanted = wanted.map(|subject| Wanted {
                subject,
                day: NOON.day(),
                limit: 10_000,
                portion: Portion::Few { waiting: 1 },
            });
            records.reserve(&wanted.collect::<Vec<_>>()).await.unwrap();
            records.rename(owner, key, "renamed").await.unwrap();
        }
        (9, Some(id)) => {
            let key = Key { id, scope: Scope::Geo, state: KeyState::Active, daily_limit: 10_000, resumes: 0 };
            ledger.charge_key(&key, now).await.unwrap();
            // A key that is deleted at this very moment makes a fold fail, and the next one makes up for it.
            let _ = ledger.fold(now).await;
        }
        (10, _) => {
            records.due_notices(now).await.unwrap();
            records.sweep(0, 0, now).await.unwrap();
            records.replace_recovery_codes(owner, &[hash(number), hash(number + 1)]).await.unwrap();
        }
        (_, _) => {
            let doomed = email(&format!("doomed{number}@example.com"));
            let id = records.sign_up(&doomed, "$argon2id$one", true, now).await.unwrap().unwrap();
            create(records, &doomed, None).await.unwrap();
            create(records, &doomed, None).await.unwrap();
            records.note_activity(id, Activity::SignedUp, None, None, now).await.unwrap();
            assert!(records.delete_account_of(id).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_writers_at_once_keep_every_promise() {
    let store = super::store().await;
    let nodes = [store.records.clone(), store.open().await, store.open().await];
    let mut owners = Vec::new();
    for number in 0..4 {
        owners.push(sign_up(&store.records, &format!("{number}@example.com")).await);
    }
    let ledger = store.ledger("00000000-0000-0000-0000-000000000001", NOON).await;
    let table = KeyTable::load(&store.records).await.unwrap();
    for round in 0..3 {
        let writing = (0..WRITERS).map(|number| {
            let (records, ledger, owners) =
                (nodes[number as usize % 3].clone(), Arc::clone(&ledger), owners.clone());
            tokio::spawn(async move { write(&records, &ledger, &owners, round * WRITERS + number).await })
        });
        for written in writing.collect::<Vec<_>>() {
            table.refresh(NOON).await.unwrap();
            written.await.unwrap();
        }
    }
    for owner in &owners {
        let keys = store.records.keys_of(*owner).await.unwrap();
        assert!(keys.len() <= 10, "{}", keys.len());
        assert_eq!(store.records.profile(*owner).await.unwrap().unwrap().recovery_codes_left, 2);
    }
    // Whoever followed the log sees what whoever reads everything sees.
    table.refresh(NOON).await.unwrap();
    assert_eq!(store.ask("SELECT COUNT(*) FROM keys"), table.len().to_string());
    assert_eq!(
        store.ask("SELECT COUNT(*) FROM key_changes"),
        store.ask("SELECT value FROM sequences WHERE name = 'key_change'"),
        "no number of a change is missing"
    );
    assert_eq!(store.ask("SELECT COUNT(*) FROM accounts"), "4");
    let tokens = store.ask("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM tokens GROUP BY account_id) AS t");
    assert!(tokens.parse::<u32>().unwrap_or(0) <= 5, "{tokens}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_hundred_lines_of_each_of_two_kinds_all_are_kept_and_no_more() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    let other = store.open().await;
    let noting = (0..220).map(|number| {
        let records = if number % 2 == 0 { store.records.clone() } else { other.clone() };
        let what = if number % 4 < 2 { Activity::SignedIn } else { Activity::SignedOut };
        tokio::spawn(async move { records.note_activity(me, what, None, None, NOON).await.unwrap() })
    });
    for noted in noting.collect::<Vec<_>>() {
        noted.await.unwrap();
    }
    assert_eq!(
        store.ask("SELECT what, COUNT(*) FROM activity GROUP BY what ORDER BY what"),
        "signed_in|100\nsigned_out|100"
    );
}
