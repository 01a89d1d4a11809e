//! The generator of load: a process of its own, on a core of its own, that asks one peer and tells what it saw.
//!
//! It never sleeps and never waits for the kernel to call it: it goes round its connections and looks. So a server is never
//! charged for waking it up, and a request leaves at the moment it is meant to. Whether the server or the generator was the
//! slower of the two is told by how much of its core the server used.

mod channel;
mod closed;
mod paced;
mod quic;
mod requests;
mod speech;

pub(crate) use channel::Manner;
pub(crate) use requests::write_lists;

use crate::cores::stay_on;
use anyhow::{Context, Result, ensure};
use ipse_testkit::vitals;
use requests::Requests;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How this program is started again to ask.
pub(crate) const GENERATOR: &str = "load";

/// How requests come.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Rhythm {
    /// The next request of a connection leaves as soon as its answer is there.
    KeepAlive,
    /// Every request has a connection of its own, which the caller closes.
    Fresh,
    /// So many a second, whether answers are there or not.
    Paced(u32),
    /// Connections shake hands, wait for a ticket and go.
    Handshakes,
}

/// What is asked for, how, and of whom.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    pub(crate) door: SocketAddr,
    pub(crate) manner: Manner,
    pub(crate) rhythm: Rhythm,
    /// Whether new connections come back with tickets of older ones.
    pub(crate) resumes: bool,
    pub(crate) connections: usize,
    /// Before anything is measured.
    pub(crate) warm_up: usize,
    pub(crate) requests: usize,
    /// The first of the lists' entries to ask with, so that keys are dealt evenly over many runs.
    pub(crate) first: usize,
    pub(crate) keys: PathBuf,
    pub(crate) addresses: PathBuf,
    /// Whose processor time is counted.
    pub(crate) processes: Vec<u32>,
    pub(crate) cores: Vec<usize>,
    /// So many answers are handed out, to be compared.
    pub(crate) samples: usize,
}

/// What was seen.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Seen {
    pub(crate) seconds: f64,
    /// Of the server.
    pub(crate) processor_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) answers: usize,
    /// Bytes of the last answer, its head included.
    pub(crate) answer_bytes: usize,
    /// Microseconds from the moment a request was meant to leave, in ascending order; only of a paced run.
    pub(crate) latencies_us: Vec<f64>,
    /// How many requests of a paced run say nothing, because the generator itself stood still.
    pub(crate) void: usize,
    /// Addresses with the answers they got.
    pub(crate) samples: Vec<(String, String)>,
}

impl Seen {
    /// Whether the answer behind so many is one of those that are compared.
    fn wants_sample(&self, plan: &Plan, answered: usize) -> bool {
        let every = (plan.requests / plan.samples.max(1)).max(1);
        answered.is_multiple_of(every) && self.samples.len() < plan.samples
    }

    /// Processor time of the server for each request, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "there are less than a billion requests")]
    pub(crate) fn processor_us(&self) -> f64 {
        self.processor_seconds * 1e6 / self.answers as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "there are less than a billion requests")]
    pub(crate) fn per_second(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// The part of one core that the server used.
    pub(crate) fn share(&self) -> f64 {
        self.processor_seconds / self.seconds
    }

    /// The part of a paced run that says nothing.
    #[expect(clippy::cast_precision_loss, reason = "there are less than a billion requests")]
    pub(crate) fn void_percent(&self) -> f64 {
        self.void as f64 * 100.0 / self.answers as f64
    }

    /// The latency that so many of a hundred requests stay under, in microseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "it is an index"
    )]
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        let place = (self.latencies_us.len() as f64 * percent / 100.0) as usize;
        self.latencies_us.get(place).or(self.latencies_us.last()).copied().unwrap_or(f64::NAN)
    }
}

impl Plan {
    /// Has a process of its own carry it out.
    pub(crate) fn carry_out(&self) -> Result<Seen> {
        let mut generator = Command::new(std::env::current_exe()?)
            .arg(GENERATOR)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the generator")?;
        let mut input = generator.stdin.take().context("no input")?;
        input.write_all(&serde_json::to_vec(self)?)?;
        drop(input);
        let output = generator.wait_with_output()?;
        ensure!(output.status.success(), "the generator: {}", String::from_utf8_lossy(&output.stdout).trim());
        serde_json::from_slice(&output.stdout).context("the generator said something else")
    }
}

/// Carries out the plan that is read from the input.
pub(crate) fn generate() -> Result<()> {
    let plan: Plan = serde_json::from_reader(std::io::stdin())?;
    stay_on(&plan.cores)?;
    let room = 100 + plan.connections as u64;
    vitals::allow_descriptors(room)?;
    let mut requests = Requests::read(&plan)?;
    let mut seen = match plan.rhythm {
        _ if plan.manner == Manner::Http3 => quic::run(&plan, &mut requests)?,
        Rhythm::Paced(rate) => paced::run(&plan, &mut requests, rate)?,
        _ => closed::run(&plan, &mut requests)?,
    };
    for process in &plan.processes {
        seen.resident_bytes += vitals::resident_bytes_of(*process)?;
    }
    serde_json::to_writer(std::io::stdout(), &seen)?;
    Ok(())
}
