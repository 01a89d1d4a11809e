//! What owners read of what was done to their accounts.

use crate::{NOON, later, sign_up};
use ipse_model::KeyId;
use ipse_store::{AccountId, Activity, ActivityRow};
use std::collections::HashSet;

#[tokio::test]
async fn the_newest_comes_first_and_nobody_reads_anothers() {
    let store = super::store().await;
    let records = &store.records;
    let (me, them) = (sign_up(records, "me@example.com").await, sign_up(records, "them@example.com").await);
    records.note_activity(me, Activity::SignedIn, None, None, NOON).await.unwrap();
    records.note_activity(them, Activity::SignedIn, None, None, NOON).await.unwrap();
    let key = Some(KeyId(7));
    records.note_activity(me, Activity::KeyRenamed, key, Some("shop"), later(NOON, 5)).await.unwrap();
    let row = |at_ms, what, key, detail: Option<&str>| ActivityRow {
        at_ms,
        what,
        key,
        detail: detail.map(str::to_owned),
    };
    let expected = [
        row(NOON.unix_ms + 5, Activity::KeyRenamed, key, Some("shop")),
        row(NOON.unix_ms, Activity::SignedIn, None, None),
    ];
    assert_eq!(records.activity(me, 10).await.unwrap(), expected);
    assert_eq!(records.activity(me, 1).await.unwrap(), expected[..1]);
    // Who is deleted meanwhile is nobody to note anything of.
    records.note_activity(AccountId(99), Activity::SignedOut, None, None, NOON).await.unwrap();
    assert_eq!(store.ask("SELECT COUNT(*) FROM activity"), "3");
}

#[tokio::test]
async fn the_newest_hundred_lines_of_each_kind_are_kept() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    let them = sign_up(&store.records, "them@example.com").await;
    store.records.note_activity(them, Activity::SignedIn, None, None, NOON).await.unwrap();
    store.records.note_activity(me, Activity::SignedUp, None, None, NOON).await.unwrap();
    for number in 0..103 {
        let detail = number.to_string();
        store.records.note_activity(me, Activity::SignedIn, None, Some(&detail), NOON).await.unwrap();
    }
    let kept = store.records.activity(me, 1000).await.unwrap();
    assert_eq!(kept.len(), 101);
    assert_eq!(kept[99].detail.as_deref(), Some("3"), "the oldest are gone");
    assert_eq!(kept[100].what, Activity::SignedUp, "and nothing of another kind");
    assert_eq!(store.records.activity(them, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_later_version_notes_is_passed_over() {
    let store = super::store().await;
    let me = sign_up(&store.records, "me@example.com").await;
    store.records.note_activity(me, Activity::SignedIn, None, None, NOON).await.unwrap();
    store.ask("UPDATE activity SET what = 'flew_to_the_moon'");
    assert_eq!(store.records.activity(me, 10).await.unwrap(), []);
}

#[test]
fn every_activity_has_a_word_of_its_own() {
    let words: HashSet<&str> = Activity::ALL.iter().map(|what| what.as_str()).collect();
    assert_eq!(words.len(), Activity::ALL.len());
}
