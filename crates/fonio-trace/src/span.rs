//! Determines the span of a trace, from its first event to its last.
//!
//! A damaged record can have any time, but it must not extend the span to a century. Events that are more
//! than thirty days away from all others are treated as damage if there are at most eight of them, and if
//! they are fewer than a quarter of the events so far. Such events are left out, and a diagnostic reports
//! them. Larger groups are accepted, so a trace may have gaps of several years. Groups that are more than ten
//! years away from the largest group have another clock (blkparse prints the wall clock for a processor of
//! which it missed the beginning), and are left out, too. The rule uses only the current batch and the times
//! accepted before it, so rows are never delayed.

use fonio_core::event::Run;
use fonio_core::{Batch, Diagnostic, Instants, Severity, Timestamp};

/// Maximum number of damaged times. A damaged record has one time, and a damaged line of a table has two
/// times. If more events are at a distant time, the time is not accidental.
const FEW: u64 = 8;
/// Minimum number of other events per distant event. This way, the majority decides which times are correct.
const OTHERS: u64 = 3;

/// Minimum distance in nanoseconds of a group that must have another clock: ten years.
const OTHER_CLOCK_NS: u64 = 10 * 365 * 24 * 3600 * 1_000_000_000;

/// The span of the times so far, and the times that were left out.
#[derive(Debug, Default)]
pub(crate) struct TraceSpan {
    accepted: Option<Run>,
    left_out: u64,
    first_left_out: Option<Timestamp>,
}

