//! The packages that the default data is built from: which they are, and how they come into the cache.
//!
//! A package counts only if its bytes have the pinned checksum. Nothing in it is run, and no path in it is followed.

use crate::run;
use anyhow::{Context, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the pins are.
pub(crate) const PINS: &str = "data/sources.toml";

const HEADER: &str = "\
# What data/default.ipse is built from, in the order in which it is believed.
# `cargo xtask default-data --update` writes this file anew with the newest versions.
";

/// A package, pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    package: String,
    version: String,
    /// The day on which it was made.
    pub(crate) date: String,
    sha256: String,
    /// What it is used for: the name of an option of `ipse data build`.
    pub(crate) kind: String,
    files: Vec<String>,
    licence: String,
}

/// A file in the cache, and what it is used for.
pub(crate) struct Fetched {
    pub(crate) kind: String,
    pub(crate) path: PathBuf,
}

/// The pinned packages.
pub(crate) fn pinned(root: &Path) -> anyhow::Result<Vec<Source>> {
    let text = fs::read_to_string(root.join(PINS))
        .with_context(|| format!("{PINS} cannot be read: restore it from git"))?;
    parse(&text).with_context(|| format!("{PINS} is wrong: correct it, or restore it from git"))
}

/// The same packages in their newest versions, which are fetched to know their checksums.
pub(crate) fn newest(root: &Path, pinned: &[Source]) -> anyhow::Result<Vec<Source>> {
    let folder = cache(root)?;
    pinned
        .iter()
        .map(|source| {
            let version = printed(npm(&folder)?.args(["view", &source.package, "version"]))?;
            if version == source.version {
                return Ok(source.clone());
            }
            let newer = Source { date: date_of(&version)?, version, ..source.clone() };
            let archive = download(&folder, &newer)?;
            Ok(Source { sha256: sha256(&archive)?, ..newer })
        })
        .collect()
}

/// Writes the pins down.
pub(crate) fn pin(root: &Path, sources: &[Source]) -> anyhow::Result<()> {
    fs::write(root.join(PINS), written(sources)).with_context(|| format!("{PINS} cannot be written"))
}

/// Fetches what is missing from the cache, checks all of it, and unpacks the files that are used.
pub(crate) fn fetch(root: &Path, sources: &[Source]) -> anyhow::Result<Vec<Fetched>> {
    let folder = cache(root)?;
    let mut fetched = Vec::new();
    for source in sources {
        let archive = checked(&folder, source)?;
        let inside = archive.with_extension("");
        fs::create_dir_all(&inside)?;
        for name in &source.files {
            let path = inside.join(name);
            unpack(&archive, name, &path)?;
            fetched.push(Fetched { kind: source.kind.clone(), path });
        }
    }
    Ok(fetched)
}

/// One file of another package that is pinned where it is used.
pub(crate) fn file_of(
    root: &Path,
    package: &str,
    version: &str,
    sha256: &str,
    file: &str,
) -> anyhow::Result<PathBuf> {
    let source = Source {
        package: package.to_owned(),
        version: version.to_owned(),
        date: String::new(),
        sha256: sha256.to_owned(),
        kind: String::new(),
        files: vec![file.to_owned()],
        licence: String::new(),
    };
    let mut fetched = fetch(root, &[source])?;
    fetched.pop().map(|fetched| fetched.path).context("a package with a file has one")
}

/// SHA-256 of a file in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> anyhow::Result<String> {
    let line = printed(Command::new("sha256sum").arg("--").arg(path))?;
    // A name with a backslash makes it begin with one.
    let digest = line.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    ensure!(is_digest(digest), "`sha256sum` printed no checksum for {}: {line:?}", path.display());
    Ok(digest.to_owned())
}

fn cache(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = run::target_folder(root).join("geo-sources");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}

/// The package's archive, with the bytes that are pinned.
fn checked(folder: &Path, source: &Source) -> anyhow::Result<PathBuf> {
    let archive = archive(folder, source);
    // One that was cut off, or changed since, is fetched again.
    if archive.is_file() && sha256(&archive)? == source.sha256 {
        return Ok(archive);
    }
    let archive = download(folder, source)?;
    let found = sha256(&archive)?;
    if found != source.sha256 {
        bail!(
            "{}@{} has the SHA-256 {found} and not the one that is pinned: it is not what was reviewed. Do not use it before you \
             know why; {} is kept for that.",
            source.package,
            source.version,
            archive.display()
        );
    }
    Ok(archive)
}

fn download(folder: &Path, source: &Source) -> anyhow::Result<PathBuf> {
    let named = format!("{}@{}", source.package, source.version);
    println!("Fetching {named}");
    printed(npm(folder)?.args(["pack", &named, "--ignore-scripts", "--pack-destination", "."]))?;
    let archive = archive(folder, source);
    ensure!(
        archive.is_file(),
        "`npm pack {named}` did not write {}: look what it did write",
        archive.display()
    );
    Ok(archive)
}

/// Takes one file out of an archive. Its path there is what we ask for, and its path here is ours.
fn unpack(archive: &Path, name: &str, path: &Path) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--gzip").arg("--to-stdout").arg("--file").arg(archive).arg("--");
    let status = run::status(tar.arg(format!("package/{name}")).stdout(file))?;
    ensure!(status.success(), "{} has no file {name}: correct `files` in {PINS}", archive.display());
    Ok(())
}

