//! `bench instructions`: how many instructions of its own the server takes for a keyed `full` lookup. They are counted by
//! callgrind, so that the figure is the same on a busy machine as on an idle one, and the tests hold it to what is recorded.
//!
//! What counts is the thread that answers: others do their work by the clock, and not by the request. One caller asks, one request
//! at a time: a loop that answers many at once takes fewer for each. Several times as many are counted, and the least is told,
//! because what is done now and then falls on some of them.

use crate::keys;
use crate::peer::{self, Running};
use crate::stage::Stage;
use crate::table::Table;
use anyhow::{Context, Result, bail, ensure};
use ipse_testkit::{Connection, Server};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was recorded, beside this crate's sources.
const RECORD: &str = "bench/instructions.txt";
/// By how much a figure may grow before the tests fail.
const MOST_PERCENT: u64 = 3;
const COUNTS: usize = 6;
const REQUESTS: usize = 300;
/// Before anything is counted, every key was asked with: the first request of a key does more.
const WARM_UP: usize = 400;
/// Callers come with so few keys that writing down their counts, once a second, is hardly seen, however long a second is on a busy
/// machine; and with so many that none is asked with 300 times.
const KEYS: usize = 16;
const BY_HYPER: &str = "hyper";
/// A field that only hyper understands, so that a request with it goes there.
const NOT_PLAIN: &str = "te: trailers\r\n";

/// How a request goes.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    what: &'static str,
    /// A line more in each request.
    line: &'static str,
    server: Counting,
}

impl Way {
    /// This program must be built as what it counts for.
    fn can_be_counted(self) -> bool {
        !(cfg!(debug_assertions) && matches!(self.server, Counting::BareHyper))
    }
}

/// Whose instructions are counted.
#[derive(Clone, Copy)]
enum Counting {
    Ipse,
    /// A server that always gives the same answer: what hyper takes by itself.
    BareHyper,
}

const WAYS: [Way; 3] = [
    Way { name: "front", what: "a keyed full lookup by the front", line: "", server: Counting::Ipse },
    Way { name: BY_HYPER, what: "a keyed full lookup by hyper", line: NOT_PLAIN, server: Counting::Ipse },
    Way {
        name: "bare-hyper",
        what: "a fixed answer by hyper with nothing above it",
        line: NOT_PLAIN,
        server: Counting::BareHyper,
    },
];

/// What to do with the figures.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Purpose {
    /// Write them down.
    Record,
    /// Fail if they have grown.
    Compare,
}

/// Counts, and records or compares.
pub(crate) fn bench(stage: &Stage, purpose: Purpose) -> Result<()> {
    let figures = count_all(stage)?;
    let root =
        std::env::var_os("XTASK_ROOT").context("XTASK_ROOT is not set: start this with `cargo xtask`")?;
    let path = PathBuf::from(root).join(RECORD);
    let circumstances = circumstances()?;
    match purpose {
        Purpose::Record => {
            let mut text = format!("{circumstances}\n");
            for (name, count) in &figures {
                writeln!(text, "{name} {count}")?;
            }
            Ok(std::fs::write(path, text)?)
        }
        Purpose::Compare if !path.is_file() => {
            println!(
                "  not compared: nothing is recorded yet; `cargo xtask bench instructions --record` does"
            );
            Ok(())
        }
        Purpose::Compare => compare(&std::fs::read_to_string(path)?, &circumstances, &figures),
    }
}

/// What is counted of the same builds that everything else is measured of, for a run that tells all.
pub(crate) struct Instructions(BTreeMap<String, u64>);

impl Instructions {
    pub(crate) fn count() -> Result<Self> {
        count_all(&Stage::short()?).map(Self)
    }

    pub(crate) fn by_hyper(&self) -> u64 {
        self.0.get(BY_HYPER).copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new("user instructions of one request at a time", &["", "instructions"]);
        for way in WAYS {
            let counted = self.0.get(way.name).map_or(String::new(), u64::to_string);
            table.row(vec![way.what.to_owned(), counted]);
        }
        table
    }
}

fn count_all(stage: &Stage) -> Result<BTreeMap<String, u64>> {
    let mut figures = BTreeMap::new();
    for way in WAYS.into_iter().filter(|way| way.can_be_counted()) {
        let count = count(stage, way)?;
        println!("  {count} instructions for {}", way.what);
        figures.insert(way.name.to_owned(), count);
    }
    Ok(figures)
}

