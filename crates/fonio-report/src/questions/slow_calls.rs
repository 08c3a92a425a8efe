//! Section on slow calls of a file system, from a trace that has only such calls.

use fonio_analysis::waits::slow_calls::{CallTimes, FileCalls, LongCall, ProgramCalls, SlowCalls};

use super::About;
use crate::document::{Cell, Fact, Filled, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let answer = about.analysis.slow_calls.as_ref()?;
    let words = match answer.programs.first() {
        Some(first) => format!("{} spent the most time in them: {}.", first.program, first.times.in_words()),
        None => "The text has no call.".to_owned(),
    };
    Some(Section {
        id: "slow-calls".into(),
        question: "Which programs made slow calls, on which files?".into(),
        answer: words,
        tables: [files(answer), programs(answer), longest(answer)]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        notes: notes(answer),
        ..Section::default()
    })
}

/// Returns the calls in place of the requests.
pub fn facts(answer: &SlowCalls) -> Vec<Fact> {
    let all = &answer.all;
    vec![
        Fact::new("Slow calls", Cell::count(all.calls, Unit::Count)).note(answer.which.clone()),
        Fact::new("Time in them", Cell::from(all.time_ns)).note("the sum; calls of several threads overlap"),
        Fact::new("Longest", Cell::from(all.longest_ns)),
    ]
}

fn name(text: Option<&String>) -> Cell {
    text.cloned().map_or(Cell::Unknown, Cell::Name)
}

fn with_times<T>(table: Filled<T>, times: fn(&T) -> CallTimes) -> Filled<T> {
    table
        .column("Calls", "", move |row| Cell::count(times(row).calls, Unit::Count))
        .column("Time", "The total time of the calls. Calls of several threads overlap.", move |row| {
            times(row).time_ns
        })
        .column("Longest", "", move |row| times(row).longest_ns)
}

fn files(answer: &SlowCalls) -> Table {
    let table = Table::of("Slow calls by program and file", &answer.files)
        .column("Program", "", |row: &&FileCalls| Cell::Name(row.program.clone()))
        .whose()
        .column("File", "As the text names it.", |row| name(row.file.as_ref()))
        .column("Operation", "", |row| Cell::Name(row.operation.clone()));
    let table =
        with_times(table, |row| row.times).column("Bytes", "", |row| Cell::from(row.bytes)).or_drop().table;
    Table { left_out: answer.files_beyond_cap, ..table }
}

fn programs(answer: &SlowCalls) -> Table {
    let table = Table::of("Slow calls by program", &answer.programs)
        .column("Program", "", |row: &&ProgramCalls| Cell::Name(row.program.clone()))
        .whose();
    let table = with_times(table, |row| row.times)
        .column("Mostly on", "The file with most of the time.", |row| name(row.file.as_ref()))
        .or_drop()
        .table;
    Table { left_out: answer.programs_beyond_cap, ..table }
}

fn longest(answer: &SlowCalls) -> Table {
    Table::of("The longest calls", &answer.longest)
        .column("Program", "", |row: &&LongCall| Cell::Name(row.program.clone()))
        .whose()
        .column("Id", "The process, or for fileslower the thread.", |row| Cell::words(row.tid.to_string()))
        .column("At", "The beginning, since the first call began.", |row| row.at_ns)
        .column("Operation", "", |row| Cell::Name(row.operation.clone()))
        .column("File", "", |row| name(row.file.as_ref()))
        .column("Bytes", "", |row| Cell::from(row.bytes))
        .or_drop()
        .column("Took", "", |row| row.took_ns)
        .table
}

fn notes(answer: &SlowCalls) -> Vec<String> {
    vec![
        format!(
            "The text has only {}. Faster calls are missing, so there are no means and no percentiles.",
            answer.which
        ),
        "A call is timed in the file system: reading from the device, locks, waits for the journal and waits for a processor \
         are all in its time. The text does not tell them apart."
            .to_owned(),
        "Files have their last name only, cut after 31 characters: files with the same name in several folders count as one."
            .to_owned(),
    ]
}
