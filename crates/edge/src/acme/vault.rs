//! What is kept of an authority in the data folder: our account with it and the certificate that it issued, both with
//! their secrets. Each authority has a folder of its own, so that nothing of one is ever shown to another.

use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of one authority.
#[derive(Clone, Debug)]
pub(super) struct Vault(PathBuf);

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// The account, as JSON.
    Account,
    /// A private key and, behind it, the certificate with its chain, as PEM. One file, so that no moment exists at which
    /// only half of them is new.
    Certificate,
}

impl Vault {
    /// The vault of the authority with this directory, within the folder of all. Nothing is made until something is to
    /// be kept.
    pub(super) fn new(folder: &Path, directory: &str) -> Self {
        let host = directory.split("//").nth(1).and_then(|rest| rest.split(['/', ':', '?']).next());
        let allowed = |c: &char| c.is_ascii_alphanumeric() || ".-".contains(*c);
        let host: String = host.unwrap_or_default().chars().filter(allowed).take(100).collect();
        let hash = Sha256::digest(directory.as_bytes());
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self(folder.join(format!("{}-{hash}", host.trim_start_matches('.'))))
    }

    /// Where something is kept.
    pub(super) fn path(&self, kept: Kept) -> PathBuf {
        self.0.join(match kept {
            Kept::Account => "account.json",
            Kept::Certificate => "certificate.pem",
        })
    }

    /// What was kept, if anything was.
    pub(super) fn read(&self, kept: Kept) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(kept)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps something in one step, for nobody but us to read. It waits for the disk.
    pub(super) fn keep(&self, kept: Kept, bytes: &[u8]) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0)?;
        let path = self.path(kept);
        let mut name = path.clone().into_os_string();
        name.push(".new");
        let new = PathBuf::from(name);
        // One that was left behind may have been made by somebody with other ideas of who may read it.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.0)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const DIRECTORY: &str = "https://acme.example/directory";

    #[test]
    fn what_is_kept_is_read_again_and_is_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(&folder.path().join("acme"), DIRECTORY);
        for kept in [Kept::Account, Kept::Certificate] {
            assert_eq!(vault.read(kept).unwrap(), None);
            for content in [&b"first"[..], b"second"] {
                vault.keep(kept, content).unwrap();
                assert_eq!(vault.read(kept).unwrap().as_deref(), Some(content));
            }
            let mode = fs::metadata(vault.path(kept)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{kept:?}");
        }
        assert_eq!(fs::metadata(&vault.0).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&vault.0).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_half_written_file_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), DIRECTORY);
        vault.keep(Kept::Account, b"whole").unwrap();
        fs::write(vault.0.join("account.json.new"), "ha").unwrap();
        assert_eq!(vault.read(Kept::Account).unwrap().unwrap(), b"whole");
        vault.keep(Kept::Account, b"other").unwrap();
        assert_eq!(vault.read(Kept::Account).unwrap().unwrap(), b"other");
    }

    #[test]
    fn every_authority_has_a_folder_with_a_readable_name() {
        let name = |directory: &str| Vault::new(Path::new("/"), directory).0.display().to_string();
        assert!(name(DIRECTORY).starts_with("/acme.example-"), "{}", name(DIRECTORY));
        assert_eq!(name(DIRECTORY), name(DIRECTORY));
        assert_ne!(name(DIRECTORY), name("https://acme.example/other"));
        assert_ne!(name("https://acme.example:1/"), name("https://acme.example:2/"));
        assert!(name("https://[::1]:14000/dir").starts_with("/-"), "{}", name("https://[::1]:14000/dir"));
        assert!(name("https://../x").starts_with("/-"), "{}", name("https://../x"));
    }
}
