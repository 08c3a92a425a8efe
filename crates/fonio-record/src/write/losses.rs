//! Counts and locates the lost events of a capture, from the kernel's statistics, the pages, and the events
//! that did not fit into the store.
//!
//! Each page states how many events the kernel overwrote before it, which locates the loss. The kernel's
//! statistics count all events that each processor lost. An event that only these statistics count may have
//! been lost at any time during the capture. If the page store became full, it has the events of all
//! processors up to one point in time; each processor has a gap from then until the end of the capture.

use std::collections::BTreeMap;

use fonio_core::meta::Lost;
use fonio_core::{Batch, BlockEvent, LostEvents, Timestamp};

use crate::capture::{Captured, Missed};

/// Counts the losses in the batches of a capture, and removes the events after the time at which the store
/// was full.
pub(crate) struct Losses {
    missed: Missed,
    began: Timestamp,
    ended: Timestamp,
    /// The numbers of events of each processor.
    counts: BTreeMap<u32, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Number of overwritten events counted in the pages, and number of gaps of unknown size in the pages.
    placed: u64,
    unnumbered: u64,
    /// Number of kept events after the time up to which all processors are complete.
    behind: u64,
}

impl Losses {
    pub(crate) fn new(captured: &Captured) -> Losses {
        Losses::of(captured.missed.clone(), captured.began, captured.ended)
    }

    fn of(missed: Missed, began: Timestamp, ended: Timestamp) -> Losses {
        Losses { missed, began, ended, counts: BTreeMap::new() }
    }

    /// Returns the time up to which the events of every processor are kept.
    fn end(&self) -> Option<Timestamp> {
        self.missed.left_out.as_ref().map(|left| left.complete_until.unwrap_or(self.began))
    }

    /// Processes the next batch of the capture; `last` marks the last batch.
    pub(crate) fn batch(&mut self, batch: &mut Batch, last: bool) {
        for gap in &batch.lost {
            let count = self.counts.entry(gap.cpu.unwrap_or_default()).or_default();
            count.placed += gap.count.unwrap_or(0);
            count.unnumbered += u64::from(gap.count.is_none());
        }
        let Some(end) = self.end() else { return };
        let counts = &mut self.counts;
        batch.events.retain(|event: &BlockEvent| {
            let kept = event.time <= end;
            if !kept {
                counts.entry(event.cpu.unwrap_or_default()).or_default().behind += 1;
            }
            kept
        });
        if last {
            let left = self.missed.left_out.iter().flat_map(|left| &left.cpus);
            let gaps = left.map(|left| {
                let behind = self.counts.get(&left.cpu).map_or(0, |count| count.behind);
                let count = (!left.uncounted).then_some(left.events + left.overwritten + behind);
                LostEvents { cpu: Some(left.cpu), count, after: end, before: self.ended }
            });
            batch.lost.extend(gaps.filter(|gap| gap.count != Some(0)));
        }
    }

