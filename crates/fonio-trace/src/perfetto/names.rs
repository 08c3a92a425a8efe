//! Keeps the names of threads, processes and packages.
//!
//! Events name the threads that run. The process tree adds the process of each thread and its user; the list of
//! packages adds the Android package of each user. With two trace buffers, as in all presets, both lists come
//! after all events.

use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{Thread, Timestamp};
use rustc_hash::FxHashMap;

use super::wire::Fields;
use crate::comm::Comm;

/// Maximum numbers of threads, processes and packages that are kept.
const KEPT_MAX: usize = 32 << 10;

/// Maximum number of bytes of a package's name; Android allows 255.
const NAME_BYTES_MAX: usize = 255;

/// Number of threads whose last name from an event is kept for a fast comparison.
const RECENT: usize = 64;

/// Number of user ids of each Android user: `uid / 100000` is the user, `uid % 100000` the app.
const UIDS_OF_USER: u32 = 100_000;

/// First user id of an app. Lower ids belong to parts of the system, which several packages share.
const FIRST_APP_UID: u32 = 10_000;

/// Properties of a process from the process tree.
#[derive(Clone, Debug, Default)]
struct Process {
    uid: Option<u32>,
    parent: Option<u32>,
    /// When the process tree was read.
    from: Timestamp,
}

/// The names that were seen.
#[derive(Debug)]
pub(super) struct Names {
    seen: SeenThreads,
    /// The threads of which the last event had this name, each in the place of its number, and the generation of `seen`.
    /// The same name in the next event says nothing new.
    recent: [Option<(u32, Comm)>; RECENT],
    generation: u64,
    comms: FxHashMap<u32, Comm>,
    processes: FxHashMap<u32, Process>,
    /// The process of each thread.
    pids: FxHashMap<u32, u32>,
    packages: FxHashMap<u32, String>,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            seen: SeenThreads::default(),
            recent: [None; RECENT],
            generation: 0,
            comms: FxHashMap::default(),
            processes: FxHashMap::default(),
            pids: FxHashMap::default(),
            packages: FxHashMap::default(),
        }
    }
}

impl Names {
    /// Records a thread's name from an event; returns a row if it is new.
    #[inline]
    pub fn event(&mut self, tid: u32, comm: &Comm, at: Timestamp) -> Option<Thread> {
        let place = tid as usize % RECENT;
        if self.recent[place]
            .is_some_and(|(known, name)| known == tid && (name == *comm || comm.is_unknown()))
        {
            return None;
        }
        let row = self.event_of_other(tid, comm, at);
        if self.seen.generation() != self.generation {
            self.generation = self.seen.generation();
            self.recent = [None; RECENT];
        }
        self.recent[place] = Some((tid, *comm));
        row
    }

    fn event_of_other(&mut self, tid: u32, comm: &Comm, at: Timestamp) -> Option<Thread> {
        if comm.known().is_some() && (self.comms.len() < KEPT_MAX || self.comms.contains_key(&tid)) {
            self.comms.insert(tid, *comm);
        }
        let pid = self.pids.get(&tid).copied();
        let row = self.seen.seen(tid, pid, comm.known(), NameOrigin::Event, at)?;
        Some(self.complete(row))
    }

    /// Returns the last known name of a thread.
    pub fn of(&self, tid: u32) -> Option<String> {
        let known = self.comms.get(&tid)?.known()?;
        Some(String::from_utf8_lossy(known).into_owned())
    }

    /// Reads a process tree of the time `at`; appends a row for each thread in it.
    pub fn process_tree(&mut self, message: &[u8], at: Timestamp, rows: &mut Vec<Thread>) {
        for (number, value) in Fields::of(message) {
            let Some(entry) = value.bytes() else { continue };
            match number {
                1 => self.process(entry, at, rows),
                2 => self.thread(entry, at, rows),
                _ => {}
            }
        }
    }

