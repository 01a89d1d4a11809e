//! Keys, as their owners see and change them. A key of somebody else is as one that does not exist.

use super::keys::{insert, is_owners, key_record, record_columns, record_tables};
use super::{AccountId, Created, KeyRecord, Records, Turn, number, unreadable};
use crate::Error;
use ipse_model::{DAILY_LIMIT, Day, KeyId, KeyState, KeyText, Now, Scope};
use sqlx::Row;
use sqlx::any::AnyRow;

/// A key with everything that its page tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedKey {
    /// The key.
    pub record: KeyRecord,
    /// The last day on which it was charged.
    pub last_used: Option<Day>,
    /// Of a key that went over the burst limit: its requests in each of the sixty seconds that ended with its pause, the
    /// one that was too many among the last. None of a key that is not paused, or was by hand.
    pub pause_minute: Option<Vec<u32>>,
    /// The text it had before. It may have ended already.
    pub old_text: Option<OldText>,
}

/// A text that works until it ends, though the key was rolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldText {
    /// Its end, by which the owner recognises it.
    pub last_four: String,
    /// The moment from which it is invalid.
    pub ends_ms: i64,
}

impl Records {
    /// Makes a key with the free tier's limit.
    pub async fn create_key_of(
        &self,
        account: AccountId,
        name: &str,
        scope: Scope,
        now: Now,
    ) -> Result<Created, Error> {
        let text = KeyText::from_random(getrandom::fill).map_err(Error::Random)?;
        let work = async {
            let mut tx = self.writer.begin().await?;
            let id = Turn::Key.next(&mut tx).await?;
            let owner = sqlx::query("SELECT email FROM accounts WHERE id = $1").bind(account.0);
            let record = KeyRecord {
                id: KeyId(id),
                account: owner.fetch_one(&mut *tx).await?.try_get("email")?,
                name: name.to_owned(),
                scope,
                state: KeyState::Active,
                last_four: text.last_four().to_owned(),
                created_ms: now.unix_ms,
                daily_limit: DAILY_LIMIT,
                paused_ms: None,
            };
            if !insert(&mut tx, account, &text, &record).await? {
                return Ok(Created::AccountIsFull);
            }
            tx.commit().await?;
            Ok(Created::Key { text, record })
        };
        self.within(work).await
    }

    /// All keys of an account, the oldest first.
    pub async fn keys_of(&self, account: AccountId) -> Result<Vec<OwnedKey>, Error> {
        self.within(async {
            sqlx::query(concat!("SELECT ", owned_columns!(), " WHERE k.account_id = $1 ORDER BY k.id"))
                .bind(account.0)
                .fetch_all(&self.readers)
                .await
                .and_then(|rows| rows.iter().map(owned_key).collect())
        })
        .await
    }

    /// One key of an account.
    pub async fn key_of(&self, account: AccountId, id: KeyId) -> Result<Option<OwnedKey>, Error> {
        self.owned(Some(account), id).await
    }

    /// One key of anybody, with everything that its owner sees. For the operator.
    pub async fn key_as_owned(&self, id: KeyId) -> Result<Option<OwnedKey>, Error> {
        self.owned(None, id).await
    }

    /// Gives a key of an account another name.
    pub async fn rename(&self, account: AccountId, id: KeyId, name: &str) -> Result<bool, Error> {
        let sql = sqlx::query(concat!("UPDATE keys SET name = $3 WHERE ", is_owners!()));
        Ok(self.write(sql.bind(id.0).bind(Some(account.0)).bind(name)).await? > 0)
    }

    /// Changes the scope of a key of an account. `false` if it had it already.
    pub async fn set_scope_of(&self, account: AccountId, id: KeyId, scope: Scope) -> Result<bool, Error> {
        self.widen_or_narrow(Some(account), id, scope).await
    }

    /// Switches a key of an account on or off. `false` if it was so already.
    pub async fn set_active_of(&self, account: AccountId, id: KeyId, active: bool) -> Result<bool, Error> {
        self.switch(Some(account), id, active).await
    }

    /// Resumes a paused key of an account with a fresh minute. `false` if it was not paused.
    pub async fn resume_of(&self, account: AccountId, id: KeyId) -> Result<bool, Error> {
        self.go_on(Some(account), id).await
    }

    /// Gives a key of an account another text; the one before works for `keep_ms` more, or is invalid at once if that is 0.
    /// A text that is even older is invalid at once in any case.
    pub async fn roll_of(
        &self,
        account: AccountId,
        id: KeyId,
        keep_ms: i64,
        now: Now,
    ) -> Result<Option<KeyText>, Error> {
        self.replace_text(Some(account), id, keep_ms, now).await
    }

    /// Deletes a key of an account with its usage.
    pub async fn delete_key_of(&self, account: AccountId, id: KeyId) -> Result<bool, Error> {
        self.delete(Some(account), id).await
    }

    async fn owned(&self, owner: Option<AccountId>, id: KeyId) -> Result<Option<OwnedKey>, Error> {
        self.within(async {
            sqlx::query(concat!(
                "SELECT ",
                owned_columns!(),
                " WHERE k.id = $1 AND k.account_id = COALESCE($2, k.account_id)"
            ))
            .bind(id.0)
            .bind(owner.map(|account| account.0))
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map(owned_key).transpose())
        })
        .await
    }
}

/// The columns and tables that [`owned_key`] reads.
macro_rules! owned_columns {
    () => {
        concat!(
            record_columns!(),
            ", k.pause_minute, o.last_four AS old_last_four, o.ends_ms AS old_ends_ms, \
             (SELECT MAX(u.day) FROM usage u WHERE u.subject = k.id) AS last_used",
            record_tables!(),
            " LEFT JOIN old_texts o ON o.key_id = k.id"
        )
    };
}
use owned_columns;

fn owned_key(row: &AnyRow) -> Result<OwnedKey, sqlx::Error> {
    let record = key_record(row)?;
    let last_used = match row.try_get::<Option<i64>, _>("last_used")? {
        Some(_) => Some(Day(number(row, "last_used")?)),
        None => None,
    };
    // What a program of the version before leaves when it resumes a key is of no pause.
    let minute: Option<String> = row.try_get("pause_minute")?;
    let minute = minute.filter(|_| record.paused_ms.is_some());
    let counts = minute.map(|text| text.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>());
    let old_last_four: Option<String> = row.try_get("old_last_four")?;
    let old_text = match old_last_four {
        Some(last_four) => Some(OldText { last_four, ends_ms: row.try_get("old_ends_ms")? }),
        None => None,
    };
    Ok(OwnedKey {
        record,
        last_used,
        pause_minute: counts.transpose().map_err(|_| unreadable("pause_minute"))?,
        old_text,
    })
}
