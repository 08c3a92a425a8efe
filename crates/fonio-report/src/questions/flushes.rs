//! Section on flushes: how often the device must make data durable.

use fonio_analysis::Distribution;
use fonio_analysis::device::flushes::FlushGaps;

use super::{About, Quantile, cdf, greatest, quantile};
use crate::document::{Axis, Cell, Chart, Column, Plot, Role, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let flushes = &about.analysis.flushes;
    if about.analysis.totals.writes == 0 && flushes.flushes == 0 {
        return None;
    }
    let answer = if flushes.flushes == 0 {
        "No flush was seen.".to_owned()
    } else {
        let mut answer = format!("{} flushes", Unit::Count.format(flushes.flushes as f64));
        if let Some(rate) = flushes.flushes_per_s {
            answer += &format!(", {}", Unit::PerS.format(rate));
        }
        if let (Some(writes), Some(bytes)) = (flushes.writes_per_flush, flushes.write_bytes_per_flush) {
            answer += &format!(
                ": one per {} write requests and {} written",
                Unit::Number.format(writes),
                Unit::Bytes.format(bytes)
            );
        }
        answer + "."
    };
    let devices = flushes.devices.iter().map(|device| (device, device.gaps.as_ref()));
    let mut tables = vec![
        Table::of("Flushes", devices)
            .column("Device", "", |(device, _)| Cell::Name(about.device(device.device)))
            .column("Flushes", "", |(device, _)| Cell::count(device.flushes, Unit::Count))
            .column("Write requests", "", |(device, _)| Cell::count(device.writes, Unit::Count))
            .column("Median gap", "Median time between two flushes.", |(_, gaps)| {
                quantile(gaps.map(|gaps| &gaps.time_ns), Quantile::P50, Unit::Ns)
            })
            .column(
                "Requests in it",
                "Median number of reads and writes between two flushes.",
                |(_, gaps)| quantile(gaps.map(|gaps| &gaps.requests), Quantile::P50, Unit::Count),
            )
            .column("Bytes in it", "Median bytes read and written between two flushes.", |(_, gaps)| {
                quantile(gaps.map(|gaps| &gaps.bytes), Quantile::P50, Unit::Bytes)
            })
            .table,
    ];
    let mut figures = Vec::new();
    if let Some(gaps) = &flushes.gaps {
        tables.push(gap_table(gaps));
        figures.extend(gap_curve("flush-gap-time", "Time between flushes", Unit::Ns, &gaps.time_ns));
        figures.extend(gap_curve("flush-gap-bytes", "Bytes between flushes", Unit::Bytes, &gaps.bytes));
    }
    let counted = if flushes.fua_counted { "counted as flushes too" } else { "not counted as flushes" };
    Some(Section {
        id: "flushes".into(),
        question: "How often is the device flushed?".into(),
        answer,
        figures,
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        hints: Vec::new(),
        notes: vec![format!(
            "{} flush requests and {} writes with preflush; {} writes with FUA were {counted}.",
            Unit::Count.format(flushes.flush_requests as f64),
            Unit::Count.format(flushes.preflush_writes as f64),
            Unit::Count.format(flushes.fua_writes as f64),
        )],
    })
}

fn gap_curve(id: &str, title: &str, unit: Unit, gaps: &Distribution) -> Option<Chart> {
    Some(Chart {
        id: id.into(),
        title: format!("{title}, cumulative"),
        plot: Plot::Step,
        x: Axis::log("Gap", unit),
        y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of gaps", Unit::Share) },
        series: vec![cdf("gaps", Role::Flush, gaps)?],
        ..Chart::default()
    })
}

fn gap_table(gaps: &FlushGaps) -> Table {
    let row = |name: &str, unit: Unit, gap: &Distribution| {
        vec![
            Cell::words(name),
            Cell::Number(gap.mean, unit),
            quantile(Some(gap), Quantile::P50, unit),
            quantile(Some(gap), Quantile::P90, unit),
            quantile(Some(gap), Quantile::P99, unit),
            greatest(Some(gap), unit),
        ]
    };
    Table {
        caption: "Between two flushes of a device".into(),
        columns: ["", "Mean", "Median", "90 %", "99 %", "Most"].map(Column::new).into(),
        rows: vec![
            row("time", Unit::Ns, &gaps.time_ns),
            row("requests", Unit::Count, &gaps.requests),
            row("bytes", Unit::Bytes, &gaps.bytes),
        ],
        ..Table::default()
    }
}
