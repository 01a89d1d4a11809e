//! The torture harness and the measurements: built for release beside the server that they drive.

use crate::default_data::DEFAULT_DATA;
use crate::{geo_sources, run, tools};
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};

/// What is held to the sources of the default data.
const GEO: &str = "geo";
/// What is measured without peers.
const OF_A_PART: [&str; 4] = ["start", GEO, "keys", "nodes"];
/// What needs a build of its own, and by which profile.
const INSTRUCTIONS: &str = "instructions";
const COUNTED: &str = "bench-gate";
/// What asks with a client of HTTP/3, or needs a mailbox: either is a program in Python.
const WITH_PYTHON: [&str; 4] = ["login", "restart", "rtt", "short"];

pub(crate) fn torture(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    start(root, &[], arguments)
}

/// Measurements of a part are in the torture harness; those that have peers beside them are in a crate of their own.
pub(crate) fn bench(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let name = arguments.iter().map(String::as_str).find(|argument| !argument.starts_with("--"));
    if name.is_some_and(|name| OF_A_PART.contains(&name)) {
        return start(root, &["bench"], arguments);
    }
    tools::bench_ready()?;
    if name == Some(INSTRUCTIONS) {
        return Ok(run::exit_code(run::status(&mut instructions(root, arguments)?)?));
    }
    if let Some(code) = server_does_not_build(root)? {
        return Ok(code);
    }
    let mut bench = ipse_bench(root, &["--release"]);
    Ok(run::exit_code(run::status(bench.args(arguments))?))
}

/// The measurements in a small form, as the tests have them.
pub(crate) fn bench_short(root: &Path) -> Command {
    let mut bench = ipse_bench(root, &["--locked"]);
    bench.arg("short");
    bench
}

/// Counts instructions of a server that is built for nothing else: what is counted must be built alike wherever it is recorded
/// and compared.
pub(crate) fn instructions(root: &Path, arguments: &[String]) -> anyhow::Result<Command> {
    let mut build = run::cargo(root);
    let built = run::status(build.args(["build", "--profile", COUNTED, "--locked", "-p", "ipse"]))?;
    ensure!(built.success(), "Correct what the compiler names above.");
    // What hyper takes by itself is of interest, and not worth another build in the tests.
    let profile = if arguments.is_empty() { "dev" } else { COUNTED };
    let mut bench = ipse_bench(root, &["--locked", "--profile", profile]);
    bench.args(if arguments.is_empty() { vec![INSTRUCTIONS] } else { Vec::new() }).args(arguments);
    bench.env("IPSE_BENCH_PROGRAM", run::target_folder(root).join(COUNTED).join("ipse"));
    Ok(bench)
}

fn ipse_bench(root: &Path, options: &[&str]) -> Command {
    let mut bench = run::cargo(root);
    bench.arg("run").args(options).args(["-p", "ipse-bench", "--"]);
    bench.env("XTASK_DEFAULT_DATA", root.join(DEFAULT_DATA)).env("XTASK_ROOT", root);
    bench
}

fn start(root: &Path, before: &[&str], arguments: &[String]) -> anyhow::Result<ExitCode> {
    if let Some(code) = server_does_not_build(root)? {
        return Ok(code);
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

/// Builds the server for release; says with which code cargo ended if it could not.
fn server_does_not_build(root: &Path) -> anyhow::Result<Option<ExitCode>> {
    // Whoever names another program wants that one measured.
    if std::env::var_os("IPSE_BENCH_PROGRAM").is_some() {
        return Ok(None);
    }
    let built = run::status(run::cargo(root).args(["build", "--release", "-p", "ipse"]))?;
    if built.success() {
        return Ok(None);
    }
    eprintln!("The server does not build, so nothing was run. Correct what the compiler names above.");
    Ok(Some(run::exit_code(built)))
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
