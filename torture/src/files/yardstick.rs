//! How much memory a file of some size may take: twice what the hungriest good file of that size takes.

use super::good::{Goods, Reads};
use super::reader::{Outcome, Reader};
use anyhow::{Result, bail};

/// No file takes too much that takes less than this: the smallest snapshot needs as much for its table of IPv4, so every
/// installation has it.
const SPARE: u64 = 64 << 20;

/// What good files take.
pub(crate) struct Yardstick {
    curves: Vec<Curve>,
}

/// The files of one shape, by size.
struct Curve {
    shape: &'static str,
    is_snapshot: bool,
    packed: bool,
    /// Bytes of the file and bytes of memory, in ascending order.
    points: Vec<(u64, u64)>,
}

impl Yardstick {
    /// Reads every good file with a process of its own.
    pub(crate) fn measure(goods: &Goods, reader: &mut Reader) -> Result<Self> {
        let mut curves: Vec<Curve> = Vec::new();
        for good in goods.each() {
            reader.refresh()?;
            let outcome = reader.read_as(good.name, good.reads, &good.bytes)?;
            let account = match outcome {
                Outcome::Read(account) => account,
                Outcome::Died(words) => bail!("the good {} ends its reader: {words}", good.shape),
                Outcome::Hung => bail!("the good {} is read without end", good.shape),
            };
            if let Some(refusal) = account.refusal.or(account.complaint) {
                bail!("the good {} is refused: {refusal}", good.shape);
            }
            let is_snapshot = good.reads == Reads::Snapshot;
            let found =
                curves.iter_mut().find(|curve| curve.shape == good.shape && curve.packed == good.packed);
            let point = (good.bytes.len() as u64, account.peak_bytes);
            match found {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    shape: good.shape,
                    is_snapshot,
                    packed: good.packed,
                    points: vec![point],
                }),
            }
        }
        curves.iter_mut().for_each(|curve| curve.points.sort_unstable());
        Ok(Self { curves })
    }

    /// The most that a file of this size may take.
    pub(crate) fn most(&self, reads: Reads, packed: bool, bytes: u64) -> u64 {
        let is_snapshot = reads == Reads::Snapshot;
        let alike =
            self.curves.iter().filter(|curve| curve.is_snapshot == is_snapshot && curve.packed == packed);
        let need = alike.map(|curve| curve.at(bytes)).max().unwrap_or(0);
        (2 * need).max(SPARE)
    }

    /// The largest good file of each shape and what it takes, for people.
    pub(crate) fn shown(&self) -> String {
        let largest = |curve: &Curve| {
            let (bytes, memory) = curve.points.last().copied().unwrap_or_default();
            let packed = if curve.packed { ", packed" } else { "" };
            format!("{}{packed} of {} KB: {} KB", curve.shape, bytes / 1000, memory / 1000)
        };
        self.curves.iter().map(largest).collect::<Vec<_>>().join("; ")
    }
}

impl Curve {
    /// Between the measured points it is a line, beyond the last it goes on in proportion.
    fn at(&self, bytes: u64) -> u64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return 0 };
        if bytes <= first.0 {
            return first.1;
        }
        if bytes >= last.0 {
            return last.1 * bytes / last.0.max(1);
        }
        let pair = self.points.windows(2).find(|pair| bytes < pair[1].0);
        pair.map_or(last.1, |pair| {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            low + (high.saturating_sub(low)) * (bytes - from) / (to - from).max(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: u64, expected: u64) {
        let curve =
            Curve { shape: "", is_snapshot: false, packed: false, points: vec![(10, 100), (20, 300)] };
        assert_eq!(curve.at(bytes), expected);
    }

    #[test]
    fn between_good_files_the_need_grows_evenly() {
        check(0, 100);
        check(10, 100);
        check(15, 200);
        check(20, 300);
        check(40, 600);
    }
}
