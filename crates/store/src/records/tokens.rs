//! One-time links: what they stand for, and until when. Each is good once.

use super::{AccountId, Email, Records, Turn, unreadable};
use crate::Error;
use ipse_model::{Now, Secret, SecretHash};
use sqlx::Row;
use sqlx::any::AnyRow;

/// As many links of one purpose may be open for one account or address: whoever asks for more waits for a mail that is
/// on its way, and the oldest ends.
const OPEN_AT_ONCE: i64 = 5;

/// A secret that nobody can guess, for a link or a session.
pub fn random_secret() -> Result<Secret, Error> {
    Secret::from_random(getrandom::fill).map_err(Error::Random)
}

/// What a link does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPurpose {
    /// Finishes a sign-up.
    SignUp,
    /// Lets the owner choose another password.
    Reset,
    /// Finishes a change of address.
    Email,
}

impl TokenPurpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::SignUp => "sign_up",
            Self::Reset => "reset",
            Self::Email => "email",
        }
    }
}

/// How long the number of a form that was carried out is remembered.
const FORM_LIFETIME_MS: i64 = 86_400_000;

/// A link to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewToken<'a> {
    /// What it is known by.
    pub hash: &'a SecretHash,
    /// What it does.
    pub purpose: TokenPurpose,
    /// The account that it is about, if there is one already.
    pub account: Option<AccountId>,
    /// The address that it is about.
    pub email: Option<&'a Email>,
    /// The hash of the password that a sign-up began with.
    pub password: Option<&'a str>,
    /// When it ends.
    pub ends_ms: i64,
}

/// A link that is good.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The account that it is about, if there was one already.
    pub account: Option<AccountId>,
    /// The address that it is about.
    pub email: Option<Email>,
    /// The hash of the password that a sign-up began with.
    pub password: Option<String>,
    /// When it ends.
    pub ends_ms: i64,
}

impl Token {
    /// How long a link is good, in milliseconds.
    pub const LIFETIME_MS: i64 = 20 * 60_000;
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Records {
    /// Makes a link, and forgets those that have ended.
    pub async fn make_token(&self, token: &NewToken<'_>, now: Now) -> Result<(), Error> {
        let email = token.email.map(Email::as_str);
        let account = token.account.map(|account| account.0);
        let work = async {
            let mut tx = self.writer.begin().await?;
            Turn::Token.wait(&mut tx).await?;
            sqlx::query("DELETE FROM tokens WHERE ends_ms <= $1").bind(now.unix_ms).execute(&mut *tx).await?;
            // Only those without an account are told apart by their address: an account's change of address names
            // somebody else's perhaps.
            sqlx::query(
                "DELETE FROM tokens WHERE hash IN (SELECT hash FROM tokens WHERE purpose = $1 \
                 AND (account_id = $2 OR (account_id IS NULL AND $2 IS NULL AND email = $3)) \
                 ORDER BY ends_ms DESC, hash LIMIT 1000 OFFSET $4)",
            )
            .bind(token.purpose.as_str())
            .bind(account)
            .bind(email)
            .bind(OPEN_AT_ONCE - 1)
            .execute(&mut *tx)
            .await?;
            sqlx::query(
                "INSERT INTO tokens (hash, purpose, account_id, email, password, ends_ms) \
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(token.hash.to_hex())
            .bind(token.purpose.as_str())
            .bind(account)
            .bind(email)
            .bind(token.password)
            .bind(token.ends_ms)
            .execute(&mut *tx)
            .await?;
            tx.commit().await
        };
        self.within(work).await
    }

    /// Claims the number of a form that is to be carried out once. `false` if that was done before, as by somebody who loads
    /// the page anew that came of it.
    pub async fn claim_form(&self, hash: &SecretHash, account: AccountId, now: Now) -> Result<bool, Error> {
        let sql = sqlx::query(
            "INSERT INTO tokens (hash, purpose, account_id, ends_ms) VALUES ($1, 'form', $2, $3) \
             ON CONFLICT (hash) DO NOTHING",
        );
        let ends_ms = now.unix_ms + FORM_LIFETIME_MS;
        Ok(self.write(sql.bind(hash.to_hex()).bind(account.0).bind(ends_ms)).await? > 0)
    }

    /// The address that an account is to have when its link is opened, if it asked for another.
    pub async fn pending_email(&self, account: AccountId, now: Now) -> Result<Option<String>, Error> {
        self.within(async {
            sqlx::query(
                "SELECT email FROM tokens WHERE account_id = $1 AND purpose = 'email' AND ends_ms > $2 \
             ORDER BY ends_ms DESC LIMIT 1",
            )
            .bind(account.0)
            .bind(now.unix_ms)
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.map_or(Ok(None), |row| row.try_get(0)))
        })
        .await
    }

    /// The link with this hash, if it is of that purpose and has not ended. It stays good.
    pub async fn peek_token(
        &self,
        hash: &SecretHash,
        purpose: TokenPurpose,
        now: Now,
    ) -> Result<Option<Token>, Error> {
        self.within(async {
            sqlx::query(
                "SELECT account_id, email, password, ends_ms FROM tokens \
             WHERE hash = $1 AND purpose = $2 AND ends_ms > $3",
            )
            .bind(hash.to_hex())
            .bind(purpose.as_str())
            .bind(now.unix_ms)
            .fetch_optional(&self.readers)
            .await
            .and_then(|row| row.as_ref().map(token).transpose())
        })
        .await
    }

    /// Uses the link with this hash, if it is of that purpose and has not ended. Of any number who try at once, one does.
    pub async fn take_token(
        &self,
        hash: &SecretHash,
        purpose: TokenPurpose,
        now: Now,
    ) -> Result<Option<Token>, Error> {
        self.within(async {
            sqlx::query(
                "DELETE FROM tokens WHERE hash = $1 AND purpose = $2 AND ends_ms > $3 \
             RETURNING account_id, email, password, ends_ms",
            )
            .bind(hash.to_hex())
            .bind(purpose.as_str())
            .bind(now.unix_ms)
            .fetch_optional(&self.writer)
            .await
            .and_then(|row| row.as_ref().map(token).transpose())
        })
        .await
    }
}

fn token(row: &AnyRow) -> Result<Token, sqlx::Error> {
    let email: Option<String> = row.try_get("email")?;
    Ok(Token {
        account: row.try_get::<Option<i64>, _>("account_id")?.map(AccountId),
        email: email.map(|text| text.parse()).transpose().map_err(|_| unreadable("email"))?,
        password: row.try_get("password")?,
        ends_ms: row.try_get("ends_ms")?,
    })
}
