//! Who counts requests: one server alone, or any number together.

use ipse_store::{Counting, DataFolder, Error, Ledger};
use ipse_testkit::Postgres;
use std::time::Duration;

/// Ends the connections of so many who hold the lock, as a cut line or an operator would.
fn cut(store: &crate::Store, holders: u32) {
    let ended = store.ask(
        "SELECT COUNT(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted",
    );
    assert_eq!(ended, holders.to_string());
}

#[tokio::test]
async fn whoever_counts_alone_is_alone() {
    let store = super::store().await;
    let other = store.open().await;
    let claim = store.records.claim(Counting::Alone).await.unwrap();
    for counting in [Counting::Alone, Counting::Together] {
        let error = other.claim(counting).await.unwrap_err();
        assert!(matches!(error, Error::Claimed(_)) && error.to_string().contains("--counters"), "{error}");
    }
    claim.release().await;
    let (one, two) = (store.records.claim(Counting::Together).await, other.claim(Counting::Together).await);
    let error = other.claim(Counting::Alone).await.unwrap_err();
    assert!(matches!(error, Error::Claimed(_)), "{error}");
    one.unwrap().release().await;
    two.unwrap().release().await;
    // A server that dies takes its claim along.
    drop(other.claim(Counting::Alone).await.unwrap());
    store.records.claim(Counting::Alone).await.unwrap().release().await;
}

#[tokio::test]
async fn a_claim_that_nobody_took_meanwhile_goes_on() {
    let store = super::store().await;
    let claim = store.records.claim(Counting::Alone).await.unwrap();
    cut(&store, 1);
    // It takes the lock again before it says anything.
    let lost = tokio::time::timeout(Duration::from_secs(3), claim.lost()).await;
    assert!(lost.is_err());
    let error = store.open().await.claim(Counting::Alone).await.unwrap_err();
    assert!(matches!(error, Error::Claimed(_)), "{error}");
    claim.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_somebody_took_meanwhile_is_lost() {
    let store = super::store().await;
    let other = store.open().await;
    // While the other holds it, and after the other had it.
    for releases in [false, true] {
        let claim = store.records.claim(Counting::Alone).await.unwrap();
        let taking = {
            let other = other.clone();
            tokio::spawn(async move { other.claim(Counting::Alone).await.unwrap() })
        };
        cut(&store, 1);
        let taken = taking.await.unwrap();
        let kept = if releases {
            taken.release().await;
            None
        } else {
            Some(taken)
        };
        claim.lost().await;
        claim.release().await;
        if let Some(kept) = kept {
            kept.release().await;
        }
    }
}

#[tokio::test]
async fn who_counts_together_in_an_epoch_that_is_over_must_stop() {
    let store = super::store().await;
    let other = store.open().await;
    let claim = store.records.claim(Counting::Together).await.unwrap();
    // As somebody does who found nobody, because this one could not reach the database.
    store.records.spend_day(crate::NOON.day()).await.unwrap();
    let newer = other.claim(Counting::Together).await.unwrap();
    cut(&store, 2);
    claim.lost().await;
    assert!(tokio::time::timeout(Duration::from_secs(2), newer.lost()).await.is_err(), "the others go on");
    newer.release().await;
}

#[tokio::test]
async fn a_journal_of_other_records_is_not_charged_to_these() {
    let store = super::store().await;
    let now = crate::NOON;
    store.ledger("00000000-0000-0000-0000-000000000001", now).await.close(now).await.unwrap();
    let strangers = super::store().await;
    let open = async |folder: &DataFolder, store: &crate::Store| {
        Ledger::open(folder, &store.records, None, now).await.map(drop)
    };
    let error = open(&store.folder, &strangers).await.unwrap_err();
    assert!(matches!(error, Error::ForeignJournal { .. }), "{error}");
    assert!(error.to_string().contains("ipse store copy"), "{error}");
    open(&store.folder, &store).await.unwrap();
    // Nor that of a folder which has a database of its own.
    let file = crate::Store::at(crate::Place::of(crate::Engine::Sqlite)).await;
    file.ledger("00000000-0000-0000-0000-000000000001", now).await.close(now).await.unwrap();
    let error = open(&file.folder, &store).await.unwrap_err();
    assert!(matches!(error, Error::ForeignJournal { .. }), "{error}");
    open(&file.folder, &file).await.unwrap();
}

#[tokio::test]
async fn nobody_counts_together_while_something_stands_in_a_journal_alone() {
    let store = super::store().await;
    let now = crate::NOON;
    let ledger = store.ledger("00000000-0000-0000-0000-000000000001", now).await;
    let elsewhere = super::place();
    let other = Ledger::open(&elsewhere.folder, &store.records, None, now).await.map(drop);
    assert!(matches!(other, Err(Error::JournalElsewhere(_))));
    let error = store.records.claim(Counting::Together).await.unwrap_err();
    assert!(matches!(error, Error::JournalElsewhere(_)), "{error}");
    ledger.close(now).await.unwrap();
    store.records.claim(Counting::Together).await.unwrap().release().await;
    Ledger::open(&elsewhere.folder, &store.records, None, now).await.map(drop).unwrap();
    assert!(store.records.forget_journal().await.unwrap() && !store.records.forget_journal().await.unwrap());
    store.records.claim(Counting::Together).await.unwrap().release().await;
}

#[tokio::test]
async fn changes_of_keys_are_heard_and_heard_again_after_the_server_was_away() {
    let server = Postgres::start().unwrap();
    let url = server.database().unwrap().parse().unwrap();
    let records = ipse_store::Records::connect(&url).await.unwrap();
    let other = ipse_store::Records::connect(&url).await.unwrap();
    let news = records.key_news();
    // What changed before anybody listened.
    news.heard().await;
    let account = crate::email("me@example.com");
    let (_, key) = crate::create(&other, &account, None).await.unwrap();
    news.heard().await;
    assert!(other.set_active(key.id, false).await.unwrap());
    news.heard().await;
    server.kill().unwrap();
    server.start_again().unwrap();
    news.heard().await;
    assert!(other.set_active(key.id, true).await.unwrap());
    news.heard().await;
}
