//! Detects when a command that does not end on its own becomes quiet.
//!
//! Every few milliseconds, the watch reads the processor time of the command's threads
//! (`/proc/TID/schedstat`), and whether one of these threads is in an uninterruptible sleep. An
//! uninterruptible sleep is usually a wait for storage, so such a sleep counts as busy. The command is quiet
//! when the busy time in the last samples is below a given share of the time that the last samples span. The
//! quiet period began with the first sample below the given share. The watch misses processes that start and
//! end between two samples.

use std::collections::VecDeque;
use std::time::Duration;

use fonio_core::{Nanos, Timestamp};
use fonio_machine::Machine;
use rustc_hash::FxHashMap;

use crate::options::Quiet;

/// Time between two samples of the command's threads.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Recent samples of the processor time of a command's threads.
pub(crate) struct IdleWatch {
    quiet: Quiet,
    ran: FxHashMap<u32, Nanos>,
    before: Timestamp,
    window: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    began: Timestamp,
    ended: Timestamp,
    busy: Nanos,
}

impl Sample {
    fn is_below(self, share: f64) -> bool {
        (self.busy.0 as f64) < share * (self.ended.0 - self.began.0) as f64
    }
}

impl IdleWatch {
    pub(crate) fn new(quiet: Quiet, now: Timestamp) -> IdleWatch {
        IdleWatch { quiet, ran: FxHashMap::default(), before: now, window: VecDeque::new() }
    }

    /// Takes a sample of the command's threads. Once the command has been quiet for long enough, returns the
    /// start of the quiet period.
    pub(crate) fn look(&mut self, machine: &Machine, tids: &[u32], now: Timestamp) -> Option<Timestamp> {
        let mut busy = Nanos(0);
        let mut ran_now = FxHashMap::default();
        let mut in_storage = false;
        for &tid in tids {
            let task = machine.task(tid);
            let Some(schedule) = task.schedule() else { continue };
            let ran = Nanos(u64::try_from(schedule.ran.as_nanos()).unwrap_or(u64::MAX));
            busy += ran - self.ran.get(&tid).copied().unwrap_or_default();
            ran_now.insert(tid, ran);
            in_storage |= task.stat().is_some_and(|stat| stat.state == 'D');
        }
        self.ran = ran_now;
        if in_storage {
            busy = busy.max(Nanos(now.0 - self.before.0));
        }
        self.add(busy, now)
    }

    fn add(&mut self, busy: Nanos, now: Timestamp) -> Option<Timestamp> {
        self.window.push_back(Sample { began: self.before, ended: now, busy });
        self.before = now;
        let lasting = u64::try_from(self.quiet.lasting.as_nanos()).unwrap_or(u64::MAX);
        while self.window.get(1).is_some_and(|second| now.0 - second.began.0 >= lasting) {
            self.window.pop_front();
        }
        let began = self.window.front()?.began;
        let busy = self.window.iter().fold(Nanos(0), |sum, sample| sum + sample.busy);
        let whole = Sample { began, ended: now, busy };
        if now.0 - began.0 < lasting || !whole.is_below(self.quiet.below_share) {
            return None;
        }
        let first = self.window.iter().find(|sample| sample.is_below(self.quiet.below_share));
        first.map(|sample| sample.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns when a quiet period was detected and when it began, for samples of 10 ms with these busy
    /// milliseconds.
    fn quiet(busy_ms: &[u64]) -> Option<(u64, u64)> {
        let quiet = Quiet { below_share: 0.1, lasting: Duration::from_millis(50) };
        let mut watch = IdleWatch::new(quiet, Timestamp(0));
        busy_ms.iter().zip(1..).find_map(|(busy, at)| {
            let since = watch.add(Nanos(busy * MS), Timestamp(at * 10 * MS))?;
            Some((at * 10, since.0 / MS))
        })
    }

    #[test]
    fn quiet_is_a_share_below_for_a_time() {
        assert_eq!(quiet(&[10, 10, 0, 0, 0, 0, 0, 0]), Some((70, 20)));
        // The third sample is partly busy, so it is not quiet.
        assert_eq!(quiet(&[10, 10, 2, 0, 0, 0, 0, 0]), Some((70, 30)));
        assert_eq!(quiet(&[10, 0, 0, 10, 0, 0, 0, 0, 0]), Some((90, 40)));
        assert_eq!(quiet(&[1, 1, 1, 1, 1, 1, 1, 1, 1]), None);
        assert_eq!(quiet(&[0, 0, 0, 0]), None);
    }

    #[test]
    fn this_thread_takes_time() {
        let machine = Machine::here();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut watch =
            IdleWatch::new(Quiet { below_share: 0.1, lasting: Duration::from_secs(9) }, Timestamp(0));
        // The kernel accounts a thread's time when the thread leaves its processor.
        std::thread::sleep(Duration::from_millis(1));
        watch.look(&machine, &[tid], Timestamp(10 * MS));
        assert!(watch.ran.get(&tid).is_some_and(|ran| *ran > Nanos(0)));
    }
}
