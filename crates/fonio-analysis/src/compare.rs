//! One recording against another: differences with intervals, and "no difference" as an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::{Difference, Estimate};
use crate::{Analysis, Group, Unit};

/// Something with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The thing.
    pub value: T,
}

/// Recordings compared with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// How the intervals were made.
    pub method: String,
    /// The recordings' names; the first is the one that the others are compared with.
    pub names: Vec<String>,
    /// Whether each recording's measurement holds.
    pub valid: Vec<bool>,
    /// Each headline figure.
    pub rows: Vec<ComparisonRow>,
}

/// One headline figure over all recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonRow {
    /// The figure's name: `latency.write_sync.service.p99`, …
    pub figure: String,
    /// Its unit.
    pub unit: Unit,
    /// What a person calls it: `sync write service, 99th percentile`.
    pub label: String,
    /// Whether less of it is better; absent where neither is.
    pub less_is_better: Option<bool>,
    /// Its value in each recording; absent where unknown.
    pub values: Vec<Option<f64>>,
    /// Each value as a reader wants it.
    pub texts: Vec<Option<String>>,
    /// Each recording after the first, compared with the first.
    pub differences: Vec<Difference>,
}

/// Fewer slices than this say nothing about the spread.
const SLICES_MIN: usize = 6;
/// Neighbouring slices are put together until no more than this many are left: long slices depend less on each other.
const SLICES_MAX: usize = 32;

const METHOD: &str = "Each recording is cut into 6 to 32 slices of equal time (batch means). How a figure differs from \
slice to slice gives its variance; two recordings are compared by Welch's t at 95 percent confidence. Where the interval \
of the difference holds 0, no difference was shown. Slices of one recording cannot show how runs differ: repeat runs for \
that.";

/// Compares each analysis with the first.
///
/// Every headline figure is a ratio of two sums (latency over requests, requests over time, …). Its variance is estimated
/// from the slices' residuals, which allows for slices with more and fewer requests (Cochran, *Sampling Techniques*,
/// ratio estimators); percentiles enter as means of the slices' percentiles, weighted by requests.
pub fn compare(analyses: &[Named<&Analysis>]) -> Comparison {
    let mut measured: Vec<std::vec::IntoIter<Measured>> =
        analyses.iter().map(|analysis| measure(analysis.value).into_iter()).collect();
    let mut rows = Vec::new();
    loop {
        // Every analysis is measured by the same figures in the same order.
        let next: Vec<Measured> = measured.iter_mut().filter_map(Iterator::next).collect();
        let Some((first, others)) = next.split_first() else { break };
        if next.iter().all(|measured| measured.value.is_none()) {
            continue;
        }
        rows.push(ComparisonRow {
            figure: first.figure.clone(),
            unit: first.unit,
            label: first.label.clone(),
            less_is_better: first.less_is_better,
            values: next.iter().map(|measured| measured.value).collect(),
            texts: next.iter().map(|measured| Some(measured.unit.text(measured.value?))).collect(),
            differences: others.iter().map(|other| difference(first, other)).collect(),
        });
    }
    Comparison {
        method: METHOD.to_owned(),
        names: analyses.iter().map(|analysis| analysis.name.clone()).collect(),
        valid: analyses.iter().map(|analysis| analysis.value.validity.ok).collect(),
        rows,
    }
}

/// A headline figure of one recording.
struct Measured {
    figure: String,
    label: String,
    unit: Unit,
    less_is_better: Option<bool>,
    /// Over the whole span.
    value: Option<f64>,
    /// In each slice: what is divided, and by what.
    parts: Vec<(f64, f64)>,
}

fn measure(analysis: &Analysis) -> Vec<Measured> {
    let slices = &analysis.slices;
    let mut all = Vec::new();
    let async_group = if analysis.latency.sync_known { Group::WriteAsync } else { Group::WriteUnknown };
    for (group, name, label, of_slices) in [
        (Group::Reads, "reads", "read", &slices.read),
        (Group::WriteSync, "write_sync", "sync write", &slices.write_sync),
        (async_group, "write_async", "other write", &slices.write_async),
    ] {
        let row = analysis.latency.groups.iter().find(|row| row.group == group);
        for (kind, times, whole) in [
            ("service", &of_slices.service, row.and_then(|row| row.service_ns.as_ref())),
            ("response", &of_slices.response, row.and_then(|row| row.response_ns.as_ref())),
        ] {
            let of_percentile = |values: &[Option<u64>]| {
                let weighted = values.iter().zip(&times.count);
                weighted
                    .map(|(value, count)| (value.unwrap_or(0) as f64 * *count as f64, *count as f64))
                    .collect()
            };
            let sums = times.sum_ns.iter().zip(&times.count);
            for (part, part_label, value, parts) in [
                (
                    "mean",
                    "mean",
                    whole.map(|whole| whole.mean),
                    sums.map(|(sum, count)| (*sum as f64, *count as f64)).collect(),
                ),
                ("p50", "median", whole.and_then(|w| w.p50).map(|v| v as f64), of_percentile(&times.p50_ns)),
                (
                    "p99",
                    "99th percentile",
                    whole.and_then(|w| w.p99).map(|v| v as f64),
                    of_percentile(&times.p99_ns),
                ),
            ] {
                all.push(Measured {
                    figure: format!("latency.{name}.{kind}.{part}"),
                    label: format!("{label} {kind}, {part_label}"),
                    unit: Unit::Ns,
                    less_is_better: Some(true),
                    value,
                    parts,
                });
            }
        }
    }
    let totals = &analysis.totals;
    let share = analysis.io_share.all.as_ref();
    let per = |values: &[u64], scale: f64| -> Vec<(f64, f64)> {
        let timed = values.iter().zip(&slices.covered_ns);
        timed.map(|(value, time)| (*value as f64 * scale, *time as f64)).collect()
    };
    const NS_IN_S: f64 = 1e9;
    for (figure, label, unit, less_is_better, value, parts) in [
        (
            "io_share.latency_sum",
            "I/O share, summed latency",
            Unit::Share,
            Some(true),
            share.map(|share| share.latency_sum_share),
            per(&slices.service_sum_ns, 1.0),
        ),
        (
            "io_share.busy_union",
            "I/O share, time busy",
            Unit::Share,
            Some(true),
            share.map(|share| share.busy_union_share),
            per(&slices.busy_ns, 1.0),
        ),
        (
            "flushes.per_s",
            "flushes",
            Unit::PerS,
            Some(true),
            analysis.flushes.flushes_per_s,
            per(&slices.flushes, NS_IN_S),
        ),
        (
            "totals.requests_per_s",
            "requests",
            Unit::PerS,
            None,
            totals.requests_per_s,
            per(&slices.requests, NS_IN_S),
        ),
        (
            "totals.read_bytes_per_s",
            "bytes read",
            Unit::BytesPerS,
            None,
            totals.read_bytes_per_s,
            per(&slices.read_bytes, NS_IN_S),
        ),
        (
            "totals.write_bytes_per_s",
            "bytes written",
            Unit::BytesPerS,
            None,
            totals.write_bytes_per_s,
            per(&slices.write_bytes, NS_IN_S),
        ),
    ] {
        let (figure, label) = (figure.to_owned(), label.to_owned());
        all.push(Measured { figure, label, unit, less_is_better, value, parts });
    }
    all
}

