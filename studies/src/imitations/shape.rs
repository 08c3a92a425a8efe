//! What a recording looks like, whatever the amount of work.

use anyhow::{Context, Result};
use serde_json::Value;

const MIB: f64 = 1_048_576.0;
/// Fewer requests have no mean size, and too few bytes have no sequentiality.
const REQUESTS_MIN: f64 = 20.0;
/// Two sizes or rates are alike if the larger one is at most this many times the smaller one.
const FACTOR_MAX: f64 = 2.0;
/// Two shares are alike if they differ by at most this much.
const SHARE_MAX: f64 = 0.2;

/// The figures of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shape {
    pub(super) requests: f64,
    pub(super) reads: f64,
    pub(super) written_mib: f64,
    pub(super) read_mib: f64,
    sequential_writes: Option<f64>,
    sequential_reads: Option<f64>,
    /// Number of waits in fsync and its relatives.
    syncs: f64,
    /// The share of the run time in which a request of the device was in flight.
    busy: f64,
}

impl Shape {
    /// Reads the figures from the analysis of a recording.
    pub(super) fn of(analysis: &Value) -> Result<Shape> {
        let number = |pointer: &str| {
            analysis
                .pointer(pointer)
                .and_then(Value::as_f64)
                .with_context(|| format!("the report has no {pointer}"))
        };
        let share = |pointer: &str| analysis.pointer(pointer).and_then(Value::as_f64);
        let programs = analysis["blocked"]["programs"].as_array().into_iter().flatten();
        let operations = programs.flat_map(|program| program["operations"].as_array().into_iter().flatten());
        let syncs = operations.filter(|operation| operation["blocked_in"] == "fsync");
        Ok(Shape {
            requests: number("/totals/requests")?,
            reads: number("/totals/reads")?,
            written_mib: number("/totals/write_bytes")? / MIB,
            read_mib: number("/totals/read_bytes")? / MIB,
            sequential_writes: share("/sequentiality/write/sequential_bytes_share"),
            sequential_reads: share("/sequentiality/read/sequential_bytes_share"),
            syncs: syncs.filter_map(|operation| operation["waits"].as_f64()).sum(),
            busy: number("/outstanding/waited/share")?,
        })
    }

