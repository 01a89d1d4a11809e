//! How much was used, and what became of it: the history that the ledger folds into the database.

use super::many::ManyRows;
use super::{Records, installation, number};
use crate::{Error, Subject};
use ipse_model::{DAILY_LIMIT, DEMO_DAILY_LIMIT, Day, KeyId, Now};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};
use std::borrow::Cow;

/// Hours are looked at for one day; some more are kept for those who look later.
const HOURS_KEPT: i64 = 8 * 24;

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

/// What became of requests of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Answered.
    pub answered: u64,
    /// Refused because the day's quota was used up.
    pub over_quota: u64,
    /// Refused because the key went over the burst limit, was paused, or inactive.
    pub refused: u64,
}

impl std::ops::AddAssign for Outcomes {
    fn add_assign(&mut self, more: Self) {
        self.answered += more.answered;
        self.over_quota += more.over_quota;
        self.refused += more.refused;
    }
}

/// What became of requests of one key within one hour, to be added to what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeRow {
    /// Whose.
    pub key: KeyId,
    /// Counted from 1970.
    pub hour: u32,
    /// What became of them.
    pub outcomes: Outcomes,
}

impl Records {
    /// The usage of all subjects on one day.
    pub async fn usage(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        self.within(async {
            sqlx::query("SELECT subject, day, used, mark FROM usage WHERE day = $1")
                .bind(i64::from(day.0))
                .fetch_all(&self.readers)
                .await
                .and_then(|rows| rows.iter().map(usage_row).collect())
        })
        .await
    }

