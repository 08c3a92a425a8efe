//! Figures and words of the threads that were blocked on storage.

use fonio_core::Unit;

use super::Facts;
use crate::Analysis;
use crate::blocked::{Behind, Blocked, BlockedProgram, Role, Through};

/// From this share on, a sentence names the program whose requests were outstanding.
const BEHIND_FROM: f64 = 0.3;

/// Adds the figures of the program of interest that waited longest, and those that stand for it without waits.
pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    let span = Unit::Ns.format(analysis.span.duration_ns as f64);
    let Some(blocked) = &analysis.blocked else {
        let Some(waited) = &analysis.outstanding.waited else { return };
        facts.put("inferred.waited", waited.share, Unit::Share);
        facts.put("storage.waited", waited.share, Unit::Share);
        let longest = analysis.outstanding.response_ns.as_ref().and_then(|response| response.max);
        facts.put("inferred.longest", longest.map(|ns| ns as f64), Unit::Ns);
        let share = Unit::Share.format(waited.share);
        let words = format!("programs may have been waiting for it for {share} of {span}");
        facts.word("storage.waited_words", &words);
        return;
    };
    let worst = worst(blocked, Role::OfInterest);
    let share = worst.map_or(0.0, |program| program.worst.share);
    facts.put("blocked.worst", share, Unit::Share);
    facts.put("storage.waited", share, Unit::Share);
    let bulk = self::worst(blocked, Role::BulkWork);
    facts.put("blocked.bulk", bulk.map_or(0.0, |program| program.worst.share), Unit::Share);
    let apart = bulk.map(|bulk| format!("apart from bulk work ({}), ", bulk.full_name())).unwrap_or_default();
    let words = match worst {
        Some(_) => format!(
            "{apart}no program was blocked on it for more than {} of {span}",
            Unit::Share.format(share).trim_start_matches('<')
        ),
        None => format!("{apart}no program was blocked on it in {span}"),
    };
    facts.word("storage.waited_words", &words);
    if let Some(bulk) = bulk {
        facts.word("blocked.bulk.program", &bulk.full_name());
    }
    let io = analysis.machine.pressure.iter().find(|pressure| pressure.resource == "io");
    let sum: u64 = blocked.programs.iter().map(|program| program.time_ns).sum();
    let explained = super::share(sum, analysis.span.duration_ns);
    let stalled = io.and_then(|io| io.some_share).zip(explained);
    facts.put("blocked.unexplained_pressure", stalled.map(|(some, sum)| (some - sum).max(0.0)), Unit::Share);
    if let Some(program) = worst {
        // A program that waits for another thread waits behind the same requests as that thread.
        let blocked_one = program.through.as_ref().and_then(|through| {
            blocked.programs.iter().find(|other| other.name == through.name && other.unit == through.unit)
        });
        of_program(facts, program, &blocked_one.unwrap_or(program).behind);
    }
    let long = &blocked.long;
    facts.count("blocked.long.count", long.count);
    let waits = if long.count == 1 { "wait" } else { "waits" };
    facts.word("blocked.long.waits", &format!("{} {waits}", Unit::Count.format(long.count as f64)));
    if let Some(longest) = long.longest.first() {
        facts.put("blocked.long.longest", longest.time_ns as f64, Unit::Ns);
        facts.put("blocked.long.at", longest.at_ns as f64, Unit::Ns);
        facts.word("blocked.long.program", &longest.program);
        let doing = what(&longest.blocked_in, longest.file.as_deref(), longest.through.as_ref());
        facts.word("blocked.long.doing", &doing);
        if let Some(words) = behind_words(&longest.behind) {
            facts.word("blocked.long.behind", &words);
        }
    }
}

