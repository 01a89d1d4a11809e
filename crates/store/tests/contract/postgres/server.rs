//! What only a server can do: refuse, be away, and come again. Each is told in a sentence without a password.

use super::counters::{BOOT, key, remaining, shared_with};
use crate::{NOON, later};
use ipse_store::{Counters, DatabaseUrl, Error, Outage, Records};
use ipse_testkit::{Flavour, Link, Postgres, Redis, Way};
use std::time::Duration;
use tokio::time::timeout;

async fn refused(url: &str) -> Error {
    let url: DatabaseUrl = url.parse().unwrap();
    let error = Records::connect(&url).await.unwrap_err();
    let (shown, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!shown.contains("pass/word") && !debug.contains("pass/word"), "{shown} {debug}");
    assert!(!shown.contains("hush") && !debug.contains("hush"), "{shown} {debug}");
    assert!(shown.contains("127.0.0.1"), "it names the server: {shown}");
    error
}

#[tokio::test]
async fn every_way_to_be_refused_has_a_sentence() {
    let server = Postgres::shared().unwrap();
    let url = server.database().unwrap();
    let wrong = url.replace("a%20pass", "hush");
    let error = refused(&wrong).await;
    assert!(matches!(error, Error::LoginRefused { .. }) && !error.transient(), "{error}");

    let error = refused(&server.url("nowhere")).await;
    assert!(matches!(error, Error::NoSuchDatabase(_)) && !error.transient(), "{error}");

    let error = refused("postgres://ipse:hush@127.0.0.1:1/ipse").await;
    assert!(matches!(error, Error::Unreachable { .. }) && error.transient(), "{error}");

    let error = refused(&format!("{url}?sslmode=require")).await;
    assert!(matches!(error, Error::NoTls { .. }) && !error.transient(), "{error}");

    server
        .ask(&url, "CREATE ROLE guest LOGIN PASSWORD 'hush'; REVOKE ALL ON SCHEMA public FROM PUBLIC")
        .unwrap();
    let (_, rest) = url.split_once('@').unwrap();
    let error = refused(&format!("postgres://guest:hush@{rest}")).await;
    assert!(matches!(error, Error::NotPermitted { .. }) && !error.transient(), "{error}");

    let read_only = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    let error = refused(&read_only).await;
    assert!(matches!(error, Error::ReadOnly(_)) && error.transient(), "{error}");
}

#[tokio::test]
async fn only_the_hash_of_a_key_is_stored() {
    let store = super::store().await;
    let (text, _) = store.key(None).await;
    let stored = store.ask("SELECT k::text FROM keys k");
    assert!(stored.contains(&text.hash().to_hex()) && !stored.contains(text.reveal()), "{stored}");
}

#[tokio::test]
async fn programs_that_start_together_make_the_tables_once() {
    let place = super::place();
    let opened = futures_util::future::join_all((0..10).map(|_| place.open())).await;
    for records in &opened {
        records.check().await.unwrap();
        assert!(records.engine_version().await.unwrap().starts_with(|first: char| first.is_ascii_digit()));
    }
    assert_eq!(place.ask("SELECT COUNT(*) FROM sequences"), "6");
}

#[tokio::test]
async fn a_server_that_was_killed_is_found_again() {
    let server = Postgres::start().unwrap();
    let url: DatabaseUrl = server.database().unwrap().parse().unwrap();
    let records = Records::connect(&url).await.unwrap();
    let account = crate::email("me@example.com");
    let (_, key) = crate::create(&records, &account, None).await.unwrap();
    for kill in [true, false] {
        let ended = if kill { server.kill() } else { server.stop() };
        ended.unwrap();
        let error = records.key(key.id).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.out_of_reach(), "{error}");
        let error = records.set_active(key.id, false).await.unwrap_err();
        assert!(error.out_of_reach() && error.transient(), "{error}");
        server.start_again().unwrap();
        assert_eq!(records.key(key.id).await.unwrap().unwrap(), key, "what was told to be written is there");
        assert!(!records.set_active(key.id, true).await.unwrap());
    }
}

#[tokio::test]
async fn a_server_that_can_only_be_read_is_left_as_soon_as_it_says_so() {
    let store = super::store().await;
    let server = Postgres::shared().unwrap();
    let (_, key) = store.key(None).await;
    let url = store.url.as_ref().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let set = |read_only: &str, ends: bool| {
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {read_only}");
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
        for sql in std::iter::once(set).chain(ends.then_some(end)) {
            server.ask("postgres", &sql).unwrap();
        }
    };
    let many = async || {
        // As many as there are connections of those who write.
        futures_util::future::join_all((0..8).map(|_| store.records.set_active(key.id, true))).await
    };
    assert!(many().await.iter().all(Result::is_ok));
    set("on", true);
    for changed in many().await {
        let error = changed.unwrap_err();
        assert!(matches!(error, Error::ReadOnly(_)) && error.out_of_reach(), "{error}");
    }
    // Connections that are open stay as they were made.
    set("off", false);
    let again = async {
        while many().await.iter().any(Result::is_err) {}
        assert!(many().await.iter().all(Result::is_ok));
        store.records.key(key.id).await.unwrap().unwrap();
    };
    timeout(Duration::from_secs(5), again).await.expect("it is found again by itself");
}

