//! Ranges of a day's numbers, each given out once: how far a shared engine of counters may serve a subject.
//!
//! Ranges of one subject and day never overlap, whoever asks for them: what is behind the mark was given out before.

use super::Records;
use crate::{Error, Subject};
use ipse_model::Day;
use sqlx::{AssertSqlSafe, Row};
use std::collections::BTreeMap;

/// Such a part of a day is given out at once: enough for a key that asks as quickly as it may to go on through some minutes
/// in which the records are away, and all that is withheld when whoever asked for it dies.
const PART_OF_DAY: u32 = 16;
/// Of a small day, as many numbers are given out at once at least.
const LEAST: u32 = 4;
/// As many are few.
const FEW: u32 = 64;

/// Numbers that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose.
    pub subject: Subject,
    /// Of which day.
    pub day: Day,
    /// The last number of the day.
    pub limit: u32,
    /// How many of them at once.
    pub portion: Portion,
}

/// How many numbers are given out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// A part of the day, for an engine that has to go on when the records are away.
    PartOfDay,
    /// The same, but never many, for a node that asks again when it needs more; and enough for those who wait there.
    Few {
        /// How many wait.
        waiting: u32,
    },
}

/// Numbers that were given out: those above `from`, up to `to`. There are none if the two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// What was given out before.
    pub from: u32,
    /// What is given out now.
    pub to: u32,
}

impl Range {
    /// What is given out of a day after `from`, none of it beyond the limit.
    #[must_use]
    pub fn after(from: u32, limit: u32, portion: Portion) -> Self {
        let part = LEAST.max(limit / PART_OF_DAY);
        let step = match portion {
            Portion::PartOfDay => part,
            Portion::Few { waiting } => part.max(waiting).min(FEW),
        };
        Self { from, to: from.saturating_add(step).min(limit).max(from) }
    }
}

impl Records {
    /// Gives out the [next](Range::after) numbers of subjects, none beyond its limit, durably and in one step. No subject
    /// may be asked for twice. The ranges come in the order of `wanted`; those of a key that is no more
    /// are empty.
    pub async fn reserve(&self, wanted: &[Wanted]) -> Result<Vec<Range>, Error> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // The order in which rows of usage are locked everywhere.
        let order: BTreeMap<(i64, u32), Wanted> =
            wanted.iter().map(|wanted| ((wanted.subject.number(), wanted.day.0), *wanted)).collect();
        let work = async {
            let mut tx = self.writer.begin().await?;
            // Whole numbers, written out: there is nothing in them that could be misread.
            let rows: Vec<String> =
                order.keys().map(|(subject, day)| format!("({subject}, {day})")).collect();
            let lock = format!(
                "INSERT INTO usage (subject, day, used, mark) SELECT column1, column2, 0, 0 FROM (VALUES {rows}) AS w \
                 WHERE column1 = 0 OR EXISTS (SELECT 1 FROM keys WHERE id = column1) ORDER BY column1, column2 \
                 ON CONFLICT (subject, day) DO UPDATE SET mark = usage.mark RETURNING subject, day, mark",
                rows = rows.join(", "),
            );
            let mut given: BTreeMap<(i64, u32), Range> = BTreeMap::new();
            for row in sqlx::raw_sql(AssertSqlSafe(lock)).fetch_all(&mut *tx).await? {
                let key = (row.try_get("subject")?, super::number(&row, "day")?);
                let from: u32 = super::number(&row, "mark")?;
                let Some(wanted) = order.get(&key) else { continue };
                given.insert(key, Range::after(from, wanted.limit, wanted.portion));
            }
            let raised: Vec<String> = given
                .iter()
                .filter(|(_, range)| range.to > range.from)
                .map(|((subject, day), range)| format!("({subject}, {day}, 0, {})", range.to))
                .collect();
            if !raised.is_empty() {
                let raise = format!(
                    "INSERT INTO usage (subject, day, used, mark) VALUES {rows} \
                     ON CONFLICT (subject, day) DO UPDATE SET mark = excluded.mark",
                    rows = raised.join(", "),
                );
                sqlx::raw_sql(AssertSqlSafe(raise)).execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok(given)
        };
        let given = self.within(work).await?;
        let none = Range { from: 0, to: 0 };
        let range =
            |wanted: &Wanted| given.get(&(wanted.subject.number(), wanted.day.0)).copied().unwrap_or(none);
        Ok(wanted.iter().map(range).collect())
    }
}
