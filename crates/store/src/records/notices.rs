//! What owners are to be told, each thing once.

use super::{Records, Turn, flag, number};
use crate::Error;
use ipse_model::{Day, KeyId, Now};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, Row};

/// A pause of long ago is no news, whenever somebody begins to tell of pauses.
const NEWS_FOR_MS: i64 = 86_400_000;

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The key is paused.
    Paused,
    /// Four fifths of the day's quota are used.
    EightyPercent,
    /// The day's quota is used up.
    UsedUp,
}

impl NoticeKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::EightyPercent => "eighty_percent",
            Self::UsedUp => "used_up",
        }
    }
}

/// One thing to tell one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What.
    pub kind: NoticeKind,
    /// Of which key.
    pub key: KeyId,
    /// What its owner calls it.
    pub key_name: String,
    /// The end of its text.
    pub last_four: String,
    /// Whom to tell.
    pub email: String,
    /// The key's answers per day.
    pub daily_limit: u32,
    /// How many of them are used today.
    pub used: u32,
    /// Since when the key is paused, if it is.
    pub paused_ms: Option<i64>,
}

impl Records {
    /// What was told of a key: the kind, and of a pause its moment, of a quota the day.
    pub async fn notices_told(&self, key: KeyId) -> Result<Vec<(String, i64)>, Error> {
        self.within(async {
            sqlx::query("SELECT kind, occasion FROM notices WHERE key_id = $1 ORDER BY occasion, kind")
                .bind(key.0)
                .fetch_all(&self.readers)
                .await
                .and_then(|rows| rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect())
        })
        .await
    }
}

/// Something that may have to be told.
struct Candidate {
    notice: Notice,
    /// Of a pause its moment, of a quota the day.
    occasion: i64,
    /// Whether the owner wants to be told.
    wanted: bool,
}

impl Records {
    /// What has to be told now and was not yet. Whatever is returned counts as told, so each thing is returned once, to
    /// one of however many ask; and so does what an owner does not want to be told.
    pub async fn due_notices(&self, now: Now) -> Result<Vec<Notice>, Error> {
        let today = now.day();
        let found = async {
            let mut found = self.paused_untold(now).await?;
            found.extend(self.quotas_untold(today).await?);
            Ok(found)
        };
        let candidates: Vec<Candidate> = self.within(found).await?;
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let work = async {
            let mut tx = self.writer.begin().await?;
            // No key is deleted meanwhile, and nobody else claims.
            Turn::KeyChange.wait(&mut tx).await?;
            let mut due = Vec::new();
            for Candidate { notice, occasion, wanted } in candidates {
                if notice.kind == NoticeKind::UsedUp {
                    // Who hears that all is used need not hear that most of it is.
                    claim(&mut tx, notice.key, NoticeKind::EightyPercent, occasion).await?;
                }
                if claim(&mut tx, notice.key, notice.kind, occasion).await? && wanted {
                    due.push(notice);
                }
            }
            tx.commit().await?;
            Ok(due)
        };
        self.within(work).await
    }

    async fn paused_untold(&self, now: Now) -> Result<Vec<Candidate>, sqlx::Error> {
        let rows = sqlx::query(concat!(
            "SELECT ",
            notice_columns!(),
            ", a.mail_pause AS wanted FROM keys k JOIN accounts a ON a.id = k.account_id \
             LEFT JOIN usage u ON u.subject = k.id AND u.day = $2 WHERE k.paused_ms > $1 AND NOT EXISTS \
             (SELECT 1 FROM notices n WHERE n.key_id = k.id AND n.kind = 'paused' AND n.occasion = k.paused_ms)"
        ))
        .bind(now.unix_ms - NEWS_FOR_MS)
        .bind(i64::from(now.day().0))
        .fetch_all(&self.readers)
        .await?;
        let candidate = |row: &AnyRow| {
            let occasion = row.try_get("paused_ms")?;
            Ok(Candidate { notice: notice(row, NoticeKind::Paused)?, occasion, wanted: flag(row, "wanted")? })
        };
        rows.iter().map(candidate).collect()
    }

    async fn quotas_untold(&self, today: Day) -> Result<Vec<Candidate>, sqlx::Error> {
        let rows = sqlx::query(concat!(
            "SELECT ",
            notice_columns!(),
            ", a.mail_quota AS wanted FROM usage u JOIN keys k ON k.id = u.subject \
             JOIN accounts a ON a.id = k.account_id \
             WHERE u.day = $1 AND u.used * 5 >= k.daily_limit * 4 AND NOT EXISTS \
             (SELECT 1 FROM notices n WHERE n.key_id = k.id AND n.occasion = $1 AND n.kind = \
             CASE WHEN u.used >= k.daily_limit THEN 'used_up' ELSE 'eighty_percent' END)"
        ))
        .bind(i64::from(today.0))
        .fetch_all(&self.readers)
        .await?;
        let candidate = |row: &AnyRow| {
            let mut notice = notice(row, NoticeKind::EightyPercent)?;
            if notice.used >= notice.daily_limit {
                notice.kind = NoticeKind::UsedUp;
            }
            Ok(Candidate { notice, occasion: i64::from(today.0), wanted: flag(row, "wanted")? })
        };
        rows.iter().map(candidate).collect()
    }
}

/// The columns that [`notice`] reads.
macro_rules! notice_columns {
    () => {
        "k.id, k.name, k.last_four, a.email, k.daily_limit, k.paused_ms, COALESCE(u.used, 0) AS used"
    };
}
use notice_columns;

fn notice(row: &AnyRow, kind: NoticeKind) -> Result<Notice, sqlx::Error> {
    Ok(Notice {
        kind,
        key: KeyId(row.try_get("id")?),
        key_name: row.try_get("name")?,
        last_four: row.try_get("last_four")?,
        email: row.try_get("email")?,
        daily_limit: number(row, "daily_limit")?,
        used: number(row, "used")?,
        paused_ms: row.try_get("paused_ms")?,
    })
}

/// Says whether nobody has told this before. A key that was deleted meanwhile has nothing to be told of.
async fn claim(
    connection: &mut AnyConnection,
    key: KeyId,
    kind: NoticeKind,
    occasion: i64,
) -> Result<bool, sqlx::Error> {
    let claimed = sqlx::query(
        "INSERT INTO notices (key_id, kind, occasion) SELECT id, $2, $3 FROM keys WHERE id = $1 \
         ON CONFLICT DO NOTHING",
    )
    .bind(key.0)
    .bind(kind.as_str())
    .bind(occasion)
    .execute(connection)
    .await?;
    Ok(claimed.rows_affected() > 0)
}

/// Forgets what cannot be due again.
pub(super) fn past(now: Now) -> Query<'static, Any, AnyArguments> {
    sqlx::query(
        "DELETE FROM notices WHERE (kind = 'paused' AND occasion <= $1) OR (kind <> 'paused' AND occasion < $2)",
    )
    .bind(now.unix_ms - 2 * NEWS_FOR_MS)
    .bind(i64::from(now.day().0) - 2)
}
