//! A database of the version before goes on, under this program and under that one.

use crate::{NOON, Place, email, later};
use ipse_model::{KeyHash, KeyId, KeyState, Scope};
use ipse_store::{KeyTable, Subject};

const FIRST: &str = include_str!("../../migrations/0001_accounts_keys_usage.sql");

/// A place as the first version leaves it: one account, a key that is paused and one that is not, some usage.
fn before() -> Place {
    let place = super::place();
    let day = NOON.day().0;
    let (one, two) = ("11".repeat(32), "22".repeat(32));
    place.ask(&format!(
        "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY); \
         INSERT INTO schema_migrations VALUES (1); {FIRST} \
         UPDATE sequences SET value = 2; \
         INSERT INTO accounts VALUES (1, 'me@example.com', 5); \
         INSERT INTO keys VALUES (1, 1, 'shop', '{one}', 'abcd', 'geo', 10000, 1, 7, 0, 6); \
         INSERT INTO keys VALUES (2, 1, 'site', '{two}', 'efgh', 'full', 500, 1, NULL, 3, 6); \
         INSERT INTO key_changes VALUES (1, 1), (2, 2); \
         INSERT INTO usage VALUES (0, {day}, 4, 64), (2, {day}, 90, 128)"
    ));
    place
}

#[tokio::test]
async fn what_was_stored_is_still_there() {
    let place = before();
    let records = place.open().await;
    let owner = records.login(&email("me@example.com")).await.unwrap().unwrap();
    assert_eq!((owner.password, owner.totp_secret, owner.totp_step), (None, None, 0));
    let profile = records.profile(owner.id).await.unwrap().unwrap();
    assert!(profile.created_ms == 5 && profile.mail_pause && profile.mail_quota && !profile.has_password);
    let keys = records.keys_of(owner.id).await.unwrap();
    let told: Vec<_> =
        keys.iter().map(|key| (key.record.name.as_str(), key.record.state, key.last_used)).collect();
    assert_eq!(told, [("shop", KeyState::Paused, None), ("site", KeyState::Active, Some(NOON.day()))]);
    assert!(keys.iter().all(|key| key.pause_minute.is_none() && key.old_text.is_none()));
    assert_eq!(records.used(Subject::Key(KeyId(2)), NOON.day()).await.unwrap(), 90);
    let table = KeyTable::load(&records).await.unwrap();
    let site = table.find(&KeyHash([0x22; 32]), NOON).unwrap();
    assert_eq!((site.scope, site.daily_limit, site.resumes), (Scope::Full, 500, 3));
    assert_eq!(records.due_notices(NOON).await.unwrap(), [], "a pause of long ago is no news");
    // Opening it again changes nothing.
    records.close().await;
    let records = place.open().await;
    assert_eq!(records.keys_of(owner.id).await.unwrap(), keys);
    records.check().await.unwrap();
}

/// What a server of the first version says to the database when a command of this one has migrated it meanwhile.
#[tokio::test]
async fn a_program_of_the_version_before_still_works_on_it() {
    let place = before();
    let records = place.open().await;
    let owner = records.login(&email("me@example.com")).await.unwrap().unwrap().id;
    records.roll_of(owner, KeyId(2), 1000, NOON).await.unwrap().unwrap();
    records.pause_for_burst(KeyId(2), 3, &[301], NOON).await.unwrap();
    let told = records.due_notices(later(NOON, 1)).await.unwrap();
    assert_eq!(told.len(), 1);
    let say = |sql: &str| place.ask(sql);
    say(
        "INSERT INTO accounts (id, email, created_ms) VALUES (9, 'new@example.com', 1) ON CONFLICT DO NOTHING",
    );
    say(
        "INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, resumes, \
         created_ms) VALUES (9, 9, '', 'aa', 'bbbb', 'ip', 10000, 1, NULL, 0, 1)",
    );
    say("UPDATE keys SET paused_ms = NULL, resumes = resumes + 1 WHERE id = 2 AND paused_ms IS NOT NULL");
    let resumed = records.key_of(owner, KeyId(2)).await.unwrap().unwrap();
    assert_eq!((resumed.record.state, resumed.pause_minute), (KeyState::Active, None));
    // It deletes what it knows; what it does not know goes along.
    say("DELETE FROM usage WHERE subject = 2; DELETE FROM keys WHERE id = 2");
    say("DELETE FROM keys WHERE account_id = 1; DELETE FROM accounts WHERE id = 1");
    for table in ["old_texts", "notices", "activity"] {
        assert_eq!(place.ask(&format!("SELECT COUNT(*) FROM {table}")), "0", "{table}");
    }
}
