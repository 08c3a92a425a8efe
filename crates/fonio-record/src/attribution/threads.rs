//! Identifies the threads that queue I/O.
//!
//! The kernel reuses the ids of ended threads. Therefore, one thread id has several identities; each identity
//! begins when the previous identity ends.

use fonio_core::{Nanos, Thread, Timestamp};
use fonio_machine::Machine;
use fonio_machine::Units;
use fonio_system::{Cgroups, Task};
use fonio_tracefs::ring_buffer::PageLayout;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::time::{ClockId, clock_gettime};

/// Maximum number of look-ups per wake-up, which limits the cost of many short-lived processes.
const LOOKUPS_PER_WAKE: usize = 64;
/// Maximum number of threads whose identity is kept.
const KNOWN_MAX: usize = 100_000;
/// How long a thread may still cause events after its exit event, because it closes its files after this
/// event.
const CLOSES_WITHIN_NS: u64 = 100_000_000;
/// The unit of thread start times in procfs: `USER_HZ` is always 100.
pub(crate) const TICK_NS: u64 = 10_000_000;
/// Maximum number of identities kept per thread id.
const IDENTITIES_MAX: usize = 64;

/// Facts about a thread from procfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pid: Option<u32>,
    uid: Option<u32>,
    parent_pid: Option<u32>,
    cgroup: Option<String>,
    unit: Option<String>,
    /// The name of the thread at its look-up, for threads that no event names.
    comm: Option<String>,
}

/// One of the successive threads with the same thread id.
#[derive(Debug, Default)]
struct Known {
    /// Facts from procfs; `None` until the thread is looked up.
    identity: Option<Identity>,
    /// Times of the first and the last known event of the thread.
    first: Timestamp,
    seen: Timestamp,
    ended: Option<Timestamp>,
}

/// All threads that events have shown so far.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The threads that had each thread id; the latest thread is last.
    known: FxHashMap<u32, Vec<Known>>,
    due: Vec<u32>,
    last: u32,
    /// The processes of threads, and the processes that started other processes. They may have no I/O of their
    /// own.
    parents: FxHashSet<u32>,
    /// The process of a thread, and the parent of that process when the thread was first seen, for the threads that
    /// had the thread id one after the other: each existed at or before the given time.
    first_seen: FxHashMap<u32, Vec<(Timestamp, u32, u32)>>,
    /// The last process with each process id that was started during the capture.
    started_by: FxHashMap<u32, ProcessStart>,
    units: Units,
    /// How long the machine has been suspended since boot: the clock of start times minus the clock of
    /// events.
    asleep: Nanos,
}

/// The start of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStart {
    /// The parent process.
    pub parent: u32,
    /// Time since boot.
    pub started: Nanos,
}

/// A thread that was seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewThread {
    pub tid: u32,
    /// The thread's process; 0 if the BPF program does not report it.
    pub pid: u32,
    /// The parent of that process; 0 if it is unknown or does not exist.
    pub parent: u32,
}

impl Default for Threads {
    fn default() -> Threads {
        let nanos = |id| {
            let time = clock_gettime(id);
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
        };
        let awake = nanos(ClockId::Monotonic);
        Threads::naming(Units::default(), Nanos(nanos(ClockId::Boottime).saturating_sub(awake)))
    }
}

impl Threads {
    /// Creates an empty table; `units` finds the names of the units.
    fn naming(units: Units, asleep: Nanos) -> Threads {
        Threads {
            known: FxHashMap::default(),
            due: Vec::new(),
            last: 0,
            parents: FxHashSet::default(),
            first_seen: FxHashMap::default(),
            started_by: FxHashMap::default(),
            units,
            asleep,
        }
    }

    /// Notes the threads that `tid_of` finds in the records of this page.
    pub(crate) fn note(&mut self, layout: &PageLayout, page: &[u8], tid_of: &dyn Fn(&[u8]) -> Option<u32>) {
        let Ok((_, mut cursor)) = layout.open(page) else { return };
        while let Some(Ok(record)) = cursor.next(page) {
            let Some(tid) = tid_of(record.data) else { continue };
            self.add_if_new(tid, record.time);
        }
    }

    /// Notes the thread of an event at `at`.
    pub(crate) fn add_if_new(&mut self, tid: u32, at: Timestamp) {
        // Consecutive events are mostly from the same thread. Thread id 0 is the idle thread of every
        // processor.
        if tid != self.last && tid != 0 {
            self.last = tid;
            self.add(tid, at);
        }
    }