    /// What one subject has used on one day.
    pub async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        self.within(async {
            sqlx::query("SELECT subject, day, used, mark FROM usage WHERE subject = $1 AND day = $2")
                .bind(subject.number())
                .bind(i64::from(day.0))
                .fetch_optional(&self.readers)
                .await
                .and_then(|row| row.as_ref().map_or(Ok(0), |row| usage_row(row).map(|row| row.used)))
        })
        .await
    }

    /// The usage of all subjects on this day and on later ones, which a clock that was ahead may have left.
    pub(crate) async fn usage_since(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        self.within(async {
            sqlx::query("SELECT subject, day, used, mark FROM usage WHERE day >= $1")
                .bind(i64::from(day.0))
                .fetch_all(&self.readers)
                .await
                .and_then(|rows| rows.iter().map(usage_row).collect())
        })
        .await
    }

    /// Writes counts and adds outcomes, durably and in one step. Counts only ever grow: what is there already and higher
    /// stays.
    pub(crate) async fn fold(&self, rows: &[UsageRow], outcomes: &[OutcomeRow]) -> Result<(), Error> {
        let write = async || {
            let mut tx = self.writer.begin().await?;
            fold(&mut tx, &RAISE, rows).await?;
            add(&mut tx, outcomes).await?;
            tx.commit().await
        };
        let work = async {
            match write().await {
                // A key was deleted in between: nothing was written, and now it is not there for anybody.
                Err(error) if is_of_no_key(&error) => write().await,
                written => written,
            }
        };
        self.within(work).await
    }

    /// Uses up a day of every key and of the demo. After a restore nobody knows what was answered since the backup: who
    /// wants to be sure that nothing is answered twice lets nothing more be answered that day, and nothing from ranges that
    /// shared counters may still hold.
    pub async fn spend_day(&self, day: Day) -> Result<(), Error> {
        // Whole numbers, written out: there is nothing in them that could be misread.
        let sql = format!(
            "INSERT INTO usage (subject, day, used, mark) \
             SELECT subject, {day}, most, most FROM \
             (SELECT 0 AS subject, {DEMO_DAILY_LIMIT} AS most UNION ALL \
             SELECT id, COALESCE(daily_limit, {DAILY_LIMIT}) FROM keys) AS everybody \
             WHERE subject >= 0 ORDER BY subject \
             ON CONFLICT (subject, day) DO UPDATE SET \
             used = CASE WHEN excluded.used > usage.used THEN excluded.used ELSE usage.used END, \
             mark = CASE WHEN excluded.mark > usage.mark THEN excluded.mark ELSE usage.mark END",
            day = day.0,
        );
        let epoch = installation::drawn()?;
        self.within(async {
            let mut tx = self.writer.begin().await?;
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
            installation::begin_epoch(&mut tx, &epoch).await?;
            tx.commit().await
        })
        .await
    }

    /// Writes exact counts at a clean stop: nothing is served beyond them, so no mark stands above them.
    pub(crate) async fn fold_exactly(&self, rows: &[UsageRow], outcomes: &[OutcomeRow]) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            fold(&mut tx, &RAISE_EXACTLY, rows).await?;
            add(&mut tx, outcomes).await?;
            // Nothing stands in the journal alone any more.
            sqlx::query("DELETE FROM facts WHERE name = 'journal'").execute(&mut *tx).await?;
            tx.commit().await
        };
        self.within(work).await
    }

    /// Notes what a recovery found, in one step with the boot it was done in. After a new boot every count begins
    /// at its mark, because the counts above the last fold are lost. From which day on that was done is noted as well.
    pub(crate) async fn recover(
        &self,
        rows: &[UsageRow],
        outcomes: &[OutcomeRow],
        boot: &str,
        today: Day,
    ) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let before = sqlx::query(
                "INSERT INTO facts (name, value) VALUES ('boot', '') ON CONFLICT (name) DO UPDATE SET name = 'boot' \
                 RETURNING value",
            )
            .fetch_one(&mut *tx)
            .await?
            .try_get::<String, _>(0)?;
            fold(&mut tx, &RAISE, rows).await?;
            add(&mut tx, outcomes).await?;
            let settled = sqlx::query("SELECT value FROM facts WHERE name = 'settled'")
                .fetch_optional(&mut *tx)
                .await?;
            let settled = settled.map(|row| row.try_get::<String, _>(0)).transpose()?;
            let settled = settled.and_then(|day| day.parse().ok()).unwrap_or(today.0);
            let is_new_boot = before != boot || boot.is_empty();
            if is_new_boot || today.0 < settled {
                // Days before are past: their counts are history, which a mark would only blur. If the clock is set back to
                // one of them within this boot, its marks count from then on.
                let end = if is_new_boot { i64::from(u32::MAX) + 1 } else { i64::from(settled) };
                sqlx::query("UPDATE usage SET used = mark WHERE mark > used AND day >= $1 AND day < $2")
                    .bind(i64::from(today.0))
                    .bind(end)
                    .execute(&mut *tx)
                    .await?;
                sqlx::query(
                    "INSERT INTO facts (name, value) VALUES ('settled', $1) \
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                )
                .bind(today.0.to_string())
                .execute(&mut *tx)
                .await?;
                sqlx::query("UPDATE facts SET value = $1 WHERE name = 'boot'")
                    .bind(boot)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await
        };
        self.within(work).await
    }

    /// What became of a key's requests, on this day and on later ones; days without any are left out.
    pub async fn outcomes_by_day(&self, id: KeyId, since: Day) -> Result<Vec<(Day, Outcomes)>, Error> {
        let day = |row: &AnyRow| Ok((Day(number(row, "day")?), outcomes(row)?));
        let read = async {
            let rows = sqlx::query(
                "SELECT day, answered, over_quota, refused FROM outcomes_by_day \
                 WHERE key_id = $1 AND day >= $2 ORDER BY day",
            );
            let rows = rows.bind(id.0).bind(i64::from(since.0)).fetch_all(&self.readers).await?;
            rows.iter().map(day).collect()
        };
        self.within(read).await
    }

    /// What became of a key's requests in the hours of one day, counted from 0; hours without any are left out.
    pub async fn outcomes_by_hour(&self, id: KeyId, day: Day) -> Result<Vec<(u8, Outcomes)>, Error> {
        let midnight = i64::from(day.0) * 24;
        let hour = |row: &AnyRow| Ok((number(row, "hour")?, outcomes(row)?));
        let read = async {
            let rows = sqlx::query(
                "SELECT hour - $2 AS hour, answered, over_quota, refused FROM outcomes_by_hour \
                 WHERE key_id = $1 AND hour >= $2 AND hour < $2 + 24 ORDER BY hour",
            );
            let rows = rows.bind(id.0).bind(midnight).fetch_all(&self.readers).await?;
            rows.iter().map(hour).collect()
        };
        self.within(read).await
    }
}

/// Whether something was to be written about a key that is no more.
fn is_of_no_key(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation)
}

