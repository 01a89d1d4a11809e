//! Where the records are kept: in a file of the data folder, or on a PostgreSQL server.

use crate::{DataFolder, Error, Records};
use sqlx::ConnectOptions;
use sqlx::any::AnyConnectOptions;
use sqlx::postgres::PgConnectOptions;
use std::fmt;
use std::str::FromStr;

/// Where the records of an installation are kept.
#[derive(Clone, Debug)]
pub enum Database {
    /// In a file of this folder.
    Folder(DataFolder),
    /// On a server that several machines may share.
    Server(DatabaseUrl),
}

impl Database {
    /// Opens the records, and brings their schema up to date.
    pub async fn open(&self) -> Result<Records, Error> {
        match self {
            Self::Folder(folder) => Records::open(folder).await,
            Self::Server(url) => Records::connect(url).await,
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.database().display().fmt(f),
            Self::Server(url) => url.fmt(f),
        }
    }
}

/// The URL of a database on a PostgreSQL server. It shows its password to nobody.
#[derive(Clone)]
pub struct DatabaseUrl {
    options: AnyConnectOptions,
    /// What may be shown of it.
    shown: String,
}

/// Why a text names no database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotADatabase {
    /// It is no URL of PostgreSQL.
    #[error("a database is named by a URL such as postgres://ipse@db.example.com/ipse")]
    Scheme,
    /// It cannot be read as one.
    #[error("the URL of the database cannot be read: {0}")]
    Unreadable(String),
    /// It says something that nobody would obey.
    #[error(
        "the URL of the database says `{0}`, which is not known: leave it out, or use one of sslmode, sslrootcert, \
         sslcert, sslkey, host, user, application_name, options and statement-cache-capacity"
    )]
    Parameter(String),
    /// It names a file that cannot be read.
    #[error("the URL of the database says {parameter}={path}, and that file cannot be read: {why}")]
    File {
        /// What it is named for.
        parameter: String,
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// It names no database.
    #[error("the URL of the database does not end with the database's name, such as /ipse")]
    NoName,
}

/// What may stand behind the question mark.
const PARAMETERS: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "user",
    "application_name",
    "options",
    "statement-cache-capacity",
];

/// Those of them that name files.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

impl DatabaseUrl {
    /// The same with another password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        let url = &mut self.options.database_url;
        // A URL without a host, which names a socket, has no place for it but at its end.
        if url.set_password(Some(password)).is_err() {
            url.query_pairs_mut().append_pair("password", password);
        }
        self
    }

    /// Whether the URL itself holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.options.database_url.password().is_some()
    }

    /// What the driver connects with.
    pub(crate) fn options(&self) -> AnyConnectOptions {
        self.options.clone()
    }

    /// What the driver connects with where it must be PostgreSQL.
    pub(crate) fn postgres_options(&self) -> Result<PgConnectOptions, sqlx::Error> {
        PgConnectOptions::from_url(&self.options.database_url).map(ConnectOptions::disable_statement_logging)
    }
}

impl FromStr for DatabaseUrl {
    type Err = NotADatabase;

    fn from_str(text: &str) -> Result<Self, NotADatabase> {
        let text = text.trim();
        if !(text.starts_with("postgres://") || text.starts_with("postgresql://")) {
            return Err(NotADatabase::Scheme);
        }
        let unreadable = |error: sqlx::Error| match error {
            sqlx::Error::Configuration(why) => NotADatabase::Unreadable(why.to_string()),
            other => NotADatabase::Unreadable(other.to_string()),
        };
        let mut options = AnyConnectOptions::from_str(text).map_err(unreadable)?.disable_statement_logging();
        let url = &mut options.database_url;
        if let Some((name, _)) = url.query_pairs().find(|(name, _)| !PARAMETERS.contains(&name.as_ref())) {
            return Err(NotADatabase::Parameter(name.into_owned()));
        }
        for (parameter, path) in url.query_pairs().filter(|(name, _)| FILES.contains(&name.as_ref())) {
            // The certificate itself may stand there as well.
            if path.starts_with("-----BEGIN") {
                continue;
            }
            std::fs::File::open(&*path).map_err(|error| NotADatabase::File {
                parameter: parameter.to_string(),
                path: path.to_string(),
                why: error.to_string(),
            })?;
        }
        if url.path().trim_start_matches('/').is_empty() {
            return Err(NotADatabase::NoName);
        }
        if !url.query_pairs().any(|(name, _)| name == "application_name") {
            url.query_pairs_mut().append_pair("application_name", "ipse");
        }
        let read = PgConnectOptions::from_url(url).map_err(unreadable)?;
        let (user, name) = (read.get_username(), read.get_database().unwrap_or_default());
        let shown = match read.get_socket() {
            Some(socket) => format!("postgres:///{name}?host={}&user={user}", socket.display()),
            None => format!("postgres://{user}@{}:{}/{name}", read.get_host(), read.get_port()),
        };
        Ok(Self { options, shown })
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseUrl").field(&self.shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_everything_but_its_password() {
        let url: DatabaseUrl = "postgres://me:hush@db.example.com/ipse?sslmode=require".parse().unwrap();
        assert_eq!(url.to_string(), "postgres://me@db.example.com:5432/ipse");
        assert_eq!(format!("{url:?}"), "DatabaseUrl(\"postgres://me@db.example.com:5432/ipse\")");
        assert!(url.has_password());
        let url: DatabaseUrl = "postgresql://me@[::1]:7000/ipse".parse().unwrap();
        assert!(!url.has_password());
        let url = url.with_password("p@ss/wörd");
        assert_eq!(url.to_string(), "postgres://me@[::1]:7000/ipse");
        assert!(url.has_password() && !format!("{url:?}").contains("p@ss"));
        let url: DatabaseUrl = "postgres:///ipse?host=/run/postgresql&user=me".parse().unwrap();
        let url = url.with_password("hush");
        assert_eq!(url.to_string(), "postgres:///ipse?host=/run/postgresql&user=me");
        assert!(!format!("{url:?}").contains("hush"));
    }

    #[test]
    fn what_names_no_database_is_refused_in_words() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let error = text.parse::<DatabaseUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        check("mysql://me:hush@db/ipse", "postgres://ipse@db.example.com/ipse");
        check("/var/lib/ipse", "postgres://ipse@db.example.com/ipse");
        check("postgres://me:hush@db:notaport/ipse", "cannot be read");
        check("postgres://me:hush@db", "does not end with");
        check("postgres://me@db/ipse?password=hush", "`password`");
        check("postgres://me:hush@db/ipse?pool=3", "`pool`");
        check("postgres://me:hush@db/ipse?sslmode=maybe", "cannot be read");
        check("postgres://me:hush@db/ipse?sslrootcert=/nowhere/ca.pem", "sslrootcert=/nowhere/ca.pem");
    }
}
