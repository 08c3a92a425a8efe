//! How large are the requests, and do large ones take longer?

use fonio_analysis::Group;
use fonio_analysis::requests::sizes::SizeRow;

use super::{About, Quantile, cdf, greatest, group_name, group_role, is_single, quantile};
use crate::document::{Axis, Cell, Chart, Column, Plot, Section, Series, Table};
use fonio_core::Unit;

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
        caption: "Share of requests up to a size.".into(),
        plot: Plot::Step,
        x: Axis::log("Size", Unit::Bytes),
        y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of requests", Unit::Share) },
        series,
        ..Chart::default()
    })
}

/// Size classes in readable form.
fn class_name(over: u64, up_to: Option<u64>) -> String {
    let write = |bytes: u64| Unit::Bytes.format(bytes as f64);
    match up_to {
        Some(up_to) if over == 0 => format!("≤ {}", write(up_to)),
        Some(up_to) => format!("{} – {}", write(over), write(up_to)),
        None => format!("> {}", write(over)),
    }
}

fn latency_by_size(about: &About<'_>) -> Option<Chart> {
    let rows = &about.analysis.size_latency.rows;
    let mut classes: Vec<(u64, Option<u64>)> =
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
    Table {
        caption: "Sizes".into(),
        columns: vec![
            Column::new("Requests of"),
            Column::new("Count"),
            Column::new("Mean"),
            Column::new("Median"),
            Column::new("90 %").or_drop(),
            Column::new("Largest"),
            Column::noted("≤ 4 KiB", "Share of the requests."),
            Column::noted("< 16 KiB", "Share of the requests.").or_drop(),
            Column::noted("< 64 KiB", "Share of the requests.").or_drop(),
        ],
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    Cell::words(group_name(row.group)),
                    Cell::count(row.bytes.count, Unit::Count),
                    Cell::Number(row.bytes.mean, Unit::Bytes),
                    quantile(Some(&row.bytes), Quantile::P50, Unit::Bytes),
                    quantile(Some(&row.bytes), Quantile::P90, Unit::Bytes),
                    greatest(Some(&row.bytes), Unit::Bytes),
                    Cell::Bar(row.up_to_4k_share),
                    Cell::Number(row.below_16k_share, Unit::Share),
                    Cell::Number(row.below_64k_share, Unit::Share),
                ]
            })
            .collect(),
        ..Table::default()
    }
}

fn latency_table(about: &About<'_>) -> Table {
    Table {
        caption: "Service time by size".into(),
        columns: ["Requests of", "Size", "Count", "Mean", "Median", "99 %", "Longest"]
            .map(Column::new)
            .into(),
        rows: about
            .analysis
            .size_latency
            .rows
            .iter()
            .map(|row| {
                let service = &row.service_ns;
                vec![
                    Cell::words(group_name(row.group)),
                    Cell::Text(class_name(row.over_bytes, row.up_to_bytes)),
                    Cell::count(service.count, Unit::Count),
                    Cell::Number(service.mean, Unit::Ns),
                    quantile(Some(service), Quantile::P50, Unit::Ns),
                    quantile(Some(service), Quantile::P99, Unit::Ns),
                    greatest(Some(service), Unit::Ns),
                ]
            })
            .collect(),
        detail: true,
        ..Table::default()
    }
}
