//! The conversation with a certificate authority: an account, an order, the proof that the names are ours, and the
//! certificate. What it says to a log never holds a key.

use super::messenger::Messenger;
use super::vault::{Kept, Vault};
use super::{AcmeError, AcmePlan};
use crate::tls::Certificates;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, Problem, RetryPolicy,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// How an order is looked after: soon at first, then less and less often, unless the authority says when.
const PATIENCE: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).timeout(Duration::from_mins(2));
const UNKNOWN_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// An authority, and who we are to it.
pub(super) struct Authority {
    plan: AcmePlan,
    /// Who may vouch for the authority beside those whom the system trusts.
    trusted: Vec<CertificateDer<'static>>,
    vault: Vault,
    /// The account as it is kept. Also here, because an authority allows few new ones, and a disk may be full.
    account: Option<Vec<u8>>,
}

/// An account as it is kept. Without `Debug`, because it holds the account's private key.
#[derive(Deserialize, Serialize)]
struct KeptAccount {
    /// Whom the authority was told to write to.
    email: Option<String>,
    credentials: AccountCredentials,
}

impl Authority {
    pub(super) fn new(plan: AcmePlan, trusted: Vec<CertificateDer<'static>>, vault: Vault) -> Self {
        Self { plan, trusted, vault, account: None }
    }

    /// Asks for a certificate and proves meanwhile that the names are ours: its key and chain, as PEM.
    pub(super) async fn obtain(&mut self, certificates: &Certificates) -> Result<Vec<u8>, AcmeError> {
        let Some(account) = self.kept_account().await? else {
            let account = self.register().await?;
            return self.order(&account, certificates).await;
        };
        match self.order(&account, certificates).await {
            Err(error) if error.is(UNKNOWN_ACCOUNT) => {
                tracing::warn!("the authority does not know our account any more; a new one is registered");
                let account = self.register().await?;
                self.order(&account, certificates).await
            }
            obtained => obtained,
        }
    }

