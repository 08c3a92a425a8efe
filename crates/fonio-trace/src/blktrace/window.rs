//! Sorts events that are nearly in time order.
//!
//! The window collects events, keeps the last events back, and sorts them together with the next events. The
//! number of events kept back depends on the disorder. The file of one processor has no disorder, and a
//! merged file has almost none. The output of blktrace to a pipe (`-o -`) interleaves complete relay buffers.

use fonio_core::{Batch, BlockEvent, Timestamp};

/// Number of events per batch while all events are in order, small enough for the second-level cache.
const BATCH: usize = 4096;
/// Numbers of events kept back: while all events are in order, after a swap of neighbouring events, and after
/// greater disorder. The last number covers five relay buffers of blktrace's default size (512 KiB, about
/// 10,000 records).
const HOLD: [usize; 3] = [256, 4096, 64 * 1024];
/// The initial window is the widest, because the kind of trace is unknown.
const FIRST: usize = 2;
/// Number of ordered batches after which the window becomes narrow again.
const CALM: u32 = 16;

/// The sorting window.
#[derive(Debug)]
pub(crate) struct Window {
    /// The events kept back, followed by later events.
    events: Vec<BlockEvent>,
    /// Events that were kept back from the last batch. They stay here until the caller returns the memory of
    /// that batch.
    held: Vec<BlockEvent>,
    level: usize,
    /// Number of events that makes a batch complete.
    enough: usize,
    newest: u64,
    disordered: bool,
    /// Number of further ordered batches until the window becomes narrow.
    uneasy: u32,
    given_until: u64,
    /// Number of events that came too late to be sorted.
    pub late: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            events: Vec::new(),
            held: Vec::new(),
            level: FIRST,
            enough: HOLD[FIRST] + BATCH,
            newest: 0,
            disordered: false,
            uneasy: 0,
            given_until: 0,
            late: 0,
        }
    }
}

impl Window {
    /// Takes over the memory of the previous batch. Reusing one buffer instead of two leaves more of the
    /// processor's cache for other data.
    pub fn begin(&mut self, batch: &mut Batch) {
        batch.events.clear();
        if self.events.is_empty() {
            std::mem::swap(&mut self.events, &mut batch.events);
        }
        self.events.reserve(HOLD[self.level] + BATCH);
        self.events.append(&mut self.held);
    }

    #[inline]
    pub fn push(&mut self, event: BlockEvent) {
        self.push_with(event.time.0, || event);
    }

    /// Appends an event with this time. The event is built in place to save a copy.
    #[inline(always)]
    pub fn push_with(&mut self, time: u64, event: impl FnOnce() -> BlockEvent) {
        if time < self.newest {
            self.disorder(time);
            self.enough = self.enough();
        }
        self.newest = time;
        self.events.push(event());
    }

    /// Widens the window for an event out of order. `newest` is the previous event's time, so this method is
    /// called once per ordered run.
    #[cold]
    fn disorder(&mut self, time: u64) {
        self.disordered = true;
        while self.level + 1 < HOLD.len() {
            let near = self.events.iter().rev().take(HOLD[self.level] / 2);
            if near.len() == self.events.len() || near.into_iter().any(|event| event.time.0 <= time) {
                return;
            }
            self.level += 1;
        }
    }

    /// Returns the number of events that makes a batch complete.
    fn enough(&self) -> usize {
        HOLD[self.level] + BATCH.max(if self.disordered { HOLD[self.level] / 2 } else { 0 })
    }

    /// Returns whether there are enough events for a batch.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.events.len() >= self.enough
    }

    /// Moves the events that are old enough into `batch`, or all events at the end of the input.
    pub fn give(&mut self, batch: &mut Batch, ended: bool) {
        debug_assert!(batch.events.is_empty());
        if self.disordered {
            self.events.sort_by_key(|event| event.time);
            self.uneasy = CALM;
        } else if self.uneasy > 0 {
            self.uneasy -= 1;
        } else if !ended {
            self.level = 0;
        }
        let give = if ended { self.events.len() } else { self.events.len().saturating_sub(HOLD[self.level]) };
        self.held.extend_from_slice(&self.events[give..]);
        self.events.truncate(give);
        std::mem::swap(&mut batch.events, &mut self.events);
        if self.disordered {
            let until = Timestamp(self.given_until);
            self.late += batch.events.partition_point(|event| event.time < until) as u64;
            self.disordered = false;
        }
        if let Some(last) = batch.events.last() {
            self.given_until = self.given_until.max(last.time.0);
        }
        self.newest = self.held.last().map_or(0, |event| event.time.0).max(self.given_until);
        self.enough = self.enough();
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{DeviceId, EventKind};

    use super::*;

    fn event(time: u64) -> BlockEvent {
        BlockEvent::new(Timestamp(time), EventKind::Issue, DeviceId(0))
    }

    /// Sends the times through a window. Returns the times in the order of output, and the number of late
    /// times.
    fn through(times: impl Iterator<Item = u64>) -> (Vec<u64>, u64) {
        let mut window = Window::default();
        let mut batch = Batch::default();
        let mut out = Vec::new();
        for time in times {
            window.push(event(time));
            if window.is_full() {
                batch.clear();
                window.give(&mut batch, false);
                out.extend(batch.events.iter().map(|e| e.time.0));
                window.begin(&mut batch);
            }
        }
        batch.clear();
        window.give(&mut batch, true);
        out.extend(batch.events.iter().map(|e| e.time.0));
        (out, window.late)
    }

    #[test]
    fn order_is_restored_within_the_window() {
        let n = 300_000u64;
        let sorted: Vec<u64> = (0..n).collect();
        assert!(through(0..n) == (sorted.clone(), 0), "in order");
        assert!(through((0..n).map(|i| i ^ 1)) == (sorted.clone(), 0), "neighbours swapped");
        // Alternating buffers of 10,000 records from two processors.
        let piped = (0..n).map(|i| {
            let (buffer, within) = (i / 10_000, i % 10_000);
            (buffer / 2 * 10_000 + within) * 2 + buffer % 2
        });
        assert!(through(piped) == (sorted.clone(), 0), "piped");
        // Swaps of neighbours after a long ordered part are still corrected.
        let late_swap = (0..n).map(|i| if i >= 200_000 { i ^ 1 } else { i });
        assert!(through(late_swap) == (sorted, 0), "late swaps");
    }

    #[test]
    fn one_time_far_ahead_does_not_disturb_the_rest() {
        let (out, late) = through((0..100_000).map(|i| if i == 50_000 { 1 << 40 } else { i }));
        assert_eq!(late, 0);
        assert!(out.is_sorted());
        assert_eq!(out.len(), 100_000);
    }

    #[test]
    fn what_comes_too_late_is_counted() {
        let (out, late) = through((100_000..300_000).chain(0..10));
        assert_eq!(out.len(), 200_010);
        assert_eq!(late, 10);
    }
}
