//! Keys, as the operator's commands and their owners change them.
//!
//! What both do is written once: `owner` is the account that a key must belong to, and `None` if the operator asks.

use super::accounts::ensure_account;
use super::activity::{self, Activity};
use super::changes::log_change;
use super::{AccountId, Email, Records, Turn, flag, number, unreadable};
use crate::Error;
use ipse_model::{DAILY_LIMIT, KEYS_PER_ACCOUNT, KeyId, KeyState, KeyText, Now, Scope};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, Row};

/// A key with everything that its owner may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its number.
    pub id: KeyId,
    /// The account that holds it.
    pub account: String,
    /// What its owner calls it.
    pub name: String,
    /// The widest scope it may ask for.
    pub scope: Scope,
    /// Whether it is served.
    pub state: KeyState,
    /// The end of its text.
    pub last_four: String,
    /// When it was made.
    pub created_ms: i64,
    /// Answers per day.
    pub daily_limit: u32,
    /// Since when it is paused.
    pub paused_ms: Option<i64>,
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// The account; it is made if it is new.
    pub account: &'a Email,
    /// What its owner calls it.
    pub name: &'a str,
    /// The widest scope it may ask for.
    pub scope: Scope,
    /// Answers per day; the free tier's if not given.
    pub daily_limit: Option<u32>,
}

/// What came of making a key.
#[derive(Debug)]
pub enum Created {
    /// The key, with its text for the only time.
    Key {
        /// The secret.
        text: KeyText,
        /// The record.
        record: KeyRecord,
    },
    /// The account holds as many keys as it may.
    AccountIsFull,
}

impl Records {
    /// Makes a key, and its account if that is new.
    pub async fn create_key(&self, new: &NewKey<'_>, now: Now) -> Result<Created, Error> {
        let text = KeyText::from_random(getrandom::fill).map_err(Error::Random)?;
        let work = async {
            let mut tx = self.writer.begin().await?;
            let id = Turn::Key.next(&mut tx).await?;
            let (account, _) = ensure_account(&mut tx, new.account, now).await?;
            let record = KeyRecord {
                id: KeyId(id),
                account: new.account.as_str().to_owned(),
                name: new.name.to_owned(),
                scope: new.scope,
                state: KeyState::Active,
                last_four: text.last_four().to_owned(),
                created_ms: now.unix_ms,
                daily_limit: new.daily_limit.unwrap_or(DAILY_LIMIT),
                paused_ms: None,
            };
            if !insert(&mut tx, AccountId(account), &text, &record).await? {
                return Ok(Created::AccountIsFull);
            }
            tx.commit().await?;
            Ok(Created::Key { text, record })
        };
        self.within(work).await
    }

    /// The keys of one account, or of all.
    pub async fn keys(&self, account: Option<&Email>) -> Result<Vec<KeyRecord>, Error> {
        let read = async {
            let rows = sqlx::query(concat!(
                "SELECT ",
                record_columns!(),
                record_tables!(),
                " WHERE a.email = COALESCE($1, a.email)"
            ));
            let rows = rows.bind(account.map(Email::as_str)).fetch_all(&self.readers).await?;
            rows.iter().map(key_record).collect()
        };
        let mut keys: Vec<KeyRecord> = self.within(read).await?;
        // Engines have orders of their own for texts.
        keys.sort_unstable_by(|one, other| (&one.account, one.id).cmp(&(&other.account, other.id)));
        Ok(keys)
    }

    /// One key.
    pub async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>, Error> {
        self.within(async {
            sqlx::query(concat!("SELECT ", record_columns!(), record_tables!(), " WHERE k.id = $1"))
                .bind(id.0)
                .fetch_optional(&self.readers)
                .await
                .and_then(|row| row.as_ref().map(key_record).transpose())
        })
        .await
    }

    /// Switches a key on or off. `false` if it was so already, or is no more.
    pub async fn set_active(&self, id: KeyId, active: bool) -> Result<bool, Error> {
        self.switch(None, id, active).await
    }

    /// Pauses a key by hand. `false` if it was paused already, or is no more.
    pub async fn pause(&self, id: KeyId, now: Now) -> Result<bool, Error> {
        let sql = sqlx::query(
            "UPDATE keys SET paused_ms = $2, pause_minute = NULL WHERE id = $1 AND paused_ms IS NULL",
        );
        self.change(id, sql.bind(id.0).bind(now.unix_ms)).await
    }

