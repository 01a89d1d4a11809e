//! What the journal remembers after the program, or the machine, has died.

use super::ground::{Disk, Files};
use super::journal::{self, Entry};
use crate::records::OutcomeRow;
use crate::tally;
use crate::{BootId, DataFolder, Error, Outcomes, Subject, UsageRow};
use ipse_model::{Day, KeyId, Now};
use std::collections::HashMap;
use std::path::Path;

/// The requests of a day that stand in the journal of a folder but perhaps not in its database yet. For commands
/// that look at a folder, whether a server works on it or not.
pub fn used_in_journal(
    folder: &DataFolder,
    boot: Option<BootId>,
    day: Day,
) -> Result<HashMap<Subject, u32>, Error> {
    let recovered = read(&Files, &folder.journal(), boot, day)?;
    Ok(recovered.rows().into_iter().filter(|row| row.day == day).map(|row| (row.subject, row.used)).collect())
}

/// The journal's contents, summed up.
#[derive(Default)]
pub(super) struct Recovered {
    counts: HashMap<(Subject, Day), (u32, u32)>,
    windows: HashMap<Subject, (u32, Vec<u64>)>,
    /// The charges of keys that were made in this boot, each key's in their order.
    charges: Vec<Entry>,
}

/// Reads the journal on a day. Days before it are history: a mark would only blur their counts.
pub(super) fn read(
    disk: &impl Disk,
    folder: &Path,
    boot: Option<BootId>,
    today: Day,
) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    for segment in journal::read(disk, folder)? {
        let same_boot = boot.is_some() && segment.boot == boot;
        if segment.entries.iter().any(|entry| entry.copied) {
            // The copies are all that was in the windows. The segments before were to be deleted, and the program may
            // have died before it came to that: their moments must not count twice.
            recovered.windows.clear();
        }
        for entry in segment.entries {
            let (used, mark) = recovered.counts.entry((entry.subject, entry.day)).or_default();
            *used = entry.used.max(*used);
            *mark = entry.mark.max(*mark);
            if !same_boot && entry.day >= today {
                // What came after the last sync is lost; it cannot have gone beyond the mark.
                *used = (*used).max(*mark);
            }
            if same_boot && !entry.copied && entry.subject != Subject::Demo {
                recovered.charges.push(entry);
            }
            if same_boot && entry.in_window {
                let (resumes, times) = recovered.windows.entry(entry.subject).or_default();
                if entry.resumes > *resumes {
                    *resumes = entry.resumes;
                    times.clear();
                }
                if entry.resumes == *resumes {
                    times.push(entry.boot_ms);
                }
            }
        }
    }
    Ok(recovered)
}

impl Recovered {
    pub(super) fn rows(&self) -> Vec<UsageRow> {
        let row = |(&(subject, day), &(used, mark)): (_, &(u32, u32))| UsageRow { subject, day, used, mark };
        self.counts.iter().map(row).collect()
    }

    /// The first day that anything became of a request on.
    pub(super) fn first_day(&self) -> Option<Day> {
        self.charges.iter().map(|entry| entry.day).min()
    }

    /// What became of the charges that were made after the last fold, which wrote the counts of `folded`. Those that found
    /// the quota used up, or the key paused, before any other charge came cannot be told from folded ones: they are lost.
    pub(super) fn outcomes(&self, folded: &[UsageRow], now: Now) -> Vec<OutcomeRow> {
        let folded: HashMap<(Subject, Day), u32> =
            folded.iter().map(|row| ((row.subject, row.day), row.used)).collect();
        let mut reached = HashMap::new();
        let mut sums: HashMap<(KeyId, u32), Outcomes> = HashMap::new();
        for entry in &self.charges {
            let Subject::Key(key) = entry.subject else { continue };
            let in_database = folded.get(&(entry.subject, entry.day)).copied().unwrap_or(0);
            if entry.used <= in_database {
                continue;
            }
            let reached = reached.entry((key, entry.day)).or_insert(in_database);
            let outcome = match (entry.in_window, entry.used > *reached) {
                // Only what no longer fits into the window is counted without standing in it.
                (false, _) => tally::REFUSED,
                (true, true) => tally::ANSWERED,
                (true, false) => tally::OVER_QUOTA,
            };
            *reached = entry.used.max(*reached);
            let age = i64::try_from(now.boot_ms.saturating_sub(entry.boot_ms)).unwrap_or(i64::MAX);
            let hour = tally::hour_of(now.unix_ms.saturating_sub(age), entry.day);
            *sums.entry((key, hour)).or_default() += outcome;
        }
        sums.into_iter().map(|((key, hour), outcomes)| OutcomeRow { key, hour, outcomes }).collect()
    }

