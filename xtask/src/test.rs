//! `cargo xtask test`: every check in order, from the cheapest to the dearest, up to the first that fails.

use crate::harness;
use crate::run::{self, Stopwatch};
use crate::tidy;
use crate::tools::{self, Peers};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

const ADVISORIES_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn all(root: &Path) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    let done = steps(root, &mut report);
    println!("\n{}", report.table());
    match done {
        Ok(()) => println!("Everything passes."),
        Err(error) => println!("{error:#}"),
    }
    // The last line is the number of tests, for whoever counts; a failure that no test stands for leaves it out.
    if let Some(counts) = report.counts_to_show() {
        println!("{} passed, {} failed", counts.passed, counts.failed);
    }
    Ok(if report.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn steps(root: &Path, report: &mut Report) -> anyhow::Result<()> {
    let peers = report.step("prerequisites", || tools::ready(root))?;
    report.step("format", || {
        must(
            run::cargo(root).args(["fmt", "--all", "--check"]),
            "Run `cargo fmt --all` and look at what it changes.",
        )
    })?;
    report.step("clippy", || {
        must(
            run::cargo(root).args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
            "Correct what clippy names above; if the lock file needs an update, run `cargo build` and commit it.",
        )
    })?;
    report.step("tidy", || tidy::check(root))?;
    report.step("dependencies", || dependencies(root))?;
    report.step("build", || {
        must(
            run::cargo(root).args(["build", "--workspace", "--locked"]),
            "Correct what the compiler names above.",
        )
    })?;
    let mut counts = Counts::default();
    let tested = report.step("tests", || tests(root, &peers, &mut counts));
    report.counts = Some(counts);
    tested?;
    report.step("torture, short", || {
        let mut torture = run::cargo(root);
        torture.args(["run", "-p", "ipse-torture", "--locked", "--", "short"]);
        must(
            torture.envs(peers.environment()),
            "Read above which campaign failed and with which seed, and repeat it with `cargo xtask torture`.",
        )
    })?;
    report.step("bench, short", || {
        must(
            &mut harness::bench_short(root),
            "Read above which peer is not right, and repeat it with `cargo xtask bench short`.",
        )
    })?;
    report.step("instructions", || {
        must(
            &mut harness::instructions(root, &[])?,
            "Read above what grew, and repeat it with `cargo xtask bench instructions`.",
        )
    })
}

fn must(command: &mut Command, otherwise: &str) -> anyhow::Result<()> {
    if run::status(command)?.success() { Ok(()) } else { bail!("{otherwise}") }
}

fn dependencies(root: &Path) -> anyhow::Result<()> {
    if !tools::cargo_deny_ready(root)? {
        println!(
            "Skipped: cargo-deny is not installed. To check licences, bans and sources too: {}",
            tools::INSTALL_CARGO_DENY
        );
        return Ok(());
    }
    let mut check = run::cargo(root);
    check.args(["deny", "--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    must(&mut check, "Choose another dependency, or change deny.toml and say why in the commit.")?;
    let fetched = run::at_most(ADVISORIES_LIMIT, run::cargo(root).args(["deny", "--locked", "fetch", "db"]));
    if !fetched.is_some_and(|status| status.success()) {
        println!("Not checked: advisories, because their database cannot be fetched from here.");
        return Ok(());
    }
    must(
        run::cargo(root).args(["deny", "--locked", "--offline", "check", "advisories"]),
        "Update the crate that the advisory names: `cargo update -p NAME`.",
    )
}

fn tests(root: &Path, peers: &Peers, counts: &mut Counts) -> anyhow::Result<()> {
    let mut command = run::cargo(root);
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]).envs(peers.environment());
    let status = run::watched(&mut command, std::io::stdout(), |line| counts.read(line))?;
    if status.success() {
        return Ok(());
    }
    bail!("Correct what cargo names above; `cargo test -p CRATE NAME` runs one test alone.")
}

/// The sum of what the test programs say about themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    fn read(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split(['.', ';']) {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse::<u64>().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse::<u64>().unwrap_or(0),
                _ => {}
            }
        }
    }
}

#[derive(Default)]
struct Report {
    rows: Vec<Row>,
    counts: Option<Counts>,
}

struct Row {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Report {
    fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        println!("\n── {name} ──");
        let watch = Stopwatch::start();
        let done = work();
        let took = watch.elapsed();
        self.rows.push(Row { name, took, passed: done.is_ok() });
        println!("── {name}: {} after {:.1} s ──", word(done.is_ok()), took.as_secs_f64());
        done.with_context(|| format!("The step `{name}` fails"))
    }

    fn failed(&self) -> bool {
        self.rows.iter().any(|row| !row.passed)
    }

    /// Numbers that would mislead are not shown: those of a run that failed without a failed test.
    fn counts_to_show(&self) -> Option<Counts> {
        self.counts.filter(|counts| self.failed() == (counts.failed > 0))
    }

    fn table(&self) -> String {
        let total: Duration = self.rows.iter().map(|row| row.took).sum();
        let line =
            |name: &str, took: Duration, end: &str| format!("{name:<16}{:>8.1} s  {end}", took.as_secs_f64());
        self.rows
            .iter()
            .map(|row| line(row.name, row.took, word(row.passed)))
            .chain([line("all", total, word(!self.failed()))])
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "passes" } else { "FAILS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(passed: bool, counts: Option<Counts>) -> Report {
        Report { rows: vec![Row { name: "tests", took: Duration::from_millis(1500), passed }], counts }
    }

    #[test]
    fn results_are_summed_over_all_test_programs() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.25s",
            "says `test result: ok. 7 passed; 0 failed`",
        ] {
            counts.read(line);
        }
        assert_eq!(counts, Counts { passed: 13, failed: 2 });
    }

    #[test]
    fn numbers_that_would_mislead_are_not_shown() {
        let good = Counts { passed: 3, failed: 0 };
        let bad = Counts { passed: 3, failed: 1 };
        assert_eq!(report(true, Some(good)).counts_to_show(), Some(good));
        assert_eq!(report(false, Some(bad)).counts_to_show(), Some(bad));
        assert_eq!(report(false, Some(good)).counts_to_show(), None, "a failure that no test stands for");
        assert_eq!(report(false, None).counts_to_show(), None, "no test was run");
    }

    #[test]
    fn a_failing_step_is_named_and_fails_the_run() {
        let mut report = Report::default();
        let error = report.step("format", || -> anyhow::Result<()> { bail!("Run it.") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "The step `format` fails: Run it.");
        assert!(report.failed());
        assert!(report.table().starts_with("format"), "{}", report.table());
    }

    #[test]
    fn the_table_holds_seconds() {
        assert_eq!(
            report(true, None).table(),
            "tests                1.5 s  passes\nall                  1.5 s  passes"
        );
    }
}
