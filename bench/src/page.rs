//! `docs/performance.md`: everything in one run, written between two marks, with its plots.

use crate::growth::{self, Growth, Step};
use crate::http::{self, Http};
use crate::instructions::Instructions;
use crate::noise::Noise;
use crate::peer::Peer;
use crate::plot::{Bar, bars};
use crate::rounds::Outcome;
use crate::stage::Stage;
use crate::startup;
use crate::table::Table;
use crate::targets::{self, Run};
use crate::{GROWTH_ONE_IN, ledger, tls};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/performance.md";
/// Names and titles of the plots.
const PLOTS: [(&str, &str); 3] = [
    ("keep-alive", "Processor time of a request on a connection that stays"),
    ("new-connections", "Processor time of a request on a connection of its own"),
    ("growth", "Processor time of a request of ipse as everything grows"),
];
const BEGIN: &str = "<!-- What follows is written by `cargo xtask bench`. -->\n";
const END: &str = "<!-- What stands above was written by `cargo xtask bench`. -->\n";

/// Measures everything, prints it, and writes the page. Fails if a target is missed.
pub(crate) fn bench(rounds: usize) -> Result<()> {
    let root =
        std::env::var_os("XTASK_ROOT").context("XTASK_ROOT is not set: start this with `cargo xtask`")?;
    let root = PathBuf::from(root);
    let noise = Noise::begin()?;
    let stage = Stage::whole()?;
    let http = http::measure(&stage, rounds)?;
    let tls = tls::measure(&stage, rounds)?;
    let started = startup::measure(&stage, rounds / GROWTH_ONE_IN)?;
    let ledger_percent = ledger::measure(&stage)?;
    drop(stage);
    let growth = growth::measure(rounds / GROWTH_ONE_IN)?;
    let instructions = Instructions::count()?;
    let run = Run { http, tls, growth, instructions, ledger_percent };
    let (judged, missed) = targets::judge(&run)?;
    judged.print();
    let Run { http, tls, growth, instructions, .. } = run;
    let mut tables = vec![judged];
    tables.extend(http.tables().into_iter().chain(tls.tables()));
    tables.push(startup::table(&started));
    tables.extend(growth.tables());
    tables.push(instructions.table());
    let noise = noise.line(&http.keep_alive)?;
    println!("\n{noise}");
    write_plots(&root, &http, &growth)?;
    write_page(&root.join(PAGE), &tables, &noise, rounds)?;
    ensure!(missed == 0, "{missed} targets are missed; {PAGE} says which");
    Ok(())
}

fn write_page(path: &Path, tables: &[Table], noise: &str, rounds: usize) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{PAGE} has no beginning mark"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no end mark"))?;
    let machine = machine();
    let of_growth = rounds / GROWTH_ONE_IN;
    let mut written = format!(
        "\nSeen on {machine}, medians of {rounds} rounds, and of {of_growth} where something grows or starts. {noise}\n\n"
    );
    for (name, title) in PLOTS {
        writeln!(written, "![{title}]({})", plot_file(name))?;
    }
    for table in tables {
        written.push_str(&table.markdown());
    }
    Ok(std::fs::write(path, format!("{before}{BEGIN}{written}\n{END}{after}"))?)
}

/// What the figures were seen on.
fn machine() -> String {
    let line = |path: &str, name: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let processor = line("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unnamed processor".to_owned());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Behind the version stands what whoever built it calls it.
    let version = kernel.trim().split('-').next().unwrap_or_default();
    format!("{cores} cores of {processor}, Linux {version}")
}

fn write_plots(root: &Path, http: &Http, growth: &Growth) -> Result<()> {
    let peers = |outcomes: &[Outcome]| {
        let bar = |outcome: &Outcome| Bar {
            name: outcome.peer.name().to_owned(),
            value: outcome.processor_us().median(),
            is_ours: outcome.peer == Peer::Ipse,
        };
        outcomes.iter().map(bar).collect::<Vec<_>>()
    };
    let steps = |steps: &[Step], what: &str| {
        let bar = |step: &Step| Bar {
            name: format!("{} {what}{}", step.amount, if step.amount == 1 { "" } else { "s" }),
            value: step.outcome.processor_us().median(),
            is_ours: true,
        };
        steps.iter().map(bar).collect::<Vec<_>>()
    };
    let grown =
        [steps(&growth.keys, "key"), steps(&growth.connections, "connection"), steps(&growth.cores, "core")];
    let grown: Vec<Bar> = grown.into_iter().flatten().collect();
    let plotted = [peers(&http.keep_alive), peers(&http.fresh), grown];
    for ((name, title), plotted) in PLOTS.iter().zip(plotted) {
        std::fs::write(root.join("docs").join(plot_file(name)), bars(title, "µs", &plotted))?;
    }
    Ok(())
}

/// Beside the page.
fn plot_file(name: &str) -> String {
    format!("performance-{name}.svg")
}
