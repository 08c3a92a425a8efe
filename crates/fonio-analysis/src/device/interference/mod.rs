//! Estimates how much reads and writes slow each other down in recordings of real work, by comparing requests
//! at equal queue depth.
//!
//! The two-process protocol of Nguyen et al. (section 4.3) compares a run of the work alone with a run during
//! which another process does I/O. A recording of real work has no such pair of runs. Requests that meet the
//! other op also meet more requests, so the difference of plain means measures the queue depth. This
//! difference even shows a "slowdown" in a load of reads if half of these reads are labelled as writes. This
//! module therefore compares requests at the same number of outstanding requests, with and without the other
//! op among them:
//!
//! - *Strata.* A request arrives when it is queued (or issued, if the source shows no queueing). Requests are
//!   compared only if four properties at arrival are equal: the depth, the size class, the class of the time
//!   since the device's last completion, and whether a request without data (for example a flush) is
//!   outstanding.
//! - *Estimate.* In each stratum with requests on both sides, the mean time to completion of each side is
//!   computed. The strata are weighted by `with * without / (with + without)` requests (Mantel and Haenszel),
//!   which is efficient for small strata. The slowdown is the ratio of the weighted mean with the other op to
//!   the weighted mean without it.
//! - *Interval.* Neighbouring requests are not independent. The recording is cut into 16 to 32 slices of
//!   equal time, and the ratio is computed again without each slice (delete-a-group jackknife). At a level of
//!   99 percent, fewer than one recording in twenty has a false claim for either op.
//!   `interference/tests/experiment.rs` tests this on loads of reads.
//!
//! Only requests outstanding when a request arrives count towards its depth. Requests that arrive later are
//! ignored, because a slow request meets more later requests.

mod strata;

use fonio_core::{ByteCount, Nanos, Request, Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Minimum number of slices with compared requests on each side; with fewer slices, the interval is not
/// meaningful.
pub const SLICES_LEAST: u32 = 8;

/// Slowdown of reads by writes and of writes by reads, in recordings of real work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// Reads with and without writes outstanding.
    pub read: Slowdown,
    /// Writes with and without reads outstanding.
    pub write: Slowdown,
}

/// Requests of one op with and without the other op outstanding.
///
/// *With*: at least one request of the other op was outstanding on the same device when the counted request
/// arrived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Requests that arrived with the other op outstanding.
    pub with: SlowdownSide,
    /// Requests that arrived without the other op outstanding.
    pub without: SlowdownSide,
    /// The comparison at equal depth; absent if too few requests are comparable.
    pub equal_depth: Option<EqualDepth>,
}

/// One side of the comparison. The means of the two sides are not comparable, because their queue depths
/// differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowdownSide {
    /// Requests whose completion is known.
    pub requests: u64,
    /// Mean time from queue to completion, in nanoseconds.
    pub mean_response_ns: Option<f64>,
    /// Mean time from issue to completion, in nanoseconds.
    pub mean_service_ns: Option<f64>,
    /// Mean size in bytes.
    pub mean_bytes: Option<f64>,
    /// Mean number of other requests that were outstanding when a request arrived.
    pub mean_depth: Option<f64>,
}

/// Compares requests of one op that arrived at the same number of outstanding requests, with and without
/// requests of the other op among these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EqualDepth {
    /// Number of compared requests that arrived with the other op outstanding.
    pub with_requests: u64,
    /// Number of compared requests that arrived without the other op outstanding.
    pub without_requests: u64,
    /// Weighted mean time to completion with the other op outstanding, in nanoseconds: response time, or
    /// service time if the source shows no queueing.
    pub with_mean_ns: f64,
    /// Weighted mean time to completion without the other op outstanding, in nanoseconds.
    pub without_mean_ns: f64,
    /// The mean with the other op divided by the mean without it.
    pub slowdown: f64,
    /// Lower end of the slowdown's 99 percent interval.
    pub low: f64,
    /// Upper end of the slowdown's 99 percent interval.
    pub high: f64,
}

