//! Which I/O costs the time?

use fonio_analysis::latency::LatencyRow;

use super::{
    About, Quantile, cdf, greatest, group_name, group_role, is_single, loss_note, quantile, sentence_case,
};
use crate::document::{Axis, Cell, Column, Figure, Mark, Plot, Section, Series, Table};
use crate::number::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let latency = &about.analysis.latency;
    if latency.groups.is_empty() {
        return None;
    }
    let mut notes: Vec<String> = loss_note(&about.analysis.validity).into_iter().collect();
    if !latency.readahead_known {
        notes.push("The source does not show which reads are readahead; all count as reads.".to_owned());
    }
    if !latency.sync_known {
        notes.push("The source does not show which writes somebody waits for.".to_owned());
    }
    Some(Section {
        id: "latency".into(),
        question: "Which I/O costs the time?".into(),
        answer: answer(&latency.groups),
        figures: [shares(&latency.groups), curves(&latency.groups)].into_iter().flatten().collect(),
        tables: vec![table(&latency.groups)],
        notes,
        hints: Vec::new(),
    })
}

fn answer(rows: &[LatencyRow]) -> String {
    let costly =
        rows.iter().filter(|row| is_single(row.group)).filter_map(|row| Some((row.latency_share?, row)));
    let Some((share, row)) = costly.max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
        return "No request is known to have completed, so there is no latency to compare.".to_owned();
    };
    let mut answer = format!(
        "{}: {} of the summed latency",
        sentence_case(group_name(row.group)),
        Unit::Share.format(share)
    );
    if let Some(service) = &row.service_ns {
        if let Some(median) = service.p50 {
            answer += &format!("; half of them complete within {}", Unit::Nanos.format(median as f64));
        }
        if let Some(tail) = service.p99 {
            answer += &format!(", one in a hundred takes {} or longer", Unit::Nanos.format(tail as f64));
        }
    }
    answer + "."
}

fn shares(rows: &[LatencyRow]) -> Option<Figure> {
    let rows: Vec<&LatencyRow> = rows
        .iter()
        .filter(|row| is_single(row.group) && row.latency_share.is_some_and(|share| share > 0.0))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let names = rows.iter().map(|row| group_name(row.group).to_owned()).collect();
    let series = rows.iter().enumerate().map(|(at, row)| Series {
        name: group_name(row.group).to_owned(),
        role: group_role(row.group),
        x: row.latency_share.into_iter().collect(),
        y: vec![at as f64],
        ..Series::default()
    });
    Some(Figure {
        id: "latency-shares".into(),
        title: "Share of the summed latency".into(),
        caption: "Each request's time from issue to completion, summed.".into(),
        plot: Plot::StackedBar,
        x: Axis::linear("Share of summed latency", Unit::Share),
        y: Axis::categories("Class", names),
        z: None,
        series: series.collect(),
        marks: Vec::new(),
    })
}

fn curves(rows: &[LatencyRow]) -> Option<Figure> {
    let curves = rows.iter().filter(|row| is_single(row.group));
    let series: Vec<Series> = curves
        .filter_map(|row| cdf(group_name(row.group), group_role(row.group), row.service_ns.as_ref()?))
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(Figure {
        id: "latency-cdf".into(),
        title: "Service time, cumulative".into(),
        caption: "The share of requests that complete within a time; the further right, the slower.".into(),
        plot: Plot::Step,
        x: Axis::log("Issue to completion", Unit::Nanos),
        y: Axis { bounds: Some((0.0, 1.0)), ..Axis::linear("Share of requests", Unit::Share) },
        z: None,
        series,
        marks: vec![Mark::AtY { y: 0.99, label: "99 %".into() }, Mark::AtY { y: 0.5, label: "half".into() }],
    })
}

fn table(rows: &[LatencyRow]) -> Table {
    let line = |row: &LatencyRow| {
        let service = row.service_ns.as_ref();
        let response = row.response_ns.as_ref();
        vec![
            Cell::words(group_name(row.group)),
            Cell::count(row.requests, Unit::Count),
            row.latency_share.map_or(Cell::Unknown, Cell::Bar),
            service.map_or(Cell::Unknown, |service| Cell::Number(service.mean, Unit::Nanos)),
            quantile(service, Quantile::P50, Unit::Nanos),
            quantile(service, Quantile::P95, Unit::Nanos),
            quantile(service, Quantile::P99, Unit::Nanos),
            quantile(service, Quantile::P999, Unit::Nanos),
            greatest(service, Unit::Nanos),
            quantile(response, Quantile::P50, Unit::Nanos),
            quantile(response, Quantile::P99, Unit::Nanos),
        ]
    };
    Table {
        caption: "Latency by class".into(),
        columns: vec![
            Column::new("Requests of"),
            Column::new("Count"),
            Column::noted("Of latency", "Share of all requests' summed service time."),
            Column::noted("Mean", "Service time: issue to completion."),
            Column::noted("Median", "Service time: half of the requests take no longer."),
            Column::noted("95 %", "Service time that 95 % of the requests do not exceed.").or_drop(),
            Column::noted(
                "99 %",
                "Service time that 99 % of the requests do not exceed; needs 100 requests.",
            ),
            Column::noted(
                "99.9 %",
                "Service time that 99.9 % of the requests do not exceed; needs 1000 requests.",
            )
            .or_drop(),
            Column::noted("Longest", "The longest service time."),
            Column::noted("Resp. median", "Response time: queued to completion, waiting included.").or_drop(),
            Column::noted("Resp. 99 %", "Response time that 99 % of the requests do not exceed.").or_drop(),
        ],
        rows: rows.iter().map(line).collect(),
        ..Table::default()
    }
}
