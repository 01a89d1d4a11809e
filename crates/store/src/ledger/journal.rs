//! The journal: charges appended before their replies leave, in segments of a folder.
//!
//! A record holds absolute numbers, so reading one twice, or after it was folded into the database, changes
//! nothing. The page cache keeps records through the death of the process; what must survive the death of the
//! machine is synced by `sync.rs`.

use super::ground::{Disk, DiskFile};
use crate::{BootId, Error, Subject};
use arc_swap::{ArcSwap, Guard};
use ipse_model::Day;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: &[u8; 16] = b"ipse journal 01\n";
const HEADER_BYTES: usize = 40;
pub(super) const ENTRY_BYTES: usize = 40;
const IN_WINDOW: u32 = 1;
const COPIED: u32 = 2;
const ENTRY_MAGIC: u32 = 0x6970_7300;

/// One charge, with everything that stands after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) subject: Subject,
    pub(super) day: Day,
    /// The day's count after this charge.
    pub(super) used: u32,
    /// How far the subject may be served before another mark is durable.
    pub(super) mark: u32,
    /// The generation of the burst window.
    pub(super) resumes: u32,
    /// Whether the request counts in the burst window.
    pub(super) in_window: bool,
    /// Whether it only repeats a moment of the burst window that earlier segments hold as well.
    pub(super) copied: bool,
    /// When it came.
    pub(super) boot_ms: u64,
}

impl Entry {
    pub(super) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = self.unsealed();
        seal(&mut bytes);
        bytes
    }

    /// All of it but the sum that stands before it.
    pub(super) fn unsealed(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = ENTRY_MAGIC | flag(self.in_window, IN_WINDOW) | flag(self.copied, COPIED);
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.subject.number().to_le_bytes());
        bytes[16..20].copy_from_slice(&self.day.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.used.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.mark.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.resumes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.boot_ms.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        let flags = number32(bytes, 4);
        if flags & !(IN_WINDOW | COPIED) != ENTRY_MAGIC || number32(bytes, 0) != crc32fast::hash(&bytes[4..])
        {
            return None;
        }
        Some(Self {
            subject: Subject::from_number(i64::from_le_bytes(eight(bytes, 8))),
            day: Day(number32(bytes, 16)),
            used: number32(bytes, 20),
            mark: number32(bytes, 24),
            resumes: number32(bytes, 28),
            in_window: flags & IN_WINDOW != 0,
            copied: flags & COPIED != 0,
            boot_ms: u64::from_le_bytes(eight(bytes, 32)),
        })
    }
}

/// Puts the sum of a record before it, by which a torn one is known.
fn seal(record: &mut [u8; ENTRY_BYTES]) {
    let check = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&check.to_le_bytes());
}

/// One file of the journal.
#[derive(Debug)]
pub struct Segment<F> {
    file: F,
    path: PathBuf,
    number: u64,
    bytes: AtomicU64,
    /// The latest moment that a record of it tells of.
    latest_ms: AtomicU64,
    /// Set once a write or a sync failed: what follows in this file cannot be trusted to be durable.
    broken: AtomicBool,
}

impl<F: DiskFile> Segment<F> {
    /// Makes all that was written durable. What failed once fails for good: the kernel forgets what it could not write, and
    /// says so only once.
    pub fn sync(&self) -> io::Result<()> {
        if self.broken.load(Ordering::Acquire) {
            return Err(io::Error::other("a write or a sync of this file has failed before"));
        }
        self.file.sync_data().inspect_err(|_| self.broken.store(true, Ordering::Release))
    }

