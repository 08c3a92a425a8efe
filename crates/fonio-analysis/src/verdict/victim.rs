//! Finds the program that storage delayed, with the facts about its waits: operations, file, device, and the
//! programs whose requests were in the way. The mechanisms and fixes are chosen by these facts.

use fonio_core::Nanos;

use crate::analyser::questions::Analysis;
use crate::figures::facts::Facts;
use crate::question::ratio::ratio;
use crate::question::threads::{BACKGROUND, UNKNOWN_NAME};
use crate::waits::blocked::{
    Behind, Blocked, BlockedProgram, FileShare, OWN_FROM, ProgramWork, Role, SqliteMode, Through,
    is_fuse_server, is_kernel, is_own_server, shown_file,
};

/// A file is the victim's file if at least this share of the victim's waits is for the file.
const FILE_FROM: f64 = 0.5;
/// A program is in the way if its requests have at least this share of the outstanding request time.
pub(super) const BEHIND_FROM: f64 = 0.3;

/// The verdict that only bulk work waited.
pub(super) const ONLY_BULK_WORK: &str = "only-bulk-work";

/// Shells and supervisors, which wait for their children all the time.
const SHELLS: [&str; 24] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "busybox",
    "sudo",
    "su",
    "runuser",
    "timeout",
    "unshare",
    "setpriv",
    "nice",
    "ionice",
    "xargs",
    "watch",
    "script",
    "screen",
    "tini",
    "dumb-init",
    "cron",
    "systemd",
    "conmon",
];

/// A program that storage delayed.
#[derive(Debug, Default)]
pub(super) struct Victim<'a> {
    pub(super) program: &'a str,
    pub(super) unit: Option<&'a str>,
    /// The operations in which the program was blocked, with their shares of the blocked time, largest first.
    pub(super) operations: Vec<(&'a str, f64)>,
    pub(super) file: Option<&'a str>,
    /// What is known about the file, if the program waited for one file most of the time.
    of_file: Option<&'a FileShare>,
    pub(super) device: Option<u32>,
    /// The kind of journal, if the program waited for SQLite databases most of the time.
    pub(super) sqlite: Option<SqliteMode>,
    /// Time for which the program was blocked.
    pub(super) time: Nanos,
    /// Start and length of the wait, if a single wait makes the program the victim.
    pub(super) stall: Option<(Nanos, Nanos)>,
    behind: &'a [Behind],
    /// The thread for which the program waited, if it mostly waited for another thread.
    through: Option<&'a Through>,
    /// Whether it is bulk work, and no other program waited.
    is_bulk: bool,
}

impl<'a> Victim<'a> {
    /// Returns the program that the verdict names: the program for which storage is a problem or, if there is
    /// none, the program with the longest single wait.
    pub(super) fn of(analysis: &'a Analysis) -> Option<Victim<'a>> {
        let blocked = analysis.blocked.as_ref()?;
        if let Some(program) = blocked.worst(Role::OfInterest).filter(|program| program.is_problem) {
            return Some(Victim::waits(blocked, program));
        }
        // A copy is the victim only if the verdict is about the copy.
        let bulk = || blocked.worst(Role::BulkWork).filter(|_| analysis.verdict_id == ONLY_BULK_WORK);
        Victim::longest_wait(blocked)
            .or_else(|| bulk().map(|program| Victim { is_bulk: true, ..Victim::waits(blocked, program) }))
    }

    fn waits(blocked: &'a Blocked, program: &'a BlockedProgram) -> Victim<'a> {
        let through = program.through.as_ref();
        // A program that waits for another thread is delayed by the same requests as that thread.
        let of_thread = through.and_then(|through| {
            blocked.programs.iter().find(|other| other.name == through.name && other.unit == through.unit)
        });
        let blocked_one = of_thread.unwrap_or(program);
        let of_file = program.file.as_ref().filter(|file| file.share >= FILE_FROM);
        let operations = program.operations.iter().filter_map(|row| {
            let share = ratio(row.time_ns, program.time_ns)?;
            Some((in_operation(&row.blocked_in, through), share))
        });
        Victim {
            program: &program.name,
            unit: program.unit.as_deref(),
            operations: operations.collect(),
            file: of_file
                .map(|file| file.path.as_str())
                .or_else(|| through.and_then(|through| through.file.as_deref())),
            of_file,
            sqlite: program.sqlite.or(blocked_one.sqlite),
            device: blocked_one.device,
            time: blocked_one.time_ns,
            stall: None,
            behind: &blocked_one.behind,
            through,
            is_bulk: false,
        }
    }