    /// The moments of each subject's burst window, oldest first, with the window's generation.
    pub(super) fn windows(self) -> impl Iterator<Item = (Subject, (u32, Vec<u64>))> {
        self.windows.into_iter().map(|(subject, (resumes, mut times))| {
            times.sort_unstable();
            (subject, (resumes, times))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::Journal;

    fn entry(used: u32) -> Entry {
        Entry {
            subject: Subject::Key(KeyId(7)),
            day: Day(20_000),
            used,
            mark: 64,
            resumes: 1,
            in_window: true,
            copied: false,
            boot_ms: 1_000 + u64::from(used),
        }
    }

    fn window(folder: &Path, boot: Option<BootId>) -> Vec<u64> {
        read(&Files, folder, boot, Day(0)).unwrap().windows().flat_map(|(_, (_, times))| times).collect()
    }

    #[test]
    fn a_death_between_copying_the_windows_and_deleting_them_doubles_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let boot = BootId::parse("b3e9cacd-dfee-4c38-87d4-6ae39cc71c32");
        let journal = Journal::begin(Files, dir.path(), boot, &[]).unwrap();
        journal.append(entry(1)).unwrap();
        journal.append(entry(2)).unwrap();
        // Two starts in a row die before they delete anything; the third lives.
        for _ in 0..2 {
            let copies = [1, 2].map(|used| Entry { copied: true, mark: 0, ..entry(used) });
            Journal::begin(Files, dir.path(), boot, &copies).unwrap();
            assert_eq!(window(dir.path(), boot), [1_001, 1_002]);
        }
        Journal::begin(Files, dir.path(), boot, &[]).unwrap().append(entry(3)).unwrap();
        assert_eq!(window(dir.path(), boot), [1_001, 1_002, 1_003]);
        let rows = read(&Files, dir.path(), boot, Day(0)).unwrap().rows();
        assert_eq!(rows, [UsageRow { subject: entry(1).subject, day: Day(20_000), used: 3, mark: 64 }]);
    }
    #[test]
    fn what_became_of_charges_after_the_last_fold_is_told_from_their_counts() {
        let dir = tempfile::tempdir().unwrap();
        let boot = BootId::parse("b3e9cacd-dfee-4c38-87d4-6ae39cc71c32");
        let journal = Journal::begin(Files, dir.path(), boot, &[]).unwrap();
        // Two that were folded, two answered, the one that paused the key; the last answer of the day, and one too many.
        for used in 1..=4 {
            journal.append(entry(used)).unwrap();
        }
        journal.append(Entry { in_window: false, ..entry(5) }).unwrap();
        journal.append(entry(6)).unwrap();
        journal.append(entry(6)).unwrap();
        // Copies of the window are no charges.
        journal.rotate(&[Entry { copied: true, ..entry(6) }]).unwrap();
        let recovered = read(&Files, dir.path(), boot, Day(0)).unwrap();
        assert_eq!(recovered.first_day(), Some(Day(20_000)));
        let folded = UsageRow { subject: entry(1).subject, day: Day(20_000), used: 2, mark: 64 };
        let noon = Now { unix_ms: 20_000 * 86_400_000 + 12 * 3_600_000, boot_ms: 1_010 };
        let outcomes = Outcomes { answered: 3, over_quota: 1, refused: 1 };
        // The charges came a few milliseconds before noon.
        let expected = OutcomeRow { key: KeyId(7), hour: 20_000 * 24 + 11, outcomes };
        assert_eq!(recovered.outcomes(&[folded], noon), [expected]);
        let all = UsageRow { used: 6, ..folded };
        assert_eq!(recovered.outcomes(&[all], noon), []);
        // After a new boot nobody knows which of them were seen, nor when they came.
        assert_eq!(read(&Files, dir.path(), None, Day(0)).unwrap().outcomes(&[], noon), []);
    }
}
