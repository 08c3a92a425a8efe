//! Sums up figures per time slice, so that a comparison of recordings can compute intervals.

use fonio_core::{ByteCount, Nanos, Request, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// At most 128 slices of equal length; every list has one value per slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slices {
    /// Width of a slice in nanoseconds.
    pub slice_ns: Nanos,
    /// How much of each slice lies in the span, in nanoseconds. Only a part of the last slice lies in the
    /// span.
    pub covered_ns: Vec<u64>,
    /// Requests.
    pub requests: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Flushes.
    pub flushes: Vec<u64>,
    /// The sum of service times, in nanoseconds.
    pub service_sum_ns: Vec<u64>,
    /// Time with a request in flight on any device, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// Number of requests with a response time of 100 ms or more, for which a program may wait.
    pub long: Vec<u64>,
    /// Reads (readahead included).
    pub read: SliceLatency,
    /// Synchronous writes.
    pub write_sync: SliceLatency,
    /// Other writes: asynchronous, or not known to be synchronous.
    pub write_async: SliceLatency,
}

/// Latencies of one kind of request by slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceLatency {
    /// Time from issue to completion.
    pub service: SliceTimes,
    /// Time from queue to completion.
    pub response: SliceTimes,
}

/// One latency by slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceTimes {
    /// The number of requests for which this latency is known.
    pub count: Vec<u64>,
    /// The sum of the latencies, in nanoseconds.
    pub sum_ns: Vec<u64>,
    /// Median in nanoseconds, within 1.6 percent.
    pub p50_ns: Vec<Option<u64>>,
    /// 99th percentile in nanoseconds, within 1.6 percent.
    pub p99_ns: Vec<Option<u64>>,
    /// Number of values in the slice below the median of all slices. Values equal to the median (within 1.6
    /// percent) are counted as a fraction, so that the total is exactly half of all values.
    pub below_p50: Vec<f64>,
    /// Number of values in the slice below the 99th percentile of all slices. Values equal to this percentile
    /// are counted as in `below_p50`.
    pub below_p99: Vec<f64>,
    /// Histogram over all slices: value in nanoseconds (within 1.6 percent) and number of requests.
    pub histogram: Vec<(u64, u64)>,
}

use fonio_core::statistics::steps::Steps;

use crate::figures::facts::Facts;
use crate::over_time::bins::{Bins, Fold};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::per_second;
use crate::question::seen::Seen;
use crate::requests::class::Class;
use crate::waits::outstanding::{LONG, may_be_waited_for};

/// Maximum number of time slices. The number is large enough to detect autocorrelation over a hundredth of
/// the span or more.
const SLICES: usize = 128;

