//! A disk of which only what was synced is sure to survive a power cut, and which may fail or be left in the middle of anything.

use ipse_store::ground::{Disk, DiskFile};
use ipse_testkit::Random;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a file holds.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What lies behind this was not synced.
    synced: usize,
    /// What a sync failed to write: the kernel does not try again.
    doubtful: Vec<Range<usize>>,
}

/// A change of the folder that was not synced.
#[derive(Clone, Debug)]
enum Change {
    Named(PathBuf, usize),
    Removed(PathBuf),
}

/// What goes wrong next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A write has room for a part of it, or none.
    Write,
    /// A sync fails, and says so once.
    Sync,
}

/// The disk itself, which outlives every process.
#[derive(Debug)]
struct Platter {
    random: Random,
    contents: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    failure: Option<Failure>,
    /// The process that may use it. What others do has no effect.
    process: u64,
    /// After so many steps the process dies.
    steps_left: Option<u64>,
}

/// The disk as one process sees it.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    platter: Arc<Mutex<Platter>>,
    process: u64,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    drive: Drive,
    content: usize,
}

impl Drive {
    pub(super) fn new(random: Random) -> Self {
        let platter = Platter {
            random,
            contents: Vec::new(),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            changes: Vec::new(),
            failure: None,
            process: 0,
            steps_left: None,
        };
        Self { platter: Arc::new(Mutex::new(platter)), process: 0 }
    }

    /// The process ends here; the page cache stays. The next one has another number.
    pub(super) fn next_process(&mut self) {
        let mut platter = self.lock();
        platter.process += 1;
        platter.steps_left = None;
        platter.failure = None;
        let process = platter.process;
        drop(platter);
        self.process = process;
    }

    /// The process will die in the middle of its work.
    pub(super) fn die_after(&self, steps: u64) {
        self.lock().steps_left = Some(steps);
    }

    pub(super) fn fail_next(&self, failure: Failure) {
        self.lock().failure = Some(failure);
    }

    /// Whether the process still lives.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().process == self.process
    }

    /// One step of the process: an error if it is dead. Whether it dies after it is told by [`Drive::is_alive`].
    pub(super) fn step(&self) -> io::Result<()> {
        let mut platter = self.lock();
        platter.may(self.process)?;
        platter.count_down();
        Ok(())
    }

    /// The power goes: the page cache is lost, but for what happened to be written.
    pub(super) fn lose_power(&self) {
        let mut platter = self.lock();
        let Platter { random, contents, names, durable, changes, .. } = &mut *platter;
        // Changes of the folder reach the disk in their order.
        let kept = random.index(changes.len() + 1);
        for change in changes.drain(..).take(kept) {
            match change {
                Change::Named(path, content) => {
                    durable.retain(|_, known| *known != content);
                    durable.insert(path, content);
                }
                Change::Removed(path) => drop(durable.remove(&path)),
            }
        }
        names.clone_from(durable);
        for content in contents.iter_mut() {
            let unsynced = content.synced..content.bytes.len();
            let end = unsynced.start + random.index(unsynced.len() + 1);
            content.bytes.truncate(end);
            // Of what lies before the new end, pages may be missing.
            if end > unsynced.start && random.below(3) == 0 {
                let from = unsynced.start + random.index(end - unsynced.start);
                content.doubtful.push(from..end);
            }
            for lost in std::mem::take(&mut content.doubtful) {
                let lost = lost.start.min(content.bytes.len())..lost.end.min(content.bytes.len());
                if random.below(4) > 0 {
                    content.bytes[lost].fill(0);
                }
            }
            content.synced = content.bytes.len();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.platter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Platter {
    fn may(&self, process: u64) -> io::Result<()> {
        if process == self.process { Ok(()) } else { Err(io::Error::other("the process is dead")) }
    }

    fn count_down(&mut self) {
        match &mut self.steps_left {
            Some(0) => {
                self.steps_left = None;
                self.process += 1;
            }
            Some(left) => *left -= 1,
            None => {}
        }
    }

    /// A step that changes something: the process may die before it or after it.
    fn change<T>(&mut self, process: u64, change: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        self.may(process)?;
        let is_last = self.steps_left == Some(0);
        if is_last && self.random.below(2) == 0 {
            self.count_down();
            return self.may(process).and(Err(io::ErrorKind::Other.into()));
        }
        let changed = change(self);
        self.count_down();
        self.may(process)?;
        changed
    }

    fn fails(&mut self, failure: Failure) -> bool {
        let fails = self.failure == Some(failure);
        if fails {
            self.failure = None;
        }
        fails
    }
}

impl Disk for Drive {
    type File = Open;

    fn create(&self, path: &Path) -> io::Result<Open> {
        let content = self.lock().change(self.process, |platter| {
            platter.contents.push(Content::default());
            let content = platter.contents.len() - 1;
            platter.names.insert(path.to_owned(), content);
            platter.changes.push(Change::Named(path.to_owned(), content));
            Ok(content)
        })?;
        Ok(Open { drive: self.clone(), content })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lock().change(self.process, |platter| {
            let content = platter.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            platter.names.insert(to.to_owned(), content);
            platter.changes.push(Change::Named(to.to_owned(), content));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().change(self.process, |platter| {
            platter.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
            platter.changes.push(Change::Removed(path.to_owned()));
            Ok(())
        })
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.lock().change(self.process, |platter| {
            platter.durable = platter.names.clone();
            platter.changes.clear();
            Ok(())
        })
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let platter = self.lock();
        let content = platter.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(platter.contents[*content].bytes.clone())
    }
}

impl DiskFile for Open {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.drive.lock().change(self.drive.process, |platter| {
            let mut room = bytes.len();
            if platter.fails(Failure::Write) {
                room = platter.random.index(bytes.len());
                if room == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            platter.contents[self.content].bytes.extend(&bytes[..room]);
            Ok(room)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.drive.lock().change(self.drive.process, |platter| {
            let fails = platter.fails(Failure::Sync);
            let content = &mut platter.contents[self.content];
            let unsynced = std::mem::replace(&mut content.synced, content.bytes.len())..content.bytes.len();
            if fails {
                content.doubtful.push(unsynced);
                return Err(io::Error::other("the disk could not be written"));
            }
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}
