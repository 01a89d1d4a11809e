//! Node.js and the packages that drive a real browser, in exactly the versions of `xtask/node/package-lock.json`.
//!
//! The lock file holds the versions and the checksums of all of them, and no address: where packages come from is the
//! business of whoever runs this. After a change of a version in `package.json` it is made anew, in `xtask/node`:
//!
//! ```text
//! npm install --ignore-scripts --omit-lockfile-registry-resolved=true && rm -r node_modules
//! ```
//!
//! `third-party-web` stands under `overrides` because a package of Lighthouse's asks for its `latest`, whatever that is.

use crate::run;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command needs of the packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    /// What the tests drive a browser with.
    Tests,
    /// Those, and Lighthouse with the two hundred packages that it brings along.
    Lighthouse,
}

impl Packages {
    fn folder(self) -> &'static str {
        match self {
            Self::Tests => "tools/node",
            Self::Lighthouse => "tools/node-lighthouse",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tests => &["--omit=dev"],
            Self::Lighthouse => &[],
        }
    }
}

const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Node.js, if it is new enough for the packages and has npm beside it.
pub(crate) fn node() -> Option<PathBuf> {
    let node = run::find_program("node").filter(|_| run::find_program("npm").is_some())?;
    let probe = "const [major, minor] = process.versions.node.split('.').map(Number); \
                 process.exit(major > 18 || (major === 18 && minor >= 16) ? 0 : 1)";
    run::quietly(Command::new(&node).args(["-e", probe])).filter(std::process::ExitStatus::success)?;
    Some(node)
}

/// The folder `node_modules` with what is asked for, installed anew whenever the lock file has changed. What is there
/// already is used without asking anybody.
pub(crate) fn modules(root: &Path, packages: Packages) -> anyhow::Result<PathBuf> {
    let folder = run::target_folder(root).join(packages.folder());
    let modules = folder.join("node_modules");
    let mut wanted = String::new();
    for name in FILES {
        let file = root.join("xtask/node").join(name);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read: restore it from git", file.display()))?;
        wanted.push_str(&text);
    }
    let stamp = folder.join("stamp");
    let same = std::fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == wanted);
    if same && modules.is_dir() {
        return Ok(modules);
    }
    println!("Installing packages of Node.js in {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for name in FILES {
        std::fs::copy(root.join("xtask/node").join(name), folder.join(name))
            .with_context(|| format!("{name} cannot be written to {}", folder.display()))?;
    }
    let npm = run::find_program("npm").context("npm is gone since it was found a moment ago: start again")?;
    let mut install = Command::new(npm);
    install
        .current_dir(&folder)
        .stdin(Stdio::null())
        .env("npm_config_update_notifier", "false")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(packages.arguments());
    if !run::status(&mut install)?.success() {
        bail!(
            "The packages of Node.js cannot be installed: npm says why above. If a version is gone, choose another in \
             xtask/node/package.json and make the lock file anew, as xtask/src/node.rs says."
        );
    }
    std::fs::write(&stamp, wanted).with_context(|| format!("{} cannot be written", stamp.display()))?;
    Ok(modules)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_lock_file_names_versions_and_checksums_but_no_address() {
        let lock = include_str!("../node/package-lock.json");
        assert!(!lock.contains("\"resolved\""), "make it anew as the beginning of node.rs says");
        let packages = lock.matches("\"node_modules/").count();
        assert!(packages > 100);
        assert_eq!(lock.matches("\"integrity\": \"sha512-").count(), packages);
    }
}
