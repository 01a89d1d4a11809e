//! `Records`: accounts, keys, usage history. One SQL text for every engine.
//!
//! Every transaction begins with a write to `sequences` or to the row it is about, so it never has to turn a read
//! lock into a write lock, which SQLite would refuse under contention.

use crate::{DataFolder, Error, Subject};
use ipse_model::{DAILY_LIMIT, Day, KEYS_PER_ACCOUNT, Key, KeyHash, KeyId, KeyState, KeyText, Now, Scope};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Connection, Row};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MIGRATIONS: &[(i64, &str)] = &[(1, include_str!("../migrations/0001_accounts_keys_usage.sql"))];
/// Every connection waits its turn, writes ahead, and syncs before it says that something is written.
const SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                        PRAGMA foreign_keys = ON;";
/// How many changes of keys are remembered for servers that lag behind.
const CHANGES_KEPT: i64 = 10_000;

/// The records of one installation.
#[derive(Clone, Debug)]
pub struct Records {
    /// One connection, so that writers of this process queue here and not in the engine.
    writer: AnyPool,
    readers: AnyPool,
    path: PathBuf,
}

/// An account, as commands list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The address that names it.
    pub email: String,
    /// When it was made.
    pub created_ms: i64,
    /// How many keys it holds.
    pub keys: u32,
}

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

/// The count of one subject on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Whose.
    pub subject: Subject,
    /// When.
    pub day: Day,
    /// Requests counted.
    pub used: u32,
    /// How far requests may have been served uncounted.
    pub mark: u32,
}

impl Records {
    /// Opens the embedded database of a data folder, makes it if it is not there, and brings its schema up to date.
    pub async fn open(folder: &DataFolder) -> Result<Self, Error> {
        sqlx::any::install_default_drivers();
        let path = folder.database();
        let failed = |source| Error::database(&path, source);
        let options =
            AnyConnectOptions::from_str(&sqlite_url(&path)).map_err(failed)?.disable_statement_logging();
        // A pool would try a failing connection again and again; this one says at once what is wrong.
        let mut first = options.connect().await.map_err(failed)?;
        sqlx::raw_sql(SETTINGS).execute(&mut first).await.map_err(failed)?;
        if folder.has_journal() && !has_schema(&mut first).await.map_err(failed)? {
            let what = "it is missing or empty, though the journal beside it is not".to_owned();
            return Err(Error::Damaged { path, what });
        }
        let pool = |connections| {
            AnyPoolOptions::new().max_connections(connections).after_connect(|connection, _| {
                Box::pin(async move { sqlx::raw_sql(SETTINGS).execute(connection).await.map(drop) })
            })
        };
        let writer = pool(1).connect_with(options.clone()).await.map_err(failed)?;
        let readers = pool(4).connect_lazy_with(options);
        first.close().await.map_err(failed)?;
        let records = Self { writer, readers, path };
        records.migrate().await?;
        Ok(records)
    }

    /// Reads every page once, so that damage is found before anything is served from it.
    pub async fn check(&self) -> Result<(), Error> {
        let row =
            sqlx::query("PRAGMA quick_check(1)").fetch_one(&self.readers).await.map_err(self.failed())?;
        match row.try_get::<String, _>(0).map_err(self.failed())? {
            ok if ok == "ok" => Ok(()),
            what => Err(Error::Damaged {
                path: self.path.clone(),
                what: what.lines().collect::<Vec<_>>().join("; "),
            }),
        }
    }

    /// Waits for what is being written and closes every connection.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// The version of SQLite that is built in.
    pub async fn engine_version(&self) -> Result<String, Error> {
        let row =
            sqlx::query("SELECT sqlite_version()").fetch_one(&self.readers).await.map_err(self.failed())?;
        row.try_get(0).map_err(self.failed())
    }

