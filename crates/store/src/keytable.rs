//! The whole table of keys in memory, so that the hot path asks no database.

use crate::records::KnownKey;
use crate::spread::Spread;
use crate::{Error, Records};
use ipse_model::{Key, KeyHash, KeyId, Now};
use papaya::HashMap;
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;

/// As many parts of the table are read at the same time.
const PARTS_AHEAD: usize = 3;

/// How long a caller with an unknown key waits for others like it.
const MISSES_APART: Duration = Duration::from_millis(20);

/// How long they wait at most for records that may be away.
const MISSES_WAIT: Duration = Duration::from_millis(250);

/// Every key by the hash of its text. It is read without a lock and follows the records' log of changes.
#[derive(Debug)]
pub struct KeyTable {
    records: Records,
    by_hash: HashMap<KeyHash, Key, Spread>,
    /// Texts that work though their keys were rolled.
    old_texts: HashMap<KeyHash, OldText, Spread>,
    /// Held while the table follows the log.
    followed: Mutex<Followed>,
    /// Keys that are no more, until somebody asks.
    gone: std::sync::Mutex<Vec<KeyId>>,
    /// How many readings of the log have begun.
    readings: AtomicU64,
}

/// A text that a key had before.
#[derive(Clone, Copy, Debug)]
struct OldText {
    /// That of the text it has now.
    now: KeyHash,
    /// The moment from which it is invalid.
    ends_ms: i64,
}

/// What only whoever follows the log needs: where each key stands in the table, to find it again after its text was
/// rolled.
#[derive(Debug, Default)]
struct Followed {
    /// The last change that is in the table.
    seen: i64,
    /// The texts of all keys, by ascending number. A million keys are a few dozen megabytes so; a map would be more than
    /// twice as large.
    texts: Vec<(KeyId, KeyHash)>,
    /// The texts before of those that were rolled.
    old: std::collections::HashMap<KeyId, KeyHash>,
}

impl Followed {
    /// Notes the text of a key, and gives the one before.
    fn text(&mut self, id: KeyId, hash: KeyHash) -> Option<KeyHash> {
        match self.texts.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(place) => Some(std::mem::replace(&mut self.texts[place].1, hash)),
            Err(place) => {
                if self.texts.len() == self.texts.capacity() {
                    // Not the double, as a vector would by itself.
                    self.texts.reserve_exact(self.texts.len() / 16 + 64);
                }
                self.texts.insert(place, (id, hash));
                None
            }
        }
    }
}

impl KeyTable {
    /// Reads all keys.
    pub async fn load(records: &Records) -> Result<Self, Error> {
        let (head, keys) = (records.last_key_change().await?, records.key_count().await?);
        let table = Self {
            by_hash: HashMap::with_capacity_and_hasher(keys, Spread),
            old_texts: HashMap::with_hasher(Spread),
            followed: Mutex::default(),
            gone: std::sync::Mutex::default(),
            readings: AtomicU64::new(0),
            records: records.clone(),
        };
        let mut followed = table.followed.lock().await;
        followed.texts.reserve_exact(keys);
        followed.seen = head;
        table.read_all(&mut followed).await?;
        drop(followed);
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
        by_hash.get(&old.now).copied()
    }