    /// Notes a thread that existed at `at`.
    pub(crate) fn add(&mut self, tid: u32, at: Timestamp) {
        if !self.known.contains_key(&tid) && self.known.len() >= KNOWN_MAX {
            return;
        }
        let known = self.known.entry(tid).or_default();
        if let Some(last) = known.last_mut() {
            // Ring-buffer pages of different processors are not ordered by time.
            if last.ended.is_none_or(|ended| at <= ended) {
                last.seen = last.seen.max(at);
                last.first = last.first.min(at);
                return;
            }
        }
        Threads::begin(known, &mut self.due, (tid, at));
    }

    /// Notes that a thread ended, so that later events with its id belong to another thread.
    pub(crate) fn ended(&mut self, tid: u32, at: Timestamp) {
        self.last = 0;
        let Some(known) = self.known.get_mut(&tid) else { return };
        let Some(last) = known.last_mut().filter(|last| last.ended.is_none()) else { return };
        last.ended = Some(at);
        // Events of the next thread with the same id were noted before the exit event of this thread.
        if last.seen > at {
            let seen = std::mem::replace(&mut last.seen, at);
            Threads::begin(known, &mut self.due, (tid, seen));
        }
    }

    fn begin(known: &mut Vec<Known>, due: &mut Vec<u32>, (tid, at): (u32, Timestamp)) {
        if known.len() == IDENTITIES_MAX {
            known.remove(0);
        }
        known.push(Known { first: at, seen: at, ..Known::default() });
        due.push(tid);
    }

    /// Notes a thread that existed at or before `at`, and whose process and parent are known. At the time of
    /// the look-up, the process may have ended, and its children may have been reparented.
    pub(crate) fn add_with_parent(&mut self, thread: NewThread, at: Timestamp) {
        // The thread may have ended before `at`.
        if !self.known.contains_key(&thread.tid) {
            self.add(thread.tid, at);
        }
        if thread.pid != 0 {
            self.add_process(thread.tid, thread.pid, at);
        }
        if thread.parent != 0 && self.first_seen.len() < KNOWN_MAX {
            let seen = self.first_seen.entry(thread.tid).or_default();
            if seen.len() < IDENTITIES_MAX {
                seen.push((at, thread.pid, thread.parent));
            }
            self.add_parent(thread.parent);
        }
    }

    /// Notes the process of a thread that existed at `at`. The process has the name of the program, and its
    /// first thread may have no I/O of its own.
    fn add_process(&mut self, tid: u32, pid: u32, at: Timestamp) {
        if pid == tid || self.parents.len() >= KNOWN_MAX || !self.parents.insert(pid) {
            return;
        }
        // The process may have ended before `at`.
        if !self.known.contains_key(&pid) {
            self.add(pid, at);
        }
    }

    fn add_parent(&mut self, parent: u32) {
        if self.parents.len() < KNOWN_MAX && self.parents.insert(parent) {
            self.add(parent, Timestamp(0));
        }
    }

    /// Notes the processes started during the capture.
    pub(crate) fn add_started(&mut self, started_by: FxHashMap<u32, ProcessStart>) {
        self.started_by = started_by;
    }

    /// Notes processes that used a processor, and looks up their names. They may have no I/O of their own.
    pub(crate) fn add_working(&mut self, pids: impl Iterator<Item = u32>, machine: &Machine) {
        pids.for_each(|pid| self.add_parent(pid));
        while !self.due.is_empty() {
            self.look_up(machine);
        }
    }

    /// Looks up some of the new threads in procfs.
    pub(crate) fn look_up(&mut self, machine: &Machine) {
        // The newest threads come first, because new threads are the most likely to still exist.
        for _ in 0..LOOKUPS_PER_WAKE {
            let Some(tid) = self.due.pop() else { break };
            let is_due = |known: &Known| known.identity.is_none();
            if !self.known.get(&tid).is_some_and(|known| known.iter().any(is_due)) {
                continue;
            }
            let task = machine.task(tid);
            // An ended process remains in procfs until its parent has waited for it.
            let started_ns = task.stat().map(|stat| stat.started_ticks.saturating_mul(TICK_NS));
            let identity = read_identity(&task, &mut self.units);
            if let Some(parent) = identity.parent_pid.filter(|parent| *parent != 0) {
                self.add_parent(parent);
            }
            let mut found = None;
            for known in self.known.get_mut(&tid).into_iter().flatten().filter(|known| is_due(known)) {
                // A thread that started after the event is not the thread of the event.
                let until = known.first + self.asleep + Nanos(TICK_NS);
                let is_it =
                    known.first == Timestamp(0) || started_ns.is_some_and(|started| started <= until.0);
                known.identity = Some(if is_it { identity.clone() } else { Identity::default() });
                found = found.or(is_it.then_some(known.first));
            }
            if let Some((pid, at)) = identity.pid.zip(found) {
                self.add_process(tid, pid, at);
            }
        }
    }

