//! What the kernel says of a running server, and how many files this process and those it starts may have open.

use crate::Server;
use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// The memory that is really in use.
pub fn resident_bytes(server: &Server) -> Result<u64> {
    resident_bytes_of(server.process.id())
}

/// The same of any process.
pub fn resident_bytes_of(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: u64 = resident.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kibibytes * 1024)
}

/// How many files it has open, connections among them.
pub fn descriptors(server: &Server) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", server.process.id()))?.count())
}

/// Lets this process and those it starts have so many files open.
pub fn allow_descriptors(needed: u64) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    let enough = maximum.is_none_or(|limit| limit >= needed);
    let wanted = Rlimit { current: Some(needed), maximum: if enough { maximum } else { Some(needed) } };
    let told = || {
        format!(
            "a process may have {} files open here, and {needed} are needed: raise the limit with `ulimit -Hn`, or ask \
             for fewer with --count",
            maximum.unwrap_or_default()
        )
    };
    setrlimit(Resource::Nofile, wanted).with_context(told)
}

/// Whole ones.
#[must_use]
pub fn mebibytes(bytes: u64) -> u64 {
    bytes / (1024 * 1024)
}

/// The processor time of all threads that these processes have.
pub fn processor_time(processes: &[u32]) -> Result<Duration> {
    Ok(of_threads(processes)?.into_values().sum())
}

/// The processor time of processes from some moment on.
pub struct ProcessorTime {
    processes: Vec<u32>,
    /// By thread.
    before: HashMap<PathBuf, Duration>,
}

impl ProcessorTime {
    /// From now on.
    pub fn of(processes: &[u32]) -> Result<Self> {
        Ok(Self { processes: processes.to_vec(), before: of_threads(processes)? })
    }

    /// What they took since. A thread that ended meanwhile has taken its count with it.
    pub fn since(&self) -> Result<Duration> {
        let now = of_threads(&self.processes)?;
        let since = |(thread, time): (PathBuf, Duration)| {
            time.saturating_sub(self.before.get(&thread).copied().unwrap_or_default())
        };
        Ok(now.into_iter().map(since).sum())
    }
}

fn of_threads(processes: &[u32]) -> Result<HashMap<PathBuf, Duration>> {
    let mut all = HashMap::new();
    for process in processes {
        // What ended meanwhile took next to nothing.
        let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let Ok(line) = std::fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let nanos = line.split(' ').next().and_then(|number| number.parse().ok());
            let time = Duration::from_nanos(nanos.with_context(|| format!("schedstat is {line:?}"))?);
            all.insert(thread.path(), time);
        }
    }
    Ok(all)
}
