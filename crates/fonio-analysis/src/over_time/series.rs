//! Shows changes over time in at most 512 bins. The width of a bin doubles as the recording grows.

use fonio_core::{ByteCount, Nanos, Request, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time series. Every list has one value per bin. A request is counted in the bin of its issue, or of its
/// queueing if the issue is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Start of the first bin, in nanoseconds since the span began.
    pub start_ns: Nanos,
    /// Width of a bin in nanoseconds.
    pub bin_ns: Nanos,
    /// Requests of every kind.
    pub requests: Vec<u64>,
    /// Reads.
    pub reads: Vec<u64>,
    /// Writes.
    pub writes: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Flushes, according to the definition in `flushes`.
    pub flushes: Vec<u64>,
    /// Mean service time in nanoseconds; absent if nothing completed.
    pub mean_service_ns: Vec<Option<f64>>,
    /// Longest recorded service time in nanoseconds; if events were lost, a longer service time may be
    /// missing.
    pub max_service_ns: Vec<Option<u64>>,
    /// Mean service time of reads in nanoseconds.
    pub mean_read_service_ns: Vec<Option<f64>>,
    /// Mean service time of writes in nanoseconds.
    pub mean_write_service_ns: Vec<Option<f64>>,
    /// Longest response time in nanoseconds; absent if the source shows no queueing.
    pub max_response_ns: Vec<Option<u64>>,
    /// Mean response time of reads in nanoseconds.
    pub mean_read_response_ns: Vec<Option<f64>>,
    /// Mean response time of writes in nanoseconds.
    pub mean_write_response_ns: Vec<Option<f64>>,
    /// Mean number of requests in flight on all devices during the bin.
    pub mean_depth: Vec<f64>,
}

use crate::over_time::bins::{Bins, Fold};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::ratio;
use crate::question::seen::Seen;

/// Maximum number of bins: about the width of a chart.
const BINS: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct SeriesTally {
    bins: Bins<Bin, BINS>,
}

#[derive(Debug, Default)]
struct Bin {
    requests: u64,
    reads: u64,
    writes: u64,
    read_bytes: ByteCount,
    write_bytes: ByteCount,
    flushes: u64,
    service: Times,
    read_service: Times,
    write_service: Times,
    read_response: Times,
    write_response: Times,
    service_max: Nanos,
    response_max: Option<Nanos>,
    in_flight: Nanos,
}

#[derive(Debug, Default)]
struct Times {
    count: u64,
    sum: Nanos,
}

impl Times {
    #[inline]
    fn add(&mut self, time: Option<Nanos>) {
        self.count += u64::from(time.is_some());
        self.sum += time.unwrap_or_default();
    }

    fn fold(&mut self, later: &Times) {
        self.count += later.count;
        self.sum += later.sum;
    }
}

impl Fold for Bin {
    fn fold(&mut self, later: Bin) {
        self.requests += later.requests;
        self.reads += later.reads;
        self.writes += later.writes;
        self.read_bytes += later.read_bytes;
        self.write_bytes += later.write_bytes;
        self.flushes += later.flushes;
        self.service.fold(&later.service);
        self.read_service.fold(&later.read_service);
        self.write_service.fold(&later.write_service);
        self.read_response.fold(&later.read_response);
        self.write_response.fold(&later.write_response);
        self.service_max = self.service_max.max(later.service_max);
        self.response_max = self.response_max.max(later.response_max);
        self.in_flight += later.in_flight;
    }
}

impl Question for SeriesTally {
    type Answer = Series;

    fn begin_at(&mut self, origin: Timestamp) {
        self.bins.begin_at(origin);
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let bin = self.bins.at(seen.at);
        bin.requests += 1;
        bin.flushes += u64::from(seen.flush.is_some());
        bin.service.add(seen.service);
        bin.service_max = bin.service_max.max(seen.service.unwrap_or_default());
        bin.response_max = bin.response_max.max(seen.response);
        if seen.class.is_read() {
            bin.reads += 1;
            bin.read_bytes += seen.bytes;
            bin.read_service.add(seen.service);
            bin.read_response.add(seen.response);
        } else if seen.class.is_write() {
            bin.writes += 1;
            bin.write_bytes += seen.bytes;
            bin.write_service.add(seen.service);
            bin.write_response.add(seen.response);
        }
        if let Some((start, end)) = seen.flight {
            self.bins.spread(start, end, |bin, time| bin.in_flight += time);
        }
    }

    fn finish(mut self, end: &mut Ending) -> Series {
        let (began_ns, ended_ns) = (end.began(), end.ended);
        self.bins.extend_to(ended_ns);
        let width = self.bins.width();
        let bins = self.bins.bins();
        let count = |value: fn(&Bin) -> u64| bins.iter().map(value).collect();
        let mean = |times: fn(&Bin) -> &Times| {
            bins.iter().map(|bin| ratio(times(bin).sum.0, times(bin).count)).collect()
        };
        Series {
            start_ns: self.bins.origin() - began_ns,
            bin_ns: width,
            requests: count(|bin| bin.requests),
            reads: count(|bin| bin.reads),
            writes: count(|bin| bin.writes),
            read_bytes: count(|bin| bin.read_bytes.0),
            write_bytes: count(|bin| bin.write_bytes.0),
            flushes: count(|bin| bin.flushes),
            mean_service_ns: mean(|bin| &bin.service),
            max_service_ns: bins
                .iter()
                .map(|bin| (bin.service.count > 0).then_some(bin.service_max.0))
                .collect(),
            mean_read_service_ns: mean(|bin| &bin.read_service),
            mean_write_service_ns: mean(|bin| &bin.write_service),
            max_response_ns: bins.iter().map(|bin| bin.response_max.map(|time| time.0)).collect(),
            mean_read_response_ns: mean(|bin| &bin.read_response),
            mean_write_response_ns: mean(|bin| &bin.write_response),
            mean_depth: bins.iter().map(|bin| bin.in_flight.0 as f64 / width.0 as f64).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Nanos;

    use crate::analyser::tests::analyse;

    #[test]
    fn three_milliseconds() {
        let lines = ["R 0+8 d0 c500", "W 0+8 q100 d400 c2000", "FF d2100 c2200", "R 0+16 d2500 c3000"];
        let series = analyse(&lines).series;
        assert_eq!((series.bin_ns, series.start_ns), (Nanos(1_000_000), Nanos(0)));
        assert_eq!(
            (series.requests, series.reads, series.flushes),
            (vec![2, 0, 2], vec![1, 0, 1], vec![0, 0, 1])
        );
        assert_eq!(series.read_bytes, [4096, 0, 8192]);
        assert_eq!(series.mean_service_ns, [Some(1_050_000.0), None, Some(300_000.0)]);
        assert_eq!(series.max_service_ns, [Some(1_600_000), None, Some(500_000)]);
        assert_eq!(series.mean_read_response_ns, [None, None, None]);
        assert_eq!(series.mean_write_response_ns, [Some(1_900_000.0), None, None]);
        assert_eq!(series.max_response_ns, [Some(1_900_000), None, None]);
        assert_eq!(series.mean_depth, [1.1, 1.0, 0.6]);
    }
}
