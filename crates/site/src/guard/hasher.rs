//! Hashing of passwords: slow on purpose, and so kept away from everything else.
//!
//! A few threads of their own do it, one password at a time each, and give way to those that answer requests. However many
//! sign in at once, they wait for each other and nobody else waits for them.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// 19 MiB, twice over: what OWASP recommends for argon2id with one lane.
const MEMORY_KIB: u32 = 19 * 1024;
const ROUNDS: u32 = 2;
/// How many may wait for a hash. More are asked to come back, before what they typed fills the memory.
const QUEUE: usize = 512;
const SALT_BYTES: usize = 16;

/// The threads that hash.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    jobs: SyncSender<Job>,
    /// The hash of no password at all, for accounts that are not there.
    decoy: Arc<str>,
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
    /// Starts the threads; each begins with `give_way`, by which it lets others go first.
    pub(crate) fn start(give_way: fn()) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(cores / 2).max(1) {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new().name("passwords".to_owned()).spawn(move || {
                give_way();
                work(&queue);
            })?;
        }
        let decoy = hash("nobody has this password, and nobody ever will").unwrap_or_default();
        Ok(Self { jobs, decoy: decoy.into() })
    }

    /// The hash of a password, to be stored.
    pub(crate) async fn hash(&self, password: &str) -> Result<String, TooBusy> {
        let (done, hash) = oneshot::channel();
        self.jobs.try_send(Job::Hash { password: password.to_owned(), done }).map_err(|_| TooBusy)?;
        hash.await.ok().flatten().ok_or(TooBusy)
    }

    /// Whether a password is the one that was hashed. Where there is no hash it is not, and finding that out takes as long.
    pub(crate) async fn verify(&self, password: &str, hash: Option<&str>) -> Result<bool, TooBusy> {
        let (done, verified) = oneshot::channel();
        let stored = hash.unwrap_or(&self.decoy).to_owned();
        let job = Job::Verify { password: password.to_owned(), hash: stored, done };
        self.jobs.try_send(job).map_err(|_| TooBusy)?;
        let is_right = verified.await.map_err(|_| TooBusy)?;
        Ok(is_right && hash.is_some())
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
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
        let hash = hasher.hash("correct horse").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_eq!(hasher.verify("correct horse", Some(&hash)).await, Ok(true));
        assert_eq!(hasher.verify("correct horsE", Some(&hash)).await, Ok(false));
        assert_ne!(hash, hasher.hash("correct horse").await.unwrap(), "the salt is another");
        assert_eq!(hasher.verify("correct horse", None).await, Ok(false));
        assert_eq!(hasher.verify("correct horse", Some("no hash")).await, Ok(false));
    }

    #[tokio::test]
    async fn more_than_can_be_remembered_are_asked_to_come_back() {
        let (jobs, _queue) = sync_channel(1);
        let hasher = Hasher { jobs, decoy: "".into() };
        let waiting = tokio::spawn({
            let hasher = hasher.clone();
            async move { hasher.hash("first").await }
        });
        tokio::task::yield_now().await;
        assert_eq!(hasher.verify("second", None).await, Err(TooBusy));
        waiting.abort();
    }
}