    fn longest_wait(blocked: &'a Blocked) -> Option<Victim<'a>> {
        let longest = blocked.long.longest.first()?;
        let through = longest.through.as_ref();
        let name = longest.program.split_once(" (").map_or(longest.program.as_str(), |(name, _)| name);
        let program = (blocked.programs.iter()).find(|program| program.full_name() == longest.program);
        let file = longest.file.as_deref().or_else(|| through?.file.as_deref());
        Some(Victim {
            program: name,
            unit: program.and_then(|program| program.unit.as_deref()),
            operations: vec![(in_operation(&longest.blocked_in, through), 1.0)],
            file,
            of_file: program
                .and_then(|program| program.file.as_ref())
                .filter(|known| Some(known.path.as_str()) == file),
            sqlite: program.and_then(|program| program.sqlite),
            device: longest.device,
            time: longest.time_ns,
            stall: Some((longest.at_ns, longest.time_ns)),
            behind: &longest.behind,
            through,
            is_bulk: false,
        })
    }

    /// Returns the share of the program's waits that are in the `wanted` operations.
    pub(super) fn share_of(&self, wanted: &[&str]) -> f64 {
        let of = self.operations.iter().filter(|(operation, _)| wanted.contains(operation));
        of.map(|(_, share)| share).fold(0.0, |sum, share| sum + share)
    }

    /// Returns the other program whose requests were in the way most.
    pub(super) fn culprit(&self) -> Option<&'a Behind> {
        let mut others = self.behind.iter().filter(|row| !row.is_own && row.process != UNKNOWN_NAME);
        others
            .find(|row| {
                !is_kernel(&row.process) && !is_own_server(&row.process) && !self.is_same_program(row)
            })
            .filter(|row| row.share >= BEHIND_FROM && self.own_share() < OWN_FROM)
    }

    /// Returns whether another process belongs to the victim's program and works on the same data. A server
    /// may delay itself, for example by saving all its data while it appends to its log.
    fn is_same_program(&self, row: &Behind) -> bool {
        let is_other_file = row.file.is_some() && row.file.as_deref() != self.file;
        self.is_of_program(row) && !is_other_file
    }

    /// Returns whether the requests came from the victim's program.
    fn is_of_program(&self, row: &Behind) -> bool {
        row.process == self.program && row.unit.as_deref() == self.unit
    }

    /// Returns the share of the outstanding request time of threads whose names begin with `name`.
    fn behind_share(&self, name: &str) -> f64 {
        let rows = self.behind.iter().filter(|row| !row.is_own && row.process.starts_with(name));
        rows.map(|row| row.share).fold(0.0, |sum, share| sum + share)
    }

    fn own_share(&self) -> f64 {
        let own = self.behind.iter().filter(|row| row.is_own || self.is_same_program(row));
        own.map(|row| row.share).fold(0.0, |sum, share| sum + share)
    }
}

/// Returns the operation in which a thread was blocked. If the thread waited for another thread, returns the
/// operation in which the other thread was blocked.
fn in_operation<'a>(blocked_in: &'a str, through: Option<&'a Through>) -> &'a str {
    match through {
        Some(through) if blocked_in == "other_thread" => &through.blocked_in,
        _ => blocked_in,
    }
}

