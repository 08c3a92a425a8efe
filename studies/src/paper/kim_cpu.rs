//! Reproduces Figures 11 and 12: the busy time and iowait of the processors during WebBench. Both figures are
//! measured in a guest, because the ticks of this machine would include all its other programs.

use anyhow::{Context, Result};
use fonio_analysis::Analysis;
use fonio_analysis::machine::MachineSeries;
use fonio_experiment::VariationResult;

use super::kim_devices::on_devices_at;
use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::Row;
use super::runs::{Named, OfRuns, Runs};

const FAST: &str = "transcend";
const SLOW: &str = "kingston";
const TICKS: f64 = 100.0;
const WHY_ACTIVE: &str = "this processor does more in a tick than the phone's, and waiting costs it little; \
    the recorder's ticks are included";

/// A device, with its run time in seconds, its iowait ticks and its active ticks.
type Device<'a> = (&'a str, f64, Measured, Measured);

/// Returns the rows of Figure 11.
pub(super) fn over_devices(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let at = runs.guest();
    let series = on_devices_at(&at, runs, "wifi")?;
    let mut devices: Vec<Device<'_>> = Vec::new();
    for variation in &series.variations {
        let waits = runs.each_report(Kind::Imitation, variation, iowait_ticks)?;
        let active = active_ticks(runs, variation)?;
        let seconds = variation.wall_s(Kind::Imitation).value().context("a run has no run time")?;
        devices.push((variation.name.as_str(), seconds, waits, active));
    }
    devices.sort_by(|a, b| a.1.total_cmp(&b.1));
    let waits: Vec<Option<f64>> = devices.iter().map(|(_, _, waits, _)| waits.value()).collect();
    let pairs: Vec<Option<bool>> = waits.windows(2).map(|pair| Some(pair[0]? <= pair[1]?)).collect();
    let in_order = pairs.iter().copied().collect::<Option<Vec<bool>>>();
    let share =
        in_order.map(|pairs| pairs.iter().filter(|in_order| **in_order).count() as f64 / pairs.len() as f64);
    let list = |values: &[Option<f64>]| {
        let named = devices.iter().zip(values);
        let named = named.map(|((name, ..), ticks)| format!("{name} {:.0}", ticks.unwrap_or(f64::NAN)));
        named.collect::<Vec<_>>().join(", ")
    };
    let shown = list(&devices.iter().map(|(.., active)| active.value()).collect::<Vec<_>>());
    let by_ticks = |a: &&Device<'_>, b: &&Device<'_>| {
        let of = |device: &Device<'_>| device.3.value().unwrap_or(f64::NAN);
        of(a).total_cmp(&of(b))
    };
    let (least, most) = (devices.iter().min_by(by_ticks), devices.iter().max_by(by_ticks));
    let (least, most) = least.zip(most).context("there are devices")?;
    Ok(vec![
        Row::within(
            "iowait over the devices",
            "correlates with the run time",
            |_| format!("ticks, by run time: {}", list(&waits)),
            (&Kind::Imitation.once(share), 1.0..=1.0),
            "two devices with almost equal run times are swapped, or the waits are not for storage",
        )
        .noted(at.noted()),
        Row::effect(
            "active over the devices",
            "some devices need more for the same work",
            |ratio| format!("{} needs {ratio:.2} times the ticks of {}", most.0, least.0),
            (&most.3.over(&least.3), 1.0..=f64::INFINITY),
            WHY_ACTIVE,
        )
        .noted(format!("ticks without the emulator's: {shown}"))
        .noted(at.noted()),
    ])
}

/// Returns the rows of Figure 12: the totals of the table, and the curves as tenths of the run.
pub(super) fn fast_and_slow(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let at = runs.guest();
    let series = on_devices_at(&at, runs, "wifi")?;
    let (fast, slow) = (series.named(FAST)?, series.named(SLOW)?);
    let mut iowait = |on| runs.each_report(Kind::Imitation, on, iowait_ticks);
    let waits = iowait(slow)?.over(&iowait(fast)?);
    let active = active_ticks(runs, slow)?.over(&active_ticks(runs, fast)?);
    let mut curves = Vec::new();
    for on in [fast, slow] {
        let report = runs.report(&on.first()?.recording)?;
        let memory = report.analysis.machine.memory.as_ref().and_then(|memory| memory.total_bytes);
        let tenths = Tenths::of(&report.analysis.machine.series, memory.map(|total| total.0));
        for (what, shown) in tenths.shown() {
            let why = "the study draws it and gives no numbers; each number is a tenth of the run";
            curves.push(Row::ours_alone(Kind::Imitation, format!("{}, {what}", on.name), shown, why));
        }
    }
    let totals = vec![
        Row::effect(
            "iowait",
            "more on the slow card",
            |ratio| format!("{SLOW} has {ratio:.1} times the ticks of {FAST}"),
            (&waits, 1.0..=f64::INFINITY),
            "the run on the slow card did not wait longer",
        )
        .noted(at.noted()),
        Row::effect(
            "active",
            "more on the slow card",
            |ratio| format!("{SLOW} needs {ratio:.2} times the ticks of {FAST}, without the emulator's"),
            (&active, 1.0..=f64::INFINITY),
            WHY_ACTIVE,
        )
        .noted(at.noted()),
    ];
    Ok(totals.into_iter().chain(curves).collect())
}

/// The number of parts of a run in a curve.
const PARTS: usize = 10;