/// A rate: its name, a function that returns the value of each slice, and the number of nanoseconds in its
/// unit of time.
type Rate = (&'static str, fn(&Slices) -> &[u64], f64);

/// Name of the figure for the rate of long responses.
pub(crate) const LONG_RATE: &str = "long.per_s";

pub(crate) const RATES: [Rate; 7] = [
    (LONG_RATE, |slices| &slices.long, 1e9),
    ("io_share.busy_union", |slices| &slices.busy_ns, 1.0),
    ("io_share.latency_sum", |slices| &slices.service_sum_ns, 1.0),
    ("flushes.per_s", |slices| &slices.flushes, 1e9),
    ("totals.requests_per_s", |slices| &slices.requests, 1e9),
    ("totals.read_bytes_per_s", |slices| &slices.read_bytes, 1e9),
    ("totals.write_bytes_per_s", |slices| &slices.write_bytes, 1e9),
];

impl Slices {
    /// Adds a figure used only in comparisons.
    pub(crate) fn compared_figures(&self, has_responses: bool, facts: &mut Facts) {
        let rate = per_second(self.long.iter().sum::<u64>(), Nanos(self.covered_ns.iter().sum()));
        let rate = rate.filter(|_| has_responses);
        facts.felt(LONG_RATE, "responses of 100 ms or longer, rate", Unit::PerS, rate);
    }
}

#[derive(Debug, Default)]
pub(crate) struct SliceTally {
    slices: Bins<Slice, SLICES>,
}

#[derive(Debug, Default)]
struct Slice {
    requests: u64,
    read_bytes: ByteCount,
    write_bytes: ByteCount,
    flushes: u64,
    service_sum: Nanos,
    busy: Nanos,
    long: u64,
    /// Service and response times of reads, synchronous writes and other writes.
    times: [[Times; 2]; 3],
}

#[derive(Debug, Default)]
struct Times {
    count: u64,
    sum: Nanos,
    steps: Steps<STEP_BITS>,
}

/// Binary logarithm of the number of histogram steps per doubling. With this number, the error of a slice's
/// percentile is at most 1.6 percent.
const STEP_BITS: u32 = 5;

impl Times {
    #[inline]
    fn add(&mut self, time: Nanos) {
        self.count += 1;
        self.sum += time;
        self.steps.add(time.0);
    }

    fn fold(&mut self, later: &Times) {
        self.count += later.count;
        self.sum += later.sum;
        self.steps.fold(&later.steps);
    }

    /// Returns the middle of the histogram step with the percentile, and the share of this step's values
    /// below the percentile.
    fn quantile_step(&self, percent: u64) -> Option<(u64, f64)> {
        let wanted = self.count as f64 * percent as f64 / 100.0;
        let mut seen = 0u64;
        self.steps.iter().find_map(|(middle, count)| {
            let before = seen as f64;
            seen += count;
            (seen as f64 >= wanted).then(|| (middle, (wanted - before) / count as f64))
        })
    }

    fn below(&self, (step, share): (u64, f64)) -> f64 {
        let counts = self.steps.iter().take_while(|(middle, _)| *middle <= step);
        counts.map(|(middle, count)| count as f64 * if middle < step { 1.0 } else { share }).sum()
    }

    fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        self.steps.iter().find_map(|(middle, count)| {
            seen += count;
            (seen >= rank).then_some(middle)
        })
    }
}

impl Fold for Slice {
    fn fold(&mut self, later: Slice) {
        self.requests += later.requests;
        self.read_bytes += later.read_bytes;
        self.write_bytes += later.write_bytes;
        self.flushes += later.flushes;
        self.service_sum += later.service_sum;
        self.busy += later.busy;
        self.long += later.long;
        for (kind, later) in self.times.iter_mut().zip(later.times) {
            for (times, later) in kind.iter_mut().zip(later) {
                times.fold(&later);
            }
        }
    }
}

impl Question for SliceTally {
    type Answer = Slices;

    fn begin_at(&mut self, origin: Timestamp) {
        self.slices.begin_at(origin);
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let slice = self.slices.at(seen.at);
        slice.requests += 1;
        slice.flushes += u64::from(seen.flush.is_some());
        slice.service_sum += seen.time_in_flight();
        let long = seen.response.is_some_and(|response| response >= LONG);
        slice.long += u64::from(long && may_be_waited_for(seen.class));
        let kind = match seen.class {
            Class::Read | Class::Readahead => Some(0),
            Class::WriteSync => Some(1),
            Class::WriteAsync | Class::WriteUnknown => Some(2),
            Class::Flush | Class::Discard | Class::Other => None,
        };
        if let Some(kind) = kind {
            let bytes = if kind == 0 { &mut slice.read_bytes } else { &mut slice.write_bytes };
            *bytes += seen.bytes;
            let [service, response] = &mut slice.times[kind];
            for (times, time) in [(service, seen.service), (response, seen.response)] {
                if let Some(time) = time {
                    times.add(time);
                }
            }
        }
        if let Some((from, until)) = seen.busy {
            self.slices.spread(from, until, |slice, time| slice.busy += time);
        }
    }

