//! Statements about many rows of whole numbers at once.
//!
//! Thousands of keys may have news each second, and a pause waits for whoever is writing: so many rows go into one statement.

use super::engine::keeps_statements;
use sqlx::any::AnyArguments;
use sqlx::{AnyConnection, Arguments, AssertSqlSafe};
use std::fmt::{Display, Write};
use std::sync::OnceLock;

/// As many rows are handed over at once.
const ROWS_AT_ONCE: usize = 512;
/// Statements that are kept have places for as many rows. Each is parsed once for a connection.
const KEPT_ROWS: [usize; 4] = [128, 32, 8, 1];

/// A statement about rows of so many columns.
pub(super) struct ManyRows<const COLUMNS: usize> {
    /// What stands before and after the rows.
    before: &'static str,
    after: &'static str,
    /// The texts of the statements that are kept.
    kept: OnceLock<[String; KEPT_ROWS.len()]>,
}

impl<const COLUMNS: usize> ManyRows<COLUMNS> {
    pub(super) const fn new(before: &'static str, after: &'static str) -> Self {
        Self { before, after, kept: OnceLock::new() }
    }

    /// Runs the statement for all rows, in their order.
    pub(super) async fn execute(
        &'static self,
        connection: &mut AnyConnection,
        mut rows: impl Iterator<Item = [i64; COLUMNS]>,
    ) -> Result<(), sqlx::Error> {
        let mut part = Vec::with_capacity(ROWS_AT_ONCE);
        loop {
            part.clear();
            part.extend(rows.by_ref().take(ROWS_AT_ONCE));
            if part.is_empty() {
                return Ok(());
            }
            if keeps_statements(connection) {
                self.bind(connection, &part).await?;
            } else {
                // They are whole numbers, so there is nothing in them that could be misread.
                let sql = self.text(part.iter());
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *connection).await?;
            }
        }
    }

    async fn bind(
        &'static self,
        connection: &mut AnyConnection,
        mut rows: &[[i64; COLUMNS]],
    ) -> Result<(), sqlx::Error> {
        let kept =
            self.kept.get_or_init(|| KEPT_ROWS.map(|rows| self.text((0..rows).map(|_| &["?"; COLUMNS]))));
        for (sql, size) in kept.iter().zip(KEPT_ROWS) {
            while let Some((part, rest)) = rows.split_at_checked(size) {
                let mut numbers = AnyArguments::default();
                numbers.reserve(size * COLUMNS, 0);
                for number in part.as_flattened() {
                    numbers.add(*number).map_err(sqlx::Error::Encode)?;
                }
                sqlx::query_with(sql.as_str(), numbers).execute(&mut *connection).await?;
                rows = rest;
            }
        }
        Ok(())
    }

    /// The statement with these rows.
    fn text<'a, T: Display + 'a>(&self, rows: impl Iterator<Item = &'a [T; COLUMNS]>) -> String {
        let mut text = self.before.to_owned();
        for (place, row) in rows.enumerate() {
            text.push_str(if place == 0 { "(" } else { ", (" });
            for (place, column) in row.iter().enumerate() {
                let comma = if place == 0 { "" } else { ", " };
                let _ = write!(text, "{comma}{column}");
            }
            text.push(')');
        }
        text.push_str(self.after);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_between_what_is_before_and_after_them() {
        let statement = ManyRows::<2>::new("VALUES ", " ORDER BY 1");
        assert_eq!(statement.text([[1, -2], [3, 4]].iter()), "VALUES (1, -2), (3, 4) ORDER BY 1");
        assert_eq!(statement.text([["?", "?"]].iter()), "VALUES (?, ?) ORDER BY 1");
    }
}
