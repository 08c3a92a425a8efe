//! Computes the time for which programs may have waited for storage: time with outstanding requests, and
//! individual long responses.
//!
//! The verdict uses the time for which programs may have waited. This time includes only requests for which a
//! program may wait, from queueing to completion. Time with several outstanding requests is counted once. A
//! sum of service times would count overlaps several times and include write-back, which makes light loads
//! look heavy.

use fonio_core::{Nanos, Request, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::requests::class::Group;
use crate::requests::point::Point;

/// Minimum response time of a long wait, because people notice a delay of a tenth of a second (Card, Moran
/// and Newell 1983).
pub(crate) const LONG: Nanos = Nanos(100_000_000);

/// Time with outstanding requests. A request is outstanding from its queueing (its issue, if the source shows
/// no queueing) to its completion.
///
/// A program *may wait* for reads, readahead, synchronous writes, flushes, writes of unknown kind, and
/// requests of other kinds. No program waits for write-back and discards. The times are upper bounds for the
/// wait of any thread; only recorded waits of threads show the actual wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outstanding {
    /// Time with at least one outstanding request for which a program may wait; absent if no completion is
    /// known or the span is empty.
    pub waited: Option<TimeShare>,
    /// Time with at least one outstanding request of each kind that occurs, including write-back and
    /// discards. Times overlap, so they cannot be added.
    pub groups: Vec<OutstandingRow>,
    /// Processes with requests for which a program may wait, longest time first.
    pub processes: Vec<OutstandingProcess>,
    /// Response times of all requests for which a program may wait, in nanoseconds; service times if the
    /// source shows no queueing.
    pub response_ns: Option<Distribution>,
    /// Share of response time spent queued, over requests with known response time and queue time.
    pub queue_share: Option<f64>,
    /// Individual long responses.
    pub long: LongResponses,
    /// The number of requests, of any kind.
    pub requests: u64,
    /// Requests with a known response or service time.
    pub timed: u64,
    /// Number of timed requests whose queueing the source does not show; their time starts at the issue.
    pub counted_from_issue: u64,
}

/// A time, and its share of the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeShare {
    /// The time in nanoseconds.
    pub ns: Nanos,
    /// The time divided by the span; at most 1.
    pub share: f64,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutstandingRow {
    /// The kind.
    pub group: Group,
    /// Time with at least one outstanding request of this kind.
    pub time: TimeShare,
    /// This kind's time divided by the time with any outstanding request for which a program may wait; absent
    /// for kinds for which no program waits.
    pub of_waited_share: Option<f64>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutstandingProcess {
    /// Index into the list of processes.
    pub process: u32,
    /// Time with at least one outstanding request of the process for which a program may wait.
    pub time: TimeShare,
    /// The process's time divided by the corresponding time for all processes together.
    pub of_waited_share: Option<f64>,
    /// The number of the process's long responses.
    pub long: u64,
    /// The process's longest response time in nanoseconds (service time if the source shows no queueing).
    pub longest_ns: Nanos,
}

/// Responses of at least 100 ms. Users may notice each of these responses, even if the response is a small
/// part of the span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongResponses {
    /// Minimum length of a long response, in nanoseconds.
    pub threshold_ns: Nanos,
    /// The number of long responses of requests for which a program may wait.
    pub count: u64,
    /// The number of long responses of write-back and discards, for which no program waits.
    pub background: u64,
    /// The longest responses included in `count`, longest first; at most ten.
    pub longest: Vec<Point>,
}

use std::collections::VecDeque;

use crate::causes::process::Process;
use crate::distribution::tally::{Curve, Tally};
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;
use crate::requests::class::Class;

const NAMED: usize = 10;
/// Maximum number of busy periods that a late request can still extend; older periods are final.
const OPEN: usize = 256;

/// Whether a program may wait for requests of `class`.
pub(crate) fn may_be_waited_for(class: Class) -> bool {
    !matches!(class, Class::WriteAsync | Class::Discard)
}

