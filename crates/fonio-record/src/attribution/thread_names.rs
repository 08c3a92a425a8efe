//! Keeps the process and the name of each thread that a BPF program or an event reports. A thread may have
//! ended before the recorder can look it up in procfs.

use std::io;

use fonio_core::{Nanos, RowSink, Thread, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::threads::{NewThread, Threads};

/// Size of a name in bytes, including the final zero (`TASK_COMM_LEN`).
const COMM_MAX: usize = 16;
/// Maximum number of threads whose names are kept.
const KNOWN_MAX: usize = 100_000;
/// Maximum number of earlier threads that are kept for one number.
const EARLIER_MAX: usize = 8;

/// A thread as it was last reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedThread {
    /// The thread's process; 0 if unknown.
    pub pid: u32,
    pub comm: [u8; COMM_MAX],
    /// When the thread started, as time since boot; 0 if unknown.
    pub started: Nanos,
}

impl ReportedThread {
    fn name(&self) -> String {
        let length = self.comm.iter().position(|byte| *byte == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..length]).into_owned()
    }
}

/// The names and processes of threads, as reported by BPF programs and trace events.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames {
    known: FxHashMap<u32, ReportedThread>,
    /// The threads that had the number of a known thread before, the oldest first.
    earlier: FxHashMap<u32, Vec<ReportedThread>>,
    /// Threads added since the last call of [`take_new`](ThreadNames::take_new).
    new: Vec<NewThread>,
}

impl ThreadNames {
    /// Notes a thread, and the parent of its process. A later name replaces an earlier name. Sums of short waits
    /// arrive late, so they can be of an earlier thread with this number.
    pub(crate) fn note(&mut self, tid: u32, reported: ReportedThread, parent: u32) {
        let is_full = self.known.len() >= KNOWN_MAX;
        let known = self.known.get_mut(&tid);
        let is_new = known.as_ref().is_none_or(|known| known.started < reported.started);
        match known {
            Some(known) if known.started == reported.started => *known = reported,
            Some(known) => {
                let (later, before) = if is_new { (reported, *known) } else { (*known, reported) };
                *known = later;
                let earlier = self.earlier.entry(tid).or_default();
                let is_known = earlier.iter().any(|known| known.started == before.started);
                if !is_known && earlier.len() < EARLIER_MAX {
                    earlier.push(before);
                    earlier.sort_unstable_by_key(|known| known.started);
                }
            }
            None if is_full => return,
            None => _ = self.known.insert(tid, reported),
        }
        if is_new {
            self.new.push(NewThread { tid, pid: reported.pid, parent });
        }
    }

    /// Returns the number of known threads.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the threads added since the previous call.
    pub(crate) fn take_new(&mut self) -> Vec<NewThread> {
        std::mem::take(&mut self.new)
    }

    /// Writes rows for the given threads that are not yet in `named`: for each number, a row for each thread that
    /// had it.
    pub(crate) fn write_rows(
        &self,
        mut tids: Vec<u32>,
        from: Timestamp,
        (threads, named): (&Threads, &FxHashSet<u32>),
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        tids.sort_unstable();
        tids.dedup();
        for tid in tids.into_iter().filter(|tid| !named.contains(tid)) {
            let earlier = self.earlier.get(&tid).map_or(&[][..], Vec::as_slice);
            let lives = earlier.iter().chain(self.known.get(&tid)).map(Some);
            let none = (!self.known.contains_key(&tid)).then_some(None);
            for (at, life) in lives.chain(none).enumerate() {
                // The first of the threads may have begun before the recording.
                let started = life.filter(|_| at > 0).map(|life| threads.on_clock(life.started));
                let from = started.map_or(from, |started| started.max(from));
                let comm = life.map(ReportedThread::name);
                let mut row = Thread { tid, from, comm, ..Thread::default() };
                threads.complete(&mut row);
                row.pid = row.pid.or(life.map(|life| life.pid).filter(|pid| *pid != 0));
                sink.thread(&row)?;
            }
        }
        Ok(())
    }

    /// Returns a thread as it was last reported.
    pub(crate) fn raw(&self, tid: u32) -> Option<ReportedThread> {
        self.known.get(&tid).copied()
    }

    /// Returns the process of a thread, and the thread's name as text.
    pub(crate) fn get(&self, tid: u32) -> Option<(u32, String)> {
        let known = self.known.get(&tid)?;
        Some((known.pid, known.name()))
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::CollectedRows;

    use super::*;

    #[test]
    fn a_thread_is_new_once_and_has_its_last_name() {
        let mut names = ThreadNames::default();
        let comm = |name: &[u8]| {
            let mut comm = [0; COMM_MAX];
            comm[..name.len()].copy_from_slice(name);
            comm
        };
        let reported = |pid, name, started| ReportedThread { pid, comm: comm(name), started: Nanos(started) };
        names.note(7, reported(5, b"sh", 9), 1);
        names.note(7, reported(5, b"sixteen_letters_", 9), 1);
        assert_eq!(
            (names.take_new(), names.take_new()),
            (vec![NewThread { tid: 7, pid: 5, parent: 1 }], vec![])
        );
        assert_eq!(names.get(7), Some((5, "sixteen_letters_".to_owned())));
        names.note(7, reported(6, b"dd", 10), 2);
        names.note(7, reported(5, b"sh", 9), 1);
        assert_eq!(names.take_new(), [NewThread { tid: 7, pid: 6, parent: 2 }], "the number was reused once");
        assert_eq!((names.get(7), names.get(8)), (Some((6, "dd".to_owned())), None));
        let mut rows = CollectedRows::default();
        let (threads, from) = (Threads::default(), Timestamp(3));
        names.write_rows(vec![7, 8], from, (&threads, &FxHashSet::default()), &mut rows).unwrap();
        let told: Vec<_> = rows
            .threads
            .iter()
            .map(|row| (row.tid, row.from >= from, row.pid, row.comm.as_deref()))
            .collect();
        let dd = (7, true, Some(6), Some("dd"));
        assert_eq!(told, [(7, true, Some(5), Some("sixteen_letters_")), dd, (8, true, None, None)]);
        (0..KNOWN_MAX as u32 + 10).for_each(|tid| names.note(tid, reported(tid, b"x", 0), 1));
        assert_eq!(names.known.len(), KNOWN_MAX);
    }
}
