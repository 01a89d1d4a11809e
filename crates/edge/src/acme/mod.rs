//! Certificates from an authority, by ACME (RFC 8555): obtained, kept in the data folder and renewed while the server runs.
//!
//! Names are proven by TLS-ALPN-01 (RFC 8737), which needs nothing but the door of HTTPS. Nobody waits for the authority:
//! until it has issued a certificate one is shown that nobody has signed, and when it fails the old one is used on.

mod authority;
mod lifetime;
mod messenger;
mod vault;

use crate::clock::Clock;
use crate::tls::{CertificateError, Certificates, Named, read_certificates};
use authority::{Authority, sentence};
use ipse_model::Now;
use lifetime::{Lifetime, pause};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls;
use vault::{Kept, Vault};

/// How often it is looked whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long one attempt may take in all. An authority is given two minutes to verify the names and two to issue.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(10);

/// What is to be asked of which authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmePlan {
    /// The names that the certificate shall be for, in lower case.
    pub domains: Vec<String>,
    /// Where the authority may write to.
    pub email: Option<String>,
    /// The authority's directory, an address of HTTPS.
    pub directory: String,
    /// Who may vouch for the directory's own certificate, beside those whom the system trusts: a PEM file.
    pub ca: Option<PathBuf>,
}

/// Sees to it that there is a certificate.
pub struct Acme {
    domains: Vec<String>,
    authority: Authority,
    certificates: Arc<Certificates>,
    /// What is shown of an authority's certificates.
    shown: Option<Shown>,
    failures: u32,
    /// No attempt before this time since boot.
    not_before_boot_ms: u64,
}

/// What an authority issued and is in use.
#[derive(Clone, Copy, Debug)]
struct Shown {
    lifetime: Lifetime,
    fit: Fit,
}

/// How the names of a certificate and those that are asked for go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Exact,
    /// It is also for names that nobody asks for any more.
    Wider,
    /// A name is missing in it.
    Lacking,
}

impl Fit {
    fn of(named: &Named, domains: &[String]) -> Self {
        let (names, domains): (BTreeSet<_>, BTreeSet<_>) =
            (named.names().iter().collect(), domains.iter().collect());
        if names == domains {
            Self::Exact
        } else if names.is_superset(&domains) {
            Self::Wider
        } else {
            Self::Lacking
        }
    }
}

