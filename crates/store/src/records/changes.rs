//! The log of changes of keys, by which servers keep their tables up to date.

use super::engine::announce;
use super::keys::{scope, state, state_of};
use super::{Records, number, unreadable};
use crate::Error;
use ipse_model::{Key, KeyHash, KeyId};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

/// How many changes of keys are remembered for servers that lag behind.
const CHANGES_KEPT: i64 = 10_000;

/// As many keys are read in one part.
const KEYS_AT_ONCE: i64 = 10_000;

/// A key with the texts that it is known by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownKey {
    pub(crate) key: Key,
    pub(crate) hash: KeyHash,
    /// The text before, and the moment from which it is invalid.
    pub(crate) old: Option<(KeyHash, i64)>,
}

/// A key that changed, as it is now; `None` if it is no more.
pub(crate) type ChangedKey = (KeyId, Option<KnownKey>);

impl Records {
    /// The number of the last change of any key.
    pub(crate) async fn last_key_change(&self) -> Result<i64, Error> {
        self.within(async {
            sqlx::query("SELECT value FROM sequences WHERE name = 'key_change'")
                .fetch_one(&self.readers)
                .await
                .and_then(|row| row.try_get(0))
        })
        .await
    }

    /// How many keys there are.
    pub(crate) async fn key_count(&self) -> Result<usize, Error> {
        let read = async {
            let row = sqlx::query("SELECT COUNT(*) FROM keys").fetch_one(&self.readers).await?;
            Ok(row.try_get::<i64, _>(0)?.try_into().unwrap_or(0))
        };
        self.within(read).await
    }

    /// The last of the next [`KEYS_AT_ONCE`] keys after a number; `None` if there are fewer.
    pub(crate) async fn end_of_part(&self, after: KeyId) -> Result<Option<KeyId>, Error> {
        let read = async {
            let row = sqlx::query("SELECT id FROM keys WHERE id > $1 ORDER BY id LIMIT 1 OFFSET $2")
                .bind(after.0)
                .bind(KEYS_AT_ONCE - 1)
                .fetch_optional(&self.readers)
                .await?;
            row.map(|row| row.try_get(0).map(KeyId)).transpose()
        };
        self.within(read).await
    }

    /// The keys after a number, up to another one or all, by ascending number. They are begun to be read at once, on
    /// another thread.
    pub(crate) fn read_ahead(
        &self,
        after: KeyId,
        end: Option<KeyId>,
    ) -> impl Future<Output = Result<Vec<KnownKey>, Error>> + Send + use<> {
        let records = self.clone();
        let reading = tokio::spawn(async move { records.keys_between(after, end).await });
        let engine = std::sync::Arc::clone(&self.engine);
        async move { reading.await.unwrap_or_else(|_| Err(engine.failed(sqlx::Error::WorkerCrashed))) }
    }

    /// They come as one text: a driver takes several times as long for a row as for what stands in it, and a server
    /// with a million keys is to start within seconds.
    async fn keys_between(&self, after: KeyId, end: Option<KeyId>) -> Result<Vec<KnownKey>, Error> {
        let read = async {
            let lines = sqlx::query(
                "SELECT COALESCE(string_agg(line, ';'), '') FROM (SELECT k.id || ',' || k.hash || ',' || k.scope || ',' || \
                 k.active || ',' || CASE WHEN k.paused_ms IS NULL THEN 0 ELSE 1 END || ',' || k.daily_limit || ',' || \
                 k.resumes || ',' || COALESCE(o.hash, '') || ',' || COALESCE(o.ends_ms, 0) AS line \
                 FROM keys k LEFT JOIN old_texts o ON o.key_id = k.id AND o.key_id > $1 AND o.key_id <= $2 \
                 WHERE k.id > $1 AND k.id <= $2) AS part",
            );
            let end = end.map_or(i64::MAX, |end| end.0);
            let lines: String = lines.bind(after.0).bind(end).fetch_one(&self.readers).await?.try_get(0)?;
            let lines = lines.split(';').filter(|line| !line.is_empty());
            lines
                .map(|line| known_line(line).ok_or_else(|| unreadable("keys")))
                .collect::<Result<Vec<_>, _>>()
        };
        let mut keys = self.within(read).await?;
        // No engine promises an order inside of a text.
        keys.sort_unstable_by_key(|known| known.key.id);
        Ok(keys)
    }

