//! How much of the time is storage?

use std::collections::BTreeMap;

use fonio_analysis::device::io_share::{Level, Share};

use super::{About, bin_times};
use crate::document::{Axis, Cell, Chart, Column, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let share = about.analysis.io_share.all.as_ref()?;
    let length = Unit::Ns.format(about.analysis.span.duration_ns as f64);
    let busy = format!(
        "Storage was busy for {} of {length}; on average {} requests were in flight.",
        Unit::Share.format(share.busy_union_share),
        Unit::Number.format(share.latency_sum_share),
    );
    let answer = match &about.analysis.outstanding.waited {
        Some(waited) => format!(
            "For {} of the time ({} of {length}), {}. {busy}",
            Unit::Share.format(waited.share),
            Unit::Ns.format(waited.ns as f64),
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
        // With the waits of threads, they stand above the queue.
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
    let row = |name: Cell, share: &Share, depth: Option<&fonio_analysis::waits::queueing::DeviceDepth>| {
        vec![
            name,
            Cell::Bar(share.busy_union_share),
            Cell::count(share.busy_union_ns, Unit::Ns),
            Cell::known(depth.and_then(|depth| depth.mean_depth_when_busy), Unit::Number),
            depth.map_or(Cell::Unknown, |depth| Cell::count(depth.max_depth, Unit::Count)),
            Cell::known(depth.and_then(|depth| depth.busy_per_request_ns), Unit::Ns),
            Cell::Number(share.latency_sum_share, Unit::Share),
        ]
    };
    let mut rows = Vec::new();
    let depths: BTreeMap<_, _> =
        analysis.queueing.devices.iter().map(|depth| (depth.device, depth)).collect();
    for device in &analysis.io_share.devices {
        let depth = depths.get(&device.device).copied();
        rows.push(row(Cell::Name(about.device(device.device)), &device.share, depth));
    }
    if rows.len() != 1 {
        rows.push(row(Cell::words("all together"), all, None));
    }
    Table {
        caption: "Devices".into(),
        columns: vec![
            Column::new("Device"),
            Column::noted("Busy", "Time with at least one request in flight, over the time recorded."),
            Column::noted("Busy time", "Time with at least one request in flight."),
            Column::noted("Depth when busy", "Mean number of requests in flight while the device is busy."),
            Column::noted("Deepest", "Most requests in flight at once.").or_drop(),
            Column::noted("One every", "Busy time over requests: the time per completed request while the device is busy."),
            Column::noted(
                "Summed service",
                "Summed service time over the time recorded, the block-trace study's I/O share; exceeds 100 % where \
                 requests overlap.",
            )
            .or_drop(),
        ],
        rows,
        ..Table::default()
    }
}

/// The queue of the devices over time.
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
            x: bin_times(series.start_ns as f64, series.bin_ns, series.mean_depth.len()),
            y: series.mean_depth.clone(),
            ..Series::default()
        }],
        ..Chart::default()
    })
}