    fn append(&self, records: &[u8], latest_ms: u64) -> Result<(), Error> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Error::JournalBroken);
        }
        // One write: appends of several threads do not mix.
        loop {
            return match self.file.append(records) {
                Ok(written) if written == records.len() => {
                    self.bytes.fetch_add(written as u64, Ordering::Relaxed);
                    self.latest_ms.fetch_max(latest_ms, Ordering::Relaxed);
                    Ok(())
                }
                Ok(_) => {
                    // A torn record: readers find the next whole one, but this one is lost.
                    self.broken.store(true, Ordering::Release);
                    Err(Error::DiskFull(self.path.clone()))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.broken.store(true, Ordering::Release);
                    Err(Error::file(&self.path, error))
                }
            };
        }
    }

    /// The latest moment that a record of it tells of: until a minute after it, a burst window may need it.
    pub(super) fn latest_ms(&self) -> u64 {
        self.latest_ms.load(Ordering::Relaxed)
    }

    /// Makes a segment that begins with `copies`. It appears whole or not at all, so that a reader may take its
    /// copies for what the segments before it hold.
    fn create(
        disk: &impl Disk<File = F>,
        folder: &Path,
        number: u64,
        boot: Option<BootId>,
        copies: &[Entry],
    ) -> Result<Self, Error> {
        let path = folder.join(format!("{number:010}.log"));
        let unfinished = path.with_extension("log.new");
        let failed = |source| Error::file(&path, source);
        let mut header = [0; HEADER_BYTES];
        header[..16].copy_from_slice(MAGIC);
        header[16..32].copy_from_slice(&boot.map_or([0; 16], BootId::to_bytes));
        let check = crc32fast::hash(&header[..32]);
        header[32..36].copy_from_slice(&check.to_le_bytes());
        let mut bytes = header.to_vec();
        copies.iter().for_each(|copy| bytes.extend(copy.to_bytes()));
        // A leftover can only be one whose making was interrupted.
        let file = disk.create(&unfinished).map_err(failed)?;
        let made = write_all(&file, &bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| disk.rename(&unfinished, &path))
            .and_then(|()| disk.sync_folder(folder));
        if let Err(error) = made {
            let _ = disk.remove(&unfinished);
            return Err(failed(error));
        }
        let bytes = AtomicU64::new((copies.len() * ENTRY_BYTES) as u64);
        let latest_ms = AtomicU64::new(copies.iter().map(|copy| copy.boot_ms).max().unwrap_or(0));
        Ok(Self { file, path, number, bytes, latest_ms, broken: AtomicBool::new(false) })
    }
}

/// The journal as the running ledger uses it.
pub(super) struct Journal<D: Disk> {
    disk: D,
    folder: PathBuf,
    boot: Option<BootId>,
    active: ArcSwap<Segment<D::File>>,
    /// Held while segments are made or deleted, so that no two get the same number.
    turning: Mutex<()>,
}

impl<D: Disk> Journal<D> {
    /// Begins a new segment after all that are there, with copies of the burst windows that they hold.
    pub(super) fn begin(
        disk: D,
        folder: &Path,
        boot: Option<BootId>,
        copies: &[Entry],
    ) -> Result<Self, Error> {
        let number = segments(&disk, folder)?.last().map_or(1, |(number, _)| number + 1);
        let active = ArcSwap::from_pointee(Segment::create(&disk, folder, number, boot, copies)?);
        Ok(Self { disk, folder: folder.to_owned(), boot, active, turning: Mutex::new(()) })
    }

    /// Appends a charge. When this returns, the page cache has it. The segment is returned for syncing.
    pub(super) fn append(&self, entry: Entry) -> Result<Arc<Segment<D::File>>, Error> {
        let segment = self.active.load();
        segment.append(&entry.to_bytes(), entry.boot_ms)?;
        Ok(Guard::into_inner(segment))
    }

    /// Appends records of which the latest is of this moment, in one step. They are sealed here: the sums of several are found
    /// side by side.
    pub(super) fn append_all(&self, unsealed: &mut [u8], latest_ms: u64) -> Result<(), Error> {
        let (records, _) = unsealed.as_chunks_mut();
        records.iter_mut().for_each(seal);
        self.active.load().append(unsealed, latest_ms)
    }

