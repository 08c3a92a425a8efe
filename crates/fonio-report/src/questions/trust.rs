//! Can this be trusted?

use super::About;
use crate::document::{Cell, Column, Section, Table};
use crate::number::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let validity = &about.analysis.validity;
    let answer = if validity.ok {
        let lost =
            if validity.lost_events == 0 { "no event is known to be lost" } else { "few events were lost" };
        format!(
            "Yes: {lost}, and {} of {} requests have a service time.",
            Unit::Count.format(validity.with_service as f64),
            Unit::Count.format(validity.requests as f64)
        )
    } else {
        format!("No. {}", validity.problems.join(" "))
    };
    let counts = [
        ("Requests", validity.requests, "analysed"),
        ("With service time", validity.with_service, "issue and completion seen"),
        ("With response time", validity.with_response, "queueing and completion seen"),
        ("Without issue", validity.without_issue, "the issue was not seen"),
        ("Without completion", validity.without_completion, "the completion was not seen"),
        ("Times out of order", validity.out_of_order_times, "completed before they were issued or queued"),
        ("Rows out of order", validity.out_of_order_rows, "arrived after a later one"),
        ("Errors", validity.errors, "ended with an error"),
        ("Ambiguous events", validity.ambiguous, "more than one request could have been meant"),
        ("Lost events", validity.lost_events, "while recording"),
        ("Gaps", validity.gaps, "in the recording"),
    ];
    let row = |label: &str, count: u64, note: &str| {
        vec![Cell::words(label), Cell::count(count, Unit::Count), Cell::words(note)]
    };
    let mut rows: Vec<Vec<Cell>> =
        counts.iter().map(|(label, count, note)| row(label, *count, note)).collect();
    for (name, count) in &validity.assembly {
        rows.push(row(
            &super::sentence_case(&name.replace('_', " ")),
            *count,
            "counted while assembling requests",
        ));
    }
    let mut notes: Vec<String> = validity.input.iter().chain(&validity.unknown).cloned().collect();
    if validity.ok {
        notes.splice(0..0, validity.problems.iter().cloned());
    }
    Some(Section {
        id: "trust".into(),
        question: "Can this be trusted?".into(),
        answer,
        figures: Vec::new(),
        tables: vec![Table {
            caption: "What was seen and what was not".into(),
            columns: ["What", "Count", ""].map(Column::new).into(),
            rows,
            ..Table::default()
        }],
        notes,
        hints: Vec::new(),
    })
}