    /// Makes an account. `false` if there is one already.
    pub async fn create_account(&self, email: &Email, now: Now) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let (_, made) = ensure_account(&mut tx, email, now).await?;
            tx.commit().await?;
            Ok(made)
        };
        work.await.map_err(self.failed())
    }

    /// All accounts by address.
    pub async fn accounts(&self) -> Result<Vec<Account>, Error> {
        let rows = sqlx::query(
            "SELECT a.email, a.created_ms, (SELECT COUNT(*) FROM keys k WHERE k.account_id = a.id) \
             FROM accounts a ORDER BY a.email",
        )
        .fetch_all(&self.readers)
        .await
        .map_err(self.failed())?;
        rows.iter()
            .map(|row| {
                Ok(Account {
                    email: row.try_get(0)?,
                    created_ms: row.try_get(1)?,
                    keys: row.try_get::<i64, _>(2)?.try_into().unwrap_or(u32::MAX),
                })
            })
            .collect::<Result<_, sqlx::Error>>()
            .map_err(self.failed())
    }

    /// Deletes an account with its keys and their usage. `false` if there is none.
    pub async fn delete_account(&self, email: &Email) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let change = next(&mut tx, "key_change").await?;
            let account = sqlx::query("SELECT id FROM accounts WHERE email = $1")
                .bind(email.as_str())
                .fetch_optional(&mut *tx)
                .await?;
            let Some(account) = account else { return Ok(false) };
            let account: i64 = account.try_get(0)?;
            let keys = sqlx::query("SELECT id FROM keys WHERE account_id = $1")
                .bind(account)
                .fetch_all(&mut *tx)
                .await?;
            let mut change = Some(change);
            for key in &keys {
                let seq = match change.take() {
                    Some(first) => first,
                    None => next(&mut tx, "key_change").await?,
                };
                delete_key(&mut tx, key.try_get(0)?, seq).await?;
            }
            sqlx::query("DELETE FROM accounts WHERE id = $1").bind(account).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(true)
        };
        work.await.map_err(self.failed())
    }

    /// Makes a key, and its account if that is new.
    pub async fn create_key(&self, new: &NewKey<'_>, now: Now) -> Result<Created, Error> {
        let text = KeyText::from_random(getrandom::fill).map_err(Error::Random)?;
        let work = async {
            let mut tx = self.writer.begin().await?;
            let id = next(&mut tx, "key").await?;
            let (account, _) = ensure_account(&mut tx, new.account, now).await?;
            let held = sqlx::query("SELECT COUNT(*) FROM keys WHERE account_id = $1")
                .bind(account)
                .fetch_one(&mut *tx)
                .await?
                .try_get::<i64, _>(0)?;
            if held >= i64::from(KEYS_PER_ACCOUNT) {
                return Ok(Created::AccountIsFull);
            }
            let daily_limit = new.daily_limit.unwrap_or(DAILY_LIMIT);
            sqlx::query(
                "INSERT INTO keys (id, account_id, name, hash, last_four, scope, daily_limit, active, paused_ms, \
                 resumes, created_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, 1, NULL, 0, $8)",
            )
            .bind(id)
            .bind(account)
            .bind(new.name)
            .bind(text.hash().to_hex())
            .bind(text.last_four())
            .bind(new.scope.as_str())
            .bind(i64::from(daily_limit))
            .bind(now.unix_ms)
            .execute(&mut *tx)
            .await?;
            log_change(&mut tx, id).await?;
            let record = KeyRecord {
                id: KeyId(id),
                account: new.account.as_str().to_owned(),
                name: new.name.to_owned(),
                scope: new.scope,
                state: KeyState::Active,
                last_four: text.last_four().to_owned(),
                created_ms: now.unix_ms,
                daily_limit,
                paused_ms: None,
            };
            tx.commit().await?;
            Ok(Created::Key { text, record })
        };
        work.await.map_err(self.failed())
    }

    /// The keys of one account, or of all.
    pub async fn keys(&self, account: Option<&Email>) -> Result<Vec<KeyRecord>, Error> {
        let rows = match account {
            Some(email) => {
                sqlx::query(concat!("SELECT ", record_columns!(), " WHERE a.email = $1 ORDER BY k.id"))
                    .bind(email.as_str())
                    .fetch_all(&self.readers)
                    .await
            }
            None => {
                sqlx::query(concat!("SELECT ", record_columns!(), " ORDER BY a.email, k.id"))
                    .fetch_all(&self.readers)
                    .await
            }
        };
        rows.and_then(|rows| rows.iter().map(key_record).collect()).map_err(self.failed())
    }

    /// One key.
    pub async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>, Error> {
        sqlx::query(concat!("SELECT ", record_columns!(), " WHERE k.id = $1"))
            .bind(id.0)
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map(key_record).transpose())
            .map_err(self.failed())
    }

    /// Switches a key on or off. `false` if it was so already, or is no more.
    pub async fn set_active(&self, id: KeyId, active: bool) -> Result<bool, Error> {
        let sql = sqlx::query("UPDATE keys SET active = $2 WHERE id = $1 AND active <> $2").bind(id.0);
        self.change(id, sql.bind(i32::from(active))).await
    }

    /// Pauses a key by hand. `false` if it was paused already, or is no more.
    pub async fn pause(&self, id: KeyId, now: Now) -> Result<bool, Error> {
        let sql = sqlx::query("UPDATE keys SET paused_ms = $2 WHERE id = $1 AND paused_ms IS NULL");
        self.change(id, sql.bind(id.0).bind(now.unix_ms)).await
    }

    /// Pauses a key that went over the burst limit, unless it was resumed since it did so.
    pub async fn pause_for_burst(&self, id: KeyId, resumes: u32, now: Now) -> Result<bool, Error> {
        let sql = sqlx::query(
            "UPDATE keys SET paused_ms = $2 WHERE id = $1 AND paused_ms IS NULL AND resumes = $3",
        );
        self.change(id, sql.bind(id.0).bind(now.unix_ms).bind(i64::from(resumes))).await
    }

    /// Resumes a paused key with a fresh minute. `false` if it was not paused, or is no more.
    pub async fn resume(&self, id: KeyId) -> Result<bool, Error> {
        let sql = sqlx::query(
            "UPDATE keys SET paused_ms = NULL, resumes = resumes + 1 WHERE id = $1 AND paused_ms IS NOT NULL",
        );
        self.change(id, sql.bind(id.0)).await
    }

    /// Changes a key's scope. `false` if it had it already, or is no more.
    pub async fn set_scope(&self, id: KeyId, scope: Scope) -> Result<bool, Error> {
        let sql = sqlx::query("UPDATE keys SET scope = $2 WHERE id = $1 AND scope <> $2").bind(id.0);
        self.change(id, sql.bind(scope.as_str())).await
    }

    /// Changes a key's daily limit. `false` if it had it already, or is no more.
    pub async fn set_daily_limit(&self, id: KeyId, daily_limit: u32) -> Result<bool, Error> {
        let sql =
            sqlx::query("UPDATE keys SET daily_limit = $2 WHERE id = $1 AND daily_limit <> $2").bind(id.0);
        self.change(id, sql.bind(i64::from(daily_limit))).await
    }

    /// Gives a key another text; the old one is invalid at once. `None` if the key is no more.
    pub async fn roll(&self, id: KeyId) -> Result<Option<KeyText>, Error> {
        let text = KeyText::from_random(getrandom::fill).map_err(Error::Random)?;
        let sql = sqlx::query("UPDATE keys SET hash = $2, last_four = $3 WHERE id = $1").bind(id.0);
        let rolled =
            self.change(id, sql.bind(text.hash().to_hex()).bind(text.last_four().to_owned())).await?;
        Ok(rolled.then_some(text))
    }

    /// Deletes a key and its usage. `false` if it is no more.
    pub async fn delete_key(&self, id: KeyId) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let seq = next(&mut tx, "key_change").await?;
            let deleted = delete_key(&mut tx, id.0, seq).await?;
            tx.commit().await?;
            Ok(deleted)
        };
        work.await.map_err(self.failed())
    }

    /// The usage of all subjects on one day.
    pub async fn usage(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        sqlx::query("SELECT subject, day, used, mark FROM usage WHERE day = $1")
            .bind(i64::from(day.0))
            .fetch_all(&self.readers)
            .await
            .and_then(|rows| rows.iter().map(usage_row).collect())
            .map_err(self.failed())
    }

    /// What one subject has used on one day.
    pub async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        sqlx::query("SELECT subject, day, used, mark FROM usage WHERE subject = $1 AND day = $2")
            .bind(subject.number())
            .bind(i64::from(day.0))
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map_or(Ok(0), |row| usage_row(row).map(|row| row.used)))
            .map_err(self.failed())
    }

    /// The usage of all subjects on this day and on later ones, which a clock that was ahead may have left.
    pub(crate) async fn usage_since(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        sqlx::query("SELECT subject, day, used, mark FROM usage WHERE day >= $1")
            .bind(i64::from(day.0))
            .fetch_all(&self.readers)
            .await
            .and_then(|rows| rows.iter().map(usage_row).collect())
            .map_err(self.failed())
    }

    /// Writes counts, durably. Counts only ever grow: what is there already and higher stays.
    pub(crate) async fn fold(&self, rows: &[UsageRow]) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            fold(&mut tx, rows).await?;
            tx.commit().await
        };
        work.await.map_err(self.failed())
    }

    /// Writes exact counts at a clean stop: nothing is served beyond them, so no mark stands above them.
    pub(crate) async fn fold_exactly(&self, rows: &[UsageRow]) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            fold(&mut tx, rows).await?;
            for row in rows {
                sqlx::query("UPDATE usage SET mark = used WHERE subject = $1 AND day = $2")
                    .bind(row.subject.number())
                    .bind(i64::from(row.day.0))
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await
        };
        work.await.map_err(self.failed())
    }

    /// Notes what a recovery found, in one step with the boot it was done in. After a new boot every count begins
    /// at its mark, because the counts above the last fold are lost.
    pub(crate) async fn recover(&self, rows: &[UsageRow], boot: &str, today: Day) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let before = sqlx::query(
                "INSERT INTO facts (name, value) VALUES ('boot', '') ON CONFLICT (name) DO UPDATE SET name = 'boot' \
                 RETURNING value",
            )
            .fetch_one(&mut *tx)
            .await?
            .try_get::<String, _>(0)?;
            fold(&mut tx, rows).await?;
            if before != boot || boot.is_empty() {
                // Days before are past: their counts are history, which a mark would only blur.
                sqlx::query("UPDATE usage SET used = mark WHERE mark > used AND day >= $1")
                    .bind(i64::from(today.0))
                    .execute(&mut *tx)
                    .await?;
                sqlx::query("UPDATE facts SET value = $1 WHERE name = 'boot'")
                    .bind(boot)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await
        };
        work.await.map_err(self.failed())
    }

    /// The number of the last change of any key.
    pub(crate) async fn last_key_change(&self) -> Result<i64, Error> {
        sqlx::query("SELECT value FROM sequences WHERE name = 'key_change'")
            .fetch_one(&self.readers)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(self.failed())
    }

    /// Every key by its hash.
    pub(crate) async fn all_keys(&self) -> Result<Vec<(KeyHash, Key)>, Error> {
        sqlx::query(concat!("SELECT ", key_columns!(), " FROM keys"))
            .fetch_all(&self.readers)
            .await
            .and_then(|rows| rows.iter().map(key).collect())
            .map_err(self.failed())
    }

    /// The keys that changed since `seen`, each as it is now; `None` if the log no longer reaches back that far.
    pub(crate) async fn keys_changed_since(
        &self,
        seen: i64,
    ) -> Result<Option<Vec<(KeyId, Option<(KeyHash, Key)>)>>, Error> {
        let read = async {
            let oldest: Option<i64> =
                sqlx::query("SELECT MIN(seq) FROM key_changes").fetch_one(&self.readers).await?.try_get(0)?;
            if oldest.is_none_or(|oldest| oldest > seen + 1) {
                return Ok(None);
            }
            let ids = sqlx::query("SELECT DISTINCT key_id FROM key_changes WHERE seq > $1")
                .bind(seen)
                .fetch_all(&self.readers)
                .await?;
            let mut changed = Vec::with_capacity(ids.len());
            for row in ids {
                let id: i64 = row.try_get(0)?;
                let found = sqlx::query(concat!("SELECT ", key_columns!(), " FROM keys WHERE id = $1"))
                    .bind(id)
                    .fetch_optional(&self.readers)
                    .await?;
                changed.push((KeyId(id), found.as_ref().map(key).transpose()?));
            }
            Ok(Some(changed))
        };
        read.await.map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(sqlx::Error) -> Error + '_ {
        |source| Error::database(&self.path, source)
    }

    /// Updates one key and logs the change, if the update found it.
    async fn change<'q>(
        &self,
        id: KeyId,
        update: sqlx::query::Query<'q, Any, sqlx::any::AnyArguments>,
    ) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let changed = update.execute(&mut *tx).await?.rows_affected() > 0;
            if changed {
                log_change(&mut tx, id.0).await?;
            }
            tx.commit().await?;
            Ok(changed)
        };
        work.await.map_err(self.failed())
    }

    async fn migrate(&self) -> Result<(), Error> {
        let table = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY)";
        sqlx::query(table).execute(&self.writer).await.map_err(self.failed())?;
        for (version, sql) in MIGRATIONS {
            let work = async {
                let mut tx = self.writer.begin().await?;
                // The insert takes the write lock, so that of two programs starting together one migrates.
                let fresh =
                    sqlx::query("INSERT INTO schema_migrations (version) VALUES ($1) ON CONFLICT DO NOTHING")
                        .bind(version)
                        .execute(&mut *tx)
                        .await?
                        .rows_affected()
                        > 0;
                if fresh {
                    sqlx::raw_sql(*sql).execute(&mut *tx).await?;
                }
                tx.commit().await
            };
            work.await.map_err(self.failed())?;
        }
        let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
        let found: i64 = sqlx::query("SELECT MAX(version) FROM schema_migrations")
            .fetch_one(&self.writer)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(self.failed())?;
        if found > known { Err(Error::TooNew { path: self.path.clone(), found, known }) } else { Ok(()) }
    }
}