    /// Returns the name that this process or thread had at its latest look-up.
    pub(crate) fn name(&self, tid: u32) -> Option<&str> {
        self.known.get(&tid)?.last()?.identity.as_ref()?.comm.as_deref()
    }

    /// Returns a row for the process of each known thread, and for each known process that started another
    /// process. These rows name the programs of threads, and trace a thread back to the command.
    pub(crate) fn parents(&self, from: Timestamp) -> Vec<Thread> {
        let mut all = self.parents.clone();
        let identities = self.known.values().flatten().filter_map(|known| known.identity.as_ref());
        let pids = identities.filter_map(|identity| identity.pid);
        let first_seen = self.first_seen.values().flatten();
        let pids = pids.chain(first_seen.flat_map(|(_, pid, parent)| [*pid, *parent]));
        for mut pid in pids.chain(self.parents.iter().copied()) {
            while let Some(ProcessStart { parent, .. }) = self.started_by.get(&pid)
                && all.insert(*parent)
            {
                pid = *parent;
            }
        }
        let mut tids: Vec<u32> = all.into_iter().collect();
        tids.sort_unstable();
        let rows = tids.into_iter().map(|tid| {
            let mut row = Thread { tid, from, ..Thread::default() };
            self.complete(&mut row);
            row
        });
        rows.filter(|row| row.comm.is_some() || row.parent_pid.is_some()).collect()
    }

    /// Adds to a row the known facts about the thread that has the row's thread id at the beginning of the
    /// row.
    pub(crate) fn complete(&self, row: &mut Thread) {
        if let Some(identity) = self.identity_at(row.tid, row.from) {
            row.pid = identity.pid;
            row.uid = identity.uid;
            row.parent_pid = identity.parent_pid;
            row.cgroup.clone_from(&identity.cgroup);
            row.unit.clone_from(&identity.unit);
            row.comm = row.comm.take().or_else(|| identity.comm.clone());
        }
        let seen = self.first_seen.get(&row.tid).map_or(&[][..], Vec::as_slice);
        let of_thread = seen.iter().find(|(at, ..)| row.from <= *at).or(seen.last());
        if let Some(&(_, pid, parent)) = of_thread {
            row.pid = row.pid.or(Some(pid));
            row.parent_pid = Some(parent);
        }
        let pid = row.pid.unwrap_or(row.tid);
        if let Some(start) = self.started_by.get(&pid).filter(|start| self.is_start(start, pid, row.from)) {
            row.pid.get_or_insert(row.tid);
            row.parent_pid = Some(start.parent);
        }
    }

    /// Returns whether this can be the start of the process that had the id at `at`: that process had not ended
    /// before.
    fn is_start(&self, start: &ProcessStart, pid: u32, at: Timestamp) -> bool {
        let mut known = self.known.get(&pid).into_iter().flatten();
        let life = known.find(|known| known.ended.is_none_or(|ended| at <= ended));
        life.and_then(|life| life.ended).is_none_or(|ended| self.on_clock(start.started) <= ended)
    }

    /// Converts a time since boot to the clock of events.
    pub(crate) fn on_clock(&self, since_boot: Nanos) -> Timestamp {
        Timestamp(since_boot.0.saturating_sub(self.asleep.0))
    }

    fn identity_at(&self, tid: u32, from: Timestamp) -> Option<&Identity> {
        let known = self.known.get(&tid)?;
        let at = known.iter().position(|known| known.ended.is_none_or(|ended| from <= ended))?;
        let found = known[at].identity.as_ref().filter(|identity| identity.pid.is_some());
        // A thread that is closing its files is no longer in procfs.
        let closing = || {
            let before = known.get(at.checked_sub(1)?)?;
            let since = from.0.saturating_sub(before.ended?.0);
            before.identity.as_ref().filter(|_| since <= CLOSES_WITHIN_NS)
        };
        found.or_else(closing)
    }