    /// Returns the median of each figure; `None` without a run.
    pub(super) fn median(runs: &[Shape]) -> Option<Shape> {
        let median = |of: &dyn Fn(&Shape) -> Option<f64>| {
            let mut values: Vec<f64> = runs.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Some(Shape {
            requests: median(&|shape| Some(shape.requests))?,
            reads: median(&|shape| Some(shape.reads))?,
            written_mib: median(&|shape| Some(shape.written_mib))?,
            read_mib: median(&|shape| Some(shape.read_mib))?,
            sequential_writes: median(&|shape| shape.sequential_writes),
            sequential_reads: median(&|shape| shape.sequential_reads),
            syncs: median(&|shape| Some(shape.syncs))?,
            busy: median(&|shape| Some(shape.busy))?,
        })
    }

    fn writes(&self) -> f64 {
        self.requests - self.reads
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A size or a rate, with its unit.
    Ratio(&'static str),
    Share,
}

/// A figure that is compared.
pub(super) struct Metric {
    pub(super) name: &'static str,
    kind: Kind,
    /// Returns the value; `None` if there are too few requests.
    value: fn(&Shape) -> Option<f64>,
}

/// The compared figures.
pub(super) const METRICS: [Metric; 7] = [
    Metric { name: "reads", kind: Kind::Share, value: |shape| enough(shape.requests, shape.reads) },
    Metric {
        name: "mean read",
        kind: Kind::Ratio(" KiB"),
        value: |shape| enough(shape.reads, shape.read_mib * 1024.0),
    },
    Metric {
        name: "mean write",
        kind: Kind::Ratio(" KiB"),
        value: |shape| enough(shape.writes(), shape.written_mib * 1024.0),
    },
    Metric {
        name: "sequential reads",
        kind: Kind::Share,
        value: |shape| shape.sequential_reads.filter(|_| shape.reads >= REQUESTS_MIN),
    },
    Metric {
        name: "sequential writes",
        kind: Kind::Share,
        value: |shape| shape.sequential_writes.filter(|_| shape.writes() >= REQUESTS_MIN),
    },
    Metric {
        name: "syncs a MiB written",
        kind: Kind::Ratio(""),
        value: |shape| (shape.written_mib > 0.0).then(|| shape.syncs / shape.written_mib),
    },
    Metric { name: "time with requests", kind: Kind::Share, value: |shape| Some(shape.busy) },
];

/// Returns the mean of `sum` over `count` requests, if they are enough for one.
fn enough(count: f64, sum: f64) -> Option<f64> {
    (count >= REQUESTS_MIN).then(|| sum / count)
}

impl Metric {
    /// Returns whether the imitation is like the program. `None` if neither has the value: then there is nothing to compare.
    pub(super) fn is_alike(&self, imitation: &Shape, program: &Shape) -> Option<bool> {
        let (imitation, program) = ((self.value)(imitation), (self.value)(program));
        match (imitation, program) {
            (None, None) => None,
            (Some(imitation), Some(program)) => Some(match self.kind {
                Kind::Share => (imitation - program).abs() <= SHARE_MAX,
                Kind::Ratio(_) => {
                    let (low, high) = (imitation.min(program), imitation.max(program));
                    high <= low * FACTOR_MAX
                }
            }),
            _ => Some(false),
        }
    }

    /// Returns both values, with a mark if they are not alike.
    pub(super) fn shown(&self, imitation: &Shape, program: &Shape, is_alike: Option<bool>) -> String {
        let told = |shape: &Shape| {
            let value = (self.value)(shape);
            value.map_or_else(
                || "–".to_owned(),
                |value| match self.kind {
                    Kind::Share => format!("{:.0}", value * 100.0),
                    Kind::Ratio(_) => format!("{value:.1}"),
                },
            )
        };
        let unit = match self.kind {
            Kind::Share => " %",
            Kind::Ratio(unit) => unit,
        };
        let mark = if is_alike == Some(false) { " !" } else { "" };
        format!("{} / {}{unit}{mark}", told(imitation), told(program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(requests: f64, reads: f64, written_mib: f64, syncs: f64) -> Shape {
        Shape { requests, reads, written_mib, syncs, busy: 0.5, ..Shape::default() }
    }

    #[test]
    fn shapes_are_compared_whatever_the_amount() {
        let one = shape(100.0, 50.0, 1.0, 10.0);
        let ten = shape(1000.0, 500.0, 10.0, 100.0);
        for metric in &METRICS {
            assert_ne!(metric.is_alike(&one, &ten), Some(false), "{}", metric.name);
        }
        let synced = shape(100.0, 50.0, 1.0, 21.0);
        let missed: Vec<&str> = METRICS
            .iter()
            .filter(|metric| metric.is_alike(&one, &synced) == Some(false))
            .map(|metric| metric.name)
            .collect();
        assert_eq!(missed, ["syncs a MiB written"]);
    }

    #[test]
    fn what_only_one_of_them_has_differs() {
        let reads = shape(100.0, 50.0, 1.0, 10.0);
        let none = shape(50.0, 0.0, 1.0, 10.0);
        let mean_read = &METRICS[1];
        assert_eq!(mean_read.is_alike(&reads, &none), Some(false));
        assert_eq!(mean_read.shown(&reads, &none, Some(false)), "0.0 / – KiB !");
        assert_eq!(mean_read.is_alike(&none, &none), None);
    }

    #[test]
    fn a_report_without_a_figure_is_refused() {
        let error = Shape::of(&serde_json::json!({ "totals": {} })).expect_err("no figures");
        assert_eq!(error.to_string(), "the report has no /totals/requests");
    }

    #[test]
    fn the_median_of_each_figure() {
        let runs = [1.0, 3.0, 2.0].map(|requests| Shape { requests, ..Shape::default() });
        assert_eq!(Shape::median(&runs).map(|shape| shape.requests), Some(2.0));
        assert_eq!(Shape::median(&[]), None);
    }
}
