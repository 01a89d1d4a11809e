//! The overview of one node: from plain numbers to the page that shows them.
//!
//! It is told everything and asks for nothing. No address, no key and no path of a caller gets here.

use crate::charts::{self, Bar, COLUMN_WIDTH, HEIGHT, grouped};
use crate::office::Trouble;
use crate::page::{Here, Page};
use crate::reply::{self, Private};
use crate::utc;
use askama::Template;
use ipse_edge::{Reply, WayReport};
use ipse_model::{Durations, Links, Now};
use ipse_store::CountersReport;

/// How often the page loads itself again where there are no scripts. Where there are, it follows every few seconds.
const RELOAD_SECONDS: u32 = 10;

/// Everything that there is to show.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The program's version.
    pub version: &'static str,
    /// The moment of all these numbers.
    pub now: Now,
    /// How long the node has run.
    pub up_seconds: u64,
    /// Why the node is not ready, a sentence each.
    pub missing: Vec<String>,
    /// What is not as it should be, though the node is ready.
    pub worse: Vec<String>,
    /// The last minutes, the oldest first, all equally long but for the very last one.
    pub spans: Vec<Span>,
    /// Requests since the start by route and outcome, in words, and how many.
    pub requests: Vec<(&'static str, &'static str, u64)>,
    /// Requests since the start by protocol.
    pub protocols: Vec<(&'static str, u64)>,
    /// What the ways in have seen, by their names.
    pub ways: Vec<(&'static str, WayReport)>,
    /// How many connections may be open.
    pub most_connections: u64,
    /// Requests that were none, or broke something, by what was wrong.
    pub faults: Vec<(&'static str, u64)>,
    /// How many keys there are.
    pub keys: u64,
    /// What the counters say.
    pub counters: CountersReport,
    /// What is done again and again, and how that goes.
    pub chores: Vec<Chore>,
    /// The version of the geo data.
    pub geo_version: String,
    /// When that was built, in Unix seconds.
    pub geo_built: i64,
    /// The certificates: for which name, and when each ends in Unix seconds.
    pub certificates: Vec<(String, i64)>,
    /// Bytes of memory that the process has.
    pub memory_bytes: Option<u64>,
    /// Files and connections that it has open, and how many it may have.
    pub descriptors: Option<(u64, u64)>,
    /// Processor time that it has used, in seconds.
    pub cpu_seconds: u64,
}

/// What became of the lookups of a short while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// How long it was.
    pub ms: u64,
    /// How many were answered.
    pub answered: u64,
    /// How many found the day of their key, or of the demo, used up.
    pub over_quota: u64,
    /// How many were refused for another reason.
    pub refused: u64,
    /// How many could not be answered because something of ours is broken.
    pub errors: u64,
    /// How long they took.
    pub durations: Durations,
}

/// Something that a node does again and again.
#[derive(Clone, Debug)]
pub struct Chore {
    /// What is done, in a few words.
    pub what: &'static str,
    /// How often it was.
    pub done: u64,
    /// How often it could not be.
    pub failed: u64,
    /// Whether it could not be the last time.
    pub is_failing: bool,
    /// When it was done for the last time, in Unix milliseconds; `None` if never.
    pub last_ms: Option<i64>,
}

impl Chore {
    /// The class and the word of its tag.
    fn state(&self) -> (&'static str, &'static str) {
        match (self.is_failing, self.done) {
            (true, _) => ("tag-alarm", "fails"),
            (false, 0) => ("tag-off", "nothing to do yet"),
            (false, _) => ("tag-success", "works"),
        }
    }

    fn words(&self) -> String {
        let times = |count| match count {
            1 => "once".to_owned(),
            count => format!("{} times", grouped(count)),
        };
        match (self.done, self.failed) {
            (0, 0) => String::new(),
            (done, 0) => format!("Done {}, and never failed.", times(done)),
            (0, failed) => format!("Failed {}.", times(failed)),
            (done, failed) => format!("Done {}, and failed {}.", times(done), times(failed)),
        }
    }
}

impl Span {
    fn all(&self) -> u64 {
        self.answered + self.over_quota + self.refused + self.errors
    }

    fn parts(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("part-answered", "answered", self.answered),
            ("part-over", "over quota", self.over_quota),
            ("part-refused", "refused", self.refused),
            ("part-error", "errors", self.errors),
        ]
    }

    /// Its parts as if it had been as long as all others: one that has only begun would look like a fall. Of one that has
    /// hardly begun nothing can be said.
    fn parts_of_whole(&self) -> [(&'static str, u64); 4] {
        const ENOUGH_MS: u64 = 2_000;
        self.parts().map(|(class, _, count)| {
            let whole = match self.ms {
                ENOUGH_MS..SPAN_MS => count.saturating_mul(SPAN_MS) / self.ms,
                1..ENOUGH_MS => 0,
                _ => count,
            };
            (class, whole)
        })
    }

    fn and(self, other: &Self) -> Self {
        Self {
            ms: self.ms + other.ms,
            answered: self.answered + other.answered,
            over_quota: self.over_quota + other.over_quota,
            refused: self.refused + other.refused,
            errors: self.errors + other.errors,
            durations: self.durations.and(&other.durations),
        }
    }
}

/// The page.
pub(crate) fn answer(links: &Links, overview: &Overview, is_still: bool) -> Result<Reply, Trouble> {
    let description = "How this node is doing.";
    let view = View {
        page: Page::operators(links, Here::Overview, "Overview", description),
        reload_seconds: (!is_still).then_some(RELOAD_SECONDS),
        overview,
    };
    reply::private(Private::OK, &view)
}

#[derive(Template)]
#[template(path = "overview.html")]
struct View<'a> {
    page: Page<'a>,
    overview: &'a Overview,
    /// `None` if it is to stay as it is.
    reload_seconds: Option<u32>,
}