/// What names an account: one address, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// The address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that is no e-mail address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account is named by an e-mail address, such as you@example.com")]
pub struct NotAnEmail;

impl FromStr for Email {
    type Err = NotAnEmail;

    fn from_str(text: &str) -> Result<Self, NotAnEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(NotAnEmail)?;
        let plain = |part: &str| {
            !part.is_empty()
                && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "@,;<>\"".contains(c))
        };
        let labels = domain.split('.').all(|label| !label.is_empty());
        if text.len() <= 254 && plain(local) && plain(domain) && labels {
            Ok(Self(text.to_lowercase()))
        } else {
            Err(NotAnEmail)
        }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The columns that [`key`] reads.
macro_rules! key_columns {
    () => {
        "id, hash, scope, active, paused_ms, daily_limit, resumes"
    };
}
use key_columns;

/// The columns and tables that [`key_record`] reads.
macro_rules! record_columns {
    () => {
        "k.id, a.email, k.name, k.scope, k.active, k.paused_ms, k.last_four, k.created_ms, k.daily_limit \
         FROM keys k JOIN accounts a ON a.id = k.account_id"
    };
}
use record_columns;

fn key(row: &AnyRow) -> Result<(KeyHash, Key), sqlx::Error> {
    let hash: String = row.try_get("hash")?;
    let key = Key {
        id: KeyId(row.try_get("id")?),
        scope: scope(row)?,
        state: state(row)?,
        daily_limit: daily_limit(row)?,
        resumes: row.try_get::<i64, _>("resumes")?.try_into().unwrap_or(u32::MAX),
    };
    Ok((KeyHash::from_hex(&hash).ok_or_else(|| unreadable("hash"))?, key))
}