/// Why there is no new certificate. The words are the log's.
#[derive(Debug, thiserror::Error)]
enum AcmeError {
    /// The authority said no.
    #[error("the authority refuses: {}", sentence(.0))]
    Refused(instant_acme::Problem),
    /// The authority could not see that a name is ours.
    #[error("the authority could not verify {domain}: {reason}")]
    Unproven { domain: String, reason: String },
    #[error("the authority does not offer TLS-ALPN-01 for {0}")]
    NoChallenge(String),
    #[error("the authority gave the order up and does not say why")]
    OrderFailed,
    #[error("speaking with the authority failed: {}", whole(.0))]
    Conversation(instant_acme::Error),
    #[error("the authority took too long")]
    Late,
    #[error("the proof for the authority failed: {0}")]
    Proof(#[source] CertificateError),
    #[error("what the authority issued cannot be used: {0}")]
    Unusable(#[source] CertificateError),
    #[error("what the authority issued is not for {0}")]
    NotForUs(String),
    #[error("the authority's answer tells no time until which the certificate is good")]
    Timeless,
    #[error("what the authority issued is to be renewed already: is the clock of this machine right?")]
    OldAlready,
    #[error("the account with the authority cannot be read: {0}")]
    Account(io::Error),
    #[error("this system trusts nobody: install its package of CA certificates, or set acme_ca")]
    NobodyTrusted,
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
    #[error("a part of the program ended unexpectedly")]
    Ended,
}

impl AcmeError {
    /// Whether the authority named this as the kind of its problem.
    fn is(&self, kind: &str) -> bool {
        matches!(self, Self::Refused(problem) if problem.r#type.as_deref() == Some(kind))
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> Self {
        match error {
            instant_acme::Error::Api(problem) => Self::Refused(problem),
            instant_acme::Error::Timeout(_) => Self::Late,
            other => Self::Conversation(other),
        }
    }
}

/// An error with all that caused it: the outermost words of an HTTP client say hardly anything.
fn whole(error: &instant_acme::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text += &format!(": {part}");
        }
        cause = error.source();
    }
    text
}

impl Acme {
    /// Takes the certificate that was kept for these names, if it is still good, or makes a temporary one. The authority
    /// is not asked yet, so that doors open at once.
    pub fn open(
        plan: AcmePlan,
        folder: &Path,
        certificates: Certificates,
        now: Now,
    ) -> Result<(Self, Arc<Certificates>), CertificateError> {
        let trusted = plan.ca.as_deref().map(read_certificates).transpose()?.unwrap_or_default();
        let certificates = Arc::new(certificates.beside_an_authority());
        let vault = Vault::new(folder, &plan.directory);
        let domains = plan.domains.clone();
        let kept = kept(&vault, now);
        let is_lacking =
            |domain: &&String| kept.as_ref().is_none_or(|(named, _)| !named.names().contains(*domain));
        let lacking: Vec<String> = domains.iter().filter(is_lacking).cloned().collect();
        let shown = kept.map(|(named, lifetime)| {
            let shown = Shown { lifetime, fit: Fit::of(&named, &domains) };
            let certificate_days_left = lifetime.days_left(now);
            tracing::info!(
                names = named.names().join(" "),
                certificate_days_left,
                "the certificate that was kept is used"
            );
            certificates.show_issued(named);
            shown
        });
        if !lacking.is_empty() {
            tracing::warn!(
                domains = lacking.join(" "),
                "until the authority has issued a certificate, one is shown that nobody has signed"
            );
            certificates.show_temporary(lacking)?;
        }
        let acme = Self {
            domains,
            authority: Authority::new(plan, trusted, vault),
            certificates: Arc::clone(&certificates),
            shown,
            failures: 0,
            not_before_boot_ms: 0,
        };
        Ok((acme, certificates))
    }

    /// Obtains and renews, as long as it is let.
    pub async fn run(mut self, clock: Clock) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.is_due(clock.now()) {
                self.attempt(&clock).await;
            }
        }
    }

    fn is_due(&self, now: Now) -> bool {
        let is_good =
            self.shown.is_some_and(|shown| shown.fit == Fit::Exact && !shown.lifetime.is_to_be_renewed(now));
        !is_good && now.boot_ms >= self.not_before_boot_ms
    }

    async fn attempt(&mut self, clock: &Clock) {
        let obtained = tokio::time::timeout(ATTEMPT_TIMEOUT, self.authority.obtain(&self.certificates)).await;
        let now = clock.now();
        let taken = match obtained {
            Ok(Ok(pem)) => self.take(pem, now).await,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(AcmeError::Late),
        };
        match taken {
            Ok(()) => self.failures = 0,
            Err(error) => self.tell_failure(&error, now),
        }
    }

    /// Uses a new certificate, and keeps it.
    async fn take(&mut self, pem: Vec<u8>, now: Now) -> Result<(), AcmeError> {
        let named = Named::from_pem(&pem).map_err(AcmeError::Unusable)?;
        if let Some(missed) = self.domains.iter().find(|domain| !named.names().contains(domain)) {
            return Err(AcmeError::NotForUs(missed.clone()));
        }
        let lifetime = named.certificate().and_then(Lifetime::of).ok_or(AcmeError::Timeless)?;
        self.certificates.show_issued(named);
        self.certificates.end_temporary();
        // Names that the authority added by itself are no reason to ask for others.
        self.shown = Some(Shown { lifetime, fit: Fit::Exact });
        self.authority.keep(Kept::Certificate, pem).await;
        let certificate_days_left = lifetime.days_left(now);
        tracing::info!(
            domains = self.domains.join(" "),
            certificate_days_left,
            "a new certificate of the authority is used"
        );
        // Without a pause a clock that runs ahead would order one certificate after the other.
        if lifetime.is_to_be_renewed(now) { Err(AcmeError::OldAlready) } else { Ok(()) }
    }