/// A number in large type.
struct Figure {
    id: &'static str,
    name: &'static str,
    value: String,
    note: String,
}

/// A picture of the last minutes.
struct Picture {
    id: &'static str,
    title: &'static str,
    summary: String,
    legend: Vec<(&'static str, String)>,
    columns: Vec<PictureColumn>,
    /// From the top down.
    scale: [String; 3],
    ticks: Vec<String>,
    /// The headings of the same as a table.
    headings: Vec<&'static str>,
}

struct PictureColumn {
    name: String,
    title: String,
    x: usize,
    bars: Vec<Bar>,
    cells: Vec<String>,
}

impl View<'_> {
    fn headline(&self) -> &'static str {
        match (self.overview.missing.is_empty(), self.overview.worse.is_empty()) {
            (true, true) => "All is well.",
            (true, false) => "It serves, but something needs you.",
            (false, _) => "It is not ready.",
        }
    }

    fn up(&self) -> String {
        lasting(self.overview.up_seconds)
    }

    fn time(&self) -> utc::Moment {
        utc::Moment::new(self.overview.now.unix_ms, self.overview.now.day())
    }

    fn clock(&self) -> String {
        utc::clock(self.overview.now.unix_ms)
    }

    fn last_minutes(&self) -> Span {
        self.overview.spans.iter().fold(Span::default(), Span::and)
    }

    /// The last spans that make up a minute, or what there is.
    fn last_minute(&self) -> Span {
        let mut minute = Span::default();
        for span in self.overview.spans.iter().rev().filter(|span| span.ms > 0) {
            if minute.ms >= 60_000 {
                break;
            }
            minute = minute.and(span);
        }
        minute
    }

    fn figures(&self) -> Vec<Figure> {
        let (all, minute) = (self.last_minutes(), self.last_minute());
        // The very last span may have only begun, so the rate is that of the last two.
        let recent = self.overview.spans.iter().rev().filter(|span| span.ms > 0).take(2);
        let recent = recent.fold(Span::default(), Span::and);
        let percentile = |percent| minute.durations.percentile_ns(percent).map(short_time);
        let open: u64 = self.overview.ways.iter().map(|(_, way)| way.open).sum();
        let age = age_seconds(self.overview.geo_built, self.overview.now);
        let pauses = self.overview.counters.pauses;
        let mut figures = vec![
            Figure {
                id: "rate",
                name: "Lookups a second",
                value: per_second(recent.all(), recent.ms),
                note: format!("{} in ten minutes", grouped(all.all())),
            },
            Figure {
                id: "time",
                name: "Time to an answer",
                value: percentile(50).unwrap_or_else(|| "–".to_owned()),
                note: match percentile(99) {
                    Some(most) => format!("99 of 100 within {most}"),
                    None => "none in the last minute".to_owned(),
                },
            },
            Figure {
                id: "answered",
                name: "Answered",
                value: percent(all.answered, all.all()),
                note: format!("{} over quota, {} refused", grouped(all.over_quota), grouped(all.refused)),
            },
            Figure {
                id: "errors",
                name: "Errors",
                value: grouped(all.errors),
                note: "of ours, in ten minutes".to_owned(),
            },
            Figure {
                id: "connections",
                name: "Connections",
                value: grouped(open),
                note: format!("of {} at most", grouped(self.overview.most_connections)),
            },
            Figure {
                id: "keys",
                name: "Keys",
                value: grouped(self.overview.keys),
                note: match pauses {
                    0 => "none paused since the start".to_owned(),
                    pauses => format!("{} paused since the start", grouped(pauses)),
                },
            },
            Figure {
                id: "geo",
                name: "Age of the geo data",
                value: age.map_or_else(|| "–".to_owned(), lasting),
                note: format!("version {}", self.overview.geo_version),
            },
        ];
        if let Some(bytes) = self.overview.memory_bytes {
            let note = format!("{} of processor time", lasting(self.overview.cpu_seconds));
            figures.push(Figure { id: "memory", name: "Memory", value: megabytes(bytes), note });
        }
        figures
    }

    fn pictures(&self) -> [Picture; 2] {
        [self.lookups(), self.times()]
    }

    fn lookups(&self) -> Picture {
        let spans = &self.overview.spans;
        let height = |span: &Span| span.parts_of_whole().iter().map(|(_, count)| count).sum();
        let top = charts::top(spans.iter().map(height).max().unwrap_or(0));
        let all = self.last_minutes();
        let words = |span: &Span| {
            span.parts().map(|(_, word, count)| format!("{} {word}", grouped(count))).join(", ")
        };
        let columns = spans.iter().enumerate().map(|(index, span)| {
            let name = ago(spans.len(), index);
            PictureColumn {
                title: format!("{name}: {}", words(span)),
                x: index * COLUMN_WIDTH,
                bars: charts::stacked(&span.parts_of_whole(), top),
                cells: span.parts().map(|(_, _, count)| grouped(count)).to_vec(),
                name,
            }
        });
        let scale = [top, top / 2, 0].map(|count| per_second(count, SPAN_MS));
        Picture {
            id: "lookups",
            title: "Lookups a second",
            summary: format!("Lookups in the last ten minutes: {}", words(&all)),
            // What there was none of needs no colour.
            legend: all
                .parts()
                .into_iter()
                .filter(|(_, word, count)| *count > 0 || *word == "answered")
                .map(|(class, word, count)| (class, format!("{} {word}", grouped(count))))
                .collect(),
            columns: columns.collect(),
            scale,
            ticks: ticks(),
            headings: all.parts().map(|(_, word, _)| word).to_vec(),
        }
    }

    fn times(&self) -> Picture {
        let spans = &self.overview.spans;
        let read = |span: &Span, percent| span.durations.percentile_ns(percent);
        let scale = Decades::up_to(spans.iter().filter_map(|span| read(span, 99)).max().unwrap_or(0));
        let bar = |class, ns: Option<u64>| {
            let height = scale.height(ns?);
            Some(Bar { class, y: HEIGHT - height, height })
        };
        let columns = spans.iter().enumerate().map(|(index, span)| {
            let name = ago(spans.len(), index);
            let (half, most) = (read(span, 50), read(span, 99));
            let cells = [half, most].map(|ns| ns.map_or_else(|| "–".to_owned(), short_time));
            PictureColumn {
                title: format!("{name}: half within {}, 99 of 100 within {}", cells[0], cells[1]),
                x: index * COLUMN_WIDTH,
                // The shorter one is drawn upon the longer one.
                bars: [bar("part-slow", most), bar("part-answered", half)].into_iter().flatten().collect(),
                cells: cells.to_vec(),
                name,
            }
        });
        let all = self.last_minutes().durations;
        let words = |percent| all.percentile_ns(percent).map_or_else(|| "–".to_owned(), short_time);
        Picture {
            id: "times",
            title: "Time to an answer",
            summary: format!(
                "Time to an answer in the last ten minutes: half within {}, 99 of 100 within {}",
                words(50),
                words(99)
            ),
            legend: vec![
                ("part-answered", format!("half within {}", words(50))),
                ("part-slow", format!("99 of 100 within {}", words(99))),
            ],
            columns: columns.collect(),
            scale: scale.labels(),
            ticks: ticks(),
            headings: vec!["half", "99 of 100"],
        }
    }

    fn width(&self) -> usize {
        self.overview.spans.len() * COLUMN_WIDTH
    }

    fn height(&self) -> u64 {
        HEIGHT
    }

    fn moment(&self, unix_ms: &i64) -> utc::Moment {
        utc::Moment::new(*unix_ms, self.overview.now.day())
    }

    fn ends(&self, unix_s: &i64) -> String {
        match u64::try_from(*unix_s - self.overview.now.unix_seconds()) {
            Ok(left) => format!("good for {}", lasting(left)),
            Err(_) => "has ended".to_owned(),
        }
    }

    fn sent_away(&self, way: &WayReport) -> String {
        grouped(way.over_limit + way.full)
    }

    fn number(&self, number: &u64) -> String {
        grouped(*number)
    }
}

