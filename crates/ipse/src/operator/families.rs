//! Families of metrics as plain values, and their text in the form that Prometheus reads.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// What is told at one moment, in the order in which it is told.
#[derive(Debug, Default)]
pub(super) struct Families(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

/// Names of our own and words of ours: nothing that a caller sent ever becomes one.
pub(super) type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
pub(super) enum Value {
    Count(u64),
    Seconds(f64),
    Level(f64),
    /// The upper bounds and how many are in each bucket; the sum.
    Times(Vec<(f64, u64)>, f64),
}

impl Families {
    /// Numbers that only grow.
    pub(super) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        self.add(name, help, MetricType::Counter, samples);
    }

    /// Numbers that go up and down.
    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        self.add(name, help, MetricType::Gauge, samples);
    }

    /// How long things took.
    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        self.add(name, help, MetricType::Histogram, samples);
    }

    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        let samples: Vec<_> = samples.into_iter().collect();
        if !samples.is_empty() {
            self.0.push(Family { name, help, kind, samples });
        }
    }

    /// The text.
    pub(super) fn text(self, form: Form) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(match form {
            Form::OpenMetrics => text,
            Form::Plain => plain(&text),
        })
    }
}

/// The forms of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// That of Prometheus before there was a standard, which every other program reads as well.
    Plain,
    /// The standard.
    OpenMetrics,
}

/// The older form has the type of a counter before the whole name, and no mark at the end.
fn plain(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(text.len() + 16 * counters.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(kind @ ("HELP" | "TYPE")), Some(name), Some(rest))
                if counters.contains(&name) =>
            {
                plain.push_str(&format!("# {kind} {name}_total {rest}\n"));
            }
            _ => {
                plain.push_str(line);
                plain.push('\n');
            }
        }
    }
    plain
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                if labels.is_empty() {
                    value.write(&mut metric)?;
                } else {
                    value.write(&mut metric.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Value {
    fn write(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => metric.encode_counter::<NoLabelSet, _, u64>(count, None),
            Self::Seconds(seconds) => metric.encode_counter::<NoLabelSet, _, f64>(seconds, None),
            Self::Level(level) => metric.encode_gauge(level),
            Self::Times(buckets, sum) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_form() {
        let families = || {
            let mut families = Families::default();
            families.counter("a", "Of all # TYPE.", [(vec![("x", "1\"\n".to_owned())], Value::Count(7))]);
            families.gauge("b", "Now.", [(Vec::new(), Value::Level(1.5))]);
            families.histogram(
                "c",
                "Times.",
                [(Vec::new(), Value::Times(vec![(0.1, 2), (f64::INFINITY, 1)], 3.5))],
            );
            families.counter("nothing", "There is none.", []);
            families
        };
        let expected = "\
# HELP a Of all # TYPE.
# TYPE a counter
a_total{x=\"1\\\"\\n\"} 7
# HELP b Now.
# TYPE b gauge
b 1.5
# HELP c Times.
# TYPE c histogram
c_sum 3.5
c_count 3
c_bucket{le=\"0.1\"} 2
c_bucket{le=\"+Inf\"} 3
# EOF
";
        assert_eq!(families().text(Form::OpenMetrics).unwrap(), expected);
        let older = expected.replace("# HELP a ", "# HELP a_total ").replace("# TYPE a ", "# TYPE a_total ");
        assert_eq!(families().text(Form::Plain).unwrap(), older.replace("# EOF\n", ""));
    }
}