use std::collections::{BTreeMap, VecDeque};

use crate::figures::facts::{Facts, Frame};
use crate::over_time::bins::{Bins, Fold};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ends::Ends;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;

use strata::Strata;

/// Maximum number of time slices. A long recording has at least half this number of slices.
const SLICES: usize = 32;
/// Maximum number of requests held back to sort them by arrival, since rows come in the order of issue. A
/// request overtaken by more than this number of requests is not compared. Block-layer queues have room for
/// 256 requests.
const HELD: usize = 512;
/// Requests that arrive at this depth or a greater one are not compared.
const DEEP: u64 = 256;

/// Compares requests that met the other op with requests that did not.
#[derive(Debug, Default)]
pub(crate) struct InterferenceTally {
    /// Requests held back for sorting, in order of arrival.
    held: VecDeque<Arrival>,
    devices: Vec<Found>,
    /// Totals of reads and of writes, each without and with the other op outstanding.
    sides: [[Side; 2]; 2],
    slices: Bins<Slice, SLICES>,
}

#[derive(Debug)]
struct Arrival {
    at: Timestamp,
    device: usize,
    kind: Kind,
    end: Timestamp,
    bytes: ByteCount,
    response: Option<Nanos>,
    service: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Write,
    Neither,
}

/// The requests that an arrival finds outstanding on its device.
#[derive(Debug, Default)]
struct Found {
    /// End and kind of each outstanding request.
    ends: Ends<(Timestamp, Kind)>,
    kinds: [u64; 3],
    now: Timestamp,
    /// When the device last completed a request, or became busy.
    began: Timestamp,
}

#[derive(Debug, Default)]
struct Side {
    requests: u64,
    bytes: ByteCount,
    depth: u64,
    services: u64,
    service_sum: Nanos,
    responses: u64,
    response_sum: Nanos,
}

/// The strata of reads and of writes in a slice of time.
#[derive(Debug, Default)]
struct Slice([Strata; 2]);

/// The bytes of the key, from the highest: depth class, size class, age class, and whether a request without
/// data is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stratum(u32);

/// Number of requests and sum of their times, without and with the other op outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    count: [u64; 2],
    sum: [Nanos; 2],
}

impl Pair {
    fn fold(&mut self, more: &Pair) {
        for side in 0..2 {
            self.count[side] += more.count[side];
            self.sum[side] += more.sum[side];
        }
    }

    fn less(&self, part: Option<&Pair>) -> Pair {
        let part = part.copied().unwrap_or_default();
        Pair {
            count: [self.count[0] - part.count[0], self.count[1] - part.count[1]],
            sum: [self.sum[0] - part.sum[0], self.sum[1] - part.sum[1]],
        }
    }

    fn is_common(&self) -> bool {
        self.count[0] > 0 && self.count[1] > 0
    }
}

impl Fold for Slice {
    fn fold(&mut self, later: Slice) {
        for (strata, later) in self.0.iter_mut().zip(later.0) {
            for (stratum, pair) in later.pairs {
                strata.at(stratum).fold(&pair);
            }
        }
    }
}

/// Returns the depth class: exact up to 16, then eight classes per doubling.
fn depth_class(depth: u64) -> u8 {
    let depth = depth.min(DEEP);
    if depth <= 16 {
        return depth as u8;
    }
    let bits = depth.ilog2() - 3;
    (16 + (bits - 1) * 8 + (depth >> bits) as u32 - 8) as u8
}

/// Returns the size class: up to 4 KiB, then one class per factor of four.
fn size_class(bytes: ByteCount) -> u8 {
    ((u64::BITS - (bytes.0.saturating_sub(1) >> 12).leading_zeros()).div_ceil(2)).min(5) as u8
}

/// Returns the age class: below 8 µs, then one class per doubling, up to 16 ms.
fn age_class(age: Nanos) -> u8 {
    (u64::BITS - (age.0 >> 13).leading_zeros()).min(11) as u8
}

