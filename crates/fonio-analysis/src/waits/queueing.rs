//! Computes queue time, service time, queue depth and busy time.

use std::cmp::Reverse;

use fonio_core::{EventKind, Nanos, Request, Timestamp, Unit};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::requests::class::Group;

/// Time in queues, and number of requests in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queueing {
    /// Time from queueing to first issue, by group, if the source shows queueing.
    pub groups: Vec<QueueRow>,
    /// Share of response time spent queued, over requests with known response time and queue time.
    pub queue_share_of_response: Option<f64>,
    /// Number of requeued requests and of requeues; absent if the source does not show requeues.
    pub requeues: Option<Requeues>,
    /// The depth of each device.
    pub devices: Vec<DeviceDepth>,
}

/// Queue time of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// The group.
    pub group: Group,
    /// Time from queue to first issue, in nanoseconds.
    pub queue_ns: Distribution,
}

/// Requeues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requeues {
    /// Requests that were requeued at least once.
    pub requests: u64,
    /// Total number of requeues.
    pub requeues: u64,
}

/// Requests in flight on one device: from issue (from queueing, if the source shows no issue) to completion.
/// Requests without a known completion are ignored. If timestamps are equal, completions come before issues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDepth {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Mean depth over the span, weighted by time.
    pub mean_depth: Option<f64>,
    /// Mean depth over the time in which the device was busy.
    pub mean_depth_when_busy: Option<f64>,
    /// The greatest depth.
    pub max_depth: u64,
    /// Time at each depth in nanoseconds, from depth 0; the last entry includes all greater depths. The list
    /// has at most 65 entries.
    pub time_at_depth_ns: Vec<u64>,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: Nanos,
    /// Busy time divided by the span.
    pub busy_share: Option<f64>,
    /// Mean number of requests already in flight when a request was issued.
    pub mean_depth_at_issue: Option<f64>,
    /// Busy time divided by requests, in nanoseconds: the device's time per request. The mean service time
    /// exceeds this time if requests queue inside the device or driver.
    pub busy_per_request_ns: Option<f64>,
}

use crate::distribution::tally::{Curve, Tally};
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ends::Ends;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;
use crate::requests::class::Class;

/// Number of queue depths that are distinguished; the last depth includes all greater depths. eMMC, SD and
/// UFS queues contain fewer than 64 requests.
const DEPTHS: usize = 65;

#[derive(Debug, Default)]
pub(crate) struct QueueTally {
    queue: [Tally; Class::COUNT],
    /// For each class: the number of requests without a queue time.
    without_queue: [u64; Class::COUNT],
    queue_sum: Nanos,
    response_sum: Nanos,
    requeues: Option<Requeues>,
    devices: Vec<InFlight>,
}

/// Requests in flight on one device, at the time of the last added request.
#[derive(Debug)]
struct InFlight {
    /// End times of the requests in flight.
    ends: Ends<Timestamp>,
    now: Timestamp,
    max_depth: u64,
    time_at_depth: [Nanos; DEPTHS],
    depth_time: u128,
    depth_at_issue: u64,
    issues: u64,
}

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight {
            ends: Ends::default(),
            now: Timestamp(0),
            max_depth: 0,
            time_at_depth: [Nanos(0); DEPTHS],
            depth_time: 0,
            depth_at_issue: 0,
            issues: 0,
        }
    }
}

impl InFlight {
    /// Removes requests that have ended by `time`.
    #[inline]
    fn advance(&mut self, time: Timestamp) {
        while let Some(end) = self.ends.peek() {
            if end > time {
                break;
            }
            self.pass(end);
            self.ends.pop();
        }
        if !self.ends.is_empty() {
            self.pass(time);
        }
        self.now = time;
    }

    #[inline]
    fn pass(&mut self, time: Timestamp) {
        assert!(self.now <= time, "requests arrive in the order of their issue");
        let depth = self.ends.len();
        let passed = time - self.now;
        self.time_at_depth[depth.min(DEPTHS - 1)] += passed;
        self.depth_time += u128::from(passed.0) * depth as u128;
        self.now = time;
    }

