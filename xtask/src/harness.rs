//! The torture harness and its measurements: built for release beside the server that they drive.

use crate::run;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn torture(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    start(root, &[], arguments)
}

pub(crate) fn bench(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    start(root, &["bench"], arguments)
}

fn start(root: &Path, before: &[&str], arguments: &[String]) -> anyhow::Result<ExitCode> {
    let built = run::status(run::cargo(root).args(["build", "--release", "-p", "ipse"]))?;
    if !built.success() {
        eprintln!("The server does not build, so nothing was run. Correct what the compiler names above.");
        return Ok(run::exit_code(built));
    }
    let ended = run::status(
        run::cargo(root).args(["run", "--release", "-p", "ipse-torture", "--"]).args(before).args(arguments),
    )?;
    Ok(run::exit_code(ended))
}