#[tokio::test]
async fn counters_that_get_no_range_say_so_until_they_can_have_one_again() {
    let server = Postgres::start().unwrap();
    let url: DatabaseUrl = server.database().unwrap().parse().unwrap();
    let records = Records::connect(&url).await.unwrap();
    let account = crate::email("me@example.com");
    let (_, made) = crate::create(&records, &account, Some(1_000)).await.unwrap();
    let key = key(made.id, 1_000);
    let engine = Redis::start(Flavour::Redis).unwrap();
    let patience = Duration::from_secs(20);
    let open = shared_with(&engine.url(), Outage::Open, patience, &records).await;
    let closed = shared_with(&engine.url(), Outage::Closed, patience, &records).await;
    assert_eq!((open.report().away, open.report().records_away), (None, None));
    server.stop().unwrap();
    assert_eq!(remaining(&*open, &key, NOON).await, 1_000, "nothing was counted");
    // Who asks a moment later does not wait for a range that another fetches.
    let error = closed.charge_key(&key, later(NOON, 1_000)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    for (counters, uncounted, undecided) in [(&open, 1, 0), (&closed, 0, 1)] {
        let report = counters.report();
        assert_eq!((report.away, report.uncounted, report.undecided), (None, uncounted, undecided));
        assert!(report.records_away.is_some_and(|why| why.contains("cannot be reached")));
        // What was not counted is kept for its owner, and cannot be written now.
        let _ = counters.fold(NOON).await;
        assert!(counters.report().records_away.is_some(), "it is still away");
    }
    server.start_again().unwrap();
    for counters in [&open, &closed] {
        counters.fold(NOON).await.unwrap();
        assert_eq!(counters.report().records_away, None, "nobody had to need a range");
    }
    assert_eq!(remaining(&*closed, &key, later(NOON, 2_000)).await, 999);
}

#[tokio::test]
async fn a_fold_that_meets_the_deletion_of_a_key_does_not_fail() {
    let store = super::store().await;
    let server = Postgres::shared().unwrap();
    let (_, record) = store.key(None).await;
    let (_, other) = store.key(None).await;
    let ledger = store.ledger(BOOT, NOON).await;
    for id in [record.id, other.id] {
        ledger.note_refusal(id, NOON);
    }
    // It is deleted, and nobody is to see that until it is allowed to end.
    let url = store.url.clone().unwrap();
    let sql = format!("DELETE FROM keys WHERE id = {}; SELECT pg_advisory_lock(8)", record.id.0);
    let deleting = {
        let url = url.clone();
        let wait = "DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'transactionid' \
                    AND datname = current_database()) LOOP PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
        let sql = format!("BEGIN; {sql}; {wait}; COMMIT");
        std::thread::spawn(move || Postgres::shared().unwrap().ask(&url, &sql).unwrap())
    };
    let begun = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 8 AND granted";
    while server.ask(&url, begun).unwrap() == "0" {}
    ledger.fold(NOON).await.unwrap();
    deleting.join().unwrap();
    let told = store.records.outcomes_by_day(other.id, NOON.day()).await.unwrap();
    assert_eq!(told.iter().map(|(_, outcomes)| outcomes.refused).sum::<u64>(), 1);
    assert!(store.records.outcomes_by_day(record.id, NOON.day()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_way_that_swallows_everything_is_told_of_in_time_and_used_again_when_it_is_open() {
    let server = Postgres::shared().unwrap();
    let link = Link::to(([127, 0, 0, 1], server.port()).into()).unwrap();
    let (there, here) = (server.port().to_string(), link.address.port().to_string());
    let url: DatabaseUrl = server.database().unwrap().replace(&there, &here).parse().unwrap();
    let records = Records::connect(&url).await.unwrap();
    let all = async || {
        // More than there are connections, of those who read and of those who write.
        let reading = (0..20).map(|_| records.usage(NOON.day()));
        let writing = (0..20).map(|_| records.left("nobody"));
        let (read, written) =
            tokio::join!(futures_util::future::join_all(reading), futures_util::future::join_all(writing));
        let failures = read.into_iter().map(Result::err).chain(written.into_iter().map(Result::err));
        failures.collect::<Vec<_>>()
    };
    assert!(all().await.iter().all(Option::is_none));
    link.set(Way::Held);
    for _ in 0..2 {
        let failures = timeout(Duration::from_secs(30), all()).await.expect("nobody waits for ever");
        assert!(failures.iter().flatten().all(Error::transient) && failures.iter().all(Option::is_some));
    }
    link.set(Way::Open);
    let again = async {
        // waits for: connections whose replies come late, of which nobody is told.
        while records.check().await.is_err() {}
        while all().await.iter().any(Option::is_some) {}
    };
    timeout(Duration::from_secs(10), again).await.expect("it is found again by itself");
}
