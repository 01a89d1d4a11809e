//! The other end of the process that reads: files are handed to it, and what it says, or that it died, comes back.

use super::Hostile;
use super::good::Reads;
use super::reading::written;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Whoever has not read a file by then hangs. No file of a campaign is large.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of a file.
pub(crate) enum Outcome {
    Read(Account),
    /// The process ended, with these words.
    Died(String),
    Hung,
}

/// What the process tells.
pub(crate) struct Account {
    /// Why the file was refused, if it was.
    pub(crate) refusal: Option<String>,
    /// What is wrong with what came out of it.
    pub(crate) complaint: Option<String>,
    pub(crate) milliseconds: f64,
    pub(crate) peak_bytes: u64,
}

/// A process that reads, started again whenever it has ended.
pub(crate) struct Reader {
    folder: PathBuf,
    running: Option<Running>,
}

struct Running {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: PathBuf,
}

impl Reader {
    /// Files and last words go into the folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), running: None }
    }

    /// Lets a file be read.
    pub(crate) fn read(&mut self, file: &Hostile) -> Result<Outcome> {
        self.read_as(&file.name, file.reads, &file.bytes)
    }

    pub(crate) fn read_as(&mut self, name: &str, reads: Reads, bytes: &[u8]) -> Result<Outcome> {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes)?;
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start(&self.folder)?,
        };
        // If the process has ended already, there will be no answer either.
        let _ = writeln!(running.input, "{} {}", written(reads), path.display());
        let answer = running.lines.recv_timeout(PATIENCE);
        std::fs::remove_file(&path)?;
        match answer {
            Ok(line) => {
                self.running = Some(running);
                Ok(Outcome::Read(parsed(&line)?))
            }
            Err(RecvTimeoutError::Timeout) => {
                running.process.kill()?;
                running.process.wait()?;
                Ok(Outcome::Hung)
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = running.process.wait()?;
                let words =
                    String::from_utf8_lossy(&std::fs::read(&running.errors)?).trim().replace('\n', " ");
                let words: String = words.chars().take(400).collect();
                Ok(Outcome::Died(format!("{status}; {words}")))
            }
        }
    }

    /// Ends the process, so that the next file finds a fresh one.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        if let Some(Running { mut process, input, .. }) = self.running.take() {
            // It ends with its input.
            drop(input);
            process.wait()?;
        }
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.refresh();
    }
}

impl Running {
    fn start(folder: &Path) -> Result<Self> {
        let errors = folder.join("stderr");
        let mut process = Command::new(std::env::current_exe()?)
            .arg(super::READER)
            // What is freed goes back to the system at once, so that a file is not held to account for the one before.
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_TRIM_THRESHOLD_", "131072")
            .env("MALLOC_MMAP_THRESHOLD_", "131072")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&errors)?)
            .spawn()
            .context("cannot start a reader")?;
        let input = process.stdin.take().context("no input")?;
        let output = process.stdout.take().context("no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line).ok())
        });
        Ok(Self { process, input, lines, errors })
    }
}

fn parsed(line: &str) -> Result<Account> {
    let told: serde_json::Value =
        serde_json::from_str(line).with_context(|| format!("{line:?} is no account"))?;
    let text = |name: &str| told[name].as_str().map(str::to_owned);
    Ok(Account {
        refusal: text("refusal"),
        complaint: text("complaint"),
        milliseconds: told["ms"].as_f64().context("no time")?,
        peak_bytes: told["peak"].as_u64().context("no peak")?,
    })
}