    /// Returns the number of containers whose name was not found.
    pub(crate) fn unnamed_containers(&self) -> u64 {
        self.units.unnamed()
    }
}

fn read_identity(task: &Task, units: &mut Units) -> Identity {
    let owner = task.owner().unwrap_or_default();
    let cgroup = task.cgroups().as_ref().and_then(Cgroups::telling).map(str::to_owned);
    let unit = units.of(cgroup.as_deref(), owner.user);
    Identity { pid: owner.pid, uid: owner.user, parent_pid: owner.parent, cgroup, unit, comm: task.name() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::now;

    fn own_tid() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn a_thread_is_looked_up_once_and_completes_its_row() {
        let own = own_tid();
        let mut threads = Threads::default();
        threads.add(own, now());
        threads.add(own, now());
        assert_eq!(threads.due, [own]);
        let mut row = Thread { tid: own, ..Thread::default() };
        threads.complete(&mut row);
        assert_eq!(row.pid, None, "the process is unknown before the look-up");
        threads.look_up(&Machine::here());
        threads.look_up(&Machine::here());
        assert!(threads.due.is_empty());
        // The thread's parent processes have rows, up to the first process.
        let parents = threads.parents(Timestamp(7));
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
        assert!(parents.iter().any(|row| Some(row.tid) == parent && row.from == Timestamp(7)), "{parents:?}");
        assert!(parents.iter().any(|row| row.tid == 1), "{parents:?}");
        threads.complete(&mut row);
        assert_eq!(row.pid, Some(std::process::id()));
        for tid in 0..KNOWN_MAX as u32 + 10 {
            threads.add(tid + (1 << 24), Timestamp(0));
        }
        assert_eq!(threads.known.len(), KNOWN_MAX, "too many threads are kept");
    }

    const MS: u64 = 1_000_000;

    /// Creates a procfs with one process of this unit, started at this time.
    fn machine_with(root: &Path, unit: &str, started_ms: u64) -> Machine {
        let dir = root.join("proc/7");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("cgroup"), format!("0::/system.slice/{unit}\n")).unwrap();
        std::fs::write(dir.join("comm"), "cat\n").unwrap();
        std::fs::write(dir.join("status"), "Tgid:\t7\nPPid:\t0\nUid:\t0\t0\t0\t0\n").unwrap();
        let stat = format!("7 (cat) S 0 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", started_ms / 10);
        std::fs::write(dir.join("stat"), stat).unwrap();
        Machine::at(root)
    }

    fn threads_of(root: &Path) -> Threads {
        Threads::naming(Units::below(root), Nanos(0))
    }

    /// Returns the unit of the thread that had the id 7 at this time.
    fn unit(threads: &Threads, at_ms: u64) -> String {
        let mut row = Thread { tid: 7, from: Timestamp(at_ms * MS), ..Thread::default() };
        threads.complete(&mut row);
        row.unit.unwrap_or_default()
    }

    #[test]
    fn a_later_thread_with_the_same_number_has_its_own_identity() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let at = |ms| Timestamp(ms * MS);
        // The exit event is read before or after the events of the later thread.
        for ended_last in [false, true] {
            let mut threads = threads_of(root);
            threads.add(7, at(100));
            threads.look_up(&machine_with(root, "first.service", 50));
            if ended_last {
                threads.add(7, at(300));
                threads.ended(7, at(200));
            } else {
                threads.ended(7, at(200));
                threads.add(7, at(150));
                threads.add(7, at(300));
            }
            threads.look_up(&machine_with(root, "second.service", 250));
            let units = [100, 200, 201, 300, 400].map(|at| unit(&threads, at));
            let expected = ["first", "first", "second", "second", "second"];
            assert_eq!(units, expected.map(|name| format!("{name}.service")), "{ended_last}");
        }
        // A thread that no longer exists at the look-up stays unknown, even if another process now has its
        // id.
        let mut threads = threads_of(root);
        threads.add(7, at(100));
        threads.ended(7, at(200));
        threads.look_up(&machine_with(root, "second.service", 250));
        assert_eq!(unit(&threads, 100), "");
        // Many threads use the same id, one after another.
        for times in 0..1000 {
            threads.add(7, at(1000 * times));
            threads.ended(7, at(1000 * times + 500));
        }
        assert_eq!(threads.known[&7].len(), IDENTITIES_MAX);
    }

    #[test]
    fn a_thread_closes_its_files_after_its_end() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let at = |ms| Timestamp(ms * MS);
        // The thread is looked up before its exit, or after its exit while it is a zombie.
        for is_looked_up_late in [false, true] {
            let mut threads = threads_of(root);
            let machine = machine_with(root, "first.service", 50);
            threads.add(7, at(100));
            if !is_looked_up_late {
                threads.look_up(&machine);
            }
            threads.ended(7, at(200));
            threads.add(7, at(210));
            let later = if is_looked_up_late { machine } else { Machine::at(&root.join("empty")) };
            threads.look_up(&later);
            for ms in [100, 210] {
                assert_eq!(unit(&threads, ms), "first.service", "{ms} {is_looked_up_late}");
            }
        }
    }

    /// The first thread of a process has the name of the program, even if it has no I/O of its own.
    #[test]
    fn the_process_of_a_thread_has_a_row() {
        let pid = std::process::id();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned();
        let (to_test, of_thread) = std::sync::mpsc::channel();
        let (end, until) = std::sync::mpsc::channel::<()>();
        let pool = std::thread::Builder::new().name("pool-thread".to_owned());
        let pool = pool.spawn(move || {
            to_test.send(own_tid()).unwrap();
            let _ = until.recv();
        });
        let tid = of_thread.recv().unwrap();
        // An event shows only the thread, or also its process.
        for process in [None, Some(pid)] {
            let mut threads = Threads::default();
            match process {
                None => threads.add(tid, now()),
                Some(pid) => threads.add_with_parent(NewThread { tid, pid, parent: 0 }, now()),
            }
            threads.look_up(&Machine::here());
            let rows = threads.parents(Timestamp(7));
            let row = rows.iter().find(|row| row.tid == pid).expect("the process has a row");
            assert_eq!((row.pid, row.comm.as_deref()), (Some(pid), Some(name.as_str())));
            assert_eq!((threads.name(pid), threads.name(tid)), (Some(name.as_str()), Some("pool-thread")));
        }
        drop(end);
        pool.unwrap().join().unwrap();
    }

    /// Processes that ended before their look-up can still be traced back to their common ancestor.
    #[test]
    fn ended_processes_lead_to_the_first_one() {
        let mut threads = Threads::default();
        let number = |at: u32| at + (1 << 24);
        let thread = NewThread { tid: number(5), pid: number(4), parent: number(3) };
        threads.add_with_parent(thread, Timestamp(1));
        let start = |at| (number(at), ProcessStart { parent: number(at - 1), started: Nanos(0) });
        threads.add_started([4, 3, 2].map(start).into_iter().collect());
        threads.look_up(&Machine::here());
        let told = |row: &Thread| (row.tid, row.pid, row.parent_pid);
        let rows: Vec<_> = threads.parents(Timestamp(0)).iter().map(told).collect();
        let row = |at| (number(at), Some(number(at)), Some(number(at - 1)));
        assert_eq!(rows, [row(2), row(3), row(4)]);
        let mut row = Thread { tid: number(5), ..Thread::default() };
        threads.complete(&mut row);
        assert_eq!((row.pid, row.parent_pid), (Some(number(4)), Some(number(3))));
    }

    #[test]
    fn each_process_with_one_number_has_its_own_parent() {
        let root = tempfile::tempdir().unwrap();
        let mut threads = threads_of(root.path());
        let at = |ms| Timestamp(ms * MS);
        threads.add_with_parent(NewThread { tid: 7, pid: 7, parent: 2 }, at(100));
        threads.ended(7, at(200));
        threads.add(7, at(300));
        threads.add_with_parent(NewThread { tid: 7, pid: 7, parent: 3 }, at(400));
        let parent = |threads: &Threads, ms| {
            let mut row = Thread { tid: 7, from: at(ms), ..Thread::default() };
            threads.complete(&mut row);
            row.parent_pid
        };
        assert_eq!([50, 300, 500].map(|ms| parent(&threads, ms)), [Some(2), Some(3), Some(3)]);
        let start = ProcessStart { parent: 4, started: Nanos(250 * MS) };
        threads.add_started([(7, start)].into_iter().collect());
        assert_eq!([50, 300].map(|ms| parent(&threads, ms)), [Some(2), Some(4)]);
    }

    #[test]
    fn this_thread_is_known() {
        let identity = read_identity(&Machine::here().task(own_tid()), &mut Units::default());
        assert_eq!(identity.pid, Some(std::process::id()));
        assert_eq!(identity.uid, Some(rustix::process::getuid().as_raw()));
    }
}