/// `behind` is whose requests were outstanding while it waited.
fn of_program(facts: &mut Facts, program: &BlockedProgram, behind: &[Behind]) {
    facts.word("blocked.program", &program.full_name());
    facts.put("blocked.time", program.worst.ns as f64, Unit::Ns);
    facts.put("blocked.longest", program.longest_ns.map(|ns| ns as f64), Unit::Ns);
    let share = |names: &[&str]| {
        let of = program.operations.iter().filter(|row| names.contains(&row.blocked_in.as_str()));
        super::share(of.map(|row| row.time_ns).sum(), program.time_ns)
    };
    facts.put("blocked.fsync_share", share(&["fsync", "journal"]), Unit::Share);
    facts.put("blocked.read_share", share(&["read", "page_fault", "metadata"]), Unit::Share);
    facts.put("blocked.dirty_limit_share", share(&["dirty_limit"]), Unit::Share);
    facts.put("blocked.swap_share", share(&["swap_in"]), Unit::Share);
    if let Some(operation) = program.operations.first() {
        let file = program.file.as_ref().filter(|file| file.share >= 0.5).map(|file| file.path.as_str());
        let doing = what(&operation.blocked_in, file, program.through.as_ref());
        facts.word("blocked.doing", &doing);
        if let Some(file) = file {
            facts.word("blocked.file", file);
        }
        if let Some(journal) = program.file.as_ref().and_then(|file| file.journal.as_ref()) {
            facts.word("blocked.journal", journal);
        }
    }
    if let Some(words) = behind_words(behind) {
        facts.word("blocked.behind", &words);
    }
    if let Some(other) = first_other(behind) {
        facts.put("blocked.behind_share", other.share, Unit::Share);
        facts.word("blocked.behind_program", &other.full_name());
        if let Some(unit) = &other.unit {
            facts.word("blocked.behind_unit", unit);
        }
        if let Some(file) = &other.file {
            facts.word("blocked.behind_file", file);
        }
    }
}

/// The program of that role with the thread that was blocked for longest.
fn worst(blocked: &Blocked, role: Role) -> Option<&BlockedProgram> {
    blocked.programs.iter().find(|program| program.role == role)
}

/// The largest share of somebody else. An unknown process is nobody whom a sentence can name.
fn first_other(behind: &[Behind]) -> Option<&Behind> {
    behind.iter().find(|row| !row.is_own && row.process != super::UNKNOWN_PROCESS)
}

/// `71 % of the I/O outstanding meanwhile came from dd (backup.service) for /tmp/export.bin`.
fn behind_words(behind: &[Behind]) -> Option<String> {
    let other = first_other(behind).filter(|row| row.share >= BEHIND_FROM)?;
    let file = other.file.as_ref().map(|file| format!(" for {file}")).unwrap_or_default();
    let share = Unit::Share.format(other.share);
    Some(format!("{share} of the I/O outstanding meanwhile came from {}{file}", other.full_name()))
}

/// What a thread did while it was blocked: `in fsync of /home/notes.db`, or `waiting for db, which was blocked in fsync of
/// /home/notes.db`.
pub fn what(blocked_in: &str, file: Option<&str>, through: Option<&Through>) -> String {
    match through {
        Some(through) => {
            let doing = doing(&through.blocked_in, through.file.as_deref());
            format!("waiting for {}, which was blocked in {doing}", through.full_name())
        }
        None => format!("in {}", doing(blocked_in, file)),
    }
}

/// An operation with its file: `fsync of /home/notes.db`.
fn doing(blocked_in: &str, file: Option<&str>) -> String {
    let (operation, relation) = match blocked_in {
        "fsync" => ("fsync", "of"),
        "read" => ("reads", "of"),
        "write" => ("writes", "to"),
        "metadata" => ("looking up or changing names", "of"),
        "page_fault" => ("page faults", "on"),
        "swap_in" => ("reading back swapped memory", "for"),
        "dirty_limit" => ("writes held back by the dirty limit", "to"),
        "journal" => ("waiting for the file system's journal", "for"),
        "kernel_thread" => ("the work of a kernel thread", "on"),
        "other_thread" => ("waiting for another thread", "with"),
        "async_io" => ("asynchronous I/O", "on"),
        "other" => ("another system call", "on"),
        _ => ("an unknown operation", "on"),
    };
    match file {
        Some(file) => format!("{operation} {relation} {file}"),
        None => operation.to_owned(),
    }
}
