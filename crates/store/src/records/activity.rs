//! What was done to an account and its keys, for its owner to read. No address and no secret stands here.

use super::accounts::lock_account;
use super::{AccountId, Records, Turn};
use crate::Error;
use ipse_model::{KeyId, Now};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

/// As many lines of each kind are kept of one account: however often something is done, it pushes nothing else out.
const LINES_KEPT: i64 = 100;

/// Declares the kinds with the words that stand in the database, once for writing and for reading.
macro_rules! activities {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What was done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Activity {
            $($(#[$doc])* $name,)*
        }

        impl Activity {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word that stands for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

activities! {
    /// The account was made.
    SignedUp = "signed_up",
    /// Somebody signed in.
    SignedIn = "signed_in",
    /// Somebody signed out.
    SignedOut = "signed_out",
    /// The password was right, the second factor was not.
    SecondFactorFailed = "second_factor_failed",
    /// The password was changed by somebody who was signed in.
    PasswordChanged = "password_changed",
    /// A link to choose another password was asked for.
    ResetAsked = "reset_asked",
    /// Another password was chosen by a link.
    PasswordReset = "password_reset",
    /// A change of the address was begun.
    EmailChangeAsked = "email_change_asked",
    /// The address was changed.
    EmailChanged = "email_changed",
    /// Signing in takes a second factor from now on.
    TotpOn = "totp_on",
    /// It does no longer.
    TotpOff = "totp_off",
    /// Other recovery codes were made.
    RecoveryCodesMade = "recovery_codes_made",
    /// One was used to sign in.
    RecoveryCodeUsed = "recovery_code_used",
    /// One session was ended from another.
    SessionEnded = "session_ended",
    /// All other sessions were ended.
    SessionsEnded = "sessions_ended",
    /// The choice of mails was changed.
    NoticesChanged = "notices_changed",
    /// All that is stored was handed out.
    DataExported = "data_exported",
    /// A key was made.
    KeyCreated = "key_created",
    /// A key was renamed.
    KeyRenamed = "key_renamed",
    /// A key got another scope.
    KeyScopeChanged = "key_scope_changed",
    /// A key was switched off.
    KeyDeactivated = "key_deactivated",
    /// A key was switched on again.
    KeyReactivated = "key_reactivated",
    /// A key went over the burst limit.
    KeyPaused = "key_paused",
    /// A key was resumed.
    KeyResumed = "key_resumed",
    /// A key got another text.
    KeyRolled = "key_rolled",
    /// A key was deleted.
    KeyDeleted = "key_deleted",
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    /// When.
    pub at_ms: i64,
    /// What.
    pub what: Activity,
    /// To which key, which may be no more.
    pub key: Option<KeyId>,
    /// More of it, such as the key's name.
    pub detail: Option<String>,
}

impl Records {
    /// Notes what was done to an account.
    pub async fn note_activity(
        &self,
        account: AccountId,
        what: Activity,
        key: Option<KeyId>,
        detail: Option<&str>,
        now: Now,
    ) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            note(&mut tx, account, what, key, detail, now).await?;
            tx.commit().await
        };
        self.within(work).await
    }

    /// Notes what the operator did to a key, for its owner to read. Before a key is deleted, for then nobody knows whose it was.
    pub async fn note_of_key(
        &self,
        key: KeyId,
        what: Activity,
        detail: Option<&str>,
        now: Now,
    ) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            Turn::Activity.wait(&mut tx).await?;
            let owner = sqlx::query("SELECT account_id FROM keys WHERE id = $1").bind(key.0);
            if let Some(row) = owner.fetch_optional(&mut *tx).await? {
                note(&mut tx, AccountId(row.try_get(0)?), what, Some(key), detail, now).await?;
            }
            tx.commit().await
        };
        self.within(work).await
    }

    /// The last things that were done to an account, the newest first.
    pub async fn activity(&self, account: AccountId, limit: u32) -> Result<Vec<ActivityRow>, Error> {
        let read = async {
            let rows = sqlx::query(
                "SELECT at_ms, what, key_id, detail FROM activity WHERE account_id = $1 ORDER BY id DESC LIMIT $2",
            );
            let rows = rows.bind(account.0).bind(i64::from(limit)).fetch_all(&self.readers).await?;
            rows.iter().filter_map(|row| activity_row(row).transpose()).collect()
        };
        self.within(read).await
    }
}

/// Writes one line, and forgets the oldest. An account that was deleted meanwhile gets none.
pub(super) async fn note(
    connection: &mut AnyConnection,
    account: AccountId,
    what: Activity,
    key: Option<KeyId>,
    detail: Option<&str>,
    now: Now,
) -> Result<(), sqlx::Error> {
    let id = Turn::Activity.next(connection).await?;
    if !lock_account(connection, account).await? {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO activity (id, account_id, at_ms, what, key_id, detail) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(id)
    .bind(account.0)
    .bind(now.unix_ms)
    .bind(what.as_str())
    .bind(key.map(|key| key.0))
    .bind(detail)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "DELETE FROM activity WHERE account_id = $1 AND what = $2 AND id <= \
         (SELECT id FROM activity WHERE account_id = $1 AND what = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)",
    )
    .bind(account.0)
    .bind(what.as_str())
    .bind(LINES_KEPT)
    .execute(connection)
    .await?;
    Ok(())
}

/// `None` of a word that only a later version of the program knows.
fn activity_row(row: &AnyRow) -> Result<Option<ActivityRow>, sqlx::Error> {
    let text: String = row.try_get("what")?;
    let Some(what) = Activity::ALL.iter().copied().find(|what| what.as_str() == text) else {
        return Ok(None);
    };
    Ok(Some(ActivityRow {
        at_ms: row.try_get("at_ms")?,
        what,
        key: row.try_get::<Option<i64>, _>("key_id")?.map(KeyId),
        detail: row.try_get("detail")?,
    }))
}