impl Found {
    fn advance(&mut self, time: Timestamp) {
        while let Some((end, kind)) = self.ends.peek() {
            if end > time {
                break;
            }
            self.ends.pop();
            self.kinds[kind as usize] -= 1;
            self.began = end;
        }
        self.now = time;
    }

    fn push(&mut self, end: Timestamp, kind: Kind) {
        if self.ends.is_empty() {
            self.began = self.now;
        }
        self.kinds[kind as usize] += 1;
        self.ends.push((end, kind));
        let kinds: u64 = self.kinds.iter().sum();
        assert!(kinds == self.ends.len() as u64, "each outstanding request is of one kind");
    }
}

impl Question for InterferenceTally {
    type Answer = Interference;

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some((start, end)) = seen.flight else { return };
        let kind = match seen.class {
            class if class.is_read() => Kind::Read,
            class if class.is_write() => Kind::Write,
            _ => Kind::Neither,
        };
        let arrived = seen.queued.map_or(start, |queued| queued.min(start));
        let arrival = Arrival {
            at: arrived,
            device: seen.device,
            kind,
            end,
            bytes: seen.bytes,
            response: seen.response,
            service: seen.service,
        };
        // Nearly all requests arrive in the order in which they are issued.
        if self.held.back().is_none_or(|held| held.at <= arrived) {
            self.held.push_back(arrival);
        } else {
            let place = self.held.iter().rposition(|held| held.at <= arrived).map_or(0, |before| before + 1);
            self.held.insert(place, arrival);
        }
        if self.held.len() > HELD {
            self.arrive();
        }
    }

    fn finish(mut self, _: &mut Ending) -> Interference {
        while !self.held.is_empty() {
            self.arrive();
        }
        let slowdown = |op: usize| {
            let [without, with] = &self.sides[op];
            let slices = self.slices.bins().iter();
            let slices = slices.map(|slice| slice.0[op].pairs.iter().copied().collect());
            Slowdown {
                with: with.finish(),
                without: without.finish(),
                equal_depth: equal_depth(&slices.collect::<Vec<_>>()),
            }
        };
        Interference { read: slowdown(0), write: slowdown(1) }
    }

    fn figures(interference: &Interference, _: &Frame, facts: &mut Facts) {
        for (op, ops, others, slowdown) in [
            ("read", "reads", "writes", &interference.read),
            ("write", "writes", "reads", &interference.write),
        ] {
            // Only a comparison at equal depth gives a figure.
            let Some(equal) = &slowdown.equal_depth else { continue };
            let name = |figure: &str| format!("interference.{op}.{figure}");
            let label = |part: &str| format!("slowdown of {ops} with {others} outstanding, {part}");
            facts.put(name("slowdown"), label("at equal depth"), Unit::Ratio, equal.slowdown);
            facts.put(name("slowdown_low"), label("lower end of the interval"), Unit::Ratio, equal.low);
            facts.put(name("slowdown_high"), label("upper end of the interval"), Unit::Ratio, equal.high);
            let label = |part: &str| format!("response of {ops} {part} {others} outstanding, mean");
            facts.put(name("with_mean"), label("with"), Unit::Ns, equal.with_mean_ns);
            facts.put(name("without_mean"), label("without"), Unit::Ns, equal.without_mean_ns);
            facts.count(name("with_requests"), format!("{ops} that met {others}"), equal.with_requests);
        }
    }
}

