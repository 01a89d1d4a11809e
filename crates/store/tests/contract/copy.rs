//! Everything of one installation in another database, and back.

use crate::{Engine, NOON, Place, Store, email, hash, later, proof, sign_up};
use ipse_model::Scope;
use ipse_store::{
    Activity, Counters, Created, Error, NewToken, Node, Portion, Subject, TokenPurpose, Wanted,
};

const TABLES: [&str; 15] = [
    "sequences",
    "accounts",
    "keys",
    "key_changes",
    "usage",
    "facts",
    "recovery_codes",
    "sessions",
    "tokens",
    "activity",
    "old_texts",
    "outcomes_by_day",
    "outcomes_by_hour",
    "notices",
    "nodes",
];

/// Every row of every table, as text and in one order.
fn dump(place: &Place) -> Vec<String> {
    let mut dump = Vec::new();
    for table in TABLES {
        let rows = place.ask(&format!("SELECT * FROM {table}"));
        let mut rows: Vec<String> = rows.lines().map(|row| format!("{table}: {row}")).collect();
        assert!(!rows.is_empty(), "nothing of {table} is tried");
        rows.sort_unstable();
        dump.extend(rows);
    }
    dump
}

/// Something of everything, with texts that are hard to write.
async fn fill(store: &Store) {
    let records = &store.records;
    let me = sign_up(records, "ünïcode+\'quotes@example.com").await;
    sign_up(records, "them@example.com").await;
    records.create_account(&email("nobody@example.com"), NOON).await.unwrap();
    let ledger = store.ledger("00000000-0000-0000-0000-000000000001", NOON).await;
    for name in ["", "shop \"; DROP TABLE keys; --", "日本語 \\ $1"] {
        let made = records.create_key_of(me, name, Scope::Full, NOON).await.unwrap();
        let Created::Key { text, record } = made else { panic!("the account is new") };
        records.note_activity(me, Activity::KeyCreated, Some(record.id), Some(name), NOON).await.unwrap();
        let table = ipse_store::KeyTable::load(records).await.unwrap();
        let key = table.find(&text.hash(), NOON).unwrap();
        for _ in 0..302 {
            ledger.charge_key(&key, NOON).await.unwrap();
        }
        if name.is_empty() {
            records.roll_of(me, record.id, 5000, NOON).await.unwrap();
            records.set_active(record.id, false).await.unwrap();
        }
    }
    ledger.charge_demo(NOON).await.unwrap().unwrap();
    ledger.close(later(NOON, 5)).await.unwrap();
    records.begin_session(&proof(me), &hash(1), "Firefox on \u{1f427}", true, NOON).await.unwrap();
    records.set_totp(me, "BASE32", 7, &[hash(2), hash(3)]).await.unwrap();
    let token = NewToken {
        hash: &hash(4),
        purpose: TokenPurpose::SignUp,
        account: None,
        email: Some(&email("new@example.com")),
        password: Some("$argon2id$x"),
        ends_ms: NOON.unix_ms + 5000,
    };
    records.make_token(&token, NOON).await.unwrap();
    assert_eq!(records.due_notices(later(NOON, 1)).await.unwrap().len(), 3);
    let wanted =
        Wanted { subject: Subject::Demo, day: NOON.day(), limit: 1000, portion: Portion::Few { waiting: 1 } };
    records.reserve(&[wanted]).await.unwrap();
    let (id, name, version) = ("a".to_owned(), "one".to_owned(), "0.1.0".to_owned());
    records.seen(&Node { id, name, version, started_ms: 1, seen_ms: 1 }, NOON).await.unwrap();
    records.installation().await.unwrap();
}

#[tokio::test]
async fn a_round_trip_over_both_engines_changes_nothing() {
    let first = Store::at(Place::of(Engine::Sqlite)).await;
    fill(&first).await;
    let second = Store::at(Place::of(Engine::Postgres)).await;
    let third = Store::at(Place::of(Engine::Sqlite)).await;
    let fourth = Store::at(Place::of(Engine::Postgres)).await;
    let expected = dump(&first);
    let copied = first.records.copy_to(&second.records).await.unwrap();
    assert_eq!(copied.iter().map(|table| table.rows).sum::<u64>(), expected.len() as u64);
    assert_eq!(dump(&second), expected);
    assert_eq!(second.records.copy_to(&third.records).await.unwrap(), copied);
    assert_eq!(dump(&third), expected);
    assert_eq!(second.records.copy_to(&fourth.records).await.unwrap(), copied);
    assert_eq!(dump(&fourth), expected);
    // All of it goes on working: numbers are not given out again.
    let (_, key) = second.key(None).await;
    assert_eq!(key.id.0, 4);
    let before = first.records.accounts().await.unwrap();
    assert_eq!(third.records.accounts().await.unwrap(), before);
    assert_eq!(fourth.records.accounts().await.unwrap(), before);
}

#[tokio::test]
async fn nothing_is_copied_over_anything() {
    let source = Store::at(Place::of(Engine::Sqlite)).await;
    source.key(None).await;
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let target = Store::at(Place::of(engine)).await;
        target.records.create_account(&email("me@example.com"), NOON).await.unwrap();
        target.records.delete_account(&email("me@example.com")).await.unwrap();
        let error = source.records.copy_to(&target.records).await.unwrap_err();
        assert!(matches!(error, Error::NotEmpty(_)), "even of what is gone: {error}");
        assert_eq!(target.ask("SELECT COUNT(*) FROM keys"), "0");
    }
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing() {
    let source = Store::at(Place::of(Engine::Sqlite)).await;
    fill(&source).await;
    let target = Store::at(Place::of(Engine::Postgres)).await;
    // A trigger is what a full disk or a broken line would be: it fails in the middle.
    target.ask("ALTER TABLE notices ADD CONSTRAINT never CHECK (occasion < 0)");
    source.records.copy_to(&target.records).await.unwrap_err();
    assert_eq!(target.ask("SELECT COUNT(*) FROM accounts"), "0");
    // And one that changes what it is given is found out.
    target.ask(
        "ALTER TABLE notices DROP CONSTRAINT never; CREATE FUNCTION worse() RETURNS trigger AS \
         $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER worse BEFORE INSERT ON keys FOR EACH ROW EXECUTE FUNCTION worse()",
    );
    let error = source.records.copy_to(&target.records).await.unwrap_err();
    assert!(matches!(error, Error::CopyDiffers { table: "keys", .. }), "{error}");
    assert_eq!(target.ask("SELECT COUNT(*) FROM accounts"), "0");
}
