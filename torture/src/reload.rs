//! The campaign `reload`: the geo data is replaced again and again under a server that answers, mostly by files that
//! are damaged.
//!
//! Every answer must be, to the byte, that of the snapshot which is served at its moment; every damaged file must be
//! told and none taken. How long requests take while a good snapshot is read is compared with windows of the same
//! length without a reload, right behind each.

use crate::campaign::Options;
use crate::damage::Damage;
use crate::inside::{MadeKey, make_keys};
use crate::reload_log::Log;
use crate::server;
use crate::snapshots::{self, Snapshot};
use crate::stage::{Stage, Way};
use crate::steady::{self, Latencies, Phase, Steady};
use anyhow::{Context, Result, anyhow, ensure};
use ipse_testkit::{Connection, Random, Server, Stopwatch};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Damaged files before each good one.
const DAMAGED: u64 = 10;
/// Fewer reloads than this are a try, on little data, and too short for a figure of how long requests take.
const REAL_FROM: u64 = 50;
const MOST_TIMES_SLOWER: f64 = 1.5;
/// Of the last fifth of all reloads against the first, in the middle of each: the allocator keeps more or less of what
/// was given back, and only a leak grows from one to the other.
const MOST_TIMES_LARGER: f64 = 1.15;
/// One in so many good files, and one in so many damaged ones, is only noticed when the server looks by itself.
const GOOD_UNASKED_ONE_IN: u64 = 8;
const DAMAGED_UNASKED_ONE_IN: u64 = 200;
/// The old snapshot is given back after the new one is served.
const AFTER_RELOAD: Duration = Duration::from_millis(30);
const SETTLE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

/// What happened.
#[derive(Default)]
struct Events {
    in_place: u64,
    removed_before: u64,
    unasked: u64,
    /// Seconds of each reload that was asked for.
    seconds: Vec<f64>,
    /// Resident memory after each reload, in MiB.
    memory: Vec<f64>,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let real = options.count >= REAL_FROM;
    let mut random = Random::new(options.seed);
    let folder = tempfile::tempdir()?;
    let snapshots = snapshots::make(real)?;
    let stage = Stage::make(folder.path(), &snapshots)?;
    let data_dir = folder.path().join("data");
    let keys = make_keys(&data_dir, &steady::daily_limits())?;
    let mut server = start(&data_dir, stage.path())?;
    let log = Log::read(server.process.stderr.take().context("no log")?);
    let steady = Steady::new(server.address, &snapshots);

    let mut campaign = Campaign {
        connection: Connection::open(server.address)?,
        server,
        snapshots: &snapshots,
        steady: &steady,
        stage,
        log,
        served: 0,
        told: String::new(),
        events: Events::default(),
    };
    let latencies = under_load(&steady, &keys, &mut random.clone(), || {
        for round in 0..options.count {
            campaign.round(&mut random).with_context(|| format!("in round {}", round + 1))?;
        }
        Ok(())
    })?;
    let damaged = options.count * DAMAGED;
    campaign.events.report(options.count, damaged, campaign.log.warnings, &latencies, real)
}

/// Asks with all clients while `work` is done.
fn under_load(
    steady: &Steady<'_>,
    keys: &[MadeKey],
    random: &mut Random,
    work: impl FnOnce() -> Result<()>,
) -> Result<Latencies> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..steady::CLIENTS)
            .map(|number| {
                let random = Random::new(random.next());
                scope.spawn(move || steady.ask(number, keys, random))
            })
            .collect();
        let done = work();
        steady.stop();
        let mut latencies = Latencies::default();
        for client in clients {
            match client.join().map_err(|_| anyhow!("a client panicked"))? {
                Ok(more) => latencies.add(more),
                Err(failed) => {
                    return Err(failed.context(match done {
                        Ok(()) => "a client failed".to_owned(),
                        Err(error) => format!("a client failed, and meanwhile {error:#}"),
                    }));
                }
            }
        }
        done.map(|()| latencies)
    })
}

struct Campaign<'a> {
    server: Server,
    connection: Connection,
    snapshots: &'a [Snapshot],
    steady: &'a Steady<'a>,
    stage: Stage,
    log: Log,
    /// Which snapshot is served.
    served: usize,
    /// What the log said of the last file.
    told: String,
    events: Events,
}