/// An axis of times on which each step up is ten times as long: one slow answer must not hide all quick ones.
#[derive(Clone, Copy)]
struct Decades(u32);

impl Decades {
    /// Where the axis begins.
    const FIRST_NS: u64 = 10_000;

    /// From ten microseconds to one, a hundred or ten thousand milliseconds, so that in the middle there is a whole step.
    fn up_to(longest_ns: u64) -> Self {
        let fits = |decades: &u32| longest_ns <= Self::FIRST_NS * 10_u64.pow(*decades);
        Self([2, 4, 6].into_iter().find(fits).unwrap_or(6))
    }

    /// How high something is on the axis that took so long.
    fn height(self, ns: u64) -> u64 {
        const LEAST: u64 = 20;
        let (mut below, mut step) = (0, Self::FIRST_NS);
        while below < u64::from(self.0) && ns > step.saturating_mul(10) {
            (below, step) = (below + 1, step.saturating_mul(10));
        }
        // Within one step the logarithm is told by the nearest of ten marks, which are a finger's breadth apart at most.
        const MARKS: [u64; 10] = [126, 158, 200, 251, 316, 398, 501, 631, 794, 1000];
        let hundredths = ns.saturating_mul(100) / step;
        let marks = MARKS.iter().filter(|mark| hundredths >= **mark).count();
        let tenths = below * 10 + u64::try_from(marks).unwrap_or(0);
        (tenths * HEIGHT / (u64::from(self.0) * 10)).clamp(LEAST, HEIGHT)
    }

