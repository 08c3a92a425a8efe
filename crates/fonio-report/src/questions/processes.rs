//! Section on processes: which processes cause the I/O.

use fonio_analysis::causes::process::Process;
use fonio_analysis::waits::outstanding::OutstandingProcess;

use super::{About, maybe};
use crate::document::{Axis, Cell, Chart, Plot, Role, Section, Series, Table};
use fonio_core::{Nanos, Unit};

/// Maximum number of processes in the chart; the table has more processes.
const DRAWN: usize = 10;
/// Maximum number of processes in the table.
const LISTED: usize = 100;

/// A process, and its time with outstanding requests for which programs may wait; `None` if it had no such
/// requests.
type Line<'a> = (&'a Process, Option<&'a OutstandingProcess>);

/// Returns the processes with outstanding requests, longest time first, and then the processes that caused
/// only write-back.
fn lines<'a>(about: &About<'a>) -> Vec<Line<'a>> {
    let analysis = about.analysis;
    let processes = &analysis.processes.processes;
    let delays = &analysis.outstanding.processes;
    let listed =
        delays.iter().filter_map(|delay| Some((processes.get(delay.process as usize)?, Some(delay))));
    let rest = processes
        .iter()
        .enumerate()
        .filter(|(at, _)| !delays.iter().any(|delay| delay.process as usize == *at));
    listed.chain(rest.map(|(_, process)| (process, None))).collect()
}

pub fn section(about: &About<'_>) -> Option<Section> {
    let lines = lines(about);
    let (first, delay) = lines.first()?;
    let share = delay.and_then(|delay| Some((delay, delay.of_waited_share?)));
    let answer = match share {
        Some((delay, share)) => format!(
            "{} had requests outstanding for {}: {} of the time in which programs may have been waiting for storage.",
            first.full_name(),
            delay.time.ns,
            Unit::Share.format(share),
        ),
        None => {
            format!(
                "{} issued the most requests: {}.",
                first.full_name(),
                Unit::Count.format(first.requests as f64)
            )
        }
    };
    Some(Section {
        id: "processes".into(),
        question: "Which process does it?".into(),
        answer,
        figures: bars(&lines).into_iter().collect(),
        tables: vec![table(about, &lines)],
        hints: Vec::new(),
        notes: vec![
            "A request counts for the thread that dirtied its data or, if this thread is unknown, for the thread that \
             queued the request. Kernel workers count as one. Write-back and discards do not count as outstanding here: no program waits for \
             them."
                .into(),
        ],
    })
}

fn bars(lines: &[Line<'_>]) -> Option<Chart> {
    let drawn: Vec<(&Process, Nanos)> =
        lines.iter().filter_map(|(process, delay)| Some((*process, (*delay)?.time.ns))).take(DRAWN).collect();
    // A chart with a single bar would add nothing to the sentence.
    if drawn.len() < 2 {
        return None;
    }
    Some(Chart {
        id: "process-outstanding".into(),
        title: "Time outstanding by process".into(),
        caption: "Time with at least one read, synchronous write or flush of the process outstanding.".into(),
        plot: Plot::StackedBar,
        x: Axis::linear("Time outstanding", Unit::Ns),
        y: Axis::categories("Process", drawn.iter().map(|(process, _)| process.full_name()).collect()),
        series: vec![Series {
            name: "time outstanding".into(),
            role: Role::All,
            x: drawn.iter().map(|(_, ns)| ns.0 as f64).collect(),
            y: (0..drawn.len()).map(|at| at as f64).collect(),
            ..Series::default()
        }],
        ..Chart::default()
    })
}

fn table(about: &About<'_>, lines: &[Line<'_>]) -> Table {
    let processes = &about.analysis.processes;
    let (lead, lossy) = (about.lead(), about.analysis.validity.has_loss());
    let seen = |value: Option<u64>, unit: Unit| match value {
        Some(seen) if lossy => Cell::AtLeast(seen as f64, unit),
        value => maybe(value, unit),
    };
    let longest = lead
        .pick("Longest response: queued to completion.", "Issue to completion; queueing was not recorded.");
    let table = Table::of("Processes", lines.iter().take(LISTED))
        .column("Process", "", |(process, _)| Cell::Name(process.full_name()))
        .column(
            "Of the wait",
            "The outstanding time of this process, divided by the sum over all processes.",
            |(_, delay)| delay.and_then(|delay| delay.of_waited_share).map_or(Cell::Unknown, Cell::Bar),
        )
        .column(
            "Outstanding",
            "Time with at least one read, synchronous write or flush of the process outstanding.",
            |(_, delay)| delay.map(|delay| delay.time.ns),
        )
        .column(lead.pick("Longest", "Longest service"), longest, |(_, delay)| {
            seen(delay.map(|delay| delay.longest_ns.0), Unit::Ns)
        })
        .column("Long", "Responses of 100 ms and longer.", |(_, delay)| {
            seen(delay.map(|delay| delay.long), Unit::Count)
        })
        .or_drop()
        .column("Requests", "", |(process, _)| Cell::count(process.requests, Unit::Count))
        .column("Reads", "", |(process, _)| Cell::count(process.reads, Unit::Count))
        .or_drop()
        .column("Writes", "", |(process, _)| Cell::count(process.writes, Unit::Count))
        .or_drop()
        .column("Sync writes", "Synchronous writes (fsync, O_SYNC).", |(process, _)| {
            Cell::count(process.sync_writes, Unit::Count)
        })
        .or_drop()
        .column("Read", "", |(process, _)| process.read_bytes)
        .column("Written", "", |(process, _)| process.write_bytes)
        .table;
    let left_out = processes.processes.len().saturating_sub(LISTED) as u64 + processes.names_beyond_cap;
    Table { left_out, ..table }
}
