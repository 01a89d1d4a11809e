//! The data folder: what lies in it, and who may work on it.

use crate::Error;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that holds, or will hold, one installation's data.
#[derive(Clone, Debug)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    /// Makes the folder if it is not there. Only its owner may look into it.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| match Error::file(path, source) {
            Error::File { path, source } => Error::Folder { path, source },
            other => other,
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed)?;
        let folder = Self(path.to_owned());
        fs::create_dir_all(folder.journal()).map_err(failed)?;
        Ok(folder)
    }

    /// A folder in which something was stored before.
    pub fn existing(path: &Path) -> Result<Self, Error> {
        let folder = Self(path.to_owned());
        match fs::metadata(folder.database()) {
            Ok(_) => Ok(folder),
            // The journal alone is an accident, which opening the records names.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder.has_journal() => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NoData(path.to_owned())),
            Err(source) => Err(Error::Folder { path: path.to_owned(), source: Arc::new(source) }),
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Claims the folder for one server until the lock is dropped, however the process ends.
    pub fn lock(&self) -> Result<FolderLock, Error> {
        let path = self.0.join("lock");
        let failed = |source| Error::file(&path, source);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                let holder = match pid.trim() {
                    "" => String::new(),
                    pid => format!(" (process {pid})"),
                };
                return Err(Error::InUse { path: self.0.clone(), holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Folder { path: self.0.clone(), source: Arc::new(source) });
            }
        }
        // The number only serves the message above: a full disk must not matter here.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = write!(file, "{}", std::process::id());
        Ok(FolderLock { _file: file })
    }

    /// The process that holds the folder, as it says itself. Of use only while somebody does.
    #[must_use]
    pub fn holder(&self) -> Option<i32> {
        fs::read_to_string(self.0.join("lock")).ok()?.trim().parse().ok()
    }

    /// The database's file.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.0.join("ipse.db")
    }

    /// Whether a server has worked here before.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        fs::read_dir(self.journal()).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Removes the journal, of which everything is in the records: requests are counted elsewhere from now on.
    pub fn leave_journal(&self) -> Result<(), Error> {
        let path = self.journal();
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::file(&path, source)),
            _ => Ok(()),
        }
    }

    /// A folder by its name, whether it is there or not. For those who only look whether a journal lies in it.
    #[must_use]
    pub fn named(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Binds the journal to the records that it is folded into, by the name of their installation. A journal that was
    /// written for others would be charged to keys that only have the same numbers. `unbound` says whether one without a
    /// name is theirs.
    pub(crate) fn bind_journal(&self, installation: &str, unbound: bool) -> Result<bool, Error> {
        let path = self.0.join("installation");
        let bound = match fs::read_to_string(&path) {
            // One that is empty was never written: the power failed before it was.
            Ok(bound) => Some(bound).filter(|bound| !bound.trim().is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::file(&path, source)),
        };
        let theirs = bound.as_deref().map_or(unbound, |bound| bound.trim() == installation);
        if self.has_journal() && !theirs {
            return Ok(false);
        }
        if bound.is_none() || !theirs {
            self.write_durably(&path, installation)?;
        }
        Ok(true)
    }

    /// What tells this folder from those of other machines: drawn once, and copied with it.
    pub(crate) fn name(&self) -> Result<String, Error> {
        let path = self.0.join("folder");
        match fs::read_to_string(&path) {
            Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file(&path, error)),
            _ => {}
        }
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(Error::Random)?;
        let name = format!("{:016x}", u64::from_be_bytes(drawn));
        self.write_durably(&path, &name)?;
        Ok(name)
    }

    /// Writes a small file of the folder so that it is there whole, or not at all, whenever the power fails.
    fn write_durably(&self, path: &Path, text: &str) -> Result<(), Error> {
        let unfinished = path.with_extension("new");
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, path)?;
            File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| Error::file(path, source))
    }

    /// The folder of the journal's segments.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }
}

/// Held by the one server that works on a folder.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_refused_and_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&dir.path().join("a/b")).unwrap();
        let lock = folder.lock().unwrap();
        let error = folder.lock().unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert_eq!(folder.holder(), i32::try_from(std::process::id()).ok());
        drop(lock);
        folder.lock().unwrap();
    }

    #[test]
    fn a_file_in_the_folders_place_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        let error = DataFolder::create(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_folder_that_is_a_file_is_not_said_to_be_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x").unwrap();
        assert!(matches!(DataFolder::existing(&path), Err(Error::Folder { .. })));
    }

    #[test]
    fn an_empty_folder_holds_no_data() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(DataFolder::existing(dir.path()), Err(Error::NoData(_))));
    }
}
