//! The real program as a process of its own, and its command line.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A running `ipse serve`. It is killed when this is dropped.
pub struct Server {
    /// The process, for signals and for waiting.
    pub process: Child,
    /// The first address it listens on.
    pub address: SocketAddr,
    /// Every door in the order of its greeting, such as `https://127.0.0.1:41234`.
    pub urls: Vec<String>,
    output: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts `command` with `--listen` on a free port and `--data-dir`, and waits until it listens.
    pub fn start(mut command: Command, data_dir: &Path) -> Result<Self> {
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn().context("cannot start the server")?;
        let mut output = BufReader::new(process.stdout.take().context("no output")?);
        let mut first = String::new();
        output.read_line(&mut first)?;
        let urls: Vec<String> = first
            .trim()
            .split_once("listening on ")
            .map(|(_, urls)| urls.split(" and ").map(str::to_owned).collect())
            .unwrap_or_default();
        let Some(address) = urls.iter().find_map(|url| address_of(url, "http://")) else {
            let status = process.wait()?;
            bail!("the server did not start ({status}): {first:?}")
        };
        // Somebody has to read the rest, or the server would find a closed pipe.
        let collected = Arc::new(Mutex::new(first));
        let theirs = Arc::clone(&collected);
        let reader = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = output.read_to_string(&mut rest);
            theirs.lock().unwrap_or_else(PoisonError::into_inner).push_str(&rest);
        });
        Ok(Self { process, address, urls, output: collected, reader: Some(reader) })
    }

    /// The first door at which HTTPS is spoken.
    pub fn https(&self) -> Result<SocketAddr> {
        let https = self.urls.iter().find_map(|url| address_of(url, "https://"));
        https.with_context(|| format!("no door of HTTPS among {:?}", self.urls))
    }

    /// Ends the process as `kill -9` does.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Asks the process to stop with a signal, such as `TERM`, and returns its exit code and what it had printed.
    pub fn stop(mut self, signal: &str) -> Result<(Option<i32>, String)> {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status()?;
        ensure!(sent.success(), "cannot signal the server");
        let status = self.process.wait()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((status.code(), output))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn address_of(url: &str, scheme: &str) -> Option<SocketAddr> {
    url.strip_prefix(scheme)?.split(' ').next()?.parse().ok()
}

/// A command that runs the program without the settings of whoever runs the tests.
#[must_use]
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("IPSE_")) {
        command.env_remove(name);
    }
    // Many run at once, and only one could have the usual place of the operator's listener.
    command.env("IPSE_ADMIN_LISTEN", "none");
    command
}
