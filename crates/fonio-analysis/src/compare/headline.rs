//! Selects the figures of a comparison from the analysis of one recording.

use fonio_core::Unit;

use super::statistics::estimate::{self, Estimate};
use crate::analyser::questions::Analysis;
use crate::figures::Figure;
use crate::figures::facts::Facts;
use crate::launch::Launch;
use crate::over_time::slices::{LONG_RATE, RATES, SliceTimes};
use crate::requests::class::Group;
use crate::verdict::facts::facts;

/// How directly users notice a change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    /// The run time of the work, and its time blocked on storage.
    Felt,
    /// Response times of reads and synchronous writes, for which programs wait.
    Waiting,
    /// Figures that explain other figures: service times, shares, rates, write-back.
    Explains,
}

impl Nearness {
    /// Returns the figure's weight in the division of the significance level. The work's own time gets most
    /// of the significance level, although many other figures are tested too.
    pub(super) fn weight(self) -> f64 {
        match self {
            Nearness::Felt => 40.0,
            Nearness::Waiting => 8.0,
            Nearness::Explains => 1.0,
        }
    }
}

/// A figure of one recording. A comparison compares it with the same figure of other recordings.
pub(super) struct Headline {
    pub(super) name: String,
    /// The figure over the full span; `None` if it was not recorded.
    pub(super) figure: Option<Figure>,
    pub(super) nearness: Nearness,
    /// The confidence interval of the value, if one recording is enough to compute it.
    pub(super) within: Within,
}

impl Headline {
    fn new(name: String, nearness: Nearness, facts: &Facts, within: impl Fn(f64) -> Within) -> Headline {
        let figure = facts.figures.get(&name).cloned();
        let value = figure.as_ref().and_then(|figure| figure.value);
        Headline { figure, within: value.map_or(Within::TooFewPieces, within), name, nearness }
    }

    pub(super) fn value(&self) -> Option<f64> {
        self.figure.as_ref()?.value
    }
}

/// Whether one recording is enough for a confidence interval of a figure.
pub(super) enum Within {
    /// The figure has one value per recording, so the variation of the figure is known only from several
    /// recordings.
    OneValue,
    /// The figure is an exact count, or a ratio of exact counts. Without several recordings, only its value is
    /// shown.
    Counted,
    /// The recording has too few independent segments for an interval.
    TooFewPieces,
    /// The figure has a confidence interval at any level.
    Known(Estimate),
}

impl Within {
    fn of(estimate: Option<Estimate>) -> Within {
        estimate.map_or(Within::TooFewPieces, Within::Known)
    }
}

/// Returns the headline figures, in the same order for every analysis.
pub(super) fn headlines(analysis: &Analysis) -> Vec<Headline> {
    let mut facts = facts(analysis);
    put_own(analysis, &mut facts);
    let memory = memory(analysis);
    let mut all = whole(&facts);
    latencies(analysis, &facts, memory, &mut all);
    rates(analysis, &facts, memory, &mut all);
    all
}

fn put_own(analysis: &Analysis, facts: &mut Facts) {
    facts.felt("run_time", "run time", Unit::Ns, analysis.run_time_ns.map(|ns| ns.0 as f64));
    Launch::compared_figures(analysis.launch.as_ref(), facts);
    let has_responses = analysis.latency.groups.iter().any(|row| row.response_ns.is_some());
    analysis.slices.compared_figures(has_responses, facts);
}

/// Returns the number of slices in one independent segment: the longest correlation of any latency. This
/// number is used for all figures, because figures of rare events (such as a 99th percentile) have too few
/// values for a separate estimate.
fn memory(analysis: &Analysis) -> f64 {
    let slices = &analysis.slices;
    [&slices.read, &slices.write_sync, &slices.write_async]
        .into_iter()
        .flat_map(|kind| [&kind.response, &kind.service])
        .filter(|times| times.count.iter().sum::<u64>() > 0)
        .map(|times| estimate::memory(&times.below_p50, &times.count))
        .fold(1.0, f64::max)
}

/// Times and shares that have one value per recording, and explain the time of the work.
const TIMES: [&str; 6] = [
    "blocked.time",
    "blocked.share",
    "blocked.longest",
    "blocked.long.longest",
    "sqlite.blocked_per_transaction",
    "sqlite.sync_time_per_transaction",
];

