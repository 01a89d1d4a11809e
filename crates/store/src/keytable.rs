//! The whole table of keys in memory, so that the hot path asks no database.

use crate::{Error, Records};
use ipse_model::{Key, KeyHash, KeyId};
use papaya::HashMap;
use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a caller with an unknown key waits for others like it.
const MISSES_APART: Duration = Duration::from_millis(20);

/// Every key by the hash of its text. It is read without a lock and follows the records' log of changes.
#[derive(Debug)]
pub struct KeyTable {
    records: Records,
    by_hash: HashMap<KeyHash, Key>,
    /// Where each key stands in `by_hash`, to find it again after its text was rolled.
    hash_of: HashMap<KeyId, KeyHash>,
    /// The last change that is in the table. Held while the table follows the log.
    seen: Mutex<i64>,
    /// Keys that are no more, until somebody asks.
    gone: std::sync::Mutex<Vec<KeyId>>,
    /// How many readings of the log have begun.
    readings: AtomicU64,
}

impl KeyTable {
    /// Reads all keys.
    pub async fn load(records: &Records) -> Result<Self, Error> {
        let table = Self {
            by_hash: HashMap::new(),
            hash_of: HashMap::new(),
            seen: Mutex::new(0),
            gone: std::sync::Mutex::default(),
            readings: AtomicU64::new(0),
            records: records.clone(),
        };
        let head = records.last_key_change().await?;
        for (hash, key) in records.all_keys().await? {
            table.put(hash, key);
        }
        *table.seen.lock().await = head;
        Ok(table)
    }

    /// The key with this hash.
    #[must_use]
    pub fn find(&self, hash: &KeyHash) -> Option<Key> {
        self.by_hash.pin().get(hash).copied()
    }

    /// The key with this hash, even if it was made a moment ago: before a key is said not to exist, the log of changes is
    /// read once more. All who miss within [`MISSES_APART`] share one reading, so that whatever callers make up, the
    /// records are asked a few dozen times a second at most.
    pub async fn find_fresh(&self, hash: &KeyHash) -> Option<Key> {
        if let Some(key) = self.find(hash) {
            return Some(key);
        }
        let missed = self.readings.load(Ordering::Acquire);
        let mut seen = self.seen.lock().await;
        // Nobody has begun to read since we missed: we do, for all who come meanwhile.
        if self.readings.load(Ordering::Acquire) == missed {
            tokio::time::sleep(MISSES_APART).await;
            // If the records cannot be asked, what is known is what counts; the regular refresh tells of the failure.
            let _ = self.follow(&mut seen).await;
        }
        drop(seen);
        self.find(hash)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Whether there is no key at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys that were found to be no more since the last time.
    pub fn take_gone(&self) -> Vec<KeyId> {
        std::mem::take(&mut self.gone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what has changed since the last time.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.follow(&mut *self.seen.lock().await).await
    }

    async fn follow(&self, seen: &mut i64) -> Result<(), Error> {
        self.readings.fetch_add(1, Ordering::AcqRel);
        let head = self.records.last_key_change().await?;
        if head == *seen {
            return Ok(());
        }
        let mut gone = Vec::new();
        match self.records.keys_changed_since(*seen).await? {
            Some(changed) => {
                for (id, found) in changed {
                    match found {
                        Some((hash, key)) => self.put(hash, key),
                        None => gone.push(id),
                    }
                }
            }
            // The log no longer reaches back to what we saw: compare everything.
            None => {
                let all = self.records.all_keys().await?;
                let ids: HashSet<KeyId> = all.iter().map(|(_, key)| key.id).collect();
                gone.extend(self.hash_of.pin().keys().filter(|id| !ids.contains(id)));
                for (hash, key) in all {
                    self.put(hash, key);
                }
            }
        }
        for id in &gone {
            if let Some(hash) = self.hash_of.pin().remove(id) {
                self.by_hash.pin().remove(hash);
            }
        }
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
        *seen = head;
        Ok(())
    }

    fn put(&self, hash: KeyHash, key: Key) {
        self.by_hash.pin().insert(hash, key);
        if let Some(old) = self.hash_of.pin().insert(key.id, hash).copied()
            && old != hash
        {
            self.by_hash.pin().remove(&old);
        }
    }
}
