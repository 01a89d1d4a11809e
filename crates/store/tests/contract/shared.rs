//! What the shared engine promises beyond the contract of counters: whatever happens to it, no number of a day is served
//! twice, and nobody is refused or paused because it was away.

use super::counters::{calm, key, remaining, shared_with};
use crate::{NOON, Store, later};
use ipse_model::{Charge, DayAllowance, Key, Now};
use ipse_store::{Away, Counters, Error, KeyCharge, Outage, Shared};
use ipse_testkit::{Cluster, Flavour, Redis, Watched};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Long enough for any machine.
const PATIENT: Duration = Duration::from_secs(20);
/// As short as it is by default.
const BRISK: Duration = Duration::from_millis(45);

async fn open(url: &str, outage: Outage, patience: Duration, store: &Store) -> Arc<Shared> {
    shared_with(url, outage, patience, &store.records).await
}

async fn with_key(daily_limit: u32) -> (Store, Key) {
    let store = super::store().await;
    let (_, record) = store.key(Some(daily_limit)).await;
    (store, key(record.id, daily_limit))
}

/// Charges a key until it is decided, as a caller who is answered with 500 tries again.
async fn charge(counters: &Shared, key: &Key, now: Now) -> KeyCharge {
    for _ in 0..2_000 {
        match counters.charge_key(key, now).await {
            Ok(charge) => return charge,
            Err(error) => assert!(error.transient(), "{error}"),
        }
        // waits for: an engine that comes back, of which nobody is told.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came back");
}

/// What remains after each answer of a day, in which something happens to the engine after every so many.
async fn a_day(counters: &Shared, key: &Key, every: u32, mut happens: impl FnMut(u32)) -> Vec<u32> {
    let mut remaining = Vec::new();
    for step in 0.. {
        if step > 0 && step % every == 0 {
            happens(step / every);
        }
        match charge(counters, key, calm(step)).await {
            KeyCharge::Charged(Charge::Granted(allowance)) => remaining.push(allowance.remaining),
            KeyCharge::Charged(Charge::DayUsedUp(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    remaining
}

/// Each number once, and none more often lost than `times` reservations.
#[track_caller]
fn assert_served_once(remaining: &[u32], limit: u32, times: u32) {
    assert!(remaining.is_sorted_by(|one, next| one > next), "{remaining:?}");
    let (served, range) = (u32::try_from(remaining.len()).unwrap(), (limit / 16).max(4));
    assert!(served <= limit && served + 2 * range * times >= limit, "{served} of {limit}");
}

#[tokio::test]
async fn an_engine_that_is_flushed_serves_no_number_twice() {
    let (store, key) = with_key(1_000).await;
    let server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let remaining =
        a_day(&counters, &key, 200, |_| assert!(server.say(&["FLUSHALL"]).unwrap().starts_with("+OK"))).await;
    assert_served_once(&remaining, 1_000, 5);
}

#[tokio::test]
async fn an_engine_that_dies_and_comes_back_empty_serves_no_number_twice() {
    let (store, key) = with_key(1_000).await;
    let mut server = Redis::start(Flavour::Valkey).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let remaining = a_day(&counters, &key, 250, |_| {
        server.kill();
        server.run().unwrap();
    })
    .await;
    assert_served_once(&remaining, 1_000, 4);
}

#[tokio::test]
async fn an_engine_that_dies_costs_a_small_day_little() {
    let (store, key) = with_key(60).await;
    let mut server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let remaining = a_day(&counters, &key, 25, |_| {
        server.kill();
        server.run().unwrap();
    })
    .await;
    assert_served_once(&remaining, 60, 2);
}

#[tokio::test]
async fn an_engine_that_is_restored_from_a_backup_serves_no_number_twice() {
    let (store, key) = with_key(1_000).await;
    let mut server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let remaining = a_day(&counters, &key, 100, |time| {
        if time == 1 {
            assert!(server.say(&["SAVE"]).unwrap().starts_with("+OK"));
        } else {
            // It reads the backup of long ago when it starts.
            server.kill();
            server.run().unwrap();
        }
    })
    .await;
    assert_served_once(&remaining, 1_000, 9);
}

#[tokio::test]
async fn a_replica_that_lagged_behind_serves_no_number_twice() {
    let (store, key) = with_key(1_000).await;
    let mut watched = Watched::start(Flavour::Redis).unwrap();
    let counters = open(&watched.url(), Outage::Closed, PATIENT, &store).await;
    let remaining = a_day(&counters, &key, 300, |time| match time {
        1 => watched.servers[1].freeze(true).unwrap(),
        // It never heard of the second three hundred.
        2 => {
            watched.servers[0].kill();
            watched.servers[1].freeze(false).unwrap();
        }
        _ => {}
    })
    .await;
    assert_served_once(&remaining, 1_000, 1);
}

#[tokio::test]
async fn a_master_that_sentinels_have_replaced_is_left_before_it_knows() {
    let (store, key) = with_key(1_000).await;
    let watched = Watched::start(Flavour::Redis).unwrap();
    let counters = open(&watched.url(), Outage::Closed, PATIENT, &store).await;
    charge(&counters, &key, calm(0)).await;
    watched.servers[0].freeze(true).unwrap();
    watched.wait_for_master(1).unwrap();
    // Nobody noticed that it stood still, and it still thinks to be the master.
    watched.servers[0].freeze(false).unwrap();
    let is_asked = || watched.servers[1].say(&["INFO", "commandstats"]).unwrap().contains("cmdstat_evalsha:");
    let moving = async {
        for step in 1.. {
            charge(&counters, &key, calm(step)).await;
            if is_asked() {
                break;
            }
        }
    };
    // A sentinel takes ten seconds to tell it.
    timeout(Duration::from_secs(5), moving).await.unwrap();
}

#[tokio::test]
async fn sentinels_that_want_a_password_get_that_of_the_servers() {
    let (store, key) = with_key(1_000).await;
    for flavour in [Flavour::Redis, Flavour::Valkey] {
        let watched = Watched::start(flavour).unwrap();
        watched.want_password("right").unwrap();
        for (credentials, why) in [
            ("", "it wants a password, which --counters-password-file can hold"),
            (":wrong@", "it does not accept the user or the password, which are those of the servers"),
        ] {
            let url = watched.url().replace("//", &format!("//{credentials}"));
            let counters = open(&url, Outage::Closed, PATIENT, &store).await;
            let told = counters.charge_key(&key, calm(0)).await.unwrap_err().to_string();
            assert!(told.contains("the sentinel at 127.0.0.1:") && told.ends_with(why), "{told}");
            assert!(!told.contains("wrong"), "{told}");
        }
        for server in &watched.servers {
            assert!(server.say(&["CONFIG", "SET", "requirepass", "right"]).unwrap().starts_with("+OK"));
        }
        // A database other than the first is for the servers to know.
        let url = watched.url().replace("//", "//:right@") + "/3";
        let counters = open(&url, Outage::Closed, PATIENT, &store).await;
        remaining(&*counters, &key, calm(1)).await;
    }
}

#[tokio::test]
async fn a_cluster_counts_each_key_where_it_lies() {
    let store = super::store().await;
    let cluster = Cluster::start(Flavour::Valkey).unwrap();
    let counters = open(&cluster.url(), Outage::Closed, PATIENT, &store).await;
    let mut keys = Vec::new();
    for _ in 0..30 {
        let (_, record) = store.key(Some(100)).await;
        keys.push(key(record.id, 100));
    }
    for left in (90..100).rev() {
        for key in &keys {
            assert_eq!(remaining(&*counters, key, calm(100 - left)).await, left);
        }
    }
    for member in &cluster.members {
        assert_ne!(member.say(&["DBSIZE"]).unwrap(), ":0\r\n", "every member has some");
    }
}

#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    let (store, key) = with_key(100).await;
    let cluster = Cluster::start(Flavour::Redis).unwrap();
    let counters = open(&cluster.url(), Outage::Closed, PATIENT, &store).await;
    let ids: Vec<String> = cluster
        .members
        .iter()
        .map(|member| member.say(&["CLUSTER", "MYID"]).unwrap().lines().nth(1).unwrap().to_owned())
        .collect();
    let owner = || {
        let asked =
            |member: &Redis| member.say(&["CLUSTER", "COUNTKEYSINSLOT", &slot(&counters, &key)]).unwrap();
        cluster.members.iter().position(|member| asked(member) != ":0\r\n")
    };
    assert_eq!(charge(&counters, &key, calm(0)).await, granted(99));
    let from = owner().unwrap();
    let to = (from + 1) % 3;
    let slot = slot(&counters, &key);
    // Its state does not move along, as if it were lost on the way.
    cluster.members[from].say(&["FLUSHALL"]).unwrap();
    for member in [to, from, 3 - from - to] {
        let told = cluster.members[member].say(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]]).unwrap();
        assert!(told.starts_with("+OK"), "{told}");
    }
    // The rest of what was reserved is lost with the state.
    assert_eq!(charge(&counters, &key, calm(1)).await, granted(100 - 6 - 1));
    assert_eq!(owner(), Some(to));
}

fn slot(counters: &Shared, key: &Key) -> String {
    counters.slot_of(key.id).to_string()
}

fn granted(remaining: u32) -> KeyCharge {
    KeyCharge::Charged(Charge::Granted(DayAllowance { limit: 100, remaining, day: NOON.day() }))
}

#[tokio::test]
async fn many_nodes_share_one_minute() {
    let (store, key) = with_key(10_000).await;
    let server = Redis::start(Flavour::Redis).unwrap();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(open(&server.url(), Outage::Closed, PATIENT, &store).await);
    }
    let mut charges = Vec::new();
    for number in 0..400 {
        let node = Arc::clone(&nodes[number % 3]);
        charges.push(tokio::spawn(async move { node.charge_key(&key, NOON).await.unwrap() }));
    }
    let (mut granted, mut burst, mut paused) = (0, 0, 0);
    for charge in charges {
        match charge.await.unwrap() {
            KeyCharge::Charged(Charge::Granted(_)) => granted += 1,
            KeyCharge::Charged(Charge::BurstExceeded) => burst += 1,
            KeyCharge::Paused => paused += 1,
            KeyCharge::Charged(Charge::DayUsedUp(_)) => panic!("the day is not used up"),
        }
    }
    assert_eq!((granted, burst, paused), (300, 1, 99));
    let minute = store.records.key_as_owned(key.id).await.unwrap().unwrap().pause_minute.unwrap();
    assert_eq!(minute.iter().sum::<u32>(), 301);
}

#[tokio::test]
async fn an_engine_that_is_gone_or_silent_is_told_of_at_once_and_comes_back_by_itself() {
    let (store, key) = with_key(10_000).await;
    let mut server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, BRISK, &store).await;
    charge(&counters, &key, calm(0)).await;
    assert_eq!(counters.report().away, None);

    server.freeze(true).unwrap();
    let error = counters.charge_key(&key, calm(1)).await.unwrap_err();
    assert!(matches!(error, Error::Counters(Away::NoReply | Away::TooSlow)), "{error}");
    server.freeze(false).unwrap();
    charge(&counters, &key, calm(2)).await;

    server.kill();
    let error = counters.charge_key(&key, calm(3)).await.unwrap_err();
    assert!(error.transient(), "{error}");
    server.run().unwrap();
    charge(&counters, &key, calm(4)).await;
    assert!(counters.report().undecided >= 2);
    assert_eq!(store.records.key(key.id).await.unwrap().unwrap().paused_ms, None);
}