impl Campaign<'_> {
    fn round(&mut self, random: &mut Random) -> Result<()> {
        for _ in 0..DAMAGED {
            self.damaged(random)?;
        }
        let lasted = self.good(random)?;
        std::thread::sleep(SETTLE);
        self.steady.enter(Phase::Calm, &[self.served]);
        std::thread::sleep(lasted);
        self.steady.enter(Phase::Other, &[self.served]);
        self.events.memory.push(resident_mib(&self.server)?);
        ensure!(!self.steady.has_failed(), "a request failed");
        Ok(())
    }

    fn damaged(&mut self, random: &mut Random) -> Result<()> {
        let good = &self.snapshots[0].bytes;
        let damage = Damage::invent(good, &self.snapshots[1].bytes, &self.told, random);
        let in_place = damage.can_grow() && random.below(4) == 0;
        let way = if in_place { Way::InPlace } else { Way::Rename };
        self.stage.put(&damage.content, way, good, random)?;
        // A file that is gone is only missed when somebody asks for it.
        let asked = random.below(DAMAGED_UNASKED_ONE_IN) != 0 || damage.says == "No such file";
        if asked {
            self.hang_up()?;
        }
        self.log.wait_for(&damage.says, &self.told, PATIENCE)?;
        self.told = damage.says;
        let version = self.version()?;
        ensure!(self.is_served(&version), "{version} is served after a damaged file: {}", self.told);
        Ok(())
    }

    /// Replaces the snapshot by another good one, and says how long that took.
    fn good(&mut self, random: &mut Random) -> Result<Duration> {
        let others = self.snapshots.len() as u64 - 1;
        let next = (self.served + 1 + usize::try_from(random.below(others))?) % self.snapshots.len();
        let way = *random.pick(&[Way::Rename, Way::Rename, Way::Rename, Way::InPlace, Way::RemovedBefore]);
        let asked = random.below(GOOD_UNASKED_ONE_IN) != 0;
        self.steady.enter(Phase::Other, &[self.served, next]);
        let way = self.stage.put_good(next, &self.snapshots[next], way, random)?;
        let watch = Stopwatch::start();
        if asked {
            self.steady.enter(Phase::Reload, &[self.served, next]);
            self.hang_up()?;
        }
        let expected = self.snapshots[next].atlas.version().to_owned();
        self.log.wait_for(&expected, &self.told, PATIENCE)?;
        self.told.clone_from(&expected);
        // The line is written just before the snapshot is put in its place.
        while !expected.starts_with(&self.version()?) {
            ensure!(watch.elapsed() < PATIENCE, "a new snapshot was told and is not served");
        }
        self.served = next;
        let phase = if asked { Phase::Reload } else { Phase::Other };
        self.steady.enter(phase, &[next]);
        if asked {
            self.events.seconds.push(watch.seconds());
        }
        std::thread::sleep(AFTER_RELOAD);
        let lasted = watch.elapsed();
        self.steady.enter(Phase::Other, &[next]);
        self.events.in_place += u64::from(way == Way::InPlace);
        self.events.removed_before += u64::from(way == Way::RemovedBefore);
        self.events.unasked += u64::from(!asked);
        Ok(if asked { lasted } else { Duration::ZERO })
    }

    fn version(&mut self) -> Result<String> {
        let response = self.connection.get("/api/v1/meta", None)?;
        let body: serde_json::Value = serde_json::from_str(&response.body)?;
        ensure!(response.status == 200, "meta is answered with {}", response.status);
        Ok(body["version"].as_str().context("no version")?.to_owned())
    }

    fn is_served(&self, version: &str) -> bool {
        !version.is_empty() && self.snapshots[self.served].atlas.version().starts_with(version)
    }

    fn hang_up(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.server.process), Signal::HUP)?)
    }
}

impl Events {
    fn report(
        &self,
        good: u64,
        damaged: u64,
        warnings: u64,
        latencies: &Latencies,
        real: bool,
    ) -> Result<String> {
        let [calm, reload] = [Phase::Calm, Phase::Reload].map(|phase| latencies.figures(phase));
        let slower = reload.p99_ms / calm.p99_ms;
        let seconds = middle(&self.seconds);
        let fifth = self.memory.len().div_ceil(5);
        let early = middle(&self.memory[..fifth]);
        let late = middle(&self.memory[self.memory.len() - fifth..]);
        let highest = self.memory.iter().copied().fold(0.0, f64::max);
        let [first, last] =
            [self.memory.first(), self.memory.last()].map(|mib| mib.copied().unwrap_or_default());
        let Self { in_place, removed_before, unasked, .. } = self;
        let figure = format!(
            "0 requests of {} failed and 0 of {damaged} damaged files were taken, with {warnings} warnings, over {good} \
             reloads ({in_place} written in place, {removed_before} after a removal, {unasked} without a signal)\n  \
             during reloads {reload}\n  without {calm}\n  p99 {slower:.2} times; a reload takes {seconds:.3} s; memory \
             {first:.0} MiB after the first reload, {early:.0} MiB in the first fifth, {late:.0} MiB in the last, \
             {last:.0} MiB after the last, at most {highest:.0} MiB",
            latencies.count(),
        );
        if real {
            ensure!(slower < MOST_TIMES_SLOWER, "requests are slower during a reload: {figure}");
            ensure!(late < MOST_TIMES_LARGER * early, "memory grows: {figure}");
        }
        Ok(figure)
    }
}

/// Starts the program with this file. An administrator may read what nobody may, and gives that up for it.
fn start(data_dir: &Path, file: &Path) -> Result<Server> {
    let program = server::program()?;
    let mut command = if geteuid().is_root() {
        let mut command = ipse_testkit::program("setpriv");
        command.args(["--bounding-set", "-dac_override,-dac_read_search", "--"]).arg(program);
        command
    } else {
        ipse_testkit::program(program)
    };
    let serve: &mut Command = command.args(["serve", "--log-level", "info", "--geo-data"]).arg(file);
    serve.stderr(Stdio::piped());
    server::start_with(command, data_dir)
}

/// The one in the middle by size.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn resident_mib(server: &Server) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
