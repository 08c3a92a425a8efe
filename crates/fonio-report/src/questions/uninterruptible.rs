//! Section on threads in uninterruptible sleep, from a trace of the scheduler.

use fonio_analysis::waits::uninterruptible::{
    AppLaunch, DrawingThread, LateFrame, SleepTime, SleepingThread, Uninterruptible,
};

use super::About;
use crate::document::{Cell, Fact, Filled, Section, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let answer = about.analysis.uninterruptible.as_ref()?;
    let words = match answer.threads.iter().find(|thread| !thread.is_kernel) {
        Some(thread) => format!(
            "{} was blocked longest of all programs' threads: {}.",
            thread.full_name(),
            thread.time.in_words()
        ),
        None => "No thread of a program was blocked in state D.".to_owned(),
    };
    Some(Section {
        id: "uninterruptible".into(),
        question: "Who was blocked in the kernel?".into(),
        answer: words,
        tables: [
            launches(answer),
            paths(answer),
            programs(answer),
            late_frames(answer),
            threads(answer),
            functions(answer),
            syncs(answer),
        ]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect(),
        notes: notes(answer),
        ..Section::default()
    })
}

/// Returns the three times of a trace without block events, in place of the number of requests.
pub fn facts(answer: &Uninterruptible) -> Vec<Fact> {
    let all = &answer.all;
    [
        ("I/O waits", all.io_ns, "in state D, counted as I/O by the kernel; all threads"),
        ("Other waits", all.not_io_ns, "in state D, not counted as I/O"),
        ("Unknown waits", all.unknown_ns, "in state D, not known whether I/O"),
    ]
    .map(|(label, time, note)| Fact::new(label, Cell::from(time)).note(note))
    .into()
}

/// Adds the columns of the three times. `time` returns nothing if the trace does not show the thread.
fn with_times<T>(table: Filled<T>, time: fn(&T) -> Option<SleepTime>) -> Filled<T> {
    table
        .column("I/O", "Time in state D that the kernel counted as I/O.", |row| {
            time(row).map(|time| time.io_ns)
        })
        .column("Not I/O", "Time in state D that the kernel did not count as I/O.", |row| {
            time(row).map(|time| time.not_io_ns)
        })
        .column("Unknown", "Time in state D of which the trace does not show the kind.", |row| {
            time(row).map(|time| time.unknown_ns)
        })
}

fn name(text: Option<&String>) -> Cell {
    text.cloned().map_or(Cell::Unknown, Cell::Name)
}

/// The rows of the app's threads that draw in each span.
fn drawing<T>(spans: &[T], threads: fn(&T) -> &[DrawingThread]) -> Vec<(&T, Option<&DrawingThread>)> {
    let rows = spans.iter().map(|span| {
        let mut rows: Vec<_> = threads(span).iter().map(|thread| (span, Some(thread))).collect();
        if rows.is_empty() {
            rows.push((span, None));
        }
        rows
    });
    rows.flatten().collect()
}

fn role(thread: Option<&DrawingThread>) -> Cell {
    thread.map_or(Cell::Unknown, |thread| Cell::words(format!("{} {}", thread.role(), thread.tid)))
}

fn launches(answer: &Uninterruptible) -> Table {
    let rows = drawing(&answer.launches, |launch: &AppLaunch| &launch.threads);
    let table = Table::of("Launches of apps", rows)
        .column("Package", "", |(launch, _)| Cell::Name(launch.package.clone()))
        .whose()
        .column(
            "Kind",
            "Cold: a new process; warm: a new activity; hot: brought to the front.",
            |(launch, _)| match launch.kind.word().trim() {
                "" => Cell::Unknown,
                word => Cell::words(word),
            },
        )
        .column("At", "Since the beginning.", |(launch, _)| launch.at_ns)
        .column("Took", "By the marks of Android's system server.", |(launch, _)| launch.duration_ns)
        .column("Thread", "The app's threads that draw.", |(_, thread)| role(*thread));
    let table = with_times(table, |(_, thread)| thread.map(|thread| thread.time));
    table
        .column("Mostly in", "The function of the kernel with the longest time.", |(_, thread)| {
            name(thread.and_then(|thread| thread.function.as_ref()))
        })
        .or_drop()
        .table
}

/// The critical path of each launch.
fn paths(answer: &Uninterruptible) -> Table {
    let rows = answer.launches.iter().filter_map(|launch| Some((launch, launch.path.as_ref()?)));
    Table::of("Critical paths of launches", rows)
        .column("Package", "", |(launch, _)| Cell::Name(launch.package.clone()))
        .whose()
        .column("Took", "", |(launch, _)| launch.duration_ns)
        .column("Running", "", |(_, found)| found.path.running_ns)
        .column("Storage", "Blocked on storage, also of threads for which the app waited.", |(_, found)| {
            found.path.storage_ns
        })
        .column("No processor", "Ready to run while other threads used the processors.", |(_, found)| {
            found.path.cpu_ns
        })
        .column("Others", "Waits for threads and locks that could not be followed.", |(_, found)| {
            found.path.thread_ns + found.path.lock_ns
        })
        .column(
            "Unknown",
            "Waits for an unknown reason, such as an interrupt of another device.",
            |(_, found)| {
                let path = &found.path;
                path.unknown_ns + path.timer_ns + path.network_ns
            },
        )
        .column("Waits", "Number of waits for storage on the path.", |(_, found)| {
            Cell::count(found.storage_waits, Unit::Count)
        })
        .column("Requests", "Number of these waits whose ending request is known.", |(_, found)| {
            Cell::count(found.storage_waits_with_request, Unit::Count)
        })
        .table
}

