//! What the journal remembers after the program, or the machine, has died.

use super::journal;
use crate::{BootId, DataFolder, Error, Subject, UsageRow};
use ipse_model::Day;
use std::collections::HashMap;
use std::path::Path;

/// The requests of a day that stand in the journal of a folder but perhaps not in its database yet. For commands
/// that look at a folder, whether a server works on it or not.
pub fn used_in_journal(
    folder: &DataFolder,
    boot: Option<BootId>,
    day: Day,
) -> Result<HashMap<Subject, u32>, Error> {
    let recovered = read(&folder.journal(), boot, day)?;
    Ok(recovered.rows().into_iter().filter(|row| row.day == day).map(|row| (row.subject, row.used)).collect())
}

/// The journal's contents, summed up.
#[derive(Default)]
pub(super) struct Recovered {
    counts: HashMap<(Subject, Day), (u32, u32)>,
    windows: HashMap<Subject, (u32, Vec<u64>)>,
}

/// Reads the journal on a day. Days before it are history: a mark would only blur their counts.
pub(super) fn read(folder: &Path, boot: Option<BootId>, today: Day) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    for segment in journal::read(folder)? {
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
    use journal::{Entry, Journal};

    fn entry(used: u32) -> Entry {
        Entry {
            subject: Subject::Key(ipse_model::KeyId(7)),
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
        read(folder, boot, Day(0)).unwrap().windows().flat_map(|(_, (_, times))| times).collect()
    }

    #[test]
    fn a_death_between_copying_the_windows_and_deleting_them_doubles_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let boot = BootId::parse("b3e9cacd-dfee-4c38-87d4-6ae39cc71c32");
        let journal = Journal::begin(dir.path(), boot, &[]).unwrap();
        journal.append(entry(1)).unwrap();
        journal.append(entry(2)).unwrap();
        // Two starts in a row die before they delete anything; the third lives.
        for _ in 0..2 {
            let copies = [1, 2].map(|used| Entry { copied: true, mark: 0, ..entry(used) });
            Journal::begin(dir.path(), boot, &copies).unwrap();
            assert_eq!(window(dir.path(), boot), [1_001, 1_002]);
        }
        Journal::begin(dir.path(), boot, &[]).unwrap().append(entry(3)).unwrap();
        assert_eq!(window(dir.path(), boot), [1_001, 1_002, 1_003]);
        let rows = read(dir.path(), boot, Day(0)).unwrap().rows();
        assert_eq!(rows, [UsageRow { subject: entry(1).subject, day: Day(20_000), used: 3, mark: 64 }]);
    }
}
