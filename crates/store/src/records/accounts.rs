//! Accounts: who they are, and what signing in to one takes.

use super::keys::delete_key;
use super::{Email, Records, Turn, flag, number};
use crate::Error;
use ipse_model::{Now, SecretHash};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, Row};

/// The number of an account. It is never given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub i64);

/// An account, as commands list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The address that names it.
    pub email: String,
    /// When it was made.
    pub created_ms: i64,
    /// How many keys it holds.
    pub keys: u32,
}

/// What signing in is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The account.
    pub id: AccountId,
    /// The address that names it.
    pub email: String,
    /// The password's hash, as its hasher wrote it; none until the owner has chosen one.
    pub password: Option<String>,
    /// The secret of the second factor, if there is one.
    pub totp_secret: Option<String>,
    /// The last step of time whose code was used.
    pub totp_step: i64,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What an owner sees of the own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The account.
    pub id: AccountId,
    /// The address that names it.
    pub email: String,
    /// When it was made.
    pub created_ms: i64,
    /// Since when mail to the address is known to arrive.
    pub verified_ms: Option<i64>,
    /// Whether it can be signed in to.
    pub has_password: bool,
    /// Whether signing in takes a second factor.
    pub has_totp: bool,
    /// Recovery codes that were not used yet.
    pub recovery_codes_left: u32,
    /// Whether mail shall tell of a pause.
    pub mail_pause: bool,
    /// Whether mail shall tell of the day's quota.
    pub mail_quota: bool,
}

impl Records {
    /// Makes an account. `false` if there is one already.
    pub async fn create_account(&self, email: &Email, now: Now) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let (_, made) = ensure_account(&mut tx, email, now).await?;
            tx.commit().await?;
            Ok(made)
        };
        self.within(work).await
    }

    /// All accounts by address.
    pub async fn accounts(&self) -> Result<Vec<Account>, Error> {
        let account = |row: &AnyRow| {
            Ok(Account {
                email: row.try_get(0)?,
                created_ms: row.try_get(1)?,
                keys: row.try_get::<i64, _>(2)?.try_into().unwrap_or(u32::MAX),
            })
        };
        let read = async {
            let rows = sqlx::query(
                "SELECT a.email, a.created_ms, (SELECT COUNT(*) FROM keys k WHERE k.account_id = a.id) FROM accounts a",
            );
            rows.fetch_all(&self.readers).await?.iter().map(account).collect()
        };
        let mut accounts: Vec<Account> = self.within(read).await?;
        // Engines have orders of their own for texts.
        accounts.sort_unstable_by(|one, other| one.email.cmp(&other.email));
        Ok(accounts)
    }

    /// Deletes the account of an address with everything that belongs to it. `false` if there is none.
    pub async fn delete_account(&self, email: &Email) -> Result<bool, Error> {
        let find = sqlx::query("SELECT id, email FROM accounts WHERE email = $1").bind(email.as_str());
        self.delete_found(find).await
    }

    /// Makes an account that can be signed in to. `None` if there is one of that name already.
    pub async fn sign_up(
        &self,
        email: &Email,
        password: &str,
        verified: bool,
        now: Now,
    ) -> Result<Option<AccountId>, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let (id, made) = ensure_account(&mut tx, email, now).await?;
            if !made {
                return Ok(None);
            }
            sqlx::query("UPDATE accounts SET password = $2, verified_ms = $3 WHERE id = $1")
                .bind(id)
                .bind(password)
                .bind(verified.then_some(now.unix_ms))
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(Some(AccountId(id)))
        };
        self.within(work).await
    }

    /// What signing in to the account of this address is checked against.
    pub async fn login(&self, email: &Email) -> Result<Option<Login>, Error> {
        // There is one row whoever is asked about, so that it takes as long to find nobody.
        self.within(async {
            let row = sqlx::query(concat!(
                "SELECT ",
                login_columns!(),
                " FROM (SELECT 1 AS one) AS always LEFT JOIN accounts ON email = $1"
            ))
            .bind(email.as_str())
            .fetch_one(&self.readers)
            .await?;
            match row.try_get::<Option<i64>, _>("id")? {
                Some(_) => login(&row).map(Some),
                None => Ok(None),
            }
        })
        .await
    }

    /// The same of an account whose number is known.
    pub async fn login_of(&self, id: AccountId) -> Result<Option<Login>, Error> {
        self.within(async {
            sqlx::query(concat!("SELECT ", login_columns!(), " FROM accounts WHERE id = $1"))
                .bind(id.0)
                .fetch_optional(&self.readers)
                .await
                .and_then(|row| row.as_ref().map(login).transpose())
        })
        .await
    }

    /// What the owner of an account sees of it.
    pub async fn profile(&self, id: AccountId) -> Result<Option<Profile>, Error> {
        self.within(async {
            sqlx::query(
                "SELECT id, email, created_ms, verified_ms, mail_pause, mail_quota, \
             CASE WHEN password IS NULL THEN 0 ELSE 1 END AS has_password, \
             CASE WHEN totp_secret IS NULL THEN 0 ELSE 1 END AS has_totp, \
             (SELECT COUNT(*) FROM recovery_codes r WHERE r.account_id = accounts.id) AS recovery_codes_left \
             FROM accounts WHERE id = $1",
            )
            .bind(id.0)
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map(profile).transpose())
        })
        .await
    }

    /// Gives an account another password. Whoever is signed in is no more, but for the session to `keep`, and no open
    /// link of the account is good any longer.
    pub async fn set_password(
        &self,
        id: AccountId,
        password: &str,
        keep: Option<&SecretHash>,
        now: Now,
    ) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            Turn::Session.wait(&mut tx).await?;
            Turn::Token.wait(&mut tx).await?;
            sqlx::query("UPDATE accounts SET password = $2 WHERE id = $1")
                .bind(id.0)
                .bind(password)
                .execute(&mut *tx)
                .await?;
            end_links(&mut tx, id, now).await?;
            super::sessions::end_sessions(&mut tx, id, keep).await?;
            tx.commit().await
        };
        self.within(work).await
    }

    /// Gives an account another address. No open link of the account, which went to the address before, is good any
    /// longer. `false` if the address names another account, or the account is no more.
    pub async fn set_email(
        &self,
        id: AccountId,
        email: &Email,
        verified: bool,
        now: Now,
    ) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            Turn::Token.wait(&mut tx).await?;
            let set = sqlx::query("UPDATE accounts SET email = $2, verified_ms = $3 WHERE id = $1")
                .bind(id.0)
                .bind(email.as_str())
                .bind(verified.then_some(now.unix_ms))
                .execute(&mut *tx)
                .await;
            let set = match set {
                Ok(set) => set.rows_affected() > 0,
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Ok(false),
                Err(error) => return Err(error),
            };
            end_links(&mut tx, id, now).await?;
            tx.commit().await?;
            Ok(set)
        };
        self.within(work).await
    }

    /// Chooses what mail shall tell of.
    pub async fn set_notices(&self, id: AccountId, mail_pause: bool, mail_quota: bool) -> Result<(), Error> {
        let sql = sqlx::query("UPDATE accounts SET mail_pause = $2, mail_quota = $3 WHERE id = $1");
        self.write(sql.bind(id.0).bind(i32::from(mail_pause)).bind(i32::from(mail_quota))).await.map(drop)
    }

    /// Deletes an account with everything that belongs to it. `false` if it is no more.
    pub async fn delete_account_of(&self, id: AccountId) -> Result<bool, Error> {
        let find = sqlx::query("SELECT id, email FROM accounts WHERE id = $1").bind(id.0);
        self.delete_found(find).await
    }

    async fn delete_found(&self, find: Query<'_, Any, AnyArguments>) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            // Nobody begins a session, makes a key or a link, or changes a key meanwhile: what is found below is all.
            for turn in [Turn::Session, Turn::Key, Turn::Token, Turn::KeyChange] {
                turn.wait(&mut tx).await?;
            }
            let Some(account) = find.fetch_optional(&mut *tx).await? else { return Ok(false) };
            let id: i64 = account.try_get("id")?;
            let keys = sqlx::query("SELECT id FROM keys WHERE account_id = $1 ORDER BY id").bind(id);
            for key in keys.fetch_all(&mut *tx).await? {
                let seq = Turn::KeyChange.next(&mut tx).await?;
                delete_key(&mut tx, key.try_get(0)?, seq).await?;
            }
            // A sign-up that was begun with the address belongs to no account yet.
            sqlx::query("DELETE FROM tokens WHERE account_id IS NULL AND email = $1")
                .bind(account.try_get::<String, _>("email")?)
                .execute(&mut *tx)
                .await?;
            sqlx::query("DELETE FROM accounts WHERE id = $1").bind(id).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(true)
        };
        self.within(work).await
    }
}

