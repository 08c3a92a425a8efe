//! Section on queueing: whether requests wait before they reach the device.

use super::{About, Quantile, cdf, greatest, group_name, group_role, is_single, quantile};
use crate::document::{Axis, Cell, Chart, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let queueing = &about.analysis.queueing;
    if queueing.groups.is_empty() && queueing.devices.is_empty() {
        return None;
    }
    let mut answer = match queueing.queue_share_of_response {
        Some(share) => format!(
            "Requests spent {} of their response time in the queue, before they were issued.",
            Unit::Share.format(share)
        ),
        None => "The source does not show when requests were queued.".to_owned(),
    };
    if let Some(requeues) = queueing.requeues.as_ref().filter(|requeues| requeues.requests > 0) {
        answer += &format!(" The driver requeued {} requests.", Unit::Count.format(requeues.requests as f64));
    }
    let curves: Vec<Series> = queueing
        .groups
        .iter()
        .filter(|row| is_single(row.group))
        .filter_map(|row| cdf(group_name(row.group), group_role(row.group), &row.queue_ns))
        .collect();
    let mut figures = Vec::new();
    if !curves.is_empty() {
        figures.push(Chart {
            id: "queue-cdf".into(),
            title: "Queue time, cumulative".into(),
            caption: "Share of requests that are issued within each time after they were queued.".into(),
            plot: Plot::Step,
            x: Axis::log("Queued to issue", Unit::Ns),
            y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of requests", Unit::Share) },
            series: curves,
            ..Chart::default()
        });
    }
    figures.extend(depths(about));
    let waits = Table::of("Queue time", &queueing.groups)
        .column("Requests of", "", |row| Cell::words(group_name(row.group)))
        .column("Count", "", |row| Cell::count(row.queue_ns.count, Unit::Count))
        .column("Mean", "", |row| Cell::Number(row.queue_ns.mean, Unit::Ns))
        .column("Median", "", |row| quantile(Some(&row.queue_ns), Quantile::P50, Unit::Ns))
        .column("95 %", "", |row| quantile(Some(&row.queue_ns), Quantile::P95, Unit::Ns))
        .or_drop()
        .column("99 %", "", |row| quantile(Some(&row.queue_ns), Quantile::P99, Unit::Ns))
        .column("Longest", "", |row| greatest(Some(&row.queue_ns), Unit::Ns))
        .table;
    let depth = Table::of("Requests in flight", &queueing.devices)
        .column("Device", "", |device| Cell::Name(about.device(device.device)))
        .column("Busy", "Busy time over the time recorded.", |device| {
            device.busy_share.map_or(Cell::Unknown, Cell::Bar)
        })
        .column("Mean", "Mean number of requests in flight, over the time recorded.", |device| {
            Cell::known(device.mean_depth, Unit::Number)
        })
        .column("Mean when busy", "Mean number of requests in flight while the device is busy.", |device| {
            Cell::known(device.mean_depth_when_busy, Unit::Number)
        })
        .column(
            "Found at issue",
            "Mean number of requests already in flight when a request was issued.",
            |device| Cell::known(device.mean_depth_at_issue, Unit::Number),
        )
        .column("Most", "", |device| Cell::count(device.max_depth, Unit::Count))
        .table;
    Some(Section {
        id: "queueing".into(),
        question: "Do requests wait before the device sees them?".into(),
        answer,
        figures,
        tables: [waits, depth].into_iter().filter(|table| !table.rows.is_empty()).collect(),
        notes: notes(about),
        hints: Vec::new(),
    })
}

fn notes(about: &About<'_>) -> Vec<String> {
    let loops: Vec<String> = (about.analysis.devices.iter())
        .filter(|device| device.device.starts_with("7:"))
        .map(|device| device.name.clone().unwrap_or_else(|| device.device.clone()))
        .collect();
    if loops.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "The service time of {} includes the queue of the loop driver and of the device below, so it is longer than the \
         device takes for one request.",
        super::listed(&loops)
    )]
}

/// Draws the time at each queue depth, with one series for each device.
fn depths(about: &About<'_>) -> Option<Chart> {
    let devices = &about.analysis.queueing.devices;
    // Omit depth 0, which is idle time and would dwarf all other values.
    let deepest = devices.iter().map(|device| device.time_at_depth_ns.len()).max()?;
    if deepest < 2 {
        return None;
    }
    let names =
        (1..deepest).map(|depth| if depth == 64 { "64+".to_owned() } else { depth.to_string() }).collect();
    let series = devices.iter().enumerate().take(8).map(|(at, device)| {
        let times = device.time_at_depth_ns.get(1..).unwrap_or_default();
        Series {
            name: about.device(device.device),
            role: if devices.len() == 1 { Role::All } else { Role::Category(at) },
            x: (0..times.len()).map(|at| at as f64).collect(),
            y: times.iter().map(|ns| *ns as f64).collect(),
            ..Series::default()
        }
    });
    Some(Chart {
        id: "time-at-depth".into(),
        title: "Time at each depth".into(),
        caption: "Time with exactly this number of requests in flight.".into(),
        plot: Plot::GroupedBar,
        x: Axis::categories("Requests in flight", names),
        y: Axis::linear("Time", Unit::Ns),
        series: series.collect(),
        ..Chart::default()
    })
}