/// Raises counts: what is there already and higher stays.
static RAISE: ManyRows<4> = ManyRows::new(
    "INSERT INTO usage (subject, day, used, mark) SELECT column1, column2, column3, column4 FROM (VALUES ",
    ") AS news WHERE column1 = 0 OR EXISTS (SELECT 1 FROM keys WHERE id = column1) ORDER BY column1, column2 \
     ON CONFLICT (subject, day) DO UPDATE SET \
     used = CASE WHEN excluded.used > usage.used THEN excluded.used ELSE usage.used END, \
     mark = CASE WHEN excluded.mark > usage.mark THEN excluded.mark ELSE usage.mark END",
);
/// The same, but that no mark stands above the count then.
static RAISE_EXACTLY: ManyRows<4> = ManyRows::new(
    "INSERT INTO usage (subject, day, used, mark) SELECT column1, column2, column3, column3 FROM (VALUES ",
    ") AS news WHERE column1 = 0 OR EXISTS (SELECT 1 FROM keys WHERE id = column1) ORDER BY column1, column2 \
     ON CONFLICT (subject, day) DO UPDATE SET \
     used = CASE WHEN excluded.used > usage.used THEN excluded.used ELSE usage.used END, \
     mark = CASE WHEN excluded.used > usage.used THEN excluded.used ELSE usage.used END",
);
/// Adds outcomes to those of a day. A key that was deleted meanwhile leaves no trace.
static ADD_TO_DAY: ManyRows<5> = ManyRows::new(
    "INSERT INTO outcomes_by_day (key_id, day, answered, over_quota, refused) \
     SELECT column1, column2, column3, column4, column5 FROM (VALUES ",
    ") AS news WHERE EXISTS (SELECT 1 FROM keys WHERE id = column1) ORDER BY column1, column2 \
     ON CONFLICT (key_id, day) DO UPDATE SET answered = outcomes_by_day.answered + excluded.answered, \
     over_quota = outcomes_by_day.over_quota + excluded.over_quota, \
     refused = outcomes_by_day.refused + excluded.refused",
);
/// Adds outcomes to those of an hour.
static ADD_TO_HOUR: ManyRows<5> = ManyRows::new(
    "INSERT INTO outcomes_by_hour (key_id, hour, answered, over_quota, refused) \
     SELECT column1, column2, column3, column4, column5 FROM (VALUES ",
    ") AS news WHERE EXISTS (SELECT 1 FROM keys WHERE id = column1) ORDER BY column1, column2 \
     ON CONFLICT (key_id, hour) DO UPDATE SET answered = outcomes_by_hour.answered + excluded.answered, \
     over_quota = outcomes_by_hour.over_quota + excluded.over_quota, \
     refused = outcomes_by_hour.refused + excluded.refused",
);

/// Writes counts. Rows are locked in the order of their subjects, as everywhere, so that nodes which fold at once
/// never wait in a circle.
async fn fold(
    connection: &mut AnyConnection,
    statement: &'static ManyRows<4>,
    rows: &[UsageRow],
) -> Result<(), sqlx::Error> {
    let rows = in_order(rows, |row| (row.subject, row.day));
    // No statement may be about one row twice.
    let rows = rows.chunk_by(|row, next| (row.subject, row.day) == (next.subject, next.day)).map(|same| {
        let highest = |number: fn(&UsageRow) -> u32| same.iter().map(number).max().unwrap_or(0).into();
        [same[0].subject.number(), same[0].day.0.into(), highest(|row| row.used), highest(|row| row.mark)]
    });
    statement.execute(connection, rows).await
}

/// Adds outcomes to what is known.
async fn add(connection: &mut AnyConnection, rows: &[OutcomeRow]) -> Result<(), sqlx::Error> {
    let rows = in_order(rows, |row| (row.key, row.hour));
    ADD_TO_DAY.execute(connection, sums(&rows, 24)).await?;
    ADD_TO_HOUR.execute(connection, sums(&rows, 1)).await
}

/// Sums of as many hours each, because no statement may be about one row twice.
fn sums(rows: &[OutcomeRow], hours: u32) -> impl Iterator<Item = [i64; 5]> {
    let same = move |row: &OutcomeRow, next: &OutcomeRow| {
        (row.key, row.hour / hours) == (next.key, next.hour / hours)
    };
    rows.chunk_by(same).map(move |same| {
        let mut sum = Outcomes::default();
        same.iter().for_each(|row| sum += row.outcomes);
        let [answered, over_quota, refused] =
            [sum.answered, sum.over_quota, sum.refused].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        [same[0].key.0, (same[0].hour / hours).into(), answered, over_quota, refused]
    })
}

/// The rows in the order of a key, in which they mostly are already.
fn in_order<T: Copy, K: Ord>(rows: &[T], key: impl Fn(&T) -> K) -> Cow<'_, [T]> {
    if rows.is_sorted_by_key(&key) {
        return Cow::Borrowed(rows);
    }
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(key);
    Cow::Owned(rows)
}

/// Forgets hours of long ago.
pub(super) fn old_hours(now: Now) -> Query<'static, Any, AnyArguments> {
    let sql = sqlx::query("DELETE FROM outcomes_by_hour WHERE hour < $1");
    sql.bind(i64::from(now.day().0) * 24 - HOURS_KEPT)
}

/// Forgets what keys have used that are no more: a fold that began before a key was deleted may come after it.
pub(super) fn of_no_key() -> Query<'static, Any, AnyArguments> {
    sqlx::query("DELETE FROM usage WHERE subject <> 0 AND NOT EXISTS (SELECT 1 FROM keys WHERE id = subject)")
}

fn usage_row(row: &AnyRow) -> Result<UsageRow, sqlx::Error> {
    Ok(UsageRow {
        subject: Subject::from_number(row.try_get("subject")?),
        day: Day(number(row, "day")?),
        used: number(row, "used")?,
        mark: number(row, "mark")?,
    })
}

fn outcomes(row: &AnyRow) -> Result<Outcomes, sqlx::Error> {
    Ok(Outcomes {
        answered: number(row, "answered")?,
        over_quota: number(row, "over_quota")?,
        refused: number(row, "refused")?,
    })
}
