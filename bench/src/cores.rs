//! Which core does what: servers have one to themselves, whoever asks them has the other.
//!
//! A process inherits the cores of the thread that starts it, and takes their number for that of the machine.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use, dealt to the two sides.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    all: Vec<usize>,
}

impl Cores {
    /// Those of this machine.
    pub(crate) fn found() -> Result<Self> {
        let set = sched_getaffinity(None).context("cannot ask for the cores of this process")?;
        Ok(Self { all: (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect() })
    }

    /// The one of a server.
    pub(crate) fn of_server(&self) -> Vec<usize> {
        self.all.first().copied().into_iter().collect()
    }

    /// The one of whoever asks.
    pub(crate) fn of_load(&self) -> Vec<usize> {
        self.all.last().copied().into_iter().collect()
    }

    /// Every core, for what is measured with more than one.
    pub(crate) fn every(&self) -> Vec<usize> {
        self.all.clone()
    }

    /// Starts something that stays on these cores.
    pub(crate) fn on<T>(&self, cores: &[usize], start: impl FnOnce() -> Result<T>) -> Result<T> {
        stay_on(cores)?;
        let started = start();
        stay_on(&self.all)?;
        started
    }
}

/// Has this thread, and all that it starts from now on, stay on these cores.
pub(crate) fn stay_on(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).with_context(|| format!("cannot stay on the cores {cores:?}"))
}
