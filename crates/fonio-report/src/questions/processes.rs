//! Who does it?

use fonio_analysis::processes::Process;

use super::{About, maybe};
use crate::document::{Axis, Cell, Column, Figure, Plot, Role, Section, Series, Table};
use crate::number::Unit;

/// Names in the picture; the table has them all.
const DRAWN: usize = 10;
/// Names in the table.
const LISTED: usize = 100;

pub fn section(about: &About<'_>) -> Option<Section> {
    let processes = &about.analysis.processes.processes;
    let first = processes.first()?;
    let answer = match first.latency_share {
        Some(share) => format!(
            "{} is behind {} of the summed latency, with {} requests.",
            first.name,
            Unit::Share.format(share),
            Unit::Count.format(first.requests as f64)
        ),
        None => {
            format!("{} makes the most requests: {}.", first.name, Unit::Count.format(first.requests as f64))
        }
    };
    Some(Section {
        id: "processes".into(),
        question: "Who does it?".into(),
        answer,
        figures: bars(processes).into_iter().collect(),
        tables: vec![table(about)],
        hints: Vec::new(),
        notes: vec![
            "A request counts for the thread that dirtied the data where that is known, else for the one that queued it. \
             Kernel workers count as one."
                .into(),
        ],
    })
}

fn bars(processes: &[Process]) -> Option<Figure> {
    let drawn: Vec<&Process> = processes
        .iter()
        .take(DRAWN)
        .filter(|process| process.service_sum_ns.is_some_and(|sum| sum > 0))
        .collect();
    // One bar beside nothing says less than the sentence above it.
    if drawn.len() < 2 {
        return None;
    }
    Some(Figure {
        id: "process-latency".into(),
        title: "Summed service time by process".into(),
        caption: String::new(),
        plot: Plot::StackedBar,
        x: Axis::linear("Summed service time", Unit::Nanos),
        y: Axis::categories("Process", drawn.iter().map(|process| process.name.clone()).collect()),
        z: None,
        series: vec![Series {
            name: "summed service time".into(),
            role: Role::All,
            x: drawn.iter().filter_map(|process| Some(process.service_sum_ns? as f64)).collect(),
            y: (0..drawn.len()).map(|at| at as f64).collect(),
            ..Series::default()
        }],
        marks: Vec::new(),
    })
}

fn table(about: &About<'_>) -> Table {
    let processes = &about.analysis.processes;
    let rows = processes.processes.iter().take(LISTED).map(|process| {
        vec![
            Cell::Name(process.name.clone()),
            process.latency_share.map_or(Cell::Unknown, Cell::Bar),
            maybe(process.service_sum_ns, Unit::Nanos),
            match process.service_max_at_least_ns {
                Some(seen) => Cell::AtLeast(seen as f64, Unit::Nanos),
                None => maybe(process.service_max_ns, Unit::Nanos),
            },
            Cell::count(process.requests, Unit::Count),
            Cell::count(process.reads, Unit::Count),
            Cell::count(process.writes, Unit::Count),
            Cell::count(process.sync_writes, Unit::Count),
            Cell::count(process.flushes, Unit::Count),
            Cell::count(process.read_bytes, Unit::Bytes),
            Cell::count(process.write_bytes, Unit::Bytes),
        ]
    });
    Table {
        caption: "Processes".into(),
        columns: vec![
            Column::new("Process"),
            Column::noted("Of latency", "Share of all requests' summed service time."),
            Column::noted("Latency", "Summed time from issue to completion."),
            Column::noted("Longest", "Longest time from issue to completion.").or_drop(),
            Column::new("Requests"),
            Column::new("Reads").or_drop(),
            Column::new("Writes").or_drop(),
            Column::noted("Sync writes", "Writes that somebody waits for.").or_drop(),
            Column::new("Flushes").or_drop(),
            Column::new("Read"),
            Column::new("Written"),
        ],
        rows: rows.collect(),
        left_out: processes.processes.len().saturating_sub(LISTED) as u64 + processes.names_beyond_cap,
        detail: false,
    }
}