fn key_record(row: &AnyRow) -> Result<KeyRecord, sqlx::Error> {
    Ok(KeyRecord {
        id: KeyId(row.try_get("id")?),
        account: row.try_get("email")?,
        name: row.try_get("name")?,
        scope: scope(row)?,
        state: state(row)?,
        last_four: row.try_get("last_four")?,
        created_ms: row.try_get("created_ms")?,
        daily_limit: daily_limit(row)?,
        paused_ms: row.try_get("paused_ms")?,
    })
}

fn scope(row: &AnyRow) -> Result<Scope, sqlx::Error> {
    row.try_get::<String, _>("scope")?.parse().map_err(|_| unreadable("scope"))
}

/// Inactive wins: a key that is paused and deactivated is still paused when it is activated again.
fn state(row: &AnyRow) -> Result<KeyState, sqlx::Error> {
    let active = row.try_get::<i64, _>("active")? != 0;
    let paused = row.try_get::<Option<i64>, _>("paused_ms")?.is_some();
    Ok(match (active, paused) {
        (false, _) => KeyState::Inactive,
        (true, true) => KeyState::Paused,
        (true, false) => KeyState::Active,
    })
}

fn daily_limit(row: &AnyRow) -> Result<u32, sqlx::Error> {
    row.try_get::<i64, _>("daily_limit")?.try_into().map_err(|_| unreadable("daily_limit"))
}

