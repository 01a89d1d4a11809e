//! The real program that lies beside this one: as a server, and as commands.

use anyhow::{Result, ensure};
use ipse_testkit::Server;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts the program on a free port and waits until it listens.
pub(crate) fn start(data_dir: &Path) -> Result<Server> {
    let mut command = ipse_testkit::program(program()?);
    command.arg("serve");
    start_with(command, data_dir)
}

/// Starts the program through another one, which is given `--listen` and `--data-dir` to pass on.
pub(crate) fn start_with(mut command: Command, data_dir: &Path) -> Result<Server> {
    // Pauses by the hundred are what campaigns want, and no news.
    command.env("IPSE_LOG_LEVEL", "warn");
    Server::start(command, data_dir)
}

/// Runs a command of the program and returns what it printed.
pub(crate) fn ipse(data_dir: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        ipse_testkit::program(program()?).args(arguments).arg("--data-dir").arg(data_dir).output()?;
    ensure!(output.status.success(), "ipse {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Makes a key and returns its text.
pub(crate) fn create_key(data_dir: &Path, daily_limit: u32) -> Result<String> {
    let limit = daily_limit.to_string();
    ipse(data_dir, &["key", "create", "--account", "torture@example.com", "--daily-limit", &limit])
}

/// Where the program is.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("ipse");
    ensure!(program.is_file(), "{} is not there: run `cargo build -p ipse` first", program.display());
    Ok(program)
}