    /// Adds the losses that only the kernel's statistics show. Returns remarks about the losses, each with a
    /// stable name.
    pub(crate) fn finish(&self, lost: &mut Lost) -> Vec<(&'static str, String)> {
        let mut said = Vec::new();
        let (mut overwritten, mut refused, mut silent) = (0, 0, 0);
        for (cpu, stats) in &self.missed.kernel {
            let somewhere =
                |count| LostEvents { cpu: Some(*cpu), count, after: self.began, before: self.ended };
            let Some(stats) = stats else {
                silent += 1;
                lost.add(somewhere(None));
                continue;
            };
            let count = self.counts.get(cpu).copied().unwrap_or_default();
            let left = self.missed.left_out.iter().flat_map(|left| &left.cpus).find(|left| left.cpu == *cpu);
            let known = count.placed + left.map_or(0, |left| left.overwritten);
            let rest = stats.overrun.saturating_sub(known);
            if count.unnumbered > 0 {
                lost.uncounted -= count.unnumbered;
                lost.events += rest;
                let mut silent =
                    lost.gaps.iter_mut().filter(|gap| gap.cpu == Some(*cpu) && gap.count.is_none());
                if let (Some(only), 1) = (silent.next(), count.unnumbered) {
                    only.count = Some(rest);
                }
            } else if rest > 0 {
                lost.add(somewhere(Some(rest)));
            }
            if stats.refused > 0 {
                lost.add(somewhere(Some(stats.refused)));
            }
            overwritten += stats.overrun;
            refused += stats.refused;
        }
        if overwritten > 0 {
            let gaps =
                self.counts.values().map(|count| u64::from(count.placed > 0) + count.unnumbered).sum::<u64>();
            let place = if gaps > 0 { "the recording shows when" } else { "it is unknown when" };
            said.push((
                "lost-events",
                format!(
                    "{overwritten} events were lost because the kernel's buffer was too small for this load; {place}; use a larger `--kernel-buffer`"
                ),
            ));
        }
        if refused > 0 {
            said.push((
                "refused-events",
                format!("{refused} events were lost because the kernel could not write them into its buffer"),
            ));
        }
        if silent > 0 {
            said.push((
                "unknown-loss",
                format!("the kernel does not report how many events {silent} processors lost"),
            ));
        }
        if let (Some(left_out), Some(end)) = (&self.missed.left_out, self.end()) {
            let behind: u64 = self.counts.values().map(|count| count.behind).sum();
            let number = left_out.cpus.iter().map(|left| left.events).sum::<u64>() + behind;
            let after = (end.0.saturating_sub(self.began.0)) as f64 / 1e9;
            said.push((
                "buffer-full",
                format!(
                    "the recorder's memory was full, so the recording is complete for the first {after:.3} s only and {number} later events were lost; use a larger `--buffer`, or a directory with `--spill-to`"
                ),
            ));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{DeviceId, EventKind};

    use super::*;
    use crate::tracefs::CpuStats;
    use crate::tracefs::pages::{LeftOnCpu, LeftOut};

    fn gap(cpu: u32, count: Option<u64>) -> LostEvents {
        LostEvents { cpu: Some(cpu), count, after: Timestamp(3), before: Timestamp(4) }
    }

    /// Processes the gaps in the event batches, then the kernel's statistics.
    fn settle(gaps: &[LostEvents], missed: Missed) -> (Lost, Vec<&'static str>) {
        let mut losses = Losses::of(missed, Timestamp(0), Timestamp(100));
        let mut batch = Batch { lost: gaps.to_vec(), ..Batch::default() };
        losses.batch(&mut batch, true);
        let mut lost = Lost::default();
        batch.lost.iter().for_each(|gap| lost.add(*gap));
        let said = losses.finish(&mut lost);
        (lost, said.into_iter().map(|(code, ..)| code).collect())
    }

    fn kernel(stats: &[Option<(u64, u64)>]) -> Missed {
        let stats = stats.iter().map(|stats| stats.map(|(overrun, refused)| CpuStats { overrun, refused }));
        Missed { kernel: (0..).zip(stats).collect(), left_out: None }
    }

    #[test]
    fn each_lost_event_counts_once_and_has_a_processor() {
        let (lost, said) = settle(&[gap(0, Some(7))], kernel(&[Some((7, 0)), Some((0, 0))]));
        assert_eq!((lost.total(), lost.gaps.len(), said), (Some(7), 1, vec!["lost-events"]));
        // On processor 1, the kernel lost events that the pages do not report, and refused to record others.
        let (lost, said) = settle(&[gap(0, Some(7))], kernel(&[Some((7, 0)), Some((5, 2))]));
        assert_eq!((lost.total(), said), (Some(14), vec!["lost-events", "refused-events"]));
        let places: Vec<_> =
            lost.gaps.iter().map(|gap| (gap.cpu, gap.count, gap.after.0, gap.before.0)).collect();
        assert_eq!(
            places,
            [(Some(0), Some(7), 3, 4), (Some(1), Some(5), 0, 100), (Some(1), Some(2), 0, 100)]
        );
        let (lost, said) = settle(&[], kernel(&[Some((0, 0))]));
        assert!(lost.is_nothing() && said.is_empty());
    }

    #[test]
    fn what_nobody_counted_is_unknown() {
        // A page reports a gap without its size; the size is in the statistics.
        let (lost, _) = settle(&[gap(0, Some(2)), gap(0, None)], kernel(&[Some((9, 0))]));
        assert_eq!((lost.events, lost.total(), lost.gaps[1].count), (9, Some(9), Some(7)));
        // With two gaps of unknown size, only their sum is known.
        let (lost, _) = settle(&[gap(0, None), gap(0, None)], kernel(&[Some((9, 0))]));
        assert_eq!((lost.total(), lost.gaps[0].count, lost.gaps[1].count), (Some(9), None, None));
        // In this case, the statistics do not have the number of lost events either.
        let (lost, said) = settle(&[gap(0, Some(2)), gap(0, None)], kernel(&[None]));
        assert_eq!((lost.events, lost.total(), said), (2, None, vec!["unknown-loss"]));
        assert!(!lost.is_nothing());
        assert_eq!(settle(&[], kernel(&[None])).0.total(), None);
    }

    #[test]
    fn a_full_store_keeps_nothing_behind_its_end() {
        let left = |cpu, events, overwritten| LeftOnCpu { cpu, events, overwritten, uncounted: false };
        let left_out =
            LeftOut { complete_until: Some(Timestamp(50)), cpus: vec![left(0, 30, 4), left(1, 0, 0)] };
        let missed = Missed { left_out: Some(left_out), ..kernel(&[Some((4, 0)), Some((0, 0))]) };
        let mut losses = Losses::of(missed, Timestamp(0), Timestamp(100));
        let event = |time, cpu| {
            let event = BlockEvent::new(Timestamp(time), EventKind::Issue, DeviceId::default());
            BlockEvent { cpu: Some(cpu), ..event }
        };
        let mut batch = Batch { events: vec![event(50, 0), event(51, 1), event(60, 1)], ..Batch::default() };
        losses.batch(&mut batch, true);
        assert_eq!(batch.events.len(), 1);
        let places: Vec<_> =
            batch.lost.iter().map(|gap| (gap.cpu, gap.count, gap.after.0, gap.before.0)).collect();
        assert_eq!(places, [(Some(0), Some(34), 50, 100), (Some(1), Some(2), 50, 100)]);
        let mut lost = Lost::default();
        batch.lost.iter().for_each(|gap| lost.add(*gap));
        let said = losses.finish(&mut lost);
        assert_eq!(lost.total(), Some(36), "overwritten events were counted twice");
        assert_eq!(said.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["lost-events", "buffer-full"]);
        assert!(said[1].1.contains("and 32 later events were lost"), "{}", said[1].1);
    }
}