    /// Looks for several keys by the hashes of their texts. Those that are not found may yet be [found](Self::find) otherwise.
    pub fn find_all<'a>(&self, wanted: impl Iterator<Item = (KeyHash, &'a mut Option<Key>)>) {
        let by_hash = self.by_hash.pin();
        for (hash, found) in wanted {
            *found = by_hash.get(&hash).copied();
        }
    }

    /// The key with this hash, even if it was made a moment ago: before a key is said not to exist, the log of changes is
    /// read once more. All who miss within [`MISSES_APART`] share one reading, so that whatever callers make up, the
    /// records are asked a few dozen times a second at most.
    pub async fn find_fresh(&self, hash: &KeyHash, now: Now) -> Option<Key> {
        match self.find(hash, now) {
            Some(key) => Some(key),
            // In a box, because few wait for this, and room for it is moved with every request.
            None => Box::pin(self.find_again(hash, now)).await,
        }
    }

    async fn find_again(&self, hash: &KeyHash, now: Now) -> Option<Key> {
        let missed = self.readings.load(Ordering::Acquire);
        let mut followed = self.followed.lock().await;
        // Nobody has begun to read since we missed: we do, for all who come meanwhile.
        if self.readings.load(Ordering::Acquire) == missed {
            tokio::time::sleep(MISSES_APART).await;
            // If the records cannot be asked, what is known is what counts; the regular refresh tells of the failure.
            let _ = tokio::time::timeout(MISSES_WAIT, self.follow(&mut followed)).await;
        }
        drop(followed);
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
        self.follow(&mut *self.followed.lock().await).await
    }

    async fn follow(&self, followed: &mut Followed) -> Result<(), Error> {
        self.readings.fetch_add(1, Ordering::AcqRel);
        let head = self.records.last_key_change().await?;
        if head == followed.seen {
            return Ok(());
        }
        let gone = match self.records.keys_changed_since(followed.seen).await? {
            Some(mut changed) => {
                changed.sort_unstable_by_key(|(id, _)| *id);
                let mut gone = Vec::new();
                for (id, found) in changed {
                    match found {
                        Some(known) => self.put(followed, known),
                        None => gone.push(id),
                    }
                }
                gone
            }
            // The log no longer reaches back to what we saw: compare everything.
            None => {
                let ids = self.read_all(followed).await?;
                let is_gone = |id: &KeyId| ids.binary_search(id).is_err();
                followed.texts.iter().map(|(id, _)| *id).filter(is_gone).collect()
            }
        };
        self.remove(followed, &gone);
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).extend(gone);
        followed.seen = head;
        Ok(())
    }

    /// Reads all keys as they are now, and gives their numbers in ascending order.
    async fn read_all(&self, followed: &mut Followed) -> Result<Vec<KeyId>, Error> {
        let mut ids = Vec::new();
        // A part at a time, because what a million rows take on their way is never needed at once; and the next ones are read
        // while this one is put in its place.
        let (mut ahead, mut next) = (VecDeque::new(), Some(KeyId(0)));
        loop {
            while let Some(after) = next.filter(|_| ahead.len() < PARTS_AHEAD) {
                next = self.records.end_of_part(after).await?;
                ahead.push_back(self.records.read_ahead(after, next));
            }
            let Some(reading) = ahead.pop_front() else { return Ok(ids) };
            let part = reading.await?;
            ids.extend(part.iter().map(|known| known.key.id));
            part.into_iter().for_each(|known| self.put(followed, known));
        }
    }

    /// Puts a key where it belongs now, and only then takes it from where it was: whoever looks meanwhile finds it.
    fn put(&self, followed: &mut Followed, known: KnownKey) {
        let KnownKey { key, hash, old } = known;
        self.by_hash.pin().insert(hash, key);
        let old_before = match old {
            Some((old, ends_ms)) => {
                self.old_texts.pin().insert(old, OldText { now: hash, ends_ms });
                followed.old.insert(key.id, old)
            }
            None if followed.old.is_empty() => None,
            None => followed.old.remove(&key.id),
        };
        if let Some(before) = followed.text(key.id, hash)
            && before != hash
        {
            self.by_hash.pin().remove(&before);
        }
        if let Some(before) = old_before.filter(|before| old.is_none_or(|(old, _)| old != *before)) {
            self.old_texts.pin().remove(&before);
        }
    }

    /// Forgets keys, whose numbers are in ascending order.
    fn remove(&self, followed: &mut Followed, gone: &[KeyId]) {
        if gone.is_empty() {
            return;
        }
        followed.texts.retain(|(id, hash)| {
            let stays = gone.binary_search(id).is_err();
            if !stays {
                self.by_hash.pin().remove(hash);
            }
            stays
        });
        for old in gone.iter().filter_map(|id| followed.old.remove(id)) {
            self.old_texts.pin().remove(&old);
        }
    }
}
