//! Computes the figures of each part of a run from the measured values. A model and fio both produce a
//! [`Benchmark`], so this module serves both.

use std::collections::BTreeMap;

use fonio_core::statistics::sample::{is_known, mean};
use fonio_core::{Access, Unit};
use fonio_storebench_document::document::{CURVE_POINTS_MAX, CapacityCheck, Curve, Launch, Measure, Value};
use fonio_storebench_document::figures::{self, BESIDE, Part, SIZES, size_name};
use fonio_storebench_document::values;
use serde::{Deserialize, Serialize};

use super::schedule::READS_ONLY;
use crate::fio::RATE_INTERVAL_MS;
use crate::result::{Benchmark, Run, TestResult};
use crate::test::{Set, Test};

/// The reason given for a figure if the time ended before its part was complete.
pub const NO_TIME: &str = "no time left";

/// The reason given for the medians and percentiles that a model does not have.
pub const NO_DISTRIBUTION: &str = "the model has no distribution of response times";

/// The result of a part of a run. The run stores the result as soon as the part ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// The part to which the result belongs.
    pub part: Part,
    /// All figures of the part, by name.
    pub figures: BTreeMap<String, Measure>,
    /// Throughput of the sustained write over time.
    pub curve: Option<Curve>,
    /// The launch times of the apps.
    pub launches: Vec<Launch>,
    /// The verdict of the capacity check.
    pub capacity: Option<CapacityCheck>,
    /// Whether cached pages were dropped; `None` if the part uses no page cache.
    pub caches_dropped: Option<bool>,
    /// Number of bytes that the part wrote.
    pub written_bytes: u64,
    /// The duration of the part in seconds.
    pub took_s: f64,
    /// Remarks shown to the user but not included in the document.
    pub notes: Vec<String>,
}

impl PartResult {
    /// Creates the result of a part that was not measured, with the reason.
    pub fn not_measured(part: Part, reason: &str) -> PartResult {
        let figures = figures::catalogue().into_iter().filter(|figure| figure.part == part);
        let capacity =
            (part == Part::Capacity).then(|| CapacityCheck::NotChecked { reason: reason.to_owned() });
        PartResult {
            part,
            figures: figures
                .map(|figure| (figure.figure.name, Measure::NotMeasured(reason.to_owned())))
                .collect(),
            curve: None,
            launches: Vec::new(),
            capacity,
            caches_dropped: None,
            written_bytes: 0,
            took_s: 0.0,
            notes: Vec::new(),
        }
    }

    /// If `tests` contains only reads, corrects the reason given for the missing write figures.
    pub(super) fn explain_missing(&mut self, tests: &[Test]) {
        if tests.iter().any(|test| test.access.writes()) {
            return;
        }
        let needs_writes = |name: &str| name.contains("_write") || name == "bandwidth.total";
        for (_, measure) in self.figures.iter_mut().filter(|(name, _)| needs_writes(name)) {
            *measure = Measure::NotMeasured(READS_ONLY.to_owned());
        }
    }

    /// Creates the result of a part measured by fio or a model. Figures whose test did not run get the reason
    /// `missing`.
    pub fn of_benchmark(part: Part, benchmark: &Benchmark, missing: &str) -> PartResult {
        let mut result = PartResult::not_measured(part, missing);
        result.written_bytes = benchmark.written_bytes;
        let figures = &mut result.figures;
        match part {
            Part::Sizes => sizes(benchmark, missing, figures),
            Part::Slowdown => slowdown(benchmark, missing, figures),
            Part::Sustained => result.curve = sustained(benchmark, figures),
            Part::Concurrency => concurrency(benchmark, missing, figures),
            Part::Sync | Part::Launch | Part::Capacity => {}
        }
        result
    }
}

type Figures = BTreeMap<String, Measure>;

fn sizes(benchmark: &Benchmark, missing: &str, figures: &mut Figures) {
    for access in Access::ALL {
        for bytes in SIZES {
            let result = benchmark.of(Set::Sizes).find(|result| result.test.is_of(access, bytes));
            let name =
                |statistic: &str| format!("response.{}.{}.{statistic}", access.name(), size_name(bytes));
            let ms = |pick: &dyn Fn(&Run) -> Option<u64>, or: &str| {
                let each: Option<Vec<f64>> = result
                    .map(|result| result.runs.iter().map(|run| Some(pick(run)? as f64 / 1e6)).collect())
                    .unwrap_or(Some(Vec::new()));
                match each {
                    Some(each) => values::mean(&each, Unit::Ms, missing),
                    None => Measure::NotMeasured(or.to_owned()),
                }
            };
            figures.insert(name("mean"), ms(&|run| Some(run.response_mean_ns), missing));
            figures.insert(name("p50"), ms(&|run| run.response_p50_ns, NO_DISTRIBUTION));
            figures.insert(name("p99"), ms(&|run| run.response_p99_ns, NO_DISTRIBUTION));
            let stands_for_bandwidth = bytes == if access.is_sequential() { SIZES[2] } else { SIZES[0] };
            if stands_for_bandwidth {
                let rates: Vec<f64> = result.iter().flat_map(|result| &result.runs).map(Run::mb_s).collect();
                figures.insert(
                    format!("bandwidth.{}", access.name()),
                    values::mean(&rates, Unit::MbPerS, missing),
                );
            }
        }
    }
    let four = Access::ALL
        .map(|access| figures.get(&format!("bandwidth.{}", access.name())).and_then(Measure::value));
    let total = values::sum(four.into_iter(), missing);
    figures.insert("bandwidth.total".to_owned(), total);
}

