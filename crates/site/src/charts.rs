//! Charts of a key's requests: from counts to the bars, the axis and the words that `templates/chart.html` draws.
//!
//! Nothing here is a fraction: a chart is a thousand units high, and each of its columns ten wide. The picture is
//! stretched to the width of the page; all of its text stands beside it, as large on a telephone as on a wall.

use crate::utc;
use ipse_model::{BURST_LIMIT, Day};
use ipse_store::Outcomes;
use std::fmt::Write;

/// How many days the long chart shows, today included.
pub(crate) const DAYS: u32 = 30;
const HOURS: u8 = 24;
const SECONDS: usize = 60;
pub(crate) const HEIGHT: u64 = 1_000;
/// One refused request beside ten thousand answered ones must still be seen.
const LEAST_HEIGHT: u64 = 15;
pub(crate) const COLUMN_WIDTH: usize = 10;

/// A chart of bars, each stacked by what became of the requests.
#[derive(Debug)]
pub(crate) struct Chart {
    /// What the chart shows, for those who do not see it.
    pub(crate) summary: String,
    /// What a column stands for: the heading of the table's first column.
    pub(crate) unit: &'static str,
    /// The class that places the names below the axis.
    pub(crate) class: &'static str,
    pub(crate) columns: Vec<Column>,
    /// The names below the axis, each for an equal part of it.
    pub(crate) ticks: Vec<String>,
    /// The number at the top of the axis, which is even.
    pub(crate) top: u64,
    pub(crate) total: Outcomes,
}

/// One day or one hour.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) outcomes: Outcomes,
    /// Where the column begins.
    pub(crate) x: usize,
    /// From the bottom up. What is zero has none.
    pub(crate) bars: Vec<Bar>,
}

/// One outcome of one column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) class: &'static str,
    pub(crate) y: u64,
    pub(crate) height: u64,
}

/// One outcome in words and digits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) number: String,
}

/// The last thirty days, the oldest first.
pub(crate) fn days(today: Day, rows: &[(Day, Outcomes)]) -> Chart {
    // A name stands below the last of five days, so that the last name is today's.
    let ticks = (0..DAYS).step_by(5).map(|ago| match ago {
        0 => "today".to_owned(),
        _ => utc::short(Day(today.0.saturating_sub(ago))),
    });
    let mut ticks: Vec<String> = ticks.collect();
    ticks.reverse();
    let columns = last_days(today, rows).into_iter().map(|(day, outcomes)| (utc::long(day), outcomes));
    chart(
        &Shape { summary: "on each of the last 30 days", unit: "Day (UTC)", class: "chart-days" },
        columns,
        ticks,
    )
}

/// One day by the hour.
pub(crate) fn hours(rows: &[(u8, Outcomes)]) -> Chart {
    let ticks = (0..HOURS).step_by(6).map(|hour| format!("{hour:02}:00")).collect();
    let columns = (0..HOURS).map(|hour| {
        let of_hour = rows.iter().filter(|(of, _)| *of == hour).map(|(_, outcomes)| *outcomes);
        (format!("{hour:02}:00 to {hour:02}:59"), sum(of_hour))
    });
    chart(
        &Shape { summary: "in each hour of today", unit: "Hour (UTC)", class: "chart-hours" },
        columns,
        ticks,
    )
}

/// What became of the requests of each of the last thirty days, the oldest first; a day without a row had none.
pub(crate) fn last_days(today: Day, rows: &[(Day, Outcomes)]) -> Vec<(Day, Outcomes)> {
    let day_before = |ago| Day(today.0.saturating_sub(ago));
    let of_day = |day| sum(rows.iter().filter(|(of, _)| *of == day).map(|(_, outcomes)| *outcomes));
    (0..DAYS).rev().map(day_before).map(|day| (day, of_day(day))).collect()
}

impl Chart {
    /// Whether there was no request at all.
    pub(crate) fn is_empty(&self) -> bool {
        all_of(self.total) == 0
    }

    /// The sums of all columns.
    pub(crate) fn parts(&self) -> [Part; 3] {
        parts(self.total)
    }

    /// The numbers of the axis, from the top down.
    pub(crate) fn scale(&self) -> [String; 3] {
        [self.top, self.top / 2, 0].map(grouped)
    }

    /// How wide all columns are together.
    pub(crate) fn width(&self) -> usize {
        self.columns.len() * COLUMN_WIDTH
    }

    /// How high the picture is.
    pub(crate) fn height(&self) -> u64 {
        HEIGHT
    }
}

