//! The figures that a comparison consists of, from the analysis of one recording.

use fonio_core::{Better, Unit};

use crate::figures::{better, label};
use crate::slices::SliceTimes;
use crate::statistics::estimate::{self, Estimate};
use crate::{Analysis, Distribution, Group};

/// How directly people feel a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    /// The run time of the work, and its time blocked on storage.
    Felt,
    /// Responses of reads and synchronous writes, which programs wait for.
    Waiting,
    /// Figures that explain the others: service times, shares, rates, write-back.
    Explains,
}

impl Nearness {
    /// The figure's share of the level at which all figures are tested together. The weights keep most of the level for
    /// the work's own time, although many figures explain it.
    pub(super) fn weight(self) -> f64 {
        match self {
            Nearness::Felt => 40.0,
            Nearness::Waiting => 8.0,
            Nearness::Explains => 1.0,
        }
    }
}

/// A headline figure of one recording.
pub(super) struct Headline {
    pub(super) figure: String,
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) better: Option<Better>,
    pub(super) nearness: Nearness,
    /// The value over the full span.
    pub(super) value: Option<f64>,
    /// The interval around the value, as far as the recording can give one.
    pub(super) within: Within,
}

/// How precisely one recording can locate a figure.
pub(super) enum Within {
    /// The figure has one value per recording, so only several recordings show how it varies.
    OneValue,
    /// The recording has too few independent pieces.
    TooFewPieces,
    /// The figure has an interval at any level.
    Known(Estimate),
}

impl Within {
    fn of(estimate: Option<Estimate>) -> Within {
        estimate.map_or(Within::TooFewPieces, Within::Known)
    }
}

/// The headline figures, in the same order for every analysis.
pub(super) fn headlines(analysis: &Analysis) -> Vec<Headline> {
    let memory = memory(analysis);
    let mut all = whole(analysis);
    latencies(analysis, memory, &mut all);
    rates(analysis, memory, &mut all);
    all
}

/// The number of slices in one independent piece: the longest memory that a latency shows. The device's past affects
/// all figures, and rare events (a 99th percentile) cannot show the memory themselves.
fn memory(analysis: &Analysis) -> f64 {
    let slices = &analysis.slices;
    [&slices.read, &slices.write_sync, &slices.write_async]
        .into_iter()
        .flat_map(|kind| [&kind.response, &kind.service])
        .filter(|times| times.count.iter().sum::<u64>() > 0)
        .map(|times| estimate::memory(&times.below_p50, &times.count))
        .fold(1.0, f64::max)
}

/// The figures with one value per recording.
fn whole(analysis: &Analysis) -> Vec<Headline> {
    let one = |figure: &str, nearness, value: Option<u64>| Headline {
        figure: figure.to_owned(),
        label: label(figure),
        unit: Unit::Ns,
        better: better(figure),
        nearness,
        value: value.map(|value| value as f64),
        within: Within::OneValue,
    };
    let longest = |group: Group| {
        let row = analysis.latency.groups.iter().find(|row| row.group == group)?;
        row.response_ns.as_ref()?.max
    };
    let blocked = analysis.launch.as_ref().map(|launch| launch.path.storage_ns);
    vec![
        one("run_time", Nearness::Felt, analysis.run_time_ns),
        one("launch.storage", Nearness::Felt, blocked),
        one("latency.reads.response.max", Nearness::Waiting, longest(Group::Reads)),
        one("latency.write_sync.response.max", Nearness::Waiting, longest(Group::WriteSync)),
    ]
}

fn latencies(analysis: &Analysis, memory: f64, all: &mut Vec<Headline>) {
    let slices = &analysis.slices;
    let async_group = if analysis.latency.sync_known { Group::WriteAsync } else { Group::WriteUnknown };
    // Responses come first, because people feel them.
    for kind in ["response", "service"] {
        for (group, name, of_slices) in [
            (Group::Reads, "reads", &slices.read),
            (Group::WriteSync, "write_sync", &slices.write_sync),
            (async_group, async_group.name(), &slices.write_async),
        ] {
            let row = analysis.latency.groups.iter().find(|row| row.group == group);
            let (times, whole) = match kind {
                "response" => (&of_slices.response, row.and_then(|row| row.response_ns.as_ref())),
                _ => (&of_slices.service, row.and_then(|row| row.service_ns.as_ref())),
            };
            let waited_for = kind == "response" && group != async_group;
            for (part, (value, estimate)) in [
                ("p99", p99(whole, times, memory)),
                ("p50", p50(whole, times, memory)),
                ("mean", mean(whole, times, memory)),
            ] {
                let figure = format!("latency.{name}.{kind}.{part}");
                all.push(Headline {
                    label: label(&figure),
                    better: better(&figure),
                    figure,
                    unit: Unit::Ns,
                    nearness: if waited_for { Nearness::Waiting } else { Nearness::Explains },
                    value,
                    within: Within::of(estimate),
                });
            }
        }
    }
}

