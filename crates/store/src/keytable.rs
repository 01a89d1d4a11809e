//! The whole table of keys in memory, so that the hot path asks no database.

use crate::records::KnownKey;
use crate::{Error, Records};
use ipse_model::{Key, KeyHash, KeyId, Now};
use papaya::HashMap;
use std::collections::HashSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a caller with an unknown key waits for others like it.
const MISSES_APART: Duration = Duration::from_millis(20);

/// How long they wait at most for records that may be away.
const MISSES_WAIT: Duration = Duration::from_millis(250);

/// Every key by the hash of its text. It is read without a lock and follows the records' log of changes.
#[derive(Debug)]
pub struct KeyTable {
    records: Records,
    by_hash: HashMap<KeyHash, Key>,
    /// Texts that work though their keys were rolled.
    old_texts: HashMap<KeyHash, OldText>,
    /// Where each key stands in the other two, to find it again after its text was rolled.
    texts_of: HashMap<KeyId, Texts>,
    /// The last change that is in the table. Held while the table follows the log.
    seen: Mutex<i64>,
    /// Keys that are no more, until somebody asks.
    gone: std::sync::Mutex<Vec<KeyId>>,
    /// How many readings of the log have begun.
    readings: AtomicU64,
}

/// A text that a key had before.
#[derive(Clone, Copy, Debug)]
struct OldText {
    key: KeyId,
    /// The moment from which it is invalid.
    ends_ms: i64,
}

/// What one key is known by.
#[derive(Clone, Copy, Debug)]
struct Texts {
    hash: KeyHash,
    old: Option<KeyHash>,
}

impl KeyTable {
    /// Reads all keys.
    pub async fn load(records: &Records) -> Result<Self, Error> {
        let table = Self {
            by_hash: HashMap::new(),
            old_texts: HashMap::new(),
            texts_of: HashMap::new(),
            seen: Mutex::new(0),
            gone: std::sync::Mutex::default(),
            readings: AtomicU64::new(0),
            records: records.clone(),
        };
        let head = records.last_key_change().await?;
        for known in records.all_keys().await? {
            table.put(known);
        }
        *table.seen.lock().await = head;
        Ok(table)
    }

    /// The key with this hash: that of its text, or of the one before as long as that still works.
    #[must_use]
    pub fn find(&self, hash: &KeyHash, now: Now) -> Option<Key> {
        let by_hash = self.by_hash.pin();
        if let Some(key) = by_hash.get(hash) {
            return Some(*key);
        }
        let old = *self.old_texts.pin().get(hash)?;
        if old.ends_ms <= now.unix_ms {
            return None;
        }
        // A key is put under its new text before it is taken from under the old one: it is found under one of them.
        let texts = *self.texts_of.pin().get(&old.key)?;
        by_hash.get(&texts.hash).copied()
    }

    /// The key with this hash, even if it was made a moment ago: before a key is said not to exist, the log of changes is
    /// read once more. All who miss within [`MISSES_APART`] share one reading, so that whatever callers make up, the
    /// records are asked a few dozen times a second at most.
    pub async fn find_fresh(&self, hash: &KeyHash, now: Now) -> Option<Key> {
        if let Some(key) = self.find(hash, now) {
            return Some(key);
        }
        let missed = self.readings.load(Ordering::Acquire);
        let mut seen = self.seen.lock().await;
        // Nobody has begun to read since we missed: we do, for all who come meanwhile.
        if self.readings.load(Ordering::Acquire) == missed {
            tokio::time::sleep(MISSES_APART).await;
            // If the records cannot be asked, what is known is what counts; the regular refresh tells of the failure.
            let _ = tokio::time::timeout(MISSES_WAIT, self.follow(&mut seen)).await;
        }
        drop(seen);
        self.find(hash, now)
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

    /// Takes over what has changed since the last time, and forgets old texts that have ended.
    pub async fn refresh(&self, now: Now) -> Result<(), Error> {
        self.old_texts.pin().retain(|_, old| old.ends_ms > now.unix_ms);
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
                        Some(known) => self.put(known),
                        None => gone.push(id),
                    }
                }
            }
            // The log no longer reaches back to what we saw: compare everything.
            None => {
                let all = self.records.all_keys().await?;
                let ids: HashSet<KeyId> = all.iter().map(|known| known.key.id).collect();
                gone.extend(self.texts_of.pin().keys().filter(|id| !ids.contains(id)));
                all.into_iter().for_each(|known| self.put(known));
            }
        }
        for id in &gone {
            if let Some(texts) = self.texts_of.pin().remove(id) {
                self.by_hash.pin().remove(&texts.hash);
                if let Some(old) = &texts.old {
                    self.old_texts.pin().remove(old);
                }
            }
        }
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
        *seen = head;
        Ok(())
    }

    /// Puts a key where it belongs now, and only then takes it from where it was: whoever looks meanwhile finds it.
    fn put(&self, known: KnownKey) {
        let KnownKey { key, hash, old } = known;
        self.by_hash.pin().insert(hash, key);
        if let Some((old, ends_ms)) = old {
            self.old_texts.pin().insert(old, OldText { key: key.id, ends_ms });
        }
        let old = old.map(|(old, _)| old);
        let Some(before) = self.texts_of.pin().insert(key.id, Texts { hash, old }).copied() else { return };
        if before.hash != hash {
            self.by_hash.pin().remove(&before.hash);
        }
        if let Some(gone) = before.old.filter(|gone| Some(*gone) != old) {
            self.old_texts.pin().remove(&gone);
        }
    }
}