    /// From the top down.
    fn labels(self) -> [String; 3] {
        [self.0, self.0 / 2, 0].map(|decades| short_time(Self::FIRST_NS * 10_u64.pow(decades)))
    }
}

/// How long a span is, unless it is the last one.
const SPAN_MS: u64 = 10_000;

fn ticks() -> Vec<String> {
    ["10 min ago", "5 min ago", "now"].map(str::to_owned).to_vec()
}

/// The name of a column: the last one is now.
fn ago(columns: usize, index: usize) -> String {
    let seconds = (columns - 1 - index) * 10;
    match (seconds / 60, seconds % 60) {
        (0, 0) => "now".to_owned(),
        (0, seconds) => format!("{seconds} s ago"),
        (minutes, 0) => format!("{minutes} min ago"),
        (minutes, seconds) => format!("{minutes} min {seconds} s ago"),
    }
}

fn age_seconds(unix_s: i64, now: Now) -> Option<u64> {
    (unix_s > 0).then(|| u64::try_from(now.unix_seconds() - unix_s).unwrap_or(0))
}

/// `3 days`, `4 hours`, `12 minutes` or `45 seconds`: the largest unit of which there are two or more.
fn lasting(seconds: u64) -> String {
    let (count, unit) = [(86_400, "day"), (3600, "hour"), (60, "minute")]
        .into_iter()
        .find(|(length, _)| seconds >= 2 * length)
        .map_or((seconds, "second"), |(length, unit)| (seconds / length, unit));
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {unit}{plural}", grouped(count))
}