    /// Tells why it failed, and plans the next attempt.
    fn tell_failure(&mut self, error: &AcmeError, now: Now) {
        self.failures = self.failures.saturating_add(1);
        // The seeds that hash maps get are random enough for this.
        let pause = pause(self.failures, RandomState::new().hash_one(0_u8));
        self.not_before_boot_ms = now.boot_ms + u64::try_from(pause.as_millis()).unwrap_or(u64::MAX / 2);
        let (domains, next_attempt_s) = (self.domains.join(" "), pause.as_secs());
        let Some(Shown { lifetime, fit: Fit::Exact | Fit::Wider }) = self.shown else {
            tracing::error!(
                %error, domains, next_attempt_s,
                "no certificate was obtained; callers see one that nobody has signed"
            );
            return;
        };
        let certificate_days_left = lifetime.days_left(now);
        if lifetime.is_ending(now) {
            tracing::error!(
                %error, domains, certificate_days_left, next_attempt_s,
                "no certificate was obtained, and the old one is about to end or has ended"
            );
        } else {
            tracing::warn!(
                %error, domains, certificate_days_left, next_attempt_s,
                "no certificate was obtained; the old one is used on"
            );
        }
    }
}

/// The certificate that was kept, if it is still good.
fn kept(vault: &Vault, now: Now) -> Option<(Named, Lifetime)> {
    let file = vault.path(Kept::Certificate).display().to_string();
    let pem = match vault.read(Kept::Certificate) {
        Ok(pem) => pem?,
        Err(error) => {
            tracing::warn!(file, %error, "the certificate that was kept cannot be read");
            return None;
        }
    };
    match Named::from_pem(&pem) {
        Ok(named) => {
            let lifetime = named.certificate().and_then(Lifetime::of)?;
            (!lifetime.has_ended(now)).then_some((named, lifetime))
        }
        Err(error) => {
            tracing::warn!(file, %error, "the certificate that was kept cannot be used");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    /// 2026-01-01.
    const BEGIN: i64 = 1_767_225_600_000;

    fn day(days: i64) -> Now {
        Now { unix_ms: BEGIN + days * DAY_MS, boot_ms: 1000 }
    }

    fn plan(domains: &[&str]) -> AcmePlan {
        AcmePlan {
            domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
            email: None,
            directory: "https://acme.example/directory".to_owned(),
            ca: None,
        }
    }

    /// Good for the first ninety days of 2026.
    fn pem(domains: &[&str]) -> Vec<u8> {
        let domains: Vec<String> = domains.iter().map(|domain| (*domain).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(domains).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        (key.serialize_pem() + &params.self_signed(&key).unwrap().pem()).into_bytes()
    }

    fn open(plan: AcmePlan, folder: &Path, now: Now) -> Acme {
        Acme::open(plan, folder, Certificates::default(), now).unwrap().0
    }

    /// Whether the authority is asked on that day by a server that has kept a certificate for these names.
    #[track_caller]
    fn check(kept: &[&str], wanted: &[&str], days: i64, fit: Option<Fit>, is_due: bool) {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(wanted);
        Vault::new(folder.path(), &plan.directory).keep(Kept::Certificate, &pem(kept)).unwrap();
        let acme = open(plan, folder.path(), day(days));
        let found = (acme.shown.map(|shown| shown.fit), acme.is_due(day(days)));
        assert_eq!(found, (fit, is_due), "{kept:?} {wanted:?} {days}");
    }

    #[test]
    fn a_kept_certificate_is_used_until_it_is_time() {
        check(&["a.example"], &["a.example"], 1, Some(Fit::Exact), false);
        check(&["a.example", "b.example"], &["b.example", "a.example"], 59, Some(Fit::Exact), false);
        check(&["a.example"], &["a.example"], 60, Some(Fit::Exact), true);
        check(&["a.example"], &["a.example"], 89, Some(Fit::Exact), true);
        check(&["a.example"], &["a.example"], 91, None, true);
    }

    #[test]
    fn other_names_need_another_certificate() {
        check(&["a.example"], &["a.example", "b.example"], 1, Some(Fit::Lacking), true);
        check(&["a.example", "b.example"], &["a.example"], 1, Some(Fit::Wider), true);
        check(&["a.example"], &["b.example"], 1, Some(Fit::Lacking), true);
    }

    #[test]
    fn another_directory_has_another_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let one = plan(&["a.example"]);
        Vault::new(folder.path(), &one.directory).keep(Kept::Certificate, &pem(&["a.example"])).unwrap();
        let other = AcmePlan { directory: "https://other.example/directory".to_owned(), ..one.clone() };
        assert!(open(other, folder.path(), day(1)).is_due(day(1)));
        assert!(!open(one, folder.path(), day(1)).is_due(day(1)));
    }

    #[test]
    fn what_was_kept_and_is_damaged_is_as_good_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&["a.example"]);
        let vault = Vault::new(folder.path(), &plan.directory);
        let whole = pem(&["a.example"]);
        for content in [&b""[..], b"nonsense", &whole[..whole.len() / 2]] {
            vault.keep(Kept::Certificate, content).unwrap();
            let acme = open(plan.clone(), folder.path(), day(1));
            assert!(acme.shown.is_none() && acme.is_due(day(1)));
        }
    }

    #[tokio::test]
    async fn an_issued_certificate_is_kept_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(&["a.example"]);
        let mut acme = open(plan.clone(), folder.path(), day(0));
        assert!(acme.is_due(day(0)));
        let error = acme.take(pem(&["b.example"]), day(0)).await.unwrap_err();
        assert_eq!(error.to_string(), "what the authority issued is not for a.example");
        acme.take(pem(&["a.example"]), day(0)).await.unwrap();
        assert!(!acme.is_due(day(0)) && acme.is_due(day(60)));
        assert!(!open(plan, folder.path(), day(1)).is_due(day(1)));
    }

    #[tokio::test]
    async fn a_clock_that_runs_ahead_does_not_order_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut acme = open(plan(&["a.example"]), folder.path(), day(80));
        let error = acme.take(pem(&["a.example"]), day(80)).await.unwrap_err();
        assert!(error.to_string().contains("is the clock of this machine right?"), "{error}");
        assert!(acme.shown.is_some());
        acme.tell_failure(&error, day(80));
        assert!(!acme.is_due(day(80)));
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let folder = tempfile::tempdir().unwrap();
        let mut acme = open(plan(&["a.example"]), folder.path(), day(0));
        let later = |seconds: u64| Now { boot_ms: 1000 + seconds * 1000, ..day(0) };
        acme.tell_failure(&AcmeError::Late, day(0));
        assert!(!acme.is_due(later(44)) && acme.is_due(later(60)));
        acme.tell_failure(&AcmeError::Late, day(0));
        assert!(!acme.is_due(later(89)) && acme.is_due(later(120)));
    }

    #[test]
    fn a_wrong_file_of_an_authority_ends_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let plan = AcmePlan { ca: Some(path.clone()), ..plan(&["a.example"]) };
        let open = || Acme::open(plan.clone(), folder.path(), Certificates::default(), day(0));
        let sentence = || open().err().unwrap().to_string();
        assert!(sentence().contains("cannot read"), "{}", sentence());
        fs::write(&path, "nonsense").unwrap();
        assert!(sentence().contains("no certificate in PEM form"), "{}", sentence());
        fs::write(&path, pem(&["ca.example"])).unwrap();
        assert!(open().is_ok());
    }
}