    /// Whether the active segment must be left: it is broken.
    pub(super) fn is_broken(&self) -> bool {
        self.active.load().broken.load(Ordering::Acquire)
    }

    /// How much the active segment holds.
    pub(super) fn active_bytes(&self) -> u64 {
        self.active.load().bytes.load(Ordering::Relaxed)
    }

    /// Begins a new segment, with copies of the burst windows if those before it are to be deleted, and returns the
    /// old one. Threads that are just appending may still hold that.
    pub(super) fn rotate(&self, copies: &[Entry]) -> Result<Arc<Segment<D::File>>, Error> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.active.load().number + 1;
        let next = Segment::create(&self.disk, &self.folder, number, self.boot, copies)?;
        Ok(self.active.swap(Arc::new(next)))
    }

    /// Deletes every segment before the active one.
    pub(super) fn remove_older(&self) -> Result<(), Error> {
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let active = self.active.load().number;
        for (number, path) in segments(&self.disk, &self.folder)? {
            if number < active {
                self.disk.remove(&path).map_err(|source| Error::file(&path, source))?;
            }
        }
        // A power cut must not bring marks back that no longer hold.
        let synced = self.disk.sync_folder(&self.folder);
        synced.map_err(|source| Error::file(&self.folder, source))
    }

    /// Deletes a segment whose records are all folded.
    pub(super) fn remove(&self, segment: &Segment<D::File>) -> Result<(), Error> {
        self.disk.remove(&segment.path).map_err(|source| Error::file(&segment.path, source))
    }
}

/// Appends all of it, in as many steps as that takes.
fn write_all(file: &impl DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What one segment holds.
pub(super) struct Contents {
    /// The boot it was written in.
    pub(super) boot: Option<BootId>,
    pub(super) entries: Vec<Entry>,
}

/// Reads all segments, oldest first. Torn records are passed over: their replies never left.
pub(super) fn read(disk: &impl Disk, folder: &Path) -> Result<Vec<Contents>, Error> {
    let mut all = Vec::new();
    for (_, path) in segments(disk, folder)? {
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            // The server has folded and deleted it since the folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::file(&path, error)),
        };
        let Some((header, mut rest)) = bytes.split_at_checked(HEADER_BYTES) else {
            // Its making was interrupted: nothing was appended to it.
            continue;
        };
        if &header[..16] != MAGIC || number32(header, 32) != crc32fast::hash(&header[..32]) {
            // The header is synced before the first record is written, so after a power cut there is none either.
            if rest.is_empty() || bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            return Err(Error::Damaged {
                path,
                what: "it does not begin like a segment of the journal".into(),
            });
        }
        let boot: [u8; 16] = header[16..32].try_into().unwrap_or_default();
        let boot = (boot != [0; 16]).then(|| BootId::from_bytes(boot));
        let mut entries = Vec::with_capacity(rest.len() / ENTRY_BYTES);
        while rest.len() >= ENTRY_BYTES {
            let step = match Entry::from_bytes(&rest[..ENTRY_BYTES]) {
                Some(entry) => {
                    entries.push(entry);
                    ENTRY_BYTES
                }
                None => 1,
            };
            rest = &rest[step..];
        }
        all.push(Contents { boot, entries });
    }
    Ok(all)
}

/// The segments of a folder, oldest first.
fn segments(disk: &impl Disk, folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    let paths = match disk.list(folder) {
        Ok(paths) => paths,
        // A folder that was restored without it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(Error::file(folder, error)),
    };
    for path in paths {
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".log"));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

fn eight(bytes: &[u8; ENTRY_BYTES], at: usize) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    eight
}

#[cfg(test)]
mod tests {
    use super::super::ground::Files;
    use super::*;
    use ipse_model::KeyId;
    use proptest::prelude::*;
    use std::fs;
    use std::io::Write;

