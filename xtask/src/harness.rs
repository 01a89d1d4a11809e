//! The torture harness and its measurements: built for release beside the server that they drive.

use crate::default_data::DEFAULT_DATA;
use crate::{geo_sources, run, tools};
use anyhow::Context;
use std::path::Path;
use std::process::{Command, ExitCode};

/// What is held to the sources of the default data.
const GEO: &str = "geo";
/// What asks with a client of HTTP/3, or needs a mailbox: either is a program in Python.
const WITH_PYTHON: [&str; 4] = ["login", "restart", "rtt", "short"];

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
    let mut harness = run::cargo(root);
    harness.args(["run", "--release", "-p", "ipse-torture", "--"]).args(before).args(arguments);
    harness.env("XTASK_DEFAULT_DATA", root.join(DEFAULT_DATA));
    if arguments.first().is_some_and(|name| name == GEO) {
        with_sources(root, &mut harness)?;
    }
    if arguments.first().is_some_and(|name| WITH_PYTHON.contains(&name.as_str())) {
        harness.env("XTASK_PYTHON", tools::venv(root)?);
    }
    Ok(run::exit_code(run::status(&mut harness)?))
}

/// Fetches the sources if they are missing, and tells where they are.
fn with_sources(root: &Path, harness: &mut Command) -> anyhow::Result<()> {
    let fetched = geo_sources::fetch(root, &geo_sources::pinned(root)?)?;
    for (variable, kind) in [("XTASK_GEO_CITY", "city"), ("XTASK_GEO_ASN", "asn")] {
        let paths = fetched.iter().filter(|file| file.kind == kind).map(|file| &file.path);
        let paths = std::env::join_paths(paths).context("the target folder's path holds a colon: move it")?;
        harness.env(variable, paths);
    }
    Ok(())
}
