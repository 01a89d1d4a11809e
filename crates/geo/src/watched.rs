//! A snapshot's file that may be replaced while it is served.
//!
//! Files of operators are read whole and never mapped: a mapped file that is cut off kills the process.

use crate::atlas::Atlas;
use crate::error::Error;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More than any snapshot of the internet, and less than the memory of a small machine.
const LARGEST: u64 = 1 << 30;

/// A file, and what it was like when it was last looked at.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    seen: Option<Stamp>,
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: u64,
    bytes: u64,
    written: (i64, i64),
    /// Also when somebody is allowed to read it who was not.
    changed: (i64, i64),
}

impl Watched {
    /// A file that was never looked at.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is another file than the last time. Where there is none at all, nothing has changed.
    pub fn has_changed(&mut self) -> bool {
        // Taken before the file is read: what changes meanwhile is seen the next time.
        let now = std::fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        now.is_some() && std::mem::replace(&mut self.seen, now) != now
    }

    /// Reads the file as it is now.
    pub fn load(&self) -> Result<Atlas, Error> {
        Atlas::read(&read(&self.path)?)
    }
}

/// Reads a snapshot's file whole, unless it is larger than any.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    // Opening a pipe would wait for whoever writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::NotAFile);
    }
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > LARGEST {
        return Err(Error::TooLarge { found: bytes, limit: LARGEST });
    }
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    // It may grow while it is read.
    file.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: metadata.ino(),
            bytes: metadata.len(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Draft};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, folder.path()] {
            let error = read(path).unwrap_err().to_string();
            assert_eq!(error, "it is a folder, a device or a pipe, and no file");
        }
    }

    #[test]
    fn a_file_that_appears_is_replaced_or_goes_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("geo.ipse");
        let mut watched = Watched::new(path.clone());
        assert!(!watched.has_changed());
        assert!(watched.load().map(drop).unwrap_err().to_string().contains("cannot read it"));

        std::fs::write(&path, "half").unwrap();
        assert!(watched.has_changed() && !watched.has_changed());
        assert!(watched.load().map(drop).unwrap_err().to_string().contains("no snapshot"));

        let beside = folder.path().join("new");
        std::fs::write(&beside, Draft::new(About::default()).write().unwrap()).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        assert!(watched.has_changed());
        assert!(watched.load().is_ok());

        let changed = || std::fs::metadata(&path).unwrap().ctime_nsec();
        let before = changed();
        // The clock of a file system may be coarse.
        while changed() == before {
            std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        }
        assert!(watched.has_changed(), "who may read it counts");

        std::fs::remove_file(&path).unwrap();
        assert!(!watched.has_changed());
    }

    #[test]
    fn a_file_larger_than_any_snapshot_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LARGEST + 1).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("larger than any snapshot"));
    }
}
