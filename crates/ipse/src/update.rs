//! Updates of geo data: what they need of the configuration, and the timer inside a server.
//!
//! An update only replaces the file; whoever serves from it notices by itself. Secrets stay in [`Secret`] and are read
//! from their file anew for each update, so that a new key needs no restart.

use crate::config::Config;
use crate::error::Error;
use ipse_edge::Clock;
use ipse_geo::short_version;
use ipse_geodata::{
    Credentials, Downloader, Patience, UpdateError, UpdatePlan, Updated, Vendors, Wanted, update,
};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// What geo data is updated from, and how often.
#[derive(Clone, Debug)]
pub struct GeoUpdates {
    /// Vendors' files, in the order in which they are believed.
    pub sources: Vec<Wanted>,
    /// An operator's own files of flags.
    pub flags: Vec<PathBuf>,
    /// Who asks `MaxMind`.
    pub maxmind: Option<MaxMind>,
    /// Where vendors are. No setting; tests have servers of their own.
    pub vendors: Vendors,
    /// When a server updates by itself; `None` for never.
    pub rhythm: Option<Rhythm>,
}

/// When a server updates its geo data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// From the end of one update to the next one.
    pub every: Duration,
    /// From the end of a failed one to the next attempt.
    pub after_failure: Duration,
    /// The first one comes at a random moment within this time after the start, so that machines that start together
    /// do not all ask at once.
    pub first_within: Duration,
}

/// An account with `MaxMind`.
#[derive(Clone, Debug)]
pub struct MaxMind {
    /// Its number.
    pub account: String,
    /// Its licence key.
    pub key: LicenceKey,
}

/// Where the licence key is.
#[derive(Clone, Debug)]
pub enum LicenceKey {
    /// In a file.
    File(PathBuf),
    /// In the settings.
    Text(Secret),
}

/// A licence key. It is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// One word of letters, digits and underscores.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let is_word =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word.then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Rhythm {
    /// Every so often. After a failure it is not waited longer than an hour.
    pub(crate) fn of(every: Duration) -> Self {
        Self {
            every,
            after_failure: every.min(Duration::from_hours(1)),
            first_within: Duration::from_mins(5),
        }
    }
}

impl MaxMind {
    fn credentials(&self) -> Result<Credentials, Error> {
        let key = match &self.key {
            LicenceKey::Text(Secret(key)) => key.clone(),
            LicenceKey::File(path) => {
                let wrong = |what: &dyn fmt::Display| {
                    Error::Refused(format!("maxmind_key_file {}: {what}", path.display()))
                };
                let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
                let key = Secret::read(text.trim());
                key.ok_or_else(|| wrong(&"there must be the licence key in it and nothing else"))?.0
            }
        };
        Ok(Credentials::new(&self.account, &key))
    }
}

/// The update that the configuration asks for, with everything that it needs to read.
pub(crate) fn plan(config: &Config, force: bool) -> Result<UpdatePlan, Error> {
    let updates = &config.geo_updates;
    Ok(UpdatePlan {
        sources: updates.sources.clone(),
        maxmind: updates.maxmind.as_ref().map(MaxMind::credentials).transpose()?,
        vendors: updates.vendors.clone(),
        flags: updates.flags.clone(),
        cache: config.data_dir.join("geo-cache"),
        target: crate::geo::file(config),
        without_target: crate::geo::without_file(config),
        force,
    })
}

/// A client for vendors' files.
pub(crate) fn downloader() -> Result<Downloader, Error> {
    Downloader::new(Patience::default()).map_err(|error| Error::Refused(error.to_string()))
}

/// Starts the timer, if there shall be one.
pub(crate) fn keep_updated(config: &Config, clock: &Clock) -> Option<JoinHandle<()>> {
    let rhythm = config.geo_updates.rhythm?;
    let (config, clock) = (config.clone(), clock.clone());
    Some(tokio::spawn(async move {
        let mut wait = somewhere_within(rhythm.first_within);
        loop {
            tokio::time::sleep(wait).await;
            wait = match once(&config, &clock).await {
                Ok(()) => rhythm.every,
                Err(error) => {
                    let next_attempt_s = rhythm.after_failure.as_secs();
                    tracing::warn!(
                        error = %error,
                        next_attempt_s,
                        "geo data was not updated; the old data stays in use"
                    );
                    rhythm.after_failure
                }
            };
        }
    }))
}

