//! Section on sizes: how large requests are, and whether large requests take longer.

use fonio_analysis::Group;
use fonio_analysis::requests::sizes::SizeRow;

use super::{About, Quantile, cdf, greatest, group_name, group_role, is_single, quantile};
use crate::document::{Axis, Cell, Chart, Plot, Section, Series, Table};
use fonio_core::{ByteCount, Unit};

pub fn section(about: &About<'_>) -> Option<Section> {
    let sizes = &about.analysis.sizes.groups;
    if sizes.is_empty() {
        return None;
    }
    Some(Section {
        id: "sizes".into(),
        question: "How large are the requests, and how does size affect latency?".into(),
        answer: answer(sizes),
        figures: [size_curves(sizes), latency_by_size(about)].into_iter().flatten().collect(),
        tables: vec![size_table(sizes), latency_table(about)]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        ..Section::default()
    })
}

fn answer(rows: &[SizeRow]) -> String {
    let small: Vec<String> = [Group::Reads, Group::Writes]
        .iter()
        .filter_map(|group| rows.iter().find(|row| row.group == *group))
        .map(|row| {
            format!(
                "{} of {} are of 4 KiB or less",
                Unit::Share.format(row.up_to_4k_share),
                group_name(row.group)
            )
        })
        .collect();
    if small.is_empty() { String::new() } else { format!("{}.", super::listed(&small)) }
}

fn size_curves(rows: &[SizeRow]) -> Option<Chart> {
    let series: Vec<Series> = rows
        .iter()
        .filter(|row| is_single(row.group))
        .filter_map(|row| cdf(group_name(row.group), group_role(row.group), &row.bytes))
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(Chart {
        id: "size-cdf".into(),
        title: "Size, cumulative".into(),
        caption: "Share of requests that are not larger than each size.".into(),
        plot: Plot::Step,
        x: Axis::log("Size", Unit::Bytes),
        y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of requests", Unit::Share) },
        series,
        ..Chart::default()
    })
}

fn class_name(over: ByteCount, up_to: Option<ByteCount>) -> String {
    match up_to {
        Some(up_to) if over == ByteCount(0) => format!("≤ {up_to}"),
        Some(up_to) => format!("{over} – {up_to}"),
        None => format!("> {over}"),
    }
}

fn latency_by_size(about: &About<'_>) -> Option<Chart> {
    let rows = &about.analysis.size_latency.rows;
    let mut classes: Vec<(ByteCount, Option<ByteCount>)> =
        rows.iter().map(|row| (row.over_bytes, row.up_to_bytes)).collect();
    classes.sort_unstable_by_key(|(over, _)| *over);
    classes.dedup();
    let mut series: Vec<Series> = Vec::new();
    // Synchronous and asynchronous writes if the source distinguishes them; otherwise all writes.
    let apart = rows.iter().any(|row| matches!(row.group, Group::WriteSync | Group::WriteAsync));
    for row in rows.iter().filter(|row| row.group != if apart { Group::Writes } else { Group::WriteSync }) {
        let name = group_name(row.group);
        let place = classes.iter().position(|class| *class == (row.over_bytes, row.up_to_bytes));
        let (Some(place), Some(median)) = (place, row.service_ns.p50) else { continue };
        let at = series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            series.push(Series { name: name.into(), role: group_role(row.group), ..Series::default() });
            series.len() - 1
        });
        series[at].x.push(place as f64);
        series[at].y.push(median as f64);
    }
    if series.is_empty() || classes.len() < 2 {
        return None;
    }
    Some(Chart {
        id: "latency-by-size".into(),
        title: "Median service time by size".into(),
        caption: "The median latency of requests of each size.".into(),
        plot: Plot::GroupedBar,
        x: Axis::categories("Size", classes.iter().map(|(over, up_to)| class_name(*over, *up_to)).collect()),
        y: Axis::linear("Issue to completion", Unit::Ns),
        series,
        ..Chart::default()
    })
}

fn size_table(rows: &[SizeRow]) -> Table {
    let at = |row: &SizeRow, which: Quantile| quantile(Some(&row.bytes), which, Unit::Bytes);
    Table::of("Sizes", rows)
        .column("Requests of", "", |row| Cell::words(group_name(row.group)))
        .column("Count", "", |row| Cell::count(row.bytes.count, Unit::Count))
        .column("Mean", "", |row| Cell::Number(row.bytes.mean, Unit::Bytes))
        .column("Median", "", |row| at(row, Quantile::P50))
        .column("90 %", "", |row| at(row, Quantile::P90))
        .or_drop()
        .column("Largest", "", |row| greatest(Some(&row.bytes), Unit::Bytes))
        .column("≤ 4 KiB", "Share of the requests.", |row| Cell::Bar(row.up_to_4k_share))
        .column("< 16 KiB", "Share of the requests.", |row| Cell::Number(row.below_16k_share, Unit::Share))
        .or_drop()
        .column("< 64 KiB", "Share of the requests.", |row| Cell::Number(row.below_64k_share, Unit::Share))
        .or_drop()
        .table
}

fn latency_table(about: &About<'_>) -> Table {
    let table = Table::of("Service time by size", &about.analysis.size_latency.rows)
        .column("Requests of", "", |row| Cell::words(group_name(row.group)))
        .column("Size", "", |row| Cell::Text(class_name(row.over_bytes, row.up_to_bytes)))
        .column("Count", "", |row| Cell::count(row.service_ns.count, Unit::Count))
        .column("Mean", "", |row| Cell::Number(row.service_ns.mean, Unit::Ns))
        .column("Median", "", |row| quantile(Some(&row.service_ns), Quantile::P50, Unit::Ns))
        .column("99 %", "", |row| quantile(Some(&row.service_ns), Quantile::P99, Unit::Ns))
        .column("Longest", "", |row| greatest(Some(&row.service_ns), Unit::Ns))
        .table;
    Table { detail: true, ..table }
}
