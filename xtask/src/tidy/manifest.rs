//! A crate's `Cargo.toml`, as far as tidy asks about it.

use super::{Problem, line_of};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

pub(super) struct Manifest {
    pub(super) path: String,
    /// Its folder in the repository.
    pub(super) folder: String,
    pub(super) package: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Dev,
    Build,
}

pub(super) struct Dependency {
    /// The package itself, whatever it is called here.
    pub(super) package: String,
    pub(super) kind: Kind,
    pub(super) line: usize,
    /// Whether the version comes from the workspace's root.
    pub(super) from_workspace: bool,
}

/// The root: which folders are members, and which packages stand behind names that differ from them.
#[derive(Default)]
pub(super) struct Workspace {
    members: Vec<String>,
    renamed: BTreeMap<String, String>,
}

impl Workspace {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, Problem> {
        let root = parse_table(path, text)?;
        let Some(workspace) = table(&root, "workspace") else {
            return Err(Problem::new(path, 1, "there is no [workspace]", "restore it"));
        };
        let members = workspace.get("members").and_then(|members| members.get_ref().as_array());
        let members = members.into_iter().flatten().filter_map(|member| member.get_ref().as_str());
        let mut renamed = BTreeMap::new();
        for (name, value) in table(workspace, "dependencies").into_iter().flatten() {
            if let Some(package) = text_in(value.get_ref(), "package") {
                renamed.insert(name.get_ref().to_string(), package.to_owned());
            }
        }
        Ok(Self { members: members.map(str::to_owned).collect(), renamed })
    }

    pub(super) fn has_member(&self, folder: &str) -> bool {
        self.members.iter().any(|member| match member.strip_suffix("/*") {
            Some(parent) => folder.rsplit_once('/').is_some_and(|(above, _)| above == parent),
            None => folder == member,
        })
    }
}

impl Manifest {
    pub(super) fn parse(path: &str, text: &str, workspace: &Workspace) -> Result<Self, Problem> {
        let root = parse_table(path, text)?;
        let package = table(&root, "package").and_then(|package| package.get("name"));
        let Some(package) = package.and_then(|name| name.get_ref().as_str()) else {
            return Err(Problem::new(path, 1, "the package has no name", "write [package] name"));
        };
        let mut dependencies = Vec::new();
        let targets = table(&root, "target").into_iter().flatten();
        let targets = targets.filter_map(|(_, target)| target.get_ref().as_table());
        for section in std::iter::once(&root).chain(targets) {
            for (name, kind) in [
                ("dependencies", Kind::Normal),
                ("dev-dependencies", Kind::Dev),
                ("build-dependencies", Kind::Build),
            ] {
                for (name, value) in table(section, name).into_iter().flatten() {
                    let called: &str = name.get_ref();
                    let package = text_in(value.get_ref(), "package")
                        .or_else(|| workspace.renamed.get(called).map(String::as_str))
                        .unwrap_or(called);
                    let from_workspace =
                        value.get_ref().get("workspace").map(|value| value.get_ref().as_bool());
                    dependencies.push(Dependency {
                        package: package.to_owned(),
                        kind,
                        line: line_of(text, name.span().start),
                        from_workspace: from_workspace == Some(Some(true)),
                    });
                }
            }
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Ok(Self {
            path: path.to_owned(),
            folder: folder.to_owned(),
            package: package.to_owned(),
            dependencies,
        })
    }
}

fn parse_table<'text>(path: &str, text: &'text str) -> Result<DeTable<'text>, Problem> {
    DeTable::parse(text).map(toml::Spanned::into_inner).map_err(|error| {
        let line = line_of(text, error.span().map_or(0, |span| span.start));
        Problem::new(path, line, error.message().to_owned(), "correct the TOML")
    })
}

fn table<'table, 'text>(within: &'table DeTable<'text>, name: &str) -> Option<&'table DeTable<'text>> {
    within.get(name)?.get_ref().as_table()
}

fn text_in<'value>(value: &'value DeValue<'_>, name: &str) -> Option<&'value str> {
    value.get(name)?.get_ref().as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_is_read() {
        let text = "\
[package]
name = \"a\"
[dependencies]
b.workspace = true
c = { workspace = true, features = [\"x\"] }
d = \"1\"
[dev-dependencies]
e = { path = \"../e\" }
[build-dependencies]
f = { workspace = true, package = \"g\" }
[target.'cfg(unix)'.dependencies]
short.workspace = true
";
        let root = "[workspace]\n[workspace.dependencies]\nshort = { version = \"1\", package = \"long\" }";
        let workspace = Workspace::parse("Cargo.toml", root).unwrap_or_default();
        let manifest = Manifest::parse("crates/a/Cargo.toml", text, &workspace).ok().unwrap();
        let read: Vec<_> = manifest
            .dependencies
            .iter()
            .map(|dependency| {
                (dependency.package.as_str(), dependency.kind, dependency.line, dependency.from_workspace)
            })
            .collect();
        assert_eq!(
            read,
            [
                ("b", Kind::Normal, 4, true),
                ("c", Kind::Normal, 5, true),
                ("d", Kind::Normal, 6, false),
                ("e", Kind::Dev, 8, false),
                ("g", Kind::Build, 10, true),
                ("long", Kind::Normal, 12, true),
            ]
        );
        assert_eq!((manifest.folder.as_str(), manifest.package.as_str()), ("crates/a", "a"));
    }

    #[test]
    fn members_are_named_or_all_of_a_folder() {
        let workspace = Workspace::parse("Cargo.toml", "[workspace]\nmembers = [\"crates/*\", \"xtask\"]");
        let workspace = workspace.unwrap_or_default();
        assert!(workspace.has_member("crates/a"));
        assert!(workspace.has_member("xtask"));
        assert!(!workspace.has_member("fuzz"));
        assert!(!workspace.has_member("crates/a/b"));
    }

    #[test]
    fn what_is_no_manifest_is_a_problem_with_its_line() {
        let broken = Manifest::parse("a/Cargo.toml", "[package]\nname = ", &Workspace::default()).err();
        assert_eq!(broken.map(|problem| problem.line), Some(2));
        let nameless = Manifest::parse("a/Cargo.toml", "[package]", &Workspace::default()).err();
        assert!(nameless.is_some());
    }
}