    fn entry(used: u32) -> Entry {
        Entry {
            subject: Subject::Key(KeyId(7)),
            day: Day(20_000),
            used,
            mark: 64,
            resumes: 2,
            in_window: true,
            copied: false,
            boot_ms: 123_456_789_012,
        }
    }

    fn read_one(folder: &Path) -> Vec<Entry> {
        read(&Files, folder).unwrap().into_iter().flat_map(|contents| contents.entries).collect()
    }

    #[test]
    fn what_is_appended_is_read_again_over_segments() {
        let dir = tempfile::tempdir().unwrap();
        let boot = BootId::parse("b3e9cacd-dfee-4c38-87d4-6ae39cc71c32");
        let journal = Journal::begin(Files, dir.path(), boot, &[]).unwrap();
        journal.append(entry(1)).unwrap();
        journal.rotate(&[]).unwrap();
        journal.append(entry(2)).unwrap();
        assert_eq!(read_one(dir.path()), [entry(1), entry(2)]);
        assert!(read(&Files, dir.path()).unwrap()[0].boot == boot);
        let next = Journal::begin(Files, dir.path(), None, &[]).unwrap();
        next.append(entry(3)).unwrap();
        assert_eq!(read_one(dir.path()), [entry(1), entry(2), entry(3)]);
        next.remove_older().unwrap();
        assert_eq!(read_one(dir.path()), [entry(3)]);
    }

    #[test]
    fn a_torn_record_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::begin(Files, dir.path(), None, &[]).unwrap();
        let segment = journal.append(entry(1)).unwrap();
        (&segment.file).write_all(&entry(2).to_bytes()[..17]).unwrap();
        journal.append(entry(3)).unwrap();
        (&segment.file).write_all(&entry(4).to_bytes()[..39]).unwrap();
        assert_eq!(read_one(dir.path()), [entry(1), entry(3)]);
    }

    #[test]
    fn a_segment_whose_making_was_interrupted_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0000000001.log"), "").unwrap();
        fs::write(dir.path().join("0000000002.log"), [0; 4096]).unwrap();
        fs::write(dir.path().join("0000000003.log.new"), "ipse").unwrap();
        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        assert_eq!(read_one(dir.path()), []);
        assert_eq!(Journal::begin(Files, dir.path(), None, &[]).unwrap().active.load().number, 3);
    }

    #[test]
    fn segments_that_are_begun_at_once_get_numbers_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::begin(Files, dir.path(), None, &[]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| drop(journal.rotate(&[]).unwrap())));
            }
        });
        assert_eq!(segments(&Files, dir.path()).unwrap().len(), 161);
    }

    #[test]
    fn a_folder_without_a_journal_holds_no_entries() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_one(&dir.path().join("journal")), []);
    }

    #[test]
    fn a_foreign_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0000000001.log"), "x".repeat(100)).unwrap();
        let error = read(&Files, dir.path()).err().unwrap().to_string();
        assert!(error.contains("0000000001.log is damaged"), "{error}");
    }

    #[test]
    fn a_broken_segment_takes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::begin(Files, dir.path(), None, &[]).unwrap();
        journal.active.load().broken.store(true, Ordering::Release);
        assert!(matches!(journal.append(entry(1)), Err(Error::JournalBroken)));
        assert!(journal.is_broken());
        journal.rotate(&[]).unwrap();
        journal.append(entry(1)).unwrap();
    }

    proptest! {
        #[test]
        fn any_entry_survives_its_bytes(
            number in 0i64.., day: u32, used: u32, mark: u32, resumes: u32, in_window: bool,
            copied: bool, boot_ms: u64,
        ) {
            let subject = Subject::from_number(number);
            let entry = Entry { subject, day: Day(day), used, mark, resumes, in_window, copied, boot_ms };
            prop_assert_eq!(Entry::from_bytes(&entry.to_bytes()), Some(entry));
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0..ENTRY_BYTES * 8) {
            let mut bytes = entry(9).to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Entry::from_bytes(&bytes), None);
        }
    }
}
