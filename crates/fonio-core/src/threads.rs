//! Keeps the names of threads over time, in bounded memory. Trace readers create the rows of the `threads`
//! table from these names.

use rustc_hash::FxHashMap;

use crate::rows::Thread;
use crate::units::Timestamp;

/// Maximum number of threads in one generation; at most two generations are kept.
const GENERATION_MAX: usize = 16 * 1024;

/// Maximum number of stored bytes of a thread's name. Names of threads have at most 15 bytes, but names of
/// kernel workers have up to 63.
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    pid: Option<u32>,
    comm: Option<Box<[u8]>>,
    /// Whether the name comes from an event, see [`NameOrigin::Event`].
    from_event: bool,
}

/// Number of threads whose last call is kept: more than run on the processors of a phone at the same time.
const RECENT: usize = 64;

/// Maximum length of a name that is kept with the last call of a thread, as in the kernel.
const RECENT_NAME_BYTES: usize = 15;

/// The last call of [`SeenThreads::seen`] for a thread. A call that repeats it gives no row, so no table needs to be
/// searched. Most calls do, because most events are of a thread that just had another one.
#[derive(Clone, Copy, Debug)]
struct Recent {
    tid: u32,
    pid: Option<u32>,
    /// Where the name comes from; `None` if the name is unknown or long.
    origin: Option<NameOrigin>,
    length: u8,
    name: [u8; RECENT_NAME_BYTES],
    /// Whether this place is in use.
    is_set: bool,
}

impl Recent {
    const NONE: Recent =
        Recent { tid: 0, pid: None, origin: None, length: 0, name: [0; RECENT_NAME_BYTES], is_set: false };

    #[inline]
    fn says(&self, tid: u32, pid: Option<u32>, comm: Option<&[u8]>, origin: NameOrigin) -> bool {
        let is_name =
            |comm: &[u8]| self.origin == Some(origin) && &self.name[..usize::from(self.length)] == comm;
        self.is_set && self.tid == tid && (pid.is_none() || pid == self.pid) && comm.is_none_or(is_name)
    }

    fn set(&mut self, tid: u32, pid: Option<u32>, comm: Option<&[u8]>, origin: NameOrigin) {
        if !self.is_set || self.tid != tid {
            *self = Recent { tid, is_set: true, ..Recent::NONE };
        }
        self.pid = pid.or(self.pid);
        let Some(comm) = comm else { return };
        let is_short = comm.len() <= RECENT_NAME_BYTES;
        self.origin = is_short.then_some(origin);
        if is_short {
            self.length = comm.len() as u8;
            self.name[..comm.len()].copy_from_slice(comm);
        }
    }
}

/// Where a thread's name in a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrigin {
    /// The columns before the event in a line of the trace. They show the name that the kernel saved last.
    /// This name can be older than the event or, in a `trace` file, newer. So it never replaces a name from
    /// an event.
    Columns,
    /// The event itself, which shows the thread's name at the time of the event.
    Event,
}

/// The threads that a reader saw recently, and their known properties. An evicted thread gets a new row when
/// it reappears.
#[derive(Debug)]
pub struct SeenThreads {
    young: FxHashMap<u32, Known>,
    old: FxHashMap<u32, Known>,
    /// The last call of some threads of the young generation, each in the place of its number.
    recent: [Recent; RECENT],
    generation: u64,
}

impl Default for SeenThreads {
    fn default() -> SeenThreads {
        SeenThreads {
            young: FxHashMap::default(),
            old: FxHashMap::default(),
            recent: [Recent::NONE; RECENT],
            generation: 0,
        }
    }
}

impl SeenThreads {
    /// Records a thread, and returns a row if its properties are new.
    #[inline]
    pub fn seen(
        &mut self,
        tid: u32,
        pid: Option<u32>,
        comm: Option<&[u8]>,
        origin: NameOrigin,
        at: Timestamp,
    ) -> Option<Thread> {
        let place = tid as usize % RECENT;
        if self.recent[place].says(tid, pid, comm, origin) {
            return None;
        }
        let row = self.search(tid, pid, comm, origin, at);
        self.recent[place].set(tid, pid, comm, origin);
        row
    }

