//! Everything of one installation, from one database into another that is empty.
//!
//! Tables are named here once more, with their columns, so that whatever the engines call their types is written and
//! read in the same way; a test holds this list to the schema.

use super::Records;
use crate::Error;
use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};
use std::fmt::Write;

/// As many rows go into one statement.
const ROWS_AT_ONCE: usize = 200;

struct Table {
    name: &'static str,
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
}

const fn table(
    name: &'static str,
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
) -> Table {
    Table { name, numbers, texts }
}

/// All tables, those that others refer to before them.
const TABLES: &[Table] = &[
    table("sequences", &["value"], &["name"]),
    table(
        "accounts",
        &["id", "created_ms", "verified_ms", "totp_step", "mail_pause", "mail_quota"],
        &["email", "password", "totp_secret"],
    ),
    table(
        "keys",
        &["id", "account_id", "daily_limit", "active", "paused_ms", "resumes", "created_ms"],
        &["name", "hash", "last_four", "scope", "pause_minute"],
    ),
    table("key_changes", &["seq", "key_id"], &[]),
    table("usage", &["subject", "day", "used", "mark"], &[]),
    table("facts", &[], &["name", "value"]),
    table("recovery_codes", &["account_id"], &["hash"]),
    table(
        "sessions",
        &["id", "account_id", "created_ms", "seen_ms", "second_factor_due"],
        &["hash", "device"],
    ),
    table("tokens", &["account_id", "ends_ms"], &["hash", "purpose", "email", "password"]),
    table("activity", &["id", "account_id", "at_ms", "key_id"], &["what", "detail"]),
    table("old_texts", &["key_id", "ends_ms"], &["hash", "last_four"]),
    table("outcomes_by_day", &["key_id", "day", "answered", "over_quota", "refused"], &[]),
    table("outcomes_by_hour", &["key_id", "hour", "answered", "over_quota", "refused"], &[]),
    table("notices", &["key_id", "occasion"], &["kind"]),
    table("nodes", &["started_ms", "seen_ms"], &["id", "name", "version"]),
];

/// What was copied of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedTable {
    /// Its name.
    pub name: &'static str,
    /// How many rows it has, there as here.
    pub rows: u64,
}

impl Records {
    /// Copies everything into other records, which must hold nothing yet. It is read back there and compared before it
    /// is kept: whatever goes wrong, the other records hold nothing still. Nobody changes these records meanwhile.
    pub async fn copy_to(&self, target: &Self) -> Result<Vec<CopiedTable>, Error> {
        let here = |error| self.engine.failed(error);
        let there = |error| target.engine.failed(error);
        let mut from = self.engine.connect_for_long().await.map_err(here)?;
        let mut to = target.engine.connect_for_long().await.map_err(there)?;
        let mut source = sqlx::Connection::begin(&mut from).await.map_err(here)?;
        let mut copy = sqlx::Connection::begin(&mut to).await.map_err(there)?;
        // All turns at once: whoever would change anything waits for us.
        let turns = "UPDATE sequences SET value = value";
        sqlx::query(turns).execute(&mut *source).await.map_err(here)?;
        sqlx::query(turns).execute(&mut *copy).await.map_err(there)?;
        for table in TABLES {
            let sql = format!("SELECT COUNT(*) FROM {} WHERE {}", table.name, table.something());
            let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut *copy).await.map_err(there)?;
            if row.try_get::<i64, _>(0).map_err(there)? > 0 {
                return Err(Error::NotEmpty(target.engine.name()));
            }
        }
        sqlx::query("DELETE FROM sequences").execute(&mut *copy).await.map_err(there)?;
        let mut copied = Vec::with_capacity(TABLES.len());
        for table in TABLES {
            let rows = table.read(&mut source).await.map_err(here)?;
            table.write(&mut copy, &rows).await.map_err(there)?;
            let again = table.read(&mut copy).await.map_err(there)?;
            if (rows.len(), sum(&rows)) != (again.len(), sum(&again)) {
                return Err(Error::CopyDiffers { database: target.engine.name(), table: table.name });
            }
            copied.push(CopiedTable { name: table.name, rows: rows.len() as u64 });
        }
        copy.commit().await.map_err(there)?;
        Ok(copied)
    }
}

/// One row: its numbers, then its texts.
type Values = (Vec<Option<i64>>, Vec<Option<String>>);

