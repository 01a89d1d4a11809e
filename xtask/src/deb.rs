//! `cargo xtask deb`: a Debian package of the program, with its units, settings, manual and documents.
//!
//! Equal sources make an equal package: files are sorted, belong to root, have the modes that stand here, and are as old
//! as the last commit.

use crate::run;
use anyhow::{Context, bail, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// How a package is made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The program; `None` for one that is built for release now.
    program: Option<PathBuf>,
    /// Where the package is put; `None` for `deb` in the target folder.
    folder: Option<PathBuf>,
    /// Which package of this version it is.
    revision: u32,
    /// Whether being quick is worth more than being small.
    is_fast: bool,
}

impl Plan {
    /// The plan that arguments ask for; `None` if they cannot be understood.
    pub(crate) fn read(arguments: &[String]) -> Option<Self> {
        let mut plan = Self { program: None, folder: None, revision: 1, is_fast: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--program" => plan.program = Some(PathBuf::from(arguments.next()?)),
                "--to" => plan.folder = Some(PathBuf::from(arguments.next()?)),
                "--revision" => plan.revision = arguments.next()?.parse().ok()?,
                "--fast" => plan.is_fast = true,
                _ => return None,
            }
        }
        Some(plan)
    }
}

/// What is copied as it is: from the repository, to where, with which mode.
const FILES: &[(&str, &str, u32)] = &[
    ("deploy/ipse.toml", "etc/ipse/ipse.toml", 0o644),
    ("deploy/systemd/ipse.service", "usr/lib/systemd/system/ipse.service", 0o644),
    ("deploy/systemd/ipse-http.socket", "usr/lib/systemd/system/ipse-http.socket", 0o644),
    ("deploy/systemd/ipse-https.socket", "usr/lib/systemd/system/ipse-https.socket", 0o644),
    ("deploy/systemd/ipse.sysusers", "usr/lib/sysusers.d/ipse.conf", 0o644),
    ("deploy/systemd/ipse.tmpfiles", "usr/lib/tmpfiles.d/ipse.conf", 0o644),
    ("deploy/alerts.yml", "usr/share/doc/ipse/examples/alerts.yml", 0o644),
    ("deploy/grafana.json", "usr/share/doc/ipse/examples/grafana.json", 0o644),
    ("data/ATTRIBUTION.md", "usr/share/doc/ipse/ATTRIBUTION.md", 0o644),
    ("deploy/debian/postinst", "DEBIAN/postinst", 0o755),
    ("deploy/debian/prerm", "DEBIAN/prerm", 0o755),
    ("deploy/debian/postrm", "DEBIAN/postrm", 0o755),
];

/// What is packed for whoever reads it: from the repository, to where.
const PACKED: &[(&str, &str)] = &[
    ("deploy/debian/ipse.1", "usr/share/man/man1/ipse.1.gz"),
    ("CHANGELOG.md", "usr/share/doc/ipse/changelog.gz"),
];

/// Documents that operators read.
const DOCUMENTS: &[&str] = &["counters", "database", "geo-data", "metrics", "operating", "proxies"];

const PROGRAM: &str = "usr/bin/ipse";

pub(crate) fn run(root: &Path, plan: &Plan) -> anyhow::Result<ExitCode> {
    let target = run::target_folder(root);
    let program = if let Some(program) = &plan.program {
        program.clone()
    } else {
        let built = run::status(run::cargo(root).args(["build", "--release", "--locked", "-p", "ipse"]))?;
        if !built.success() {
            eprintln!(
                "The program does not build, so there is no package. Correct what the compiler names above."
            );
            return Ok(run::exit_code(built));
        }
        target.join("release/ipse")
    };
    let folder = plan.folder.clone().unwrap_or_else(|| target.join("deb"));
    let package = make(root, &program, &folder, plan)?;
    println!("{}", package.display());
    Ok(ExitCode::SUCCESS)
}

fn make(root: &Path, program: &Path, folder: &Path, plan: &Plan) -> anyhow::Result<PathBuf> {
    let epoch = epoch(root)?;
    let version = format!("{}-{}", version(root)?, plan.revision);
    let architecture = told(Command::new("dpkg").arg("--print-architecture"))?;
    let name = format!("ipse_{version}_{architecture}.deb");
    let stage = folder.join(format!("{name}.stage"));
    // What an earlier run left there belongs to nobody.
    drop(fs::remove_dir_all(&stage));
    for (from, to, mode) in FILES {
        let bytes = fs::read(root.join(from)).with_context(|| format!("{from} cannot be read"))?;
        place(&stage, to, &bytes, *mode)?;
    }
    for (from, to) in PACKED {
        let bytes = fs::read(root.join(from)).with_context(|| format!("{from} cannot be read"))?;
        place(&stage, to, &packed(&bytes)?, 0o644)?;
    }
    for document in DOCUMENTS {
        let bytes = fs::read(root.join(format!("docs/{document}.md")))?;
        place(&stage, &format!("usr/share/doc/ipse/{document}.md"), &bytes, 0o644)?;
    }
    place(&stage, "usr/share/doc/ipse/copyright", copyright(root)?.as_bytes(), 0o644)?;
    let maintainer = maintainer();
    let history = history(&version, &maintainer, epoch)?;
    place(&stage, "usr/share/doc/ipse/changelog.Debian.gz", &packed(history.as_bytes())?, 0o644)?;
    place(&stage, PROGRAM, b"", 0o755)?;
    done(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(stage.join(PROGRAM)).arg(program))?;
    place(&stage, "DEBIAN/conffiles", b"/etc/ipse/ipse.toml\n", 0o644)?;
    let sums = told(
        Command::new("sh")
            .current_dir(&stage)
            .args(["-c", "find etc usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum"]),
    )?;
    place(&stage, "DEBIAN/md5sums", format!("{sums}\n").as_bytes(), 0o644)?;
    let size = told(Command::new("du").current_dir(&stage).args(["-sk", "--apparent-size", "usr"]))?;
    let libc = libc(&fs::read(stage.join(PROGRAM))?)?;
    let control = fs::read_to_string(root.join("deploy/debian/control"))?
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@MAINTAINER@", &maintainer)
        .replace("@SIZE@", size.split_whitespace().next().unwrap_or("0"))
        .replace("@LIBC@", &libc);
    place(&stage, "DEBIAN/control", control.as_bytes(), 0o644)?;
    let package = folder.join(name);
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", epoch.to_string()).args(["--root-owner-group"]);
    build.args(if plan.is_fast { ["-Znone", "-z0"] } else { ["-Zxz", "-z6"] });
    done(build.arg("--build").arg(&stage).arg(&package))?;
    fs::remove_dir_all(&stage)?;
    Ok(package)
}

