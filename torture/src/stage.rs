//! The place where the server looks for its snapshot, and the ways in which files come there.
//!
//! Large files are not written for each change: the good ones lie ready and are linked, and two copies are damaged in
//! turn. Only what was written for its place alone is ever overwritten there.

use crate::damage::Content;
use crate::snapshots::Snapshot;
use anyhow::Result;
use ipse_testkit::Random;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a file comes to its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Beside it first, and then at once.
    Rename,
    /// The old file is emptied and written piece by piece.
    InPlace,
    /// The old file is removed first.
    RemovedBefore,
}

const PIECES: usize = 16;
const LONGEST_PAUSE_US: u64 = 20_000;

pub(crate) struct Stage {
    folder: PathBuf,
    path: PathBuf,
    copies: [Copy; 2],
    length: u64,
    /// Whether the file in its place is linked nowhere else.
    own: bool,
}

/// A copy of the first good snapshot, and what has to be put back to make it good again.
struct Copy {
    path: PathBuf,
    to_put_back: Vec<(u64, Vec<u8>)>,
}

impl Stage {
    /// Writes all that lies ready, and puts the first snapshot in its place.
    pub(crate) fn make(folder: &Path, snapshots: &[Snapshot]) -> Result<Self> {
        let first = &snapshots[0].bytes;
        for (index, snapshot) in snapshots.iter().enumerate() {
            fs::write(ready(folder, index), &snapshot.bytes)?;
        }
        let copy = |name: &str| {
            let path = folder.join(name);
            fs::write(&path, first)?;
            anyhow::Ok(Copy { path, to_put_back: Vec::new() })
        };
        let copies = [copy("copy-0")?, copy("copy-1")?];
        let path = folder.join("geo.ipse");
        let length = first.len() as u64;
        let mut stage = Self { folder: folder.to_owned(), path, copies, length, own: false };
        stage.link(&ready(folder, 0))?;
        Ok(stage)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a good snapshot there. Says how it really came.
    pub(crate) fn put_good(
        &mut self,
        index: usize,
        snapshot: &Snapshot,
        way: Way,
        random: &mut Random,
    ) -> Result<Way> {
        match way {
            Way::InPlace if self.own => {
                self.write_in_place(&snapshot.bytes, random)?;
                return Ok(way);
            }
            Way::RemovedBefore => {
                self.clear()?;
                pause(random);
            }
            _ => {}
        }
        self.link(&ready(&self.folder, index))?;
        Ok(if way == Way::RemovedBefore { way } else { Way::Rename })
    }

    /// Puts something damaged there.
    pub(crate) fn put(
        &mut self,
        content: &Content,
        way: Way,
        good: &[u8],
        random: &mut Random,
    ) -> Result<()> {
        match content {
            Content::Bytes(bytes) if way == Way::InPlace && self.own => self.write_in_place(bytes, random),
            Content::Bytes(bytes) => self.write(bytes, 0o600),
            Content::Forbidden => self.write(b"ipse geo", 0),
            Content::Nothing => self.clear(),
            Content::Folder => {
                self.clear()?;
                Ok(fs::create_dir(&self.path)?)
            }
            Content::Changed { patches, added } => {
                self.copies.swap(0, 1);
                let copy = &mut self.copies[0];
                let file = File::options().write(true).open(&copy.path)?;
                for (at, bytes) in copy.to_put_back.drain(..) {
                    file.write_all_at(&bytes, at)?;
                }
                for (at, bytes) in patches {
                    let from = usize::try_from(*at)?;
                    copy.to_put_back.push((*at, good[from..from + bytes.len()].to_vec()));
                    file.write_all_at(bytes, *at)?;
                }
                file.set_len(self.length + added)?;
                let path = copy.path.clone();
                self.link(&path)
            }
        }
    }

    fn write(&mut self, bytes: &[u8], mode: u32) -> Result<()> {
        let beside = self.folder.join("beside");
        fs::write(&beside, bytes)?;
        fs::set_permissions(&beside, Permissions::from_mode(mode))?;
        self.rename(&beside)?;
        self.own = mode != 0;
        Ok(())
    }

    fn link(&mut self, source: &Path) -> Result<()> {
        let beside = self.folder.join("beside");
        fs::hard_link(source, &beside)?;
        self.rename(&beside)?;
        self.own = false;
        Ok(())
    }

    fn rename(&mut self, beside: &Path) -> Result<()> {
        // A file cannot take the place of a folder.
        if self.path.is_dir() {
            fs::remove_dir(&self.path)?;
        }
        Ok(fs::rename(beside, &self.path)?)
    }

    fn write_in_place(&mut self, bytes: &[u8], random: &mut Random) -> Result<()> {
        let mut file = File::create(&self.path)?;
        for piece in bytes.chunks(bytes.len() / PIECES + 1) {
            file.write_all(piece)?;
            pause(random);
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.own = false;
        if self.path.is_dir() {
            return Ok(fs::remove_dir(&self.path)?);
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn ready(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("ready-{index}"))
}

fn pause(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(LONGEST_PAUSE_US)));
}