fn unreadable(column: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: "holds a value that we never write".into() }
}

fn usage_row(row: &AnyRow) -> Result<UsageRow, sqlx::Error> {
    let number = |column: &str| {
        row.try_get::<i64, _>(column).and_then(|number| u32::try_from(number).map_err(|_| unreadable(column)))
    };
    Ok(UsageRow {
        subject: Subject::from_number(row.try_get("subject")?),
        day: Day(number("day")?),
        used: number("used")?,
        mark: number("mark")?,
    })
}

async fn next(connection: &mut AnyConnection, sequence: &str) -> Result<i64, sqlx::Error> {
    sqlx::query("UPDATE sequences SET value = value + 1 WHERE name = $1 RETURNING value")
        .bind(sequence.to_owned())
        .fetch_one(connection)
        .await?
        .try_get(0)
}

async fn log_change(connection: &mut AnyConnection, key_id: i64) -> Result<(), sqlx::Error> {
    let seq = next(connection, "key_change").await?;
    log_change_as(connection, key_id, seq).await
}

async fn log_change_as(connection: &mut AnyConnection, key_id: i64, seq: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO key_changes (seq, key_id) VALUES ($1, $2)")
        .bind(seq)
        .bind(key_id)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM key_changes WHERE seq <= $1")
        .bind(seq - CHANGES_KEPT)
        .execute(connection)
        .await?;
    Ok(())
}

