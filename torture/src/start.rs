//! `bench start`: how long a server takes from nothing to an open port and to its first answer, and how much of that the
//! default data can take.

use crate::geo::world;
use crate::server;
use anyhow::{Result, ensure};
use ipse_testkit::{Connection, Stopwatch};

const TARGET_SECONDS: f64 = 0.3;
const PORT_SECONDS: f64 = 1.0;
const READ_SECONDS: f64 = 0.6;
const RUNS: u32 = 20;
const READ_RUNS: u32 = 9;
/// Machines that test are slow and share their processors, so that the short form only notices what is far off.
const LENIENT_SECONDS: f64 = 3.0;
const SHORT_RUNS: u32 = 3;

/// The measurement, held to its targets.
pub(crate) fn bench() -> Result<()> {
    let started = measure(RUNS, PORT_SECONDS, TARGET_SECONDS, "");
    let read = measure_reading();
    // Both are printed, whichever fails.
    started.and(read)
}

/// A few runs, held to a limit that a noisy machine can keep.
pub(crate) fn bench_short() -> Result<()> {
    let why = ", lenient because machines that test are noisy";
    measure(SHORT_RUNS, LENIENT_SECONDS, LENIENT_SECONDS, why)
}

fn measure(runs: u32, port_limit: f64, answer_limit: f64, why: &str) -> Result<()> {
    println!("bench start: {runs} runs, each on an empty folder; replay with: cargo xtask bench start");
    let started = (0..runs).map(|_| start()).collect::<Result<Vec<Start>>>()?;
    let opened = started.iter().map(|start| start.opened_seconds).collect();
    let answered = started.iter().map(|start| start.answered_seconds).collect();
    let opened = held("start to open port", opened, port_limit, why);
    let answered = held("start to first answer", answered, answer_limit, why);
    opened.and(answered)
}

fn measure_reading() -> Result<()> {
    let Some(snapshot) = world::default_data()? else {
        println!(
            "  reading the default data: not measured, for there is none; `cargo xtask default-data` makes it"
        );
        return Ok(());
    };
    let seconds = (0..READ_RUNS).map(|_| anyhow::Ok(world::load(&snapshot.bytes)?.seconds));
    held("reading the default data", seconds.collect::<Result<_>>()?, READ_SECONDS, "")
}

/// Prints the median, and fails if it is not under its limit.
fn held(what: &str, mut seconds: Vec<f64>, limit_seconds: f64, why: &str) -> Result<()> {
    seconds.sort_unstable_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    let median = if seconds.len().is_multiple_of(2) {
        seconds[middle - 1].midpoint(seconds[middle])
    } else {
        seconds[middle]
    };
    let (fastest, slowest) = (seconds[0], seconds[seconds.len() - 1]);
    println!(
        "  {what}: median {median:.3} s (fastest {fastest:.3} s, slowest {slowest:.3} s), limit {limit_seconds} s{why}"
    );
    ensure!(
        median < limit_seconds,
        "bench start: {what}: the median of {median:.3} s is not under {limit_seconds} s"
    );
    Ok(())
}

/// One start, from the birth of the process.
struct Start {
    opened_seconds: f64,
    /// Until a request of the demo was answered.
    answered_seconds: f64,
}

fn start() -> Result<Start> {
    let folder = tempfile::tempdir()?;
    let watch = Stopwatch::start();
    // The server names its port when the door is open, so that nothing is lost between two attempts to connect.
    let server = server::start(&folder.path().join("data"))?;
    let opened_seconds = watch.seconds();
    let response = Connection::open(server.address)?.get("/api/v1/ip/demo", None)?;
    let answered_seconds = watch.seconds();
    ensure!(response.status == 200, "the demo answered {}: {}", response.status, response.body);
    server.kill()?;
    Ok(Start { opened_seconds, answered_seconds })
}
