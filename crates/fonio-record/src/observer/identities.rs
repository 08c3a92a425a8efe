//! Names the parties that cause requests or wait for them: units, programs without a unit, and kernel
//! threads.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_core::Nanos;
use fonio_machine::{Machine, Units};
use fonio_system::{TRIAL_NAME, Task};
use rustc_hash::FxHashMap;

use super::{Party, PartyId, PartyKind};
use crate::attribution::threads::TICK_NS;

/// Maximum number of known threads, and of known parties. A machine has tens of units.
const THREADS_MAX: usize = 4096;
const PARTIES_MAX: usize = 1000;
/// Minimum time between two listings of all control groups.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of control groups in a listing.
const GROUPS_MAX: usize = 10_000;
/// The shared name of all parties beyond the limit.
const OTHERS: &str = "others";

/// A thread as a kernel event or procfs shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub tid: u32,
    /// The process id; 0 if unknown.
    pub pid: u32,
    pub comm: [u8; 16],
    /// When the thread started, as time since boot; `None` if it is unknown. procfs shows it in clock ticks.
    pub started: Option<Nanos>,
    /// The id of the thread's control group.
    pub cgroup: Option<u64>,
    pub is_kernel: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub pid: u32,
    pub comm: String,
    pub cgroup: Option<String>,
    pub party: PartyId,
    shown: [u8; 16],
    started: Option<Nanos>,
}

/// The known threads and parties. Each thread and party is looked up once.
#[derive(Debug)]
pub(super) struct Identities {
    machine: Machine,
    units: Units,
    threads: FxHashMap<u32, Known>,
    parties: Vec<Party>,
    numbers: FxHashMap<Party, PartyId>,
    groups: FxHashMap<u64, String>,
    groups_listed: Option<Instant>,
}

impl Identities {
    pub(super) fn new(machine: &Machine) -> Identities {
        let others = Party { name: OTHERS.to_owned(), kind: PartyKind::Program };
        Identities {
            machine: machine.clone(),
            units: Units::default(),
            threads: FxHashMap::default(),
            numbers: std::iter::once((others.clone(), PartyId(0))).collect(),
            parties: vec![others],
            groups: FxHashMap::default(),
            groups_listed: None,
        }
    }

    pub(super) fn party(&self, id: PartyId) -> &Party {
        &self.parties[id.0 as usize]
    }

    pub(super) fn thread(&self, tid: u32) -> Option<&Known> {
        self.threads.get(&tid)
    }