    #[inline]
    fn start(&mut self, end: Timestamp) {
        self.depth_at_issue += self.ends.len() as u64;
        self.issues += 1;
        self.ends.push(end);
        self.max_depth = self.max_depth.max(self.ends.len() as u64);
    }

    fn finish(&mut self, device: u32, span: Nanos) -> DeviceDepth {
        self.advance(Timestamp::MAX);
        let busy: Nanos = self.time_at_depth[1..].iter().copied().sum();
        let deepest = self.time_at_depth.iter().rposition(|time| *time > Nanos(0)).unwrap_or(0);
        let mut time_at_depth_ns: Vec<u64> =
            self.time_at_depth[..=deepest].iter().map(|time| time.0).collect();
        time_at_depth_ns[0] = (span - busy).0;
        let mean_over = |time: Nanos| (time.0 > 0).then(|| self.depth_time as f64 / time.0 as f64);
        DeviceDepth {
            device,
            mean_depth: mean_over(span),
            mean_depth_when_busy: mean_over(busy),
            max_depth: self.max_depth,
            time_at_depth_ns,
            busy_ns: busy,
            busy_share: ratio(busy, span),
            mean_depth_at_issue: ratio(self.depth_at_issue, self.issues),
            busy_per_request_ns: ratio(busy.0, self.issues),
        }
    }
}

impl Question for QueueTally {
    type Answer = Queueing;

    #[inline]
    fn request(&mut self, row: &Request, seen: &Seen) {
        if let Some(queue) = seen.queue {
            self.queue[seen.class as usize].add(queue.0);
            if let Some(response) = seen.response {
                self.queue_sum += queue;
                self.response_sum += response;
            }
        }
        self.without_queue[seen.class as usize] += u64::from(seen.queue.is_none());
        if let Some(times) = row.requeues {
            let requeues = self.requeues.get_or_insert_default();
            requeues.requests += u64::from(times > 0);
            requeues.requeues += u64::from(times);
        }
        let device = at(&mut self.devices, seen.device);
        device.advance(seen.at);
        if let Some((_, end)) = seen.flight {
            device.start(end);
        }
    }

    fn finish(mut self, end: &mut Ending) -> Queueing {
        let span = end.duration();
        // If the source shows requeues and none occurred, the count is 0, not unknown.
        if end.meta.source.shows.iter().any(|kind| kind == EventKind::Requeue.name()) {
            self.requeues.get_or_insert_default();
        }
        let groups = Group::ALL.into_iter().filter_map(|group| {
            let queue = Tally::together(group.classes().map(|class| &self.queue[class as usize]));
            let without = group.classes().map(|class| self.without_queue[class as usize]).sum();
            let queue_ns = queue.distribution_despite(end.loss.and(without), 1, Curve::With)?;
            Some(QueueRow { group, queue_ns })
        });
        Queueing {
            groups: groups.collect(),
            queue_share_of_response: ratio(self.queue_sum, self.response_sum),
            requeues: self.requeues.clone(),
            devices: (self.devices.iter_mut().enumerate())
                .filter(|(_, device)| device.issues > 0)
                .map(|(index, device)| device.finish(index as u32, span))
                .collect(),
        }
    }

    fn figures(queueing: &Queueing, frame: &Frame, facts: &mut Facts) {
        let share = queueing.queue_share_of_response;
        facts.share("queueing.queue_share", "queueing, share of response of all requests", share);
        for row in &queueing.groups {
            let label = format!("{} queueing time", row.group.adjective());
            facts.distribution(&format!("queueing.{}", row.group.name()), &label, Unit::Ns, &row.queue_ns);
        }
        let busiest = queueing.devices.iter().max_by_key(|row| (row.busy_ns, Reverse(row.device)));
        if let Some(row) = busiest {
            of_device(row, "queueing", "", facts);
        }
        for row in &queueing.devices {
            if let Some(device) = frame.device(row.device) {
                of_device(row, &format!("device[{device}]"), &format!("{device}, "), facts);
            }
        }
        if let Some(requeues) = &queueing.requeues {
            facts.count("queueing.requeues", "requeues", requeues.requeues);
            let share = ratio(requeues.requests, frame.requests());
            facts.share("queueing.requeued_share", "requeued requests, share", share);
        }
    }
}

