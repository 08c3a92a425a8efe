//! Finds stalls in completed waits: spans in which program threads were blocked on storage for at least a
//! threshold.
//!
//! A thread in one fsync is blocked many times, each time for a page or a request. Such waits are counted as
//! one wait if the thread runs only briefly between them.

use std::time::Duration;

use fonio_core::{Nanos, Timestamp};
use fonio_record::observer::ObservedWait;
use rustc_hash::FxHashMap;

/// Maximum pause between two waits of a thread that are counted as one wait, if the thread is blocked most of
/// the time.
const PAUSE: Nanos = Nanos(20_000_000);
const BLOCKED_PERCENT: u64 = 80;
/// Maximum number of threads whose last waits are stored.
const THREADS_MAX: usize = 1024;
/// Maximum pause between two long waits that are counted as one stall.
const GAP: Nanos = Nanos(5_000_000_000);
/// Delay between the end of a stall and its report. Waits that began during the stall can end later, and the
/// watch receives requests only about once a second.
const SETTLED: Nanos = Nanos(6_000_000_000);
/// Time after which a stall that has not ended is reported.
const GOES_ON: Nanos = Nanos(60_000_000_000);
const PARTIES_MAX: usize = 8;

/// A span in which program threads were blocked on storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundStall {
    /// Start of the first long wait in the stall.
    pub began: Timestamp,
    /// End of the last long wait; if this wait has not ended, the last time at which it was observed.
    pub ended: Timestamp,
    /// The longest wait in the stall.
    pub worst: ObservedWait,
    /// The longest wait of each other party with long waits.
    pub others: Vec<ObservedWait>,
    /// Whether the stall had not ended when it was reported.
    pub goes_on: bool,
}

/// Waits of one thread with only short pauses between them.
#[derive(Clone, Debug)]
struct Chain {
    began: Timestamp,
    ended: Timestamp,
    /// Total blocked time of the waits, and the longest of these waits.
    blocked: u64,
    longest: u64,
    wait: ObservedWait,
}

impl Chain {
    /// Starts a chain with a wait whose blocked time is not yet counted.
    fn of(wait: &ObservedWait, ended: Timestamp) -> Chain {
        Chain { began: wait.row.began, ended, blocked: 0, longest: 0, wait: wait.clone() }
    }
}

/// Finds stalls in the waits of threads, and stores the current stall.
#[derive(Debug)]
pub struct StallFinder {
    threshold: Duration,
    open: Option<FoundStall>,
    /// The last waits of each thread.
    chains: FxHashMap<u32, Chain>,
    /// Waits that were reported before they ended, each with its thread and start time.
    told: Vec<(u32, Timestamp)>,
}

/// Returns the length of a wait; `until` is its end if it has not ended.
pub fn lasted(wait: &ObservedWait, until: Timestamp) -> u64 {
    wait.row.ended.unwrap_or(until).0.saturating_sub(wait.row.began.0)
}

impl StallFinder {
    /// Creates a finder of stalls with waits of at least `threshold`.
    pub fn new(threshold: Duration) -> StallFinder {
        StallFinder { threshold, open: None, chains: FxHashMap::default(), told: Vec::new() }
    }

    /// Adds a completed wait. Returns the previous stall if this wait starts a new stall.
    pub fn see(&mut self, wait: &ObservedWait) -> Option<FoundStall> {
        let ended = wait.row.ended?;
        if !wait.is_for_storage() {
            return None;
        }
        if let Some(at) = self.told.iter().position(|told| *told == (wait.row.tid, wait.row.began)) {
            self.told.remove(at);
            return None;
        }
        if self.chains.len() >= THREADS_MAX && !self.chains.contains_key(&wait.row.tid) {
            self.chains.retain(|_, chain| chain.ended.0 + PAUSE.0 >= wait.row.began.0);
            if self.chains.len() >= THREADS_MAX {
                self.chains.clear();
            }
        }
        let lasted = ended.0.saturating_sub(wait.row.began.0);
        let chain = self.chains.entry(wait.row.tid).or_insert(Chain::of(wait, ended));
        if wait.row.began.0 > chain.ended.0 + PAUSE.0 {
            *chain = Chain::of(wait, ended);
        }
        chain.blocked += lasted;
        chain.ended = chain.ended.max(ended);
        if lasted > chain.longest {
            chain.longest = lasted;
            chain.wait = wait.clone();
        }
        let span = chain.ended.0.saturating_sub(chain.began.0);
        let is_long =
            Duration::from_nanos(span) >= self.threshold && chain.blocked * 100 >= span * BLOCKED_PERCENT;
        if !is_long {
            return None;
        }
        let (mut joined, ended) = (chain.wait.clone(), chain.ended);
        (joined.row.began, joined.row.ended) = (chain.began, Some(ended));
        self.add(&joined, ended, false)
    }

    fn add(&mut self, wait: &ObservedWait, ended: Timestamp, goes_on: bool) -> Option<FoundStall> {
        let new =
            FoundStall { began: wait.row.began, ended, worst: wait.clone(), others: Vec::new(), goes_on };
        let Some(open) = self.open.as_mut().filter(|open| wait.row.began.0 <= open.ended.0 + GAP.0) else {
            return self.open.replace(new);
        };
        let mut other = wait.clone();
        if lasted(wait, ended) > lasted(&open.worst, open.ended) {
            other = std::mem::replace(&mut open.worst, wait.clone());
        }
        if other.party != open.worst.party {
            match open.others.iter().position(|known| known.party == other.party) {
                Some(at) if lasted(&other, ended) > lasted(&open.others[at], ended) => {
                    open.others[at] = other
                }
                None if open.others.len() < PARTIES_MAX => open.others.push(other),
                _ => {}
            }
        }
        open.others.retain(|other| other.party != open.worst.party);
        open.began = open.began.min(wait.row.began);
        open.ended = open.ended.max(ended);
        open.goes_on |= goes_on;
        None
    }

