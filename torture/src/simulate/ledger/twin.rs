//! What the records do for a ledger once more, in memory, so that fifty million requests of it take minutes.
//!
//! That it keeps the same as a database is tried against a real one (`tests`).

use ipse_model::Day;
use ipse_store::{Subject, UsageRow};
use std::collections::BTreeMap;

/// How far days are used, and may be.
#[derive(Debug, Default)]
pub(super) struct Usage {
    rows: BTreeMap<(Subject, Day), (u32, u32)>,
    boot: String,
    /// From this day on, counts begin at the marks that the last boot left.
    settled: Option<Day>,
}

impl Usage {
    pub(super) fn since(&self, day: Day) -> Vec<UsageRow> {
        let rows = self.rows.iter().filter(|((_, of), _)| *of >= day);
        rows.map(|(&(subject, day), &(used, mark))| UsageRow { subject, day, used, mark }).collect()
    }

    pub(super) fn used(&self, subject: Subject, day: Day) -> u32 {
        self.rows.get(&(subject, day)).map_or(0, |(used, _)| *used)
    }

    pub(super) fn fold(&mut self, rows: &[UsageRow]) {
        for row in rows {
            let (used, mark) = self.rows.entry((row.subject, row.day)).or_default();
            *used = row.used.max(*used);
            *mark = row.mark.max(*mark);
        }
    }

    pub(super) fn fold_exactly(&mut self, rows: &[UsageRow]) {
        self.fold(rows);
        for row in rows {
            if let Some((used, mark)) = self.rows.get_mut(&(row.subject, row.day)) {
                *mark = *used;
            }
        }
    }

    pub(super) fn recover(&mut self, rows: &[UsageRow], boot: &str, today: Day) {
        self.fold(rows);
        let settled = self.settled.unwrap_or(today);
        let is_new_boot = self.boot != boot || boot.is_empty();
        if is_new_boot || today < settled {
            for ((_, day), (used, mark)) in &mut self.rows {
                if *day >= today && (is_new_boot || *day < settled) {
                    *used = (*used).max(*mark);
                }
            }
            self.settled = Some(today);
            boot.clone_into(&mut self.boot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipse_model::KeyId;
    use ipse_store::ground::{Ground, Machine};
    use ipse_store::{DataFolder, Records};
    use ipse_testkit::Random;

    #[tokio::test]
    async fn the_twin_keeps_what_a_database_keeps() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&dir.path().join("data")).unwrap();
        let records = Records::open(&folder).await.unwrap();
        let machine = Machine::new(records).unwrap();
        let (mut twin, mut random) = (Usage::default(), Random::new(11));
        let mut small = |bound| u32::try_from(random.below(bound)).unwrap();
        for _ in 0..400 {
            let rows: Vec<UsageRow> = (0..small(4))
                .map(|_| {
                    let used = small(100);
                    UsageRow { subject: Subject::Demo, day: Day(small(4)), used, mark: used + small(64) }
                })
                .collect();
            match small(4) {
                0 => {
                    machine.fold_exactly(&rows, &[]).await.unwrap();
                    twin.fold_exactly(&rows);
                }
                1 => {
                    let (boot, today) = (["", "one", "two"][small(3) as usize], Day(small(4)));
                    machine.recover(&rows, &[], boot, today).await.unwrap();
                    twin.recover(&rows, boot, today);
                }
                _ => {
                    machine.fold(&rows, &[]).await.unwrap();
                    twin.fold(&rows);
                }
            }
            let mut kept = machine.usage_since(Day(1)).await.unwrap();
            kept.sort_unstable_by_key(|row| (row.subject, row.day));
            assert_eq!(kept, twin.since(Day(1)));
            assert_eq!(machine.used(Subject::Demo, Day(0)).await.unwrap(), twin.used(Subject::Demo, Day(0)));
        }
        // Keys are nobody's here: what they used leaves no trace in a database.
        let row = UsageRow { subject: Subject::Key(KeyId(7)), day: Day(3), used: 1, mark: 1 };
        machine.fold(&[row], &[]).await.unwrap();
        assert_eq!(machine.used(row.subject, row.day).await.unwrap(), 0);
    }
}
