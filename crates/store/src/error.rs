//! What can break in storage, in words for the operator.

use crate::trust::Distrust;
use crate::{Away, DatabaseUrl};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failure of storage. It is never the caller's fault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The folder is not there, or is no folder, or cannot be written.
    #[error("the data folder {path} cannot be used: {source}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// Nothing was ever stored there.
    #[error("there is no data at {path} yet: start `ipse` or create a key first, or name another folder with --data-dir", path = .0.display())]
    NoData(PathBuf),
    /// Another server works on the folder.
    #[error("the data folder {path} is in use by another ipse server{holder}; stop it, or choose another folder with --data-dir", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// " (process 123)" where it is known.
        holder: String,
    },
    /// A file is not what we wrote.
    #[error("{path} is damaged ({what}); nothing was changed: restore it from a backup, or move it away to start anew", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file was written by a later version of the program.
    #[error(
        "{database} was written by a newer version of ipse (schema {found}, this program knows {known}); upgrade the program"
    )]
    TooNew {
        /// The file or the server.
        database: String,
        /// The version found.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// The system does not let this user use the file.
    #[error("{path} cannot be read and written by this user; change its owner or mode, or name another folder with --data-dir", path = .0.display())]
    NotAllowed(PathBuf),
    /// Another program holds the database's lock.
    #[error("{path} is locked by another program; try again when it is done", path = .0.display())]
    Busy(PathBuf),
    /// No space is left.
    #[error("the disk that holds {path} is full; free some space and try again: what was stored is untouched", path = .0.display())]
    DiskFull(PathBuf),
    /// Reading or writing a file failed.
    #[error("cannot read or write {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The database did not do what it was asked.
    #[error("the database {database} failed: {source}")]
    Database {
        /// The file or the server.
        database: String,
        /// Why.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The server does not answer.
    #[error(
        "the database {database} cannot be reached ({why}): see that it runs, that the network lets this machine through, and that host and port are right"
    )]
    Unreachable {
        /// The server.
        database: String,
        /// Why.
        why: String,
    },
    /// The server answers, but later than anybody can wait.
    #[error("the database {database} is too busy to answer in time ({why})")]
    Slow {
        /// The server.
        database: String,
        /// What it says.
        why: String,
    },
    /// The server does not let this user in.
    #[error(
        "the database {database} lets us in neither with this user nor with this password ({why}); check both, and pg_hba.conf on the server"
    )]
    LoginRefused {
        /// The server.
        database: String,
        /// What it says.
        why: String,
    },
    /// The server knows no database of that name.
    #[error(
        "there is no database of that name at {0}; make it on the server with `createdb`, or correct the end of the URL"
    )]
    NoSuchDatabase(String),
    /// No encrypted connection came about.
    #[error(
        "no TLS connection to the database {database} can be made ({why}); correct sslmode or sslrootcert in its URL, or the server's certificate"
    )]
    NoTls {
        /// The server.
        database: String,
        /// Why.
        why: String,
    },
    /// The server only lets itself be read.
    #[error(
        "the database {0} can only be read: it is a standby, or was set so; name the server that can be written"
    )]
    ReadOnly(String),
    /// The user may not do what has to be done.
    #[error(
        "the user of the database {database} may not do what has to be done ({why}); make that user the database's owner"
    )]
    NotPermitted {
        /// The server.
        database: String,
        /// What it says.
        why: String,
    },
    /// Somebody else counts requests on the same database.
    #[error(
        "another server counts requests on the database {0} already, in a ledger of its own or together with others; let all count together with --counters, or stop it first"
    )]
    Claimed(String),
    /// The journal of the folder was written for other records.
    #[error("the data folder {path} holds the journal of other records than those of {database}; move them with `ipse store copy`, or name another folder with --data-dir", path = path.display())]
    ForeignJournal {
        /// The folder.
        path: PathBuf,
        /// Where the records are.
        database: String,
    },
    /// What was counted last stands in a folder that is not here.
    #[error(
        "requests on the database {0} were last counted by a server with another data folder, which has not stopped in peace: what it counted last stands only there. Start it there once more, or copy its folder here; if that is lost, `ipse store forget-journal` lets others go on, and some requests of today may be served again"
    )]
    JournalElsewhere(String),
    /// A copy would mix with what is there.
    #[error(
        "{0} is not empty, and nothing is ever copied over: name a database or a folder that holds nothing yet"
    )]
    NotEmpty(String),
    /// A copy is not what was copied.
    #[error("what was written to {table} of {database} is not what was read; nothing was kept there")]
    CopyDiffers {
        /// Where it was copied to.
        database: String,
        /// The table.
        table: &'static str,
    },
    /// The server's disk is full.
    #[error("the disk of the database {0} is full; free some space there: what was stored is untouched")]
    ServerFull(String),
    /// The journal's writer gave up; the next write begins a new segment.
    #[error("the journal cannot be written at the moment")]
    JournalBroken,
    /// The shared counters did not decide.
    #[error(transparent)]
    Counters(#[from] Away),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl Error {
    /// Whether the same request may succeed later without anybody doing anything.
    #[must_use]
    pub fn transient(&self) -> bool {
        match self {
            Self::Busy(_)
            | Self::DiskFull(_)
            | Self::JournalBroken
            | Self::Counters(_)
            | Self::Database { .. }
            | Self::Unreachable { .. }
            | Self::Slow { .. }
            // A standby may be promoted at any moment.
            | Self::ReadOnly(_)
            | Self::ServerFull(_)
            | Self::File { .. }
            | Self::Random(_) => true,
            Self::Folder { .. }
            | Self::NotAllowed(_)
            | Self::NoData(_)
            | Self::InUse { .. }
            | Self::Damaged { .. }
            | Self::LoginRefused { .. }
            | Self::NoSuchDatabase(_)
            | Self::NoTls { .. }
            | Self::NotPermitted { .. }
            | Self::Claimed(_)
            | Self::ForeignJournal { .. }
            | Self::JournalElsewhere(_)
            | Self::NotEmpty(_)
            | Self::CopyDiffers { .. }
            | Self::TooNew { .. } => false,
        }
    }

    /// Whether the records are out of reach: nothing is wrong with what was asked, and it may be asked again.
    #[must_use]
    pub fn out_of_reach(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Slow { .. }
            | Self::ReadOnly(_)
            | Self::ServerFull(_)
            | Self::LoginRefused { .. }
            | Self::NoSuchDatabase(_)
            | Self::NoTls { .. } => true,
            Self::Folder { .. }
            | Self::NoData(_)
            | Self::InUse { .. }
            | Self::Damaged { .. }
            | Self::TooNew { .. }
            | Self::NotAllowed(_)
            | Self::Busy(_)
            | Self::DiskFull(_)
            | Self::File { .. }
            | Self::Database { .. }
            | Self::NotPermitted { .. }
            | Self::Claimed(_)
            | Self::ForeignJournal { .. }
            | Self::JournalElsewhere(_)
            | Self::NotEmpty(_)
            | Self::CopyDiffers { .. }
            | Self::JournalBroken
            | Self::Counters(_)
            | Self::Random(_) => false,
        }
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path.to_owned()),
            _ => Self::File { path: path.to_owned(), source: Arc::new(source) },
        }
    }

    /// Names what SQLite means by its codes.
    pub(crate) fn database(path: &Path, source: sqlx::Error) -> Self {
        const BUSY: u32 = 5;
        const LOCKED: u32 = 6;
        const READ_ONLY: u32 = 8;
        const CORRUPT: u32 = 11;
        const FULL: u32 = 13;
        const CANNOT_OPEN: u32 = 14;
        const NOT_A_DATABASE: u32 = 26;
        let code = source.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
        let path = path.to_owned();
        // The lowest byte is the kind of failure, the rest its circumstances.
        match code.map(|code| code & 0xff) {
            Some(_) if is_full(&path) => Self::DiskFull(path),
            Some(FULL) => Self::DiskFull(path),
            Some(BUSY | LOCKED) => Self::Busy(path),
            Some(READ_ONLY | CANNOT_OPEN) => Self::NotAllowed(path),
            Some(NOT_A_DATABASE) => Self::Damaged { path, what: "it is no SQLite database".into() },
            Some(CORRUPT) => Self::Damaged { path, what: "its pages do not fit together".into() },
            _ => Self::Database { database: path.display().to_string(), source: Arc::new(source) },
        }
    }

    /// Names what PostgreSQL, and the way to it, mean by their failures.
    pub(crate) fn server(url: &DatabaseUrl, source: sqlx::Error) -> Self {
        let database = url.to_string();
        let unreachable = |why: &str| Self::Unreachable { database: database.clone(), why: why.to_owned() };
        let error = match &source {
            sqlx::Error::Io(error) => {
                let why = error.to_string();
                return match Distrust::find(&why) {
                    // It is there, and waiting does not help.
                    Some(distrust) => Self::NoTls { database, why: distrust.in_words().to_owned() },
                    None => unreachable(&why),
                };
            }
            sqlx::Error::PoolTimedOut => return unreachable("it did not answer in time"),
            sqlx::Error::Tls(error) => {
                let why = error.to_string();
                let why = Distrust::find(&why).map_or(why, |distrust| distrust.in_words().to_owned());
                return Self::NoTls { database, why };
            }
            sqlx::Error::Database(error) => error,
            _ => return Self::Database { database, source: Arc::new(source) },
        };
        let why = error.message().to_owned();
        match error.code().as_deref().unwrap_or_default() {
            "28P01" | "28000" => Self::LoginRefused { database, why },
            "3D000" => Self::NoSuchDatabase(database),
            "42501" | "3F000" => Self::NotPermitted { database, why },
            "25006" => Self::ReadOnly(database),
            "53100" => Self::ServerFull(database),
            // It stops, starts, or has no connection left.
            "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300" => Self::Unreachable { database, why },
            code if code.starts_with("08") => Self::Unreachable { database, why },
            // It was cancelled, or gave way to others.
            "57014" | "55P03" | "40P01" | "40001" | "53200" => Self::Slow { database, why },
            _ => Self::Database { database, source: Arc::new(source) },
        }
    }
}

/// SQLite has many names for a failure that comes of a full disk; the disk itself has one.
fn is_full(path: &Path) -> bool {
    const TOO_LITTLE: u64 = 128 * 1024;
    let folder = path.parent().unwrap_or(path);
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < TOO_LITTLE)
}
