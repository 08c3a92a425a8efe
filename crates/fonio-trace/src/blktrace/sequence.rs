//! Finds lost events from gaps in the sequence numbers.
//!
//! On each processor, the kernel numbers a trace's events (not its notes) from 1. The kernel assigns the
//! number before it reserves space in the relay channel, so an event lost because the channel is full leaves
//! a gap. The numbers of one device on one processor are consecutive. They wrap at 32 bits, and they restart
//! with each trace. A trace filtered after recording (`blkparse -a … -d`) has meaningless gaps everywhere.

use fonio_core::{LostEvents, Timestamp};
use rustc_hash::FxHashMap;

/// Maximum number of tracked combinations of device and processor. No machine has this many. The limit
/// prevents a hostile input from filling memory.
const KEYS_MAX: usize = 16 * 1024;
/// Number of records that a key must have before its gaps can be judged as too many.
const TRUST_AFTER: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u32,
    count: u32,
    after: Timestamp,
    before: Timestamp,
}

#[derive(Debug)]
struct Key {
    device: u32,
    cpu: u32,
    expected: u32,
    last_time: Timestamp,
    /// A gap that is not yet reported, because the sequence number may be damaged or the records may be
    /// swapped.
    gap: Option<Gap>,
    records: u64,
    gaps: u64,
    filtered: bool,
}

/// The result of checking a record's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No event is missing before the record.
    Fine,
    /// Events before the record are missing.
    Lost(LostEvents),
    /// The trace was filtered, so this processor's numbers are ignored from now on.
    Filtered,
}

/// Tracks the sequence numbers of one input.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    keys: Vec<Key>,
    index: FxHashMap<(u32, u32), usize>,
    last: usize,
}

impl Sequences {
    /// Checks the sequence number of an event.
    #[inline(always)]
    pub fn see(&mut self, device: u32, cpu: u32, sequence: u32, time: Timestamp) -> Verdict {
        if let Some(key) = self.keys.get_mut(self.last)
            && key.device == device
            && key.cpu == cpu
            && key.expected == sequence
            && key.gap.is_none()
        {
            key.expected = sequence.wrapping_add(1);
            key.last_time = time;
            key.records += 1;
            return Verdict::Fine;
        }
        self.see_any(device, cpu, sequence, time)
    }

    /// Returns the device and the processor of the previous event, and the sequence number that follows; `None`
    /// if there was no event, or events may be missing before it.
    pub fn run(&self) -> Option<(u32, u32, u32)> {
        let key = self.keys.get(self.last).filter(|key| key.gap.is_none())?;
        Some((key.device, key.cpu, key.expected))
    }

    /// Takes `records` events that continue the [`run`](Sequences::run) without a gap. `expected` is the
    /// sequence number after them, and `last_time` the time of the last of them.
    pub fn continue_run(&mut self, records: u64, expected: u32, last_time: Timestamp) {
        let key = &mut self.keys[self.last];
        assert!(key.gap.is_none(), "a run has no gap");
        key.expected = expected;
        key.last_time = last_time;
        key.records += records;
    }

    /// Returns whether `sequence` is the next number expected for the device and the processor.
    pub fn expects(&self, device: u32, cpu: u32, sequence: u32) -> bool {
        self.index.get(&(device, cpu)).is_some_and(|at| self.keys[*at].expected == sequence)
    }

    #[inline(never)]
    fn see_any(&mut self, device: u32, cpu: u32, sequence: u32, time: Timestamp) -> Verdict {
        self.last = match self.index.get(&(device, cpu)) {
            Some(at) => *at,
            None => {
                if self.keys.len() < KEYS_MAX {
                    self.index.insert((device, cpu), self.keys.len());
                    let expected = sequence.wrapping_add(1);
                    self.keys.push(Key {
                        device,
                        cpu,
                        expected,
                        last_time: time,
                        gap: None,
                        records: 1,
                        gaps: 0,
                        filtered: false,
                    });
                }
                return Verdict::Fine;
            }
        };
        self.keys[self.last].see(sequence, time)
    }

