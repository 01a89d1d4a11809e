//! How quiet the machine was: figures of a run say no more than this lets them.

use crate::peer::Peer;
use crate::rounds::Outcome;
use anyhow::{Context, Result};

/// What the kernel counts of all cores together, in ticks.
pub(crate) struct Noise {
    stolen: u64,
    all: u64,
}

impl Noise {
    pub(crate) fn begin() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("no line of all cores")?;
        let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // User, nice, system, idle, waiting, two kinds of interrupts, stolen; guests are within user.
        let stolen = *ticks.get(7).context("the kernel does not count what is stolen")?;
        Ok(Self { stolen, all: ticks.iter().take(8).sum() })
    }

    /// The part of all time that was given to other machines since, in percent.
    #[expect(clippy::cast_precision_loss, reason = "it is a part of a few days at most")]
    pub(crate) fn stolen_percent(&self) -> Result<f64> {
        let now = Self::begin()?;
        Ok((now.stolen - self.stolen) as f64 * 100.0 / (now.all - self.all).max(1) as f64)
    }

    /// One line about the run: by how much the simplest of all servers differs from itself.
    pub(crate) fn line(&self, outcomes: &[Outcome]) -> Result<String> {
        let limit = outcomes.iter().find(|outcome| outcome.peer == Peer::Limit).context("no limit")?;
        Ok(format!(
            "Noise: the quartiles of the limit's own cost lie {:.0} % apart over {} rounds; {}",
            limit.processor_us().spread() * 100.0,
            limit.seen.len(),
            self.of_host()?,
        ))
    }

    pub(crate) fn tell(&self, outcomes: &[Outcome]) -> Result<()> {
        println!("\n{}", self.line(outcomes)?);
        Ok(())
    }

    /// The same of a run in which the simplest server was not asked.
    pub(crate) fn tell_of_host(&self) -> Result<()> {
        println!("\nNoise: {}", self.of_host()?);
        Ok(())
    }

    fn of_host(&self) -> Result<String> {
        let load = std::fs::read_to_string("/proc/loadavg")?;
        Ok(format!(
            "{:.1} % of the processor time was taken by others on the host; load at the end {}.",
            self.stolen_percent()?,
            load.split(' ').next().unwrap_or("unknown"),
        ))
    }
}
