//! Section on blocked threads: which threads waited, for what, and for which other threads.

use fonio_analysis::Analysis;
use fonio_analysis::waits::blocked::doing;
use fonio_analysis::waits::blocked::{Behind, Blocked, BlockedProgram, Role as Kind, Through};

use super::About;
use crate::document::{Axis, Cell, Chart, Fact, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

/// Maximum number of programs in the timeline, and in the table.
const DRAWN: usize = 12;
const LISTED: usize = 100;
/// Maximum number of files in the table.
const FILES: usize = 40;
/// Minimum share for naming a process for which other processes waited.
const SHARE_LEAST: f64 = 0.05;

/// The operations in which threads are blocked, with their names in tables.
const OPERATIONS: [(&str, &str); 15] = [
    ("fsync", "fsync"),
    ("read", "read"),
    ("page_fault", "page fault"),
    ("metadata", "names"),
    ("journal", "journal"),
    ("write", "write"),
    ("dirty_limit", "dirty limit"),
    ("swap_in", "swap in"),
    ("other_thread", "another thread"),
    ("async_io", "asynchronous I/O"),
    ("async_read", "asynchronous reads"),
    ("async_write", "asynchronous writes"),
    ("other", "other call"),
    ("kernel_thread", "kernel thread"),
    ("unknown", "unknown"),
];

pub fn section(about: &About<'_>) -> Option<Section> {
    let blocked = about.analysis.blocked.as_ref()?;
    Some(Section {
        id: "blocked".into(),
        question: "Who waited, for what, behind whom?".into(),
        answer: answer(about, blocked),
        figures: timeline(about, blocked)
            .into_iter()
            .chain(super::io_share::depth_over_time(about))
            .collect(),
        tables: [programs(blocked), longest(blocked), files(blocked)]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        hints: Vec::new(),
        notes: notes(about, blocked),
    })
}

/// Returns the most important numbers about blocked threads.
pub fn facts(analysis: &Analysis) -> Vec<Fact> {
    let Some(blocked) = &analysis.blocked else { return Vec::new() };
    let worst = blocked.programs.iter().find(|program| program.role == Kind::OfInterest);
    // The same share as in the verdict.
    let working = worst.filter(|program| program.is_problem).and_then(|program| program.working.as_ref());
    let share = match working {
        Some(working) => working.storage_share,
        None => worst.map_or(0.0, |program| program.worst.share),
    };
    let of_time = if working.is_some() { "of the working time" } else { "of the time" };
    let note = worst.map(|program| format!("{of_time}, {}", program.full_name())).unwrap_or_default();
    let mut facts = vec![Fact::new("Blocked", Cell::Number(share, Unit::Share)).note(note)];
    if let Some(longest) = blocked.long.longest.first() {
        facts.push(
            Fact::new("Long waits", Cell::count(blocked.long.count, Unit::Count))
                .note(format!("of {} or longer; the longest {}", blocked.long.threshold_ns, longest.time_ns)),
        );
    }
    facts
}

fn answer(about: &About<'_>, blocked: &Blocked) -> String {
    let Some(first) = blocked.programs.iter().find(|program| program.role != Kind::Kernel) else {
        return "No program was blocked on storage.".to_owned();
    };
    let time = first.worst.ns;
    let whole = Unit::S.format(about.length_s());
    let operation = first.operations.first().map(|row| row.blocked_in.as_str()).unwrap_or_default();
    let file = first.file.as_ref().filter(|file| file.share >= 0.5).map(|file| file.path.as_str());
    let behind = (first.behind.iter().find(|row| !row.is_own && row.share >= 0.1))
        .map(|row| {
            let share = Unit::Share.format(row.share);
            format!(" During its longest waits, {share} of the outstanding I/O came from {}.", whose(row))
        })
        .unwrap_or_default();
    // The verdict adds up the time of all threads.
    let which = if first.threads > 1 { " (its longest blocked thread)" } else { "" };
    format!(
        "{} was blocked for {time} of {whole}{which}, mostly {}.{behind}",
        first.full_name(),
        doing(operation, file, first.through.as_ref())
    )
}

/// Names a program and the file of its requests: `cp (backup.service) for /export.bin`.
fn whose(row: &Behind) -> String {
    match &row.file {
        Some(file) => format!("{} for {file}", row.full_name()),
        None => row.full_name(),
    }
}

fn operation(name: &str) -> &str {
    OPERATIONS.iter().find(|(known, _)| *known == name).map_or(name, |(_, words)| words)
}

/// Returns a cell with the largest shares of other programs and the program's own share.
fn behind(rows: &[Behind]) -> Cell {
    let share = |row: &Behind| Unit::Share.format(row.share);
    let words: Vec<String> = rows
        .iter()
        .filter(|row| row.share >= SHARE_LEAST)
        .take(3)
        .map(|row| {
            if row.is_own {
                format!("{} its own", share(row))
            } else {
                format!("{} {}", share(row), whose(row))
            }
        })
        .collect();
    if words.is_empty() { Cell::Unknown } else { Cell::Name(words.join(", ")) }
}

/// Names the file for which a thread waited, or the other thread with its operation and file.
fn file(path: Option<&String>, through: Option<&Through>) -> Cell {
    let through = through.map(|through| {
        let of = through.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
        format!("{}: {}{of}", through.full_name(), operation(&through.blocked_in))
    });
    through.or_else(|| path.cloned()).map_or(Cell::Unknown, Cell::Name)
}

fn role(program: &BlockedProgram) -> &'static str {
    match program.role {
        Kind::OfInterest => "program",
        Kind::Other => "another program",
        Kind::Background => "background workload",
        Kind::BulkWork => "bulk work",
        Kind::Server => "server",
        Kind::Kernel => "kernel",
    }
}

