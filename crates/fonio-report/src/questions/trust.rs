//! Section on validity: whether the recording can be trusted.

use fonio_analysis::verdict::validity::Validity;

use super::{About, maybe};
use crate::document::{Cell, Column, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let validity = &about.analysis.validity;
    let answer = if about.is_sampled() {
        "As estimates: the threads were sampled, and no requests were recorded.".to_owned()
    } else if validity.ok && about.is_scheduler_only() {
        let loss = match validity.has_loss() {
            true => format!(
                "Mostly: {} were lost, and waits across a loss are left out",
                validity.lost_in_words()
            ),
            false => "Yes: no events were lost".to_owned(),
        };
        format!("{loss}. The trace has no block events, so there are no requests.")
    } else if validity.ok && about.analysis.slow_calls.is_some() {
        let loss = match validity.has_loss() {
            true => format!("Mostly: {} were lost.", validity.lost_in_words()),
            false => "Yes, for the calls in the text.".to_owned(),
        };
        format!("{loss} Faster calls are missing, and requests are unknown.")
    } else if validity.ok && about.has_only_totals() {
        "As totals: the text has no requests, so nothing is known of a single request.".to_owned()
    } else if validity.ok {
        let seen = format!(
            "{} of {} requests have a service time.",
            Unit::Count.format(validity.with_service as f64),
            Unit::Count.format(validity.requests as f64)
        );
        if validity.has_loss() {
            format!(
                "Mostly. Do not rely on maxima and high percentiles: {} were lost, possibly of the slowest requests. {seen}",
                validity.lost_in_words()
            )
        } else {
            format!("Yes: no events were lost, and {seen}")
        }
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
        ("Ambiguous events", validity.ambiguous, "events that fit more than one request"),
    ];
    let row = |label: &str, count: u64, note: &str| {
        vec![Cell::words(label), Cell::count(count, Unit::Count), Cell::words(note)]
    };
    let mut rows: Vec<Vec<Cell>> =
        counts.iter().map(|(label, count, note)| row(label, *count, note)).collect();
    rows.push(vec![Cell::words("Lost events"), lost_events(validity), Cell::words("while recording")]);
    rows.push(row("Gaps", validity.gaps, "in the recording"));
    let at_the_end = [
        (
            "In flight at the end",
            validity.in_flight_at_end,
            "of those without completion: issued just before the end",
        ),
        ("Never issued", validity.never_issued, "queued, and not issued before the recording ended"),
    ];
    let some = at_the_end.iter().filter(|(_, count, _)| *count > 0);
    rows.extend(some.map(|(label, count, note)| row(label, *count, note)));
    for (name, count) in &validity.assembly {
        rows.push(row(
            &super::sentence_case(&name.replace('_', " ")),
            *count,
            "counted while assembling requests",
        ));
    }
    let mut notes: Vec<String> =
        validity.input.iter().chain(&validity.remarks).chain(&validity.unknown).cloned().collect();
    if validity.ok {
        notes.splice(0..0, validity.problems.iter().cloned());
    }
    Some(Section {
        id: "trust".into(),
        question: "Can this be trusted?".into(),
        answer,
        tables: about
            .shows_requests()
            .then(|| Table {
                caption: "Complete and incomplete requests".into(),
                columns: ["What", "Count", ""].map(Column::new).into(),
                rows,
                ..Table::default()
            })
            .into_iter()
            .chain(places(validity))
            .collect(),
        notes,
        ..Section::default()
    })
}

/// Returns the number of lost events; if only a part of the loss was counted, as a lower bound.
fn lost_events(validity: &Validity) -> Cell {
    match (validity.lost_events, validity.lost_uncounted) {
        (events, 0) => Cell::count(events, Unit::Count),
        (0, _) => Cell::words("unknown"),
        (events, _) => Cell::AtLeast(events as f64, Unit::Count),
    }
}

/// Returns a table of the gaps in which events were lost; `None` if no events were lost.
fn places(validity: &Validity) -> Option<Table> {
    if validity.lost_where.is_empty() {
        return None;
    }
    let table = Table::of("Where events were lost", &validity.lost_where)
        .column("Processor", "", |place| place.cpu.map_or(Cell::Unknown, |cpu| Cell::words(cpu.to_string())))
        .column("From", "End of the last complete period, since the recording began.", |place| place.after_ns)
        .column("Until", "Start of the next complete period.", |place| place.before_ns)
        .column("Events", "Lost events; a dash if unknown.", |place| maybe(place.events, Unit::Count))
        .table;
    let left_out = validity.gaps.saturating_sub(validity.lost_where.len() as u64);
    Some(Table { left_out, ..table })
}