/// Adds the facts about the victim, under names that begin with `victim.`.
pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    others(facts, analysis);
    let victim = Victim::of(analysis);
    facts.count("victim.known", "a program waited for storage for a long time", u64::from(victim.is_some()));
    let Some(victim) = victim else { return };
    let device = victim.device.and_then(|device| analysis.devices.get(device as usize));
    facts.word("victim.program", victim.program);
    if let Some(unit) = victim.unit {
        facts.word("victim.unit", unit);
    }
    let server = victim.through.filter(|through| is_fuse_server(&through.name));
    let label = "the delayed program waited for a FUSE server";
    facts.count("victim.through_fuse", label, u64::from(server.is_some()));
    if let Some(server) = server {
        facts.word("victim.server", &server.name);
    }
    facts.count("victim.is_bulk", "only bulk work waited", u64::from(victim.is_bulk));
    let syncs_everything = ["umount", "sync", "syncfs"].contains(&victim.program);
    let label = "the delayed program writes everything that is dirty";
    facts.count("victim.syncs_everything", label, u64::from(syncs_everything));
    let is_unmount = victim.program == "umount";
    facts.count("victim.is_unmount", "the delayed program unmounts", u64::from(is_unmount));
    for (name, label, operations) in [
        ("fsync", "in fsync or for the journal", &["fsync", "journal"][..]),
        ("fsync_only", "in fsync", &["fsync"]),
        ("journal", "for the journal", &["journal"]),
        ("read", "in reads and page faults", &["read", "page_fault", "async_read"]),
        ("names", "in look-ups and changes of names", &["metadata"]),
        ("write", "in writes", &["write", "async_write"]),
        ("dirty_limit", "held back by the dirty limit", &["dirty_limit"]),
        ("swap", "reading back swapped memory", &["swap_in"]),
    ] {
        let label = format!("waits of the delayed program {label}, share");
        facts.share(format!("victim.{name}_share"), label, victim.share_of(operations));
    }
    facts.share(
        "victim.own_share",
        "request time of the delayed program itself during its waits, share",
        victim.own_share(),
    );
    for (name, label, begin) in [
        ("btrfs", "transactions of btrfs", "btrfs-transacti"),
        ("f2fs", "checkpoints and cleaning of f2fs", "f2fs_"),
        ("f2fs_cleaning", "cleaning of f2fs", "f2fs_gc"),
        ("xfs", "the log of xfs", "xfsaild"),
        ("lazy_init", "the lazy initialisation of ext4", "ext4lazyinit"),
        ("write_back", "write-back of unknown programs", "kworker"),
    ] {
        let label = format!("request time of {label} during the waits of the delayed program, share");
        facts.share(format!("victim.behind_{name}_share"), label, victim.behind_share(begin));
    }
    if let Some(file) = victim.file {
        facts.word("victim.file", &shown_file(file));
    }
    if let Some(file) = victim.of_file {
        facts.word("victim.file_content", &file.content);
        for (name, path) in [("victim.journal", &file.journal), ("victim.wal", &file.wal)] {
            if let Some(path) = path {
                facts.word(name, path);
            }
        }
    }
    if let Some(mode) = victim.sqlite {
        let word = match mode {
            SqliteMode::Rollback => "rollback",
            SqliteMode::Wal => "wal",
            SqliteMode::Unknown => "unknown",
        };
        facts.word("victim.sqlite", word);
    }
    if let Some(device) = device {
        facts.word("victim.device", device.shown());
        let mount = device.mount_of(victim.file);
        let has = |option: &str| mount.is_some_and(|mount| mount.options.iter().any(|has| has == option));
        let is_strict =
            mount.is_some() && !["noatime", "relatime", "lazytime", "ro"].iter().any(|option| has(option));
        for (name, label, is) in [
            ("sync_mount", "mounted with sync, so each write waits", has("sync")),
            ("discard_mount", "mounted with discard", has("discard")),
            ("strict_access_times", "each read changes an access time", is_strict),
        ] {
            let label = format!("file system for which the delayed program waited: {label}");
            facts.count(format!("victim.{name}"), label, u64::from(is));
        }
        if let Some(mount) = mount {
            facts.word("victim.mount", &mount.at);
        }
    }
    let culprit = victim.culprit();
    let label = "request time of the program in the way of the delayed program, share";
    facts.share("victim.behind_share", label, culprit.map_or(0.0, |culprit| culprit.share));
    let label = "its request time that the kernel or another process issued for it, share";
    let for_it = culprit.map_or(0.0, |culprit| culprit.issued_for_it / culprit.share);
    facts.share("victim.culprit_issued_for_it_share", label, for_it);
    let is_own = culprit.is_some_and(|culprit| victim.is_of_program(culprit));
    let label = "the program in the way is the delayed program itself";
    facts.count("victim.delays_itself", label, u64::from(is_own));
    if let Some(culprit) = culprit {
        facts.word("victim.culprit", &culprit.full_name());
        // To slow down the unit of the delayed program would slow down that program too.
        if let Some(unit) = culprit.unit.as_ref().filter(|unit| victim.unit != Some(unit.as_str())) {
            facts.word("victim.culprit_unit", unit);
        }
        if let Some(file) = &culprit.file {
            facts.word("victim.culprit_file", file);
        }
    }
}

