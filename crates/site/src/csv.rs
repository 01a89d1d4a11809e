//! The usage of a key as a file for spreadsheets.
//!
//! The file holds days and numbers and no text of anybody’s, so no cell needs quotes and none can be a formula.

use crate::charts::last_days;
use crate::utc;
use ipse_model::Day;
use ipse_store::Outcomes;
use std::fmt::Write;

/// The last thirty days as RFC 4180 wants them, the oldest first, below a line of headings.
pub(crate) fn usage(today: Day, rows: &[(Day, Outcomes)]) -> String {
    let mut csv = "day,answered,over_quota,refused\r\n".to_owned();
    for (day, Outcomes { answered, over_quota, refused }) in last_days(today, rows) {
        let _ = write!(csv, "{},{answered},{over_quota},{refused}\r\n", utc::iso(day));
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_headings_and_thirty_days() {
        let today = Day(20_772);
        let rows = [(today, Outcomes { answered: 9_999, over_quota: 2, refused: 31 })];
        let csv = usage(today, &rows);
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines.len(), 32, "headings, thirty days, and nothing behind the last line’s end");
        assert_eq!(lines[..2], ["day,answered,over_quota,refused", "2026-10-17,0,0,0"]);
        assert_eq!(lines[30..], ["2026-11-15,9999,2,31", ""]);
        assert!(lines[1..31].iter().all(|line| line.split(',').count() == 4));
    }
}
