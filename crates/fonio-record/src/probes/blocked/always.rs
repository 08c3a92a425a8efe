//! The probe for a permanent watch, which reports a limited number of long waits one by one, and counts the
//! short waits.

use fonio_core::{BlockedCount, Nanos, Timestamp, WaitReason};
use fonio_machine::Machine;

use super::layout::{IOWAIT, ShortKey};
use super::{BlockedProbe, BlockedWait, judgement, short};
use crate::attribution::thread_names::{ReportedThread, ThreadNames};
use crate::probes::bpf::Unavailable;

/// How long short waits are counted in the kernel before the counts are taken.
const PERIOD_NS: u64 = 10_000_000_000;
/// The minimum and maximum threshold, and the maximum number of long waits per second. A long wait costs
/// about 12 µs (see [`shedding`](super::shedding)), so all long waits together cost about 0.06 % of one
/// processor.
const THRESHOLD_MIN_NS: u64 = 8_000_000;
const THRESHOLD_MAX_NS: u64 = 512_000_000;
const LONG_WAITS_PER_S: u64 = 50;
/// Maximum number of threads whose names are kept.
const NAMES_MAX: usize = 4096;

/// The sizes of the kernel tables, and of the ring buffer in bytes. The sizes for a recording would take 20
/// MiB.
const SIZES: [(&str, u32); 8] = [
    ("sleepers", 2048),
    ("started_by", 1024),
    ("ran", 1),
    ("slept", 1),
    ("short_waits", 4096),
    ("long_waits", 256 << 10),
    ("open_beyond", 1024),
    ("counters", 1),
];

impl BlockedProbe {
    /// Loads the BPF programs with small tables, and begins to record.
    pub(crate) fn begin_always(machine: &Machine, now: Timestamp) -> Result<BlockedProbe, Unavailable> {
        let mut probe = BlockedProbe::load_sized(machine, &SIZES)?;
        probe.attach(now)?;
        probe.now_set.threshold_ns = THRESHOLD_MIN_NS;
        probe.now_set.counts_processes = 0;
        probe.set().map_err(|error| Unavailable::from_map(&error))?;
        Ok(probe)
    }

    /// Passes on the long waits that have ended and, about every ten seconds, the counts of short waits.
    /// `span` is the time from the previous counts until now.
    pub(crate) fn drain_always(
        &mut self,
        span: (Timestamp, Timestamp),
        long: &mut dyn FnMut(BlockedWait, ReportedThread),
        short: &mut dyn FnMut(BlockedCount, ReportedThread),
    ) {
        let (_, now) = span;
        if self.names.len() > NAMES_MAX {
            self.names = ThreadNames::default();
        }
        if self.is_ripe {
            self.take_counts(span, short);
            self.is_ripe = false;
        }
        self.take_long(long);
        self.names.take_new();
        let long_waits = self.counters().long_waits;
        let elapsed = now.0.saturating_sub(self.looked.0.0).max(1);
        let per_s = u128::from(long_waits - self.looked.1) * 1_000_000_000 / u128::from(elapsed);
        self.looked = (now, long_waits);
        let threshold = self.now_set.threshold_ns;
        self.now_set.threshold_ns = next_threshold(threshold, u64::try_from(per_s).unwrap_or(u64::MAX));
        let is_period_over = now.0.saturating_sub(self.period_began.0) >= PERIOD_NS;
        if is_period_over {
            self.now_set.period = self.now_set.period.wrapping_add(1);
            self.period_began = now;
        }
        if is_period_over || self.now_set.threshold_ns != threshold {
            // If setting fails, the BPF programs continue with the old settings.
            self.is_ripe |= self.set().is_ok() && is_period_over;
        }
    }

    /// Takes the counts of short waits in finished periods.
    fn take_counts(
        &mut self,
        (from, until): (Timestamp, Timestamp),
        give: &mut dyn FnMut(BlockedCount, ReportedThread),
    ) {
        let present = self.now_set.period;
        let keys: Vec<ShortKey> = self.short_waits.keys().filter_map(Result::ok).collect();
        for key in keys.into_iter().filter(|key| key.period != present) {
            let Ok(sum) = self.short_waits.get(&key, 0) else { continue };
            // Concurrent insertions can make an iteration return a key twice, but the key is removed once.
            if self.short_waits.remove(&key).is_err() {
                continue;
            }
            self.names.note(key.tid, sum.thread(), sum.parent);
            let is_iowait = u32::from(key.flags) & IOWAIT != 0;
            let count = BlockedCount {
                tid: key.tid,
                blocked_in: judgement::operation_of_call(key.call),
                reason: if is_iowait { WaitReason::Storage } else { WaitReason::Unknown },
                from,
                until,
                below: short::below(key.class),
                count: sum.count,
                total: Nanos(sum.total_ns),
            };
            give(count, sum.thread());
        }
    }

    /// Returns the thread and the start of each open wait. This call takes some milliseconds.
    pub(crate) fn open_waits(&self) -> Vec<(u32, Timestamp)> {
        let mut open: Vec<(u32, Timestamp)> =
            self.noted().into_iter().map(|(tid, began)| (tid, Timestamp(began))).collect();
        open.sort_unstable();
        open
    }

    /// Returns the number of waits that were not recorded.
    pub(crate) fn lost(&self) -> u64 {
        let counters = self.counters();
        counters.not_noted + counters.not_counted
    }
}

/// Returns the threshold after a second with this many long waits.
fn next_threshold(threshold_ns: u64, per_s: u64) -> u64 {
    match per_s {
        // Halving the threshold at most about doubles the number of waits.
        _ if per_s < LONG_WAITS_PER_S / 4 => (threshold_ns / 2).max(THRESHOLD_MIN_NS),
        _ if per_s > LONG_WAITS_PER_S => (threshold_ns * 2).min(THRESHOLD_MAX_NS),
        _ => threshold_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_follows_the_load() {
        for (before_ms, per_s, after_ms) in
            [(8, 0, 8), (8, 51, 16), (16, 50, 16), (16, 12, 16), (16, 11, 8), (512, 9999, 512)]
        {
            let after = next_threshold(before_ms * 1_000_000, per_s);
            assert_eq!(after, after_ms * 1_000_000, "{before_ms} ms, {per_s} waits in a second");
        }
    }
}
