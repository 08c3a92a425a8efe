//! Finds events that the trace lacks.
//!
//! - `lost_events` in a bundle: the kernel's buffer of this processor overran before the bundle.
//! - `previous_packet_dropped` in a packet that is not the first of its sequence: the recorder lost packets. The next
//!   bundle of each processor ends this gap.
//! - `previous_bundle_end_timestamp` in the first bundle of a processor: the trace buffer is a ring, and the earlier
//!   bundles were overwritten.
//! - The counters of the kernel's buffers at the start and end, and those of the trace buffers.
//! - Events that the recorder was asked for, but which the kernel lacks or does not permit.

use std::collections::BTreeSet;

use fonio_core::event::LostEvents;
use fonio_core::{Severity, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use super::bundle::Bundle;
use super::wire::{Fields, Value};

/// Maximum number of processors of all sequences, and of names of events.
const KEPT_MAX: usize = 16 << 10;
const NAMES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;

/// Phases of the kernel's counters.
const START: u64 = 1;
const END: u64 = 2;

/// A processor's bundles in one packet sequence.
#[derive(Debug, Default)]
struct Cpu {
    /// The time of the last event; `None` before the first event.
    last: Option<u64>,
    /// Whether events before the next event are missing.
    lost: bool,
    /// Whether events before the first event were overwritten.
    overwritten: bool,
}

/// A gap that the current bundle ends.
#[derive(Debug)]
pub(super) struct Gap {
    pub lost: LostEvents,
    /// Whether the events before the processor's first event are missing.
    pub is_start: bool,
}

/// A diagnostic: severity, code and message.
pub(super) type Said = (Severity, &'static str, String);

/// The losses found so far.
#[derive(Debug, Default)]
pub(super) struct Loss {
    cpus: FxHashMap<(u32, u32), Cpu>,
    /// Processors with a gap.
    with_gap: FxHashSet<u32>,
    /// Each processor's number of lost events at the start and at the end.
    overruns: FxHashMap<u32, [Option<u64>; 2]>,
    first: Option<u64>,
    overwritten: u64,
    discarded: u64,
    denied: BTreeSet<String>,
    absent: BTreeSet<String>,
}

impl Loss {
    /// Handles a packet before which packets of its sequence were dropped; returns whether the sequence has ftrace
    /// events. `is_first` marks the first packet of a sequence, which always has this flag.
    pub fn dropped(&mut self, sequence: u32, is_first: bool) -> bool {
        let mut any = false;
        if !is_first {
            for cpu in self.cpus.iter_mut().filter(|((of, _), _)| *of == sequence).map(|(_, cpu)| cpu) {
                cpu.lost = true;
                any = true;
            }
        }
        any
    }

    /// Handles a bundle; returns the gap before it.
    pub fn bundle(&mut self, sequence: u32, bundle: &Bundle) -> Option<Gap> {
        let key = (sequence, bundle.cpu);
        if self.cpus.len() >= KEPT_MAX && !self.cpus.contains_key(&key) {
            return None;
        }
        let cpu = self.cpus.entry(key).or_default();
        cpu.lost |= bundle.lost;
        cpu.overwritten |= cpu.last.is_none() && bundle.previous_end > 0;
        // A bundle without events does not show when the gap ends.
        let (first, last) = bundle.span?;
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        let before = cpu.last.replace(cpu.last.map_or(last, |known| known.max(last)));
        let lost = std::mem::take(&mut cpu.lost);
        let overwritten = std::mem::take(&mut cpu.overwritten);
        if !lost && !overwritten {
            return None;
        }
        self.with_gap.insert(bundle.cpu);
        let after = before.unwrap_or(0).min(first);
        Some(Gap {
            lost: LostEvents {
                cpu: Some(bundle.cpu),
                count: None,
                after: Timestamp(after),
                before: Timestamp(first),
            },
            is_start: before.is_none(),
        })
    }

    /// Reads the counters of the kernel's buffers.
    pub fn ftrace_stats(&mut self, message: &[u8]) {
        let phase =
            Fields::of(message).find(|(number, _)| *number == 1).and_then(|(_, value)| value.number());
        for (number, value) in Fields::of(message) {
            let Value::Bytes(content) = value else { continue };
            match number {
                2 => {
                    let (mut cpu, mut lost) = (0, 0_u64);
                    for (number, value) in Fields::of(content) {
                        let Some(value) = value.number() else { continue };
                        match number {
                            1 => cpu = value as u32,
                            // overrun, commit_overrun, dropped_events
                            3 | 4 | 8 => lost = lost.saturating_add(value),
                            _ => {}
                        }
                    }
                    let place = match phase {
                        Some(START) => 0,
                        Some(END) => 1,
                        _ => continue,
                    };
                    if self.overruns.len() < KEPT_MAX || self.overruns.contains_key(&cpu) {
                        let counts = self.overruns.entry(cpu).or_default();
                        // There is one pair per flush: keep the first start and the last end.
                        if place == 1 || counts[0].is_none() {
                            counts[place] = Some(lost);
                        }
                    }
                }
                6 => add(&mut self.absent, content),
                7 => add(&mut self.denied, content),
                _ => {}
            }
        }
    }

    /// Reads the counters of the trace buffers. Several packets have them; the last has the largest.
    pub fn trace_stats(&mut self, message: &[u8]) {
        let (mut overwritten, mut discarded) = (0_u64, 0_u64);
        for (number, value) in Fields::of(message) {
            let (1, Value::Bytes(buffer)) = (number, value) else { continue };
            for (number, value) in Fields::of(buffer) {
                let Some(value) = value.number() else { continue };
                match number {
                    3 => overwritten = overwritten.saturating_add(value),
                    18 => discarded = discarded.saturating_add(value),
                    _ => {}
                }
            }
        }
        self.overwritten = self.overwritten.max(overwritten);
        self.discarded = self.discarded.max(discarded);
    }

    /// Returns the diagnostics of the whole trace, which ends at `latest`, and adds gaps of unknown place.
    pub fn finish(&mut self, latest: Timestamp, gaps: &mut Vec<LostEvents>) -> Vec<Said> {
        let mut said = Vec::new();
        let overruns = self.overruns.iter().filter_map(|(cpu, [start, end])| {
            let count = (*end)?.saturating_sub(start.unwrap_or(0));
            (count > 0).then_some((*cpu, count))
        });
        let mut overruns: Vec<(u32, u64)> = overruns.collect();
        overruns.sort_unstable();
        let total = overruns.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        if total > 0 {
            let message = format!(
                "The kernel's trace buffers lost {total} events while the trace was recorded; record again with a larger `buffer_size_kb` in `ftrace_config` or fewer events."
            );
            said.push((Severity::Warning, "kernel-overrun", message));
        }
        for (cpu, count) in overruns {
            // Without a gap in the events of this processor, the losses may be anywhere.
            if !self.with_gap.contains(&cpu) {
                let after = Timestamp(self.first.unwrap_or(0)).min(latest);
                gaps.push(LostEvents { cpu: Some(cpu), count: Some(count), after, before: latest });
            }
        }
        if self.overwritten > 0 {
            let message = format!(
                "The recorder's ring buffer overwrote {} pieces of the trace, the oldest first; record again with a larger buffer (`size_kb`), or with `write_into_file`.",
                self.overwritten
            );
            said.push((Severity::Warning, "overwritten-buffer", message));
        }
        if self.discarded > 0 {
            let message = format!(
                "The recorder's buffer was full, so it left out {} pieces of the trace at its end; record again with a larger buffer (`size_kb`), or with `write_into_file`.",
                self.discarded
            );
            said.push((Severity::Warning, "discarded-packets", message));
        }
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        if !self.denied.is_empty() {
            let message = format!(
                "The recorder was not permitted to record {}; the trace shows none of them. A userdebug build or root permits them.",
                list(&self.denied)
            );
            said.push((Severity::Warning, "denied-events", message));
        }
        if !self.absent.is_empty() {
            let message = format!("The kernel of the trace does not have {}.", list(&self.absent));
            said.push((Severity::Note, "absent-events", message));
        }
        said
    }
}

fn add(names: &mut BTreeSet<String>, name: &[u8]) {
    if names.len() < NAMES_MAX {
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
        names.insert(name.escape_debug().to_string());
    }
}