fn programs(blocked: &Blocked) -> Table {
    let most = |program: &BlockedProgram| {
        program.operations.first().map(|row| operation(&row.blocked_in).to_owned()).unwrap_or_default()
    };
    let table = Table::of("Programs that waited", blocked.programs.iter().take(LISTED))
        .column("Program", "The threads' name, with the systemd unit or container.", |program| {
            Cell::Name(program.full_name())
        })
        .whose()
        .column(
            "Kind",
            "Only programs (of the recorded command, if there is one) count for the verdict.",
            |program| Cell::words(role(program)),
        )
        .column(
            "Blocked",
            "Share of the time for which one of its threads, or threads one after the other, waited.",
            |program| Cell::Bar(program.worst.share),
        )
        .column("Time", "The time for which that thread was blocked.", |program| program.worst.ns)
        .column("Waits", "Waits of all threads of the program, including short waits.", |program| {
            Cell::count(program.waits, Unit::Count)
        })
        .column("Longest", "The longest wait; a dash if all waits were short.", |program| program.longest_ns)
        .column(
            "Mostly in",
            "The operation with the longest time (names: open, stat, rename, unlink and similar calls).",
            |program| Cell::words(most(program)),
        )
        .column(
            "For",
            "The file for which the program waited longest; or the other thread and its operation.",
            |program| file(program.file.as_ref().map(|file| &file.path), program.through.as_ref()),
        )
        .or_drop()
        .whose()
        .column(
            "Behind",
            "Owners of requests outstanding during the longest waits: shares of the summed request time.",
            |program| behind(&program.behind),
        )
        .or_drop()
        .table;
    let left_out = blocked.programs.len().saturating_sub(LISTED) as u64 + blocked.programs_beyond_cap;
    Table { left_out, ..table }
}

fn longest(blocked: &Blocked) -> Table {
    let table = Table::of("The longest waits", &blocked.long.longest)
        .column("At", "Since the beginning.", |wait| wait.at_ns)
        .column("Program", "", |wait| Cell::Name(wait.program.clone()))
        .whose()
        .column("Took", "", |wait| wait.time_ns)
        .column("In", "", |wait| Cell::words(operation(&wait.blocked_in)))
        .column(
            "For",
            "The file for which the thread waited; or the other thread and its operation.",
            |wait| file(wait.file.as_ref(), wait.through.as_ref()),
        )
        .whose()
        .column("Behind", "Owners of the outstanding requests: shares of the summed request time.", |wait| {
            behind(&wait.behind)
        })
        .table;
    let left_out = blocked.long.count.saturating_sub(blocked.long.longest.len() as u64);
    Table { left_out, ..table }
}