impl Table {
    /// Which rows are copied: who counts on a database is nothing that goes along to another.
    fn chosen(&self) -> &'static str {
        if self.name == "facts" { "name <> 'counting'" } else { "1 = 1" }
    }

    /// Which rows tell that something was stored here before.
    fn something(&self) -> &'static str {
        if self.name == "sequences" { "value <> 0" } else { self.chosen() }
    }

    fn columns(&self) -> String {
        self.numbers.iter().chain(self.texts).copied().collect::<Vec<_>>().join(", ")
    }

    async fn read(&self, connection: &mut AnyConnection) -> Result<Vec<Values>, sqlx::Error> {
        let sql = format!("SELECT {} FROM {} WHERE {}", self.columns(), self.name, self.chosen());
        let values = |row: &AnyRow| -> Result<Values, sqlx::Error> {
            let numbers = self.numbers.iter().map(|name| row.try_get(*name)).collect::<Result<_, _>>()?;
            let texts = self.texts.iter().map(|name| row.try_get(*name)).collect::<Result<_, _>>()?;
            Ok((numbers, texts))
        };
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await?;
        rows.iter().map(values).collect()
    }

    async fn write(&self, connection: &mut AnyConnection, rows: &[Values]) -> Result<(), sqlx::Error> {
        let width = self.numbers.len() + self.texts.len();
        for rows in rows.chunks(ROWS_AT_ONCE) {
            let mut sql = format!("INSERT INTO {} ({}) VALUES ", self.name, self.columns());
            for row in 0..rows.len() {
                let places: Vec<String> =
                    (1..=width).map(|column| format!("${}", row * width + column)).collect();
                let comma = if row > 0 { ", " } else { "" };
                let _ = write!(sql, "{comma}({})", places.join(", "));
            }
            let mut insert = sqlx::query(AssertSqlSafe(sql)).persistent(false);
            for (numbers, texts) in rows {
                for number in numbers {
                    insert = insert.bind(*number);
                }
                for text in texts {
                    insert = insert.bind(text.clone());
                }
            }
            insert.execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// A sum over rows that does not depend on their order, of which each engine has its own.
fn sum(rows: &[Values]) -> u128 {
    let hash = |(numbers, texts): &Values| {
        let mut hasher = Sha256::new();
        for number in numbers {
            match number {
                Some(number) => {
                    hasher.update([1]);
                    hasher.update(number.to_le_bytes());
                }
                None => hasher.update([0]),
            }
        }
        for text in texts {
            match text {
                Some(text) => {
                    hasher.update([1]);
                    hasher.update((text.len() as u64).to_le_bytes());
                    hasher.update(text.as_bytes());
                }
                None => hasher.update([0]),
            }
        }
        let digest = hasher.finalize();
        digest.iter().take(16).fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte))
    };
    rows.iter().map(hash).fold(0, u128::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables and columns that the migrations make, as SQLite tells them.
    #[tokio::test]
    async fn every_column_of_the_schema_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let folder = crate::DataFolder::create(dir.path()).unwrap();
        let records = Records::open(&folder).await.unwrap();
        let columns = sqlx::query(
            "SELECT m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND m.name <> 'schema_migrations'",
        );
        let columns = columns.fetch_all(&records.readers).await.unwrap();
        let mut columns: Vec<String> = columns.iter().map(|row| row.try_get(0).unwrap()).collect();
        let of = |table: &Table| {
            let named: Vec<String> = table
                .numbers
                .iter()
                .chain(table.texts)
                .map(|column| format!("{}.{column}", table.name))
                .collect();
            named
        };
        let mut copied: Vec<String> = TABLES.iter().flat_map(of).collect();
        columns.sort_unstable();
        copied.sort_unstable();
        assert_eq!(copied, columns);
    }

    #[test]
    fn a_sum_tells_rows_apart_and_not_their_order() {
        let row = |number: Option<i64>, text: Option<&str>| (vec![number], vec![text.map(str::to_owned)]);
        let (one, other) = (row(Some(1), None), row(None, Some("")));
        assert_eq!(sum(&[one.clone(), other.clone()]), sum(&[other.clone(), one.clone()]));
        for different in [row(Some(1), Some("")), row(None, None), row(None, Some("x")), row(Some(0), None)] {
            assert_ne!(sum(&[one.clone(), other.clone()]), sum(&[one.clone(), different]));
        }
    }
}
