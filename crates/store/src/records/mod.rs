//! `Records`: accounts and who is signed in, keys, usage history. One SQL text for every engine.
//!
//! SQLite lets one write at a time; PostgreSQL lets all, and each waits for the rows that another has locked. So that
//! they never wait in a circle, and so that what is counted or read before it is written stays so, every transaction
//! locks in one order:
//!
//! 1. its turns, which are rows of `sequences`, in the order of [`Turn`];
//! 2. the row of the account, then those of keys in ascending order, then what belongs to them.
//!
//! Whoever deletes several rows of a kind at once, or counts them, holds that kind's turn. It also means that a
//! transaction begins with a write, and never has to turn a read lock into a write lock, which SQLite would refuse
//! under contention. The history of usage has no turn: rows are written in the order of their keys there, and a key
//! that is deleted takes its own away before it goes itself.

mod accounts;
mod activity;
mod changes;
mod claim;
mod copy;
mod doubt;
mod email;
mod engine;
mod installation;
mod keys;
mod listen;
mod many;
mod nodes;
mod notices;
mod owned_keys;
mod reserve;
mod second_factor;
mod sessions;
mod tokens;
mod usage;

pub use accounts::{Account, AccountId, Login, Profile};
pub use activity::{Activity, ActivityRow};
pub(crate) use changes::KnownKey;
pub use claim::{Claim, Counting};
pub use copy::CopiedTable;
pub use email::{Email, NotAnEmail};
pub use keys::{Created, KeyRecord, NewKey};
pub use listen::KeyNews;
pub use nodes::Node;
pub use notices::{Notice, NoticeKind};
pub use owned_keys::{OldText, OwnedKey};
pub use reserve::{Portion, Range, Wanted};
pub use sessions::{Proof, Session};
pub use tokens::{NewToken, Token, TokenPurpose, random_secret};
pub use usage::OutcomeRow;
pub use usage::{Outcomes, UsageRow};

use crate::{DataFolder, DatabaseUrl, Error};
use engine::Engine;
use ipse_model::Now;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Row};
use std::sync::Arc;

const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../../migrations/0001_accounts_keys_usage.sql")),
    (2, include_str!("../../migrations/0002_accounts_people_use.sql")),
    (3, include_str!("../../migrations/0003_many_machines.sql")),
];

/// The records of one installation.
#[derive(Clone, Debug)]
pub struct Records {
    writer: AnyPool,
    readers: AnyPool,
    engine: Arc<Engine>,
}

/// What only one transaction at a time does. They are taken in the order in which they stand here, and stay taken until
/// the transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Begins sessions, or ends several.
    Session,
    /// Makes keys, which are counted by their account.
    Key,
    /// Makes accounts.
    Account,
    /// Makes links, which are counted, or ends several.
    Token,
    /// Changes keys. The number is complete: whoever reads it finds all changes up to it.
    KeyChange,
    /// Notes what was done, of which so much is kept.
    Activity,
}

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Key => "key",
            Self::Account => "account",
            Self::Token => "token",
            Self::KeyChange => "key_change",
            Self::Activity => "activity",
        }
    }

    /// Waits for the turn.
    async fn wait(self, connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
        let sql = sqlx::query("UPDATE sequences SET value = value WHERE name = $1");
        sql.bind(self.name()).execute(connection).await.map(drop)
    }

    /// Waits for the turn and gives its next number, which is nobody else's.
    async fn next(self, connection: &mut AnyConnection) -> Result<i64, sqlx::Error> {
        sqlx::query("UPDATE sequences SET value = value + 1 WHERE name = $1 RETURNING value")
            .bind(self.name())
            .fetch_one(connection)
            .await?
            .try_get(0)
    }
}

impl Records {
    /// Opens the embedded database of a data folder, makes it if it is not there, and brings its schema up to date.
    pub async fn open(folder: &DataFolder) -> Result<Self, Error> {
        Self::open_file(folder, true).await
    }

    /// Makes the database of a folder whose journal belongs to records that are about to be copied there.
    pub async fn open_for_copy(folder: &DataFolder, installation: &str) -> Result<Self, Error> {
        if !folder.bind_journal(installation, false)? {
            let database = folder.database().display().to_string();
            return Err(Error::ForeignJournal { path: folder.path().to_owned(), database });
        }
        Self::open_file(folder, false).await
    }

