//! Encrypted ways to the engine that counts and to the database: whom they trust, and what is said if they do not.

use crate::{Engine, NOON, Place, Store};
use ipse_model::{Charge, Key, KeyState, Scope};
use ipse_store::{Counters, DatabaseUrl, Error, KeyCharge, Outage, Records, Shared, SharedClock, SharedPlan};
use ipse_testkit::{Authority, Flavour, Postgres, Redis};
use std::fs;
use std::time::Duration;

/// Long enough for any machine.
const PATIENT: Duration = Duration::from_secs(20);

/// What an engine at an address says of one charge.
async fn charged(url: &str, authority: Option<&Authority>) -> Result<KeyCharge, String> {
    let store = Store::at(Place::of(Engine::Sqlite)).await;
    let (_, record) = store.key(Some(10)).await;
    let plan = SharedPlan {
        url: url.parse().unwrap(),
        authority: authority.map(|authority| fs::read(authority.file()).unwrap()),
        outage: Outage::Closed,
        patience: PATIENT,
        clock: SharedClock::Callers,
    };
    let counters = Shared::open(plan, &store.records).await.unwrap();
    let key = Key { id: record.id, scope: Scope::Geo, state: KeyState::Active, daily_limit: 10, resumes: 0 };
    loop {
        let charged = counters.charge_key(&key, NOON).await.map_err(|error| error.to_string());
        if !charged.as_ref().is_err_and(|told| told.ends_with("it was not asked yet")) {
            return charged;
        }
        // waits for: an engine that says nothing, of which nobody is told.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn check_engine(flavour: Flavour) {
    let (ours, theirs) = (Authority::new("ours").unwrap(), Authority::new("theirs").unwrap());
    let files = ours.vouch("127.0.0.1").unwrap();
    let server = Redis::start_secure(flavour, &files, &["--requirepass", "hush"]).unwrap();
    let port = server.secure_port().unwrap();
    let good = format!("rediss://:hush@127.0.0.1:{port}");
    let granted = charged(&good, Some(&ours)).await;
    assert!(matches!(granted, Ok(KeyCharge::Charged(Charge::Granted(_)))), "{granted:?}");

    let refused = async |url: &str, authority, why: &str| {
        let told = charged(url, authority).await.unwrap_err();
        assert!(told.ends_with(why) && !told.contains("hush"), "{url}: {told}");
    };
    let unknown = "nobody whom we trust vouches for its certificate; --counters-ca names who does";
    refused(&good, Some(&theirs), unknown).await;
    refused(&good, None, unknown).await;
    let elsewhere = good.replace("127.0.0.1", "localhost");
    let name = "its certificate is for another name; --counters must name it as its certificate does";
    refused(&elsewhere, Some(&ours), name).await;
    let wrong = good.replace("hush", "hushhush");
    refused(&wrong, Some(&ours), "it does not accept the user or the password").await;
    let clear = good.replace(&port.to_string(), &server.address.port().to_string());
    refused(&clear, Some(&ours), "it does not answer; does it speak TLS there?").await;
}

#[tokio::test]
async fn redis_is_believed_only_with_a_certificate_that_is_vouched_for() {
    check_engine(Flavour::Redis).await;
}

#[tokio::test]
async fn valkey_is_believed_only_with_a_certificate_that_is_vouched_for() {
    check_engine(Flavour::Valkey).await;
}

#[tokio::test]
async fn a_database_is_believed_only_with_a_certificate_that_is_vouched_for() {
    let (ours, theirs) = (Authority::new("ours").unwrap(), Authority::new("theirs").unwrap());
    let server = Postgres::start_secure(&ours.vouch("localhost").unwrap()).unwrap();
    let url = server.database().unwrap();
    let by_name = url.replace("127.0.0.1", "localhost");
    let with = |url: &str, mode: &str, authority: Option<&Authority>| {
        let root = authority.map(|authority| format!("&sslrootcert={}", authority.file().display()));
        format!("{url}?sslmode={mode}{}", root.unwrap_or_default())
    };
    for good in [
        with(&by_name, "verify-full", Some(&ours)),
        with(&url, "verify-ca", Some(&ours)),
        with(&url, "require", None),
    ] {
        let good: DatabaseUrl = good.parse().unwrap();
        let records = Records::connect(&good).await.unwrap();
        records.check().await.unwrap();
        let connections = "SELECT count(*) > 0 AND bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                           WHERE backend_type = 'client backend' AND application_name <> 'psql'";
        assert_eq!(server.ask(&url, connections).unwrap(), "t");
        records.close().await;
    }
    for (bad, why) in [
        (with(&by_name, "verify-full", Some(&theirs)), "nobody whom we trust vouches for its certificate"),
        (with(&by_name, "verify-full", None), "nobody whom we trust vouches for its certificate"),
        (with(&url, "verify-full", Some(&ours)), "its certificate is for another name"),
    ] {
        let parsed: DatabaseUrl = bad.parse().unwrap();
        let error = Records::connect(&parsed).await.unwrap_err();
        assert!(matches!(error, Error::NoTls { .. }) && !error.transient(), "{bad}: {error}");
        let told = error.to_string();
        assert!(told.contains(why) && !told.contains("pass"), "{bad}: {told}");
    }
}