impl Column {
    /// All numbers of the column in one line, as a browser shows it when one points at the bar.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.name, words(self.outcomes))
    }

    pub(crate) fn parts(&self) -> [Part; 3] {
        parts(self.outcomes)
    }
}

/// The minute that paused a key, second by second.
#[derive(Debug)]
pub(crate) struct Minute {
    pub(crate) seconds: Vec<Second>,
    pub(crate) total: u64,
    /// The most requests in one second.
    pub(crate) most: u64,
    /// The points of the line that adds the requests up.
    pub(crate) line: String,
    /// Where the limit lies on the scale of that line.
    pub(crate) limit_y: u64,
}

/// One second of that minute.
#[derive(Debug)]
pub(crate) struct Second {
    /// How many seconds before the pause it ended; 0 is the last one.
    pub(crate) before: usize,
    pub(crate) count: u64,
    /// All requests of the minute until this second ended.
    pub(crate) so_far: u64,
    pub(crate) x: usize,
    pub(crate) y: u64,
    pub(crate) height: u64,
}

impl Minute {
    /// The minute from its counts, of which the last is that of the second of the pause.
    pub(crate) fn new(counts: &[u32]) -> Self {
        let counts = &counts[counts.len().saturating_sub(SECONDS)..];
        // Whatever is missing is missing at the beginning: the end is the pause.
        let missing = SECONDS - counts.len();
        let counts: Vec<u64> =
            std::iter::repeat_n(0, missing).chain(counts.iter().copied().map(u64::from)).collect();
        let total: u64 = counts.iter().sum();
        let most = counts.iter().copied().max().unwrap_or(0);
        // The total of a pause is one above the limit; the line ends at the top, and the limit lies below it.
        let scale = total.max(u64::from(BURST_LIMIT) + 1);
        let mut so_far = 0;
        let mut line = format!("0,{HEIGHT}");
        let seconds = counts.into_iter().enumerate().map(|(index, count)| {
            so_far += count;
            let x = index * COLUMN_WIDTH;
            let _ = write!(line, " {},{}", x + COLUMN_WIDTH, HEIGHT - share(so_far, scale));
            let height = if count == 0 { 0 } else { share(count, most).max(LEAST_HEIGHT) };
            Second { before: SECONDS - 1 - index, count, so_far, x, y: HEIGHT - height, height }
        });
        let seconds = seconds.collect();
        Self { seconds, total, most, line, limit_y: HEIGHT - share(u64::from(BURST_LIMIT), scale) }
    }

    /// The sentence that says it all.
    pub(crate) fn summary(&self) -> String {
        let (total, most) = (grouped(self.total), grouped(self.most));
        format!("{total} requests within 60 seconds; most in one second: {most}")
    }

    /// The numbers of the axis of the bars, from the top down.
    pub(crate) fn scale(&self) -> [String; 2] {
        [self.most, 0].map(grouped)
    }

    /// How wide all seconds are together.
    pub(crate) fn width(&self) -> usize {
        self.seconds.len() * COLUMN_WIDTH
    }

    /// How high the picture is.
    pub(crate) fn height(&self) -> u64 {
        HEIGHT
    }
}

