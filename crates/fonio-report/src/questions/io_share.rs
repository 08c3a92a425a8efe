//! Section on the share of time in which storage is busy.

use fonio_analysis::device::io_share::{Level, Share};
use fonio_analysis::waits::queueing::DeviceDepth;

use super::{About, bin_times, maybe};
use crate::document::{Axis, Cell, Chart, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let share = about.analysis.io_share.all.as_ref()?;
    let length = about.analysis.span.duration_ns;
    let busy = format!(
        "Storage was busy for {} of {length}; on average {} requests were in flight.",
        Unit::Share.format(share.busy_union_share),
        Unit::Number.format(share.latency_sum_share),
    );
    let answer = match &about.analysis.outstanding.waited {
        Some(waited) => format!(
            "For {} of the time ({} of {length}), {}. {busy}",
            Unit::Share.format(waited.share),
            waited.ns,
            if about.analysis.blocked.is_some() {
                "a read, a synchronous write or a flush was outstanding"
            } else {
                "programs may have been waiting for storage"
            },
        ),
        None => busy,
    };
    Some(Section {
        id: "io-share".into(),
        question: "How much of the time is storage?".into(),
        answer,
        // If the waits of threads were recorded, the report shows them before this chart.
        figures: depth_over_time(about).into_iter().filter(|_| about.analysis.blocked.is_none()).collect(),
        tables: vec![table(about, share)],
        hints: Vec::new(),
        notes: vec![format!(
            "The block-trace study sums all service times, including overlapping requests and write-back: here {} of \
                 the time, which is {} (light is below 9 % in the study; heavy from 15 % is our own bound). The verdict \
                 does not use this sum.",
            Unit::Share.format(share.latency_sum_share),
            level_words(share.level)
        )],
    })
}

fn level_words(level: Level) -> &'static str {
    match level {
        Level::Light => "light",
        Level::Moderate => "moderate",
        Level::Heavy => "heavy",
    }
}

fn table(about: &About<'_>, all: &Share) -> Table {
    let analysis = about.analysis;
    let depths = &analysis.queueing.devices;
    let mut rows: Vec<(Cell, &Share, Option<&DeviceDepth>)> = Vec::new();
    for device in &analysis.io_share.devices {
        let depth = depths.iter().find(|depth| depth.device == device.device);
        rows.push((Cell::Name(about.device(device.device)), &device.share, depth));
    }
    if rows.len() != 1 {
        rows.push((Cell::words("all together"), all, None));
    }
    Table::of("Devices", rows)
        .column("Device", "", |(name, ..)| name.clone())
        .column("Busy", "Time with at least one request in flight, over the time recorded.", |(_, share, _)| {
            Cell::Bar(share.busy_union_share)
        })
        .column("Busy time", "Time with at least one request in flight.", |(_, share, _)| {
            share.busy_union_ns
        })
        .column(
            "Depth when busy",
            "Mean number of requests in flight while the device is busy.",
            |(_, _, depth)| Cell::known(depth.and_then(|depth| depth.mean_depth_when_busy), Unit::Number),
        )
        .column("Deepest", "Most requests in flight at once.", |(_, _, depth)| {
            maybe(depth.map(|depth| depth.max_depth), Unit::Count)
        })
        .or_drop()
        .column(
            "One every",
            "Busy time over requests: the time per completed request while the device is busy.",
            |(_, _, depth)| Cell::known(depth.and_then(|depth| depth.busy_per_request_ns), Unit::Ns),
        )
        .column(
            "Summed service",
            "Summed service time over the time recorded, the block-trace study's I/O share; exceeds 100 % where \
             requests overlap.",
            |(_, share, _)| Cell::Number(share.latency_sum_share, Unit::Share),
        )
        .or_drop()
        .table
}

/// Draws the number of requests in the queues of the devices over time.
pub fn depth_over_time(about: &About<'_>) -> Option<Chart> {
    let series = &about.analysis.series;
    if series.mean_depth.is_empty() {
        return None;
    }
    Some(Chart {
        id: "depth".into(),
        title: "Requests in flight".into(),
        caption: "Mean over each bin, all devices together.".into(),
        plot: Plot::StackedArea,
        x: Axis::time(about.length_s()),
        y: Axis::linear("Requests", Unit::Count),
        series: vec![Series {
            name: "in flight".into(),
            role: Role::All,
            x: bin_times(series.start_ns.0 as f64, series.bin_ns, series.mean_depth.len()),
            y: series.mean_depth.clone(),
            ..Series::default()
        }],
        ..Chart::default()
    })
}