#[tokio::test]
async fn while_the_engine_is_away_ranges_of_the_records_can_be_leased() {
    let (store, key) = with_key(200).await;
    let mut server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Lease, PATIENT, &store).await;
    let mut seen = vec![remaining(&*counters, &key, calm(0)).await];
    server.kill();
    for step in 1..=100 {
        let KeyCharge::Charged(Charge::Granted(allowance)) = charge(&counters, &key, calm(step)).await else {
            panic!("not granted");
        };
        seen.push(allowance.remaining);
    }
    assert!(counters.report().leased >= 99 && counters.report().away.is_some());
    server.run().unwrap();
    // The engine goes on behind what was leased.
    counters.fold(calm(100)).await.unwrap();
    let mut step = 100;
    let used_up = loop {
        step += 1;
        match charge(&counters, &key, calm(step)).await {
            KeyCharge::Charged(Charge::Granted(allowance)) => seen.push(allowance.remaining),
            other => break other,
        }
    };
    assert!(matches!(used_up, KeyCharge::Charged(Charge::DayUsedUp(_))), "{used_up:?}");
    assert!(seen.is_sorted_by(|one, next| one > next), "{seen:?}");
}

#[tokio::test]
async fn a_lease_gives_each_node_its_share_of_the_minute_and_pauses_nobody() {
    let (store, key) = with_key(10_000).await;
    let counters = open("redis://127.0.0.1:1", Outage::Lease, PATIENT, &store).await;
    counters.shared_among(3);
    for step in 0..100 {
        let charged = counters.charge_key(&key, later(NOON, step)).await.unwrap();
        assert!(matches!(charged, KeyCharge::Charged(Charge::Granted(_))), "{charged:?}");
    }
    let error = counters.charge_key(&key, later(NOON, 200)).await.unwrap_err();
    assert!(matches!(error, Error::Counters(Away::ShareGiven)), "{error}");
    assert_eq!(store.records.key(key.id).await.unwrap().unwrap().paused_ms, None);
    remaining(&*counters, &key, later(NOON, 60_000)).await;
    for left in (0..1_000).rev() {
        assert_eq!(counters.charge_demo(NOON).await.unwrap().unwrap().remaining, left);
    }
    // Others may hold a part of the day: that it is used up is for the engine to say.
    counters.fold(NOON).await.unwrap();
    let error = counters.charge_demo(NOON).await.unwrap_err();
    assert!(matches!(error, Error::Counters(Away::Unsettled)), "{error}");
}

