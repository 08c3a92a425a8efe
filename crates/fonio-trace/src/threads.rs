//! Which thread had which name when, in bounded memory.

use fonio_core::{Thread, Timestamp};
use rustc_hash::FxHashMap;

/// Threads remembered in one generation; at most two generations are kept.
const GENERATION_MAX: usize = 16 * 1024;

/// Bytes of a name that are kept: the kernel's names have 15, workers up to 63.
const NAME_BYTES_MAX: usize = 64;

/// What is known of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    pid: Option<u32>,
    comm: Option<Box<[u8]>>,
    /// An event itself gave the name: it is the name at that moment. The columns give the one that the kernel
    /// remembered last, which is older or, in a `trace` file, younger.
    from_event: bool,
}

/// Where a name was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the columns before the event.
    Columns,
    /// In the event.
    Event,
}

/// The threads seen lately. A thread that was forgotten is told again when it returns.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    young: FxHashMap<u32, Known>,
    old: FxHashMap<u32, Known>,
}

impl Threads {
    /// Takes note of a thread; gives a row where something about it is new.
    pub fn seen(
        &mut self,
        tid: u32,
        pid: Option<u32>,
        comm: Option<&[u8]>,
        origin: Origin,
        at: Timestamp,
    ) -> Option<Thread> {
        // Every processor has an idle thread with this number, each with a name of its own.
        let comm = if tid == 0 { Some(b"<idle>".as_slice()) } else { comm.filter(|comm| *comm != b"<...>") };
        let comm = comm.map(|comm| &comm[..comm.len().min(NAME_BYTES_MAX)]);
        let pid = pid.filter(|_| tid != 0);

        if let Some(known) = self.young.get_mut(&tid) {
            return known.update(pid, comm, origin).then(|| known.row(tid, at));
        }
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let remembered = self.old.remove(&tid);
        let forgotten = remembered.is_none();
        let known = self.young.entry(tid).or_insert(remembered.unwrap_or_default());
        (known.update(pid, comm, origin) || forgotten).then(|| known.row(tid, at))
    }
}

impl Known {
    /// Whether anything changed.
    fn update(&mut self, pid: Option<u32>, comm: Option<&[u8]>, origin: Origin) -> bool {
        let mut changed = false;
        if pid.is_some() && pid != self.pid {
            self.pid = pid;
            changed = true;
        }
        if let Some(comm) = comm
            && (origin == Origin::Event || !self.from_event)
        {
            self.from_event |= origin == Origin::Event;
            if self.comm.as_deref() != Some(comm) {
                self.comm = Some(comm.into());
                changed = true;
            }
        }
        changed
    }

    fn row(&self, tid: u32, from: Timestamp) -> Thread {
        let comm = self.comm.as_ref().map(|comm| String::from_utf8_lossy(comm).into_owned());
        Thread { tid, from, pid: self.pid, comm, ..Thread::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_only_where_something_is_new() {
        let mut threads = Threads::default();
        let mut seen = |tid, pid, comm: &str, origin, at| {
            threads
                .seen(tid, pid, Some(comm.as_bytes()), origin, Timestamp(at))
                .map(|row| (row.pid, row.comm))
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(seen(7, None, "<...>", Origin::Columns, 1), Some((None, None)));
        assert_eq!(seen(7, None, "<...>", Origin::Columns, 2), None);
        assert_eq!(seen(7, Some(5), "bash", Origin::Columns, 3), Some((Some(5), name("bash"))));
        assert_eq!(seen(7, None, "bash", Origin::Event, 4), None);
        // exec
        assert_eq!(seen(7, None, "fio", Origin::Event, 5), Some((Some(5), name("fio"))));
        // The columns are stale.
        assert_eq!(seen(7, Some(5), "bash", Origin::Columns, 6), None);
        assert_eq!(seen(0, None, "swapper/1", Origin::Event, 7), Some((None, name("<idle>"))));
        assert_eq!(seen(0, None, "swapper/2", Origin::Event, 8), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut threads = Threads::default();
        for tid in 1..=(5 * GENERATION_MAX as u32) {
            assert!(threads.seen(tid, None, Some(b"x"), Origin::Columns, Timestamp(0)).is_some());
            // A busy thread is never forgotten.
            let busy = threads.seen(u32::MAX, None, Some(b"busy"), Origin::Columns, Timestamp(0));
            assert_eq!(busy.is_some(), tid == 1);
        }
        assert!(threads.young.len() + threads.old.len() <= 2 * GENERATION_MAX);
    }
}