fn npm(folder: &Path) -> anyhow::Result<Command> {
    let program = run::find_program("npm").context(
        "npm is not installed, and the sources are packages of it. Install Node.js with npm (Debian: apt-get install npm; \
         Fedora: dnf install npm; Arch: pacman -S npm), then start again.",
    )?;
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).env("npm_config_update_notifier", "false");
    Ok(command)
}

/// Runs a program and returns what it printed.
fn printed(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("`{program}` cannot be started: check that it is installed"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`{program}` fails ({}), and says:\n{}", output.status, why.trim_end());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// As npm calls the archive of a package.
fn archive(folder: &Path, source: &Source) -> PathBuf {
    let name = source.package.trim_start_matches('@').replace('/', "-");
    folder.join(format!("{name}-{}.tgz", source.version))
}

/// These packages are numbered by the hour in which they were made: `2.3.2026061719`.
fn date_of(version: &str) -> anyhow::Result<String> {
    let made = version.rsplit('.').next().unwrap_or_default();
    if made.len() != 10 || !made.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!(
            "the version {version} does not end with the hour it was made, so its date is to be found by hand"
        );
    }
    Ok(format!("{}-{}-{}", &made[..4], &made[4..6], &made[6..8]))
}

fn parse(text: &str) -> anyhow::Result<Vec<Source>> {
    let table: toml::Table = text.parse()?;
    let sources = table.get("source").and_then(toml::Value::as_array).context("there is no [[source]]")?;
    sources.iter().map(parse_source).collect()
}

fn parse_source(source: &toml::Value) -> anyhow::Result<Source> {
    let text = |name: &str| {
        let value = source.get(name).and_then(toml::Value::as_str);
        value.map(str::to_owned).with_context(|| format!("a [[source]] has no text `{name}`"))
    };
    let files =
        source.get("files").and_then(toml::Value::as_array).context("a [[source]] has no list `files`")?;
    let files = files.iter().map(|file| file.as_str().unwrap_or_default().to_owned()).collect();
    let source = Source {
        package: text("package")?,
        version: text("version")?,
        date: text("date")?,
        sha256: text("sha256")?,
        kind: text("kind")?,
        files,
        licence: text("licence")?,
    };
    // All of these end up in paths or on command lines.
    let plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with(['-', '.'])
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let package = source.package.trim_start_matches('@');
    ensure!(package.split('/').all(plain), "`{}` is no name of a package", source.package);
    ensure!(plain(&source.version), "`{}` is no version", source.version);
    ensure!(source.files.iter().all(|file| plain(file)), "`files` are names without folders");
    ensure!(is_digest(&source.sha256), "`{}` is no SHA-256 in small hexadecimal digits", source.sha256);
    ensure!(
        ["city", "country", "asn", "anonymous"].contains(&source.kind.as_str()),
        "`{}` is no kind of source",
        source.kind
    );
    Ok(source)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn written(sources: &[Source]) -> String {
    let mut text = HEADER.to_owned();
    for Source { package, version, date, sha256, kind, files, licence } in sources {
        // Names and codes have nothing to escape, as `parse` has seen to, and nor has a licence's short name.
        let files = files.iter().map(|file| format!("\"{file}\"")).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "\n[[source]]\npackage = \"{package}\"\nversion = \"{version}\"\ndate = \"{date}\"\nsha256 = \"{sha256}\"\n\
             kind = \"{kind}\"\nfiles = [{files}]\nlicence = \"{licence}\"\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[[source]]
package = \"@a/b\"
version = \"2.3.2026061719\"
date = \"2026-06-17\"
sha256 = \"00000000000000000000000000000000000000000000000000000000000000ff\"
kind = \"asn\"
files = [\"c.csv\", \"d.csv\"]
licence = \"CC BY 4.0\"
";

    #[test]
    fn pins_are_written_as_they_are_read() {
        let sources = parse(TEXT).unwrap();
        assert_eq!(written(&sources), format!("{HEADER}\n{TEXT}"));
        assert_eq!(archive(Path::new("cache"), &sources[0]), Path::new("cache/a-b-2.3.2026061719.tgz"));
    }

    #[test]
    fn the_repository_s_own_pins_are_as_they_would_be_written() {
        let own = include_str!("../../data/sources.toml");
        assert_eq!(written(&parse(own).unwrap()), own);
    }

    #[test]
    fn what_could_leave_its_folder_is_refused() {
        for (good, bad) in [
            ("@a/b", "@a/../b"),
            ("@a/b", "--b"),
            ("2.3.2026061719", "../2"),
            ("c.csv", "../c.csv"),
            ("c.csv", "/c.csv"),
            ("\"asn\"", "\"output\""),
            ("00ff", "00FF"),
        ] {
            assert!(parse(&TEXT.replacen(good, bad, 1)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_version_tells_its_day() {
        assert_eq!(date_of("2.3.2026061719").unwrap(), "2026-06-17");
        assert!(date_of("2.3.4").is_err());
    }

    #[test]
    fn a_checksum_is_that_of_the_bytes() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(Path::new("/dev/null")).unwrap(), empty);
    }
}
