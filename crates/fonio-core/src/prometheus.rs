//! Writes figures in the text format that Prometheus scrapes, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::fmt::{Display, Write};

/// The media type of Prometheus's text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The names and values of the labels of a row. Values are escaped when they are written.
pub type Labels<'l> = [(&'l str, &'l str)];

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A text in Prometheus's format, to which metrics are appended.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric. Add the metric's rows before the next metric begins.
    pub fn metric<'t>(&'t mut self, name: &'t str, kind: Kind, help: &str) -> Metric<'t> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Metric { text: self, name }
    }

    /// Returns the text with all metrics.
    pub fn into_string(self) -> String {
        self.0
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("writing to a string cannot fail");
    }
}

/// A metric of a [`Text`], to which rows are added.
#[derive(Debug)]
pub struct Metric<'t> {
    text: &'t mut Text,
    name: &'t str,
}

impl Metric<'_> {
    /// Adds a row to the metric.
    pub fn row(&mut self, labels: &Labels<'_>, value: impl Display) -> &mut Self {
        self.part("", labels, None, value)
    }

    /// Adds the rows of a histogram to the metric. `buckets` contains ascending upper bounds, each with the
    /// number of values that are at most this bound.
    pub fn histogram(
        &mut self,
        labels: &Labels<'_>,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) -> &mut Self {
        for (end, below) in buckets {
            self.part("_bucket", labels, Some(&end.to_string()), below);
        }
        self.part("_bucket", labels, Some("+Inf"), count);
        self.part("_sum", labels, None, sum);
        self.part("_count", labels, None, count)
    }

    fn part(
        &mut self,
        suffix: &str,
        labels: &Labels<'_>,
        bucket: Option<&str>,
        value: impl Display,
    ) -> &mut Self {
        self.text.write(format_args!("{}{suffix}", self.name));
        let all = labels.iter().copied().chain(bucket.map(|end| ("le", end)));
        let mut opened = false;
        for (label, value) in all {
            let before = if opened { ',' } else { '{' };
            self.text.write(format_args!("{before}{label}=\"{}\"", escaped(value)));
            opened = true;
        }
        self.text.write(format_args!("{} {value}\n", if opened { "}" } else { "" }));
        self
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_each_kind() {
        let mut text = Text::default();
        text.metric("stalls_total", Kind::Counter, "Spans.").row(&[], 3);
        text.metric("fill_ratio", Kind::Gauge, "A share\nof 1.").row(&[("device", "sda")], 0.5);
        text.metric("wait_seconds", Kind::Histogram, "Waits.").histogram(
            &[("op", "read")],
            [(0.001, 1), (0.002, 4)],
            5,
            0.25,
        );
        expect_test::expect_file!["prometheus.txt"].assert_eq(&text.into_string());
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.metric("x", Kind::Gauge, "").row(&[("unit", "a \"b\"\\\n")], 1);
        assert!(text.into_string().ends_with("x{unit=\"a \\\"b\\\"\\\\\\n\"} 1\n"));
    }
}