/// Adds facts about waits and work without storage.
fn others(facts: &mut Facts, analysis: &Analysis) {
    let blocked = analysis.blocked.as_ref();
    let label = "the recording has the waits of threads";
    facts.count("storage.waits_known", label, u64::from(blocked.is_some()));
    let work = blocked.map_or(&[][..], |blocked| &blocked.work);
    let span = analysis.span.duration_ns;
    // On every machine, some program waits for a child, a peer or a timer. Only the waits of a recorded command
    // say something. A lock, a quota or a busy processor may delay any program that was not recorded by itself.
    let has_command = work.iter().any(|program| program.is_of_command);
    let of_shell = |work: &ProgramWork| SHELLS.contains(&work.name.as_str());
    let child = |work: &ProgramWork| if of_shell(work) { Nanos(0) } else { work.child_ns };
    let of_command = |work: &&ProgramWork| work.is_of_command;
    // Which processes belong to a workload or an app is not recorded, so a lock or the work of any program of the machine would
    // be blamed.
    let of_recorded =
        |work: &&ProgramWork| work.is_of_command || (!analysis.has_command && work.name != BACKGROUND);
    let of_any = |work: &&ProgramWork| work.is_of_command || (!has_command && work.name != BACKGROUND);
    for (name, label, counts, of) in [
        ("lock", "waits for locks", &of_recorded as Counts, &(|work: &ProgramWork| work.lock_ns) as Time),
        ("child", "waits for child processes", &of_command, &child),
        ("peer", "waits for peers", &of_command, &|work| work.peer_ns),
        ("timer", "sleeps for a fixed time", &of_command, &|work| work.timer_ns),
        ("quota", "waits for a quota of processor time", &of_any, &|work| work.quota_ns),
        ("processor", "processor time", &of_recorded, &|work| work.processor_ns),
    ] {
        let most = work.iter().filter(|one| counts(one)).max_by_key(|one| of(one));
        let program = most.filter(|one| of(one) > Nanos(0));
        let time = program.map(of);
        let label = format!("{label} of the program with the most");
        facts.amount(format!("other.{name}"), label.clone(), time);
        let share = time.and_then(|time| ratio(time, span));
        facts.share(format!("other.{name}_share"), format!("{label}, share of the recording"), share);
        if let Some(program) = program {
            facts.word(&format!("other.{name}.program"), &program.full_name());
        }
    }
}

/// Whether a program's time is counted.
type Counts<'a> = &'a dyn Fn(&&ProgramWork) -> bool;
/// One time of a program.
type Time<'a> = &'a dyn Fn(&ProgramWork) -> Nanos;
