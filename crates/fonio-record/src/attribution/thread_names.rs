//! Keeps the process and the name of each thread that a BPF program or an event reports. A thread may have
//! ended before the recorder can look it up in procfs.

use std::io;

use fonio_core::{RowSink, Thread, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::threads::{NewThread, Threads};

/// Size of a name in bytes, including the final zero (`TASK_COMM_LEN`).
const COMM_MAX: usize = 16;
/// Maximum number of threads whose names are kept.
const KNOWN_MAX: usize = 100_000;

/// The names and processes of threads, as reported by BPF programs and trace events.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames {
    known: FxHashMap<u32, (u32, [u8; COMM_MAX])>,
    /// Threads added since the last call of [`take_new`](ThreadNames::take_new).
    new: Vec<NewThread>,
}

impl ThreadNames {
    /// Notes the name and process of a thread. A later name replaces an earlier name.
    pub(crate) fn note(&mut self, tid: u32, (tgid, parent): (u32, u32), comm: [u8; COMM_MAX]) {
        let is_full = self.known.len() >= KNOWN_MAX;
        match self.known.get_mut(&tid) {
            Some(known) => *known = (tgid, comm),
            None if is_full => {}
            None => {
                self.known.insert(tid, (tgid, comm));
                self.new.push(NewThread { tid, pid: tgid, parent });
            }
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

    /// Writes a row for each of the given threads that is not yet in `named`.
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
            let (pid, comm) = self.get(tid).unzip();
            let mut row = Thread { tid, from, comm, ..Thread::default() };
            threads.complete(&mut row);
            row.pid = row.pid.or(pid.filter(|pid| *pid != 0));
            sink.thread(&row)?;
        }
        Ok(())
    }

    /// Returns the process of a thread, and the thread's name as bytes.
    pub(crate) fn raw(&self, tid: u32) -> Option<(u32, [u8; COMM_MAX])> {
        self.known.get(&tid).copied()
    }

    /// Returns the process of a thread, and the thread's name as text.
    pub(crate) fn get(&self, tid: u32) -> Option<(u32, String)> {
        let (tgid, comm) = self.known.get(&tid)?;
        let length = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
        Some((*tgid, String::from_utf8_lossy(&comm[..length]).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_new_once_and_has_its_last_name() {
        let mut names = ThreadNames::default();
        let comm = |name: &[u8]| {
            let mut comm = [0; COMM_MAX];
            comm[..name.len()].copy_from_slice(name);
            comm
        };
        names.note(7, (5, 1), comm(b"sh"));
        names.note(7, (5, 1), comm(b"sixteen_letters_"));
        assert_eq!(
            (names.take_new(), names.take_new()),
            (vec![NewThread { tid: 7, pid: 5, parent: 1 }], vec![])
        );
        assert_eq!(names.get(7), Some((5, "sixteen_letters_".to_owned())));
        names.note(7, (5, 1), comm(b"dd"));
        assert_eq!((names.get(7), names.get(8)), (Some((5, "dd".to_owned())), None));
        (0..KNOWN_MAX as u32 + 10).for_each(|tid| names.note(tid, (tid, 1), comm(b"x")));
        assert_eq!(names.known.len(), KNOWN_MAX);
    }
}