/// Variance of a ratio of sums, with its degrees of freedom; `None` with too few slices.
fn variance(parts: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut parts: Vec<(f64, f64)> = parts.to_vec();
    while parts.len() > SLICES_MAX {
        let add =
            |pair: &[(f64, f64)]| pair.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        parts = parts.chunks(2).map(add).collect();
    }
    parts.retain(|(_, by)| *by > 0.0);
    if parts.len() < SLICES_MIN {
        return None;
    }
    let (sum, by) = parts.iter().fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
    let ratio = sum / by;
    let residuals: f64 = parts.iter().map(|(part, by)| (part - ratio * by) * (part - ratio * by)).sum();
    let count = parts.len() as f64;
    Some((count / (count - 1.0) * residuals / (by * by), count - 1.0))
}

fn difference(first: &Measured, other: &Measured) -> Difference {
    let estimate = |of: &Measured| Some(Estimate { value: of.value?, variance: variance(&of.parts) });
    Difference::between(estimate(first), estimate(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::{analyse_rows, request};
    use crate::interval::Answer;

    /// Sync writes, one each millisecond, that take from `base` to `base` + 100 microseconds.
    fn writer(base: u64, seed: u64) -> Analysis {
        let mut draw = seed;
        let mut noise = move || {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (draw >> 33) % 101
        };
        let rows: Vec<_> = (0..2000u64)
            .map(|id| {
                let at = id * 1000;
                request(id, &format!("WS {}+8 q{at} d{at} c{}", id * 8, at + base + noise()))
            })
            .collect();
        analyse_rows(&rows, &fonio_core::Meta::default())
    }

    fn answers(first: u64, other: u64) -> Vec<(String, Answer)> {
        let (first, other) = (writer(first, 1), writer(other, 2));
        let named = [
            Named { name: "before".to_owned(), value: &first },
            Named { name: "after".to_owned(), value: &other },
        ];
        let rows = compare(&named).rows;
        rows.into_iter().map(|row| (row.figure, row.differences[0].answer)).collect()
    }

    fn answer(answers: &[(String, Answer)], figure: &str) -> Answer {
        answers.iter().find(|(name, _)| name == figure).unwrap().1
    }

    #[test]
    fn slower_faster_and_no_difference() {
        let slower = answers(300, 400);
        let faster = answers(400, 300);
        let same = answers(300, 300);
        for figure in
            ["latency.write_sync.service.mean", "latency.write_sync.service.p50", "io_share.latency_sum"]
        {
            assert_eq!(answer(&slower, figure), Answer::Higher, "{figure}");
            assert_eq!(answer(&faster, figure), Answer::Lower, "{figure}");
            assert_eq!(answer(&same, figure), Answer::NoDifference, "{figure}");
        }
        assert_eq!(answer(&slower, "totals.requests_per_s"), Answer::NoDifference);
        assert!(slower.iter().all(|(figure, _)| !figure.starts_with("latency.reads")), "unknown in both");
    }

    #[test]
    fn with_itself_there_is_no_difference() {
        let analysis = writer(300, 1);
        let named = ["a", "b"].map(|name| Named { name: name.to_owned(), value: &analysis });
        for row in compare(&named).rows {
            let difference = &row.differences[0];
            assert_eq!(
                (difference.difference, difference.answer),
                (Some(0.0), Answer::NoDifference),
                "{}",
                row.figure
            );
        }
    }

    #[test]
    fn too_short_for_an_interval() {
        let short = analyse_rows(&[request(0, "R 0+8 q0 d0 c10")], &fonio_core::Meta::default());
        let named = ["a", "b"].map(|name| Named { name: name.to_owned(), value: &short });
        assert!(compare(&named).rows.iter().all(|row| row.differences[0].answer == Answer::Unknown));
    }

    #[test]
    fn variance_by_hand() {
        // Eight slices of one request each, taking 1 to 8: the variance of their mean is 6 / 8.
        let parts: Vec<(f64, f64)> = (1..=8).map(|value| (f64::from(value), 1.0)).collect();
        assert_eq!(variance(&parts), Some((0.75, 7.0)));
        assert_eq!(variance(&parts[..5]), None);
    }
}