    fn process(&mut self, message: &[u8], at: Timestamp, rows: &mut Vec<Thread>) {
        let (mut pid, mut process) = (0, Process { from: at, ..Process::default() });
        let mut name: Option<&[u8]> = None;
        for (number, value) in Fields::of(message) {
            let id = value.number().and_then(|value| u32::try_from(value).ok());
            match number {
                1 => pid = id.unwrap_or(0),
                2 => process.parent = id.filter(|pid| *pid != 0),
                3 => name = name.or(value.bytes()),
                5 => process.uid = id,
                _ => {}
            }
        }
        if pid == 0 || self.processes.len() >= KEPT_MAX && !self.processes.contains_key(&pid) {
            return;
        }
        self.processes.insert(pid, process);
        // The kernel's name of a process is the end of its program's path, or for an app the last 15 letters of
        // the package.
        let name = name.map(|path| {
            let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            if path.first() == Some(&b'/') { Comm::of(last) } else { Comm::end_of(path) }
        });
        self.place(pid, pid, name.unwrap_or_default(), at, rows);
    }

    fn thread(&mut self, message: &[u8], at: Timestamp, rows: &mut Vec<Thread>) {
        let (mut tid, mut pid, mut name) = (0, 0, Comm::default());
        for (number, value) in Fields::of(message) {
            let id = value.number().and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
            match number {
                1 => tid = id,
                2 => name = value.bytes().map(Comm::of).unwrap_or_default(),
                3 => pid = id,
                _ => {}
            }
        }
        if tid != 0 && pid != 0 {
            self.place(tid, pid, name, at, rows);
        }
    }

    /// Places the thread `tid` in the process `pid`.
    fn place(&mut self, tid: u32, pid: u32, comm: Comm, at: Timestamp, rows: &mut Vec<Thread>) {
        if self.pids.len() >= KEPT_MAX && !self.pids.contains_key(&tid) {
            return;
        }
        self.pids.insert(tid, pid);
        self.recent[tid as usize % RECENT] = None;
        // A name from an event is better: the process tree has the start of the command line.
        let comm = *self.comms.entry(tid).or_insert(comm);
        // The row is returned even if only the user is new.
        let row = self.seen.seen(tid, Some(pid), comm.known(), NameOrigin::Columns, at);
        let known = comm.known().map(|name| String::from_utf8_lossy(name).into_owned());
        let row = row.unwrap_or(Thread { tid, from: at, pid: Some(pid), comm: known, ..Thread::default() });
        rows.push(self.complete(row));
    }

    /// Reads the list of packages; appends a row for each thread of an app that is known so far.
    pub fn packages(&mut self, message: &[u8], rows: &mut Vec<Thread>) {
        for (number, value) in Fields::of(message) {
            let (1, Some(package)) = (number, value.bytes()) else { continue };
            let (mut name, mut uid) = (None, None);
            for (number, value) in Fields::of(package) {
                match number {
                    1 => name = value.bytes(),
                    2 => uid = value.number().and_then(|value| u32::try_from(value).ok()),
                    _ => {}
                }
            }
            let (Some(name), Some(uid)) = (name, uid) else { continue };
            if name.len() <= NAME_BYTES_MAX && self.packages.len() < KEPT_MAX {
                let name = String::from_utf8_lossy(name).into_owned();
                self.packages.entry(uid % UIDS_OF_USER).or_insert(name);
            }
        }
        let mut pids: Vec<(u32, u32)> = self.pids.iter().map(|(tid, pid)| (*tid, *pid)).collect();
        pids.sort_unstable();
        for (tid, pid) in pids {
            let Some(process) = self.processes.get(&pid) else { continue };
            let row =
                Thread { tid, from: process.from, pid: Some(pid), comm: self.of(tid), ..Thread::default() };
            let row = self.complete(row);
            if row.unit.is_some() {
                rows.push(row);
            }
        }
    }

    fn package(&self, uid: u32) -> Option<&str> {
        let app = uid % UIDS_OF_USER;
        self.packages.get(&app).filter(|_| app >= FIRST_APP_UID).map(String::as_str)
    }

    /// Adds the user, parent and package of the row's process.
    fn complete(&self, mut row: Thread) -> Thread {
        if let Some(process) = row.pid.and_then(|pid| self.processes.get(&pid)) {
            row.uid = process.uid;
            row.parent_pid = process.parent;
            row.unit = process.uid.and_then(|uid| self.package(uid)).map(str::to_owned);
        }
        row
    }
}
