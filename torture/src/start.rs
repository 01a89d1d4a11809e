//! `bench start`: how long a server takes from nothing to its first answer.

use crate::server;
use crate::stopwatch::Stopwatch;
use anyhow::{Result, ensure};
use ipse_testkit::Connection;

const TARGET_SECONDS: f64 = 0.3;
const RUNS: u32 = 20;
/// Machines that test are slow and share their processors, so that the short form only notices what is far off.
const LENIENT_SECONDS: f64 = 3.0;
const SHORT_RUNS: u32 = 3;

/// The measurement, held to its target.
pub(crate) fn bench() -> Result<()> {
    measure(RUNS, TARGET_SECONDS, "")
}

/// A few runs, held to a limit that a noisy machine can keep.
pub(crate) fn bench_short() -> Result<()> {
    measure(SHORT_RUNS, LENIENT_SECONDS, ", lenient because machines that test are noisy")
}

fn measure(runs: u32, limit_seconds: f64, why: &str) -> Result<()> {
    println!("bench start: {runs} runs, each on an empty folder");
    let mut seconds = (0..runs).map(|_| first_answer()).collect::<Result<Vec<f64>>>()?;
    seconds.sort_unstable_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    let median = if seconds.len().is_multiple_of(2) {
        seconds[middle - 1].midpoint(seconds[middle])
    } else {
        seconds[middle]
    };
    let (fastest, slowest) = (seconds[0], seconds[seconds.len() - 1]);
    println!(
        "  start to first answer: median {median:.3} s (fastest {fastest:.3} s, slowest {slowest:.3} s), limit \
         {limit_seconds} s{why}; replay with: cargo xtask bench start"
    );
    ensure!(
        median < limit_seconds,
        "bench start: the median of {median:.3} s is not under {limit_seconds} s"
    );
    Ok(())
}

/// Seconds from the start of the process until a request of the demo was answered.
fn first_answer() -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let watch = Stopwatch::start();
    // The server names its port when the door is open, so that nothing is lost between two attempts to connect.
    let server = server::start(&folder.path().join("data"))?;
    let response = Connection::open(server.address)?.get("/api/v1/ip/demo", None)?;
    let seconds = watch.seconds();
    ensure!(response.status == 200, "the demo answered {}: {}", response.status, response.body);
    server.kill()?;
    Ok(seconds)
}
