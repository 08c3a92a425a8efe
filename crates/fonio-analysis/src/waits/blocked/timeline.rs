//! Shows when programs were blocked: the waits one by one or, for programs with many waits, the blocked time
//! in each part of the recording.
//!
//! A thread's longest waits are kept. A thread with more waits also has a timeline, which sums up its blocked
//! time in at most [`PARTS`] parts of equal length, by operation.

use std::cmp::Reverse;

use fonio_core::{BlockedIn, Nanos, Timestamp};

use super::Interval;
use super::count::{Count, Kept};
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
    /// Adds a wait of a recording that began at `origin`. Returns false if there is no `room` for another
    /// timeline.
    pub(super) fn add(&mut self, wait: &Kept, origin: Timestamp, room: &mut usize) -> bool {
        self.add_span(wait.operation, (wait.began, wait.ended), wait.time(), origin, room)
    }

    /// Reduces all times to this share of them.
    pub(super) fn scale_to(&mut self, share: f64) {
        for (_, bins) in &mut self.of_operations {
            bins.each(|part| part.0 = Nanos((part.0.0 as f64 * share) as u64));
        }
    }

    /// Adds the waits of one thread of the program. Each wait counts once: the kept waits are also part of the
    /// thread's timeline.
    fn absorb(&mut self, count: &Count, origin: Timestamp) {
        let mut room = usize::MAX;
        let Some(timeline) = &count.timeline else {
            for kept in &count.kept {
                self.add(kept, origin, &mut room);
            }
            return;
        };
        for (operation, bins) in &timeline.of_operations {
            for (part, InPart(time)) in bins.bins().iter().enumerate().filter(|(_, part)| part.0.0 > 0) {
                let began = bins.begin_of(part as u64);
                self.add_span(*operation, (began, began + bins.width()), *time, origin, &mut room);
            }
        }
    }

    fn add_span(
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
    fn bars(mut self, program: u32, (began, ended): (Timestamp, Timestamp)) -> Vec<Interval> {
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

/// Returns what to draw for programs, in time order and at most `most`, and the number of waits that are not
/// drawn. `programs` has the threads of each program, the most important program first.
pub(super) fn intervals<'a>(
    programs: impl Iterator<Item = (u32, Vec<&'a Count>)>,
    (origin, span): (Timestamp, (Timestamp, Timestamp)),
    most: usize,
) -> (Vec<Interval>, u64) {
    let (mut bars, mut waits, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (program, threads) in programs {
        left_out += threads.iter().map(|count| count.not_drawn).sum::<u64>();
        if threads.iter().all(|count| count.timeline.is_none()) {
            waits.extend(threads.iter().flat_map(|count| &count.kept).map(|kept| Interval {
                at_ns: kept.began - span.0,
                time_ns: kept.time(),
                program,
                blocked_in: kept.operation.name().to_owned(),
                is_sum: false,
            }));
            continue;
        }
        let mut timeline = Timeline::default();
        threads.iter().for_each(|count| timeline.absorb(count, origin));
        let of_program = timeline.bars(program, span);
        if bars.len() + of_program.len() <= most {
            bars.extend(of_program);
        } else {
            left_out += threads.iter().map(|count| count.rows.saturating_sub(count.not_drawn)).sum::<u64>();
        }
    }
    waits.sort_unstable_by(|a: &Interval, b: &Interval| {
        let key = |row: &Interval| (Reverse(row.time_ns), row.at_ns, row.program);
        key(a).cmp(&key(b)).then_with(|| a.blocked_in.cmp(&b.blocked_in))
    });
    let room = most - bars.len();
    left_out += waits.len().saturating_sub(room) as u64;
    waits.truncate(room);
    bars.append(&mut waits);
    bars.sort_by_key(|row| (row.at_ns, row.program, row.time_ns));
    (bars, left_out)
}
