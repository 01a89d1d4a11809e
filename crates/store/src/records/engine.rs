//! The two engines below the one SQL text: what only SQLite knows, and what only PostgreSQL knows. No other file asks
//! which of them it is.

use super::doubt::Doubt;
use crate::{DataFolder, DatabaseUrl, Error};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Row};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The channel on which PostgreSQL tells of changes of keys.
pub(super) const CHANNEL: &str = "ipse_key_changes";

/// What keeps the records.
#[derive(Debug)]
pub(super) enum Engine {
    /// A file.
    Sqlite(PathBuf),
    /// A server.
    Postgres(Server),
}

/// A server, and how far connections to it are to be used.
#[derive(Debug)]
pub(super) struct Server {
    url: DatabaseUrl,
    doubt: Arc<Doubt>,
}

/// Every connection waits its turn, writes ahead, and syncs before it says that something is written.
const SQLITE_SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                               PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;";
/// No statement waits for another for long; and a machine that stands still in the middle of a transaction lets
/// the others go on.
const POSTGRES_SETTINGS: &str = "SET statement_timeout = '4s'; SET idle_in_transaction_session_timeout = '10s'; \
                                 SET default_transaction_isolation = 'read committed';";
/// Of programs that start together one makes the tables, and the others wait for it.
const POSTGRES_MIGRATION_LOCK: &str = "SELECT pg_advisory_lock(4920163705931)";

/// The lock of whoever counts requests.
const POSTGRES_COUNTING_LOCK: i64 = 4_920_163_705_932;
/// A machine that is gone without a word lets its lock go after some seconds.
const POSTGRES_KEEPALIVE: &str =
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;";

/// How often changes of keys are looked for, where nobody tells of them and where somebody does.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_BEHIND_EVERY: Duration = Duration::from_secs(1);

/// How long a connection to a server may take, or the wait for one that is free.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long work on a server may take in all. What a dead line has swallowed no server will ever tell.
const WORK_WITHIN: Duration = Duration::from_secs(6);

/// A connection to a server that is older is not used again.
const OLDEST: Duration = Duration::from_mins(30);

/// How often a first connection is tried: a server that has just been started, or a machine that is busy, takes its time.
const FIRST_TRIES: u32 = 5;

/// Connects for the first time.
async fn patiently<F>(connect: impl Fn() -> F) -> Result<AnyPool, sqlx::Error>
where
    F: Future<Output = Result<AnyPool, sqlx::Error>>,
{
    for _ in 1..FIRST_TRIES {
        match connect().await {
            Err(sqlx::Error::PoolTimedOut) => {}
            connected => return connected,
        }
    }
    connect().await
}

impl Engine {
    pub(super) fn sqlite(folder: &DataFolder) -> Self {
        Self::Sqlite(folder.database())
    }

    pub(super) fn postgres(url: &DatabaseUrl) -> Self {
        Self::Postgres(Server { url: url.clone(), doubt: Arc::default() })
    }

    fn options(&self) -> Result<AnyConnectOptions, sqlx::Error> {
        match self {
            Self::Sqlite(path) => {
                Ok(AnyConnectOptions::from_str(&sqlite_url(path))?.disable_statement_logging())
            }
            Self::Postgres(server) => Ok(server.url.options()),
        }
    }

    /// A connection outside of any pool. A pool would try a failing connection again and again; this one says at once
    /// what is wrong.
    pub(super) async fn connect(&self) -> Result<AnyConnection, sqlx::Error> {
        let connecting = async {
            let mut connection = self.options()?.connect().await?;
            match self {
                Self::Sqlite(_) => sqlx::raw_sql(SQLITE_SETTINGS).execute(&mut connection).await?,
                // Making tables may take longer than any statement afterwards.
                Self::Postgres(_) => sqlx::raw_sql(POSTGRES_MIGRATION_LOCK).execute(&mut connection).await?,
            };
            Ok(connection)
        };
        match self {
            Self::Sqlite(_) => connecting.await,
            Self::Postgres(_) => {
                let within = tokio::time::timeout(5 * WORK_WITHIN, connecting).await;
                within.unwrap_or(Err(sqlx::Error::PoolTimedOut))
            }
        }
    }

