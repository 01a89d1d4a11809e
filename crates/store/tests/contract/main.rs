//! One suite of contracts over every engine of the store.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]
#![expect(clippy::duplicate_mod, reason = "each test is one for each engine")]

mod copy;
mod secure;

/// Each of these files is compiled once for each engine, so that the name of a test says which of them it ran on.
mod sqlite {
    use crate::{Engine, Place, Store};

    async fn store() -> Store {
        Store::at(place()).await
    }

    fn place() -> Place {
        Place::of(Engine::Sqlite)
    }

    #[path = "../accounts.rs"]
    mod accounts;
    #[path = "../activity.rs"]
    mod activity;
    #[path = "../counters.rs"]
    mod counters;
    mod files;
    #[path = "../keytable.rs"]
    mod keytable;
    #[path = "../ledger.rs"]
    mod ledger;
    #[path = "../migration.rs"]
    mod migration;
    #[path = "../nodes.rs"]
    mod nodes;
    #[path = "../notices.rs"]
    mod notices;
    #[path = "../outcomes.rs"]
    mod outcomes;
    #[path = "../owned_keys.rs"]
    mod owned_keys;
    #[path = "../races.rs"]
    mod races;
    #[path = "../records.rs"]
    mod records;
    #[path = "../reserve.rs"]
    mod reserve;
    #[path = "../sessions.rs"]
    mod sessions;
    #[path = "../shared.rs"]
    mod shared;
    #[path = "../tokens.rs"]
    mod tokens;
}

mod postgres {
    use crate::{Engine, Place, Store};

    async fn store() -> Store {
        Store::at(place()).await
    }

    fn place() -> Place {
        Place::of(Engine::Postgres)
    }

    #[path = "../accounts.rs"]
    mod accounts;
    #[path = "../activity.rs"]
    mod activity;
    mod claims;
    #[path = "../counters.rs"]
    mod counters;
    #[path = "../keytable.rs"]
    mod keytable;
    #[path = "../ledger.rs"]
    mod ledger;
    #[path = "../migration.rs"]
    mod migration;
    #[path = "../nodes.rs"]
    mod nodes;
    #[path = "../notices.rs"]
    mod notices;
    #[path = "../outcomes.rs"]
    mod outcomes;
    #[path = "../owned_keys.rs"]
    mod owned_keys;
    #[path = "../races.rs"]
    mod races;
    #[path = "../records.rs"]
    mod records;
    #[path = "../reserve.rs"]
    mod reserve;
    mod server;
    #[path = "../sessions.rs"]
    mod sessions;
    #[path = "../shared.rs"]
    mod shared;
    #[path = "../tokens.rs"]
    mod tokens;
}

use ipse_model::{KeyText, Now, Scope, SecretHash};
use ipse_store::{
    AccountId, BootId, Created, DataFolder, Database, Email, KeyRecord, Ledger, NewKey, Proof, Records,
};
use ipse_testkit::Postgres;
use std::sync::Arc;
use tempfile::TempDir;

/// 2026-11-15 12:00 UTC.
const NOON: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 5_000_000 };
const DAY_MS: i64 = 86_400_000;

/// What the records are kept by.
#[derive(Clone, Copy)]
enum Engine {
    Sqlite,
    Postgres,
}

/// Where records are or will be kept: a folder of its own, and perhaps a database of its own on a server.
struct Place {
    dir: TempDir,
    folder: DataFolder,
    url: Option<String>,
}

impl Place {
    fn of(engine: Engine) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&dir.path().join("data")).unwrap();
        let url = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(Postgres::shared().unwrap().database().unwrap()),
        };
        Self { dir, folder, url }
    }

    fn database(&self) -> Database {
        match &self.url {
            Some(url) => Database::Server(url.parse().unwrap()),
            None => Database::Folder(self.folder.clone()),
        }
    }

    async fn open(&self) -> Records {
        self.database().open().await.unwrap()
    }

    /// Asks the database itself, past the records.
    fn ask(&self, sql: &str) -> String {
        if let Some(url) = &self.url {
            return Postgres::shared().unwrap().ask(url, sql).unwrap();
        }
        let mut command = std::process::Command::new("sqlite3");
        command.args(["-cmd", ".timeout 5000", "-cmd", "PRAGMA foreign_keys = ON"]);
        let asked = command.arg(self.folder.database()).arg(sql).output();
        let output = asked.expect("sqlite3 is needed: cargo xtask test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

/// A store in a place of its own.
struct Store {
    place: Place,
    records: Records,
}

impl std::ops::Deref for Store {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Store {
    async fn at(place: Place) -> Self {
        let records = place.open().await;
        Self { place, records }
    }

    async fn ledger(&self, boot: &str, now: Now) -> Arc<Ledger> {
        self.ledger_on(&self.records, boot, now).await
    }

    /// The same on records that were opened again.
    async fn ledger_on(&self, records: &Records, boot: &str, now: Now) -> Arc<Ledger> {
        Ledger::open(&self.folder, records, BootId::parse(boot), now).await.unwrap()
    }

    /// Makes a key in an account of its own.
    async fn key(&self, daily_limit: Option<u32>) -> (KeyText, KeyRecord) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let account = email(&format!("owner{number}@example.com"));
        create(&self.records, &account, daily_limit).await.unwrap()
    }
}

fn email(text: &str) -> Email {
    text.parse().unwrap()
}

async fn create(
    records: &Records,
    account: &Email,
    daily_limit: Option<u32>,
) -> Option<(KeyText, KeyRecord)> {
    let new = NewKey { account, name: "test", scope: Scope::Geo, daily_limit };
    match records.create_key(&new, NOON).await.unwrap() {
        Created::Key { text, record } => Some((text, record)),
        Created::AccountIsFull => None,
    }
}

/// An account that can be signed in to.
async fn sign_up(records: &Records, address: &str) -> AccountId {
    records.sign_up(&email(address), "$argon2id$one", true, NOON).await.unwrap().unwrap()
}

/// What somebody knows who signed up so.
fn proof(account: AccountId) -> Proof<'static> {
    Proof { account, password: Some("$argon2id$one"), totp_secret: None }
}

/// A hash that no other number makes.
fn hash(number: u32) -> SecretHash {
    SecretHash::of(&number.to_le_bytes())
}

/// A moment some milliseconds after another.
fn later(now: Now, ms: u32) -> Now {
    Now { unix_ms: now.unix_ms + i64::from(ms), boot_ms: now.boot_ms + u64::from(ms) }
}