    /// Pauses a key that went over the burst limit, unless it was resumed since it did so, and notes it for the owner.
    /// `minute` holds the requests of each second of the minute that did it.
    pub async fn pause_for_burst(
        &self,
        id: KeyId,
        resumes: u32,
        minute: &[u32],
        now: Now,
    ) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let seq = Turn::KeyChange.next(&mut tx).await?;
            let paused = sqlx::query(
                "UPDATE keys SET paused_ms = $2, pause_minute = $4 \
                 WHERE id = $1 AND paused_ms IS NULL AND resumes = $3 RETURNING account_id, name",
            )
            .bind(id.0)
            .bind(now.unix_ms)
            .bind(i64::from(resumes))
            .bind(minute.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            .fetch_optional(&mut *tx)
            .await?;
            let Some(key) = paused else { return Ok(false) };
            log_change(&mut tx, id.0, seq).await?;
            let (account, name) = (AccountId(key.try_get("account_id")?), key.try_get::<String, _>("name")?);
            activity::note(&mut tx, account, Activity::KeyPaused, Some(id), Some(&name), now).await?;
            tx.commit().await?;
            Ok(true)
        };
        self.within(work).await
    }

    /// Resumes a paused key with a fresh minute. `false` if it was not paused, or is no more.
    pub async fn resume(&self, id: KeyId) -> Result<bool, Error> {
        self.go_on(None, id).await
    }

    /// Changes a key's scope. `false` if it had it already, or is no more.
    pub async fn set_scope(&self, id: KeyId, scope: Scope) -> Result<bool, Error> {
        self.widen_or_narrow(None, id, scope).await
    }

    /// Changes a key's daily limit. `false` if it had it already, or is no more.
    pub async fn set_daily_limit(&self, id: KeyId, daily_limit: u32) -> Result<bool, Error> {
        let sql =
            sqlx::query("UPDATE keys SET daily_limit = $2 WHERE id = $1 AND daily_limit <> $2").bind(id.0);
        self.change(id, sql.bind(i64::from(daily_limit))).await
    }

    /// Gives a key another text; the one before works for `keep_ms` more, or is invalid at once if that is 0. A text that is
    /// even older is invalid at once in any case. `None` if the key is no more.
    pub async fn roll(&self, id: KeyId, keep_ms: i64, now: Now) -> Result<Option<KeyText>, Error> {
        self.replace_text(None, id, keep_ms, now).await
    }

    /// Deletes a key and its usage. `false` if it is no more.
    pub async fn delete_key(&self, id: KeyId) -> Result<bool, Error> {
        self.delete(None, id).await
    }

    pub(super) async fn switch(
        &self,
        owner: Option<AccountId>,
        id: KeyId,
        active: bool,
    ) -> Result<bool, Error> {
        let sql =
            sqlx::query(concat!("UPDATE keys SET active = $3 WHERE ", is_owners!(), " AND active <> $3"));
        self.change(id, sql.bind(id.0).bind(number_of(owner)).bind(i32::from(active))).await
    }

    pub(super) async fn go_on(&self, owner: Option<AccountId>, id: KeyId) -> Result<bool, Error> {
        let sql = sqlx::query(concat!(
            "UPDATE keys SET paused_ms = NULL, pause_minute = NULL, resumes = resumes + 1 WHERE ",
            is_owners!(),
            " AND paused_ms IS NOT NULL"
        ));
        self.change(id, sql.bind(id.0).bind(number_of(owner))).await
    }

    pub(super) async fn widen_or_narrow(
        &self,
        owner: Option<AccountId>,
        id: KeyId,
        scope: Scope,
    ) -> Result<bool, Error> {
        let sql = sqlx::query(concat!("UPDATE keys SET scope = $3 WHERE ", is_owners!(), " AND scope <> $3"));
        self.change(id, sql.bind(id.0).bind(number_of(owner)).bind(scope.as_str())).await
    }

    pub(super) async fn replace_text(
        &self,
        owner: Option<AccountId>,
        id: KeyId,
        keep_ms: i64,
        now: Now,
    ) -> Result<Option<KeyText>, Error> {
        let text = KeyText::from_random(getrandom::fill).map_err(Error::Random)?;
        let work = async {
            let mut tx = self.writer.begin().await?;
            let seq = Turn::KeyChange.next(&mut tx).await?;
            let before = sqlx::query(concat!("SELECT hash, last_four FROM keys WHERE ", is_owners!()))
                .bind(id.0)
                .bind(number_of(owner))
                .fetch_optional(&mut *tx)
                .await?;
            let Some(before) = before else { return Ok(None) };
            sqlx::query("DELETE FROM old_texts WHERE key_id = $1 OR ends_ms <= $2")
                .bind(id.0)
                .bind(now.unix_ms)
                .execute(&mut *tx)
                .await?;
            if keep_ms > 0 {
                sqlx::query(
                    "INSERT INTO old_texts (hash, key_id, last_four, ends_ms) VALUES ($1, $2, $3, $4)",
                )
                .bind(before.try_get::<String, _>("hash")?)
                .bind(id.0)
                .bind(before.try_get::<String, _>("last_four")?)
                .bind(now.unix_ms.saturating_add(keep_ms))
                .execute(&mut *tx)
                .await?;
            }
            sqlx::query("UPDATE keys SET hash = $2, last_four = $3 WHERE id = $1")
                .bind(id.0)
                .bind(text.hash().to_hex())
                .bind(text.last_four())
                .execute(&mut *tx)
                .await?;
            log_change(&mut tx, id.0, seq).await?;
            tx.commit().await?;
            Ok(Some(()))
        };
        Ok(self.within(work).await?.map(|()| text))
    }

    pub(super) async fn delete(&self, owner: Option<AccountId>, id: KeyId) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let seq = Turn::KeyChange.next(&mut tx).await?;
            let found = sqlx::query(concat!("SELECT id FROM keys WHERE ", is_owners!()))
                .bind(id.0)
                .bind(number_of(owner))
                .fetch_optional(&mut *tx)
                .await?;
            if found.is_none() {
                return Ok(false);
            }
            delete_key(&mut tx, id.0, seq).await?;
            tx.commit().await?;
            Ok(true)
        };
        self.within(work).await
    }

    /// Updates one key and logs the change, if the update found it.
    async fn change<'q>(&self, id: KeyId, update: Query<'q, Any, AnyArguments>) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let seq = Turn::KeyChange.next(&mut tx).await?;
            if update.execute(&mut *tx).await?.rows_affected() == 0 {
                return Ok(false);
            }
            log_change(&mut tx, id.0, seq).await?;
            tx.commit().await?;
            Ok(true)
        };
        self.within(work).await
    }
}

