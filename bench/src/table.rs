//! Tables of what was measured, for the terminal and for documents.

use crate::figures::Figures;
use crate::load::Seen;
use crate::peer::Peer;
use crate::rounds::Outcome;
use ipse_testkit::vitals::mebibytes;

/// A table with a title.
pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// What a request costs each peer, and how that compares.
    pub(crate) fn of_cost(title: &str, outcomes: &[Outcome]) -> Self {
        let others = [
            ("× limit", Peer::Limit),
            ("× nginx", Peer::Nginx),
            ("× by hand", Peer::ByHand),
            ("× other", Peer::Base),
        ];
        let others: Vec<(&str, Peer)> = others
            .into_iter()
            .filter(|(_, peer)| outcomes.iter().any(|outcome| outcome.peer == *peer))
            .collect();
        let compared = others.iter().map(|(head, _)| *head);
        let head =
            ["", "CPU µs", "quartiles"].into_iter().chain(compared).chain(["requests/s", "memory MiB"]);
        let mut table = Self::new(title, &head.collect::<Vec<_>>());
        for outcome in outcomes {
            let cost = outcome.processor_us();
            let mut row =
                vec![outcome.peer.name().to_owned(), format!("{:.2}", cost.median()), quartiles(&cost)];
            for (_, other) in &others {
                row.push(ratio(&cost, outcomes, *other, Outcome::processor_us));
            }
            row.push(outcome.per_second().map_or("generator".to_owned(), |number| format!("{number:.0}")));
            row.push(mebibytes(outcome.resident_bytes()).to_string());
            table.row(row);
        }
        table
    }

    /// How long callers of each peer wait.
    pub(crate) fn of_latency(title: &str, outcomes: &[Outcome]) -> Self {
        let head = ["", "p50 µs", "p99 µs", "quartiles", "p99.9 µs", "p99 × nginx", "left out", "CPU µs"];
        let mut table = Self::new(title, &head);
        let p99 = |outcome: &Outcome| outcome.of(|seen| seen.percentile_us(99.0));
        for outcome in outcomes {
            let at = |percent| format!("{:.0}", outcome.of(|seen| seen.percentile_us(percent)).median());
            table.row(vec![
                outcome.peer.name().to_owned(),
                at(50.0),
                at(99.0),
                quartiles(&p99(outcome)),
                at(99.9),
                ratio(&p99(outcome), outcomes, Peer::Nginx, p99),
                format!("{:.1} %", outcome.of(Seen::void_percent).median()),
                format!("{:.2}", outcome.processor_us().median()),
            ]);
        }
        table
    }

    /// How many hands each peer can shake.
    pub(crate) fn of_handshakes(title: &str, outcomes: &[Outcome]) -> Self {
        let mut table = Self::new(title, &["", "for each CPU second", "CPU µs", "quartiles", "× nginx"]);
        let per_second = |outcome: &Outcome| outcome.of(|seen| 1e6 / seen.processor_us());
        for outcome in outcomes {
            let (cost, each) = (outcome.processor_us(), per_second(outcome));
            table.row(vec![
                outcome.peer.name().to_owned(),
                format!("{:.0}", each.median()),
                format!("{:.1}", cost.median()),
                quartiles(&cost),
                ratio(&each, outcomes, Peer::Nginx, per_second),
            ]);
        }
        table
    }

    /// The table in a document, under its title.
    pub(crate) fn markdown(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let mut text = format!("\n### {}\n\n", self.title);
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&line(row));
            if number == 0 {
                text.push_str(&format!("|{}\n", "---|".repeat(row.len())));
            }
        }
        text
    }

    pub(crate) fn print(&self) {
        println!("\n{}", self.title);
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).filter_map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  "));
        }
    }
}

pub(crate) fn quartiles(figures: &Figures) -> String {
    let (lower, upper) = figures.quartiles();
    let digits = if upper < 100.0 { 2 } else { 0 };
    format!("{lower:.digits$} to {upper:.digits$}")
}

/// The median of what each round was against another peer's.
fn ratio(figures: &Figures, outcomes: &[Outcome], other: Peer, of: impl Fn(&Outcome) -> Figures) -> String {
    let other = outcomes.iter().find(|outcome| outcome.peer == other);
    other.map_or(String::new(), |other| format!("{:.2}", figures.over(&of(other)).median()))
}