fn responses(result: &TestResult) -> Vec<f64> {
    result.runs.iter().map(|run| run.response_mean_ns as f64).collect()
}

fn slowdown(benchmark: &Benchmark, missing: &str, figures: &mut Figures) {
    let of = |access: Access, processes: u32, alone: bool| {
        let mut tests = benchmark.of(Set::Interference);
        tests.find(|result| {
            let test = &result.test;
            test.access == access && test.processes == processes && test.beside.is_none() == alone
        })
    };
    for access in Access::ALL {
        let alone = of(access, 1, true).map(responses).unwrap_or_default();
        for count in BESIDE {
            let beside = of(access, count, false).map(responses).unwrap_or_default();
            let name = format!("slowdown.{}.{count}x{count}", access.name());
            figures.insert(name, values::ratio(&beside, &alone, missing));
        }
    }
}

fn sustained(benchmark: &Benchmark, figures: &mut Figures) -> Option<Curve> {
    let result = benchmark.of(Set::Sustained).next()?;
    let run = result.runs.first()?;
    let rates = &run.rates_mb_s;
    let curve = (!rates.is_empty()).then(|| curve(rates));
    let mut put = |name: &str, measure: Measure| figures.insert(format!("sustained.{name}"), measure);
    let Some(found) = result.sustained else {
        let reason = format!(
            "the write of {} MiB took only {:.1} s, too short to show a change of the rate",
            run.bytes >> 20,
            run.span_ns as f64 / 1e9
        );
        for name in ["first", "last", "fast_bytes"] {
            put(name, Measure::NotMeasured(reason.clone()));
        }
        return curve;
    };
    // A long write is not repeated. It counts as stable if its rate no longer varies at the end.
    let is_steady = is_known(&rates[rates.len() * 2 / 3..], values::ERROR_MAX);
    let once = |value: f64, unit: Unit, stable: bool| {
        Measure::Measured(Value { value, unit, runs: 1, low: value, high: value, stable })
    };
    put("first", once(found.first_mb_s, Unit::MbPerS, false));
    put("last", once(found.last_mb_s, Unit::MbPerS, is_steady));
    put(
        "fast_bytes",
        match found.fell_after_bytes {
            Some(bytes) => once(bytes as f64, Unit::Bytes, false),
            None => Measure::NotMeasured(format!("the rate did not fall within {} MiB", run.bytes >> 20)),
        },
    );
    curve
}

/// Returns the throughput curve, with at most [`CURVE_POINTS_MAX`] points.
fn curve(rates: &[f64]) -> Curve {
    let each = rates.len().div_ceil(CURVE_POINTS_MAX).max(1);
    // Round to a thousandth of 1 MB/s, which is finer than the precision of any rate.
    let rounded = |rate: f64| (rate * 1000.0).round() / 1000.0;
    let points = rates.chunks(each).filter_map(mean).map(rounded);
    Curve { interval_s: RATE_INTERVAL_MS as f64 / 1e3 * each as f64, mb_s: points.collect() }
}

fn concurrency(benchmark: &Benchmark, missing: &str, figures: &mut Figures) {
    let of = |access: Access, at_once: u32| -> Vec<f64> {
        let mut tests = benchmark.of(Set::ConcurrencyParameters);
        let found = tests.find(|result| result.test.access == access && result.test.processes == at_once);
        found.map(|result| result.runs.iter().map(Run::mb_s).collect()).unwrap_or_default()
    };
    for access in Access::ALL {
        let one = of(access, 1);
        for count in figures::AT_ONCE {
            // Both tests were measured in the same rounds, so their results are compared round by round.
            let ratios: Vec<f64> = of(access, count).iter().zip(&one).map(|(many, one)| many / one).collect();
            figures.insert(
                format!("speedup.{}.{count}", access.name()),
                values::mean(&ratios, Unit::Ratio, missing),
            );
        }
        let found = benchmark.concurrency.iter().find(|found| found.access == access);
        let measure = match found {
            Some(found) => {
                let value = f64::from(found.requests);
                let high = f64::from(found.requests_high.unwrap_or(found.requests));
                Measure::Measured(Value {
                    value,
                    unit: Unit::Count,
                    runs: one.len() as u32,
                    low: value,
                    high,
                    stable: found.requests_high == Some(found.requests),
                })
            }
            None => Measure::NotMeasured(missing.to_owned()),
        };
        figures.insert(format!("concurrency.{}", access.name()), measure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_time_has_every_figure_with_the_reason() {
        let mut names = Vec::new();
        for part in Part::ALL {
            let result = PartResult::not_measured(part, NO_TIME);
            assert!(
                result.figures.values().all(|figure| *figure == Measure::NotMeasured(NO_TIME.to_owned()))
            );
            names.extend(result.figures.into_keys());
        }
        assert_eq!(names.len(), figures::catalogue().len());
    }

    #[test]
    fn a_long_curve_keeps_its_mean_and_its_length() {
        let rates: Vec<f64> = (0..1500).map(f64::from).collect();
        let shown = curve(&rates);
        assert_eq!((shown.mb_s.len(), shown.interval_s), (500, 1.5));
        assert_eq!(shown.mb_s[1], 4.0);
    }
}
