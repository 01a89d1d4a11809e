//! Which crate may depend on which: the floors, the doors, and the one place for versions.

use super::Problem;
use super::files::Tree;
use super::manifest::{Dependency, Kind, Manifest, Workspace};

/// The house, from the ground up. A crate depends only on floors below its own.
const FLOORS: &[(&str, u8)] = &[
    ("ipse-model", 0),
    ("ipse-geo", 1),
    ("ipse-store", 1),
    ("ipse-edge", 1),
    ("ipse-api", 2),
    ("ipse-site", 2),
    ("ipse-geodata", 2),
    ("ipse", 3),
];

/// Who may touch what. Whatever a test needs of these, it asks the crate that owns the door for.
const DOORS: &[(&[&str], &[&str])] = &[
    (&["sqlx", "redis"], &["ipse-store"]),
    (&["rustls", "libc", "socket2"], &["ipse-edge"]),
    // Measurements have a bare server of hyper beside ours, and ask over HTTP/3.
    (&["h2", "h3", "h3-quinn", "hyper", "hyper-util"], &["ipse-edge", "ipse-bench"]),
    // A campaign is a client of QUIC that breaks the rules of HTTP/3, which no ready-made one does.
    (&["quinn"], &["ipse-edge", "ipse-torture", "ipse-bench"]),
    (&["hyper-rustls", "instant-acme", "rustls-native-certs"], &["ipse-edge"]),
    // geodata has a server in its tests that shows a certificate nobody trusts; a campaign holds thousands of
    // connections open.
    (&["tokio-rustls"], &["ipse-edge", "ipse-geodata", "ipse-torture", "ipse-bench"]),
    // What ipse is measured against.
    (&["axum", "dashmap"], &["ipse-bench"]),
    (&["askama", "argon2", "lettre"], &["ipse-site"]),
    (&["csv", "reqwest", "tzf-rs"], &["ipse-geodata"]),
    // Campaigns hold the snapshot to what the vendors' own reader says.
    (&["maxminddb"], &["ipse-geodata", "ipse-torture", "ipse-bench"]),
    (&["prometheus-client"], &["ipse"]),
    (&["clap", "toml", "figment"], &["ipse", "ipse-torture", "xtask"]),
    (&["anyhow"], &["ipse", "ipse-bench", "ipse-testkit", "ipse-torture", "xtask"]),
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let root = tree.texts.get("Cargo.toml").map(String::as_str).unwrap_or_default();
    let workspace = match Workspace::parse("Cargo.toml", root) {
        Ok(workspace) => workspace,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    for (path, text) in &tree.texts {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
        if !workspace.has_member(folder) {
            continue;
        }
        match Manifest::parse(path, text, &workspace) {
            Ok(manifest) => problems.extend(check_manifest(&manifest)),
            Err(problem) => problems.push(problem),
        }
    }
    problems
}

fn check_manifest(manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    if manifest.folder.starts_with("crates/") && floor(&manifest.package).is_none() {
        problems.push(Problem::new(
            &manifest.path,
            1,
            format!("`{}` has no floor", manifest.package),
            "give it one in xtask/src/tidy/structure.rs and in the picture of the architecture",
        ));
    }
    for dependency in &manifest.dependencies {
        let found = [arrow(manifest, dependency), door(manifest, dependency), version(dependency)];
        for (what, to_do) in found.into_iter().flatten() {
            problems.push(Problem::new(&manifest.path, dependency.line, what, to_do));
        }
    }
    problems
}

type Finding = (String, String);

fn arrow(manifest: &Manifest, dependency: &Dependency) -> Option<Finding> {
    let (from, to) = (manifest.package.as_str(), dependency.package.as_str());
    let to_floor = floor(to)?;
    if from == "xtask" {
        let to_do = "leave it out: everyone builds xtask first, so it must stay small";
        return Some((format!("`xtask` depends on `{to}`"), to_do.to_owned()));
    }
    // Whatever is not on a floor stands beside the house; and a test may look at it from anywhere.
    let from_floor = floor(from)?;
    let is_allowed =
        dependency.kind == Kind::Dev || to_floor < from_floor || (from, to) == ("ipse-geodata", "ipse-geo");
    if is_allowed {
        return None;
    }
    let what = format!("`{from}` on floor {from_floor} depends on `{to}` on floor {to_floor}");
    let to_do = if from_floor == 0 {
        format!("pass what `{from}` needs as an argument")
    } else {
        format!("move what both need down to floor {}, or join the two in a crate above them", from_floor - 1)
    };
    Some((what, to_do))
}

fn door(manifest: &Manifest, dependency: &Dependency) -> Option<Finding> {
    let (_, owners) = DOORS.iter().find(|(packages, _)| packages.contains(&dependency.package.as_str()))?;
    if owners.contains(&manifest.package.as_str()) {
        return None;
    }
    let what = format!("`{}` reaches past the door to `{}`", manifest.package, dependency.package);
    let to_do = match *owners {
        [owner] => format!("move that code into `{owner}` and call it there"),
        owners => format!("only these may use it: {}", owners.join(", ")),
    };
    Some((what, to_do))
}

fn version(dependency: &Dependency) -> Option<Finding> {
    let name = &dependency.package;
    (!dependency.from_workspace).then(|| {
        (
            format!("`{name}` does not take its version from the workspace"),
            format!("put it into [workspace.dependencies] and write `{name}.workspace = true` here"),
        )
    })
}

fn floor(package: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == package).map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str =
        "[workspace]\nmembers = [\"bench\", \"crates/*\", \"testkit\", \"torture\", \"xtask\"]\n";

    #[track_caller]
    fn check_package(package: &str, section: &str, dependency: &str, expected: Option<&str>) {
        let folder = match package.strip_prefix("ipse-") {
            Some(beside @ ("bench" | "testkit" | "torture")) => beside.to_owned(),
            Some(name) => format!("crates/{name}"),
            None if package == "xtask" => "xtask".to_owned(),
            None => format!("crates/{package}"),
        };
        let text = format!("[package]\nname = \"{package}\"\n[{section}]\n{dependency}\n");
        let path = format!("{folder}/Cargo.toml");
        let found = check(&Tree::of(&[("Cargo.toml", ROOT), (&path, &text)]));
        let whats: Vec<&str> = found.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(whats, expected.into_iter().collect::<Vec<_>>(), "{text}");
        assert!(found.iter().all(|problem| problem.line == 4 && problem.file == path));
    }

    #[test]
    fn dependencies_point_down() {
        let normal =
            |package, dependency, expected| check_package(package, "dependencies", dependency, expected);
        normal("ipse-api", "ipse-store.workspace = true", None);
        normal("ipse", "ipse-model.workspace = true", None);
        normal("ipse-geodata", "ipse-geo.workspace = true", None);
        normal(
            "ipse-api",
            "ipse-site.workspace = true",
            Some("`ipse-api` on floor 2 depends on `ipse-site` on floor 2"),
        );
        normal(
            "ipse-model",
            "ipse-geo.workspace = true",
            Some("`ipse-model` on floor 0 depends on `ipse-geo` on floor 1"),
        );
        normal(
            "ipse-geo",
            "ipse-geodata.workspace = true",
            Some("`ipse-geo` on floor 1 depends on `ipse-geodata` on floor 2"),
        );
    }

    #[test]
    fn arrows_hold_for_build_scripts_and_not_for_tests() {
        let dependency = "ipse-api.workspace = true";
        let what = "`ipse-store` on floor 1 depends on `ipse-api` on floor 2";
        check_package("ipse-store", "build-dependencies", dependency, Some(what));
        check_package("ipse-store", "target.'cfg(unix)'.dependencies", dependency, Some(what));
        check_package("ipse-store", "dev-dependencies", dependency, None);
    }

    #[test]
    fn beside_the_house_only_xtask_is_kept_small() {
        check_package("ipse-torture", "dependencies", "ipse-model.workspace = true", None);
        let what = "`xtask` depends on `ipse-model`";
        check_package("xtask", "dependencies", "ipse-model.workspace = true", Some(what));
    }

    #[test]
    fn a_new_crate_needs_a_floor() {
        let text = "[package]\nname = \"ipse-cellar\"\n";
        let found = check(&Tree::of(&[("Cargo.toml", ROOT), ("crates/cellar/Cargo.toml", text)]));
        assert_eq!(found.first().map(|problem| problem.what.as_str()), Some("`ipse-cellar` has no floor"));
    }

    #[test]
    fn every_heavy_dependency_has_one_door() {
        for (packages, owners) in DOORS {
            for package in *packages {
                let dependency = format!("{package}.workspace = true");
                for owner in *owners {
                    check_package(owner, "dependencies", &dependency, None);
                }
                let what = format!("`ipse-model` reaches past the door to `{package}`");
                check_package("ipse-model", "dependencies", &dependency, Some(&what));
                check_package("ipse-model", "dev-dependencies", &dependency, Some(&what));
            }
        }
        check_package("ipse-model", "dev-dependencies", "proptest.workspace = true", None);
    }

    #[test]
    fn another_name_does_not_open_a_door() {
        check_package(
            "ipse-api",
            "dependencies",
            "database = { workspace = true, package = \"sqlx\" }",
            Some("`ipse-api` reaches past the door to `sqlx`"),
        );
    }

    #[test]
    fn versions_stand_in_the_root() {
        let what = "`bytes` does not take its version from the workspace";
        check_package("ipse-api", "dependencies", "bytes = \"1\"", Some(what));
        check_package("ipse-api", "dev-dependencies", "bytes = { version = \"1\" }", Some(what));
        check_package(
            "ipse-api",
            "dependencies",
            "bytes = { workspace = true, features = [\"serde\"] }",
            None,
        );
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_a_problem() {
        assert_eq!(check(&Tree::of(&[])).len(), 1, "there is no root");
        assert_eq!(check(&Tree::of(&[("Cargo.toml", ROOT), ("crates/a/Cargo.toml", "[package")])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[("Cargo.toml", ROOT), ("fuzz/Cargo.toml", "[package")])),
            [],
            "no member"
        );
    }
}
