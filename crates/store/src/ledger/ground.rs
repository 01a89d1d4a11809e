//! What a ledger stands on: the files, records and threads of a machine, or those of a simulation.

use super::sync::Syncer;
use crate::{Error, Records, Subject, UsageRow};
use ipse_model::{Day, KeyId, Now};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use super::journal::Segment;
pub use super::sync::Done;
pub use crate::records::OutcomeRow;

/// Where the files of a journal lie.
pub trait Disk: Clone + Send + Sync + 'static {
    /// A file that is appended to.
    type File: DiskFile;

    /// Begins an empty file, over whatever was left there.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Gives a file another name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which files there are.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The files that there are.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// All that a file holds.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// A file that is appended to.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Appends in one step, and says how much there was room for.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes durable what it holds.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes durable what it holds and all that is known about it.
    fn sync_all(&self) -> io::Result<()>;
}

/// Everything that a ledger does not decide itself.
pub trait Ground: Send + Sync + Sized + 'static {
    /// Where its journal lies.
    type Disk: Disk;

    /// The disk.
    fn disk(&self) -> Self::Disk;

    /// Syncs a segment soon, then calls `done`.
    fn sync_later(&self, segment: Arc<Segment<FileOf<Self>>>, done: Done);

    /// Begins work that goes on even if nobody waits for it.
    fn begin(&self, work: impl Future<Output = ()> + Send + 'static);

    /// Does slow work where it holds up no request. There is no outcome if it was given up.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;

    /// The usage of all subjects on this day and on later ones.
    fn usage_since(&self, day: Day) -> impl Future<Output = Result<Vec<UsageRow>, Error>> + Send;

    /// Notes what a recovery found, in one step with the boot it was done in.
    fn recover(
        &self,
        rows: &[UsageRow],
        outcomes: &[OutcomeRow],
        boot: &str,
        today: Day,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Writes counts and adds outcomes, durably and in one step.
    fn fold(
        &self,
        rows: &[UsageRow],
        outcomes: &[OutcomeRow],
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The same at a clean stop: no mark stands above these counts.
    fn fold_exactly(
        &self,
        rows: &[UsageRow],
        outcomes: &[OutcomeRow],
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Pauses a key, durably, unless it was resumed since. Says whether it was paused by this.
    fn pause_for_burst(
        &self,
        id: KeyId,
        resumes: u32,
        minute: &[u32; 60],
        now: Now,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// What one subject has used on one day.
    fn used(&self, subject: Subject, day: Day) -> impl Future<Output = Result<u32, Error>> + Send;
}

/// A file of the disk that a ledger stands on.
pub type FileOf<G> = <<G as Ground>::Disk as Disk>::File;

/// The disk of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Files;

impl Disk for Files {
    type File = fs::File;

    fn create(&self, path: &Path) -> io::Result<fs::File> {
        let file = fs::File::options().append(true).create(true).open(path)?;
        file.set_len(0)?;
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }
}

impl DiskFile for fs::File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        file.write(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        fs::File::sync_all(self)
    }
}

/// This machine, with its records.
pub struct Machine {
    records: Records,
    syncer: Syncer<fs::File>,
}

impl Machine {
    /// Starts the thread that syncs.
    pub fn new(records: Records) -> io::Result<Self> {
        Ok(Self { records, syncer: Syncer::start()? })
    }
}

impl Ground for Machine {
    type Disk = Files;

    fn disk(&self) -> Files {
        Files
    }

    fn sync_later(&self, segment: Arc<Segment<fs::File>>, done: Done) {
        self.syncer.request(segment, done);
    }

    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(work);
    }

    async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        tokio::task::spawn_blocking(work).await.ok()
    }

    async fn usage_since(&self, day: Day) -> Result<Vec<UsageRow>, Error> {
        self.records.usage_since(day).await
    }

    async fn recover(
        &self,
        rows: &[UsageRow],
        outcomes: &[OutcomeRow],
        boot: &str,
        today: Day,
    ) -> Result<(), Error> {
        self.records.recover(rows, outcomes, boot, today).await
    }

    async fn fold(&self, rows: &[UsageRow], outcomes: &[OutcomeRow]) -> Result<(), Error> {
        self.records.fold(rows, outcomes).await
    }

    async fn fold_exactly(&self, rows: &[UsageRow], outcomes: &[OutcomeRow]) -> Result<(), Error> {
        self.records.fold_exactly(rows, outcomes).await
    }

    async fn pause_for_burst(
        &self,
        id: KeyId,
        resumes: u32,
        minute: &[u32; 60],
        now: Now,
    ) -> Result<bool, Error> {
        self.records.pause_for_burst(id, resumes, minute, now).await
    }

    async fn used(&self, subject: Subject, day: Day) -> Result<u32, Error> {
        self.records.used(subject, day).await
    }
}
