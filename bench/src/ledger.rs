//! `bench ledger`: which part of a request is the ledger's. A server cannot be asked without counting, so perf looks a few thousand
//! times what it does while it is asked, and the looks that find the ledger on the way are counted, what the kernel does for it
//! among them.

use crate::http;
use crate::peer::Peer;
use crate::rounds::{Asked, Scenario};
use crate::stage::Stage;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// What names of the ledger's functions begin with, or hold; and the threads by which its counts go to the database.
const LEDGER: [&str; 3] = ["ipse_store::ledger", "ipse_store::counters", "sqlx-sqlite"];
/// A few seconds.
const ASKED: Scenario = Scenario { requests: 300_000, ..http::KEEP_ALIVE };
pub(crate) const MOST_PERCENT: f64 = 15.0;

pub(crate) fn bench() -> Result<()> {
    let percent = measure(&Stage::whole()?)?;
    ensure!(percent <= MOST_PERCENT, "the ledger takes {percent:.1} %");
    Ok(())
}

/// How many of a hundred looks at a server find its ledger.
pub(crate) fn measure(stage: &Stage) -> Result<f64> {
    let mut asked = Asked::new(Peer::Ipse.start(stage, &stage.cores.of_server())?);
    // Every key has been asked with before anybody looks.
    asked.run(stage, &ASKED)?;
    let looks = stage.fresh_folder()?.join("looks");
    let process = asked.running.processes.first().context("no process")?.to_string();
    let mut looking = Command::new("perf")
        .args([
            "record",
            "--quiet",
            "-e",
            "cpu-clock",
            "-F",
            "1999",
            "--call-graph",
            "dwarf,4096",
            "-p",
            &process,
        ])
        .arg("-o")
        .arg(&looks)
        .stdout(Stdio::null())
        .spawn()
        .context("perf is needed: Debian's linux-perf")?;
    let done = asked.run(stage, &ASKED);
    let signalled = Command::new("kill").args(["-s", "INT", &looking.id().to_string()]).status()?;
    ensure!(signalled.success(), "perf cannot be stopped");
    looking.wait()?;
    done?;
    let (ledgers, all) = count(&looks)?;
    ensure!(all > 500, "perf looked only {all} times");
    #[expect(clippy::cast_precision_loss, reason = "there are a few thousands")]
    let percent = ledgers as f64 * 100.0 / all as f64;
    println!("  the ledger's part of a request: {percent:.1} % ({ledgers} of {all} looks)");
    Ok(percent)
}

/// How many looks found the ledger on the way, and how many there were.
fn count(looks: &Path) -> Result<(usize, usize)> {
    let output = Command::new("perf").args(["script", "-F", "comm,ip,sym", "-i"]).arg(looks).output()?;
    ensure!(output.status.success(), "perf script: {}", String::from_utf8_lossy(&output.stderr));
    Ok(count_in(&String::from_utf8_lossy(&output.stdout)))
}

/// Each look is some lines, with an empty one behind them.
fn count_in(text: &str) -> (usize, usize) {
    let looks = text.split("\n\n").filter(|look| !look.trim().is_empty());
    looks.fold((0, 0), |(ledgers, all), look| {
        (ledgers + usize::from(LEDGER.iter().any(|name| look.contains(name))), all + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_by_what_is_on_the_way() {
        let text = "front\n 1 write\n 2 <ipse_store::ledger::Ledger>::settle\n 3 main\n\nfront\n 1 read\n 3 main\n\n\
                    sqlx-sqlite-wor\n 1 fsync\n\n";
        assert_eq!(count_in(text), (2, 3));
    }
}
