//! When does it happen?

use super::{About, bin_times, by_class, loss_note, maybe};
use crate::document::{Axis, Cell, Chart, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let series = &about.analysis.series;
    // A log without times has all requests at one instant.
    let has_times = about.length_s() > 0.0;
    if series.requests.is_empty() || about.is_sampled() || !has_times {
        return None;
    }
    let per_second = |values: &[u64]| -> Vec<f64> {
        let bin_s = series.bin_ns.as_secs_f64();
        values.iter().map(|value| *value as f64 / bin_s).collect()
    };
    let times = || bin_times(series.start_ns.0 as f64, series.bin_ns, series.requests.len());
    let line = |name: &str, role: Role, y: Vec<f64>| Series {
        name: name.into(),
        role,
        x: times(),
        y,
        ..Series::default()
    };
    let known = |values: &[Option<f64>]| values.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let figure = |id: &str, title: &str, caption: &str, plot: Plot, y: Axis, series: Vec<Series>| Chart {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        plot,
        x: Axis::time(about.length_s()),
        y,
        series,
        ..Chart::default()
    };
    let lead = about.lead();
    let mut figures = vec![
        figure(
            "throughput",
            "Throughput",
            "Bytes of the requests issued in each bin.",
            Plot::StackedArea,
            Axis::linear("Per second", Unit::BytesPerS),
            vec![
                line("reads", Role::Read, per_second(&series.read_bytes)),
                line("writes", Role::Write, per_second(&series.write_bytes)),
            ],
        ),
        figure(
            "rate",
            "Requests",
            "Requests issued in each bin.",
            Plot::Line,
            Axis::linear("Per second", Unit::PerS),
            vec![
                line("reads", Role::Read, per_second(&series.reads)),
                line("writes", Role::Write, per_second(&series.writes)),
                line("flushes", Role::Flush, per_second(&series.flushes)),
            ],
        ),
        figure(
            "mean-latency",
            lead.title(),
            "Mean and maximum of the requests issued in each bin.",
            Plot::Line,
            Axis::log(lead.axis(), Unit::Ns),
            vec![
                line(
                    "reads, mean",
                    Role::Read,
                    known(lead.pick(&series.mean_read_response_ns, &series.mean_read_service_ns)),
                ),
                line(
                    "writes, mean",
                    Role::Write,
                    known(lead.pick(&series.mean_write_response_ns, &series.mean_write_service_ns)),
                ),
                line(
                    "longest",
                    Role::Rest,
                    lead.pick(&series.max_response_ns, &series.max_service_ns)
                        .iter()
                        .map(|value| value.map_or(f64::NAN, |value| value as f64))
                        .collect(),
                ),
            ],
        ),
    ];
    let cloud = by_class(&about.analysis.points.sample, |point| {
        lead.pick(point.response_ns, point.service_ns).map(|ns| ns.0 as f64)
    });
    if !cloud.is_empty() {
        figures.push(figure(
            "latency-points",
            &format!(
                "Requests by their {}",
                lead.pick("response time", "service time (queueing not recorded)")
            ),
            &about.sample_note(),
            Plot::Scatter,
            Axis::log(lead.axis(), Unit::Ns),
            cloud,
        ));
    }
    Some(Section {
        id: "when".into(),
        question: "When does it happen?".into(),
        answer: busiest(about),
        figures,
        tables: vec![table(about)],
        notes: loss_note(&about.analysis.validity).into_iter().collect(),
        hints: vec![
            "Drag across a chart to zoom all charts to that period; double-click to zoom out.".into(),
        ],
    })
}

fn busiest(about: &About<'_>) -> String {
    let slices = &about.analysis.slices;
    let busiest =
        slices.busy_ns.iter().zip(&slices.covered_ns).enumerate().filter(|(_, (_, covered))| **covered > 0);
    let busiest = busiest.max_by(|(_, (a, _)), (_, (b, _))| a.cmp(b).then(std::cmp::Ordering::Greater));
    match busiest {
        Some((at, (busy, covered))) if *busy > 0 => format!(
            "The busiest period of {} begins at {}: the devices were busy for {} of it.",
            Unit::Ns.format(*covered as f64),
            Unit::Ns.format(at as f64 * slices.slice_ns.0 as f64),
            Unit::Ns.format(*busy as f64),
        ),
        _ => format!(
            "{} requests in {}.",
            Unit::Count.format(about.analysis.totals.requests as f64),
            Unit::S.format(about.length_s())
        ),
    }
}

/// Returns a table for the curves, with one row for each time slice.
fn table(about: &About<'_>) -> Table {
    let slices = &about.analysis.slices;
    let lead = about.lead();
    let p99 = |what: &str| format!("{}: 99th percentile of {what}.", lead.title());
    let at = |values: &[u64], at: usize, unit| maybe(values.get(at).copied(), unit);
    let quantile = |values: &[Option<u64>], at: usize| maybe(values.get(at).copied().flatten(), Unit::Ns);
    let table = Table::of("Slices of time", slices.covered_ns.iter().enumerate())
        .column("From", "", |(at, _)| Cell::Number(*at as f64 * slices.slice_ns.0 as f64, Unit::Ns))
        .column("For", "", |(_, covered)| Cell::count(**covered, Unit::Ns))
        .or_drop()
        .column("Requests", "", |(row, _)| at(&slices.requests, *row, Unit::Count))
        .column("Read", "", |(row, _)| at(&slices.read_bytes, *row, Unit::Bytes))
        .column("Written", "", |(row, _)| at(&slices.write_bytes, *row, Unit::Bytes))
        .column("Flushes", "", |(row, _)| at(&slices.flushes, *row, Unit::Count))
        .column("Busy", "Time with a request in flight.", |(row, _)| at(&slices.busy_ns, *row, Unit::Ns))
        .column("Reads 99 %", &p99("reads"), |(row, _)| {
            quantile(&lead.pick(&slices.read.response, &slices.read.service).p99_ns, *row)
        })
        .or_drop()
        .column("Sync writes 99 %", &p99("synchronous writes"), |(row, _)| {
            quantile(&lead.pick(&slices.write_sync.response, &slices.write_sync.service).p99_ns, *row)
        })
        .or_drop()
        .table;
    Table { detail: true, ..table }
}
