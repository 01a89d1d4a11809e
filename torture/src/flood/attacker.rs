//! The attackers: this program once more, as a process of the lowest priority, and what is said to it.
//!
//! It says `ready` when all slow connections are there, and at the end what it did. Then it is told to be silent, or its
//! input ends, and so does it.

use super::{resets, slow};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// What this program is started with to be the attacker.
pub(crate) const ATTACKER: &str = "flood-attacker";
const READY: &str = "ready";

/// What is to be done.
pub(crate) struct Orders {
    pub(crate) clear: SocketAddr,
    pub(crate) tls: SocketAddr,
    pub(crate) slow_connections: u64,
    pub(crate) resets: u64,
    /// Over which the resets are spread.
    pub(crate) lasting: Duration,
    pub(crate) seed: u64,
}

/// What was done.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) resets: u64,
    /// Connections on which requests were called off.
    pub(crate) connections: u64,
    /// How often a slow connection was closed by the server, and opened again.
    pub(crate) reopened: u64,
}

/// The running process. It is killed when this is dropped.
pub(crate) struct Attackers {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Attackers {
    /// Returns when all slow connections are there.
    pub(crate) fn start(orders: &Orders) -> Result<Self> {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(std::env::current_exe()?).arg(ATTACKER).args(orders.written());
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no `nice`")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut attackers = Self { process, output };
        let first = attackers.line()?;
        ensure!(first == READY, "the attacker says {first:?}");
        Ok(attackers)
    }

    /// Returns when all requests were sent and called off, and the time is over.
    pub(crate) fn wait(&mut self) -> Result<Tally> {
        Tally::parse(&self.line()?)
    }

    /// From now on the slow connections are only there.
    pub(crate) fn hush(&mut self) -> Result<()> {
        let input = self.process.stdin.as_mut().context("no input")?;
        writeln!(input)?;
        Ok(input.flush()?)
    }

    /// Ends it and waits until it is gone.
    pub(crate) fn leave(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait()?;
        ensure!(status.success(), "the attacker ended with {status}");
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Orders {
    fn written(&self) -> [String; 6] {
        let Self { clear, tls, slow_connections, resets, lasting, seed } = self;
        [
            clear.to_string(),
            tls.to_string(),
            slow_connections.to_string(),
            resets.to_string(),
            lasting.as_millis().to_string(),
            seed.to_string(),
        ]
    }

    fn parse(arguments: &[String]) -> Result<Self> {
        let [clear, tls, slow_connections, resets, lasting, seed] = arguments else {
            anyhow::bail!("only the campaign `flood` starts an attacker")
        };
        Ok(Self {
            clear: clear.parse()?,
            tls: tls.parse()?,
            slow_connections: slow_connections.parse()?,
            resets: resets.parse()?,
            lasting: Duration::from_millis(lasting.parse()?),
            seed: seed.parse()?,
        })
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.resets += other.resets;
        self.connections += other.connections;
        self.reopened += other.reopened;
    }

    fn parse(line: &str) -> Result<Self> {
        let numbers: Vec<u64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [resets, connections, reopened] = numbers[..] else {
            anyhow::bail!("the attacker says {line:?}")
        };
        Ok(Self { resets, connections, reopened })
    }
}

/// What the process does.
pub(crate) fn attack(arguments: &[String]) -> Result<()> {
    let orders = Orders::parse(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let crowd = slow::Crowd::gather(&orders).await?;
        println!("{READY}");
        let (resets, connections) = resets::send(&orders).await?;
        println!("{resets} {connections} {}", crowd.reopened());
        // One line, and then nothing: silence first, and then the end.
        let told = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
        if told.await?? > 0 {
            crowd.hush();
            let _ =
                tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new())).await?;
        }
        Ok(())
    })
}
