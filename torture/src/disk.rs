//! A disk whose power can be cut: a file system in an image file, of which only what was synced survives.
//!
//! The kernel holds what was written to the inner file system in its page cache and passes it to the image only when
//! it is synced, or much later. So a copy of the image is what a disk would hold if the machine had died.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const IMAGE_BYTES: u64 = 48 * 1024 * 1024;
/// The kernel commits on its own only after minutes, and does not sync what a dying process had open.
const OPTIONS: &str = "loop,noatime,commit=300,noauto_da_alloc";

/// The disk, mounted until it is dropped.
pub(crate) struct Disk {
    image: PathBuf,
    mounted_at: PathBuf,
    is_mounted: bool,
    cuts: u64,
    beside: TempDir,
}

impl Disk {
    pub(crate) fn make() -> Result<Self> {
        let beside = tempfile::tempdir()?;
        let image = beside.path().join("disk-0.img");
        File::create(&image)?.set_len(IMAGE_BYTES)?;
        // Everything is laid out at once, so that no background work of the kernel follows.
        let layout = ["-q", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        run(Command::new("mkfs.ext4").args(layout).arg(&image))
            .context("this campaign needs mkfs.ext4 (package e2fsprogs)")?;
        let mounted_at = beside.path().join("disk");
        std::fs::create_dir(&mounted_at)?;
        let mut disk = Self { image, mounted_at, is_mounted: false, cuts: 0, beside };
        disk.mount().context("this campaign needs root and loop devices, to mount the image of a disk")?;
        Ok(disk)
    }

    /// The root of its file system.
    pub(crate) fn path(&self) -> &Path {
        &self.mounted_at
    }

    /// A folder that no cut touches.
    pub(crate) fn beside(&self) -> &Path {
        self.beside.path()
    }

    /// Takes the power away and gives it back. Nothing may be writing.
    pub(crate) fn cut(&mut self) -> Result<()> {
        self.cuts += 1;
        let copy = self.beside.path().join(format!("disk-{}.img", self.cuts));
        run(Command::new("cp").arg("--sparse=always").arg(&self.image).arg(&copy))?;
        // Unmounting writes all that is left, but into the old image.
        run(Command::new("umount").arg(&self.mounted_at))?;
        self.is_mounted = false;
        std::fs::remove_file(std::mem::replace(&mut self.image, copy))?;
        self.mount().context("the disk is damaged after the cut")
    }

    fn mount(&mut self) -> Result<()> {
        run(Command::new("mount")
            .args(["-t", "ext4", "-o", OPTIONS])
            .arg(&self.image)
            .arg(&self.mounted_at))?;
        self.is_mounted = true;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            // After a failure something may still be open in it; then the kernel lets it go as soon as it can.
            let _ = Command::new("umount").arg("--lazy").arg(&self.mounted_at).output();
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
