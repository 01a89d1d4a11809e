//! The real program as a process of its own, and its command line.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running `ipse serve`.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the program on a free port and waits until it listens.
    pub(crate) fn start(data_dir: &Path) -> Result<Self> {
        let mut command = Command::new(program()?);
        command.arg("serve");
        Self::start_with(command, data_dir)
    }

    /// Starts the program through another one, which is given `--listen` and `--data-dir` to pass on.
    pub(crate) fn start_with(mut command: Command, data_dir: &Path) -> Result<Self> {
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir).stdin(Stdio::null());
        // Pauses by the hundred are what campaigns want, and no news.
        command.env("IPSE_LOG_LEVEL", "warn");
        let mut process = command.stdout(Stdio::piped()).spawn().context("cannot start the server")?;
        let mut first = String::new();
        let output = process.stdout.take().context("no output")?;
        let mut output = BufReader::new(output);
        output.read_line(&mut first)?;
        let address = first.trim().rsplit_once("http://").and_then(|(_, address)| address.parse().ok());
        // Somebody has to read the rest, or the server would find a closed pipe.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        match address {
            Some(address) => Ok(Self { process, address }),
            None => {
                let status = process.wait()?;
                anyhow::bail!("the server did not start ({status}): {first:?}")
            }
        }
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command of the program and returns what it printed.
pub(crate) fn ipse(data_dir: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program()?).args(arguments).arg("--data-dir").arg(data_dir).output()?;
    ensure!(output.status.success(), "ipse {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Makes a key and returns its text.
pub(crate) fn create_key(data_dir: &Path, daily_limit: u32) -> Result<String> {
    let limit = daily_limit.to_string();
    ipse(data_dir, &["key", "create", "--account", "torture@example.com", "--daily-limit", &limit])
}

/// The program lies beside this one.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("ipse");
    ensure!(program.is_file(), "{} is not there: run `cargo build -p ipse` first", program.display());
    Ok(program)
}