    /// The account that we have already.
    async fn kept_account(&mut self) -> Result<Option<Account>, AcmeError> {
        let bytes = match &self.account {
            Some(bytes) => bytes.clone(),
            None => match self.vault.read(Kept::Account) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(None),
                Err(error) => return Err(AcmeError::Account(error)),
            },
        };
        // What is wrong with the text is not told, because parts of it are secret.
        let Ok(KeptAccount { email, credentials }) = serde_json::from_slice(&bytes) else {
            let file = self.vault.path(Kept::Account).display().to_string();
            tracing::warn!(file, "the account with the authority cannot be read; a new one is registered");
            return Ok(None);
        };
        let builder = Account::builder_with_http(Box::new(self.messenger().await?));
        let account = builder.from_credentials(credentials).await?;
        self.account = Some(bytes);
        if email != self.plan.email {
            let contacts = self.contacts();
            let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
            match account.update_contacts(&contacts).await {
                Ok(()) => self.tell_new_email().await,
                // It is known no more, or will be told again next time; a certificate is worth more than an address.
                Err(error) => {
                    let error = AcmeError::from(error);
                    if !error.is(UNKNOWN_ACCOUNT) {
                        tracing::warn!(%error, "the authority was not told the new e-mail address");
                    }
                }
            }
        }
        Ok(Some(account))
    }

    /// Makes an account. Whoever asks for a certificate accepts the authority's terms; the settings say so.
    async fn register(&mut self) -> Result<Account, AcmeError> {
        let contacts = self.contacts();
        let contact: Vec<&str> = contacts.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let builder = Account::builder_with_http(Box::new(self.messenger().await?));
        let (account, credentials) = builder.create(&new, self.plan.directory.clone(), None).await?;
        self.keep_account(&KeptAccount { email: self.plan.email.clone(), credentials }).await;
        tracing::info!("an account with the authority was registered");
        Ok(account)
    }

    async fn order(&self, account: &Account, certificates: &Certificates) -> Result<Vec<u8>, AcmeError> {
        let names: Vec<_> = self.plan.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        // However this ends, nothing is proven any more behind it.
        let proofs = certificates.proofs();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let domain = authorization.identifier().to_string();
            let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
                return Err(AcmeError::NoChallenge(domain));
            };
            let digest = challenge.key_authorization().digest();
            let digest = digest.as_ref().try_into().map_err(|_| AcmeError::OrderFailed)?;
            proofs.show(&domain, digest).map_err(AcmeError::Proof)?;
            challenge.set_ready().await?;
        }
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Ready) => {}
            Ok(_) => return Err(unproven(&mut order, AcmeError::OrderFailed).await),
            Err(error @ instant_acme::Error::Api(_)) => {
                return Err(unproven(&mut order, error.into()).await);
            }
            Err(error) => return Err(error.into()),
        }
        drop(proofs);
        let mut pem = order.finalize().await?.into_bytes();
        pem.extend(order.poll_certificate(&PATIENCE).await?.into_bytes());
        Ok(pem)
    }

    /// The system's list of trusted authorities is a file of many, and decoding it takes its time.
    async fn messenger(&self) -> Result<Messenger, AcmeError> {
        let trusted = self.trusted.clone();
        let made = tokio::task::spawn_blocking(move || Messenger::new(&trusted)).await;
        made.unwrap_or(Err(AcmeError::Ended))
    }

    fn contacts(&self) -> Vec<String> {
        self.plan.email.iter().map(|email| format!("mailto:{email}")).collect()
    }

    async fn tell_new_email(&mut self) {
        let kept = self.account.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        if let Some(kept) = kept {
            self.keep_account(&KeptAccount { email: self.plan.email.clone(), ..kept }).await;
        }
    }

    /// Keeps the account. If the disk takes nothing, it is used all the same until the program ends.
    async fn keep_account(&mut self, account: &KeptAccount) {
        let Ok(bytes) = serde_json::to_vec(account) else { return };
        self.account = Some(bytes.clone());
        self.keep(Kept::Account, bytes).await;
    }

    /// Keeps something in the data folder, or says that it could not.
    pub(super) async fn keep(&self, kept: Kept, bytes: Vec<u8>) {
        let vault = self.vault.clone();
        let file = vault.path(kept).display().to_string();
        let written = tokio::task::spawn_blocking(move || vault.keep(kept, &bytes)).await;
        if let Err(error) = written.unwrap_or_else(|ended| Err(ended.into())) {
            tracing::error!(file, %error, "cannot be written; it is lost when the server stops");
        }
    }
}

/// Why an order failed: what the authority says of the first name that it could not verify, or else `otherwise`.
async fn unproven(order: &mut Order, otherwise: AcmeError) -> AcmeError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let domain = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        let reason = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        if let Some(reason) = reason {
            return AcmeError::Unproven { domain, reason: sentence(reason) };
        }
    }
    otherwise
}

/// An authority's own words, in one line.
pub(super) fn sentence(problem: &Problem) -> String {
    let or_type = |detail: &Option<String>, kind: &Option<String>| {
        detail.clone().or_else(|| kind.clone()).unwrap_or_else(|| "no reason given".to_owned())
    };
    let mut text = or_type(&problem.detail, &problem.r#type);
    for part in &problem.subproblems {
        text += "; ";
        if let Some(Identifier::Dns(name)) = &part.identifier {
            text += &format!("{name}: ");
        }
        text += &or_type(&part.detail, &part.r#type);
    }
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        assert_eq!(sentence(&serde_json::from_str(json).unwrap()), expected);
    }

    #[test]
    fn an_authority_is_quoted_in_one_line() {
        check(r#"{"type":"urn:x","detail":"too many\ncertificates"}"#, "too many certificates");
        check(r#"{"type":"urn:x"}"#, "urn:x");
        check("{}", "no reason given");
        let part = r#"{"identifier":{"type":"dns","value":"a.example"},"detail":"forbidden"}"#;
        check(
            &format!(r#"{{"detail":"some failed","subproblems":[{part},{{}}]}}"#),
            "some failed; a.example: forbidden; no reason given",
        );
        let long = "x".repeat(5000);
        assert_eq!(
            sentence(&serde_json::from_str(&format!(r#"{{"detail":"{long}"}}"#)).unwrap()).len(),
            1000
        );
    }
}
