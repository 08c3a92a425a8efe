//! Adds the figures and words for threads that were blocked on storage.

use fonio_core::{Nanos, Unit};

use super::servers::is_own as is_own_server;
use super::{Behind, Blocked, BlockedProgram, LongWaits, Role, Through};
use crate::figures::facts::{Facts, Frame};
use crate::question::ratio::ratio;
use crate::question::threads::UNKNOWN_NAME;

/// The beginnings of the names of kernel threads that write or encrypt data for programs. The names are
/// complete enough for programs such as f2fs_io to have other names.
const KERNEL: [&str; 15] = [
    "kworker",
    "jbd2/",
    "kswapd",
    "xfsaild/",
    "xfs-buf/",
    "xfs-cil/",
    "btrfs-transacti",
    "btrfs-cleaner",
    "f2fs_ckpt",
    "f2fs_gc",
    "f2fs_flush",
    "f2fs_discard",
    "ext4lazyinit",
    "segctord",
    "kcryptd",
];

/// Minimum share for a sentence to name the program whose requests were outstanding.
pub(super) const BEHIND_FROM: f64 = 0.3;
/// A program waits mostly for its own requests if they have at least this share.
pub(crate) const OWN_FROM: f64 = 0.55;

impl Blocked {
    /// Returns the program of `role` with the longest blocked thread.
    pub(crate) fn worst(&self, role: Role) -> Option<&BlockedProgram> {
        self.programs.iter().find(|program| program.role == role)
    }

    /// Adds figures for the program of interest that waited longest, and for its longest wait.
    pub(super) fn figures(&self, frame: &Frame, facts: &mut Facts) {
        let worst = self.worst(Role::OfInterest);
        let share = |program: Option<&BlockedProgram>| program.map_or(0.0, |program| program.worst.share);
        let is_problem = worst.is_some_and(|program| program.is_problem);
        facts.count("blocked.problem", "storage is a problem for a program", u64::from(is_problem));
        facts.share("blocked.worst", "blocked on storage, the program that waited longest", share(worst));
        let bulk = self.worst(Role::BulkWork);
        facts.share("blocked.bulk", "blocked on storage, the bulk work that waited longest", share(bulk));
        if let Some(bulk) = bulk {
            facts.word("blocked.bulk.program", &bulk.full_name());
        }
        if let Some(program) = worst {
            // A program that waits for another thread is delayed by the same requests as that thread.
            let blocked_one = program.through.as_ref().and_then(|through| {
                self.programs.iter().find(|other| other.name == through.name && other.unit == through.unit)
            });
            let blocked_one = blocked_one.unwrap_or(program);
            if let Some(device) = blocked_one.device.and_then(|device| frame.device(device)) {
                facts.word("blocked.device", device);
            }
            program.figures(&blocked_one.behind, frame.span, facts);
        }
        self.long.figures(frame, facts);
    }
}

impl BlockedProgram {
    /// Returns for how long the program was blocked: `80 % of its working time (11 s of 14 s, summed over
    /// 560 threads)`, or, if its working time is unknown, `80 % of 20 s`.
    fn blocked_for(&self, span: Nanos) -> String {
        let Some(working) = &self.working else {
            return format!("{} of {}", Unit::Share.format(self.worst.share), span);
        };
        let threads = match self.threads {
            0 | 1 => String::new(),
            threads => format!(", summed over {} threads", Unit::Count.format(threads as f64)),
        };
        let share = Unit::Share.format(working.storage_share);
        format!("{share} of its working time ({} of {}{threads})", self.time_ns, working.time_ns)
    }

    /// Adds the figures of a program. `behind` lists the processes whose requests were outstanding while the
    /// program waited.
    fn figures(&self, behind: &[Behind], span: Nanos, facts: &mut Facts) {
        facts.word("blocked.program", &self.full_name());
        facts.word("blocked.for", &self.blocked_for(span));
        let working = self.working.as_ref();
        let label = "blocked on storage, that program's share of its working time";
        facts.share("blocked.share", label, working.map(|working| working.storage_share));
        let label = "working time of that program: on a processor, or waiting for storage, a lock or a child";
        facts.amount("blocked.working", label, working.map(|working| working.time_ns));
        let label =
            "blocked on storage, longest time of that program's threads that waited one after the other";
        facts.amount("blocked.time", label, self.worst.ns);
        let label = "longest wait for storage of that program";
        facts.amount("blocked.longest", label, self.longest_ns);
        for (name, label, operations) in [
            (
                "blocked.fsync_share",
                "in fsync or for the journal, share of its waits",
                &["fsync", "journal"][..],
            ),
            (
                "blocked.read_share",
                "in reads, page faults and look-ups, share of its waits",
                &["read", "page_fault", "metadata", "async_read"],
            ),
            (
                "blocked.dirty_limit_share",
                "held back by the dirty limit, share of its waits",
                &["dirty_limit"],
            ),
            ("blocked.swap_share", "reading back swapped memory, share of its waits", &["swap_in"]),
        ] {
            let of = self.operations.iter().filter(|row| operations.contains(&row.blocked_in.as_str()));
            let share = ratio(of.map(|row| row.time_ns).sum(), self.time_ns);
            facts.share(name, label, share);
        }
        if let Some(operation) = self.operations.first() {
            let file = self.file.as_ref().filter(|file| file.share >= 0.5).map(|file| file.path.as_str());
            let doing = doing(&operation.blocked_in, file, self.through.as_ref());
            facts.word("blocked.doing", &doing);
            if let Some(file) = file {
                facts.word("blocked.file", file);
            }
            if let Some(journal) = self.file.as_ref().and_then(|file| file.journal.as_ref()) {
                facts.word("blocked.journal", journal);
            }
            if let Some(wal) = self.file.as_ref().and_then(|file| file.wal.as_ref()) {
                facts.word("blocked.wal", wal);
            }
            if let Some(file) = self.file.as_ref().filter(|file| file.share >= 0.5) {
                facts.word("blocked.file_content", &file.content);
            }
        }
        if let Some(words) = behind_words(behind) {
            facts.word("blocked.behind", &words);
        }
        if let Some(other) = first_other(behind) {
            let label = "request time of another program during its waits, share";
            facts.share("blocked.behind_share", label, other.share);
            facts.word("blocked.behind_program", &other.full_name());
            if let Some(unit) = &other.unit {
                facts.word("blocked.behind_unit", unit);
            }
            if let Some(file) = &other.file {
                facts.word("blocked.behind_file", file);
            }
        }
    }
}