/// Adds the figures of a device, or of the busiest device. The figures' labels begin with `of`.
fn of_device(row: &DeviceDepth, name: &str, of: &str, facts: &mut Facts) {
    let depth = row.mean_depth;
    facts.put(format!("{name}.mean_depth"), format!("{of}queue depth, mean"), Unit::Number, depth);
    let (label, depth) = (format!("{of}queue depth while busy, mean"), row.mean_depth_when_busy);
    facts.put(format!("{name}.mean_depth_when_busy"), label, Unit::Number, depth);
    facts.count(format!("{name}.max_depth"), format!("{of}queue depth, maximum"), row.max_depth);
    let (label, time) = (format!("{of}busy time per request"), row.busy_per_request_ns);
    facts.put(format!("{name}.busy_per_request"), label, Unit::Ns, time);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyser::tests::{analyse, analyse_rows, request};

    #[test]
    fn two_in_flight_for_a_while() {
        let lines =
            ["R 0+8 q0 d0 c40 r0", "W 0+8 q10 d20 c60 r2", "R 8+8 q60 d60 c70 r0", "R 8+8 q90 d90 c100 r0"];
        let queueing = analyse(&lines).queueing;
        let device = &queueing.devices[0];
        assert_eq!(device.time_at_depth_ns, [20_000, 60_000, 20_000]);
        assert_eq!((device.max_depth, device.busy_ns, device.busy_share), (2, Nanos(80_000), Some(0.8)));
        assert_eq!((device.mean_depth, device.mean_depth_at_issue), (Some(1.0), Some(0.25)));
        assert_eq!(device.busy_per_request_ns, Some(20_000.0));
        assert_eq!(queueing.requeues, Some(Requeues { requests: 1, requeues: 2 }));
        // 10 us were spent queued, of a total response time of 40 + 50 + 10 + 10 us.
        assert_eq!(queueing.queue_share_of_response, Some(1.0 / 11.0));
    }

    proptest! {
        #[test]
        fn depth_as_counted_at_every_instant(
            mut spans in prop::collection::vec((0u64..60, 0u64..25, 0u32..2), 1..40)
        ) {
            spans.sort_unstable();
            let rows: Vec<_> = spans.iter().enumerate().map(|(id, (start, length, device))| {
                request(id as u64, &format!("R 0+8 dev{device} d{start} c{}", start + length))
            }).collect();
            let analysis = analyse_rows(&rows, &fonio_core::Meta::default());
            for found in &analysis.queueing.devices {
                let name = &analysis.devices[found.device as usize].device;
                let at = |time: u64| spans.iter()
                    .filter(|(start, length, device)| {
                        format!("179:{device}") == *name && *start <= time && time < start + length
                    })
                    .count();
                let mut time_at_depth = [0u64; 64];
                (0..100).for_each(|time| time_at_depth[at(time)] += 1000);
                prop_assert_eq!(found.busy_ns.0, time_at_depth[1..].iter().sum::<u64>());
                let deepest = time_at_depth.iter().rposition(|time| *time > 0).unwrap();
                prop_assert_eq!(&found.time_at_depth_ns[1..], &time_at_depth[1..=deepest]);
                prop_assert!(found.max_depth >= deepest as u64);
            }
            let any = |time: u64| spans.iter().any(|(start, length, _)| *start <= time && time < start + length);
            let busy = (0..100).filter(|time| any(*time)).count() as u64 * 1000;
            let share = analysis.io_share.all;
            prop_assert_eq!(share.map_or(0, |share| share.busy_union_ns.0), busy);
        }
    }
}