/// The programs on the critical path of each launch.
fn programs(answer: &Uninterruptible) -> Table {
    let rows = answer.launches.iter().filter_map(|launch| Some((launch, launch.path.as_ref()?)));
    let rows = rows.flat_map(|(launch, found)| found.programs.iter().map(move |program| (launch, program)));
    Table::of("Threads on the critical paths", rows)
        .column("Launch of", "", |(launch, _)| Cell::Name(launch.package.clone()))
        .whose()
        .column("Thread", "", |(_, program)| Cell::Name(program.name.clone()))
        .column("Time", "Its part of the critical path.", |(_, program)| program.path.sum_ns())
        .column("Running", "", |(_, program)| program.path.running_ns)
        .column("Storage", "", |(_, program)| program.path.storage_ns)
        .column("No processor", "", |(_, program)| program.path.cpu_ns)
        .table
}

fn late_frames(answer: &Uninterruptible) -> Table {
    let rows = drawing(&answer.late_frames, |frame: &LateFrame| &frame.threads);
    let table = Table::of("Late frames of apps", rows)
        .column("App", "", |(frame, _)| Cell::Name(frame.owner.clone()))
        .whose()
        .column("Reason", "As Android gives it.", |(frame, _)| Cell::Name(frame.reason.clone()))
        .or_drop()
        .column("At", "Since the beginning.", |(frame, _)| frame.at_ns)
        .column("Took", "", |(frame, _)| frame.duration_ns)
        .column("Thread", "The app's threads that draw.", |(_, thread)| role(*thread));
    let table = with_times(table, |(_, thread)| thread.map(|thread| thread.time));
    let table = table
        .column("Mostly in", "The function of the kernel with the longest time.", |(_, thread)| {
            name(thread.and_then(|thread| thread.function.as_ref()))
        })
        .or_drop()
        .table;
    Table { left_out: answer.late_frames_beyond_cap, ..table }
}

fn threads(answer: &Uninterruptible) -> Table {
    let table = Table::of("Threads in state D", &answer.threads)
        .column("Thread", "", |thread| Cell::Name(thread.name.clone()))
        .whose()
        .column("Of", "The package or process.", |thread: &&SleepingThread| name(thread.owner.as_ref()))
        .or_drop()
        .column("Id", "", |thread| Cell::words(thread.tid.to_string()))
        .or_drop();
    let table = with_times(table, |thread| Some(thread.time))
        .column("Waits", "", |thread| Cell::count(thread.time.waits, Unit::Count))
        .column("Longest", "The longest wait.", |thread| thread.time.longest_ns)
        .column("Mostly in", "The function of the kernel with the longest time.", |thread| {
            name(thread.functions.first().map(|row| &row.function))
        })
        .or_drop()
        .table;
    Table { left_out: answer.threads_beyond_cap, ..table }
}

fn functions(answer: &Uninterruptible) -> Table {
    let table = Table::of("Functions of the kernel in which threads slept", &answer.functions).column(
        "Function",
        "",
        |row| Cell::Name(row.function.clone()),
    );
    with_times(table, |row| Some(row.time))
        .column("Waits", "", |row| Cell::count(row.time.waits, Unit::Count))
        .column("Longest", "The longest wait.", |row| row.time.longest_ns)
        .table
}

fn syncs(answer: &Uninterruptible) -> Table {
    let table = Table::of("Sync calls that reached a file system (fsync, fdatasync)", &answer.syncs)
        .column("Thread", "", |row| Cell::Name(row.name.clone()))
        .whose()
        .column("Of", "The package or process.", |row| name(row.owner.as_ref()))
        .or_drop()
        .column("Calls", "", |row| Cell::count(row.calls, Unit::Count))
        .column("Time", "The total time of the calls.", |row| row.time_ns)
        .column("Longest", "", |row| row.longest_ns);
    with_times(table, |row| Some(row.blocked)).table
}

fn notes(answer: &Uninterruptible) -> Vec<String> {
    let mut notes = vec![
        "From the events of the scheduler: a wait begins when a thread stops in state D (uninterruptible sleep) and ends when \
         it is woken. The kernel does not count a wait for a commit of the journal, or for a lock behind I/O, as I/O, so the \
         three times must not be added up to a time of I/O. Waits in other states, such as for a FUSE file system, are missing."
            .to_owned(),
    ];
    if answer.launches.iter().any(|launch| launch.path.is_some()) {
        notes.push(
            "The critical path of a launch is followed backwards from its end: from the app's UI thread or RenderThread, each wait \
             for another thread leads into the thread that ended it. Each moment counts once."
                .to_owned(),
        );
    }
    if answer.all.unknown_ns == answer.all.total_ns() && answer.all.waits > 0 {
        notes.push(
            "The trace lacks the event sched_blocked_reason, which only Android's kernels have: it does not show which waits \
             were I/O, nor the function of the kernel."
                .to_owned(),
        );
    }
    if answer.waits_beyond_cap > 0 {
        notes.push(format!(
            "{} waits are missing in launches, frames and sync calls, because there are too many.",
            Unit::Count.format(answer.waits_beyond_cap as f64)
        ));
    }
    notes
}