impl LongWaits {
    fn figures(&self, frame: &Frame, facts: &mut Facts) {
        facts.count("blocked.long.count", "waits of 100 ms or longer", self.count);
        let waits = if self.count == 1 { "wait" } else { "waits" };
        facts.word("blocked.long.waits", &format!("{} {waits}", Unit::Count.format(self.count as f64)));
        let Some(longest) = self.longest.first() else { return };
        facts.amount("blocked.long.longest", "longest wait", longest.time_ns);
        facts.amount("blocked.long.at", "longest wait, begins at", longest.at_ns);
        facts.word("blocked.long.program", &longest.program);
        let doing = doing(&longest.blocked_in, longest.file.as_deref(), longest.through.as_ref());
        facts.word("blocked.long.doing", &doing);
        if let Some(device) = longest.device.and_then(|device| frame.device(device)) {
            facts.word("blocked.long.device", device);
        }
        if let Some(words) = behind_words(&longest.behind) {
            facts.word("blocked.long.behind", &words);
        }
    }
}

/// Returns the other program with the largest share. Unknown processes, threads of the kernel and
/// fonio's servers are skipped, since a sentence has to name the program for which they work.
fn first_other(behind: &[Behind]) -> Option<&Behind> {
    let is_named = |name: &str| name != UNKNOWN_NAME && !is_kernel(name) && !is_own_server(name);
    behind.iter().find(|row| !row.is_own && is_named(&row.process))
}

/// Returns whether a thread of the kernel has this name.
pub(crate) fn is_kernel(name: &str) -> bool {
    let is_loop = name.strip_prefix("loop").is_some_and(|number| number.parse::<u32>().is_ok());
    KERNEL.iter().any(|begin| name.starts_with(begin)) || name.starts_with("dmcrypt_write") || is_loop
}

/// `71 % of the I/O outstanding at that time came from dd (backup.service) for /tmp/export.bin`.
fn behind_words(behind: &[Behind]) -> Option<String> {
    let own: f64 = behind.iter().filter(|row| row.is_own).map(|row| row.share).sum();
    let other = first_other(behind).filter(|row| row.share >= BEHIND_FROM && own < OWN_FROM)?;
    let file = other.file.as_ref().map(|file| format!(" for {file}")).unwrap_or_default();
    let share = Unit::Share.format(other.share);
    Some(format!("{share} of the I/O outstanding at that time came from {}{file}", other.full_name()))
}

/// Describes the activity of a blocked thread: `in fsync of /home/notes.db`, or `waiting for db, which was
/// blocked in fsync of /home/notes.db`.
pub fn doing(blocked_in: &str, file: Option<&str>, through: Option<&Through>) -> String {
    match through {
        Some(through) => {
            let doing = operation(&through.blocked_in, through.file.as_deref());
            format!("waiting for {}, which was blocked in {doing}", through.full_name())
        }
        None => format!("in {}", operation(blocked_in, file)),
    }
}

/// Returns a file, or the files of a folder, for a sentence.
pub(crate) fn shown_file(file: &str) -> String {
    match file.strip_suffix('/') {
        Some(folder) => format!("files in {folder}"),
        None => file.to_owned(),
    }
}

/// Describes an operation with its file, such as `fsync of /home/notes.db`.
fn operation(blocked_in: &str, file: Option<&str>) -> String {
    let (words, relation) = match blocked_in {
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
        "async_read" => ("asynchronous reads", "of"),
        "async_write" => ("asynchronous writes", "to"),
        "other" => ("another system call", "on"),
        _ => ("an unknown operation", "on"),
    };
    match file {
        Some(file) => format!("{words} {relation} {}", shown_file(file)),
        None => words.to_owned(),
    }
}
