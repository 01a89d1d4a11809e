//! `cargo xtask default-data`: the snapshot that is shipped, from pinned sources, the same to the byte everywhere.

use crate::geo_sources::{self, PINS, Source};
use crate::run;
use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The snapshot, relative to the root.
pub(crate) const DEFAULT_DATA: &str = "data/default.ipse";

/// It is part of every download of the program.
const MOST_BYTES: usize = 22_000_000;

/// What to do with the snapshot once it is built.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// Put it in its place.
    Make,
    /// Only compare it with the one in its place.
    Check,
    /// Take the newest versions of the sources first.
    Update,
}

pub(crate) fn run(root: &Path, purpose: Purpose) -> anyhow::Result<ExitCode> {
    let pinned = geo_sources::pinned(root)?;
    let sources = match purpose {
        Purpose::Update => geo_sources::newest(root, &pinned)?,
        Purpose::Make | Purpose::Check => pinned.clone(),
    };
    let built = build(root, &sources)?;
    let snapshot = fs::read(&built).with_context(|| format!("{} cannot be read", built.display()))?;
    let bytes = snapshot.len();
    ensure!(
        bytes <= MOST_BYTES,
        "The snapshot has {bytes} bytes, more than the {MOST_BYTES} it may have; it lies in {}. Leave a source out of \
         {PINS}, or pack it better.",
        built.display()
    );
    println!("{bytes} bytes, SHA-256 {}", geo_sources::sha256(&built)?);
    if let Purpose::Check = purpose {
        return check(root, &snapshot);
    }
    if sources != pinned {
        geo_sources::pin(root, &sources)?;
        println!("Wrote {PINS}.");
    }
    fs::write(root.join(DEFAULT_DATA), &snapshot)
        .with_context(|| format!("{DEFAULT_DATA} cannot be written"))?;
    println!("Wrote {DEFAULT_DATA}.");
    Ok(ExitCode::SUCCESS)
}

fn check(root: &Path, snapshot: &[u8]) -> anyhow::Result<ExitCode> {
    let own = fs::read(root.join(DEFAULT_DATA))
        .with_context(|| format!("{DEFAULT_DATA} cannot be read: `cargo xtask default-data` makes it"))?;
    if let Some(difference) = difference(&own, snapshot) {
        bail!(
            "{DEFAULT_DATA} is not what {PINS} and this program make of the sources: {difference}. `cargo xtask \
             default-data` makes it anew."
        );
    }
    println!("{DEFAULT_DATA} is the same to the byte.");
    Ok(ExitCode::SUCCESS)
}

fn difference(own: &[u8], built: &[u8]) -> Option<String> {
    if own.len() != built.len() {
        return Some(format!("it has {} bytes and should have {}", own.len(), built.len()));
    }
    let at = own.iter().zip(built).position(|(own, built)| own != built)?;
    Some(format!("it differs from byte {at} on"))
}

/// Builds beside what cargo builds, so that nothing is replaced before it is known to be good.
fn build(root: &Path, sources: &[Source]) -> anyhow::Result<PathBuf> {
    let fetched = geo_sources::fetch(root, sources)?;
    let date = sources
        .iter()
        .map(|source| source.date.as_str())
        .max()
        .with_context(|| format!("{PINS} is empty"))?;
    let compiled = run::status(run::cargo(root).args(["build", "--release", "--locked", "-p", "ipse"]))?;
    ensure!(
        compiled.success(),
        "The program does not build, so nothing was made. Correct what the compiler names above."
    );
    let output = run::target_folder(root).join("geo-sources/default.ipse");
    let mut ipse = Command::new(run::target_folder(root).join("release/ipse"));
    ipse.current_dir(root).args(["data", "build"]);
    for file in &fetched {
        ipse.arg(format!("--{}", file.kind)).arg(&file.path);
    }
    ipse.args(["--date", date, "--output"]).arg(&output);
    ensure!(run::status(&mut ipse)?.success(), "The snapshot cannot be built: the reason stands above.");
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert_eq!(difference(b"abc", b"abd").as_deref(), Some("it differs from byte 2 on"));
        assert_eq!(difference(b"abc", b"ab").as_deref(), Some("it has 3 bytes and should have 2"));
    }
}