impl TraceSpan {
    /// Returns the first and last time of the trace; `None` before the first event.
    pub(crate) fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        self.accepted.map(|run| (run.first, run.last))
    }

    /// Adds the times of a batch, and removes rows with implausible times from it.
    pub(crate) fn batch(&mut self, batch: &mut Batch) {
        let mut seen = std::mem::take(&mut batch.instants);
        seen.see_all(batch.events.iter().map(|event| event.time));
        for request in &batch.requests {
            seen.see(request.order_time());
            request.completed.iter().for_each(|time| seen.see(*time));
        }
        batch.marks.iter().for_each(|mark| seen.see(mark.at));
        batch.samples.iter().for_each(|sample| seen.see(sample.time));
        seen.add_all(self.accepted);
        let runs = seen.runs();
        let all: u64 = runs.iter().map(|run| run.count).sum();
        let largest = runs.iter().copied().max_by_key(|run| (run.count, std::cmp::Reverse(run.first)));
        let has_other_clock = |run: &Run| {
            largest.is_some_and(|largest| {
                let before = largest.first.0.saturating_sub(run.last.0);
                let after = run.first.0.saturating_sub(largest.last.0);
                run.count < largest.count && before.max(after) > OTHER_CLOCK_NS
            })
        };
        let (believed, absurd): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| {
            !has_other_clock(run) && (run.count > FEW || (all - run.count) < OTHERS.saturating_mul(run.count))
        });
        self.accepted = believed.iter().copied().reduce(|a, b| Run {
            first: a.first.min(b.first),
            last: a.last.max(b.last),
            count: a.count + b.count,
        });
        if absurd.is_empty() {
            return;
        }
        let is_absurd = |time: Timestamp| absurd.iter().any(|run| run.first <= time && time <= run.last);
        batch.events.retain(|event| !is_absurd(event.time));
        batch.requests.retain(|row| !is_absurd(row.order_time()) && !row.completed.is_some_and(is_absurd));
        batch.marks.retain(|mark| !is_absurd(mark.at));
        batch.waits.retain(|wait| !is_absurd(wait.row.began) && !wait.row.ended.is_some_and(is_absurd));
        batch.calls.retain(|call| !is_absurd(call.entered) && !call.exited.is_some_and(is_absurd));
        batch.samples.retain(|sample| !is_absurd(sample.time));
        self.left_out += absurd.iter().map(|run| run.count).sum::<u64>();
        self.first_left_out = self.first_left_out.or(absurd.first().map(|run| run.first));
    }

    /// Returns a diagnostic if any times were left out.
    pub(crate) fn outliers(&self) -> Option<Diagnostic> {
        let first = self.first_left_out?;
        Some(Diagnostic {
            severity: Severity::Warning,
            code: "absurd-time".to_owned(),
            message: format!(
                "Timestamps more than {} days from most others (the first: {:.3} s on the trace's clock) were treated as damage; their events were left out.",
                Instants::FAR.0 / (24 * 3600 * 1_000_000_000),
                first.0 as f64 / 1e9
            ),
            file: None,
            record: None,
            offset: None,
            count: self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Mark;
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 24 * 3600 * SECOND;

    /// Adds batches of times to a span. Returns the span, the number of remaining rows, and the number of
    /// rows that were left out.
    fn span(batches: &[&[u64]]) -> ((u64, u64), usize, u64) {
        let (mut span, mut kept) = (TraceSpan::default(), 0);
        for times in batches {
            let mark = |at: &u64| Mark { at: Timestamp(*at), until: None, name: String::new(), tid: None };
            let mut batch = Batch { marks: times.iter().map(mark).collect(), ..Batch::default() };
            span.batch(&mut batch);
            kept += batch.marks.len();
        }
        let (began, ended) = span.ends().unwrap();
        assert_eq!(span.outliers().map_or(0, |said| said.count), span.left_out);
        ((began.0, ended.0), kept, span.left_out)
    }

    #[test]
    fn one_absurd_time_makes_no_century() {
        let century = 36_500 * DAY;
        let usual = [5 * SECOND, 6 * SECOND, 7 * SECOND, 8 * SECOND, 9 * SECOND];
        let with = |at: usize, time: u64| {
            let mut times = usual.to_vec();
            times.insert(at, time);
            times
        };
        for at in [0, 3, 5] {
            assert_eq!(span(&[&with(at, century)]), ((5 * SECOND, 9 * SECOND), 5, 1));
        }
        // The first assertion has a late time alone in its batch; the second has a time far before and a time
        // far after all other times.
        assert_eq!(span(&[&usual, &[century]]), ((5 * SECOND, 9 * SECOND), 5, 1));
        let unix = usual.map(|time| time + century);
        assert_eq!(span(&[&unix, &[0], &unix, &[u64::MAX]]), ((unix[0], unix[4]), 10, 2));
    }

    #[test]
    fn a_processor_with_another_clock_is_left_out() {
        let run = |from: u64, count: u64| (0..count).map(|at| from + at * SECOND).collect::<Vec<u64>>();
        let wall = 40 * 365 * DAY;
        let both = [run(0, 60), run(wall, 20)].concat();
        assert_eq!(span(&[&both]), ((0, 59 * SECOND), 60, 20));
        assert_eq!(span(&[&run(0, 60), &run(wall, 20), &run(60 * SECOND, 5)]), ((0, 64 * SECOND), 65, 20));
        // The larger group is right, also if it is the later one.
        assert_eq!(span(&[&[run(0, 20), run(wall, 60)].concat()]), ((wall, wall + 59 * SECOND), 60, 20));
    }

    #[test]
    fn a_long_quiet_trace_is_believed() {
        // Two events days apart, and a month without events between two busy hours.
        assert_eq!(span(&[&[0, 20 * DAY]]), ((0, 20 * DAY), 2, 0));
        let busy = |from: u64| (0..20).map(|at| from + at * SECOND).collect::<Vec<u64>>();
        let (before, after) = (busy(0), busy(400 * DAY));
        assert_eq!(span(&[&before, &after]), ((0, after[19]), 40, 0));
        assert_eq!(span(&[&[before, after.clone()].concat()]), ((0, after[19]), 40, 0));
        // If there are only two times, either of them can be wrong.
        assert_eq!(span(&[&[0, 400 * DAY]]), ((0, 400 * DAY), 2, 0));
        // Each step is shorter than thirty days.
        let steps: Vec<u64> = (0..20).map(|at| at * 29 * DAY).collect();
        assert_eq!(span(&[&steps]), ((0, 19 * 29 * DAY), 20, 0));
    }

    proptest! {
        #[test]
        fn instants_together_are_as_if_seen_one_by_one(
            batches in prop::collection::vec(prop::collection::vec(0u64..80, 0..6), 1..4)
        ) {
            let (mut together, mut singly) = (Instants::default(), Instants::default());
            for batch in batches {
                let times = batch.into_iter().map(|days| Timestamp(days * DAY));
                together.see_all(times.clone());
                times.for_each(|time| singly.see(time));
                prop_assert_eq!(&together, &singly);
            }
        }
    }
}