    fn finish(mut self, end: &mut Ending) -> Slices {
        let (began_ns, ended_ns) = (end.began(), end.ended);
        self.slices.extend_to(ended_ns);
        let slices = self.slices.bins();
        let count = |value: fn(&Slice) -> u64| slices.iter().map(value).collect();
        let covered = |index: usize| {
            // The first slice includes the part of the span before the first request.
            let from = if index == 0 { began_ns } else { self.slices.begin_of(index as u64) };
            let until = self.slices.begin_of(index as u64 + 1);
            let until = if index + 1 == slices.len() { until.min(ended_ns) } else { until };
            (until - from).0
        };
        let latency =
            |kind: usize| SliceLatency { service: times(slices, kind, 0), response: times(slices, kind, 1) };
        Slices {
            slice_ns: self.slices.width(),
            covered_ns: (0..slices.len()).map(covered).collect(),
            requests: count(|slice| slice.requests),
            read_bytes: count(|slice| slice.read_bytes.0),
            write_bytes: count(|slice| slice.write_bytes.0),
            flushes: count(|slice| slice.flushes),
            service_sum_ns: count(|slice| slice.service_sum.0),
            busy_ns: count(|slice| slice.busy.0),
            long: count(|slice| slice.long),
            read: latency(0),
            write_sync: latency(1),
            write_async: latency(2),
        }
    }
}

fn times(slices: &[Slice], kind: usize, which: usize) -> SliceTimes {
    let times = || slices.iter().map(move |slice| &slice.times[kind][which]);
    let mut all = Times::default();
    times().for_each(|times| all.fold(times));
    let below = |percent: u64| match all.quantile_step(percent) {
        Some(step) => times().map(|times| times.below(step)).collect(),
        None => vec![0.0; slices.len()],
    };
    SliceTimes {
        count: times().map(|times| times.count).collect(),
        sum_ns: times().map(|times| times.sum.0).collect(),
        p50_ns: times().map(|times| times.percentile(50)).collect(),
        p99_ns: times().map(|times| times.percentile(99)).collect(),
        below_p50: below(50),
        below_p99: below(99),
        histogram: all.steps.iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::analyser::tests::{analyse_rows, request};

    #[test]
    fn the_shares_below_a_quantile_add_up() {
        // 1000 reads in a second take 1, 2, … 7 ms in turn, so the latencies of many reads equal the median
        // or the 99th percentile.
        let rows: Vec<_> = (0..1000u64)
            .map(|id| {
                request(
                    id,
                    &format!(
                        "R {}+8 q{at} d{at} c{}",
                        id * 8,
                        id * 1000 + (id % 7 + 1) * 1000,
                        at = id * 1000
                    ),
                )
            })
            .collect();
        let slices = analyse_rows(&rows, &fonio_core::Meta::default()).slices;
        assert!(slices.requests.len() > 32, "{} slices", slices.requests.len());
        let service = &slices.read.service;
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        assert!((sum(&service.below_p50) - 500.0).abs() < 1e-6, "{}", sum(&service.below_p50));
        assert!((sum(&service.below_p99) - 990.0).abs() < 1e-6, "{}", sum(&service.below_p99));
        assert_eq!(service.histogram.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert_eq!(service.histogram.len(), 7);
        assert!(service.below_p50.iter().zip(&service.count).all(|(below, count)| *below <= *count as f64));
    }

    #[test]
    fn only_long_responses_that_may_be_waited_for_count() {
        let rows: Vec<_> = [
            "R 0+8 q0 d0 c99999",
            "R 0+8 q0 d0 c100000",
            "WS 0+8 q0 d90000 c100000",
            "W 0+8 q0 d0 c500000",
            "RA 0+8 q0 d0 c500000",
        ]
        .iter()
        .enumerate()
        .map(|(id, line)| request(id as u64, line))
        .collect();
        let slices = analyse_rows(&rows, &fonio_core::Meta::default()).slices;
        assert_eq!(slices.long.iter().sum::<u64>(), 3);
    }
}
