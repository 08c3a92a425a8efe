//! Do reads wait for writes, and writes for reads: slowdown in the wild.
//!
//! The two-process protocol of Nguyen et al. (section 4.3) compares the same work alone and beside another. A recording
//! of real work has no such pair, so this compares requests that met the other op with those that did not. The two must
//! not be taken for each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewer requests than this on either side are too few to say anything. Ours: the usual rule of thumb for a mean.
pub const ENOUGH: u64 = 30;

/// Slowdown in the wild.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// Reads with and without writes in flight.
    pub read: Slowdown,
    /// Writes with and without reads in flight.
    pub write: Slowdown,
}

/// One op with and without the other.
///
/// *With*: at least one request of the other op was in flight on the same device at some moment from this request's
/// queueing to its issue (at its issue, where its queueing is unknown). What comes after the issue is not looked at:
/// slow requests would meet more of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Requests with the other op in flight.
    pub with: SlowdownSide,
    /// Requests without.
    pub without: SlowdownSide,
    /// Mean response with over mean response without; absent where either is unknown.
    pub response_slowdown: Option<f64>,
    /// Mean service with over mean service without.
    pub service_slowdown: Option<f64>,
    /// Whether both sides have at least 30 requests. Where not, the ratio says little.
    pub enough: bool,
}

/// One side of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowdownSide {
    /// Requests with a known service time.
    pub requests: u64,
    /// Mean queued to completion, in nanoseconds.
    pub mean_response_ns: Option<f64>,
    /// Mean issue to completion, in nanoseconds.
    pub mean_service_ns: Option<f64>,
    /// Mean size in bytes: where it differs much between the sides, so may the response without any interference.
    pub mean_bytes: Option<f64>,
}

use crate::queueing::InFlight;
use crate::seen::{Seen, ratio};

/// Compares requests that met the other op with those that did not.
#[derive(Debug, Default)]
pub(crate) struct InterferenceTally {
    /// Reads and writes, without and with.
    ops: [[Side; 2]; 2],
}

#[derive(Debug, Default)]
struct Side {
    requests: u64,
    bytes: u64,
    service_sum: u64,
    responses: u64,
    response_sum: u64,
}

impl InterferenceTally {
    /// Takes a request; `before` is what is in flight on its device at its issue.
    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen, before: &InFlight) {
        let Some(service) = seen.service.filter(|_| seen.has_data()) else { return };
        let write = seen.class.is_write();
        let (others, last_end) =
            if write { (before.reads, before.last_read_end) } else { (before.writes, before.last_write_end) };
        let met = others > 0 || seen.queued.is_some_and(|queued| last_end > queued);
        let side = &mut self.ops[usize::from(write)][usize::from(met)];
        side.requests += 1;
        side.bytes = side.bytes.saturating_add(seen.bytes);
        side.service_sum = side.service_sum.saturating_add(service);
        if let Some(response) = seen.response {
            side.responses += 1;
            side.response_sum = side.response_sum.saturating_add(response);
        }
    }

    pub(crate) fn finish(&self) -> Interference {
        let [read, write] = &self.ops;
        Interference { read: slowdown(read), write: slowdown(write) }
    }
}

fn slowdown([without, with]: &[Side; 2]) -> Slowdown {
    let over = |with: Option<f64>, without: Option<f64>| {
        without.filter(|without| *without > 0.0).and_then(|without| Some(with? / without))
    };
    let (with_side, without_side) = (with.finish(), without.finish());
    Slowdown {
        response_slowdown: over(with_side.mean_response_ns, without_side.mean_response_ns),
        service_slowdown: over(with_side.mean_service_ns, without_side.mean_service_ns),
        enough: with.requests >= ENOUGH && without.requests >= ENOUGH,
        with: with_side,
        without: without_side,
    }
}

impl Side {
    fn finish(&self) -> SlowdownSide {
        SlowdownSide {
            requests: self.requests,
            mean_response_ns: ratio(self.response_sum, self.responses),
            mean_service_ns: ratio(self.service_sum, self.requests),
            mean_bytes: ratio(self.bytes, self.requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::analyser::tests::{analyse, analyse_rows, request};

    #[test]
    fn reads_behind_a_write() {
        let lines = [
            "R 0+8 q0 d0 c10",
            "W 0+8 q10 d10 c100",
            "R 0+8 q20 d20 c60",
            // Queued while the write was in flight, issued after it.
            "R 0+8 q90 d110 c120",
            "R 0+8 q100 d130 c140",
            "R 0+8 dev1 q20 d131 c141",
        ];
        let read = analyse(&lines).interference.read;
        assert_eq!((read.with.requests, read.without.requests), (2, 3));
        assert_eq!(read.with.mean_response_ns, Some(35_000.0));
        assert_eq!(read.with.mean_service_ns, Some(25_000.0));
        assert_eq!(read.without.mean_service_ns, Some(10_000.0));
        assert_eq!(read.service_slowdown, Some(2.5));
        assert!(!read.enough);
    }

    proptest! {
        #[test]
        fn as_if_every_pair_were_looked_at(
            mut requests in prop::collection::vec((0u64..80, 0u64..15, 1u64..25, any::<bool>()), 1..40)
        ) {
            // Issue, time queued before it, service, whether it is a write.
            requests.sort_by_key(|(issued, ..)| *issued);
            let rows: Vec<_> = requests.iter().enumerate().map(|(id, (issued, queue, service, write))| {
                let (issued, op) = (issued + 20, if *write { "W" } else { "R" });
                request(id as u64, &format!("{op} 0+8 q{} d{issued} c{}", issued - queue, issued + service))
            }).collect();
            let mut expected = [[0u64; 2]; 2];
            for (at, row) in rows.iter().enumerate() {
                let met = rows[..at].iter().any(|other| {
                    other.op != row.op && (other.completed > row.issued || other.completed > row.queued)
                });
                expected[usize::from(requests[at].3)][usize::from(met)] += 1;
            }
            let found = analyse_rows(&rows, &fonio_core::Meta::default()).interference;
            prop_assert_eq!([found.read.without.requests, found.read.with.requests], expected[0]);
            prop_assert_eq!([found.write.without.requests, found.write.with.requests], expected[1]);
        }
    }
}
