//! Flows in a real browser: a script that drives Chromium as a person would, and a test that it talks to.
//!
//! The script is run by Node.js with playwright-core. What it finds there stands in the beginning of `flows/lib.mjs`, beside
//! the tests of the server.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A flow, and how the browser is to be.
#[derive(Clone, Debug)]
pub struct Flow {
    script: PathBuf,
    base: String,
    given: Value,
    javascript: bool,
    dark: bool,
    width: u32,
    height: u32,
    ignore_https_errors: bool,
    other_hosts: Vec<String>,
    seconds: u32,
}

impl Flow {
    /// The flow of a script, at a server such as `http://127.0.0.1:41234`. The browser runs scripts, is light, and 1280 wide.
    pub fn new(script: impl Into<PathBuf>, base: impl Into<String>) -> Self {
        Self {
            script: script.into(),
            base: base.into(),
            given: Value::Null,
            javascript: true,
            dark: false,
            width: 1280,
            height: 900,
            ignore_https_errors: false,
            other_hosts: Vec::new(),
            seconds: 120,
        }
    }

    /// What the script finds as `given`.
    #[must_use]
    pub fn given(self, given: Value) -> Self {
        Self { given, ..self }
    }

    /// Whether the browser runs the scripts of pages.
    #[must_use]
    pub fn javascript(self, javascript: bool) -> Self {
        Self { javascript, ..self }
    }

    /// With a preference for dark.
    #[must_use]
    pub fn dark(self) -> Self {
        Self { dark: true, ..self }
    }

    /// In a window of this size.
    #[must_use]
    pub fn window(self, width: u32, height: u32) -> Self {
        Self { width, height, ..self }
    }

    /// With any certificate.
    #[must_use]
    pub fn ignore_https_errors(self) -> Self {
        Self { ignore_https_errors: true, ..self }
    }

    /// Lets pages ask one more host, with its port, than the one that they come from.
    #[must_use]
    pub fn and_host(mut self, host: impl Into<String>) -> Self {
        self.other_hosts.push(host.into());
        self
    }

    /// How long it may take, instead of two minutes.
    #[must_use]
    pub fn at_most(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    /// Runs it, and returns what it told. A flow that asks something fails.
    pub fn run(&self) -> Result<Vec<Value>> {
        self.run_with(|question, _| bail!("the flow asks for `{question}`, and nobody answers"))
    }

    /// The same, with a test that answers questions: it moves the clock, looks into the mailbox, and so on.
    pub fn run_with(&self, mut answer: impl FnMut(&str, &Value) -> Result<Value>) -> Result<Vec<Value>> {
        let name = self.script.file_stem().context("the script has no name")?.to_string_lossy();
        let task = json!({
            "name": name,
            "base": self.base,
            "given": self.given,
            "options": {
                "javascript": self.javascript,
                "dark": self.dark,
                "width": self.width,
                "height": self.height,
                "ignoreHttpsErrors": self.ignore_https_errors,
                "otherHosts": self.other_hosts,
            },
            "seconds": self.seconds,
            "pictures": pictures(),
        });
        let mut node = Command::new(node()?)
            .arg(&self.script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start Node.js")?;
        let mut input = node.stdin.take().context("no input")?;
        let output = BufReader::new(node.stdout.take().context("no output")?);
        let mut errors = node.stderr.take().context("no errors")?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        writeln!(input, "{task}")?;
        let (mut steps, mut told) = (String::new(), Vec::new());
        let mut failed = None;
        for line in output.lines() {
            let line: Value = serde_json::from_str(&line?).context("the flow printed something by itself")?;
            if let Some(step) = line["step"].as_str() {
                let _ = writeln!(steps, "- {step}");
            } else if let Some(question) = line["ask"].as_str() {
                // A flow that gets no answer finds the end of its input, and ends.
                match answer(question, &line["about"]) {
                    Ok(answer) => writeln!(input, "{answer}")?,
                    Err(error) => {
                        failed = Some(format!("{error:#}"));
                        break;
                    }
                }
            } else if let Some(reason) = line["failed"].as_str() {
                failed = Some(reason.to_owned());
            } else {
                told.push(line["told"].clone());
            }
        }
        drop(input);
        if failed.is_some() {
            let _ = node.kill();
        }
        let status = node.wait()?;
        let errors = errors.join().unwrap_or_default();
        if let Some(reason) = failed {
            bail!("the flow {name} fails {reason}\nafter the steps\n{steps}{errors}");
        }
        ensure!(status.success(), "the flow {name} ends with {status} after the steps\n{steps}{errors}");
        Ok(told)
    }
}

fn node() -> Result<OsString> {
    std::env::var_os("XTASK_NODE").context(
        "XTASK_NODE names Node.js: run the tests with `cargo xtask test`, or see `cargo xtask tools`",
    )
}

/// Where pictures of failures go: into the folder of what cargo makes, from which this program was started.
fn pictures() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let deps = program.ancestors().find(|folder| folder.ends_with("deps"));
    let target = deps.and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("browser")
}
