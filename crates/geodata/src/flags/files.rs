//! An operator's own files of flags, as they lie on the disk.

use super::{BadLines, Flags};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// The content of an operator's files, read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorFiles(Vec<(String, String)>);

/// A file of an operator that is not in force.
#[derive(Debug, thiserror::Error)]
pub enum OperatorFileError {
    /// The system does not let us read it.
    #[error("cannot read the flags in {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Lines in it that cannot be understood.
    #[error(transparent)]
    Lines(#[from] BadLines),
}

impl OperatorFiles {
    /// Reads the files.
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Self, OperatorFileError> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path)
                .map_err(|source| OperatorFileError::Read { path: path.to_owned(), source })?;
            Ok((path.display().to_string(), text))
        };
        paths.iter().map(|path| read(path.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// The built-in lists, and what the files say besides.
    pub fn flags(&self) -> Result<Flags, OperatorFileError> {
        let mut flags = Flags::built_in();
        for (name, text) in &self.0 {
            flags.add_operator_file(name, text)?;
        }
        Ok(flags)
    }

    /// What tells these files from any others. Their names count, because reasons hold them.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut sum = Sha256::new();
        for text in self.0.iter().flat_map(|(name, text)| [name, text]) {
            sum.update((text.len() as u64).to_le_bytes());
            sum.update(text.as_bytes());
        }
        sum.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_order_and_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.txt");
        std::fs::write(&path, "deny AS64500 proxy\n").unwrap();
        let files = OperatorFiles::read(std::slice::from_ref(&path)).unwrap();
        assert!(files.flags().unwrap().verdict(64_500, None).proxy.is_flagged());
        std::fs::write(&path, "deny AS64501 proxy\n").unwrap();
        let changed = OperatorFiles::read(std::slice::from_ref(&path)).unwrap();
        assert_ne!(files.digest(), changed.digest());
        assert_ne!(files.digest(), OperatorFiles::default().digest());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.txt");
        let shown = path.display();
        let sentence = |path: &Path| {
            let read = OperatorFiles::read(&[path]);
            read.and_then(|files| files.flags()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(sentence(&path).starts_with(&format!("cannot read the flags in {shown}: ")));
        std::fs::write(&path, "deny me\n").unwrap();
        assert!(sentence(&path).starts_with(&format!("{shown}, line 1: `me` is not the number")));
    }
}