/// The columns that [`login`] reads.
macro_rules! login_columns {
    () => {
        "id, email, password, totp_secret, totp_step"
    };
}
use login_columns;

fn login(row: &AnyRow) -> Result<Login, sqlx::Error> {
    Ok(Login {
        id: AccountId(row.try_get("id")?),
        email: row.try_get("email")?,
        password: row.try_get("password")?,
        totp_secret: row.try_get("totp_secret")?,
        totp_step: row.try_get("totp_step")?,
    })
}

fn profile(row: &AnyRow) -> Result<Profile, sqlx::Error> {
    Ok(Profile {
        id: AccountId(row.try_get("id")?),
        email: row.try_get("email")?,
        created_ms: row.try_get("created_ms")?,
        verified_ms: row.try_get("verified_ms")?,
        has_password: flag(row, "has_password")?,
        has_totp: flag(row, "has_totp")?,
        recovery_codes_left: number(row, "recovery_codes_left")?,
        mail_pause: flag(row, "mail_pause")?,
        mail_quota: flag(row, "mail_quota")?,
    })
}

/// The account's number, and whether it was made just now.
pub(super) async fn ensure_account(
    connection: &mut AnyConnection,
    email: &Email,
    now: Now,
) -> Result<(i64, bool), sqlx::Error> {
    let id = Turn::Account.next(connection).await?;
    let made = sqlx::query(
        "INSERT INTO accounts (id, email, created_ms) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(email.as_str().to_owned())
    .bind(now.unix_ms)
    .execute(&mut *connection)
    .await?
    .rows_affected()
        > 0;
    if made {
        return Ok((id, true));
    }
    let row = sqlx::query("SELECT id FROM accounts WHERE email = $1")
        .bind(email.as_str().to_owned())
        .fetch_one(connection)
        .await?;
    Ok((row.try_get(0)?, false))
}

/// Locks an account, so that nobody changes or deletes it before the transaction ends. `false` if it is no more. It is an
/// update and no question, because that is how both engines lock a row.
pub(super) async fn lock_account(connection: &mut AnyConnection, id: AccountId) -> Result<bool, sqlx::Error> {
    let sql = sqlx::query("UPDATE accounts SET totp_step = totp_step WHERE id = $1");
    Ok(sql.bind(id.0).execute(connection).await?.rows_affected() > 0)
}

/// Ends the open links of one account, and forgets those of anybody that have ended.
async fn end_links(connection: &mut AnyConnection, id: AccountId, now: Now) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM tokens WHERE account_id = $1 OR ends_ms <= $2")
        .bind(id.0)
        .bind(now.unix_ms)
        .execute(connection)
        .await?;
    Ok(())
}
