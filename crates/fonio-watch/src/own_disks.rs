//! The disks that each thread used last: a thread's wait is only attributed to a disk on which a request of
//! this thread completed during the wait.

use fonio_core::{DeviceId, Nanos, Request, Timestamp};
use rustc_hash::FxHashMap;

/// Maximum number of threads whose disks are kept. Each thread needs about 50 bytes.
const THREADS_MAX: usize = 4096;
/// Age at which a disk is removed if the table is full. Short waits are counted over about ten seconds.
const HELD: Nanos = Nanos(60_000_000_000);

/// The last requests of a thread, on all disks of the machine.
#[derive(Clone, Copy, Debug)]
struct Last {
    device: DeviceId,
    completed: Timestamp,
    /// When the thread's last request on any other disk completed.
    on_others: Option<Timestamp>,
}

/// The disks of each thread's last requests. Requests and waits must be passed in the order of their ends.
#[derive(Debug, Default)]
pub struct OwnDisks {
    last: FxHashMap<u32, Last>,
}

impl OwnDisks {
    /// Notes the disk of a completed request for the thread that queued it and the thread that caused it.
    pub fn note(&mut self, row: &Request) {
        let Some(completed) = row.completed else { return };
        for tid in [row.tid, row.cause_tid.filter(|cause| Some(*cause) != row.tid)].into_iter().flatten() {
            self.note_for(tid, row.device, completed);
        }
    }

    fn note_for(&mut self, tid: u32, device: DeviceId, completed: Timestamp) {
        if self.last.len() >= THREADS_MAX && !self.last.contains_key(&tid) {
            self.last.retain(|_, last| last.completed.0 + HELD.0 >= completed.0);
            if self.last.len() >= THREADS_MAX {
                self.last.clear();
            }
        }
        let last = self.last.entry(tid).or_insert(Last { device, completed, on_others: None });
        if last.device != device {
            *last = Last { device, completed, on_others: Some(last.completed) };
        }
        last.completed = completed;
    }

    /// Returns the disk of the last request that completed between two times, and that belongs to the blocked
    /// thread or to the thread that woke it.
    pub fn of_wait(
        &self,
        tids: impl Iterator<Item = u32>,
        (began, ended): (Timestamp, Timestamp),
    ) -> Option<DeviceId> {
        let last = tids.filter_map(|tid| self.last.get(&tid));
        let within = last.filter(|last| (began..=ended).contains(&last.completed));
        within.max_by_key(|last| last.completed).map(|last| last.device)
    }

    /// Returns the only disk on which requests of a thread completed since `from`; `None` if there are
    /// several disks, because the sum of several waits does not show how long the waits on each disk were.
    pub fn only_one_since(&self, tid: u32, from: Timestamp) -> Option<DeviceId> {
        let last = self.last.get(&tid).filter(|last| last.completed >= from)?;
        last.on_others.is_none_or(|others| others < from).then_some(last.device)
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, Op};

    use super::*;

    const A: DeviceId = DeviceId(8 << 20);
    const B: DeviceId = DeviceId(8 << 20 | 16);

    fn disks(requests: &[(DeviceId, u32, u32, u64)]) -> OwnDisks {
        let mut disks = OwnDisks::default();
        for (device, tid, cause, completed) in requests {
            disks.note(&Request {
                tid: Some(*tid),
                cause_tid: Some(*cause),
                completed: Some(Timestamp(*completed)),
                ..Request::new(*device, Op::Write, ByteCount(4096))
            });
        }
        disks
    }

    #[test]
    fn a_wait_is_on_the_disk_of_the_request_that_ended_it() {
        // Thread 9 writes for thread 7; thread 7 itself uses another disk.
        let disks = disks(&[(A, 7, 7, 100), (B, 9, 7, 110), (A, 8, 8, 118)]);
        let of = |tids: &[u32], began, ended| {
            disks.of_wait(tids.iter().copied(), (Timestamp(began), Timestamp(ended)))
        };
        assert_eq!(of(&[7], 90, 120), Some(B));
        assert_eq!(of(&[7, 8], 90, 120), Some(A));
        for (tids, began, ended) in [(7, 111, 120), (7, 90, 109), (5, 90, 120)] {
            assert_eq!(of(&[tids], began, ended), None, "{tids} {began} {ended}");
        }
    }

    #[test]
    fn a_sum_of_waits_is_on_a_disk_only_if_the_thread_used_no_other() {
        let disks = disks(&[(A, 7, 7, 100), (B, 7, 7, 110), (B, 7, 7, 120)]);
        let since = |from| disks.only_one_since(7, Timestamp(from));
        assert_eq!((since(100), since(101), since(120), since(121)), (None, Some(B), Some(B), None));
    }

    #[test]
    fn the_table_is_bounded() {
        let second = 1_000_000_000;
        let many: Vec<_> = (0..5000).map(|tid| (A, tid, tid, u64::from(tid) * second)).collect();
        let disks = disks(&many);
        assert!(disks.last.len() <= THREADS_MAX);
        assert_eq!(disks.only_one_since(4999, Timestamp(0)), Some(A));
    }
}