/// Exact counts and ratios of counts.
const COUNTS: [&str; 15] = [
    "blocked.long.count",
    "sqlite.transactions",
    "sqlite.autocommits",
    "sqlite.rollbacks",
    "sqlite.syncs_per_transaction",
    "sqlite.flushes_per_transaction",
    "sqlite.writes_per_transaction",
    "sqlite.bytes_per_transaction",
    "sqlite.write_amplification",
    "totals.requests",
    "totals.reads",
    "totals.writes",
    "totals.read_bytes",
    "totals.write_bytes",
    "flushes.count",
];

/// Returns the figures that have one value per recording.
fn whole(facts: &Facts) -> Vec<Headline> {
    let figures = [
        ("run_time", Nearness::Felt),
        ("launch.storage", Nearness::Felt),
        ("latency.reads.response.max", Nearness::Waiting),
        ("latency.write_sync.response.max", Nearness::Waiting),
    ];
    let one = |(name, nearness): (&str, Nearness)| {
        let is_count = COUNTS.contains(&name);
        let within = || if is_count { Within::Counted } else { Within::OneValue };
        Headline { within: within(), ..Headline::new(name.to_owned(), nearness, facts, |_| within()) }
    };
    let explains = TIMES.iter().chain(&COUNTS).map(|name| (*name, Nearness::Explains));
    figures.into_iter().chain(explains).map(one).collect()
}

fn latencies(analysis: &Analysis, facts: &Facts, memory: f64, all: &mut Vec<Headline>) {
    let slices = &analysis.slices;
    let async_group = if analysis.latency.sync_known { Group::WriteAsync } else { Group::WriteUnknown };
    // Response times come before service times, because users notice response times.
    for kind in ["response", "service"] {
        for (group, of_slices) in [
            (Group::Reads, &slices.read),
            (Group::WriteSync, &slices.write_sync),
            (async_group, &slices.write_async),
        ] {
            let is_response = kind == "response";
            let times = if is_response { &of_slices.response } else { &of_slices.service };
            let is_waited_for = is_response && group != async_group;
            let nearness = if is_waited_for { Nearness::Waiting } else { Nearness::Explains };
            let mut put = |statistic: &str, estimate: &dyn Fn(f64) -> Option<Estimate>| {
                let name = format!("latency.{}.{kind}.{statistic}", group.name());
                all.push(Headline::new(name, nearness, facts, |value| Within::of(estimate(value))));
            };
            put("p99", &|value| quantile(value, 0.99, &times.below_p99, times, memory));
            put("p50", &|value| quantile(value, 0.5, &times.below_p50, times, memory));
            put("mean", &|value| mean(value, times, memory));
        }
    }
}

fn quantile(value: f64, at: f64, below: &[f64], times: &SliceTimes, memory: f64) -> Option<Estimate> {
    Estimate::quantile(value, at, below, &times.count, &times.histogram, memory)
}

fn mean(value: f64, times: &SliceTimes, memory: f64) -> Option<Estimate> {
    let parts: Vec<(f64, f64)> =
        times.sum_ns.iter().zip(&times.count).map(|(sum, count)| (*sum as f64, *count as f64)).collect();
    Estimate::ratio(value, &parts, memory)
}

fn rates(analysis: &Analysis, facts: &Facts, memory: f64, all: &mut Vec<Headline>) {
    for (name, parts, scale) in RATES {
        let nearness = if name == LONG_RATE { Nearness::Waiting } else { Nearness::Explains };
        let parts: Vec<(f64, f64)> = (parts(&analysis.slices).iter().zip(&analysis.slices.covered_ns))
            .map(|(part, time)| (*part as f64 * scale, *time as f64))
            .collect();
        all.push(Headline::new(name.to_owned(), nearness, facts, |value| {
            Within::of(Estimate::ratio(value, &parts, memory))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads and writes differ in autocorrelation time; the longer time is used for all figures.
    #[test]
    fn the_longest_memory_holds_for_all_figures() {
        let mut analysis = Analysis::default();
        assert_eq!(memory(&analysis), 1.0, "without latencies, the slices count as independent");
        let slices = &mut analysis.slices;
        slices.write_sync.response.count = vec![10; 100];
        slices.write_sync.response.below_p50 = (0..100).map(|at| [0.0, 10.0][at % 2]).collect();
        slices.read.response.count = vec![10; 100];
        // Ten slow slices alternate with ten quick ones. Their autocorrelations at lags 0 to 4 are about 1,
        // 0.8, 0.6, 0.4, 0.2; twice their sum, minus 1, is 5.
        slices.read.response.below_p50 = (0..100).map(|at| [0.0, 10.0][at / 10 % 2]).collect();
        let found = memory(&analysis);
        assert!((4.5..5.5).contains(&found), "{found} slices");
    }
}
