//! Who is signed in, and where. How long a session lasts is the caller's to say, each time that it asks.

use super::{AccountId, Records, Turn, flag};
use crate::Error;
use ipse_model::{Now, SecretHash};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

/// A browser that is signed in, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, by which the owner may end it.
    pub id: i64,
    /// Whose it is.
    pub account: AccountId,
    /// What the browser said of itself, in words.
    pub device: String,
    /// When it was begun.
    pub created_ms: i64,
    /// When it was last seen.
    pub seen_ms: i64,
    /// Whether the password was right and the second factor is still to come.
    pub second_factor_due: bool,
}

/// What somebody has shown to know of an account when they were let in: what its records held at that moment.
#[derive(Clone, Copy)]
pub struct Proof<'a> {
    /// Whose it is.
    pub account: AccountId,
    /// The hash that the password was held against.
    pub password: Option<&'a str>,
    /// The secret that a code was held against, or is still to be.
    pub totp_secret: Option<&'a str>,
}

/// As many sessions an account has at most; the oldest gives way.
const MOST: i64 = 50;

impl Records {
    /// Begins a session, known by its hash from now on. `false` if the account's password or second factor is not the one
    /// any more by which it was to begin: checking them takes a while, and they may have been changed meanwhile.
    pub async fn begin_session(
        &self,
        proof: &Proof<'_>,
        hash: &SecretHash,
        device: &str,
        second_factor_due: bool,
        now: Now,
    ) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let id = Turn::Session.next(&mut tx).await?;
            // An update and no question, so that whoever changes the account waits for us, or we for them.
            let same = sqlx::query(
                "UPDATE accounts SET totp_step = totp_step \
                 WHERE id = $1 AND COALESCE(password, '') = $2 AND COALESCE(totp_secret, '') = $3",
            )
            .bind(proof.account.0)
            .bind(proof.password.unwrap_or_default())
            .bind(proof.totp_secret.unwrap_or_default())
            .execute(&mut *tx)
            .await?;
            if same.rows_affected() == 0 {
                return Ok(false);
            }
            sqlx::query(
                "INSERT INTO sessions (id, hash, account_id, device, created_ms, seen_ms, second_factor_due) \
                 VALUES ($1, $2, $3, $4, $5, $5, $6)",
            )
            .bind(id)
            .bind(hash.to_hex())
            .bind(proof.account.0)
            .bind(device)
            .bind(now.unix_ms)
            .bind(i32::from(second_factor_due))
            .execute(&mut *tx)
            .await?;
            sqlx::query(
                "DELETE FROM sessions WHERE account_id = $1 AND id <= \
                 (SELECT id FROM sessions WHERE account_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
            )
            .bind(proof.account.0)
            .bind(MOST)
            .execute(&mut *tx)
            .await?;
            tx.commit().await?;
            Ok(true)
        };
        self.within(work).await
    }

    /// The session with this hash, if it was seen and begun after these moments.
    pub async fn session(
        &self,
        hash: &SecretHash,
        seen_after_ms: i64,
        created_after_ms: i64,
    ) -> Result<Option<Session>, Error> {
        self.within(async {
            sqlx::query(concat!(
                "SELECT ",
                session_columns!(),
                " FROM sessions WHERE hash = $1 AND seen_ms > $2 AND created_ms > $3"
            ))
            .bind(hash.to_hex())
            .bind(seen_after_ms)
            .bind(created_after_ms)
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map(session).transpose())
        })
        .await
    }

    /// Notes that a session was seen.
    pub async fn touch_session(&self, id: i64, now: Now) -> Result<(), Error> {
        // A clock that was set back must not shorten anybody's day.
        let sql = sqlx::query("UPDATE sessions SET seen_ms = $2 WHERE id = $1 AND seen_ms < $2");
        self.write(sql.bind(id).bind(now.unix_ms)).await.map(drop)
    }

    /// The sessions of an account that were seen and begun after these moments; the one seen last comes first. Whoever still
    /// owes the second factor is not signed in.
    pub async fn sessions(
        &self,
        account: AccountId,
        seen_after_ms: i64,
        created_after_ms: i64,
    ) -> Result<Vec<Session>, Error> {
        self.within(async { sqlx::query(concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE account_id = $1 AND seen_ms > $2 AND created_ms > $3 AND second_factor_due = 0 \
             ORDER BY seen_ms DESC, id DESC"
        ))
        .bind(account.0)
        .bind(seen_after_ms)
        .bind(created_after_ms)
        .fetch_all(&self.readers)
        .await
        .and_then(|rows| rows.iter().map(session).collect()) }).await
    }

    /// Ends one session of an account. `false` if it has none of that number.
    pub async fn end_session(&self, account: AccountId, id: i64) -> Result<bool, Error> {
        let sql = sqlx::query("DELETE FROM sessions WHERE account_id = $1 AND id = $2");
        Ok(self.write(sql.bind(account.0).bind(id)).await? > 0)
    }

    /// Ends the session with this hash, if there is one.
    pub async fn end_session_by(&self, hash: &SecretHash) -> Result<(), Error> {
        let sql = sqlx::query("DELETE FROM sessions WHERE hash = $1");
        self.write(sql.bind(hash.to_hex())).await.map(drop)
    }

    /// Ends all sessions of an account but the one to `keep`, and says how many they were.
    pub async fn end_sessions(&self, account: AccountId, keep: Option<&SecretHash>) -> Result<u64, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            Turn::Session.wait(&mut tx).await?;
            let ended = end_sessions(&mut tx, account, keep).await?;
            tx.commit().await?;
            Ok(ended)
        };
        self.within(work).await
    }
}

pub(super) async fn end_sessions(
    connection: &mut AnyConnection,
    account: AccountId,
    keep: Option<&SecretHash>,
) -> Result<u64, sqlx::Error> {
    // No hash is the empty text.
    let ended = sqlx::query("DELETE FROM sessions WHERE account_id = $1 AND hash <> $2")
        .bind(account.0)
        .bind(keep.map(|hash| hash.to_hex()).unwrap_or_default())
        .execute(connection)
        .await?;
    Ok(ended.rows_affected())
}

/// The columns that [`session`] reads.
macro_rules! session_columns {
    () => {
        "id, account_id, device, created_ms, seen_ms, second_factor_due"
    };
}
use session_columns;

fn session(row: &AnyRow) -> Result<Session, sqlx::Error> {
    Ok(Session {
        id: row.try_get("id")?,
        account: AccountId(row.try_get("account_id")?),
        device: row.try_get("device")?,
        created_ms: row.try_get("created_ms")?,
        seen_ms: row.try_get("seen_ms")?,
        second_factor_due: flag(row, "second_factor_due")?,
    })
}