impl InterferenceTally {
    /// Compares the request that arrived first among the requests that are held back.
    fn arrive(&mut self) {
        let Some(arrival) = self.held.pop_front() else { return };
        let found = at(&mut self.devices, arrival.device);
        if arrival.at < found.now {
            // Requests that arrived later have already been compared.
            found.push(arrival.end, arrival.kind);
            return;
        }
        found.advance(arrival.at);
        let depth = found.ends.len() as u64;
        let time = arrival.response.or(arrival.service);
        if let (Kind::Read | Kind::Write, Some(time)) = (arrival.kind, time) {
            let op = arrival.kind as usize;
            let met = usize::from(found.kinds[1 - op] > 0);
            let side = &mut self.sides[op][met];
            side.requests += 1;
            side.bytes += arrival.bytes;
            side.depth += depth;
            for (count, sum, time) in [
                (&mut side.services, &mut side.service_sum, arrival.service),
                (&mut side.responses, &mut side.response_sum, arrival.response),
            ] {
                *count += u64::from(time.is_some());
                *sum += time.unwrap_or_default();
            }
            if (1..DEEP).contains(&depth) {
                let stratum = Stratum(u32::from_be_bytes([
                    depth_class(depth),
                    size_class(arrival.bytes),
                    age_class(arrival.at - found.began),
                    u8::from(found.kinds[Kind::Neither as usize] > 0),
                ]));
                let pair = self.slices.at(arrival.at).0[op].at(stratum);
                pair.count[met] += 1;
                pair.sum[met] += time;
            }
        }
        found.push(arrival.end, arrival.kind);
    }
}

impl Side {
    fn finish(&self) -> SlowdownSide {
        SlowdownSide {
            requests: self.requests,
            mean_response_ns: ratio(self.response_sum.0, self.responses),
            mean_service_ns: ratio(self.service_sum.0, self.services),
            mean_bytes: ratio(self.bytes.0, self.requests),
            mean_depth: ratio(self.depth, self.requests),
        }
    }
}

/// Compares the strata that have requests on both sides. `slices` must be in time order.
fn equal_depth(slices: &[BTreeMap<Stratum, Pair>]) -> Option<EqualDepth> {
    let mut all: BTreeMap<Stratum, Pair> = BTreeMap::new();
    for (stratum, pair) in slices.iter().flatten() {
        all.entry(*stratum).or_default().fold(pair);
    }
    all.retain(|_, pair| pair.is_common());
    let whole = weighted_means(all.values().copied())?;
    let mut holding = [0u32; 2];
    let mut without_one = Vec::new();
    for slice in slices {
        let counts = |side: usize| {
            all.keys().filter_map(|key| slice.get(key)).map(|pair| pair.count[side]).sum::<u64>()
        };
        let counts = [counts(0), counts(1)];
        (0..2).for_each(|side| holding[side] += u32::from(counts[side] > 0));
        if counts != [0, 0] {
            let rest = all.iter().map(|(key, pair)| pair.less(slice.get(key)));
            without_one.push(weighted_means(rest)?.slowdown());
        }
    }
    let least = holding[0].min(holding[1]);
    if least < SLICES_LEAST {
        return None;
    }
    let slowdown = whole.slowdown();
    let groups = without_one.len() as f64;
    let mean = without_one.iter().sum::<f64>() / groups;
    let squares: f64 = without_one.iter().map(|one| (one - mean) * (one - mean)).sum();
    let error = (squares * (groups - 1.0) / groups).sqrt() / slowdown;
    let half = student_t_99(least - 1) * error;
    // An interval that reaches 0 or less carries no information.
    if half >= 1.0 {
        return None;
    }
    let count = |side: usize| all.values().map(|pair| pair.count[side]).sum();
    Some(EqualDepth {
        with_requests: count(1),
        without_requests: count(0),
        with_mean_ns: whole.with,
        without_mean_ns: whole.without,
        slowdown,
        low: slowdown * (1.0 - half),
        high: slowdown / (1.0 - half),
    })
}

struct Means {
    without: f64,
    with: f64,
}

impl Means {
    fn slowdown(&self) -> f64 {
        self.with / self.without
    }
}

