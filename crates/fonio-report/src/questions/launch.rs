//! Section on a launch: where the time of the launch was spent.

use fonio_analysis::launch::{Launch, Parts};

use super::About;
use crate::document::{Cell, Section, Table};
use fonio_core::{Nanos, Unit};

pub fn section(about: &About<'_>) -> Option<Section> {
    let launch = about.analysis.launch.as_ref()?;
    let answer = format!(
        "{} It took {} along its critical path, which follows each wait into the thread that ended it.",
        launch.verdict,
        Unit::S.format(launch.duration_ns.as_secs_f64()),
    );
    let mut notes = Vec::new();
    if launch.storage_waits > 0 {
        notes.push(format!(
            "The critical path waited for storage {} times; for {} of the waits the request is known.",
            Unit::Count.format(launch.storage_waits as f64),
            Unit::Count.format(launch.storage_waits_with_request as f64),
        ));
    }
    Some(Section {
        id: "launch".into(),
        question: "Where did the time of the launch go?".into(),
        answer,
        tables: vec![parts(launch), programs(launch)],
        notes,
        ..Section::default()
    })
}

/// The label of a kind of wait, and the function that returns its time.
type Wait = (&'static str, fn(&Parts) -> Nanos);

/// Returns the parts with their labels, and the total waits of all threads. User and system time are separate
/// parts if the kernel counted them separately.
fn named(launch: &Launch) -> Vec<(&'static str, f64, Option<Nanos>)> {
    let Parts { running_ns, .. } = launch.path;
    let mut parts = match launch.user_share {
        Some(share) => {
            let user = running_ns.0 as f64 * share;
            vec![("user", user, None), ("system", running_ns.0 as f64 - user, None)]
        }
        None => vec![("on a processor", running_ns.0 as f64, None)],
    };
    let waits: [Wait; 7] = [
        ("waiting for storage", |parts| parts.storage_ns),
        ("waiting for the network", |parts| parts.network_ns),
        ("sleeping (timer)", |parts| parts.timer_ns),
        ("waiting for other processes", |parts| parts.thread_ns),
        ("waiting for locks", |parts| parts.lock_ns),
        ("waiting for a processor", |parts| parts.cpu_ns),
        ("waiting, reason unknown", |parts| parts.unknown_ns),
    ];
    parts.extend(waits.map(|(name, of)| (name, of(&launch.path).0 as f64, Some(of(&launch.all_threads)))));
    parts
}

fn parts(launch: &Launch) -> Table {
    let whole = launch.duration_ns.0.max(1) as f64;
    Table::of("Parts of the launch", named(launch))
        .column("Part", "", |(name, ..)| Cell::words(*name))
        .column(
            "Share",
            "Share of the launch. Each moment of the critical path counts once.",
            |(_, ns, _)| Cell::Bar(ns / whole),
        )
        .column("Time", "", |(_, ns, _)| Cell::Number(*ns, Unit::Ns))
        .column(
            "All threads",
            "Waits of all threads, summed; threads wait at the same time and for each other.",
            |(_, _, all)| *all,
        )
        .or_drop()
        .table
}

fn programs(launch: &Launch) -> Table {
    let paths = launch.programs.iter().map(|program| (&program.name, &program.path));
    Table::of("Programs on the critical path", paths)
        .column("Program", "", |(name, _)| Cell::Name((*name).clone()))
        .column("Time", "Share of the critical path in this program.", |(_, path)| path.sum_ns())
        .column("Running", "", |(_, path)| path.running_ns)
        .column("Storage", "", |(_, path)| path.storage_ns)
        .column("Network", "", |(_, path)| path.network_ns)
        .column("No processor", "Ready to run while other threads used the processors.", |(_, path)| {
            path.cpu_ns
        })
        .table
}