/// The columns that [`key_record`] reads.
macro_rules! record_columns {
    () => {
        "k.id, a.email, k.name, k.scope, k.active, k.paused_ms, k.last_four, k.created_ms, k.daily_limit"
    };
}
pub(super) use record_columns;

/// The tables that they stand in.
macro_rules! record_tables {
    () => {
        " FROM keys k JOIN accounts a ON a.id = k.account_id"
    };
}
pub(super) use record_tables;

/// The key of `$1`, if it belongs to the account of `$2` or nobody says to whom it must belong.
macro_rules! is_owners {
    () => {
        "id = $1 AND account_id = COALESCE($2, account_id)"
    };
}
pub(super) use is_owners;

fn number_of(owner: Option<AccountId>) -> Option<i64> {
    owner.map(|account| account.0)
}

pub(super) fn key_record(row: &AnyRow) -> Result<KeyRecord, sqlx::Error> {
    Ok(KeyRecord {
        id: KeyId(row.try_get("id")?),
        account: row.try_get("email")?,
        name: row.try_get("name")?,
        scope: scope(row)?,
        state: state(row)?,
        last_four: row.try_get("last_four")?,
        created_ms: row.try_get("created_ms")?,
        daily_limit: number(row, "daily_limit")?,
        paused_ms: row.try_get("paused_ms")?,
    })
}

pub(super) fn scope(row: &AnyRow) -> Result<Scope, sqlx::Error> {
    row.try_get::<String, _>("scope")?.parse().map_err(|_| unreadable("scope"))
}

/// Inactive wins: a key that is paused and deactivated is still paused when it is activated again.
pub(super) fn state(row: &AnyRow) -> Result<KeyState, sqlx::Error> {
    let paused = row.try_get::<Option<i64>, _>("paused_ms")?.is_some();
    Ok(state_of(flag(row, "active")?, paused))
}

pub(super) fn state_of(active: bool, paused: bool) -> KeyState {
    match (active, paused) {
        (false, _) => KeyState::Inactive,
        (true, true) => KeyState::Paused,
        (true, false) => KeyState::Active,
    }
}

/// Writes a new key. `false` if the account holds as many as it may. The transaction has begun with the key's number,
/// so nobody counts beside us.
pub(super) async fn insert(
    connection: &mut AnyConnection,
    account: AccountId,
    text: &KeyText,
    record: &KeyRecord,
) -> Result<bool, sqlx::Error> {
    let held = sqlx::query("SELECT COUNT(*) FROM keys WHERE account_id = $1")
        .bind(account.0)
        .fetch_one(&mut *connection)
        .await?
        .try_get::<i64, _>(0)?;
    if held >= i64::from(KEYS_PER_ACCOUNT) {
        return Ok(false);
    }
    let seq = Turn::KeyChange.next(connection).await?;
    sqlx::query(
        "INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, \
         resumes, created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, NULL, 0, $8)",
    )
    .bind(record.id.0)
    .bind(account.0)
    .bind(record.name.as_str())
    .bind(text.hash().to_hex())
    .bind(text.last_four())
    .bind(record.scope.as_str())
    .bind(i64::from(record.daily_limit))
    .bind(record.created_ms)
    .execute(&mut *connection)
    .await?;
    log_change(connection, record.id.0, seq).await?;
    Ok(true)
}

/// Deletes a key; what is only about it goes with it. Its history goes first, in the order in which a fold writes it: a
/// fold that has some of it locked may still have to see that the key is there.
pub(super) async fn delete_key(
    connection: &mut AnyConnection,
    key_id: i64,
    seq: i64,
) -> Result<(), sqlx::Error> {
    log_change(connection, key_id, seq).await?;
    for sql in [
        "DELETE FROM usage WHERE subject = $1",
        "DELETE FROM outcomes_by_day WHERE key_id = $1",
        "DELETE FROM outcomes_by_hour WHERE key_id = $1",
    ] {
        sqlx::query(sql).bind(key_id).execute(&mut *connection).await?;
    }
    sqlx::query("DELETE FROM keys WHERE id = $1").bind(key_id).execute(connection).await?;
    Ok(())
}