#[tokio::test]
async fn a_lease_calls_a_day_used_up_only_if_the_engine_did() {
    let (store, key) = with_key(100).await;
    let mut server = Redis::start(Flavour::Redis).unwrap();
    let nodes = [
        open(&server.url(), Outage::Lease, PATIENT, &store).await,
        open(&server.url(), Outage::Lease, PATIENT, &store).await,
    ];
    remaining(&*nodes[0], &key, calm(0)).await;
    server.kill();
    // The engine held 6, and one of the nodes takes the rest.
    for step in 1..=94 {
        let charged = charge(&nodes[1], &key, calm(step)).await;
        assert!(matches!(charged, KeyCharge::Charged(Charge::Granted(_))), "{charged:?}");
    }
    for node in &nodes {
        let error = loop {
            match node.charge_key(&key, calm(100)).await.unwrap_err() {
                // It was asked when the engine died.
                Error::Counters(Away::NoReply) => tokio::task::yield_now().await,
                other => break other,
            }
        };
        assert!(matches!(error, Error::Counters(Away::Unsettled)), "{error}");
    }
    server.run().unwrap();
    while !matches!(charge(&nodes[0], &key, calm(101)).await, KeyCharge::Charged(Charge::DayUsedUp(_))) {}
    server.kill();
    let charged = charge(&nodes[0], &key, calm(102)).await;
    assert!(matches!(charged, KeyCharge::Charged(Charge::DayUsedUp(_))), "{charged:?}");
}

