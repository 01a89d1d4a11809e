//! The second factor of an account: codes by time, and recovery codes for when the device is lost.

use super::accounts::lock_account;
use super::{AccountId, Records};
use crate::Error;
use ipse_model::SecretHash;
use sqlx::AnyConnection;

impl Records {
    /// Makes signing in take a second factor. `step` is that of the code by which the owner has shown to have the secret.
    /// `false` if it takes one already.
    pub async fn set_totp(
        &self,
        id: AccountId,
        secret: &str,
        step: i64,
        recovery: &[SecretHash],
    ) -> Result<bool, Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            let set = sqlx::query(
                "UPDATE accounts SET totp_secret = $2, totp_step = $3 WHERE id = $1 AND totp_secret IS NULL",
            )
            .bind(id.0)
            .bind(secret)
            .bind(step)
            .execute(&mut *tx)
            .await?;
            let set = set.rows_affected() > 0;
            if set {
                replace(&mut tx, id, recovery).await?;
            }
            tx.commit().await?;
            Ok(set)
        };
        self.within(work).await
    }

    /// Makes the password alone do again.
    pub async fn clear_totp(&self, id: AccountId) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            // The row is locked by this.
            sqlx::query("UPDATE accounts SET totp_secret = NULL, totp_step = 0 WHERE id = $1")
                .bind(id.0)
                .execute(&mut *tx)
                .await?;
            replace(&mut tx, id, &[]).await?;
            tx.commit().await
        };
        self.within(work).await
    }

    /// Gives an account other recovery codes; those before are no longer good.
    pub async fn replace_recovery_codes(&self, id: AccountId, recovery: &[SecretHash]) -> Result<(), Error> {
        let work = async {
            let mut tx = self.writer.begin().await?;
            // Of two who replace them at once, the codes of one are left.
            if lock_account(&mut tx, id).await? {
                replace(&mut tx, id, recovery).await?;
            }
            tx.commit().await
        };
        self.within(work).await
    }

    /// Uses the code of one step of time. `false` if that code, or a later one, was used already.
    pub async fn use_totp_step(&self, id: AccountId, step: i64) -> Result<bool, Error> {
        let sql = sqlx::query(
            "UPDATE accounts SET totp_step = $2 WHERE id = $1 AND totp_step < $2 AND totp_secret IS NOT NULL",
        );
        Ok(self.write(sql.bind(id.0).bind(step)).await? > 0)
    }

    /// Uses a recovery code. `false` if it is none, or no more.
    pub async fn use_recovery_code(&self, id: AccountId, code: &SecretHash) -> Result<bool, Error> {
        let sql = sqlx::query("DELETE FROM recovery_codes WHERE account_id = $1 AND hash = $2");
        Ok(self.write(sql.bind(id.0).bind(code.to_hex())).await? > 0)
    }
}

async fn replace(
    connection: &mut AnyConnection,
    id: AccountId,
    recovery: &[SecretHash],
) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM recovery_codes WHERE account_id = $1")
        .bind(id.0)
        .execute(&mut *connection)
        .await?;
    for hash in recovery {
        sqlx::query("INSERT INTO recovery_codes (account_id, hash) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(id.0)
            .bind(hash.to_hex())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
