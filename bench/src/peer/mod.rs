//! The servers that are compared, each a process of its own.

mod bare_hyper;
mod by_hand;
mod ipse;
mod limit;
mod nginx;

pub(crate) use ipse::program;

use crate::stage::Stage;
use anyhow::{Context, Result, bail};
use ipse_testkit::{Server, Stopwatch};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// How this program is started again as one of the servers.
pub(crate) const SERVER: &str = "serve";
const BARE_HYPER: &str = "bare-hyper";

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// A bare loop that reads and writes, and looks at nothing.
    Limit,
    /// A bare server of hyper with a fixed answer.
    BareHyper,
    Nginx,
    /// What one writes in an afternoon, with axum.
    ByHand,
    Ipse,
    /// Another build of ipse.
    Base,
}

impl Peer {
    /// All that a run compares.
    pub(crate) const ALL: [Self; 5] = [Self::Limit, Self::BareHyper, Self::Nginx, Self::ByHand, Self::Ipse];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit: bare epoll, fixed answer",
            Self::BareHyper => "bare hyper, fixed answer",
            Self::Nginx => "nginx + geoip2 + limit_req + key map",
            Self::ByHand => "axum + maxminddb + serde_json + DashMap",
            Self::Ipse => "ipse",
            Self::Base => "ipse, the other build",
        }
    }

    /// Whether it answers what was asked, and not always the same.
    pub(crate) fn looks_up(self) -> bool {
        !matches!(self, Self::Limit | Self::BareHyper)
    }

    /// Starts it on these cores.
    pub(crate) fn start(self, stage: &Stage, cores: &[usize]) -> Result<Running> {
        stage
            .cores
            .on(cores, || match self {
                Self::Limit => Running::own(self, &["limit"]),
                Self::BareHyper => Running::own(self, &[BARE_HYPER]),
                Self::ByHand => by_hand::start(stage),
                Self::Nginx => nginx::start(stage),
                Self::Ipse => ipse::start(self, stage, &program()?),
                Self::Base => {
                    ipse::start(self, stage, &stage.base.clone().context("there is no other build")?)
                }
            })
            .with_context(|| format!("cannot start {}", self.name()))
    }
}

/// A peer that listens. It ends when this is dropped.
pub(crate) struct Running {
    pub(crate) peer: Peer,
    pub(crate) clear: SocketAddr,
    pub(crate) tls: Option<SocketAddr>,
    /// Since it was started.
    pub(crate) begun: Stopwatch,
    /// Whose processor time counts.
    pub(crate) processes: Vec<u32>,
    _process: Process,
}

/// What ends with the peer. The fields are there to be dropped.
enum Process {
    Own(#[expect(dead_code, reason = "it is dropped")] Ended),
    Nginx(#[expect(dead_code, reason = "it is dropped")] nginx::Master),
    Ipse(#[expect(dead_code, reason = "it is dropped")] Box<Server>),
}

/// A process that is killed and waited for when nobody needs it any more.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts this program again as a server, which says where it listens.
    fn own(peer: Peer, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SERVER).args(arguments);
        Self::by(peer, command)
    }

    /// The bare server of hyper, run by somebody who counts.
    pub(crate) fn bare_hyper_by(mut counting: Command) -> Result<Self> {
        counting.arg(std::env::current_exe()?).args([SERVER, BARE_HYPER]);
        Self::by(Peer::BareHyper, counting)
    }

    fn by(peer: Peer, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let begun = Stopwatch::start();
        let mut process = Ended(command.spawn()?);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut line)?;
        let clear = line.trim().parse().with_context(|| format!("it said {line:?}"))?;
        let processes = vec![process.0.id()];
        Ok(Self { peer, clear, tls: None, begun, processes, _process: Process::Own(process) })
    }
}

/// Is one of our own servers, for ever.
pub(crate) fn serve(arguments: &[String]) -> Result<()> {
    match arguments {
        [name] if name == "limit" => limit::serve(),
        [name] if name == BARE_HYPER => bare_hyper::serve(),
        [name, places, networks, keys] if name == "by-hand" => {
            by_hand::serve(&PathBuf::from(places), &PathBuf::from(networks), &PathBuf::from(keys))
        }
        _ => bail!("there is no such server: {arguments:?}"),
    }
}

/// Says where a server of our own listens.
fn tell(address: SocketAddr) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{address}")?;
    Ok(output.flush()?)
}

/// What servers that look at nothing answer: of the length that an answer of ipse has, 760 bytes in all.
pub(crate) fn fixed_body(length: usize) -> Vec<u8> {
    let frame = b"{\"status\":\"success\",\"fixed\":\"\"}";
    let (begin, end) = frame.split_at(frame.len() - 2);
    [begin, &vec![b'.'; length.saturating_sub(frame.len())], end].concat()
}