#[derive(Debug, Default)]
pub(crate) struct OutstandingTally {
    /// Start of the analysed span. For requests queued before the span, time is counted from the start of the
    /// span.
    began: Timestamp,
    classes: [Union; Class::COUNT],
    reads: Union,
    waited: Union,
    processes: Vec<ProcessUnion>,
    /// Service times of requests for which a program may wait, for sources that do not show when requests are
    /// queued.
    service: Tally,
    queue_sum: Nanos,
    response_sum: Nanos,
    long: u64,
    background: u64,
    longest: Vec<(Nanos, Point)>,
    requests: u64,
    waited_requests: u64,
    timed: u64,
    from_issue: u64,
}

#[derive(Debug, Default)]
struct ProcessUnion {
    union: Union,
    long: u64,
    longest: Nanos,
}

/// The union of time intervals. Intervals are added in order of issue, so an interval may begin before
/// previous intervals.
#[derive(Debug, Default)]
struct Union {
    total: Nanos,
    /// End of the last busy period that later intervals cannot extend.
    settled: Timestamp,
    /// The latest busy periods, sorted by time and without overlaps.
    open: VecDeque<(Timestamp, Timestamp)>,
}

impl Union {
    #[inline]
    fn add(&mut self, start: Timestamp, end: Timestamp) {
        assert!(start <= end, "an interval does not end before it starts");
        if let Some((earlier, later)) = self.open.back_mut()
            && *earlier <= start
            && start <= *later
        {
            // In the usual case, the latest busy period grows or stays the same.
            self.total += end - *later;
            *later = end.max(*later);
            return;
        }
        self.add_elsewhere(start, end);
    }

    fn add_elsewhere(&mut self, start: Timestamp, end: Timestamp) {
        let (mut from, mut until) = (start.max(self.settled), end);
        while let Some(&(earlier, later)) = self.open.back() {
            if later < from {
                break;
            }
            if earlier <= from && until <= later {
                return;
            }
            from = from.min(earlier);
            until = until.max(later);
            self.total -= later - earlier;
            self.open.pop_back();
        }
        if until <= from {
            return;
        }
        assert!(self.settled <= from, "settled time counts once");
        self.total += until - from;
        self.open.push_back((from, until));
        if self.open.len() > OPEN
            && let Some((_, oldest)) = self.open.pop_front()
        {
            self.settled = oldest;
        }
    }

    fn share(&self, span: Nanos) -> Option<TimeShare> {
        let time = self.total.min(span);
        (self.total > Nanos(0)).then_some(())?;
        Some(TimeShare { ns: time, share: ratio(time, span)? })
    }
}

impl OutstandingTally {
    #[cold]
    fn name(&mut self, time: Nanos, seen: &Seen) {
        let place = self.longest.partition_point(|(longer, _)| *longer >= time);
        if place < NAMED {
            self.longest.insert(place, (time, Point::of(seen)));
            self.longest.truncate(NAMED);
        }
    }
}

impl Question for OutstandingTally {
    type Answer = Outstanding;

    fn begin_at(&mut self, began: Timestamp) {
        self.began = began;
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        self.requests += 1;
        let waited = may_be_waited_for(seen.class);
        self.waited_requests += u64::from(waited);
        if let Some((start, end)) = seen.flight {
            let start = seen.queued.map_or(start, |queued| queued.clamp(self.began.min(start), start));
            self.classes[seen.class as usize].add(start, end);
            if seen.class.is_read() {
                self.reads.add(start, end);
            }
            if waited {
                self.waited.add(start, end);
                at(&mut self.processes, seen.process as usize).union.add(start, end);
            }
        }
        let Some(time) = seen.response.or(seen.service) else { return };
        self.timed += 1;
        self.from_issue += u64::from(seen.response.is_none());
        let long = time >= LONG;
        if !waited {
            self.background += u64::from(long);
            return;
        }
        if seen.response.is_none() {
            self.service.add(time.0);
        }
        if let (Some(queue), Some(response)) = (seen.queue, seen.response) {
            self.queue_sum += queue;
            self.response_sum += response;
        }
        let process = at(&mut self.processes, seen.process as usize);
        process.longest = process.longest.max(time);
        if long {
            process.long += 1;
            self.long += 1;
            self.name(time, seen);
        }
    }