#[tokio::test]
async fn what_an_engine_finds_after_it_stood_still_is_not_charged() {
    let (store, key) = with_key(1_000).await;
    let server = Redis::start(Flavour::Redis).unwrap();
    let patience = Duration::from_millis(400);
    let counters = open(&server.url(), Outage::Closed, patience, &store).await;
    charge(&counters, &key, calm(0)).await;
    let before = remaining(&*counters, &key, calm(1)).await;
    server.freeze(true).unwrap();
    let mut asked = JoinSet::new();
    for step in 0..200 {
        let (counters, key) = (Arc::clone(&counters), key);
        asked.spawn(async move { counters.charge_key(&key, calm(2 + step)).await });
    }
    assert!(asked.join_all().await.iter().all(Result::is_err));
    // waits for: the moment after which nobody waits for what was sent.
    tokio::time::sleep(patience).await;
    server.freeze(false).unwrap();
    let KeyCharge::Charged(Charge::Granted(after)) = charge(&counters, &key, calm(300)).await else {
        panic!("not granted");
    };
    assert_eq!(after.remaining, before - 1);
}

#[tokio::test]
async fn an_engine_that_refuses_is_told_of_in_its_words_and_one_that_forgot_the_function_gets_it_again() {
    let (store, key) = with_key(1_000).await;
    let server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let leasing = open(&server.url(), Outage::Lease, PATIENT, &store).await;
    remaining(&*counters, &key, calm(0)).await;
    assert!(server.say(&["SCRIPT", "FLUSH"]).unwrap().starts_with("+OK"));
    remaining(&*counters, &key, calm(1)).await;

    assert!(server.say(&["CONFIG", "SET", "maxmemory", "1"]).unwrap().starts_with("+OK"));
    let error = counters.charge_key(&key, calm(2)).await.unwrap_err();
    assert!(matches!(&error, Error::Counters(Away::Refused(why)) if why.contains("OOM")), "{error}");
    assert!(matches!(counters.report().away, Some(Away::Refused(_))), "{:?}", counters.report());
    remaining(&*leasing, &key, calm(3)).await;
    assert_eq!((leasing.report().leased, leasing.report().undecided), (1, 0), "it is counted once");
    assert!(server.say(&["CONFIG", "SET", "maxmemory", "0"]).unwrap().starts_with("+OK"));
    remaining(&*counters, &key, calm(4)).await;
    assert_eq!(counters.report().away, None);
}

