//! Links to the doctor: which tokens open it, and until when. Only hashes are kept.
//!
//! They lie in one small file, which is written by whoever makes a link and read by the server only when somebody asks
//! for the doctor.

use crate::{DataFolder, Error};
use ipse_model::{DoctorToken, Now};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The links of one data folder.
#[derive(Clone, Debug)]
pub struct DoctorLinks(PathBuf);

/// One link: a hash, and the second at which it ends.
struct Link {
    hash: String,
    ends: i64,
}

/// More than one operator needs at once.
const MOST: usize = 8;

impl DoctorLinks {
    /// How long a link opens the doctor, in seconds.
    pub const LIFETIME: i64 = 600;

    /// The links that lie in this folder.
    #[must_use]
    pub fn of(folder: &DataFolder) -> Self {
        Self(folder.path().join("doctor"))
    }

    /// Makes a link; gives its token, and the moment of its end in seconds since 1970.
    pub fn make(&self, now: Now) -> Result<(DoctorToken, i64), Error> {
        let token = DoctorToken::from_random(getrandom::fill).map_err(Error::Random)?;
        let ends = seconds(now) + Self::LIFETIME;
        self.add(Link { hash: token.hash(), ends }, now).map_err(|source| Error::file(&self.0, source))?;
        Ok((token, ends))
    }

    /// Whether a text is a token that opens the doctor now.
    #[must_use]
    pub fn admit(&self, text: &str, now: Now) -> bool {
        let Ok(token) = text.parse::<DoctorToken>() else { return false };
        let hash = token.hash();
        // What is compared are hashes, so how long it takes tells nothing of a token.
        self.read().iter().any(|link| link.hash == hash && seconds(now) < link.ends)
    }

    /// What was kept. A file that is not there or damaged holds nothing worth more than making a new link.
    fn read(&self) -> Vec<Link> {
        let link = |line: &str| {
            let (hash, ends) = line.split_once(' ')?;
            Some(Link { hash: hash.to_owned(), ends: ends.parse().ok()? })
        };
        fs::read_to_string(&self.0).unwrap_or_default().lines().filter_map(link).collect()
    }

    /// Replaces the file by one that holds this link as well, and of the others the newest that have not ended.
    fn add(&self, link: Link, now: Now) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        // Two who make a link at once must not forget each other's.
        let lock = File::open(folder)?;
        lock.lock()?;
        let mut links = self.read();
        links.retain(|link| seconds(now) < link.ends);
        links.push(link);
        links.drain(..links.len().saturating_sub(MOST));
        let text: String = links.iter().map(|link| format!("{} {}\n", link.hash, link.ends)).collect();
        let unfinished = self.0.with_extension("new");
        let written = private(&unfinished)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| give_to_owner(&unfinished, folder))
            .and_then(|()| fs::rename(&unfinished, &self.0));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

fn seconds(now: Now) -> i64 {
    now.unix_ms.div_euclid(1000)
}

/// A new file that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    // A leftover can only be one whose making was interrupted.
    let _ = fs::remove_file(path);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The server must be able to read what root has written.
fn give_to_owner(path: &Path, folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (file, folder) = (fs::metadata(path)?, fs::metadata(folder)?);
        if file.uid() != folder.uid() {
            std::os::unix::fs::chown(path, Some(folder.uid()), Some(folder.gid()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { unix_ms: 1_794_744_000_000, boot_ms: 0 };

    fn later(seconds: i64) -> Now {
        Now { unix_ms: NOW.unix_ms + seconds * 1000, ..NOW }
    }

    fn links() -> (tempfile::TempDir, DoctorLinks) {
        let dir = tempfile::tempdir().unwrap();
        let links = DoctorLinks::of(&DataFolder::create(dir.path()).unwrap());
        (dir, links)
    }

    #[test]
    fn a_link_opens_for_ten_minutes() {
        let (_dir, links) = links();
        assert!(!links.admit(&"0".repeat(32), NOW), "nobody has a link yet");
        let (token, ends) = links.make(NOW).unwrap();
        assert_eq!(ends, NOW.unix_ms / 1000 + 600);
        let text = token.reveal();
        assert!(links.admit(&text, NOW) && links.admit(&text, later(599)));
        assert!(!links.admit(&text, later(600)));
        for wrong in ["", &text[1..], &text.to_uppercase(), &"0".repeat(32)] {
            assert!(!links.admit(wrong, NOW), "{wrong}");
        }
    }

    #[test]
    fn only_hashes_are_kept_and_nobody_else_reads_them() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, links) = links();
        let (token, _) = links.make(NOW).unwrap();
        let kept = fs::read_to_string(dir.path().join("doctor")).unwrap();
        assert!(!kept.contains(&token.reveal()) && kept.contains(&token.hash()), "{kept}");
        let mode = fs::metadata(dir.path().join("doctor")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_newest_links_are_kept_and_those_that_ended_are_not() {
        let (dir, links) = links();
        let kept = || fs::read_to_string(dir.path().join("doctor")).unwrap().lines().count();
        let tokens: Vec<String> =
            (0..=8).map(|number| links.make(later(number)).unwrap().0.reveal()).collect();
        assert_eq!(kept(), MOST);
        assert!(!links.admit(&tokens[0], later(9)) && links.admit(&tokens[1], later(9)));
        links.make(later(10_000)).unwrap();
        assert_eq!(kept(), 1);
    }

    #[test]
    fn links_that_are_made_at_once_do_not_forget_each_other() {
        let (_dir, links) = links();
        let make = || links.make(NOW).unwrap().0.reveal();
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..MOST).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| links.admit(token, NOW)));
    }

    #[test]
    fn a_file_that_is_damaged_opens_for_nobody() {
        let (dir, links) = links();
        let (token, _) = links.make(NOW).unwrap();
        fs::write(dir.path().join("doctor"), [0xff, 0xfe]).unwrap();
        assert!(!links.admit(&token.reveal(), NOW));
        let (token, _) = links.make(NOW).unwrap();
        assert!(links.admit(&token.reveal(), NOW), "and is replaced by the next link");
    }
}
