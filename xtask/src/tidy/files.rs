//! The files of the repository, and the rules that hold for files of every kind.

use super::Problem;
use crate::run;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const LARGEST_BYTES: u64 = 1024 * 1024;

/// Folders that only one machine has. They are put together here so that this file does not hold such a path itself.
const MACHINE_FOLDERS: [&str; 3] = ["home", "root", "work"];

/// What is built, and what an export without git cannot tell from sources.
const NEVER_SOURCES: [&str; 5] = [".git", "target", "node_modules", "ipse-data", "__pycache__"];

/// Paths relative to the root, with `/` between their parts.
#[derive(Default)]
pub(super) struct Tree {
    /// Every text file that git tracks, or would if it were added.
    pub(super) texts: BTreeMap<String, String>,
    /// The size of every file in bytes.
    sizes: BTreeMap<String, u64>,
    /// Files that git does not know yet. Only rules about code hold for them.
    new: BTreeSet<String>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let (tracked, new) =
            match (listed(root, &["--cached"]), listed(root, &["--others", "--exclude-standard"])) {
                (Some(tracked), Some(new)) if !tracked.is_empty() => (tracked, new),
                _ => (walked(root)?, Vec::new()),
            };
        let mut tree = Self::default();
        for path in tracked.iter().chain(&new) {
            let file = root.join(path);
            // A file that was removed, but not yet from git's index, is no file; nor is a link a second one.
            let Ok(metadata) = file.symlink_metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            tree.sizes.insert(path.clone(), metadata.len());
            if metadata.len() > LARGEST_BYTES {
                continue;
            }
            let bytes =
                std::fs::read(&file).with_context(|| format!("{path} cannot be read: check its mode"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                tree.texts.insert(path.clone(), text);
            }
        }
        tree.new = new.into_iter().collect();
        Ok(tree)
    }

    /// Whether there is a file of that path.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.sizes.contains_key(path)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.sizes.insert((*path).to_owned(), text.len() as u64);
            tree.texts.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, bytes) in tree.sizes.iter().filter(|(path, _)| !tree.new.contains(*path)) {
        if *bytes > LARGEST_BYTES && !path.starts_with("data/") {
            problems.push(Problem::new(
                path,
                1,
                format!("the file has {bytes} bytes, more than 1 MiB"),
                "make it when it is needed, or put it into data/",
            ));
        }
    }
    for (path, text) in tree.texts.iter().filter(|(path, _)| !tree.new.contains(*path)) {
        for (number, line) in text.lines().enumerate() {
            for folder in MACHINE_FOLDERS.map(|name| format!("/{name}/")) {
                if holds_absolute(line, &folder) {
                    problems.push(Problem::new(
                        path,
                        number + 1,
                        format!("`{folder}` is a folder of one machine"),
                        "write a path relative to the repository, or an example under /srv",
                    ));
                }
            }
        }
    }
    problems
}

/// Whether `folder` stands there as the beginning of a path and not as the middle of a longer one.
fn holds_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(|before| before.is_alphanumeric() || "_-.~*)}]>$".contains(before))
    })
}

fn listed(root: &Path, which: &[&str]) -> Option<Vec<String>> {
    let mut git = Command::new(run::find_program("git")?);
    // A checkout that belongs to another user is usual in containers, and reading names from it harms no one.
    git.current_dir(root).args(["-c", "safe.directory=*", "ls-files", "-z"]).args(which);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

/// All files under the root, for an export that has no git folder.
fn walked(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("{} cannot be read: check its mode", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let name = entry.file_name();
                if !NEVER_SOURCES.iter().any(|never| name == *never) {
                    folders.push(entry.path());
                }
            } else if let Some(path) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) {
                files.push(path.to_owned());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(line: &str, is_absolute: bool) {
        let folder = format!("/{}/", MACHINE_FOLDERS[0]);
        assert_eq!(holds_absolute(&line.replace("/@/", &folder), &folder), is_absolute, "{line}");
    }

    #[test]
    fn a_path_of_one_machine_is_found_wherever_it_begins() {
        check_line("/@/someone/ipse", true);
        check_line("PATH=/@/someone", true);
        check_line("see \"/@/someone\"", true);
        check_line("[it](/@/someone)", true);
        check_line("file:///@/someone", true);
    }

    #[test]
    fn the_middle_of_a_path_is_not_its_beginning() {
        check_line("docs/@/page", false);
        check_line("./@/page", false);
        check_line("{base_url}/@/page", false);
        check_line("$HOME/@/page", false);
        check_line("at @ ease", false);
    }

    #[test]
    fn a_path_of_one_machine_is_a_problem_with_its_line() {
        let text = format!("one\n/{}/someone\n", MACHINE_FOLDERS[1]);
        let problems = check(&Tree::of(&[("docs/a.md", &text)]));
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2]);
        assert_eq!(check(&Tree::of(&[("docs/a.md", "one\n/srv/ipse\n")])), []);
    }

    #[test]
    fn large_files_belong_into_data() {
        let mut tree = Tree::default();
        tree.sizes.insert("docs/film.bin".to_owned(), LARGEST_BYTES + 1);
        tree.sizes.insert("docs/still.bin".to_owned(), LARGEST_BYTES);
        tree.sizes.insert("data/snapshot.bin".to_owned(), 20 * LARGEST_BYTES);
        let problems = check(&tree);
        assert_eq!(
            problems.iter().map(|problem| problem.file.as_str()).collect::<Vec<_>>(),
            ["docs/film.bin"]
        );
    }

    #[test]
    fn files_that_git_does_not_know_are_their_owners_business() {
        let mut tree = Tree::of(&[("notes.md", &format!("/{}/me\n", MACHINE_FOLDERS[0]))]);
        tree.new.insert("notes.md".to_owned());
        assert_eq!(check(&tree), []);
    }
}