async fn delete_key(connection: &mut AnyConnection, key_id: i64, seq: i64) -> Result<bool, sqlx::Error> {
    log_change_as(connection, key_id, seq).await?;
    sqlx::query("DELETE FROM usage WHERE subject = $1").bind(key_id).execute(&mut *connection).await?;
    let deleted = sqlx::query("DELETE FROM keys WHERE id = $1").bind(key_id).execute(connection).await?;
    Ok(deleted.rows_affected() > 0)
}

/// The account's number, and whether it was made just now.
async fn ensure_account(
    connection: &mut AnyConnection,
    email: &Email,
    now: Now,
) -> Result<(i64, bool), sqlx::Error> {
    let id = next(connection, "account").await?;
    let made = sqlx::query(
        "INSERT INTO accounts (id, email, created_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(email.as_str().to_owned())
    .bind(now.unix_ms)
    .execute(&mut *connection)
    .await?
    .rows_affected()
        > 0;
    if made {
        return Ok((id, true));
    }
    let row = sqlx::query("SELECT id FROM accounts WHERE email = $1")
        .bind(email.as_str().to_owned())
        .fetch_one(connection)
        .await?;
    Ok((row.try_get(0)?, false))
}

async fn fold(connection: &mut AnyConnection, rows: &[UsageRow]) -> Result<(), sqlx::Error> {
    for row in rows {
        // A key that was deleted meanwhile leaves no trace.
        sqlx::query(
            "INSERT INTO usage (subject, day, used, mark) \
             SELECT $1, $2, $3, $4 WHERE $1 = 0 OR EXISTS (SELECT 1 FROM keys WHERE id = $1) \
             ON CONFLICT (subject, day) DO UPDATE SET \
             used = CASE WHEN excluded.used > usage.used THEN excluded.used ELSE usage.used END, \
             mark = CASE WHEN excluded.mark > usage.mark THEN excluded.mark ELSE usage.mark END",
        )
        .bind(row.subject.number())
        .bind(i64::from(row.day.0))
        .bind(i64::from(row.used))
        .bind(i64::from(row.mark))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn has_schema(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    let tables = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_migrations'";
    Ok(sqlx::query(tables).fetch_one(connection).await?.try_get::<i64, _>(0)? > 0)
}

/// A path as a URL: everything that a URL might read in another way is escaped.
fn sqlite_url(path: &Path) -> String {
    use std::fmt::Write;
    let mut url = "sqlite://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url + "?mode=rwc"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_one_address_in_lower_case() {
        assert_eq!(" Me@Example.COM ".parse::<Email>().unwrap().as_str(), "me@example.com");
        assert!("me@localhost".parse::<Email>().is_ok());
        for text in [
            "",
            "me",
            "@example.com",
            "me@",
            "me@@example.com",
            "m e@example.com",
            "me@exa mple",
            "a@b..c",
            "<a@b.c>",
        ] {
            assert_eq!(text.parse::<Email>(), Err(NotAnEmail), "{text:?}");
        }
        assert_eq!(format!("{}@example.com", "x".repeat(250)).parse::<Email>(), Err(NotAnEmail));
    }

    #[test]
    fn any_path_can_be_a_url() {
        assert_eq!(sqlite_url("/a b/c?d%/ü".as_ref()), "sqlite:///a%20b/c%3Fd%25/%C3%BC?mode=rwc");
    }
}