/// `8 µs`, `1.4 ms` or `2 s`.
fn short_time(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1000),
        1_000_000..10_000_000 => format!("{} ms", tenths(ns / 100_000)),
        10_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", tenths(ns / 100_000_000)),
    }
}

fn per_second(count: u64, ms: u64) -> String {
    if ms == 0 {
        return "0".to_owned();
    }
    let tenths_of_all = u128::from(count) * 10_000 / u128::from(ms);
    match u64::try_from(tenths_of_all).unwrap_or(u64::MAX) {
        few @ 0..1000 => tenths(few),
        many => grouped(many / 10),
    }
}

/// A number of tenths: `12.3`, or `12` if there is nothing behind the point.
fn tenths(number: u64) -> String {
    match (number / 10, number % 10) {
        (whole, 0) => grouped(whole),
        (whole, tenth) => format!("{}.{tenth}", grouped(whole)),
    }
}

/// `99.8 %`. What is not all is never shown as all.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let thousandths = u128::from(part) * 1000 / u128::from(whole);
    format!("{} %", tenths(u64::try_from(thousandths).unwrap_or(1000)))
}

fn megabytes(bytes: u64) -> String {
    const MEGABYTE: u64 = 1_000_000;
    if bytes < 100 * MEGABYTE {
        format!("{} MB", tenths(bytes * 10 / MEGABYTE))
    } else {
        format!("{} MB", grouped(bytes / MEGABYTE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::tests::links;
    use ipse_model::DURATION_BUCKETS;
    use ipse_store::{Away, Outage, SharedReport};

    fn overview() -> Overview {
        let mut buckets = [0; DURATION_BUCKETS];
        (buckets[0], buckets[5]) = (90, 10);
        let durations = Durations { buckets, sum_ns: 1 };
        let busy = Span { ms: 10_000, answered: 95, over_quota: 3, refused: 1, errors: 1, durations };
        let mut spans = vec![Span::default(); 58];
        spans.extend([busy, busy]);
        Overview {
            version: "0.1.0",
            now: Now { unix_ms: 1_794_744_000_000, boot_ms: 90_000 },
            up_seconds: 200_000,
            missing: Vec::new(),
            worse: Vec::new(),
            spans,
            requests: vec![("ip", "answered", 1_234_567)],
            protocols: vec![("HTTP/2", 7)],
            ways: vec![("tls", WayReport { accepted: 9, open: 4, ..WayReport::default() })],
            most_connections: 10_000,
            faults: vec![("bad_request", 2)],
            keys: 12,
            counters: CountersReport { engine: "ledger", pauses: 1, shared: None },
            chores: vec![Chore {
                what: "Counts are written",
                done: 5,
                failed: 0,
                is_failing: false,
                last_ms: Some(1_794_743_999_000),
            }],
            geo_version: "9c0f5ef7a1b2".to_owned(),
            geo_built: 1_794_744_000 - 3 * 86_400,
            certificates: vec![("<b>".to_owned(), 1_794_744_000 + 30 * 86_400)],
            memory_bytes: Some(52_300_000),
            descriptors: Some((40, 1024)),
            cpu_seconds: 61,
        }
    }

    fn html(overview: &Overview, is_still: bool) -> String {
        let (head, body) = ipse_edge::whole(answer(&links(), overview, is_still).unwrap());
        assert_eq!(head.headers.get("access-control-allow-origin"), None);
        assert_eq!(head.headers["cache-control"], "no-store");
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn the_page_tells_every_number() {
        let html = html(&overview(), false);
        for part in [
            "All is well.",
            "1,234,567",
            "200 in ten minutes",
            "99 of 100 within",
            "6 over quota, 2 refused",
            "of 10,000 at most",
            "1 paused since the start",
            "3 days",
            "52.3 MB",
            "good for 30 days",
            "&#60;b&#62;",
            "10 min ago",
        ] {
            assert!(html.contains(part), "{part} is missing in {html}");
        }
    }

    #[test]
    fn it_loads_itself_again_unless_it_is_to_stay() {
        assert!(html(&overview(), false).contains("<noscript><meta http-equiv=\"refresh\" content=\"10\">"));
        assert!(!html(&overview(), true).contains("http-equiv"));
    }

    #[test]
    fn what_is_wrong_comes_first() {
        let mut overview = overview();
        overview.worse.push("Changes of keys cannot be read.".to_owned());
        let page = html(&overview, false);
        assert!(page.contains("It serves, but something needs you.") && page.contains("cannot be read"));
        overview.missing.push("Requests cannot be charged.".to_owned());
        let shared = SharedReport { away: Some(Away::NoReply), leased: 7, ..SharedReport::default() };
        overview.counters.shared = Some((Outage::Lease, shared));
        let page = html(&overview, false);
        assert!(page.contains("It is not ready.") && page.contains("Requests cannot be charged."));
        assert!(
            page.contains(">away</span>") && page.contains("7 were decided with what was reserved"),
            "{page}"
        );
    }

    #[test]
    fn a_node_that_has_just_begun_has_a_page() {
        let mut overview = overview();
        overview.spans = vec![Span::default(); 60];
        overview.geo_built = 0;
        let page = html(&overview, false);
        assert!(page.contains("none in the last minute") && page.contains("0 in ten minutes"), "{page}");
    }

    #[test]
    fn a_span_that_has_only_begun_does_not_look_like_a_fall() {
        let parts = |ms| Span { ms, answered: 20, errors: 1, ..Span::default() }.parts_of_whole();
        assert_eq!(parts(10_000).map(|(_, count)| count), [20, 0, 0, 1]);
        assert_eq!(parts(5_000).map(|(_, count)| count), [40, 0, 0, 2]);
        assert_eq!(parts(1_999).map(|(_, count)| count), [0; 4]);
        assert_eq!(parts(12_000).map(|(_, count)| count), [20, 0, 0, 1]);
    }

    #[test]
    fn a_slow_answer_does_not_hide_the_quick_ones() {
        assert_eq!(Decades::up_to(0).labels(), ["1 ms", "100 µs", "10 µs"]);
        assert_eq!(Decades::up_to(1_000_001).labels(), ["100 ms", "1 ms", "10 µs"]);
        assert_eq!(Decades::up_to(u64::MAX).labels(), ["10 s", "10 ms", "10 µs"]);
        let axis = Decades::up_to(20_000_000);
        let heights =
            [0, 10_000, 100_000, 200_000, 1_000_000, 100_000_000, u64::MAX].map(|ns| axis.height(ns));
        assert_eq!(heights, [20, 20, 250, 325, 500, 1000, 1000]);
    }

    #[test]
    fn numbers_have_as_many_digits_as_people_read() {
        assert_eq!(
            [1, 119, 120, 7200, 172_800].map(lasting),
            ["1 second", "119 seconds", "2 minutes", "2 hours", "2 days"]
        );
        assert_eq!(
            [8_200, 999_999, 1_400_000, 12_000_000, 2_000_000_000].map(short_time),
            ["8 µs", "999 µs", "1.4 ms", "12 ms", "2 s"]
        );
        assert_eq!(
            [(3, 10_000), (123, 10_000), (123_456, 10_000), (1, 0)].map(|(n, ms)| per_second(n, ms)),
            ["0.3", "12.3", "12,345", "0"]
        );
        assert_eq!(
            [(0, 0), (1, 1), (9_999_999, 10_000_000)].map(|(n, of)| percent(n, of)),
            ["–", "100 %", "99.9 %"]
        );
        assert_eq!([1_500_000, 1_234_000_000].map(megabytes), ["1.5 MB", "1,234 MB"]);
        assert_eq!(
            [59, 58, 53, 52].map(|index| ago(60, index)),
            ["now", "10 s ago", "1 min ago", "1 min 10 s ago"]
        );
    }
}
