//! One suite of contracts over every engine of the store.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod accounts;
mod activity;
mod counters;
mod keytable;
mod migration;
mod notices;
mod outcomes;
mod owned_keys;
mod records;
mod sessions;
mod tokens;

use ipse_model::{KeyText, Now, Scope, SecretHash};
use ipse_store::{AccountId, BootId, Created, DataFolder, Email, KeyRecord, Ledger, NewKey, Proof, Records};
use std::sync::Arc;
use tempfile::TempDir;

/// 2026-11-15 12:00 UTC.
const NOON: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 5_000_000 };
const DAY_MS: i64 = 86_400_000;

/// A store in a folder of its own.
struct Store {
    dir: TempDir,
    folder: DataFolder,
    records: Records,
}

impl Store {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&dir.path().join("data")).unwrap();
        let records = Records::open(&folder).await.unwrap();
        Self { dir, folder, records }
    }

    async fn ledger(&self, boot: &str, now: Now) -> Arc<Ledger> {
        Ledger::open(&self.folder, &self.records, BootId::parse(boot), now).await.unwrap()
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

/// Asks the database itself, past the records.
fn sqlite(folder: &DataFolder, sql: &str) -> String {
    let mut command = std::process::Command::new("sqlite3");
    let asked = command.args(["-cmd", ".timeout 5000"]).arg(folder.database()).arg(sql).output();
    let output = asked.expect("sqlite3 is needed: cargo xtask test installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A moment some milliseconds after another.
fn later(now: Now, ms: u32) -> Now {
    Now { unix_ms: now.unix_ms + i64::from(ms), boot_ms: now.boot_ms + u64::from(ms) }
}