fn files(blocked: &Blocked) -> Table {
    let known: Vec<_> = blocked.files.iter().filter(|file| file.path.is_some()).collect();
    let table = Table::of("Files that were waited for", known.iter().take(FILES))
        .column("File", "", |file| Cell::Name(file.path.clone().unwrap_or_default()))
        .whose()
        .column("Time", "Time blocked, summed over all threads; only waits for a known file.", |file| {
            file.time_ns
        })
        .column("Waits", "", |file| Cell::count(file.waits, Unit::Count))
        .column("Longest", "", |file| file.longest_ns)
        .column("Mostly", "The program that waited longest for it.", |file| Cell::Name(file.program.clone()))
        .whose()
        .table;
    Table { left_out: known.len().saturating_sub(FILES) as u64, ..table }
}

fn timeline(about: &About<'_>, blocked: &Blocked) -> Option<Chart> {
    let of_programs = blocked.programs.iter().filter(|program| program.role != Kind::Kernel);
    let names: Vec<String> = of_programs.take(DRAWN).map(BlockedProgram::full_name).collect();
    let drawn = blocked.intervals.iter().filter(|row| (row.program as usize) < names.len());
    let mut series: Vec<Series> = Vec::new();
    for (name, words) in OPERATIONS {
        let rows: Vec<_> = drawn.clone().filter(|row| row.blocked_in == name).collect();
        if rows.is_empty() {
            continue;
        }
        series.push(Series {
            name: words.to_owned(),
            role: Role::Category(series.len() % 8),
            x: rows.iter().map(|row| row.time_ns.as_secs_f64()).collect(),
            y: rows.iter().map(|row| f64::from(row.program)).collect(),
            low: rows.iter().map(|row| row.at_ns.as_secs_f64()).collect(),
            high: rows.iter().map(|row| (row.at_ns + row.time_ns).as_secs_f64()).collect(),
            ..Series::default()
        });
    }
    if series.is_empty() {
        return None;
    }
    let sums = if drawn.clone().any(|row| row.is_sum) {
        " For a program with more than 16 waits of a thread, the time is cut into at most 256 parts: a bar is as long as the \
         program was blocked in its part."
    } else {
        ""
    };
    Some(Chart {
        id: "blocked-timeline".into(),
        title: "When programs were blocked".into(),
        caption: format!("Each bar is a wait of one thread for storage, coloured by the operation.{sums}"),
        plot: Plot::Timeline,
        x: Axis::time(about.length_s()),
        y: Axis::categories("Program", names),
        series,
        ..Chart::default()
    })
}

fn notes(about: &About<'_>, blocked: &Blocked) -> Vec<String> {
    let others = if blocked.is_sampled {
        "The threads were sampled from /proc: times are estimates, a wait seen in one sample counts for the time between two \
         samples, and waits for other threads are missing."
    } else if about.analysis.uninterruptible.is_some() {
        "The waits come from the scheduler's events in the trace. A wait is for storage if a request completed just before its end, if \
         the kernel counted it as I/O, if it was in a sync call, or if the trace names a function of the kernel that waits for \
         storage. A wait for a thread counts if both were in state D. Waits in other states, such as for asynchronous I/O, are \
         missing."
    } else if blocked.is_partial {
        "The recording was made without BPF: waits for another thread of a program (a lock that it held, or its reply) and \
         for asynchronous I/O are missing."
    } else {
        "Of a wait for another thread of a program (a lock that it held, or its reply), only the time for which that thread was blocked counts."
    };
    let mut notes = vec![format!(
        "Threads that slept uninterruptibly, on every device. A wait counts for the operation in which the thread was \
         blocked, also if it waited for the kernel's work, such as a commit of the journal. {others}"
    )];
    if blocked.intervals_beyond_cap > 0 {
        notes.push(format!(
            "The timeline leaves out {} waits, because it has a limited number of bars.",
            Unit::Count.format(blocked.intervals_beyond_cap as f64)
        ));
    }
    if blocked.file_waits_beyond_cap > 0 {
        notes.push(format!(
            "The table of files leaves out {} waits, because there are too many files.",
            Unit::Count.format(blocked.file_waits_beyond_cap as f64)
        ));
    }
    if blocked.threads_beyond_cap > 0 {
        notes.push(format!(
            "At least {} waits are missing, because fonio follows at most 65,536 threads.",
            Unit::Count.format(blocked.threads_beyond_cap as f64)
        ));
    }
    notes
}