    /// Returns the party of a thread. If the start has changed, another thread had the number. If the name has
    /// changed, the thread may have executed another program.
    pub(super) fn of(&mut self, shown: &Shown) -> PartyId {
        if let Some(known) = self.threads.get(&shown.tid)
            && known.shown == shown.comm
            && (known.pid == shown.pid || shown.pid == 0)
            && is_same_start(known.started, shown.started)
        {
            return known.party;
        }
        let comm = text(&shown.comm);
        let (party, cgroup) = match shown.is_kernel {
            true => {
                (self.number(Party { name: kernel_name(&comm).to_owned(), kind: PartyKind::Kernel }), None)
            }
            false => self.look_up(shown, &comm),
        };
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&shown.tid) {
            self.threads.clear();
        }
        let (pid, started) = (shown.pid, shown.started);
        self.threads.insert(shown.tid, Known { pid, comm, cgroup, party, shown: shown.comm, started });
        party
    }

    fn look_up(&mut self, shown: &Shown, comm: &str) -> (PartyId, Option<String>) {
        // The thread may have ended by now, and another one may have its number, but its control group usually
        // still exists.
        let task = Some(self.machine.task(shown.tid)).filter(|task| is_of(task, shown.started, u64::eq));
        if comm == TRIAL_NAME && task.as_ref().is_some_and(runs_this_program) {
            return (self.number(Party::trial()), None);
        }
        let cgroup = task.as_ref().and_then(|task| Some(task.cgroups()?.telling()?.to_owned()));
        let cgroup = cgroup.or_else(|| self.group(shown.cgroup?));
        let user = task.and_then(|task| task.owner()?.user);
        let party = match self.units.of(cgroup.as_deref(), user) {
            Some(name) => Party { name, kind: PartyKind::Unit },
            None => Party { name: self.program(shown, comm), kind: PartyKind::Program },
        };
        (self.number(party), cgroup)
    }

    /// Returns the name of a program: the name of its process, because threads have their own names.
    fn program(&self, shown: &Shown, comm: &str) -> String {
        let process = Some(self.machine.task(shown.pid)).filter(|_| shown.pid != 0);
        // A process starts before its threads, so a process that started later is another one.
        let process = process.filter(|process| is_of(process, shown.started, u64::le));
        let process = process.and_then(|process| process.name());
        process.filter(|name| !name.is_empty()).unwrap_or_else(|| comm.to_owned())
    }

    fn number(&mut self, party: Party) -> PartyId {
        if let Some(id) = self.numbers.get(&party) {
            return *id;
        }
        if self.parties.len() >= PARTIES_MAX {
            return PartyId(0);
        }
        let id = PartyId(self.parties.len() as u32);
        self.parties.push(party.clone());
        self.numbers.insert(party, id);
        id
    }

    /// Returns the path of the control group with this number, which is the inode number of the group's
    /// folder.
    fn group(&mut self, number: u64) -> Option<String> {
        if let Some(path) = self.groups.get(&number) {
            return Some(path.clone());
        }
        if self.groups_listed.is_some_and(|listed| listed.elapsed() < LIST_EVERY) {
            return None;
        }
        self.groups_listed = Some(Instant::now());
        self.groups.clear();
        let mounts = self.machine.mounts();
        let root = mounts.iter().find(|mount| mount.filesystem == "cgroup2")?.dir.clone();
        list(&root, &root, &mut self.groups);
        self.groups.get(&number).cloned()
    }
}

/// Returns whether two starts can be those of one thread.
fn is_same_start(one: Option<Nanos>, other: Option<Nanos>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.0 / TICK_NS == other.0 / TICK_NS)
}

/// Returns whether the start of a task in procfs fits this start, in clock ticks.
fn is_of(task: &Task, started: Option<Nanos>, fits: impl Fn(&u64, &u64) -> bool) -> bool {
    let Some(Nanos(started_ns)) = started else { return true };
    task.stat().is_some_and(|stat| fits(&stat.started_ticks, &(started_ns / TICK_NS)))
}

/// Returns whether a task runs the same program file as this process.
fn runs_this_program(task: &Task) -> bool {
    let file = |path: &Path| fs::metadata(path).ok().map(|stat| (stat.dev(), stat.ino()));
    let own = file(Path::new("/proc/self/exe"));
    own.is_some() && file(&task.file("exe")) == own
}

fn list(root: &Path, dir: &Path, found: &mut FxHashMap<u64, String>) {
    if found.len() >= GROUPS_MAX {
        return;
    }
    if let (Ok(metadata), Ok(below)) = (dir.metadata(), dir.strip_prefix(root)) {
        found.insert(metadata.ino(), format!("/{}", below.display()));
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    dirs.iter().for_each(|dir| list(root, dir, found));
}

pub(super) fn text(comm: &[u8; 16]) -> String {
    let length = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..length]).into_owned()
}

