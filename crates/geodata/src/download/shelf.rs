//! The places of one file in the cache folder: the good one, the one that is arriving, and what is known of both.
//!
//! Only `seal` touches the good file, by renaming a verified one over it.

use super::checksum::{self, from_hex, hex};
use super::error::DownloadError;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use tokio::fs::{self, File};
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

/// After so many bytes the arriving file is made durable, so that a power cut costs no more than that.
const SYNC_EVERY_BYTES: u64 = 32 * 1024 * 1024;

/// What is known of a file: where it came from and what its server said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memo {
    /// The SHA-256 of the URL, which itself may hold secrets that do not belong on the disk.
    pub(super) url: String,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// The validator that joins two parts safely. Without one, a cut file is not gone on with.
    pub(super) if_range: Option<String>,
    /// The length of the whole, where the server said it.
    pub(super) length: Option<u64>,
    /// How much of an arriving file is on the disk for certain.
    pub(super) kept: u64,
    /// The SHA-256 of a file that is whole.
    pub(super) sha256: Option<[u8; 32]>,
}

impl Memo {
    fn write(&self) -> String {
        let mut text = format!("url {}\n", self.url);
        let optional = [
            ("etag", self.etag.clone()),
            ("last-modified", self.last_modified.clone()),
            ("if-range", self.if_range.clone()),
            ("length", self.length.map(|length| length.to_string())),
            ("sha256", self.sha256.as_ref().map(hex)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} {value}");
            }
        }
        let _ = writeln!(text, "kept {}", self.kept);
        text
    }

    /// `None` for what we did not write.
    fn read(text: &str) -> Option<Self> {
        let mut memo = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ')?;
            match name {
                "url" => value.clone_into(&mut memo.url),
                "etag" => memo.etag = Some(value.to_owned()),
                "last-modified" => memo.last_modified = Some(value.to_owned()),
                "if-range" => memo.if_range = Some(value.to_owned()),
                "length" => memo.length = Some(value.parse().ok()?),
                "kept" => memo.kept = value.parse().ok()?,
                "sha256" => memo.sha256 = Some(from_hex(value)?),
                _ => return None,
            }
        }
        Some(memo)
    }
}

/// One file's places, held by one download at a time.
pub(super) struct Shelf {
    file: PathBuf,
    part: PathBuf,
    part_memo: PathBuf,
    file_memo: PathBuf,
    folder: PathBuf,
    _lock: std::fs::File,
}

impl Shelf {
    pub(super) async fn open(file: &Path) -> Result<Self, DownloadError> {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&folder).await.map_err(|error| DownloadError::file(&folder, error))?;
        // The lock file stays: whoever removed it could remove the one that another has just opened.
        let lock_path = beside(file, ".lock");
        let failed = |error| DownloadError::file(&lock_path, error);
        let mut options = std::fs::File::options();
        let lock =
            options.read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DownloadError::InUse(file.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self {
            file: file.to_owned(),
            part: beside(file, ".part"),
            part_memo: beside(file, ".part.meta"),
            file_memo: beside(file, ".meta"),
            folder,
            _lock: lock,
        })
    }

    /// What is known of the good file, if it is there and still as it was.
    pub(super) async fn finished(&self) -> Option<Memo> {
        let memo = read_memo(&self.file_memo).await?;
        let length = fs::metadata(&self.file).await.ok()?.len();
        (memo.length == Some(length)).then_some(memo)
    }

    /// What is known of the part that a download can go on with.
    pub(super) async fn arriving(&self) -> Option<Memo> {
        let memo = read_memo(&self.part_memo).await?;
        let length = fs::metadata(&self.part).await.ok()?.len();
        (memo.if_range.is_some() && memo.kept > 0 && memo.kept <= length).then_some(memo)
    }

    /// Begins to write at `offset`; what lies beyond is dropped.
    pub(super) async fn write_from(&self, memo: Memo, offset: u64) -> Result<Arrival<'_>, DownloadError> {
        let failed = |error| DownloadError::file(&self.part, error);
        if offset == 0 {
            // An old memo must not describe a new part.
            remove(&self.part_memo).await?;
        }
        let mut options = File::options();
        let mut part =
            options.write(true).create(true).truncate(false).open(&self.part).await.map_err(failed)?;
        part.set_len(offset).await.map_err(failed)?;
        part.seek(io::SeekFrom::Start(offset)).await.map_err(failed)?;
        Ok(Arrival { shelf: self, part, memo, done: offset })
    }

    /// Forgets the part.
    pub(super) async fn discard(&self) -> Result<(), DownloadError> {
        remove(&self.part_memo).await?;
        remove(&self.part).await
    }

    /// Has the good file fetched again, whatever its server says of it.
    pub(super) async fn doubt(&self) -> Result<(), DownloadError> {
        remove(&self.file_memo).await
    }

    /// Makes the part the good file, after its checksum was found right. Returns its length.
    pub(super) async fn seal(
        &self,
        expected: Option<[u8; 32]>,
        shown_url: &str,
        mut memo: Memo,
    ) -> Result<u64, DownloadError> {
        let failed = |error| DownloadError::file(&self.part, error);
        let part = self.part.clone();
        let hash = move || {
            let file = std::fs::File::open(part)?;
            file.sync_all()?;
            Ok((file.metadata()?.len(), checksum::of_reader(file)?))
        };
        let hashed = tokio::task::spawn_blocking(hash).await.map_err(io::Error::other);
        let (length, found) = hashed.flatten().map_err(failed)?;
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            self.discard().await?;
            return Err(DownloadError::WrongChecksum {
                url: shown_url.to_owned(),
                expected: hex(&expected),
                found: hex(&found),
            });
        }
        memo.length = Some(length);
        memo.kept = length;
        memo.sha256 = Some(found);
        // A file without a memo is fetched again, a memo of another file would be believed: so the old memo goes
        // first and the new one comes last, whenever the power fails.
        remove(&self.file_memo).await?;
        self.sync_folder().await?;
        fs::rename(&self.part, &self.file).await.map_err(|error| DownloadError::file(&self.file, error))?;
        self.sync_folder().await?;
        write_memo(&self.file_memo, &memo).await?;
        remove(&self.part_memo).await?;
        self.sync_folder().await?;
        Ok(length)
    }

    async fn sync_folder(&self) -> Result<(), DownloadError> {
        let failed = |error| DownloadError::file(&self.folder, error);
        File::open(&self.folder).await.map_err(failed)?.sync_all().await.map_err(failed)
    }
}