    /// Reports the remaining gaps at the end of the input.
    pub fn finish(&mut self, mut lost: impl FnMut(LostEvents)) {
        for key in &mut self.keys {
            if let Some(gap) = key.gap.take()
                && !key.filtered
            {
                lost(key.lost(gap));
            }
        }
    }
}

impl Key {
    fn see(&mut self, sequence: u32, time: Timestamp) -> Verdict {
        self.records += 1;
        let ahead = sequence.wrapping_sub(self.expected);
        let mut told = None;
        if ahead == 0 {
            told = self.gap.take();
            self.expected = sequence.wrapping_add(1);
        } else if ahead < 1 << 31 {
            let gap = Gap { first: self.expected, count: ahead, after: self.last_time, before: time };
            told = self.gap.replace(gap);
            self.gaps += 1;
            self.expected = sequence.wrapping_add(1);
        } else {
            match &mut self.gap {
                Some(gap) if sequence == gap.first => {
                    // The records are swapped: this record is late, not lost.
                    gap.first = gap.first.wrapping_add(1);
                    gap.count -= 1;
                    if gap.count == 0 {
                        self.gap = None;
                        self.gaps -= 1;
                    }
                }
                Some(gap) if sequence.wrapping_sub(gap.first) < gap.count => {
                    // The previous number was damaged, so counting continues from the number that was
                    // expected before the damaged number.
                    self.gap = None;
                    self.gaps -= 1;
                    self.expected = sequence.wrapping_add(1);
                }
                _ => {
                    // This number shows that another trace begins here.
                    told = self.gap.take();
                    self.expected = sequence.wrapping_add(1);
                }
            }
        }
        self.last_time = time;
        if self.filtered {
            return Verdict::Fine;
        }
        if self.records >= TRUST_AFTER && self.gaps > self.records / 4 {
            self.filtered = true;
            return Verdict::Filtered;
        }
        told.map_or(Verdict::Fine, |gap| Verdict::Lost(self.lost(gap)))
    }

    fn lost(&self, gap: Gap) -> LostEvents {
        LostEvents {
            cpu: Some(self.cpu),
            count: Some(u64::from(gap.count)),
            after: gap.after.min(gap.before),
            before: gap.before.max(gap.after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns (count, after, before) for every gap.
    fn lost(numbers: &[u32]) -> Vec<(u64, u64, u64)> {
        let mut sequences = Sequences::default();
        let mut found = Vec::new();
        let mut take =
            |lost: LostEvents| found.push((lost.count.expect("counted"), lost.after.0, lost.before.0));
        for (time, number) in numbers.iter().enumerate() {
            if let Verdict::Lost(lost) = sequences.see(8, 0, *number, Timestamp(time as u64)) {
                take(lost);
            }
        }
        sequences.finish(take);
        found
    }

    #[test]
    fn gaps() {
        let none: &[(u64, u64, u64)] = &[];
        assert_eq!(lost(&[1, 2, 3]), none);
        assert_eq!(lost(&[900, 901, 902]), none, "a trace may begin anywhere");
        assert_eq!(lost(&[1, 2, 5, 6]), [(2, 1, 2)]);
        assert_eq!(lost(&[1, 2, 5]), [(2, 1, 2)], "a gap before the last record must be reported");
        assert_eq!(lost(&[1, 3, 2, 4]), none, "swapped");
        assert_eq!(lost(&[1, 4, 2, 3, 5]), none, "one record early");
        assert_eq!(lost(&[1, 2, 0x7000_0000, 4, 5]), none, "one damaged number");
        assert_eq!(lost(&[u32::MAX - 1, u32::MAX, 0, 1]), none, "the counter wraps");
        assert_eq!(lost(&[7, 8, 9, 1, 2, 3]), none, "another trace");
        assert_eq!(lost(&[1, 3, 5, 6]), [(1, 0, 1), (1, 1, 2)]);
    }

    #[test]
    fn numbers_of_a_filtered_trace_are_not_believed() {
        let mut sequences = Sequences::default();
        let verdicts: Vec<_> =
            (0..5000).map(|at| sequences.see(8, 0, at * 5, Timestamp(u64::from(at)))).collect();
        assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Filtered).count(), 1);
        assert!(verdicts[1001..].iter().all(|v| *v == Verdict::Fine));
    }
}