fn weighted_means(strata: impl Iterator<Item = Pair>) -> Option<Means> {
    let (mut weights, mut without, mut with) = (0.0, 0.0, 0.0);
    for Pair { count, sum } in strata.filter(Pair::is_common) {
        let counts = count.map(|count| count as f64);
        let weight = counts[0] * counts[1] / (counts[0] + counts[1]);
        weights += weight;
        without += weight * sum[0].0 as f64 / counts[0];
        with += weight * sum[1].0 as f64 / counts[1];
    }
    (without > 0.0).then(|| Means { without: without / weights, with: with / weights })
}

/// The two-sided 99 percent points of Student's t for 7 to 31 degrees of freedom.
const T_99: [f64; 25] = [
    3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831,
    2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750, 2.744,
];

fn student_t_99(freedom: u32) -> f64 {
    T_99[(freedom.saturating_sub(SLICES_LEAST - 1) as usize).min(T_99.len() - 1)]
}

#[cfg(test)]
#[path = "tests/experiment.rs"]
mod experiment;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyser::tests::{analyse, analyse_rows, request};

    #[test]
    fn classes() {
        let depths: Vec<u8> =
            [0, 1, 16, 17, 18, 31, 32, 35, 36, 63, 64, 255, 256, 9999].map(depth_class).into();
        assert_eq!(depths, [0, 1, 16, 16, 17, 23, 24, 24, 25, 31, 32, 47, 48, 48]);
        let sizes: Vec<u8> = [0, 4096, 4097, 16 << 10, 64 << 10, 65 << 10, 1 << 20, 9 << 20]
            .map(|bytes| size_class(ByteCount(bytes)))
            .into();
        assert_eq!(sizes, [0, 0, 1, 1, 2, 3, 4, 5]);
        let ages: Vec<u8> =
            [0, 8191, 8192, 16_383, 16_384, 8 << 20, 1 << 40].map(|age| age_class(Nanos(age))).into();
        assert_eq!(ages, [0, 0, 1, 1, 2, 11, 11]);
    }

    #[test]
    fn reads_that_find_a_write() {
        let lines = [
            "R 0+8 q0 d0 c10",
            "W 0+8 q10 d10 c100",
            "R 0+8 q20 d20 c60",
            // This read is queued while the write is in flight, and issued after the write ends.
            "R 0+8 q90 d110 c120",
            "R 0+8 q100 d130 c140",
            "R 0+8 dev1 q20 d131 c141",
        ];
        let read = analyse(&lines).interference.read;
        assert_eq!((read.with.requests, read.without.requests), (2, 3));
        assert_eq!(read.with.mean_response_ns, Some(35_000.0));
        assert_eq!(read.with.mean_service_ns, Some(25_000.0));
        assert_eq!(read.without.mean_service_ns, Some(10_000.0));
        assert_eq!((read.with.mean_depth, read.without.mean_depth), (Some(1.0), Some(1.0 / 3.0)));
        assert_eq!(read.equal_depth, None);
    }

    proptest! {
        #[test]
        fn as_if_every_pair_were_looked_at(
            mut requests in prop::collection::vec((0u64..80, 0u64..15, 1u64..25, any::<bool>()), 1..40)
        ) {
            requests.sort_by_key(|(issued, ..)| *issued);
            let rows: Vec<_> = requests.iter().enumerate().map(|(id, (issued, queue, service, write))| {
                let (issued, op) = (issued + 20, if *write { "W" } else { "R" });
                request(id as u64, &format!("{op} 0+8 q{} d{issued} c{}", issued - queue, issued + service))
            }).collect();
            let mut expected = [[0u64; 2]; 2];
            for row in &rows {
                let met = rows.iter().any(|other| {
                    other.op != row.op
                        && (other.queued, other.request_id) < (row.queued, row.request_id)
                        && other.completed > row.queued
                });
                expected[usize::from(requests[row.request_id as usize].3)][usize::from(met)] += 1;
            }
            let found = analyse_rows(&rows, &fonio_core::Meta::default()).interference;
            prop_assert_eq!([found.read.without.requests, found.read.with.requests], expected[0]);
            prop_assert_eq!([found.write.without.requests, found.write.with.requests], expected[1]);
        }
    }
}
