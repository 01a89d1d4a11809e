//! `Records`: accounts and who is signed in, keys, usage history. One SQL text for every engine.
//!
//! Every transaction begins with a write to `sequences` or to the row it is about, so it never has to turn a read
//! lock into a write lock, which SQLite would refuse under contention.

mod accounts;
mod activity;
mod changes;
mod email;
mod keys;
mod notices;
mod owned_keys;
mod second_factor;
mod sessions;
mod tokens;
mod usage;

pub use accounts::{Account, AccountId, Login, Profile};
pub use activity::{Activity, ActivityRow};
pub(crate) use changes::KnownKey;
pub use email::{Email, NotAnEmail};
pub use keys::{Created, KeyRecord, NewKey};
pub use notices::{Notice, NoticeKind};
pub use owned_keys::{OldText, OwnedKey};
pub use sessions::{Proof, Session};
pub use tokens::{NewToken, Token, TokenPurpose, random_secret};
pub(crate) use usage::OutcomeRow;
pub use usage::{Outcomes, UsageRow};

use crate::{DataFolder, Error};
use ipse_model::Now;
use sqlx::any::{AnyArguments, AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Connection, Row};
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../../migrations/0001_accounts_keys_usage.sql")),
    (2, include_str!("../../migrations/0002_accounts_people_use.sql")),
];
/// Every connection waits its turn, writes ahead, and syncs before it says that something is written.
const SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                        PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;";
/// The records of one installation.
#[derive(Clone, Debug)]
pub struct Records {
    /// One connection, so that writers of this process queue here and not in the engine.
    writer: AnyPool,
    readers: AnyPool,
    path: PathBuf,
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

    /// Lets go of what has ended and nobody will ask for again: links, texts that were rolled, sessions that were not seen
    /// since or were begun before the given moments, hours of long ago. To be called now and then.
    pub async fn sweep(&self, seen_after_ms: i64, created_after_ms: i64, now: Now) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            for sql in ["DELETE FROM tokens WHERE ends_ms <= $1", "DELETE FROM old_texts WHERE ends_ms <= $1"]
            {
                sqlx::query(sql).bind(now.unix_ms).execute(&mut *tx).await?;
            }
            sqlx::query("DELETE FROM sessions WHERE seen_ms <= $1 OR created_ms <= $2")
                .bind(seen_after_ms)
                .bind(created_after_ms)
                .execute(&mut *tx)
                .await?;
            usage::sweep(&mut tx, now).await?;
            notices::sweep(&mut tx, now).await?;
            tx.commit().await
        };
        work.await.map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(sqlx::Error) -> Error + '_ {
        |source| Error::database(&self.path, source)
    }

    /// Runs one statement that writes, and says how many rows it was about.
    async fn write<'q>(&self, statement: Query<'q, Any, AnyArguments>) -> Result<u64, Error> {
        let done = statement.execute(&self.writer).await.map_err(self.failed())?;
        Ok(done.rows_affected())
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

/// A column of 0 and 1.
fn flag(row: &AnyRow, column: &str) -> Result<bool, sqlx::Error> {
    row.try_get::<i64, _>(column).map(|number| number != 0)
}

/// A number that was never written below nothing or beyond what it is read into.
fn number<T: TryFrom<i64>>(row: &AnyRow, column: &str) -> Result<T, sqlx::Error> {
    row.try_get::<i64, _>(column)?.try_into().map_err(|_| unreadable(column))
}

fn unreadable(column: &str) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: "holds a value that we never write".into() }
}

async fn next(connection: &mut AnyConnection, sequence: &str) -> Result<i64, sqlx::Error> {
    sqlx::query("UPDATE sequences SET value = value + 1 WHERE name = $1 RETURNING value")
        .bind(sequence.to_owned())
        .fetch_one(connection)
        .await?
        .try_get(0)
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
    fn any_path_can_be_a_url() {
        assert_eq!(sqlite_url("/a b/c?d%/ü".as_ref()), "sqlite:///a%20b/c%3Fd%25/%C3%BC?mode=rwc");
    }
}