/// A part that is being written.
pub(super) struct Arrival<'shelf> {
    shelf: &'shelf Shelf,
    part: File,
    memo: Memo,
    done: u64,
}

impl Arrival<'_> {
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), DownloadError> {
        self.part.write_all(bytes).await.map_err(|error| DownloadError::file(&self.shelf.part, error))?;
        self.done += bytes.len() as u64;
        if self.memo.if_range.is_some() && self.done - self.memo.kept >= SYNC_EVERY_BYTES {
            self.keep().await?;
        }
        Ok(())
    }

    /// Leaves the part for the next attempt, or removes it if none can go on with it.
    pub(super) async fn pause(mut self) -> Result<(), DownloadError> {
        if self.memo.if_range.is_some() && self.done > 0 {
            self.keep().await
        } else {
            self.shelf.discard().await
        }
    }

    /// The part is whole.
    pub(super) async fn finish(mut self) -> Result<Memo, DownloadError> {
        self.keep().await?;
        Ok(self.memo)
    }

    async fn keep(&mut self) -> Result<(), DownloadError> {
        let failed = |error| DownloadError::file(&self.shelf.part, error);
        self.part.flush().await.map_err(failed)?;
        self.part.sync_data().await.map_err(failed)?;
        self.memo.kept = self.done;
        write_memo(&self.shelf.part_memo, &self.memo).await
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    name.into()
}

async fn read_memo(path: &Path) -> Option<Memo> {
    Memo::read(&fs::read_to_string(path).await.ok()?)
}

async fn write_memo(path: &Path, memo: &Memo) -> Result<(), DownloadError> {
    let new = beside(path, ".new");
    let write = async {
        let mut file = File::create(&new).await?;
        file.write_all(memo.write().as_bytes()).await?;
        file.flush().await?;
        file.sync_all().await?;
        fs::rename(&new, path).await
    };
    write.await.map_err(|error| DownloadError::file(path, error))
}

async fn remove(path: &Path) -> Result<(), DownloadError> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DownloadError::file(path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_is_read_as_it_was_written() {
        let full = Memo {
            url: "ab".into(),
            etag: Some("W/\"a b\"".into()),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            if_range: Some("\"a\"".into()),
            length: Some(7),
            kept: 5,
            sha256: Some([9; 32]),
        };
        for memo in [full, Memo { url: "ab".into(), ..Memo::default() }] {
            assert_eq!(Memo::read(&memo.write()), Some(memo));
        }
    }

    #[track_caller]
    fn refused(text: &str) {
        assert_eq!(Memo::read(text), None, "{text}");
    }

    #[test]
    fn a_memo_that_is_not_ours_is_none() {
        refused("<html>");
        refused("{\"url\": 1}");
        refused("url a\nkept x\n");
        refused("url a\nlength -1\n");
        refused("url a\nsha256 12\n");
    }

    #[tokio::test]
    async fn a_file_is_downloaded_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/city.gz");
        let first = Shelf::open(&file).await.unwrap();
        let second = Shelf::open(&file).await.err().unwrap();
        assert_eq!(second.to_string(), format!("{} is being downloaded already", file.display()));
        assert!(Shelf::open(&folder.path().join("new/asn.gz")).await.is_ok());
        drop(first);
        assert!(Shelf::open(&file).await.is_ok());
    }
}