impl Second {
    /// The second in words.
    pub(crate) fn name(&self) -> String {
        match self.before {
            0 => "the second of the pause".to_owned(),
            1 => "1 second before".to_owned(),
            before => format!("{before} seconds before"),
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("{}: {} requests, {} so far", self.name(), self.count, self.so_far)
    }
}

/// A number as people read it: `10,000`.
pub(crate) fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// What is different about a chart beside its numbers.
struct Shape {
    summary: &'static str,
    unit: &'static str,
    class: &'static str,
}

fn chart(shape: &Shape, columns: impl Iterator<Item = (String, Outcomes)>, ticks: Vec<String>) -> Chart {
    let columns: Vec<_> = columns.collect();
    let top = top(columns.iter().map(|(_, outcomes)| all_of(*outcomes)).max().unwrap_or(0));
    let total = sum(columns.iter().map(|(_, outcomes)| *outcomes));
    let columns = columns.into_iter().enumerate().map(|(index, (name, outcomes))| Column {
        name,
        outcomes,
        x: index * COLUMN_WIDTH,
        bars: bars(outcomes, top),
    });
    Chart {
        summary: format!("Requests {}: {}", shape.summary, words(total)),
        unit: shape.unit,
        class: shape.class,
        columns: columns.collect(),
        ticks,
        top,
        total,
    }
}

fn bars(outcomes: Outcomes, top: u64) -> Vec<Bar> {
    stacked(&counts(outcomes).map(|(class, _, count)| (class, count)), top)
}

/// The bars of one column, stacked. Small ones are raised until they can be seen, and the largest gives way, so that
/// the whole is as high as the sum of the requests.
pub(crate) fn stacked(counts: &[(&'static str, u64)], top: u64) -> Vec<Bar> {
    let counts: Vec<_> = counts.iter().filter(|(_, count)| *count > 0).collect();
    let mut heights: Vec<u64> =
        counts.iter().map(|(_, count)| share(*count, top).max(LEAST_HEIGHT)).collect();
    let whole = share(counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)), top);
    let too_high = heights.iter().sum::<u64>().saturating_sub(whole);
    if let Some(largest) = heights.iter_mut().max() {
        *largest = largest.saturating_sub(too_high).max(LEAST_HEIGHT);
    }
    let mut y = HEIGHT;
    let stacked = counts.iter().zip(heights).map(|((class, _), height)| {
        y = y.saturating_sub(height);
        Bar { class, y, height }
    });
    stacked.collect()
}

/// A count as a part of the height.
pub(crate) fn share(count: u64, whole: u64) -> u64 {
    let exact = u128::from(count) * u128::from(HEIGHT) / u128::from(whole.max(1));
    u64::try_from(exact).unwrap_or(HEIGHT).min(HEIGHT)
}

/// The number at the top of the axis: the first of 2, 4, 6, 8, 10, 20, 40, 60 … that nothing is higher than.
pub(crate) fn top(highest: u64) -> u64 {
    let mut power = 1;
    loop {
        let tops = [2, 4, 6, 8, 10].map(|digit: u64| digit.saturating_mul(power));
        if let Some(top) = tops.into_iter().find(|top| *top >= highest) {
            return top;
        }
        power *= 10;
    }
}

fn words(outcomes: Outcomes) -> String {
    counts(outcomes).map(|(_, word, count)| format!("{} {word}", grouped(count))).join(", ")
}

fn parts(outcomes: Outcomes) -> [Part; 3] {
    counts(outcomes).map(|(class, word, count)| Part { class, word, number: grouped(count) })
}

/// The class, the word and the count of each outcome, from the bottom of a bar up.
fn counts(outcomes: Outcomes) -> [(&'static str, &'static str, u64); 3] {
    [
        ("part-answered", "answered", outcomes.answered),
        ("part-over", "over quota", outcomes.over_quota),
        ("part-refused", "refused", outcomes.refused),
    ]
}

fn all_of(outcomes: Outcomes) -> u64 {
    outcomes.answered.saturating_add(outcomes.over_quota).saturating_add(outcomes.refused)
}

fn sum(all: impl Iterator<Item = Outcomes>) -> Outcomes {
    all.fold(Outcomes::default(), |sum, one| Outcomes {
        answered: sum.answered.saturating_add(one.answered),
        over_quota: sum.over_quota.saturating_add(one.over_quota),
        refused: sum.refused.saturating_add(one.refused),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 15 November 2026.
    const TODAY: Day = Day(20_772);

    fn outcomes(answered: u64, over_quota: u64, refused: u64) -> Outcomes {
        Outcomes { answered, over_quota, refused }
    }

    #[test]
    fn a_chart_has_thirty_days_whatever_it_is_told() {
        let rows = [
            (TODAY, outcomes(5, 0, 1)),
            (Day(TODAY.0 - 29), outcomes(7, 2, 0)),
            (Day(TODAY.0 - 30), outcomes(100, 100, 100)),
            (Day(TODAY.0 + 1), outcomes(100, 100, 100)),
        ];
        let chart = days(TODAY, &rows);
        assert_eq!((chart.columns.len(), chart.width()), (30, 300));
        assert_eq!(chart.columns[0].title(), "17 October 2026: 7 answered, 2 over quota, 0 refused");
        assert_eq!(chart.columns[29].title(), "15 November 2026: 5 answered, 0 over quota, 1 refused");
        assert!(
            chart.columns[1..29].iter().all(|day| day.outcomes == Outcomes::default() && day.bars.is_empty())
        );
        assert_eq!(chart.ticks, ["21 Oct", "26 Oct", "31 Oct", "5 Nov", "10 Nov", "today"]);
        assert_eq!(chart.total, outcomes(12, 2, 1));
        assert_eq!(
            chart.summary,
            "Requests on each of the last 30 days: 12 answered, 2 over quota, 1 refused"
        );
        assert!(!chart.is_empty());
    }

    #[test]
    fn nothing_at_all_is_a_chart_without_bars() {
        let chart = days(TODAY, &[]);
        assert!(chart.is_empty() && chart.columns.iter().all(|day| day.bars.is_empty()));
        assert_eq!((chart.columns.len(), chart.top), (30, 2));
        // The calendar begins where it begins.
        assert_eq!(days(Day(3), &[]).columns.len(), 30);
    }

    #[test]
    fn a_day_has_twenty_four_hours() {
        let chart = hours(&[(0, outcomes(1, 0, 0)), (23, outcomes(0, 3, 0)), (24, outcomes(9, 9, 9))]);
        assert_eq!(chart.columns.len(), 24);
        assert_eq!(chart.columns[0].title(), "00:00 to 00:59: 1 answered, 0 over quota, 0 refused");
        assert_eq!(chart.columns[23].title(), "23:00 to 23:59: 0 answered, 3 over quota, 0 refused");
        assert_eq!(chart.ticks, ["00:00", "06:00", "12:00", "18:00"]);
        assert_eq!(chart.total, outcomes(1, 3, 0));
    }

    #[test]
    fn the_axis_ends_at_an_even_number_that_nothing_exceeds() {
        #[track_caller]
        fn check(highest: u64, expected: u64) {
            assert_eq!(top(highest), expected);
        }
        check(0, 2);
        check(2, 2);
        check(3, 4);
        check(9, 10);
        check(10, 10);
        check(11, 20);
        check(300, 400);
        check(9_999, 10_000);
        check(10_001, 20_000);
        assert!(top(u64::MAX) >= u64::MAX - 1);
    }

    #[test]
    fn bars_are_stacked_to_the_height_of_their_sum() {
        #[track_caller]
        fn check(outcomes: Outcomes, top: u64, expected: &[(&'static str, u64, u64)]) {
            let expected: Vec<Bar> =
                expected.iter().map(|&(class, y, height)| Bar { class, y, height }).collect();
            assert_eq!(bars(outcomes, top), expected);
        }
        check(outcomes(0, 0, 0), 2, &[]);
        check(outcomes(10, 0, 0), 10, &[("part-answered", 0, 1000)]);
        check(
            outcomes(5, 3, 2),
            10,
            &[("part-answered", 500, 500), ("part-over", 200, 300), ("part-refused", 0, 200)],
        );
        // One of ten thousand is seen, and the whole is not higher for it.
        check(outcomes(9_999, 0, 1), 10_000, &[("part-answered", 15, 985), ("part-refused", 0, 15)]);
        check(outcomes(0, 1, 0), 10_000, &[("part-over", 985, 15)]);
        check(
            outcomes(1, 1, 1),
            10_000,
            &[("part-answered", 985, 15), ("part-over", 970, 15), ("part-refused", 955, 15)],
        );
        check(outcomes(u64::MAX, 0, 0), u64::MAX, &[("part-answered", 0, 1000)]);
    }

    #[test]
    fn the_minute_adds_up_to_the_pause() {
        let mut counts = [0; 60];
        counts[10] = 57;
        counts[30..34].fill(50);
        counts[59] = 44;
        let minute = Minute::new(&counts);
        assert_eq!(minute.summary(), "301 requests within 60 seconds; most in one second: 57");
        assert_eq!((minute.seconds.len(), minute.width(), minute.limit_y), (60, 600, 4));
        let second = &minute.seconds[10];
        assert_eq!((second.before, second.count, second.so_far), (49, 57, 57));
        assert_eq!((second.x, second.y, second.height), (100, 0, 1000));
        let last = &minute.seconds[59];
        assert_eq!((last.name().as_str(), last.so_far), ("the second of the pause", 301));
        assert_eq!(minute.seconds[58].name(), "1 second before");
        assert!(
            minute.line.starts_with("0,1000 10,1000 ") && minute.line.ends_with(" 600,0"),
            "{}",
            minute.line
        );
        assert_eq!(minute.line.split(' ').count(), 61);
    }

    #[test]
    fn a_minute_is_sixty_seconds_whatever_was_stored() {
        for (counts, total) in [(vec![], 0), (vec![3], 3), (vec![1; 61], 60)] {
            let minute = Minute::new(&counts);
            assert_eq!((minute.seconds.len(), minute.total), (60, total));
        }
        assert_eq!(Minute::new(&[3]).seconds[59].count, 3);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in
            [(0_u64, "0"), (999, "999"), (1_000, "1,000"), (10_000, "10,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