/// The curves of Figure 12 in tenths of the run. A tenth without a sample is missing.
#[derive(Debug, Default, PartialEq)]
struct Tenths {
    /// Active time of the processors, in percent.
    active: Vec<Option<f64>>,
    /// Time with requests in flight at the busiest disk, in percent.
    busy: Vec<Option<f64>>,
    /// Memory in use, in MiB.
    used_mib: Vec<Option<f64>>,
}

impl Tenths {
    fn of(series: &MachineSeries, memory_bytes: Option<u64>) -> Tenths {
        let bin_ms = series.bin_ns.0 as f64 / 1e6;
        let of_metric = |name: &str| {
            let found = series.metrics.iter().filter(|metric| metric.metric == name);
            found.map(|metric| metric.values.as_slice()).collect::<Vec<_>>()
        };
        let first = |name: &str| of_metric(name).first().copied().unwrap_or_default();
        let (active, idle) = (first("cpu_active_ticks"), first("cpu_idle_ticks"));
        let (waiting, free) = (first("cpu_iowait_ticks"), first("memory_available_bytes"));
        let disks = of_metric("disk_busy_ms");
        let bins = series.metrics.iter().map(|metric| metric.values.len()).max().unwrap_or(0);
        let part = |values: &[Option<f64>], at: usize| {
            let place = |at: usize| (at * bins / PARTS).min(values.len());
            values[place(at)..place(at + 1)].iter().flatten().copied().collect::<Vec<f64>>()
        };
        let sum = |values: &[Option<f64>], at: usize| {
            let part = part(values, at);
            (!part.is_empty()).then(|| part.iter().sum::<f64>())
        };
        let parts = || 0..PARTS;
        Tenths {
            active: parts()
                .map(|at| {
                    let (active, idle) = (sum(active, at)?, sum(idle, at)?);
                    let all = active + idle + sum(waiting, at).unwrap_or(0.0);
                    (all > 0.0).then(|| 100.0 * active / all)
                })
                .collect(),
            busy: parts()
                .map(|at| {
                    let share = |disk: &&[Option<f64>]| {
                        let part = part(disk, at);
                        let all_ms = part.len() as f64 * bin_ms;
                        (all_ms > 0.0).then(|| (100.0 * part.iter().sum::<f64>() / all_ms).min(100.0))
                    };
                    disks.iter().filter_map(share).max_by(f64::total_cmp)
                })
                .collect(),
            used_mib: parts()
                .map(|at| {
                    let part = part(free, at);
                    let mean = (!part.is_empty()).then(|| part.iter().sum::<f64>() / part.len() as f64)?;
                    Some((memory_bytes? as f64 - mean) / f64::from(1 << 20))
                })
                .collect(),
        }
    }

    fn shown(&self) -> [(&'static str, String); 3] {
        let list = |values: &[Option<f64>]| {
            let shown =
                |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"));
            values.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        [
            ("processor over time", format!("{} % active", list(&self.active))),
            ("storage over time", format!("{} % busy", list(&self.busy))),
            ("memory over time", format!("{} MiB in use", list(&self.used_mib))),
        ]
    }
}

fn iowait_ticks(analysis: &Analysis) -> Option<f64> {
    Some(analysis.machine.cpu.as_ref()?.iowait_ticks? as f64)
}

/// Returns the active ticks of each run, without the ticks of the processes that serve the emulated device.
fn active_ticks(runs: &mut Runs, variation: &VariationResult) -> Result<Measured> {
    let mut ticks = Vec::new();
    for run in &variation.runs {
        let report = runs.report(&run.recording)?;
        let active = report.analysis.machine.cpu.as_ref().map(|cpu| cpu.active_ticks as f64);
        ticks.push(active.map(|active| active - run.server_cpu_s * TICKS));
    }
    Ok(Kind::Imitation.runs(ticks))
}

#[cfg(test)]
mod tests {
    use fonio_analysis::machine::MetricSeries;
    use fonio_core::Nanos;

    use super::*;

    #[test]
    fn curves_are_tenths_of_the_run() {
        let metric = |name: &str, of: fn(usize) -> Option<f64>| MetricSeries {
            metric: name.to_owned(),
            subject: None,
            counter: true,
            values: (0..20).map(of).collect(),
        };
        let metrics = vec![
            metric("cpu_active_ticks", |at| Some(if at < 10 { 8.0 } else { 1.0 })),
            metric("cpu_idle_ticks", |at| Some(if at < 10 { 2.0 } else { 4.0 })),
            metric("cpu_iowait_ticks", |at| Some(if at < 10 { 0.0 } else { 5.0 })),
            metric("disk_busy_ms", |at| (at != 19).then_some(if at < 10 { 25.0 } else { 100.0 })),
            metric("memory_available_bytes", |at| (at < 18).then_some(1048576.0)),
        ];
        let series = MachineSeries { start_ns: 0, bin_ns: Nanos(100_000_000), metrics };
        let tenths = Tenths::of(&series, Some(3 << 20));
        assert_eq!(
            tenths.shown().map(|(_, shown)| shown),
            [
                "80 80 80 80 80 10 10 10 10 10 % active",
                "25 25 25 25 25 100 100 100 100 100 % busy",
                "2 2 2 2 2 2 2 2 2 – MiB in use",
            ]
        );
        assert_eq!(Tenths::of(&MachineSeries::default(), None).shown()[0].1, "– – – – – – – – – – % active");
    }
}