    fn finish(self, end: &mut Ending) -> Outstanding {
        let (span, places) = (end.duration(), &end.places);
        let responses = end.context.response.of_classes(may_be_waited_for).chain([&self.service]);
        let response = Tally::together(responses);
        let nothing = TimeShare { ns: Nanos(0), share: 0.0 };
        // Without requests, a live recording shows that no program waited for one.
        let is_idle = self.requests == 0 && end.is_live() && end.lost.gaps == 0 && end.lost.events == 0;
        let is_known = (self.timed > 0 || is_idle) && span > Nanos(0);
        let waited = self.waited.share(span).or(is_known.then_some(nothing));
        let of_waited = |time: &TimeShare| waited.and_then(|waited| ratio(time.ns.min(waited.ns), waited.ns));
        let row = |group: Group, union: &Union, program_waits: bool| {
            let time = union.share(span)?;
            let of_waited_share = if program_waits { of_waited(&time) } else { None };
            Some(OutstandingRow { group, time, of_waited_share })
        };
        let mut groups: Vec<OutstandingRow> = row(Group::Reads, &self.reads, true).into_iter().collect();
        groups.extend(Class::ALL.into_iter().filter_map(|class| {
            row(Group::from(class), &self.classes[class as usize], may_be_waited_for(class))
        }));
        let mut processes: Vec<OutstandingProcess> = (self.processes.iter().enumerate())
            .filter_map(|(number, process)| {
                let time = process.union.share(span)?;
                Some(OutstandingProcess {
                    process: places[number],
                    time,
                    of_waited_share: of_waited(&time),
                    long: process.long,
                    longest_ns: process.longest,
                })
            })
            .collect();
        processes.sort_by(|a, b| b.time.ns.cmp(&a.time.ns).then(a.process.cmp(&b.process)));
        let longest = self.longest.into_iter().map(|(_, mut point)| {
            point.place(end.began(), places);
            point
        });
        Outstanding {
            waited,
            groups,
            processes,
            response_ns: response.distribution_despite(
                end.loss.and(self.waited_requests - response.count),
                1,
                Curve::With,
            ),
            queue_share: ratio(self.queue_sum, self.response_sum),
            long: LongResponses {
                threshold_ns: LONG,
                count: self.long,
                background: self.background,
                longest: longest.collect(),
            },
            requests: self.requests,
            timed: self.timed,
            counted_from_issue: self.from_issue,
        }
    }

    fn figures(outstanding: &Outstanding, frame: &Frame, facts: &mut Facts) {
        let share = ratio(outstanding.timed, outstanding.requests);
        facts.share("outstanding.timed_share", "requests with known duration, share", share);
        facts.count("outstanding.timed", "requests with known duration", outstanding.timed);
        if let Some(waited) = &outstanding.waited {
            let label = "time with a request that programs may wait for";
            facts.felt("outstanding.waited", label, Unit::Share, waited.share);
        }
        for row in &outstanding.groups {
            let (name, requests) = (row.group.name(), row.group.requests());
            let label = format!("{requests} outstanding");
            facts.share(format!("outstanding.{name}"), label, row.time.share);
            let label = format!("{requests} outstanding, share of the time with a request to wait for");
            facts.share(format!("outstanding.{name}_of_waited"), label, row.of_waited_share);
        }
        if let Some(response) = &outstanding.response_ns {
            let label = "response of reads, synchronous writes and flushes";
            facts.felt_distribution("outstanding.response", label, Unit::Ns, response);
        }
        facts.share("outstanding.queue_share", "queueing, share of response", outstanding.queue_share);
        if outstanding.timed > 0 {
            if outstanding.counted_from_issue == outstanding.timed {
                facts.word("source.service_only", "service time; the recording does not show queueing");
            }
            outstanding.long.figures(frame, facts);
        }
        of_processes(&outstanding.processes, frame, facts);
    }
}

