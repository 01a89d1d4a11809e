//! What the system says of this process: memory, processor time, and what it has open. Most of it is known on Linux alone.

use ipse_edge::Clock;
use std::fs;

/// One look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Vitals {
    /// Bytes of memory that are really there.
    pub(crate) memory_bytes: Option<u64>,
    /// Processor time, that which the system needed for it included.
    pub(crate) cpu_ms: u64,
    /// Files and connections that are open.
    pub(crate) descriptors: Option<u64>,
    /// How many may be.
    pub(crate) most_descriptors: Option<u64>,
    /// Threads.
    pub(crate) threads: Option<u64>,
}

impl Vitals {
    pub(crate) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            memory_bytes: line(&status, "VmRSS:").and_then(|kilobytes| kilobytes.checked_mul(1024)),
            cpu_ms: Clock::processor_ms(),
            // The folder that is read is open as well.
            descriptors: fs::read_dir("/proc/self/fd")
                .ok()
                .and_then(|all| u64::try_from(all.count()).ok()?.checked_sub(1)),
            most_descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            threads: line(&status, "Threads:"),
        }
    }
}

/// The number behind a name.
fn line(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        assert_eq!(line("Name:\tx\nVmRSS:\t  1234 kB\nThreads:\t9\n", "VmRSS:"), Some(1234));
        assert_eq!(line("Name:\tx\n", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_on_linux_knows_all_of_it() {
        let vitals = Vitals::read();
        assert!(vitals.memory_bytes.unwrap() > 1_000_000 && vitals.threads.unwrap() >= 1, "{vitals:?}");
        assert!(vitals.descriptors.unwrap() >= 3, "{vitals:?}");
    }
}
