//! Derives waits from looks (samples of procfs). This module only decides: it uses no clock and does not read
//! procfs.
//!
//! A thread that is blocked at two looks and did not run between them was blocked throughout. The thread's
//! wait has a row, from half an interval before the first look until half an interval after the last look. On
//! average, the row has the same length as the wait. A thread that is blocked at a single look is counted for
//! one interval. So each sighting of a blocked thread counts for one interval, which makes the estimated time
//! unbiased.

use fonio_core::{BlockedIn, Nanos, Timestamp, Wait, WaitReason};
use rustc_hash::FxHashMap;

use super::look::{Blocked, OpenFile};
use crate::probes::blocked::ShortWaits;

/// Maximum number of waits with their own rows.
const WAITS_MAX: usize = 1 << 18;
/// Maximum number of files that are kept.
const FILES_MAX: usize = 1 << 16;

/// Length of the periods for which short waits are counted.
const PERIOD: Nanos = Nanos(1_000_000_000);

/// A wait that was still open at the last look.
#[derive(Clone, Copy, Debug)]
struct Open {
    switches: Option<u64>,
    /// The beginning of the first look's interval: halfway between the first look and the previous look.
    began: Timestamp,
    /// The last look at which the wait was seen.
    last: Timestamp,
    looks: u32,
    /// The length of the interval that the first look represents.
    first_interval: Nanos,
    blocked_in: BlockedIn,
    reason: WaitReason,
    file: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    open: FxHashMap<u32, Open>,
    pub waits: Vec<Wait>,
    pub counts: ShortWaits,
    /// The open files of the waits, indexed by file number.
    pub files: Vec<(OpenFile, Timestamp)>,
    numbers: FxHashMap<OpenFile, u32>,
    pub looks: u64,
    /// The time of the last look.
    last: Option<Timestamp>,
    period: u32,
    period_began: Timestamp,
}

impl Tally {
    pub(crate) fn new(began: Timestamp) -> Tally {
        let mut tally = Tally { period_began: began, last: Some(began), ..Tally::default() };
        tally.counts.begin(0, began);
        tally
    }

    /// Processes the threads that were blocked at the look at `at`.
    pub(crate) fn look(&mut self, at: Timestamp, blocked: Vec<Blocked>) {
        let before = self.last.replace(at).unwrap_or(at);
        let interval = at.since(before).unwrap_or_default();
        let middle = before + Nanos(interval.0 / 2);
        self.looks += 1;
        if at.since(self.period_began) >= Some(PERIOD) {
            self.period += 1;
            self.period_began = at;
            self.counts.begin(self.period, at);
        }
        let mut open = std::mem::take(&mut self.open);
        for thread in blocked {
            let same = open.remove(&thread.tid);
            let file = thread.file.and_then(|file| self.number(file, at));
            let still = same.filter(|open| open.switches.is_some() && open.switches == thread.switches);
            let now = match still {
                Some(open) => Open { last: at, looks: open.looks + 1, file: open.file.or(file), ..open },
                None => {
                    same.into_iter().for_each(|ended| self.close(thread.tid, &ended, middle));
                    Open {
                        switches: thread.switches,
                        began: Timestamp(at.0 - interval.0 / 2),
                        last: at,
                        looks: 1,
                        first_interval: interval,
                        blocked_in: thread.blocked_in,
                        reason: thread.reason,
                        file,
                    }
                }
            };
            self.open.insert(thread.tid, now);
        }
        for (tid, ended) in open {
            self.close(tid, &ended, middle);
        }
    }

    /// Ends the tally at `ended`. Waits seen at the last look are still open.
    pub(crate) fn finish(&mut self, ended: Timestamp) {
        for (tid, open) in std::mem::take(&mut self.open) {
            self.close(tid, &open, ended);
        }
        self.waits.sort_unstable_by_key(|wait| (wait.began, wait.tid));
    }

