//! Section on the slowest requests.

use fonio_analysis::{Class, Group};

use super::{About, group_name, maybe};
use crate::document::{Cell, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let slowest = &about.analysis.points.slowest;
    // Asynchronous writes and discards may take long without delaying programs.
    let felt = slowest.iter().find(|point| !matches!(point.class, Class::WriteAsync | Class::Discard));
    let first = felt.or(slowest.first())?;
    let (took, what) = match (first.response_ns, first.service_ns) {
        (Some(response), _) => (response, "from queueing to completion"),
        (None, Some(service)) => (service, "from issue to completion (queueing was not recorded)"),
        (None, None) => return None,
    };
    let lossy = about.analysis.validity.has_loss();
    let table = Table::of("Slowest requests", slowest)
        .column("At", "Since the beginning.", |point| point.at_ns)
        .column("What", "", |point| Cell::words(group_name(Group::from(point.class))))
        .column("Process", "", |point| about.process(point.process))
        .column("Device", "", |point| Cell::Name(about.device(point.device)))
        .or_drop()
        .column("Sector", "First sector, in units of 512 bytes.", |point| {
            maybe(point.sector.map(|sector| sector.0), Unit::Count)
        })
        .or_drop()
        .column("Size", "", |point| point.bytes)
        .column("Response", "Queued to completion.", |point| point.response_ns)
        .column("Service", "Issue to completion.", |point| point.service_ns)
        .column("Request", "The request's number in the recording.", |point| {
            Cell::count(point.request_id, Unit::Count)
        })
        .or_drop()
        .table;
    let all = if felt.is_some() { "The slowest read, synchronous write or flush" } else { "The slowest" };
    Some(Section {
        id: "slowest".into(),
        question: "Which requests were the slowest?".into(),
        answer: format!(
            "{}{} was {} at {}, which took {} {what}.",
            if lossy { "Events were lost. Of the recorded requests: " } else { "" },
            all,
            first.class.one(),
            first.at_ns,
            took
        ),
        tables: vec![table],
        ..Section::default()
    })
}