    async fn open_file(folder: &DataFolder, journal_needs_it: bool) -> Result<Self, Error> {
        let engine = Engine::sqlite(folder);
        sqlx::any::install_default_drivers();
        let mut first = engine.connect().await.map_err(|error| engine.failed(error))?;
        let known = engine.has_schema(&mut first).await.map_err(|error| engine.failed(error))?;
        if journal_needs_it && folder.has_journal() && !known {
            let what = "it is missing or empty, though the journal beside it is not".to_owned();
            return Err(Error::Damaged { path: folder.database(), what });
        }
        Self::begin(engine, first).await
    }

    /// Opens a database on a server, and brings its schema up to date.
    pub async fn connect(url: &DatabaseUrl) -> Result<Self, Error> {
        let engine = Engine::postgres(url);
        sqlx::any::install_default_drivers();
        let first = engine.connect().await.map_err(|error| engine.failed(error))?;
        Self::begin(engine, first).await
    }

    async fn begin(engine: Engine, mut first: AnyConnection) -> Result<Self, Error> {
        let migrated = migrate(&mut first).await;
        let version = migrated.map_err(|error| engine.failed(error))?;
        let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
        if version > known {
            return Err(Error::TooNew { database: engine.name(), found: version, known });
        }
        let (writer, readers) = engine.pools().await.map_err(|error| engine.failed(error))?;
        first.close().await.map_err(|error| engine.failed(error))?;
        Ok(Self { writer, readers, engine: Arc::new(engine) })
    }

    /// Reads every page once, so that damage is found before anything is served from it. A server looks after its own.
    pub async fn check(&self) -> Result<(), Error> {
        self.engine.check(&self.readers).await
    }

    /// Waits for what is being written and closes every connection.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// The version of SQLite that is built in, or of the server.
    pub async fn engine_version(&self) -> Result<String, Error> {
        self.engine.version(&self.readers).await
    }

    /// Lets go of what has ended and nobody will ask for again: links, texts that were rolled, sessions that were not seen
    /// since or were begun before the given moments, hours of long ago, nodes that went, and what keys that are no more
    /// have used. To be called now and then.
    pub async fn sweep(&self, seen_after_ms: i64, created_after_ms: i64, now: Now) -> Result<(), Error> {
        // Each in a transaction of its own, so that nobody waits for more than they need.
        let sessions = sqlx::query("DELETE FROM sessions WHERE seen_ms <= $1 OR created_ms <= $2");
        self.in_turn(Turn::Session, sessions.bind(seen_after_ms).bind(created_after_ms)).await?;
        let tokens = sqlx::query("DELETE FROM tokens WHERE ends_ms <= $1");
        self.in_turn(Turn::Token, tokens.bind(now.unix_ms)).await?;
        let old_texts = sqlx::query("DELETE FROM old_texts WHERE ends_ms <= $1");
        self.in_turn(Turn::KeyChange, old_texts.bind(now.unix_ms)).await?;
        self.in_turn(Turn::KeyChange, usage::old_hours(now)).await?;
        self.in_turn(Turn::KeyChange, notices::past(now)).await?;
        self.in_turn(Turn::KeyChange, usage::of_no_key()).await?;
        self.write(nodes::gone(now)).await.map(drop)
    }

    /// Waits for work on the database, but on a server not for ever, and names what failed.
    async fn within<T>(&self, work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
        self.engine.within(work).await
    }

    /// Runs one statement that writes, and says how many rows it was about.
    async fn write<'q>(&self, statement: Query<'q, Any, AnyArguments>) -> Result<u64, Error> {
        self.within(async { Ok(statement.execute(&self.writer).await?.rows_affected()) }).await
    }

    /// Runs one statement that writes when it is its turn.
    async fn in_turn<'q>(&self, turn: Turn, statement: Query<'q, Any, AnyArguments>) -> Result<u64, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            turn.wait(&mut tx).await?;
            let done = statement.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            Ok(done)
        };
        self.within(work).await
    }
}

/// Brings the schema up to date, and says what it is then.
async fn migrate(connection: &mut AnyConnection) -> Result<i64, sqlx::Error> {
    let table = "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY)";
    sqlx::query(table).execute(&mut *connection).await?;
    for (version, sql) in MIGRATIONS {
        let mut tx = connection.begin().await?;
        // The insert takes the write lock, so that of two programs starting together one migrates.
        let fresh = sqlx::query("INSERT INTO schema_migrations (version) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(version)
            .execute(&mut *tx)
            .await?
            .rows_affected()
            > 0;
        if fresh {
            sqlx::raw_sql(*sql).execute(&mut *tx).await?;
        }
        tx.commit().await?;
    }
    let newest = sqlx::query("SELECT MAX(version) FROM schema_migrations");
    newest.fetch_one(connection).await?.try_get(0)
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
