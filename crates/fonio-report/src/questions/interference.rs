//! Do reads wait for writes?

use fonio_analysis::device::interference::{EqualDepth, Slowdown, SlowdownSide};

use super::About;
use crate::document::{Cell, Column, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let interference = &about.analysis.interference;
    let pairs = [("reads", "writes", &interference.read), ("writes", "reads", &interference.write)];
    if pairs.iter().all(|(_, _, slowdown)| slowdown.with.requests == 0 || slowdown.without.requests == 0) {
        return None;
    }
    let mut met = Vec::new();
    for (own, other, slowdown) in pairs {
        met.push(side(format!("{own}, no {other} outstanding"), &slowdown.without));
        met.push(side(format!("{own}, {other} outstanding"), &slowdown.with));
    }
    let compared: Vec<Vec<Cell>> = pairs
        .into_iter()
        .filter_map(|(own, _, slowdown)| Some(equal(own, slowdown.equal_depth.as_ref()?)))
        .collect();
    let mut tables = Vec::new();
    if !compared.is_empty() {
        tables.push(Table {
            caption: "At equal depth".into(),
            columns: vec![
                Column::new("Requests"),
                Column::noted(
                    "Met the other",
                    "Requests with the other kind outstanding that could be matched.",
                ),
                Column::noted(
                    "Met their own",
                    "Requests with only their own kind outstanding that could be matched.",
                ),
                Column::noted("With", "Weighted mean time to completion with the other kind outstanding."),
                Column::noted(
                    "Without",
                    "Weighted mean time to completion with only the own kind outstanding.",
                ),
                Column::noted("Slowdown", "Ratio of the means, with its 99 % interval."),
            ],
            rows: compared,
            ..Table::default()
        });
    }
    tables.push(Table {
        caption: "What requests found outstanding".into(),
        columns: vec![
            Column::new("Requests"),
            Column::new("Count"),
            Column::noted("Found", "Mean number of other requests outstanding when the request was queued."),
            Column::noted("Response", "Mean, queued to completion."),
            Column::noted("Service", "Mean, issue to completion.").or_drop(),
            Column::noted("Size", "Mean.").or_drop(),
        ],
        rows: met,
        ..Table::default()
    });
    Some(Section {
        id: "interference".into(),
        question: "Do reads wait for writes?".into(),
        answer: answer(&interference.read),
        tables,
        notes: vec![
            "Requests that meet the other kind also meet more requests, so plain means differ even without interference. \
             The slowdown compares requests of similar size that found equally many requests outstanding. It is an \
             observation: only an experiment keeps everything else equal."
                .into(),
        ],
        ..Section::default()
    })
}

fn answer(reads: &Slowdown) -> String {
    let Some(equal) = &reads.equal_depth else {
        return "Unknown: too few reads can be compared at equal depth, with and without writes outstanding."
            .to_owned();
    };
    let times = |value: f64| Unit::Ratio.format(value);
    let interval =
        format!("{} (99 % interval {} to {})", times(equal.slowdown), times(equal.low), times(equal.high));
    if equal.low > 1.0 {
        format!("Yes: at equal depth, reads took {interval} as long with writes outstanding as without.")
    } else if equal.high < 1.0 {
        format!("No: at equal depth, reads took {interval} as long with writes outstanding as without.")
    } else {
        format!(
            "Not shown: at equal depth, reads took {interval} as long with writes outstanding as without."
        )
    }
}

fn equal(name: &str, equal: &EqualDepth) -> Vec<Cell> {
    vec![
        Cell::words(name),
        Cell::count(equal.with_requests, Unit::Count),
        Cell::count(equal.without_requests, Unit::Count),
        Cell::Number(equal.with_mean_ns, Unit::Ns),
        Cell::Number(equal.without_mean_ns, Unit::Ns),
        Cell::Range {
            low: equal.low,
            point: Some(equal.slowdown),
            high: equal.high,
            unit: Unit::Ratio,
            change: false,
        },
    ]
}

fn side(name: String, side: &SlowdownSide) -> Vec<Cell> {
    vec![
        Cell::Text(name),
        Cell::count(side.requests, Unit::Count),
        Cell::known(side.mean_depth, Unit::Number),
        Cell::known(side.mean_response_ns, Unit::Ns),
        Cell::known(side.mean_service_ns, Unit::Ns),
        Cell::known(side.mean_bytes, Unit::Bytes),
    ]
}