fn p99(whole: Option<&Distribution>, times: &SliceTimes, memory: f64) -> (Option<f64>, Option<Estimate>) {
    quantile(whole.and_then(|whole| whole.p99), 0.99, &times.below_p99, times, memory)
}

fn p50(whole: Option<&Distribution>, times: &SliceTimes, memory: f64) -> (Option<f64>, Option<Estimate>) {
    quantile(whole.and_then(|whole| whole.p50), 0.5, &times.below_p50, times, memory)
}

fn quantile(
    value: Option<u64>,
    at: f64,
    below: &[f64],
    times: &SliceTimes,
    memory: f64,
) -> (Option<f64>, Option<Estimate>) {
    let value = value.map(|value| value as f64);
    (
        value,
        value.and_then(|value| Estimate::quantile(value, at, below, &times.count, &times.histogram, memory)),
    )
}

fn mean(whole: Option<&Distribution>, times: &SliceTimes, memory: f64) -> (Option<f64>, Option<Estimate>) {
    let value = whole.map(|whole| whole.mean);
    let parts: Vec<(f64, f64)> =
        times.sum_ns.iter().zip(&times.count).map(|(sum, count)| (*sum as f64, *count as f64)).collect();
    (value, value.and_then(|value| Estimate::ratio(value, &parts, memory)))
}

fn rates(analysis: &Analysis, memory: f64, all: &mut Vec<Headline>) {
    const NS_IN_S: f64 = 1e9;
    let slices = &analysis.slices;
    let totals = &analysis.totals;
    let share = analysis.io_share.all.as_ref();
    let covered: u64 = slices.covered_ns.iter().sum();
    let long_per_s = analysis
        .latency
        .groups
        .iter()
        .any(|row| row.response_ns.is_some())
        .then(|| crate::seen::per_second(slices.long.iter().sum(), covered))
        .flatten();
    for (figure, unit, nearness, value, parts, scale) in [
        ("long.per_s", Unit::PerS, Nearness::Waiting, long_per_s, &slices.long, NS_IN_S),
        (
            "io_share.busy_union",
            Unit::Share,
            Nearness::Explains,
            share.map(|share| share.busy_union_share),
            &slices.busy_ns,
            1.0,
        ),
        (
            "io_share.latency_sum",
            Unit::Number,
            Nearness::Explains,
            share.map(|share| share.latency_sum_share),
            &slices.service_sum_ns,
            1.0,
        ),
        (
            "flushes.per_s",
            Unit::PerS,
            Nearness::Explains,
            analysis.flushes.flushes_per_s,
            &slices.flushes,
            NS_IN_S,
        ),
        (
            "totals.requests_per_s",
            Unit::PerS,
            Nearness::Explains,
            totals.requests_per_s,
            &slices.requests,
            NS_IN_S,
        ),
        (
            "totals.read_bytes_per_s",
            Unit::BytesPerS,
            Nearness::Explains,
            totals.read_bytes_per_s,
            &slices.read_bytes,
            NS_IN_S,
        ),
        (
            "totals.write_bytes_per_s",
            Unit::BytesPerS,
            Nearness::Explains,
            totals.write_bytes_per_s,
            &slices.write_bytes,
            NS_IN_S,
        ),
    ] {
        let parts: Vec<(f64, f64)> = parts
            .iter()
            .zip(&slices.covered_ns)
            .map(|(part, time)| (*part as f64 * scale, *time as f64))
            .collect();
        all.push(Headline {
            figure: figure.to_owned(),
            label: label(figure),
            unit,
            better: better(figure),
            nearness,
            value,
            within: Within::of(value.and_then(|value| Estimate::ratio(value, &parts, memory))),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longer of the memories of reads and of writes applies.
    #[test]
    fn the_longest_memory_holds_for_all_figures() {
        let mut analysis = Analysis::default();
        assert_eq!(memory(&analysis), 1.0, "without latencies each slice stands for itself");
        let slices = &mut analysis.slices;
        slices.write_sync.response.count = vec![10; 100];
        slices.write_sync.response.below_p50 = (0..100).map(|at| [0.0, 10.0][at % 2]).collect();
        slices.read.response.count = vec![10; 100];
        // Slow and quick alternate, ten slices each: correlations about 1, 0.8, 0.6, 0.4, 0.2; twice their sum less one
        // is 5.
        slices.read.response.below_p50 = (0..100).map(|at| [0.0, 10.0][at / 10 % 2]).collect();
        let found = memory(&analysis);
        assert!((4.5..5.5).contains(&found), "{found} slices");
    }
}
