//! The whole table of keys in memory, so that the hot path asks no database.

use crate::{Error, Records};
use ipse_model::{Key, KeyHash, KeyId};
use papaya::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// Every key by the hash of its text. It is read without a lock and follows the records' log of changes.
#[derive(Debug)]
pub struct KeyTable {
    by_hash: HashMap<KeyHash, Key>,
    /// Where each key stands in `by_hash`, to find it again after its text was rolled.
    hash_of: HashMap<KeyId, KeyHash>,
    /// The last change that is in the table.
    seen: AtomicI64,
}

impl KeyTable {
    /// Reads all keys.
    pub async fn load(records: &Records) -> Result<Self, Error> {
        let table = Self { by_hash: HashMap::new(), hash_of: HashMap::new(), seen: AtomicI64::new(0) };
        let head = records.last_key_change().await?;
        for (hash, key) in records.all_keys().await? {
            table.put(hash, key);
        }
        table.seen.store(head, Ordering::Release);
        Ok(table)
    }

    /// The key with this hash.
    #[must_use]
    pub fn find(&self, hash: &KeyHash) -> Option<Key> {
        self.by_hash.pin().get(hash).copied()
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

    /// Takes over what has changed since the last time. Returns the keys that are no more. One caller at a time.
    pub async fn refresh(&self, records: &Records) -> Result<Vec<KeyId>, Error> {
        let seen = self.seen.load(Ordering::Acquire);
        let head = records.last_key_change().await?;
        if head == seen {
            return Ok(Vec::new());
        }
        let mut gone = Vec::new();
        match records.keys_changed_since(seen).await? {
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
                let all = records.all_keys().await?;
                let ids: std::collections::HashSet<KeyId> = all.iter().map(|(_, key)| key.id).collect();
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
        self.seen.store(head, Ordering::Release);
        Ok(gone)
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
