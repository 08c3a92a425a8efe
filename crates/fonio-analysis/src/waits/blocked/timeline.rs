//! Shows when programs were blocked: the waits one by one or, for programs with many waits, the blocked time
//! in each part of the recording.
//!
//! A thread's longest waits are kept. A thread with more waits also has a timeline, which sums up its blocked
//! time in at most [`PARTS`] parts of equal length, by operation.

use fonio_core::{BlockedIn, Nanos, Timestamp};

use super::Interval;
use crate::over_time::bins::{Bins, Fold};

/// Maximum number of parts. A chart is about a thousand pixels wide.
const PARTS: usize = 256;
/// Maximum number of timelines, one for each operation of a thread. They need up to 8 MiB.
pub(super) const TIMELINES_MAX: usize = 4096;
/// Minimum share of an operation in the blocked time of a part for a bar of its own.
const SHARE_LEAST: f64 = 0.05;

/// The blocked time within one part of the recording.
#[derive(Clone, Copy, Debug, Default)]
struct InPart(Nanos);

impl Fold for InPart {
    fn fold(&mut self, later: InPart) {
        self.0 += later.0;
    }
}

/// The blocked time by operation and part of the recording.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    of_operations: Vec<(BlockedIn, Bins<InPart, PARTS>)>,
}

impl Timeline {
    /// Reduces all times to this share of them.
    pub(super) fn scale_to(&mut self, share: f64) {
        for (_, bins) in &mut self.of_operations {
            bins.each(|part| part.0 = Nanos((part.0.0 as f64 * share) as u64));
        }
    }

    /// Adds another timeline.
    pub(super) fn join(&mut self, other: &Timeline, origin: Timestamp) {
        let mut room = usize::MAX;
        for (operation, bins) in &other.of_operations {
            for (part, InPart(time)) in bins.bins().iter().enumerate().filter(|(_, part)| part.0.0 > 0) {
                let began = bins.begin_of(part as u64);
                self.add(*operation, (began, began + bins.width()), *time, origin, &mut room);
            }
        }
    }

    /// Adds a wait of a recording that began at `origin`. Returns false if there is no `room` for another
    /// timeline.
    pub(super) fn add(
        &mut self,
        operation: BlockedIn,
        (began, ended): (Timestamp, Timestamp),
        time: Nanos,
        origin: Timestamp,
        room: &mut usize,
    ) -> bool {
        let known = self.of_operations.iter().position(|(known, _)| *known == operation);
        let place = match known {
            Some(place) => place,
            None if *room == 0 => return false,
            None => {
                *room -= 1;
                let mut bins = Bins::default();
                bins.begin_at(origin);
                self.of_operations.push((operation, bins));
                self.of_operations.len() - 1
            }
        };
        // A wait for another thread counts only in part; this part is spread over the complete wait.
        let length = u128::from((ended - began).0.max(1));
        let share = |overlap: Nanos| (u128::from(overlap.0) * u128::from(time.0) / length) as u64;
        let bins = &mut self.of_operations[place].1;
        bins.spread(began, ended, |part, overlap| part.0 += Nanos(share(overlap)));
        true
    }

    /// Returns bars for the program `program`: each part has one bar for each operation, as long as the
    /// operation's blocked time in this part. If threads waited in parallel, the bars are shortened to fit into
    /// the part.
    pub(super) fn bars(mut self, program: u32, (began, ended): (Timestamp, Timestamp)) -> Vec<Interval> {
        self.of_operations.sort_by_key(|(operation, _)| *operation);
        // All operations then have parts of the same length.
        self.of_operations.iter_mut().for_each(|(_, bins)| bins.extend_to(ended));
        let Some((_, first)) = self.of_operations.first() else { return Vec::new() };
        let (parts, width) = (first.bins().len(), first.width());
        let mut bars: Vec<Interval> = Vec::new();
        for part in 0..parts {
            let mut times: Vec<(BlockedIn, Nanos)> = (self.of_operations.iter())
                .filter_map(|(operation, bins)| Some((*operation, bins.bins().get(part)?.0)))
                .collect();
            let sum: Nanos = times.iter().map(|(_, time)| *time).sum();
            let drawn = |time: Nanos| time.0 > 0 && time.0 as f64 >= SHARE_LEAST * sum.0 as f64;
            times.retain(|(_, time)| drawn(*time));
            let sum: Nanos = times.iter().map(|(_, time)| *time).sum();
            let scale = (width.0 as f64 / sum.0.max(1) as f64).min(1.0);
            let mut at = first.begin_of(part as u64) - began;
            for (operation, time) in times {
                let time_ns = Nanos((time.0 as f64 * scale) as u64);
                match bars.last_mut() {
                    Some(last) if last.blocked_in == operation.name() && last.at_ns + last.time_ns == at => {
                        last.time_ns += time_ns;
                    }
                    _ => bars.push(Interval {
                        at_ns: at,
                        time_ns,
                        program,
                        blocked_in: operation.name().to_owned(),
                        is_sum: true,
                    }),
                }
                at += time_ns;
            }
        }
        bars
    }
}
