//! What tells one installation from another.

use super::Records;
use crate::{DataFolder, Error};
use sqlx::{AnyConnection, Row};

impl Records {
    /// The name of this installation: 16 digits that were drawn once and stay with the database, so that engines which
    /// several installations share can tell them apart.
    pub async fn installation(&self) -> Result<String, Error> {
        let name = drawn()?;
        let work = async {
            // Whoever comes first names it; everybody else gets that name.
            sqlx::query(
                "INSERT INTO facts (name, value) VALUES ('installation', $1) \
                 ON CONFLICT (name) DO UPDATE SET value = facts.value RETURNING value",
            )
            .bind(name)
            .fetch_one(&self.writer)
            .await?
            .try_get(0)
        };
        self.within(work).await
    }

    /// What ranges belong to that shared counters hold, beside their engine: drawn anew when nobody is to be served from those
    /// that were given out before. Empty if that never was.
    pub(crate) async fn epoch(&self) -> Result<String, Error> {
        let work = async {
            let fact = sqlx::query("SELECT value FROM facts WHERE name = 'epoch'");
            fact.fetch_optional(&self.readers).await?.map_or(Ok(String::new()), |row| row.try_get(0))
        };
        self.within(work).await
    }

    /// Whether these are the very records of another installation, by its name.
    pub async fn are_of(&self, installation: &str) -> Result<bool, Error> {
        let work = async {
            let fact = sqlx::query("SELECT 1 FROM facts WHERE name = 'installation' AND value = $1");
            Ok(fact.bind(installation).fetch_optional(&self.readers).await?.is_some())
        };
        self.within(work).await
    }

    /// Sees to it that the journal of a folder is folded into these records and no others. A folder that has a database of
    /// its own, and never knew another, holds the journal of that.
    pub(crate) async fn bind_journal(&self, folder: &DataFolder) -> Result<(), Error> {
        let installation = self.installation().await?;
        if !folder.bind_journal(&installation, self.engine.is_file())? {
            return Err(Error::ForeignJournal {
                path: folder.path().to_owned(),
                database: self.engine.name(),
            });
        }
        if self.engine.is_file() {
            return Ok(());
        }
        // On a server, whoever counts next may have another folder: until this one is closed in peace, nobody may.
        let name = folder.name()?;
        let work = async {
            sqlx::query(
                "INSERT INTO facts (name, value) VALUES ('journal', $1) \
                 ON CONFLICT (name) DO UPDATE SET value = facts.value RETURNING value",
            )
            .bind(name.as_str())
            .fetch_one(&self.writer)
            .await?
            .try_get::<String, _>(0)
        };
        if self.within(work).await? == name {
            Ok(())
        } else {
            Err(Error::JournalElsewhere(self.engine.name()))
        }
    }

    /// Whether all that was counted stands here, and nothing only in the journal of some folder.
    pub async fn check_journal(&self) -> Result<(), Error> {
        let work = async {
            let fact = sqlx::query("SELECT value FROM facts WHERE name = 'journal'");
            Ok(fact.fetch_optional(&self.readers).await?.is_some())
        };
        if self.within(work).await? { Err(Error::JournalElsewhere(self.engine.name())) } else { Ok(()) }
    }

    /// Lets others count though a journal was not closed in peace, because it is lost. `false` if there was none.
    pub async fn forget_journal(&self) -> Result<bool, Error> {
        Ok(self.write(sqlx::query("DELETE FROM facts WHERE name = 'journal'")).await? > 0)
    }
}

/// Begins another epoch.
pub(super) async fn begin_epoch(connection: &mut AnyConnection, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO facts (name, value) VALUES ('epoch', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .execute(connection)
    .await
    .map(drop)
}

/// 16 digits that nobody has drawn before.
pub(super) fn drawn() -> Result<String, Error> {
    let mut drawn = [0; 8];
    getrandom::fill(&mut drawn).map_err(Error::Random)?;
    Ok(format!("{:016x}", u64::from_be_bytes(drawn)))
}