async fn once(config: &Config, clock: &Clock) -> Result<(), Error> {
    let plan = plan(config, false)?;
    match update(plan, &downloader()?, clock.now(), Arc::new(|_| ())).await {
        Ok(Updated::Unchanged(standing)) => {
            tracing::info!(geo.version = short_version(&standing.version), "geo data is up to date");
        }
        Ok(Updated::Replaced { new, .. }) => {
            tracing::info!(
                geo.version = short_version(&new.version),
                geo.bytes = new.bytes,
                "geo data was updated"
            );
        }
        Err(UpdateError::Busy(_)) => {
            tracing::info!("geo data is being updated by another process already");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// A random part of a time. The seeds that hash maps get are random enough for this.
fn somewhere_within(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    let thousandths = u32::try_from(random % 1000).unwrap_or(0);
    time * thousandths / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::net::TcpListener;
    use std::sync::Mutex;
    use tokio::io::AsyncWriteExt;

    #[test]
    fn a_licence_key_is_read_from_its_file_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let account = MaxMind { account: "42".to_owned(), key: LicenceKey::File(path.clone()) };
        let shown = path.display();
        let sentence = || account.credentials().unwrap_err().to_string();
        assert_eq!(sentence(), format!("maxmind_key_file {shown}: No such file or directory (os error 2)"));
        for content in ["", "two words", "a\nb"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(
                sentence(),
                format!("maxmind_key_file {shown}: there must be the licence key in it and nothing else")
            );
        }
        std::fs::write(&path, "secret_1\n").unwrap();
        assert_eq!(account.credentials().unwrap(), Credentials::new("42", "secret_1"));
        let text = MaxMind { account: "42".to_owned(), key: LicenceKey::Text(Secret("secret_1".to_owned())) };
        assert_eq!(text.credentials().unwrap(), Credentials::new("42", "secret_1"));
        assert!(!format!("{text:?}").contains("secret_1"));
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_is_a_warning_that_says_what_happens_next_and_no_secret() {
        let vendor = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = format!("http://{}", vendor.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::from_settings(&[
            ("data_dir", folder.path().to_str().unwrap()),
            ("geo_source", "city:maxmind:GeoLite2-City"),
            ("maxmind_account", "42"),
            ("maxmind_key", "secret_1"),
            ("geo_update_hours", "24"),
        ])
        .unwrap();
        config.geo_updates.vendors.maxmind = host;
        let rhythm = config.geo_updates.rhythm.unwrap();
        config.geo_updates.rhythm = Some(Rhythm { first_within: Duration::ZERO, ..rhythm });
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        let said = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async {
                let timer = keep_updated(&config, &Clock::system()).unwrap();
                let (mut caller, _) = tokio::net::TcpListener::from_std({
                    vendor.set_nonblocking(true).unwrap();
                    vendor
                })
                .unwrap()
                .accept()
                .await
                .unwrap();
                caller
                    .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .await
                    .unwrap();
                while !said().contains("WARN") {
                    tokio::task::yield_now().await;
                }
                timer.abort();
            });
        });
        let warning = said().lines().find(|line| line.contains("WARN")).unwrap().to_owned();
        for part in ["the old data stays in use", "next_attempt_s=3600", "check account id and licence key"] {
            assert!(warning.contains(part), "{part} is missing in {warning}");
        }
        // base64 of 42:secret_1
        assert!(!said().contains("secret_1") && !said().contains("NDI6c2VjcmV0XzE="), "{}", said());
    }

    #[test]
    fn the_first_moment_is_within_its_time() {
        let time = Duration::from_secs(10);
        assert!((0..100).all(|_| somewhere_within(time) < time));
        assert_eq!(somewhere_within(Duration::ZERO), Duration::ZERO);
    }
}
