//! Hashing of passwords: slow on purpose, and so kept away from everything else.
//!
//! A few threads of their own do it, one password at a time each, and give way to those that answer requests. However many
//! sign in at once, they wait for each other and nobody else waits for them. Owners stand in a line of their own, so that
//! they do not wait for strangers either.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// 19 MiB, twice over: what OWASP recommends for argon2id with one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const ROUNDS: u32 = 2;
/// How many may wait for a hash in each line. More are asked to come back, before what they typed fills the memory.
const QUEUE: usize = 512;
const SALT_BYTES: usize = 16;

/// The threads that hash.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    owners: SyncSender<Job>,
    strangers: SyncSender<Job>,
    /// One for each job in either line: threads wait here.
    bells: Sender<()>,
    /// The hash of no password at all, for accounts that are not there.
    decoy: Arc<str>,
}

/// In which line somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Whoever has shown already that the account is theirs: by a session, by a link, or by the mark of a device. They go
    /// first.
    Owners,
    /// Everybody else. Anybody can fill this line.
    Strangers,
}

/// Why there is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many passwords are being hashed")]
pub(crate) struct TooBusy;

enum Job {
    Hash { password: String, done: oneshot::Sender<Option<String>> },
    Verify { password: String, hash: String, done: oneshot::Sender<bool> },
}

impl Hasher {
    /// Starts the threads; each begins with `stand_back`, by which it lets others go first.
    pub(crate) fn start(stand_back: fn()) -> io::Result<Self> {
        let (hasher, lines) = Self::new(QUEUE);
        let lines = Arc::new(Mutex::new(lines));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(cores / 2).max(1) {
            let lines = Arc::clone(&lines);
            std::thread::Builder::new().name("passwords".to_owned()).spawn(move || {
                stand_back();
                work(&lines);
            })?;
        }
        Ok(hasher)
    }

    fn new(places: usize) -> (Self, Lines) {
        let (bells, bell) = channel();
        let ((owners, first), (strangers, others)) = (sync_channel(places), sync_channel(places));
        let decoy = hash("nobody has this password, and nobody ever will").unwrap_or_default();
        (Self { owners, strangers, bells, decoy: decoy.into() }, Lines { bell, first, others })
    }

    /// The hash of a password, to be stored.
    pub(crate) async fn hash(&self, password: &str, line: Line) -> Result<String, TooBusy> {
        let (done, hash) = oneshot::channel();
        self.wait_in(line, Job::Hash { password: password.to_owned(), done })?;
        hash.await.ok().flatten().ok_or(TooBusy)
    }

    /// Whether a password is the one that was hashed. Where there is no hash it is not, and finding that out takes as long.
    pub(crate) async fn verify(
        &self,
        password: &str,
        hash: Option<&str>,
        line: Line,
    ) -> Result<bool, TooBusy> {
        let (done, verified) = oneshot::channel();
        let stored = hash.unwrap_or(&self.decoy).to_owned();
        self.wait_in(line, Job::Verify { password: password.to_owned(), hash: stored, done })?;
        let is_right = verified.await.map_err(|_| TooBusy)?;
        Ok(is_right && hash.is_some())
    }

    fn wait_in(&self, line: Line, job: Job) -> Result<(), TooBusy> {
        let jobs = match line {
            Line::Owners => &self.owners,
            Line::Strangers => &self.strangers,
        };
        jobs.try_send(job).map_err(|_| TooBusy)?;
        // The job is in its line before its bell rings, so whoever hears one finds one.
        self.bells.send(()).map_err(|_| TooBusy)
    }
}

/// Both lines, from the front.
struct Lines {
    bell: Receiver<()>,
    first: Receiver<Job>,
    others: Receiver<Job>,
}

impl Lines {
    /// Waits for whose turn it is; `None` when nobody can come any more.
    fn next(&self) -> Option<Job> {
        loop {
            self.bell.recv().ok()?;
            if let Ok(job) = self.first.try_recv().or_else(|_| self.others.try_recv()) {
                return Some(job);
            }
        }
    }
}

fn work(lines: &Mutex<Lines>) {
    loop {
        let job = lines.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(job) = job else { return };
        match job {
            // Who has gone meanwhile gets nothing, and costs nothing.
            Job::Hash { done, .. } if done.is_closed() => {}
            Job::Verify { done, .. } if done.is_closed() => {}
            Job::Hash { password, done } => _ = done.send(hash(&password)),
            Job::Verify { password, hash, done } => {
                let verified = PasswordHash::new(&hash)
                    .is_ok_and(|hash| argon2id().verify_password(password.as_bytes(), &hash).is_ok());
                let _ = done.send(verified);
            }
        }
    }
}

fn argon2id() -> Argon2<'static> {
    // These parameters are within the bounds that the algorithm sets.
    let params = Params::new(MEMORY_KIB, ROUNDS, 1, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash(password: &str) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).ok()?;
    Some(argon2id().hash_password_with_salt(password.as_bytes(), &salt).ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_known_again_by_its_hash_alone() {
        let hasher = Hasher::start(|| ()).unwrap();
        let hash = hasher.hash("correct horse", Line::Strangers).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        let again = hasher.hash("correct horse", Line::Owners).await.unwrap();
        assert_ne!(hash, again, "the salt is another");
        let verify = |password: &'static str, hash| hasher.verify(password, hash, Line::Strangers);
        assert_eq!(verify("correct horse", Some(&hash)).await, Ok(true));
        assert_eq!(verify("correct horsE", Some(&hash)).await, Ok(false));
        assert_eq!(verify("correct horse", None).await, Ok(false));
        assert_eq!(verify("correct horse", Some("no hash")).await, Ok(false));
        assert_eq!(hasher.verify("correct horse", Some(&hash), Line::Owners).await, Ok(true));
    }

    /// Puts somebody into a line, who waits there.
    async fn waits(hasher: &Hasher, password: &'static str, line: Line) {
        let hasher = hasher.clone();
        tokio::spawn(async move { hasher.hash(password, line).await });
        tokio::task::yield_now().await;
    }

    #[tokio::test]
    async fn more_than_can_be_remembered_are_asked_to_come_back() {
        let (hasher, _lines) = Hasher::new(1);
        waits(&hasher, "first", Line::Strangers).await;
        assert_eq!(hasher.verify("second", None, Line::Strangers).await, Err(TooBusy));
        waits(&hasher, "owner", Line::Owners).await;
        assert_eq!(hasher.hash("second owner", Line::Owners).await, Err(TooBusy));
    }

    #[tokio::test]
    async fn owners_go_before_strangers() {
        let (hasher, lines) = Hasher::new(4);
        waits(&hasher, "stranger", Line::Strangers).await;
        waits(&hasher, "another stranger", Line::Strangers).await;
        waits(&hasher, "owner", Line::Owners).await;
        let next = || match lines.next() {
            Some(Job::Hash { password, .. }) => password,
            _ => String::new(),
        };
        assert_eq!([next(), next(), next()], ["owner", "stranger", "another stranger"]);
        drop(hasher);
    }
}