/// Returns the kind of a kernel thread, because a single kernel thread, such as `kworker/u8:3-ext4`, is one
/// of many similar threads.
fn kernel_name(comm: &str) -> &str {
    let name = comm.split(['/', ':']).next().unwrap_or(comm);
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::procfs_thread;
    use super::*;

    fn shown(tid: u32, comm: &str) -> Shown {
        let mut bytes = [0; 16];
        bytes[..comm.len()].copy_from_slice(comm.as_bytes());
        Shown { tid, pid: tid, comm: bytes, started: None, cgroup: None, is_kernel: false }
    }

    fn machine(tid: u32, cgroup: &str) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(format!("proc/{tid}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        std::fs::write(dir.join("comm"), "server\n").unwrap();
        let machine = Machine::at(root.path());
        (root, machine)
    }

    #[test]
    fn a_thread_belongs_to_its_unit_or_program() {
        let (_root, machine) = machine(7, "/system.slice/mosquitto.service");
        let mut identities = Identities::new(&machine);
        let unit = identities.of(&shown(7, "worker"));
        assert_eq!(
            identities.party(unit),
            &Party { name: "mosquitto.service".into(), kind: PartyKind::Unit }
        );
        assert_eq!(identities.of(&shown(7, "worker")), unit);
        // The thread id was reused by another thread, which has ended.
        let gone = identities.of(&shown(8, "sync"));
        assert_eq!(identities.party(gone), &Party { name: "sync".into(), kind: PartyKind::Program });
        let kernel = identities.of(&Shown { is_kernel: true, ..shown(9, "kworker/u8:3-e") });
        assert_eq!(identities.party(kernel), &Party { name: "kworker".into(), kind: PartyKind::Kernel });
    }

    #[test]
    fn a_trial_is_recognised_by_its_name_and_its_program() {
        let own = std::env::current_exe().unwrap();
        for (comm, exe, expected) in [
            (TRIAL_NAME, own.as_path(), TRIAL_NAME),
            ("fonio", own.as_path(), "session.service"),
            (TRIAL_NAME, Path::new("/bin/sh"), "session.service"),
            (TRIAL_NAME, Path::new("/gone"), "session.service"),
        ] {
            let (root, machine) = machine(7, "/system.slice/session.service");
            std::os::unix::fs::symlink(exe, root.path().join("proc/7/exe")).unwrap();
            let mut identities = Identities::new(&machine);
            let id = identities.of(&shown(7, comm));
            let party = identities.party(id);
            assert_eq!(party.name, expected, "{comm} of {}", exe.display());
            assert_eq!(party.is_trial(), expected == TRIAL_NAME);
        }
    }

    #[test]
    fn a_later_thread_with_the_number_is_another_one() {
        let (root, machine) = machine(7, "/system.slice/mosquitto.service");
        let stat = format!("7 (server) S 1 {} 500 0", "0 ".repeat(17));
        std::fs::write(root.path().join("proc/7/stat"), stat).unwrap();
        let mut identities = Identities::new(&machine);
        let started = |ticks: u64| Shown { started: Some(Nanos(ticks * TICK_NS + 7)), ..shown(7, "server") };
        let (earlier, unit) = (identities.of(&started(499)), identities.of(&started(500)));
        // A sample of procfs shows the start too, in clock ticks.
        let sampled = procfs_thread(&machine, 7, 7);
        assert_eq!((sampled.started, identities.of(&sampled)), (Some(Nanos(500 * TICK_NS)), unit));
        let before = Shown { started: Some(Nanos(400 * TICK_NS)), ..sampled };
        assert_eq!(identities.of(&before), earlier, "the unit of the later thread is not its unit");
        let name = |id| identities.party(id).name.clone();
        assert_eq!((name(earlier), name(unit)), ("server".to_owned(), "mosquitto.service".to_owned()));
        // A thread of a process that still runs started after the process.
        let thread = Shown { tid: 9, pid: 7, ..started(501) };
        assert_eq!(identities.program(&thread, "pool-3"), "server");
        assert_eq!(identities.program(&Shown { started: Some(Nanos(0)), ..thread }, "pool-3"), "pool-3");
    }

    #[test]
    fn threads_without_a_unit_have_the_name_of_their_program() {
        let (_root, machine) = machine(7, "/");
        let mut identities = Identities::new(&machine);
        let party = identities.of(&shown(7, "pool-3"));
        assert_eq!(identities.party(party).name, "server");
    }

    #[test]
    fn memory_is_bounded() {
        let mut identities = Identities::new(&machine(1, "/").1);
        for tid in 10..10 + 2 * THREADS_MAX as u32 {
            identities.of(&shown(tid, &format!("x{tid}")));
        }
        assert!(identities.threads.len() <= THREADS_MAX && identities.parties.len() <= PARTIES_MAX);
        let last = identities.of(&shown(9, "new"));
        assert_eq!(identities.party(last).name, OTHERS);
    }
}