    /// Whether the database is a file, which only this machine reaches.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// How often changes of keys are looked for.
    pub(super) fn look_every(&self) -> Duration {
        match self {
            Self::Sqlite(_) => LOOK_EVERY,
            Self::Postgres(_) => LOOK_BEHIND_EVERY,
        }
    }

    /// What a driver connects with that knows PostgreSQL alone.
    pub(super) fn postgres_options(&self) -> Result<Option<PgConnectOptions>, sqlx::Error> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(server) => server.url.postgres_options().map(Some),
        }
    }

    /// A connection to a server that is kept for long, and changes no tables.
    pub(super) async fn connect_plainly(&self) -> Result<AnyConnection, sqlx::Error> {
        let mut connection = self.options()?.connect().await?;
        if let Self::Postgres(_) = self {
            sqlx::raw_sql(POSTGRES_KEEPALIVE).execute(&mut connection).await?;
        }
        Ok(connection)
    }

    /// A connection for work that may take as long as it takes.
    pub(super) async fn connect_for_long(&self) -> Result<AnyConnection, sqlx::Error> {
        let mut connection = self.options()?.connect().await?;
        if let Self::Sqlite(_) = self {
            sqlx::raw_sql(SQLITE_SETTINGS).execute(&mut connection).await?;
        }
        Ok(connection)
    }

    /// The connections that write, and those that read.
    pub(super) async fn pools(&self) -> Result<(AnyPool, AnyPool), sqlx::Error> {
        let options = self.options()?;
        let pool = |connections, settings: &'static str| {
            // Whoever looks for idle connections in the library may find one fewer than none, and then never stops looking. Without
            // these limits nobody looks.
            let pool = AnyPoolOptions::new().idle_timeout(None).max_lifetime(None);
            pool.max_connections(connections).after_connect(move |connection, _| {
                Box::pin(async move { sqlx::raw_sql(settings).execute(connection).await.map(drop) })
            })
        };
        match self {
            Self::Sqlite(_) => {
                // One, so that writers of this process queue here and not in the engine.
                let writer = pool(1, SQLITE_SETTINGS).connect_with(options.clone()).await?;
                Ok((writer, pool(4, SQLITE_SETTINGS).connect_lazy_with(options)))
            }
            Self::Postgres(server) => {
                let pool = || {
                    let doubt = Arc::clone(&server.doubt);
                    let pool = pool(8, POSTGRES_SETTINGS).acquire_timeout(CONNECT_WITHIN);
                    pool.before_acquire(move |_, connection| {
                        let is_good = connection.age < OLDEST && !doubt.is_about(connection.age);
                        Box::pin(async move { Ok(is_good) })
                    })
                };
                let connected = || patiently(|| pool().connect_with(options.clone()));
                tokio::try_join!(connected(), connected())
            }
        }
    }

    /// Waits for work on the database, but on a server not for ever.
    pub(super) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Error> {
        let done = match self {
            Self::Sqlite(_) => work.await,
            Self::Postgres(_) => {
                tokio::time::timeout(WORK_WITHIN, work).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
            }
        };
        done.map_err(|error| self.failed(error))
    }

    /// Names what the engine means by its codes.
    pub(super) fn failed(&self, source: sqlx::Error) -> Error {
        match self {
            Self::Sqlite(path) => Error::database(path, source),
            Self::Postgres(server) => server.failed(source),
        }
    }

    /// Whether anything was ever stored here.
    pub(super) async fn has_schema(&self, connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
        let tables = match self {
            Self::Sqlite(_) => "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_migrations'",
            Self::Postgres(_) => "SELECT COUNT(to_regclass('schema_migrations')::text)",
        };
        Ok(sqlx::query(tables).fetch_one(connection).await?.try_get::<i64, _>(0)? > 0)
    }

    /// Looks for damage. A server looks after its own pages; there it is enough that it answers.
    pub(super) async fn check(&self, readers: &AnyPool) -> Result<(), Error> {
        let sql = match self {
            Self::Sqlite(_) => "PRAGMA quick_check(1)",
            Self::Postgres(_) => "SELECT 'ok'",
        };
        let found: String = self
            .within(async { sqlx::query(sql).fetch_one(readers).await.and_then(|row| row.try_get(0)) })
            .await?;
        match self {
            Self::Sqlite(path) if found != "ok" => {
                Err(Error::Damaged { path: path.clone(), what: found.lines().collect::<Vec<_>>().join("; ") })
            }
            _ => Ok(()),
        }
    }

    /// What the engine says of its version.
    pub(super) async fn version(&self, readers: &AnyPool) -> Result<String, Error> {
        let sql = match self {
            Self::Sqlite(_) => "SELECT sqlite_version()",
            Self::Postgres(_) => "SELECT current_setting('server_version')",
        };
        self.within(async { sqlx::query(sql).fetch_one(readers).await.and_then(|row| row.try_get(0)) }).await
    }

    /// What the database is called in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(server) => server.url.to_string(),
        }
    }
}

