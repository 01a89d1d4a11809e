//! What the process asks of the system for itself.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
#[cfg(target_os = "linux")]
use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};

/// Keeps callers' addresses and keys, which stand in memory, out of core dumps.
pub(crate) fn forbid_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core dump that is piped to a program ignores the limit.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Files that this program makes hold e-mail addresses and hashes of keys: nobody else needs to read them.
pub(crate) fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Lets as many files and connections be open as the system allows, and says how many that is, if there is a limit.
pub(crate) fn raise_descriptor_limit() -> Option<usize> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

/// Asks another process to stop; `false` if it cannot be asked.
pub(crate) fn ask_to_stop(process: i32) -> bool {
    let process = rustix::process::Pid::from_raw(process);
    process
        .is_some_and(|process| rustix::process::kill_process(process, rustix::process::Signal::TERM).is_ok())
}

/// Lets other threads go first from now on, for work that nobody waits for: the system interrupts it as soon as any of
/// them has something to do.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = thread_priority::set_thread_priority_and_policy(
        thread_priority::thread_native_id(),
        ThreadPriority::Min,
        ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
    );
}

/// Lets other threads go first from now on, for work that somebody waits for: it gets little of a busy machine, but never
/// nothing, whatever other programs do there.
pub(crate) fn stand_back() {
    const LITTLE: i32 = 10;
    // The system counts this for each thread by itself.
    let _ = rustix::process::nice(LITTLE);
}