    /// Adds the waits that have not ended at `now`. A wait that lasts for a minute is reported once, before
    /// it ends.
    pub fn see_open(&mut self, waits: &[ObservedWait], now: Timestamp) {
        self.told.retain(|told| waits.iter().any(|wait| (wait.row.tid, wait.row.began) == *told));
        for wait in waits.iter().filter(|wait| wait.is_for_storage()) {
            let key = (wait.row.tid, wait.row.began);
            if now.0.saturating_sub(wait.row.began.0) < GOES_ON.0 || self.told.contains(&key) {
                continue;
            }
            self.told.push(key);
            self.add(wait, now, true);
        }
    }

    /// Returns the current stall if it has ended and no further wait can be added to it.
    pub fn ripe(&mut self, now: Timestamp) -> Option<FoundStall> {
        let is_ripe = self.open.as_ref().is_some_and(|open| now.0 > open.ended.0 + SETTLED.0 || open.goes_on);
        if is_ripe { self.open.take() } else { None }
    }

    /// Returns the current stall when the watch ends.
    pub fn finish(&mut self) -> Option<FoundStall> {
        self.open.take()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fonio_core::{BlockedIn, Wait, WaitReason};
    use fonio_record::observer::PartyId;

    use super::*;

    pub(crate) fn wait(party: u32, began_ms: u64, ended_ms: u64) -> ObservedWait {
        let row = Wait {
            tid: party + 100,
            began: Timestamp(began_ms * 1_000_000),
            ended: Some(Timestamp(ended_ms * 1_000_000)),
            reason: WaitReason::Storage,
            request_id: None,
            waker_tid: None,
            blocked_in: Some(BlockedIn::Fsync),
            file_id: None,
            io_wait: None,
            function: None,
        };
        ObservedWait { row, party: PartyId(party), comm: format!("thread {party}"), file: None }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp(ms * 1_000_000)
    }

    #[test]
    fn long_waits_that_follow_each_other_are_one_stall() {
        let mut finder = StallFinder::new(Duration::from_secs(1));
        let mut kernel = wait(9, 0, 5000);
        kernel.row.blocked_in = Some(BlockedIn::KernelThread);
        for short in [wait(4, 0, 999), kernel] {
            assert_eq!(finder.see(&short), None);
        }
        assert_eq!(finder.ripe(at(100_000)), None);
        finder.see(&wait(1, 1000, 2500));
        finder.see(&wait(2, 1200, 4800));
        finder.see(&wait(1, 3000, 5000));
        assert_eq!(finder.ripe(at(8000)), None);
        let next = finder.see(&wait(3, 20_000, 22_000)).unwrap();
        assert_eq!((next.began, next.ended, next.worst.party), (at(1000), at(5000), PartyId(2)));
        let others: Vec<_> = next.others.iter().map(|wait| (wait.party, wait.row.began)).collect();
        assert_eq!(others, [(PartyId(1), at(3000))], "its longest wait");
        assert_eq!(finder.ripe(at(28_001)).unwrap().worst.party, PartyId(3));
        assert_eq!(finder.finish(), None);
    }

    #[test]
    fn waits_of_one_thread_with_short_pauses_are_one() {
        let mut finder = StallFinder::new(Duration::from_secs(1));
        (0..10).for_each(|n| assert_eq!(finder.see(&wait(1, n * 310, n * 310 + 300)), None));
        // Thread 2 ran half of the time, so it was slow but did not stall.
        (0..100).for_each(|n| assert_eq!(finder.see(&wait(2, n * 30, n * 30 + 15)), None));
        // Thread 3 of the same party pauses too long between its waits.
        (0..10).for_each(|n| assert_eq!(finder.see(&wait(3, n * 400, n * 400 + 300)), None));
        let stall = finder.ripe(at(30_000)).unwrap();
        assert_eq!(
            (stall.worst.party, stall.worst.row.began, stall.worst.row.ended),
            (PartyId(1), at(0), Some(at(3090)))
        );
        assert_eq!(stall.others, []);
    }

    #[test]
    fn a_stall_has_the_name_of_the_thread_that_waited() {
        let mut finder = StallFinder::new(Duration::from_secs(1));
        let named = |comm: &str, began_ms, ended_ms| ObservedWait {
            comm: comm.to_owned(),
            ..wait(1, began_ms, ended_ms)
        };
        finder.see(&named("backup", 1000, 2500));
        // Before the report, the thread executes another program, or another thread gets its number.
        finder.see(&named("sh", 2510, 2520));
        finder.see(&named("sh", 5000, 5008));
        assert_eq!(finder.ripe(at(8521)).unwrap().worst.comm, "backup");
    }

    #[test]
    fn a_wait_that_goes_on_is_told_once() {
        let mut finder = StallFinder::new(Duration::from_secs(1));
        let mut hung = wait(1, 1000, 0);
        hung.row.ended = None;
        let hung = [hung];
        finder.see_open(&hung, at(40_000));
        assert_eq!(finder.ripe(at(40_000)), None);
        finder.see_open(&hung, at(70_000));
        let told = finder.ripe(at(70_000)).unwrap();
        assert!(told.goes_on && told.ended == at(70_000));
        finder.see_open(&hung, at(130_000));
        assert_eq!(finder.ripe(at(130_000)), None);
        // The end of a wait that was already reported is not a second stall.
        assert_eq!(finder.see(&wait(1, 1000, 140_000)), None);
        assert_eq!(finder.finish(), None);
    }
}
