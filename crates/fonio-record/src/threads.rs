//! Identifies the threads that queue I/O.

use fonio_core::{Thread, Timestamp};
use fonio_system::Cgroups;
use fonio_tracefs::ring_buffer::PageLayout;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::blocked::NewThread;
use crate::machine::Machine;

/// Largest number of look-ups in one wake-up. Many short-lived processes must not keep the recorder busy.
const LOOKUPS_PER_WAKE: usize = 64;
/// Largest number of known threads.
const KNOWN_MAX: usize = 100_000;

/// Facts of a thread from procfs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pid: Option<u32>,
    uid: Option<u32>,
    parent_pid: Option<u32>,
    cgroup: Option<String>,
    /// Its name at the look-up, for threads whose name no event gives.
    comm: Option<String>,
}

/// The threads seen so far.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// `None` until the thread is looked up.
    known: FxHashMap<u32, Option<Identity>>,
    due: Vec<u32>,
    last: u32,
    /// The processes that started others. They need no I/O of their own.
    parents: FxHashSet<u32>,
    /// The process of a thread, and the parent of that process when the thread was first seen.
    first_seen: FxHashMap<u32, (u32, u32)>,
    /// For processes that were started meanwhile, the ones that started them.
    started_by: FxHashMap<u32, u32>,
}

impl Threads {
    /// Notes the threads that `tid_of` finds in the records of this page.
    pub(crate) fn note(&mut self, layout: &PageLayout, page: &[u8], tid_of: &dyn Fn(&[u8]) -> Option<u32>) {
        let Ok((_, mut cursor)) = layout.open(page) else { return };
        while let Some(Ok(record)) = cursor.next(page) {
            let Some(tid) = tid_of(record.data) else { continue };
            self.add_if_new(tid);
        }
    }

    /// Notes the thread of an event.
    pub(crate) fn add_if_new(&mut self, tid: u32) {
        // Mostly it is the same thread as before. 0 is the idle thread of every processor.
        if tid != self.last && tid != 0 {
            self.last = tid;
            self.add(tid);
        }
    }

    /// Notes one thread.
    pub(crate) fn add(&mut self, tid: u32) {
        if !self.known.contains_key(&tid) && self.known.len() < KNOWN_MAX {
            self.known.insert(tid, None);
            self.due.push(tid);
        }
    }

    /// Notes a thread whose process and parent are known. The process can have ended when it is looked up, and then its
    /// children have another parent.
    pub(crate) fn add_with_parent(&mut self, thread: NewThread) {
        self.add(thread.tid);
        if thread.parent != 0 && self.first_seen.len() < KNOWN_MAX {
            self.first_seen.entry(thread.tid).or_insert((thread.pid, thread.parent));
            self.add_parent(thread.parent);
        }
    }

    fn add_parent(&mut self, parent: u32) {
        if self.parents.len() < KNOWN_MAX && self.parents.insert(parent) {
            self.add(parent);
        }
    }

    /// Notes for processes that were started meanwhile which ones started them.
    pub(crate) fn add_started(&mut self, started_by: FxHashMap<u32, u32>) {
        self.started_by = started_by;
    }

    /// Looks up some of the new threads.
    pub(crate) fn look_up(&mut self, machine: &Machine) {
        // The newest first: they are the most likely to exist still.
        for _ in 0..LOOKUPS_PER_WAKE {
            let Some(tid) = self.due.pop() else { break };
            let identity = read_identity(machine, tid);
            if let Some(parent) = identity.parent_pid.filter(|parent| *parent != 0) {
                self.add_parent(parent);
            }
            self.known.insert(tid, Some(identity));
        }
    }

    /// A row for each known process that started another one, so that a thread can be traced back to the command.
    pub(crate) fn parents(&self, from: Timestamp) -> Vec<Thread> {
        let mut all = self.parents.clone();
        let pids = self.known.values().flatten().filter_map(|identity| identity.pid);
        let pids = pids.chain(self.first_seen.values().flat_map(|(pid, parent)| [*pid, *parent]));
        for mut pid in pids.chain(self.parents.iter().copied()) {
            while let Some(parent) = self.started_by.get(&pid)
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

    /// Adds the known facts to a row.
    pub(crate) fn complete(&self, row: &mut Thread) {
        if let Some(Some(identity)) = self.known.get(&row.tid) {
            row.pid = identity.pid;
            row.uid = identity.uid;
            row.parent_pid = identity.parent_pid;
            row.cgroup.clone_from(&identity.cgroup);
            row.comm = row.comm.take().or_else(|| identity.comm.clone());
        }
        if let Some(&(pid, parent)) = self.first_seen.get(&row.tid) {
            row.pid = row.pid.or(Some(pid));
            row.parent_pid = Some(parent);
        }
        if let Some(parent) = self.started_by.get(&row.pid.unwrap_or(row.tid)) {
            row.pid.get_or_insert(row.tid);
            row.parent_pid = Some(*parent);
        }
    }
}

fn read_identity(machine: &Machine, tid: u32) -> Identity {
    let task = machine.task(tid);
    let owner = task.owner().unwrap_or_default();
    let cgroup = task.cgroups().as_ref().and_then(Cgroups::telling).map(str::to_owned);
    Identity { pid: owner.pid, uid: owner.user, parent_pid: owner.parent, cgroup, comm: task.name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_looked_up_once_and_completes_its_row() {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut threads = Threads::default();
        threads.add(own);
        threads.add(own);
        assert_eq!(threads.due, [own]);
        let mut row = Thread { tid: own, ..Thread::default() };
        threads.complete(&mut row);
        assert_eq!(row.pid, None, "before it is looked up");
        threads.look_up(&Machine::here());
        threads.look_up(&Machine::here());
        assert!(threads.due.is_empty());
        // Its parents have rows, up to the first process.
        let parents = threads.parents(Timestamp(7));
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32);
        assert!(parents.iter().any(|row| Some(row.tid) == parent && row.from == Timestamp(7)), "{parents:?}");
        assert!(parents.iter().any(|row| row.tid == 1), "{parents:?}");
        threads.complete(&mut row);
        assert_eq!(row.pid, Some(std::process::id()));
        for tid in 0..KNOWN_MAX as u32 + 10 {
            threads.add(tid + (1 << 24));
        }
        assert_eq!(threads.known.len(), KNOWN_MAX, "a storm of threads takes no more memory");
    }

    /// Processes that ended before they were looked up still lead to the one that started them all.
    #[test]
    fn ended_processes_lead_to_the_first_one() {
        let mut threads = Threads::default();
        let number = |at: u32| at + (1 << 24);
        threads.add_with_parent(NewThread { tid: number(5), pid: number(4), parent: number(3) });
        threads.add_started(
            [(number(4), number(3)), (number(3), number(2)), (number(2), number(1))].into_iter().collect(),
        );
        threads.look_up(&Machine::here());
        let told = |row: &Thread| (row.tid, row.pid, row.parent_pid);
        let rows: Vec<_> = threads.parents(Timestamp(0)).iter().map(told).collect();
        let row = |at| (number(at), Some(number(at)), Some(number(at - 1)));
        assert_eq!(rows, [row(2), row(3)]);
        let mut row = Thread { tid: number(5), ..Thread::default() };
        threads.complete(&mut row);
        assert_eq!((row.pid, row.parent_pid), (Some(number(4)), Some(number(3))));
    }

    #[test]
    fn this_thread_is_known() {
        let identity =
            read_identity(&Machine::here(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
        assert_eq!(identity.pid, Some(std::process::id()));
        assert_eq!(identity.uid, Some(rustix::process::getuid().as_raw()));
    }
}