impl Server {
    /// Names what it means by its codes. If it can only be read, its connections are not used again.
    fn failed(&self, source: sqlx::Error) -> Error {
        let error = Error::server(&self.url, source);
        if let Error::ReadOnly(_) = error {
            self.doubt.begin();
        }
        error
    }
}

/// What PostgreSQL keeps for one connection until it ends.
pub(super) struct Hold;

impl Hold {
    /// Takes the lock of whoever counts, alone or together with others of the same kind. `false` if it is not to be had.
    pub(super) async fn try_lock(
        connection: &mut AnyConnection,
        together: bool,
    ) -> Result<bool, sqlx::Error> {
        let sql = if together {
            "SELECT pg_try_advisory_lock_shared($1)"
        } else {
            "SELECT pg_try_advisory_lock($1)"
        };
        sqlx::query(sql).bind(POSTGRES_COUNTING_LOCK).fetch_one(connection).await?.try_get(0)
    }

    pub(super) async fn unlock_all(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT pg_advisory_unlock_all()").execute(connection).await.map(drop)
    }

    /// Ends a connection of our own that may seem to live though it is lost. Its number may be somebody else's by now, who
    /// then holds no such lock.
    pub(super) async fn end_process(connection: &mut AnyConnection, process: i64) -> Result<(), sqlx::Error> {
        let sql = sqlx::query(
            "SELECT COUNT(pg_terminate_backend(a.pid)) FROM pg_stat_activity a \
             WHERE a.pid = $1 AND a.usename = current_user AND a.datname = current_database() \
             AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted)",
        );
        sql.bind(process).execute(connection).await.map(drop)
    }
}

/// Tells all who listen, when the transaction is committed, that a key has changed. With SQLite nobody can listen.
pub(super) async fn announce(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    if connection.backend_name() == "PostgreSQL" {
        sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(connection).await?;
    }
    Ok(())
}

/// Whether statements about many rows are kept, with a place for each number. A file's engine spends more on reading a text
/// than on what it says; a server would have to be told of each place.
pub(super) fn keeps_statements(connection: &AnyConnection) -> bool {
    connection.backend_name() != "PostgreSQL"
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

    #[tokio::test]
    async fn nobody_looks_for_idle_connections() {
        sqlx::any::install_default_drivers();
        let folder = tempfile::tempdir().unwrap();
        let (writer, reader) = Engine::Sqlite(folder.path().join("ipse.db")).pools().await.unwrap();
        for pool in [writer, reader] {
            assert_eq!(
                (pool.options().get_idle_timeout(), pool.options().get_max_lifetime()),
                (None, None),
                "the library's search may never end"
            );
        }
    }
}