    /// The keys that changed since `seen`, each as it is now; `None` if the log no longer reaches back that far.
    pub(crate) async fn keys_changed_since(&self, seen: i64) -> Result<Option<Vec<ChangedKey>>, Error> {
        let read = async {
            let oldest: Option<i64> =
                sqlx::query("SELECT MIN(seq) FROM key_changes").fetch_one(&self.readers).await?.try_get(0)?;
            if oldest.is_none_or(|oldest| oldest > seen + 1) {
                return Ok(None);
            }
            let ids = sqlx::query("SELECT DISTINCT key_id FROM key_changes WHERE seq > $1")
                .bind(seen)
                .fetch_all(&self.readers)
                .await?;
            let mut changed = Vec::with_capacity(ids.len());
            for row in ids {
                let id: i64 = row.try_get(0)?;
                let found = sqlx::query(concat!("SELECT ", known_columns!(), " WHERE k.id = $1"))
                    .bind(id)
                    .fetch_optional(&self.readers)
                    .await?;
                changed.push((KeyId(id), found.as_ref().map(known_key).transpose()?));
            }
            Ok(Some(changed))
        };
        self.within(read).await
    }
}

/// The columns and tables that [`known_key`] reads.
macro_rules! known_columns {
    () => {
        "k.id, k.hash, k.scope, k.active, k.paused_ms, k.daily_limit, k.resumes, o.hash AS old_hash, \
         o.ends_ms AS old_ends_ms FROM keys k LEFT JOIN old_texts o ON o.key_id = k.id"
    };
}
use known_columns;

/// A key as [`Records::keys_between`] has it written.
fn known_line(line: &str) -> Option<KnownKey> {
    let mut parts = line.split(',');
    let id = KeyId(parts.next()?.parse().ok()?);
    let hash = KeyHash::from_hex(parts.next()?)?;
    let scope = parts.next()?.parse().ok()?;
    let state = state_of(parts.next()? != "0", parts.next()? != "0");
    let daily_limit = parts.next()?.parse().ok()?;
    let resumes = parts.next()?.parse::<i64>().ok()?.try_into().unwrap_or(u32::MAX);
    let old = match parts.next()? {
        "" => None,
        hash => Some((KeyHash::from_hex(hash)?, parts.next()?.parse().ok()?)),
    };
    Some(KnownKey { key: Key { id, scope, state, daily_limit, resumes }, hash, old })
}

fn known_key(row: &AnyRow) -> Result<KnownKey, sqlx::Error> {
    let hash = |text: &str, column| KeyHash::from_hex(text).ok_or_else(|| unreadable(column));
    let old: Option<String> = row.try_get("old_hash")?;
    let key = Key {
        id: KeyId(row.try_get("id")?),
        scope: scope(row)?,
        state: state(row)?,
        daily_limit: number(row, "daily_limit")?,
        resumes: row.try_get::<i64, _>("resumes")?.try_into().unwrap_or(u32::MAX),
    };
    let old = match old {
        Some(text) => Some((hash(&text, "old_hash")?, row.try_get("old_ends_ms")?)),
        None => None,
    };
    Ok(KnownKey { key, hash: hash(&row.try_get::<String, _>("hash")?, "hash")?, old })
}

/// Logs a change of a key under a number that the transaction has taken before it locked the key.
pub(super) async fn log_change(
    connection: &mut AnyConnection,
    key_id: i64,
    seq: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO key_changes (seq, key_id) VALUES ($1, $2)")
        .bind(seq)
        .bind(key_id)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM key_changes WHERE seq <= $1")
        .bind(seq - CHANGES_KEPT)
        .execute(&mut *connection)
        .await?;
    announce(connection).await
}