#[tokio::test]
async fn a_day_that_was_spent_is_not_served_from_what_the_engine_still_holds() {
    let (store, key) = with_key(1_000).await;
    let server = Redis::start(Flavour::Redis).unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    remaining(&*counters, &key, calm(0)).await;
    counters.charge_demo(calm(0)).await.unwrap().unwrap();
    counters.close(calm(0)).await.unwrap();
    store.records.spend_day(NOON.day()).await.unwrap();
    let counters = open(&server.url(), Outage::Closed, PATIENT, &store).await;
    let charged = charge(&counters, &key, calm(1)).await;
    assert!(matches!(charged, KeyCharge::Charged(Charge::DayUsedUp(_))), "{charged:?}");
    assert!(counters.charge_demo(calm(1)).await.unwrap().is_err());
    let tomorrow = Now { unix_ms: NOON.unix_ms + crate::DAY_MS, ..NOON };
    assert_eq!(remaining(&*counters, &key, tomorrow).await, 999);
}

#[tokio::test]
async fn all_who_come_at_once_while_the_engine_is_away_share_one_range() {
    let (store, key) = with_key(200).await;
    let counters = open("redis://127.0.0.1:1", Outage::Lease, PATIENT, &store).await;
    let mut all = JoinSet::new();
    for _ in 0..64 {
        let (counters, key) = (Arc::clone(&counters), key);
        all.spawn(async move { counters.charge_key(&key, NOON).await });
    }
    let mut seen = Vec::new();
    for charged in all.join_all().await {
        let Ok(KeyCharge::Charged(Charge::Granted(allowance))) = charged else { panic!("{charged:?}") };
        seen.push(allowance.remaining);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 64);
}

#[tokio::test]
async fn a_key_that_is_resumed_while_the_engine_is_away_has_a_fresh_minute() {
    let (store, key) = with_key(10_000).await;
    let counters = open("redis://127.0.0.1:1", Outage::Lease, PATIENT, &store).await;
    for _ in 0..300 {
        remaining(&*counters, &key, NOON).await;
    }
    let charged = counters.charge_key(&key, later(NOON, 5)).await.unwrap();
    assert_eq!(charged, KeyCharge::Charged(Charge::BurstExceeded));
    assert!(store.records.key(key.id).await.unwrap().unwrap().paused_ms.is_some());
    // An engine that comes and goes does not begin the minute again.
    counters.fold(later(NOON, 10)).await.unwrap();
    let key = Key { resumes: key.resumes + 1, ..key };
    remaining(&*counters, &key, later(NOON, 20)).await;
}

#[tokio::test]
async fn an_open_engine_answers_whatever_it_cannot_count_and_says_so() {
    let (store, key) = with_key(10).await;
    let counters = open("redis://127.0.0.1:1", Outage::Open, PATIENT, &store).await;
    for _ in 0..500 {
        assert_eq!(remaining(&*counters, &key, NOON).await, 10);
    }
    let report = counters.report();
    assert_eq!((report.uncounted, report.undecided), (500, 0), "each is counted once");
    let closed = open("redis://127.0.0.1:1", Outage::Closed, PATIENT, &store).await;
    let error = closed.charge_key(&key, NOON).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the shared counters at 127.0.0.1:1 cannot be reached: nobody listens there"
    );
}

#[tokio::test]
async fn who_may_not_count_is_told_why() {
    let (store, key) = with_key(10).await;
    let server = Redis::start_with(Flavour::Redis, &["--requirepass", "right"]).unwrap();
    for (url, why) in [
        (server.url(), "it wants a password, which --counters-password-file can hold"),
        (server.url().replace("//", "//:wrong@"), "it does not accept the user or the password"),
    ] {
        let counters = open(&url, Outage::Closed, PATIENT, &store).await;
        let told = counters.charge_key(&key, NOON).await.unwrap_err().to_string();
        assert!(told.ends_with(why) && !told.contains("wrong"), "{told}");
    }
    let counters = open(&server.url().replace("//", "//:right@"), Outage::Closed, PATIENT, &store).await;
    assert_eq!(remaining(&*counters, &key, NOON).await, 9);

    let replica = Redis::start_with(Flavour::Redis, &["--replicaof", "127.0.0.1", "1"]).unwrap();
    let counters = open(&replica.url(), Outage::Closed, PATIENT, &store).await;
    let told = counters.charge_key(&key, NOON).await.unwrap_err().to_string();
    assert!(told.ends_with("it is a slave, and only a master can count"), "{told}");
}
