//! Other programs: how they are started, how they end, how long they take.

use anyhow::Context;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Cargo in the repository's root, as if it were typed there: what the outer cargo told this program about its own
/// package would otherwise reach build scripts, which then run again.
pub(crate) fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let outer = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME"
        });
        if outer {
            command.env_remove(name);
        }
    }
    command
}

/// Runs with the terminal of this program.
pub(crate) fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    command.status().with_context(|| cannot_start(command))
}

/// Runs without a terminal; `None` if it cannot be started at all.
pub(crate) fn quietly(command: &mut Command) -> Option<ExitStatus> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()
}

/// Runs with the standard output passed on line by line, each of which is also shown to `look`.
pub(crate) fn watched(
    command: &mut Command,
    mut passed_on: impl Write,
    mut look: impl FnMut(&str),
) -> anyhow::Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let output = child.stdout.take().context("a piped output is there to be taken")?;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        passed_on.write_all(&line)?;
        look(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(child.wait()?)
}

/// Runs for at most `limit`; `None` if it had to be ended or could not be started.
pub(crate) fn at_most(limit: Duration, command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.stdin(Stdio::null()).spawn().ok()?;
    let watch = Stopwatch::start();
    while watch.elapsed() < limit {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // Nothing is lost if it ended by itself a moment ago.
    drop(child.kill());
    drop(child.wait());
    None
}

/// The code that a shell would give, so that whoever called sees what it would have seen without us.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Where a program is. The administrator's folders are searched too, because Debian keeps them out of a user's path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Where cargo and we put what is made.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "no request is served here; a step's duration is only printed"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "no request is served here; a step's duration is only printed"
    )]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    format!("`{program} {}` cannot be started: check that {program} is installed", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_watched_line_by_line_and_the_status_kept() {
        let (mut lines, mut passed_on) = (Vec::new(), Vec::new());
        let mut command = Command::new("sh");
        command.args(["-c", "printf 'one\\ntwo'; exit 3"]);
        let status = watched(&mut command, &mut passed_on, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((lines, status.code()), (vec!["one".to_owned(), "two".to_owned()], Some(3)));
        assert_eq!(passed_on, b"one\ntwo");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        assert_eq!(at_most(Duration::from_millis(20), Command::new("sleep").arg("60")), None);
        assert!(
            at_most(Duration::from_secs(60), &mut Command::new("true"))
                .is_some_and(|status| status.success())
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = status(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("check that no-such-program is installed"));
    }
}