impl LongResponses {
    fn figures(&self, frame: &Frame, facts: &mut Facts) {
        let count = self.count;
        facts.felt("long.count", "responses of 100 ms or longer", Unit::Count, count as f64);
        facts.count("long.background", "write-back of 100 ms or longer", self.background);
        if count > 0 {
            // If events were lost, there may be more long waits than counted.
            let least = if frame.has_loss { "at least " } else { "" };
            let requests = if count == 1 { "request" } else { "requests" };
            let number = Unit::Count.format(count as f64);
            facts.word("long.requests", &format!("{least}{number} {requests}"));
        }
        let Some(longest) = self.longest.first() else { return };
        let time = longest.response_ns.or(longest.service_ns).map(|ns| ns.0 as f64);
        facts.felt("long.longest", "longest response", Unit::Ns, time);
        facts.amount("long.at", "longest response, begins at", longest.at_ns);
        facts.word("long.op", longest.class.one());
        let process = frame.processes.processes.get(longest.process as usize);
        if let Some(process) = process.filter(|process| process.is_known()) {
            facts.word("long.process", &process.full_name());
        }
        if let Some(device) = frame.device(longest.device) {
            facts.word("long.device", device);
        }
    }
}

/// Adds the delays of each process, and the figures of the first process with a name.
fn of_processes(delays: &[OutstandingProcess], frame: &Frame, facts: &mut Facts) {
    let process = |delay: &OutstandingProcess| frame.processes.processes.get(delay.process as usize);
    let first = delays.iter().filter_map(|delay| Some((delay, process(delay)?)));
    if let Some((delay, first)) = first.into_iter().find(|(_, process)| process.is_known()) {
        facts.word("process.name", &first.full_name());
        facts.count("process.requests", "requests of the first process", first.requests);
        facts.amount("process.delay", "outstanding time of the first process", delay.time.ns);
        let share = delay.of_waited_share;
        facts.share("process.delay_share", "outstanding time of the first process, share", share);
        facts.count("process.long", "responses of 100 ms or longer of the first process", delay.long);
        let share = first.latency_share;
        facts.share("process.latency_share", "summed service time of the first process, share", share);
        let bytes = first.write_bytes;
        facts.amount("process.write_bytes", "bytes written by the first process", bytes);
    }
    // If several processes share a name, the figures are those of the last of these processes in the table.
    let mut delays: Vec<&OutstandingProcess> = delays.iter().collect();
    delays.sort_by_key(|delay| delay.process);
    for delay in delays {
        let Some(Process { name: process, .. }) = process(delay) else { continue };
        let name = |figure: &str| format!("process[{process}].{figure}");
        facts.amount(name("delay"), format!("{process}, time outstanding"), delay.time.ns);
        let label = format!("{process}, share of the time outstanding");
        facts.share(name("delay_share"), label, delay.of_waited_share);
        facts.count(name("long"), format!("{process}, responses of 100 ms or longer"), delay.long);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyser::tests::{analyse, analyse_rows, request};

    #[test]
    fn write_back_is_no_wait_and_overlaps_count_once() {
        let found = analyse(&[
            "R 0+8 q0 d0 c10000 t1",
            "W 0+8 q5000 d5000 c400000 t2",
            "WS 0+8 q8000 d12000 c20000 t1",
            "R 0+8 q500000 d500000 c700000 t1",
            "R 0+8 q900000 d900000 c1000000 t3",
        ])
        .outstanding;
        let waited = found.waited.unwrap();
        assert_eq!((waited.ns, waited.share), (Nanos(320_000_000), 0.32));
        let rows: Vec<_> = found
            .groups
            .iter()
            .map(|row| (row.group, row.time.ns.0 / 1_000_000, row.of_waited_share))
            .collect();
        assert_eq!(
            rows,
            [
                (Group::Reads, 310, Some(0.96875)),
                (Group::Read, 310, Some(0.96875)),
                (Group::WriteSync, 12, Some(0.0375)),
                (Group::WriteAsync, 395, None),
            ]
        );
        let long = &found.long;
        assert_eq!((long.count, long.background), (2, 1));
        let named: Vec<_> = long.longest.iter().map(|point| (point.request_id, point.response_ns)).collect();
        assert_eq!(named, [(3, Some(Nanos(200_000_000))), (4, Some(Nanos(100_000_000)))]);
        assert_eq!((found.requests, found.timed, found.counted_from_issue), (5, 5, 0));
        assert_eq!(found.processes.iter().map(|process| process.long).collect::<Vec<_>>(), [1, 1]);
        // The first request was queued for 4 of its 12 ms; the requests of 10, 200 and 100 ms were not
        // queued.
        assert_eq!(found.queue_share, Some(4.0 / 322.0));
    }

    #[test]
    fn without_queueing_time_counts_from_the_issue() {
        let found = analyse(&["R 0+8 d0 c150000", "R 0+8 d200000 c210000"]).outstanding;
        assert_eq!((found.timed, found.counted_from_issue, found.long.count), (2, 2, 1));
        assert_eq!(found.response_ns.unwrap().max, Some(150_000_000));
    }

    #[test]
    fn nothing_that_a_program_waits_for() {
        let found = analyse(&["W 0+8 q0 d0 c10", "D 0+8 q0 d0 c10"]).outstanding;
        assert_eq!(found.waited, Some(TimeShare { ns: Nanos(0), share: 0.0 }));
        assert_eq!((found.response_ns, found.timed), (None, 2));
    }

    #[test]
    fn memory_is_bounded_and_nothing_counts_twice() {
        let mut union = Union::default();
        for at in 0..10_000u64 {
            union.add(Timestamp(at * 10), Timestamp(at * 10 + 5));
        }
        assert_eq!((union.total, union.open.len()), (Nanos(50_000), OPEN));
        union.add(Timestamp(0), Timestamp(100_000));
        // Settled busy periods stay as they are; all time after them is covered.
        let settled = (10_000 - OPEN as u64) * 10 - 5;
        assert_eq!(union.total.0, (10_000 - OPEN as u64) * 5 + 100_000 - settled);
    }

    proptest! {
        #[test]
        fn as_counted_at_every_instant(
            mut spans in prop::collection::vec((0u64..80, 0u64..30, 0u64..25, 0usize..4), 1..60)
        ) {
            spans.sort_by_key(|(issued, ..)| *issued);
            let rows: Vec<_> = spans.iter().enumerate().map(|(id, (issued, queue, service, kind))| {
                let (issued, op) = (issued + 30, ["R", "WS", "W", "FF"][*kind]);
                request(id as u64, &format!("{op} 0+8 q{} d{issued} c{}", issued - queue, issued + service))
            }).collect();
            let mut meta = fonio_core::Meta::default();
            (meta.began, meta.ended) = (Some(fonio_core::Timestamp(0)), Some(fonio_core::Timestamp(200_000)));
            let found = analyse_rows(&rows, &meta).outstanding;
            let at = |time: u64, kinds: &[usize]| spans.iter().any(|(issued, queue, service, kind)| {
                kinds.contains(kind) && issued + 30 - queue <= time && time < issued + 30 + service
            });
            let count = |kinds: &[usize]| (0..200).filter(|time| at(*time, kinds)).count() as u64 * 1000;
            prop_assert_eq!(found.waited.map_or(0, |waited| waited.ns.0), count(&[0, 1, 3]));
            for (group, kind) in [(Group::Reads, 0), (Group::WriteSync, 1), (Group::WriteAsync, 2)] {
                let row = found.groups.iter().find(|row| row.group == group);
                prop_assert_eq!(row.map_or(0, |row| row.time.ns.0), count(&[kind]));
            }
        }
    }
}
