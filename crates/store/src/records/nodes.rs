//! The servers that work on these records, as each says of itself. No address stands here.

use super::Records;
use crate::Error;
use ipse_model::Now;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, Row};

/// A node that was not seen for so long is no more.
const GONE_AFTER_MS: i64 = 86_400_000;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Drawn anew with each start.
    pub id: String,
    /// What its operator calls it.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// When it started.
    pub started_ms: i64,
    /// When it last said that it is there.
    pub seen_ms: i64,
}

impl Records {
    /// Notes that a node is there. Its `seen_ms` becomes the given moment.
    pub async fn seen(&self, node: &Node, now: Now) -> Result<(), Error> {
        let sql = sqlx::query(
            "INSERT INTO nodes (id, name, version, started_ms, seen_ms) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, seen_ms = excluded.seen_ms",
        );
        let sql = sql.bind(node.id.as_str()).bind(node.name.as_str()).bind(node.version.as_str());
        self.write(sql.bind(node.started_ms).bind(now.unix_ms)).await.map(drop)
    }

    /// Forgets a node that stops.
    pub async fn left(&self, id: &str) -> Result<(), Error> {
        self.write(sqlx::query("DELETE FROM nodes WHERE id = $1").bind(id)).await.map(drop)
    }

    /// The nodes that were seen within a day, the one that started first comes first.
    pub async fn nodes(&self, now: Now) -> Result<Vec<Node>, Error> {
        let read = async {
            let rows = sqlx::query(
                "SELECT id, name, version, started_ms, seen_ms FROM nodes WHERE seen_ms > $1 ORDER BY started_ms",
            );
            let rows = rows.bind(now.unix_ms - GONE_AFTER_MS).fetch_all(&self.readers).await?;
            rows.iter().map(node).collect()
        };
        self.within(read).await
    }
}

/// Forgets nodes that went without a word.
pub(super) fn gone(now: Now) -> Query<'static, Any, AnyArguments> {
    sqlx::query("DELETE FROM nodes WHERE seen_ms <= $1").bind(now.unix_ms - GONE_AFTER_MS)
}

fn node(row: &AnyRow) -> Result<Node, sqlx::Error> {
    Ok(Node {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        started_ms: row.try_get("started_ms")?,
        seen_ms: row.try_get("seen_ms")?,
    })
}