/// Fails if a figure has grown. Under other circumstances there are other instructions, which are told and not judged.
fn compare(record: &str, circumstances: &str, figures: &BTreeMap<String, u64>) -> Result<()> {
    let (recorded_by, lines) = record.split_once('\n').context("the record is empty")?;
    if recorded_by != circumstances {
        println!(
            "  not compared: recorded with {recorded_by}, counted with {circumstances}; record them anew"
        );
        return Ok(());
    }
    for line in lines.lines() {
        let (name, recorded) =
            line.split_once(' ').with_context(|| format!("the record has a line {line:?}"))?;
        let recorded: u64 = recorded.parse()?;
        let is_known = WAYS.iter().any(|way| way.name == name);
        ensure!(is_known, "the record has a line of {name}, which nobody counts");
        let Some(now) = figures.get(name).copied() else { continue };
        let percent = grown_percent(recorded, now);
        println!("  {name}: {percent:+.1} % against what is recorded");
        ensure!(
            now * 100 <= recorded * (100 + MOST_PERCENT),
            "{now} instructions by {name} instead of {recorded}, {percent:.1} % more: make it cheaper, or say in the commit why it \
             must be so, and record it with `cargo xtask bench instructions --record`"
        );
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "there are a few thousands")]
fn grown_percent(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

/// What else decides which instructions are taken: the compiler, the C library, and what the processor can do of that which both
/// look for.
fn circumstances() -> Result<String> {
    let told = |program: &str, argument: &str| -> Result<String> {
        let output = Command::new(program)
            .arg(argument)
            .output()
            .with_context(|| format!("{program} is not there"))?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let processor = std::fs::read_to_string("/proc/cpuinfo")?;
    let able = |word: &&str| processor.split_whitespace().any(|flag| flag == *word);
    let able: Vec<&str> = ["avx2", "bmi2", "erms"].into_iter().filter(able).collect();
    Ok([&told("rustc", "--version")?, &told("getconf", "GNU_LIBC_VERSION")?, able.join(" ").as_str()]
        .join(", "))
}

/// Instructions of one request.
fn count(stage: &Stage, way: Way) -> Result<u64> {
    let counted = Counted::start(stage, way.server)?;
    let mut caller = Caller::new(stage, counted.address, way)?;
    caller.ask(WARM_UP)?;
    counted.control(&["-i", "on"])?;
    // The first dump is of nothing but what switching on did.
    counted.dump()?;
    let mut least = u64::MAX;
    for _ in 0..COUNTS {
        caller.ask(REQUESTS)?;
        // The thread that answers has done the most.
        least = least.min(counted.dump()?.into_values().max().context("nothing was counted")?);
    }
    Ok(least / u64::try_from(REQUESTS)?)
}

/// A server whose instructions are counted.
struct Counted {
    address: SocketAddr,
    process: u32,
    folder: PathBuf,
    _server: Held,
}

/// What ends with it. The fields are there to be dropped.
enum Held {
    Ipse(#[expect(dead_code, reason = "it is dropped")] Box<Server>),
    BareHyper(#[expect(dead_code, reason = "it is dropped")] Running),
}

impl Counted {
    fn start(stage: &Stage, counting: Counting) -> Result<Self> {
        let folder = stage.fresh_folder()?;
        let mut command = ipse_testkit::program("valgrind");
        command
            .args(["--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--quiet"])
            .arg(format!("--callgrind-out-file={}", folder.join("counts").display()));
        let cores = stage.cores.of_server();
        Ok(match counting {
            Counting::Ipse => {
                let (program, data_dir) = (peer::program()?, folder.join("data"));
                keys::fill(&program, &data_dir, &stage.keys)?;
                command.arg(program).arg("serve").env("IPSE_LOG_LEVEL", "error");
                let server = stage.cores.on(&cores, || Server::start(command, &data_dir))?;
                let (address, process) = (server.address, server.process.id());
                Self { address, process, folder, _server: Held::Ipse(Box::new(server)) }
            }
            Counting::BareHyper => {
                let server = stage.cores.on(&cores, || Running::bare_hyper_by(command))?;
                let process = *server.processes.first().context("it has no process")?;
                Self { address: server.clear, process, folder, _server: Held::BareHyper(server) }
            }
        })
    }

    fn control(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("callgrind_control")
            .args(arguments)
            .arg(self.process.to_string())
            .output()
            .context("callgrind_control is not there: it comes with valgrind")?;
        ensure!(
            output.status.success(),
            "callgrind_control: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// What each thread has done since the last time.
    fn dump(&self) -> Result<BTreeMap<String, u64>> {
        self.control(&["-d"])?;
        let mut counts = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Such as `counts.2-03`: the third thread in the second dump.
            let Some((_, thread)) = name.strip_prefix("counts.").and_then(|rest| rest.split_once('-')) else {
                continue;
            };
            counts.insert(thread.to_owned(), total(&path)?);
            std::fs::remove_file(path)?;
        }
        if counts.is_empty() {
            bail!("callgrind wrote nothing into {}", self.folder.display());
        }
        Ok(counts)
    }
}

fn total(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    Ok(line.map_or(Ok(0), |number| number.trim().parse())?)
}

/// One caller, who asks with each key in turn.
struct Caller<'a> {
    stage: &'a Stage,
    connection: Connection,
    way: Way,
    asked: usize,
}

impl<'a> Caller<'a> {
    fn new(stage: &'a Stage, door: SocketAddr, way: Way) -> Result<Self> {
        Ok(Self { stage, connection: Connection::open(door)?, way, asked: 0 })
    }

    fn ask(&mut self, times: usize) -> Result<()> {
        for _ in 0..times {
            let key = self.stage.keys[self.asked % KEYS].reveal();
            let ip = self.stage.address(self.asked);
            self.asked += 1;
            let line = self.way.line;
            let request = format!(
                "GET /api/v1/ip HTTP/1.1\r\nhost: localhost\r\nuser-agent: ipse-bench\r\naccept: */*\r\n\
                 authorization: Bearer {key}\r\nx-forwarded-for: {ip}\r\n{line}\r\n"
            );
            self.connection.send(request.as_bytes())?;
            let response = self.connection.receive()?;
            ensure!(response.status == 200, "answered {}: {}", response.status, response.body);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_fails_and_what_shrank_does_not() {
        let figures = |count| BTreeMap::from([("front".to_owned(), count)]);
        let check = |count| compare("rustc 1\nfront 1000\n", "rustc 1", &figures(count));
        assert!(check(1030).is_ok() && check(10).is_ok());
        assert!(format!("{:#}", check(1031).expect_err("it grew")).contains("1031 instructions by front"));
        assert!(compare("rustc 1\nfront 1000\n", "rustc 2", &figures(5000)).is_ok());
        assert!(compare("rustc 1\nelsewhere 1\n", "rustc 1", &figures(1)).is_err());
    }
}