/// Writes a file with this mode, in folders that everybody may look into.
fn place(stage: &Path, path: &str, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let file = stage.join(path);
    let mut folder = stage.to_owned();
    for part in Path::new(path).parent().into_iter().flat_map(Path::iter) {
        folder.push(part);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(stage, Permissions::from_mode(0o755))?;
    fs::write(&file, bytes)?;
    fs::set_permissions(&file, Permissions::from_mode(mode))?;
    Ok(())
}

/// The moment of the last commit, in seconds, unless whoever builds names another.
fn epoch(root: &Path) -> anyhow::Result<u64> {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    let told = match set {
        Some(set) => Ok(set),
        None => told(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"])),
    };
    let told = told.context("Without git nobody knows how old the sources are: set SOURCE_DATE_EPOCH.")?;
    told.trim().parse().context("SOURCE_DATE_EPOCH must be a number of seconds.")
}

fn version(root: &Path) -> anyhow::Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    version.map(str::to_owned).context("Cargo.toml names no version.")
}

/// The statement of licences, with the text of ours as the format wants it: indented, and no line empty.
fn copyright(root: &Path) -> anyhow::Result<String> {
    let licence = fs::read_to_string(root.join("LICENSE-MIT"))?;
    let licence: Vec<String> = licence
        .lines()
        .map(|line| if line.trim().is_empty() { " .".to_owned() } else { format!(" {line}") })
        .collect();
    let statement = fs::read_to_string(root.join("deploy/debian/copyright"))?;
    Ok(statement.replace("@MIT@", &licence.join("\n")))
}

/// Who answers for the package: whoever builds it, if they say so as Debian's own tools are told.
fn maintainer() -> String {
    let set = |name: &str, otherwise: &str| {
        std::env::var(name).ok().filter(|set| !set.is_empty()).unwrap_or_else(|| otherwise.to_owned())
    };
    format!("{} <{}>", set("DEBFULLNAME", "The ipse authors"), set("DEBEMAIL", "maintainers@ipse.example"))
}

/// The package's own history, which Debian wants beside ours.
fn history(version: &str, maintainer: &str, epoch: u64) -> anyhow::Result<String> {
    let moment =
        told(Command::new("date").env("LC_ALL", "C").args(["-u", "-R", "-d", &format!("@{epoch}")]))?;
    Ok(format!(
        "ipse ({version}) unstable; urgency=medium\n\n  * What has changed stands in changelog.gz.\n\n \
         -- {maintainer}  {moment}\n"
    ))
}

/// The newest version of the C library that the program asks for.
fn libc(program: &[u8]) -> anyhow::Result<String> {
    const MARK: &[u8] = b"GLIBC_2.";
    let digits = |at: usize| {
        let rest = &program[at + MARK.len()..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..length]).ok()?.parse::<u32>().ok()
    };
    let places = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let newest = places.filter_map(|(at, _)| digits(at)).max();
    newest.map(|newest| format!("2.{newest}")).context("The program asks for no version of the C library.")
}

fn packed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    use std::io::Write;
    let mut gzip = Command::new("gzip").args(["-9n"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = gzip.stdin.take().context("a piped input is there to be taken")?;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || input.write_all(bytes));
        let output = gzip.wait_with_output()?;
        ensure!(writing.join().is_ok_and(|written| written.is_ok()), "gzip did not read everything");
        ensure!(output.status.success(), "gzip failed");
        Ok(output.stdout)
    })
}

/// Runs a program that must succeed, and returns what it says.
fn told(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{name} cannot be started: a package is made on Debian"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    told(command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Option<Plan> {
        Plan::read(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_plan_is_read_and_what_is_unknown_refused() {
        let usual = Plan { program: None, folder: None, revision: 1, is_fast: false };
        assert_eq!(read(&[]), Some(usual));
        let all = read(&["--program", "it", "--to", "here", "--revision", "7", "--fast"]).unwrap();
        assert_eq!((all.program, all.folder), (Some("it".into()), Some("here".into())));
        assert_eq!((all.revision, all.is_fast), (7, true));
        for wrong in [&["--program"][..], &["--revision", "x"], &["--slow"]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_newest_version_of_the_c_library_counts() {
        assert_eq!(libc(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.17\0GLIBC_2.\0").unwrap(), "2.34");
        assert!(libc(b"nothing").is_err());
    }
}
