//! The campaign `power`: the machine loses its power at any moment, and with it all that was not synced.
//!
//! What a client was answered is still counted afterwards, no limit is exceeded, a pause stands, and no more than
//! the ledger's step is withheld from any key.

use crate::campaign::Options;
use crate::disk::Disk;
use crate::load;
use crate::server;
use crate::tally::{Gap, Tally};
use anyhow::{Context, Result, ensure};
use ipse_testkit::{Random, Server, Stopwatch};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Cuts on one data folder; each may withhold so much that small limits are soon used up.
const CUTS_PER_FOLDER: u64 = 10;
/// The most that one cut may withhold of one key.
const MOST_WITHHELD: i64 = 64;
/// Small limits are reached, large ones leave a count to compare after every cut.
const LIMITS: [u32; 6] = [100, 250, 500, 2_000, 10_000, 10_000];
const LONGEST_LIFE_MS: u64 = 800;

/// What happened.
#[derive(Default)]
struct Events {
    worst: Gap,
    /// The worst after taking off what was in flight.
    withheld: i64,
    counts: u64,
    pauses_kept: u64,
    answers: i64,
}

pub(crate) fn work(options: &Options) -> Result<String> {
    let mut random = Random::new(options.seed);
    let clock = Stopwatch::start();
    let mut disk = Disk::make()?;
    check_the_disk(&mut disk)?;
    let mut events = Events::default();
    let mut cut = 0;
    while cut < options.count {
        let folder = disk.path().join(format!("data-{cut}"));
        let tallies = load::tallies(&folder, &LIMITS, MOST_WITHHELD)?;
        let end = options.count.min(cut + CUTS_PER_FOLDER);
        while cut < end {
            one(&mut disk, &folder, &tallies, &clock, &mut random, &mut events)
                .with_context(|| format!("in cut {}", cut + 1))?;
            cut += 1;
        }
        let server = boot(&disk, &folder, &mut random)?;
        events.note(&load::probe(server.address, &tallies, &clock)?);
        events.answers += tallies.iter().map(Tally::answers).sum::<i64>();
        server.kill()?;
        std::fs::remove_dir_all(&folder)?;
    }
    let Events { worst, withheld, counts, pauses_kept, answers } = events;
    Ok(format!(
        "0 answers over-served, 0 forgotten, at most {withheld} withheld per key over {cut} cuts ({counts} counts \
         compared; the worst was {} beyond the answers received with {} in flight); {answers} answers, {pauses_kept} \
         pauses kept",
        worst.beyond_answers, worst.in_flight
    ))
}

impl Events {
    fn note(&mut self, gaps: &[Gap]) {
        for gap in gaps {
            self.counts += 1;
            self.withheld = self.withheld.max(gap.beyond_answers - gap.in_flight);
            if gap.beyond_answers > self.worst.beyond_answers {
                self.worst = *gap;
            }
        }
    }
}

fn one(
    disk: &mut Disk,
    folder: &Path,
    tallies: &[Tally],
    clock: &Stopwatch,
    random: &mut Random,
    events: &mut Events,
) -> Result<()> {
    let paused: Vec<bool> = tallies.iter().map(Tally::is_paused).collect();
    let server = boot(disk, folder, random)?;
    events.note(&load::probe(server.address, tallies, clock)?);
    let mut to_resume = Vec::new();
    for (index, paused) in paused.into_iter().enumerate().filter(|(_, paused)| *paused) {
        ensure!(tallies[index].is_paused() == paused, "a pause was forgotten");
        events.pauses_kept += 1;
        if random.below(4) > 0 {
            to_resume.push(index);
        }
    }
    let lasting = Duration::from_millis(random.below(LONGEST_LIFE_MS));
    // The image takes a few milliseconds to copy and must not change meanwhile, so the server dies first. That syncs
    // nothing: at most a sync that was under way is completed, as if the power had gone a moment later.
    load::run(server.address, tallies, clock, random, lasting, || server.kill())?;
    disk.cut()?;
    tallies.iter().for_each(|tally| tally.fault(clock.elapsed(), true));
    to_resume.into_iter().try_for_each(|index| load::resume(folder, tallies, index))
}

/// Starts the server as after a boot of the machine: it finds a name of the boot that was never there before.
fn boot(disk: &Disk, folder: &Path, random: &mut Random) -> Result<Server> {
    const SCRIPT: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
    let (high, low) = (random.next(), random.next());
    let name = disk.beside().join("boot_id");
    // Another file each time: the one before may still be mounted for a moment.
    let _ = std::fs::remove_file(&name);
    let parts = (high >> 32, (high >> 16) & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff);
    let uuid = format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\n", parts.0, parts.1, parts.2, parts.3, parts.4);
    std::fs::write(&name, uuid)?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT]).arg(&name).arg(server::program()?).arg("serve");
    server::start_with(command, folder).context("cannot start the server in a mount namespace of its own")
}

/// The campaign proves nothing unless a cut drops what was not synced, and only that.
fn check_the_disk(disk: &mut Disk) -> Result<()> {
    let (synced, dropped) = (disk.path().join("synced"), disk.path().join("dropped"));
    for path in [&synced, &dropped] {
        std::fs::write(path, "before\n")?;
        std::fs::File::open(path)?.sync_all()?;
    }
    std::fs::File::open(disk.path())?.sync_all()?;
    std::fs::write(&synced, "after\n")?;
    std::fs::File::open(&synced)?.sync_all()?;
    append(&dropped, "after\n")?;
    disk.cut()?;
    let read = |path| std::fs::read_to_string(path);
    ensure!(read(&synced)? == "after\n", "a cut of this disk drops what was synced");
    ensure!(read(&dropped)? == "before\n", "a cut of this disk keeps what was not synced");
    Ok(())
}

fn append(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    Ok(std::fs::File::options().append(true).open(path)?.write_all(text.as_bytes())?)
}
