//! Selects individual requests for scatter plots: a sample by hash of the request id, and the slowest requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fonio_core::{Nanos, Random, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::point::Point;

/// Sampled requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Points {
    /// The number of requests that the sample represents.
    pub of_requests: u64,
    /// The sample, in table order: all requests if there are few, otherwise the requests whose ids have the
    /// smallest hashes.
    pub sample: Vec<Point>,
    /// The slowest requests by response time (by service time if unknown), slowest first.
    pub slowest: Vec<Point>,
}

use crate::question::Question;
use crate::question::context::Ending;
use crate::question::options::AnalysisOptions;
use crate::question::seen::Seen;

const SLOWEST: usize = 1000;

/// Keeps the requests with the smallest hashes (a uniform sample without random numbers), and the slowest
/// requests.
#[derive(Debug, Default)]
pub(crate) struct PointTally {
    sample_max: usize,
    of_requests: u64,
    /// The points with their hashes. When the list reaches twice the wanted number, the half with the greater
    /// hashes is dropped.
    sample: Vec<(u64, Point)>,
    /// Points whose hash is not below this bound are ignored.
    bound: u64,
    /// The slowest requests, sorted by latency, then by ascending id. The fastest of the slowest requests is
    /// on top of the heap.
    slow: BinaryHeap<Reverse<(Nanos, Reverse<u64>, u32)>>,
    slow_points: Vec<Point>,
}

impl PointTally {
    /// Drops the half of the points with the greater hashes. Dropping half at a time is cheaper than a heap,
    /// which moves entries for every point.
    #[cold]
    fn drop_half(&mut self) {
        if self.sample.len() > self.sample_max {
            let (_, first_dropped, _) =
                self.sample.select_nth_unstable_by_key(self.sample_max, |(hash, _)| *hash);
            self.bound = first_dropped.0;
            self.sample.truncate(self.sample_max);
        }
        assert!(self.sample.len() <= self.sample_max, "only the points with the smallest hashes are kept");
    }
}

impl Question for PointTally {
    type Answer = Points;

    fn with(options: &AnalysisOptions) -> PointTally {
        PointTally { sample_max: options.sample_points as usize, bound: u64::MAX, ..PointTally::default() }
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        self.of_requests += 1;
        let hash = Random::new(seen.id).next_u64();
        if hash < self.bound {
            self.sample.push((hash, Point::of(seen)));
            if self.sample.len() > 2 * self.sample_max {
                self.drop_half();
            }
        }
        let Some(latency) = seen.response.or(seen.service) else { return };
        if self.slow_points.len() < SLOWEST {
            self.slow.push(Reverse((latency, Reverse(seen.id), self.slow_points.len() as u32)));
            self.slow_points.push(Point::of(seen));
        } else if let Some(mut top) =
            self.slow.peek_mut().filter(|top| (latency, Reverse(seen.id)) > (top.0.0, top.0.1))
        {
            let place = top.0.2;
            self.slow_points[place as usize] = Point::of(seen);
            *top = Reverse((latency, Reverse(seen.id), place));
        }
    }

    fn finish(mut self, end: &mut Ending) -> Points {
        self.drop_half();
        let mut sample: Vec<Point> = self.sample.into_iter().map(|(_, point)| point).collect();
        for point in sample.iter_mut().chain(&mut self.slow_points) {
            point.place(end.began(), &end.places);
        }
        sample.sort_by_key(|point| (point.at_ns, point.request_id));
        self.slow_points
            .sort_by_key(|point| (Reverse(point.response_ns.or(point.service_ns)), point.request_id));
        Points { of_requests: self.of_requests, sample, slowest: self.slow_points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::{analyse_with, request};
    use fonio_core::Meta;

    #[test]
    fn least_hashes_and_slowest() {
        let rows: Vec<_> = (0..5000u64)
            .map(|id| request(id, &format!("R 0+8 d{} c{}", id * 10, id * 10 + id * 7 % 997)))
            .collect();
        let options = AnalysisOptions { sample_points: 100, ..AnalysisOptions::default() };
        let points = analyse_with(options, &rows, &Meta::default()).points;

        let mut by_hash: Vec<u64> = (0..5000).collect();
        by_hash.sort_by_key(|id| Random::new(*id).next_u64());
        let mut expected = by_hash[..100].to_vec();
        expected.sort_unstable();
        assert_eq!(points.sample.iter().map(|point| point.request_id).collect::<Vec<_>>(), expected);

        let mut slowest: Vec<(Reverse<Nanos>, u64)> =
            rows.iter().map(|row| (Reverse(row.service().unwrap()), row.request_id)).collect();
        slowest.sort_unstable();
        let found = points.slowest.iter().map(|point| (Reverse(point.service_ns.unwrap()), point.request_id));
        assert_eq!(found.collect::<Vec<_>>(), slowest[..SLOWEST]);
        assert_eq!(points.of_requests, 5000);
    }
}
