//! `cargo xtask lighthouse`: what Lighthouse says of the pages of a real server. The pages and the targets stand in
//! `xtask/node/lighthouse.mjs`.

use crate::node::{self, Packages};
use crate::{run, tools};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Stands in for the address of this machine, so that the front page has a place to show.
const SOMEWHERE: &str = "81.2.69.142";

/// Measures a program, or what is built for release now.
pub(crate) fn run(root: &Path, program: Option<&str>) -> anyhow::Result<ExitCode> {
    let (chromium, node) = tools::browser_ready()?;
    let modules = node::modules(root, Packages::Lighthouse)?;
    let folder = run::target_folder(root);
    let program = if let Some(program) = program {
        PathBuf::from(program)
    } else {
        let built = run::status(run::cargo(root).args(["build", "--release", "--locked", "-p", "ipse"]))?;
        if !built.success() {
            eprintln!(
                "The server does not build, so nothing was measured. Correct what the compiler names above."
            );
            return Ok(run::exit_code(built));
        }
        folder.join("release/ipse")
    };
    let reports = folder.join("lighthouse");
    let data = reports.join("data");
    // What an earlier run left there belongs to nobody.
    drop(std::fs::remove_dir_all(&data));
    let server = Server::start(&program, &data)?;
    let mut measure = Command::new(node);
    measure.arg(root.join("xtask/node/lighthouse.mjs")).arg(&server.url).arg(&reports);
    measure.env("XTASK_CHROMIUM", chromium).env("XTASK_NODE_MODULES", modules);
    Ok(run::exit_code(run::status(&mut measure)?))
}

/// A running `ipse serve`. It is killed when this is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(program: &Path, data: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("IPSE_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--pretend-ip", SOMEWHERE, "--data-dir"]).arg(data);
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started: check its path", program.display()))?;
        let mut output =
            BufReader::new(process.stdout.take().context("a piped output is there to be taken")?);
        let mut greeting = String::new();
        output.read_line(&mut greeting)?;
        let Some((_, url)) = greeting.trim().split_once("listening on ") else {
            let status = process.wait()?;
            bail!("The server did not start ({status}): it says why above.");
        };
        let url = url.to_owned();
        // Somebody has to read the rest, or the server would find a closed pipe.
        std::thread::spawn(move || output.lines().for_each(drop));
        Ok(Self { process, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is lost if it ended by itself a moment ago.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
