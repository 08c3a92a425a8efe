//! Which requests were the slowest?

use fonio_analysis::{Class, Group};

use super::{About, group_name, maybe};
use crate::document::{Cell, Column, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let slowest = &about.analysis.points.slowest;
    // Long write-back and discards may have no effect on programs.
    let felt = slowest.iter().find(|point| !matches!(point.class, Class::WriteAsync | Class::Discard));
    let first = felt.or(slowest.first())?;
    let (took, what) = match (first.response_ns, first.service_ns) {
        (Some(response), _) => (response, "from queueing to completion"),
        (None, Some(service)) => (service, "from issue to completion (queueing was not recorded)"),
        (None, None) => return None,
    };
    let lossy = about.analysis.validity.has_loss();
    let rows = slowest.iter().map(|point| {
        vec![
            Cell::Number(point.at_ns as f64, Unit::Ns),
            Cell::words(group_name(Group::from(point.class))),
            about.process(point.process),
            Cell::Name(about.device(point.device)),
            maybe(point.sector, Unit::Count),
            Cell::count(point.bytes, Unit::Bytes),
            maybe(point.response_ns, Unit::Ns),
            maybe(point.service_ns, Unit::Ns),
            Cell::count(point.request_id, Unit::Count),
        ]
    });
    let all = if felt.is_some() { "The slowest read, synchronous write or flush" } else { "The slowest" };
    Some(Section {
        id: "slowest".into(),
        question: "Which requests were the slowest?".into(),
        answer: format!(
            "{}{} was {} at {}, which took {} {what}.",
            if lossy { "Events were lost. Of the recorded requests: " } else { "" },
            all,
            first.class.one(),
            Unit::Ns.format(first.at_ns as f64),
            Unit::Ns.format(took as f64)
        ),
        tables: vec![Table {
            caption: "Slowest requests".into(),
            columns: vec![
                Column::noted("At", "Since the beginning."),
                Column::new("What"),
                Column::new("Process"),
                Column::new("Device").or_drop(),
                Column::noted("Sector", "First sector, in units of 512 bytes.").or_drop(),
                Column::new("Size"),
                Column::noted("Response", "Queued to completion."),
                Column::noted("Service", "Issue to completion."),
                Column::noted("Request", "The request's number in the recording.").or_drop(),
            ],
            rows: rows.collect(),
            ..Table::default()
        }],
        ..Section::default()
    })
}
