//! The tools beside cargo that the tests need: found, installed where that is ours to do, or asked for by name.

use crate::node::{self, Packages};
use crate::run;
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) const INSTALL_CARGO_DENY: &str = "cargo install cargo-deny --locked";

/// What the tests are told about through their environment.
pub(crate) struct Peers {
    python: PathBuf,
    chromium: PathBuf,
    node: PathBuf,
    node_modules: PathBuf,
}

impl Peers {
    /// The variables by which the tests find them.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 4] {
        [
            ("XTASK_PYTHON", &self.python),
            ("XTASK_CHROMIUM", &self.chromium),
            ("XTASK_NODE", &self.node),
            ("XTASK_NODE_MODULES", &self.node_modules),
        ]
    }
}

/// `cargo xtask tools`: installs what is missing, and prints what to set for a test that is run by hand.
pub(crate) fn report(root: &Path) -> anyhow::Result<ExitCode> {
    println!("# For `cargo test` without `cargo xtask`, in this shell:");
    for (name, value) in ready(root)?.environment() {
        println!("export {name}='{}'", value.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything is in place after this, or the error says what to install and how.
pub(crate) fn ready(root: &Path) -> anyhow::Result<Peers> {
    install_missing(BROWSER.iter().chain(TOOLS))?;
    if !is_root() {
        bail!(
            "The tests mount small file systems of their own, to fill them up and to cut their power, which only root may \
             do: start again as root, or as root of a container."
        );
    }
    Ok(Peers {
        python: venv(root)?,
        chromium: chromium()?,
        node: node::node().context("Node.js is gone since it was found a moment ago: start again")?,
        node_modules: node::modules(root, Packages::Tests)?,
    })
}

/// What stands beside ipse when it is measured, and what measures it.
pub(crate) fn bench_ready() -> anyhow::Result<()> {
    let needed = ["nginx", "nginx's geoip2 module", "sqlite3", "valgrind"];
    install_missing(TOOLS.iter().filter(|tool| needed.contains(&tool.what)).chain([&PERF]))
}

/// What drives a browser without the rest, which only tests need.
pub(crate) fn browser_ready() -> anyhow::Result<(PathBuf, PathBuf)> {
    install_missing(BROWSER)?;
    let node = node::node().context("Node.js is gone since it was found a moment ago: start again")?;
    Ok((chromium()?, node))
}

fn chromium() -> anyhow::Result<PathBuf> {
    let chromium = CHROMIUM.iter().find_map(|name| run::find_program(name));
    chromium.context("Chromium is gone since it was found a moment ago: start again")
}

/// Whether cargo-deny can be used. Only a CI machine is made to build it: it takes minutes.
pub(crate) fn cargo_deny_ready(root: &Path) -> anyhow::Result<bool> {
    let answers =
        || run::quietly(run::cargo(root).args(["deny", "--version"])).is_some_and(|status| status.success());
    if answers() {
        return Ok(true);
    }
    if std::env::var_os("CI").is_none() {
        return Ok(false);
    }
    println!("{INSTALL_CARGO_DENY}");
    let installed = run::status(run::cargo(root).args(INSTALL_CARGO_DENY.split(' ').skip(1)))?;
    if !(installed.success() && answers()) {
        bail!(
            "cargo-deny cannot be installed: read cargo's reason above, or put it on this machine beforehand."
        );
    }
    Ok(true)
}

/// Under which names the browser is packaged.
const CHROMIUM: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

struct Tool {
    what: &'static str,
    is_there: fn() -> bool,
    debian: &'static str,
    fedora: &'static str,
    arch: &'static str,
}

/// What it takes to look at pages.
const BROWSER: &[Tool] = &[
    Tool {
        what: "chromium",
        is_there: || CHROMIUM.iter().any(|name| run::find_program(name).is_some()),
        debian: "chromium",
        fedora: "chromium",
        arch: "chromium",
    },
    Tool {
        what: "Node.js 18.16 or later with npm",
        is_there: || node::node().is_some(),
        debian: "npm",
        fedora: "npm",
        arch: "npm",
    },
];

/// What looks at a server while it is measured.
const PERF: Tool = Tool {
    what: "perf",
    is_there: || all_there(&["perf"]),
    debian: "linux-perf",
    fedora: "perf",
    arch: "perf",
};

/// What else the tests need.
const TOOLS: &[Tool] = &[
    Tool { what: "curl", is_there: || all_there(&["curl"]), debian: "curl", fedora: "curl", arch: "curl" },
    Tool {
        what: "nghttp and h2load",
        is_there: || all_there(&["nghttp", "h2load"]),
        debian: "nghttp2-client",
        fedora: "nghttp2",
        arch: "nghttp2",
    },
    Tool {
        what: "openssl",
        is_there: || all_there(&["openssl"]),
        debian: "openssl",
        fedora: "openssl",
        arch: "openssl",
    },
    Tool {
        what: "nginx",
        is_there: || all_there(&["nginx"]),
        debian: "nginx-light",
        fedora: "nginx",
        arch: "nginx",
    },
    Tool {
        what: "nginx's geoip2 module",
        is_there: || {
            ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"]
                .iter()
                .any(|folder| Path::new(folder).join("ngx_http_geoip2_module.so").is_file())
        },
        debian: "libnginx-mod-http-geoip2",
        fedora: "nginx-mod-http-geoip2",
        arch: "nginx-mod-geoip2",
    },
    Tool {
        what: "valgrind",
        is_there: || all_there(&["valgrind", "callgrind_control"]),
        debian: "valgrind",
        fedora: "valgrind",
        arch: "valgrind",
    },
    Tool {
        what: "haproxy",
        is_there: || all_there(&["haproxy"]),
        debian: "haproxy",
        fedora: "haproxy",
        arch: "haproxy",
    },
    Tool {
        what: "caddy",
        is_there: || all_there(&["caddy"]),
        debian: "caddy",
        fedora: "caddy",
        arch: "caddy",
    },
    Tool {
        what: "pebble",
        is_there: || all_there(&["pebble", "pebble-challtestsrv"]),
        debian: "pebble",
        fedora: "golang-github-letsencrypt-pebble",
        arch: "pebble",
    },
    Tool {
        what: "prometheus and promtool",
        is_there: || all_there(&["prometheus", "promtool"]),
        debian: "prometheus",
        fedora: "golang-github-prometheus",
        arch: "prometheus",
    },
    Tool {
        what: "Python 3.11 or later with venv",
        is_there: || python().is_some(),
        debian: "python3-venv",
        fedora: "python3",
        arch: "python",
    },
    Tool {
        what: "sqlite3",
        is_there: || all_there(&["sqlite3"]),
        debian: "sqlite3",
        fedora: "sqlite",
        arch: "sqlite",
    },
    Tool {
        what: "PostgreSQL and psql",
        is_there: || {
            all_there(&["psql"]) && (all_there(&["initdb"]) || Path::new("/usr/lib/postgresql").is_dir())
        },
        debian: "postgresql",
        fedora: "postgresql-server",
        arch: "postgresql",
    },
    Tool {
        what: "mkfs.ext4",
        is_there: || all_there(&["mkfs.ext4"]),
        debian: "e2fsprogs",
        fedora: "e2fsprogs",
        arch: "e2fsprogs",
    },
    Tool {
        what: "mount and losetup",
        is_there: || all_there(&["mount", "umount", "losetup"]),
        debian: "mount",
        fedora: "util-linux",
        arch: "util-linux",
    },
    Tool {
        what: "ip",
        is_there: || all_there(&["ip"]),
        debian: "iproute2",
        fedora: "iproute",
        arch: "iproute2",
    },
    Tool {
        what: "redis-server",
        is_there: || all_there(&["redis-server"]),
        debian: "redis-server",
        fedora: "redis",
        arch: "redis",
    },
    Tool {
        what: "valkey-server",
        is_there: || all_there(&["valkey-server"]),
        debian: "valkey-server",
        fedora: "valkey",
        arch: "valkey",
    },
    Tool {
        what: "kill",
        is_there: || all_there(&["kill"]),
        debian: "procps",
        fedora: "util-linux",
        arch: "util-linux",
    },
    Tool {
        what: "buildah",
        is_there: || all_there(&["buildah"]),
        debian: "buildah",
        fedora: "buildah",
        arch: "buildah",
    },
    Tool {
        what: "docker-compose",
        is_there: || all_there(&["docker-compose"]),
        debian: "docker-compose",
        fedora: "docker-compose",
        arch: "docker-compose",
    },
    Tool {
        what: "dpkg and dpkg-deb",
        is_there: || all_there(&["dpkg", "dpkg-deb"]),
        debian: "dpkg",
        fedora: "dpkg",
        arch: "dpkg",
    },
    Tool {
        what: "lintian",
        is_there: || all_there(&["lintian"]),
        debian: "lintian",
        fedora: "lintian",
        arch: "lintian",
    },
    Tool {
        what: "strip",
        is_there: || all_there(&["strip"]),
        debian: "binutils",
        fedora: "binutils",
        arch: "binutils",
    },
    Tool {
        what: "systemd and systemd-analyze",
        is_there: || {
            all_there(&["systemctl", "systemd-analyze"]) && Path::new("/lib/systemd/systemd").exists()
        },
        debian: "systemd",
        fedora: "systemd",
        arch: "systemd",
    },
    Tool {
        what: "nsenter, unshare, prlimit and setpriv",
        is_there: || all_there(&["nsenter", "unshare", "prlimit", "setpriv"]),
        debian: "util-linux",
        fedora: "util-linux",
        arch: "util-linux",
    },
];

fn all_there(programs: &[&str]) -> bool {
    programs.iter().all(|name| run::find_program(name).is_some())
}

/// The owner of this process is the user that it runs as.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn install_missing(tools: impl IntoIterator<Item = &'static Tool>) -> anyhow::Result<()> {
    let missing: Vec<&Tool> = tools.into_iter().filter(|tool| !(tool.is_there)()).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

fn install(wanted: &[&Tool]) -> anyhow::Result<()> {
    if !(is_root() && Path::new("/etc/debian_version").exists()) {
        bail!("{}", request(wanted, |program| run::find_program(program).is_some()));
    }
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    println!("Installing what is missing: {}", names(wanted));
    // A mirror that is away does not matter if the packages are in the cache; if they are not, the next call says so.
    run::status(apt_get().args(["update", "--quiet"]))?;
    let packages: Vec<&str> = wanted.iter().map(|tool| tool.debian).collect();
    let (known, later): (Vec<&str>, Vec<&str>) = packages.into_iter().partition(|package| is_known(package));
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    run::status(apt_get().args(install).args(known))?;
    if !later.is_empty() {
        // What came after this release of Debian is among its backports.
        let backports = Backports::read()?;
        run::status(apt_get().args(backports.options()).args(["update", "--quiet"]))?;
        run::status(apt_get().args(backports.options()).args(install).args(later))?;
    }
    let still: Vec<&Tool> = wanted.iter().copied().filter(|tool| !(tool.is_there)()).collect();
    if !still.is_empty() {
        bail!(
            "{} cannot be installed: apt-get says why above. Install by hand, then start again.",
            names(&still)
        );
    }
    Ok(())
}

/// Whether a package can be installed from where packages come from.
fn is_known(package: &str) -> bool {
    let told = Command::new("apt-cache").args(["policy", package]).output();
    told.is_ok_and(|told| {
        let text = String::from_utf8_lossy(&told.stdout);
        text.contains("Candidate:") && !text.contains("Candidate: (none)")
    })
}

/// Debian's backports, beside where packages come from anyway. What is set up on the machine stays as it is: this is a folder of
/// sources of our own, made from those that are there.
struct Backports {
    folder: PathBuf,
}

impl Backports {
    fn read() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("ipse-backports-{}", std::process::id()));
        let (parts, lists) = (folder.join("parts"), folder.join("lists/partial"));
        std::fs::create_dir_all(&parts).and_then(|()| std::fs::create_dir_all(lists))?;
        let backports = Self { folder };
        let mut found = false;
        for (path, name) in
            [("sources.list.d/debian.sources", "debian.sources"), ("sources.list", "debian.list")]
        {
            if let Ok(text) = std::fs::read_to_string(Path::new("/etc/apt").join(path)) {
                std::fs::write(parts.join(name), with_backports(&text))?;
                found = true;
            }
        }
        if !found {
            bail!(
                "apt's sources are not where Debian keeps them: install what is missing by hand, then start again."
            );
        }
        Ok(backports)
    }

    /// What makes apt-get look there and nowhere else.
    fn options(&self) -> Vec<String> {
        let path = self.folder.display();
        ["Dir::Etc::sourcelist=/dev/null", "Dir::Etc::sourceparts={}/parts", "Dir::State::lists={}/lists"]
            .into_iter()
            .flat_map(|option| ["-o".to_owned(), option.replace("{}", &path.to_string())])
            .collect()
    }
}

impl Drop for Backports {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The same sources, in either of their forms, with the backports of the release.
fn with_backports(sources: &str) -> String {
    let line = |line: &str| {
        if let Some(suites) = line.strip_prefix("Suites: ").filter(|suites| !suites.contains('/')) {
            let release = suites.split(' ').next().unwrap_or_default();
            if !release.contains('-') {
                return format!("Suites: {suites} {release}-backports\n");
            }
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["deb", place, release, "main", ..] if !release.contains(['-', '/']) => {
                format!("{line}\ndeb {place} {release}-backports main\n")
            }
            _ => format!("{line}\n"),
        }
    };
    sources.lines().map(line).collect()
}

fn names(tools: &[&Tool]) -> String {
    tools.iter().map(|tool| tool.what).collect::<Vec<_>>().join(", ")
}

/// What to tell someone on whose machine we install nothing.
fn request(wanted: &[&Tool], has: impl Fn(&str) -> bool) -> String {
    let packages =
        |of: fn(&Tool) -> &'static str| wanted.iter().map(|tool| of(tool)).collect::<Vec<_>>().join(" ");
    let command = if has("apt-get") {
        format!("sudo apt-get install --no-install-recommends {}", packages(|tool| tool.debian))
    } else if has("dnf") {
        format!("sudo dnf install {}", packages(|tool| tool.fedora))
    } else if has("pacman") {
        format!("sudo pacman -S {}", packages(|tool| tool.arch))
    } else {
        format!("your package manager; Debian's names are {}", packages(|tool| tool.debian))
    };
    format!("Missing: {}. Install with: {command}", names(wanted))
}

/// A Python that can make virtual environments. A version manager's comes first in the path but may be a bare one;
/// then the system's own is tried.
fn python() -> Option<PathBuf> {
    ["python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().find(|program| {
        let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
        run::quietly(Command::new(program).args(["-c", probe])).is_some_and(|status| status.success())
    })
}

/// The Python of our own environment, which is made anew whenever what it is made from has changed.
pub(crate) fn venv(root: &Path) -> anyhow::Result<PathBuf> {
    let folder = run::target_folder(root).join("tools/venv");
    let inside = folder.join("bin/python");
    let requirements = root.join("xtask/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)
        .with_context(|| format!("{} cannot be read: restore it from git", requirements.display()))?;
    let stamp = folder.join("stamp");
    let same = std::fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == wanted);
    // A stamp outlives the interpreter that the environment links to.
    if same && run::quietly(Command::new(&inside).arg("--version")).is_some_and(|status| status.success()) {
        return Ok(inside);
    }
    println!("Making the Python environment in {}", folder.display());
    let python = python().context("Python is gone since it was found a moment ago: start again")?;
    let steps: [(&Path, Vec<&OsStr>); 2] = [
        (&python, vec!["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), folder.as_os_str()]),
        (
            &inside,
            ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"]
                .map(OsStr::new)
                .into_iter()
                .chain([requirements.as_os_str()])
                .collect(),
        ),
    ];
    for (program, arguments) in steps {
        if !run::status(Command::new(program).args(arguments))?.success() {
            bail!(
                "The Python environment cannot be made: the reason stands above. If a version is gone from the \
                 package index, choose another in xtask/requirements.txt."
            );
        }
    }
    std::fs::write(&stamp, wanted).with_context(|| format!("{} cannot be written", stamp.display()))?;
    Ok(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_stand_beside_the_release_they_are_of() {
        let sources = "Suites: bookworm bookworm-updates\n\nTypes: deb\nSuites: bookworm-security\n";
        let expected =
            "Suites: bookworm bookworm-updates bookworm-backports\n\nTypes: deb\nSuites: bookworm-security\n";
        assert_eq!(with_backports(sources), expected);
        let list = "deb http://mirror.example.com/debian bookworm main contrib\ndeb http://mirror.example.com x/ y\n";
        assert_eq!(
            with_backports(list),
            "deb http://mirror.example.com/debian bookworm main contrib\n\
             deb http://mirror.example.com/debian bookworm-backports main\ndeb http://mirror.example.com x/ y\n"
        );
    }

    #[test]
    fn whoever_must_install_is_told_the_command() {
        let wanted: Vec<&Tool> = TOOLS.iter().filter(|tool| tool.what.starts_with("nghttp")).collect();
        let check = |manager: &str, expected: &str| {
            let text = request(&wanted, |program| program == manager);
            assert_eq!(text, format!("Missing: nghttp and h2load. Install with: {expected}"));
        };
        check("apt-get", "sudo apt-get install --no-install-recommends nghttp2-client");
        check("dnf", "sudo dnf install nghttp2");
        check("pacman", "sudo pacman -S nghttp2");
        check("", "your package manager; Debian's names are nghttp2-client");
    }
}