    /// Returns the number of generations that were evicted. Within a generation, a call that repeats the last call for a
    /// thread gives no row.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Does the same as [`SeenThreads::seen`], without the recent calls.
    fn search(
        &mut self,
        tid: u32,
        pid: Option<u32>,
        comm: Option<&[u8]>,
        origin: NameOrigin,
        at: Timestamp,
    ) -> Option<Thread> {
        // Each processor has its own idle thread. All idle threads have the id 0, but different names.
        let comm = if tid == 0 { Some(b"<idle>".as_slice()) } else { comm.filter(|comm| *comm != b"<...>") };
        let comm = comm.map(|comm| &comm[..comm.len().min(NAME_BYTES_MAX)]);
        let pid = pid.filter(|_| tid != 0);

        if let Some(known) = self.young.get_mut(&tid) {
            return known.update(pid, comm, origin).then(|| known.row(tid, at));
        }
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
            self.recent = [Recent::NONE; RECENT];
            self.generation += 1;
        }
        let remembered = self.old.remove(&tid);
        let forgotten = remembered.is_none();
        let known = self.young.entry(tid).or_insert(remembered.unwrap_or_default());
        (known.update(pid, comm, origin) || forgotten).then(|| known.row(tid, at))
    }
}

impl Known {
    /// Updates the known properties, and returns whether any of them changed.
    fn update(&mut self, pid: Option<u32>, comm: Option<&[u8]>, origin: NameOrigin) -> bool {
        let mut changed = false;
        if pid.is_some() && pid != self.pid {
            self.pid = pid;
            changed = true;
        }
        if let Some(comm) = comm
            && (origin == NameOrigin::Event || !self.from_event)
        {
            self.from_event |= origin == NameOrigin::Event;
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
        let mut threads = SeenThreads::default();
        let mut seen = |tid, pid, comm: &str, origin, at| {
            threads
                .seen(tid, pid, Some(comm.as_bytes()), origin, Timestamp(at))
                .map(|row| (row.pid, row.comm))
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(seen(7, None, "<...>", NameOrigin::Columns, 1), Some((None, None)));
        assert_eq!(seen(7, None, "<...>", NameOrigin::Columns, 2), None);
        assert_eq!(seen(7, Some(5), "bash", NameOrigin::Columns, 3), Some((Some(5), name("bash"))));
        assert_eq!(seen(7, None, "bash", NameOrigin::Event, 4), None);
        // The thread has called exec.
        assert_eq!(seen(7, None, "fio", NameOrigin::Event, 5), Some((Some(5), name("fio"))));
        // The columns show an old name.
        assert_eq!(seen(7, Some(5), "bash", NameOrigin::Columns, 6), None);
        assert_eq!(seen(0, None, "swapper/1", NameOrigin::Event, 7), Some((None, name("<idle>"))));
        assert_eq!(seen(0, None, "swapper/2", NameOrigin::Event, 8), None);
    }

    proptest::proptest! {
        /// The recent calls change no row.
        #[test]
        fn rows_are_those_of_a_search(
            calls in proptest::collection::vec((0_u32..4, 0_u32..3, 0_usize..7, proptest::bool::ANY), 0..200)
        ) {
            const NAMES: [Option<&str>; 7] = [
                None,
                Some(""),
                Some("a"),
                Some("<...>"),
                Some("a-name-of-15-let"),
                Some("kworker/u8:2-flush-8:0"),
                Some("kworker/u8:2-flush-8:1"),
            ];
            let (mut fast, mut naive) = (SeenThreads::default(), SeenThreads::default());
            for (tid, pid, name, is_event) in calls {
                // Some threads share a place.
                let tid = if tid == 3 { RECENT as u32 + 1 } else { tid };
                let pid = Some(pid).filter(|pid| *pid > 0);
                let comm = NAMES[name].map(str::as_bytes);
                let origin = if is_event { NameOrigin::Event } else { NameOrigin::Columns };
                let row = fast.seen(tid, pid, comm, origin, Timestamp(1));
                proptest::prop_assert_eq!(row, naive.search(tid, pid, comm, origin, Timestamp(1)));
            }
        }
    }

    #[test]
    fn an_evicted_thread_gets_a_row_again() {
        let mut threads = SeenThreads::default();
        let mut seen = |tid| threads.seen(tid, None, Some(b"x"), NameOrigin::Event, Timestamp(0)).is_some();
        assert!(seen(1) && !seen(1));
        // No other thread has the place of this one.
        let mut others = (2..3 * GENERATION_MAX as u32).filter(|tid| tid % RECENT as u32 != 1);
        assert!(others.all(&mut seen));
        assert!(seen(1) && !seen(1));
    }

    #[test]
    fn memory_is_bounded() {
        let mut threads = SeenThreads::default();
        for tid in 1..=(5 * GENERATION_MAX as u32) {
            assert!(threads.seen(tid, None, Some(b"x"), NameOrigin::Columns, Timestamp(0)).is_some());
            let busy = threads.seen(u32::MAX, None, Some(b"busy"), NameOrigin::Columns, Timestamp(0));
            assert_eq!(busy.is_some(), tid == 1);
        }
        assert!(threads.young.len() + threads.old.len() <= 2 * GENERATION_MAX);
    }
}