    fn close(&mut self, tid: u32, open: &Open, until: Timestamp) {
        if open.looks < 2 || self.waits.len() >= WAITS_MAX {
            let lasted = match open.looks {
                0 | 1 => open.first_interval,
                _ => until.since(open.began).unwrap_or_default(),
            };
            self.counts.add_wait(self.period, (tid, open.blocked_in, open.reason), lasted);
            return;
        }
        self.waits.push(Wait {
            tid,
            began: open.began,
            ended: Some(until.max(open.last)),
            reason: open.reason,
            request_id: None,
            waker_tid: None,
            blocked_in: Some(open.blocked_in),
            file_id: open.file,
            io_wait: None,
            function: None,
        });
    }

    fn number(&mut self, file: OpenFile, at: Timestamp) -> Option<u32> {
        if let Some(known) = self.numbers.get(&file) {
            return Some(*known);
        }
        let number = u32::try_from(self.files.len()).ok().filter(|number| (*number as usize) < FILES_MAX)?;
        self.files.push((file.clone(), at));
        self.numbers.insert(file, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn thread(tid: u32, switches: u64) -> Blocked {
        Blocked {
            tid,
            pid: tid,
            switches: Some(switches),
            blocked_in: BlockedIn::Fsync,
            reason: WaitReason::Storage,
            file: None,
        }
    }

    #[test]
    fn looks_become_waits() {
        let mut tally = Tally::new(Timestamp(0));
        // At 20 ms no thread is blocked; then thread 7 has one long wait, thread 9 has two short waits, and
        // thread 7 waits again at the end.
        let looks: [&[(u32, u64)]; 7] =
            [&[], &[(7, 1)], &[(7, 1), (9, 5)], &[(7, 1), (9, 6)], &[], &[], &[(7, 2)]];
        for (step, seen) in looks.iter().enumerate() {
            let at = Timestamp((step as u64 + 1) * 20 * MS);
            tally.look(at, seen.iter().map(|&(tid, switches)| thread(tid, switches)).collect());
        }
        tally.finish(Timestamp(150 * MS));
        let rows: Vec<_> = tally
            .waits
            .iter()
            .map(|wait| (wait.tid, wait.began.0 / MS, wait.ended.unwrap().0 / MS))
            .collect();
        assert_eq!(rows, [(7, 30, 90)], "seen at 40, 60 and 80 ms");
        assert_eq!(tally.counts.threads(), [7, 9]);
        assert_eq!(tally.counts.sum_of(9), (2, 40 * MS));
        assert_eq!(tally.counts.sum_of(7), (1, 20 * MS));
    }

    #[test]
    fn without_counts_of_switches_no_wait_is_longer_than_a_look() {
        let mut tally = Tally::new(Timestamp(0));
        for step in 1..=3 {
            tally.look(Timestamp(step * 50 * MS), vec![Blocked { switches: None, ..thread(7, 0) }]);
        }
        tally.finish(Timestamp(160 * MS));
        assert_eq!((tally.waits.len(), tally.counts.sum_of(7)), (0, (3, 150 * MS)));
    }

    /// Compares the estimated sum with the true sum, for waits of many lengths and distances.
    #[test]
    fn the_time_is_estimated_without_bias() {
        let mut random = fonio_core::Random::new(7);
        let mut tally = Tally::new(Timestamp(0));
        let (mut at, mut look, mut switches, mut truth) = (0_u64, 20 * MS, 0, 0);
        while at < 200_000 * MS {
            at += random.below(60 * MS);
            let lasts = random.below(90 * MS);
            while look < at + lasts {
                let seen = if look >= at { vec![thread(7, switches)] } else { Vec::new() };
                tally.look(Timestamp(look), seen);
                look += 20 * MS;
            }
            truth += lasts;
            at += lasts;
            switches += 1;
        }
        tally.finish(Timestamp(look));
        let rows: u64 = tally.waits.iter().map(|wait| wait.ended.unwrap().0 - wait.began.0).sum();
        let found = rows + tally.counts.sum_of(7).1;
        let error = (found as f64 - truth as f64) / truth as f64;
        assert!(error.abs() < 0.02, "{found} ns found, {truth} ns true");
    }
}
