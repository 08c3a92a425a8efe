//! Chooses what a chart of blocked programs draws: waits one by one, or timelines.

use std::cmp::Reverse;

use fonio_core::Timestamp;

use super::Interval;
use super::count::Count;
use super::timeline::Timeline;

/// Adds the waits of one thread of a program. Each wait counts once: the kept waits are also part of the
/// thread's timeline.
fn absorb(of_program: &mut Timeline, count: &Count, origin: Timestamp) {
    let mut room = usize::MAX;
    match &count.timeline {
        Some(timeline) => of_program.join(timeline, origin),
        None => {
            for kept in &count.kept {
                let span = (kept.began, kept.ended);
                of_program.add(kept.operation, span, kept.time(), origin, &mut room);
            }
        }
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
        threads.iter().for_each(|count| absorb(&mut timeline, count, origin));
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
