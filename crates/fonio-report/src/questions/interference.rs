//! Do reads wait for writes?

use fonio_analysis::interference::{ENOUGH, Slowdown, SlowdownSide};

use super::About;
use crate::document::{Cell, Column, Section, Table};
use crate::number::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let interference = &about.analysis.interference;
    let pairs = [("reads", "writes", &interference.read), ("writes", "reads", &interference.write)];
    if pairs.iter().all(|(_, _, slowdown)| slowdown.with.requests == 0 || slowdown.without.requests == 0) {
        return None;
    }
    let mut rows = Vec::new();
    for (own, other, slowdown) in pairs {
        rows.push(row(format!("{own}, no {other} in flight"), &slowdown.without, None));
        rows.push(row(format!("{own}, {other} in flight"), &slowdown.with, Some(slowdown)));
    }
    Some(Section {
        id: "interference".into(),
        question: "Do reads wait for writes?".into(),
        answer: answer(&interference.read, "Reads", "a write"),
        figures: Vec::new(),
        tables: vec![Table {
            caption: "Mean times with and without the other in flight".into(),
            columns: vec![
                Column::new("Requests"),
                Column::new("Count"),
                Column::noted("Response", "Mean, queued to completion."),
                Column::noted("Service", "Mean, issue to completion."),
                Column::noted("Size", "Mean. Where sizes differ much between the rows, so may the times."),
                Column::noted("Slowdown, response", "Mean response with the other in flight, over without."),
                Column::noted("Slowdown, service", "Mean service with the other in flight, over without."),
            ],
            rows,
            ..Table::default()
        }],
        hints: Vec::new(),
        notes: vec![
            "Seen in the wild: requests that met the other kind may differ in other ways too. A measured slowdown keeps \
             everything else equal."
                .into(),
        ],
    })
}

fn answer(slowdown: &Slowdown, own: &str, other: &str) -> String {
    let times = slowdown.response_slowdown.map(|times| (times, "response"));
    match times.or(slowdown.service_slowdown.map(|times| (times, "service"))) {
        Some(_) if !slowdown.enough => format!(
            "Too few {} to say: fewer than {ENOUGH} on one side of the comparison.",
            own.to_lowercase()
        ),
        Some((times, what)) => format!(
            "{own} that met {other} in flight had {} the mean {what} time of those that did not.",
            Unit::Times.format(times)
        ),
        None => format!("The recording has no {} on one side of the comparison.", own.to_lowercase()),
    }
}

fn row(name: String, side: &SlowdownSide, slowdown: Option<&Slowdown>) -> Vec<Cell> {
    vec![
        Cell::Text(name),
        Cell::count(side.requests, Unit::Count),
        Cell::known(side.mean_response_ns, Unit::Nanos),
        Cell::known(side.mean_service_ns, Unit::Nanos),
        Cell::known(side.mean_bytes, Unit::Bytes),
        Cell::known(slowdown.and_then(|slowdown| slowdown.response_slowdown), Unit::Times),
        Cell::known(slowdown.and_then(|slowdown| slowdown.service_slowdown), Unit::Times),
    ]
}
