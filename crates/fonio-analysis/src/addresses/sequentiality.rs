//! Counts sequential and random bytes, in total and over time (Kim et al., Table V and Figure 6).

use fonio_core::{ByteCount, Nanos, Request, Sector, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sequential and random requests. A request is sequential if it starts where one of the last `window`
/// requests of the same op and device ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sequentiality {
    /// Number of earlier requests with which a request is compared, per op and device. The default of 1 is
    /// our choice: the studies give no definition.
    pub window: u32,
    /// Reads.
    pub read: SequentialShare,
    /// Writes.
    pub write: SequentialShare,
    /// Cumulative bytes over time.
    pub cumulative: CumulativeCurves,
}

/// Sequential and random requests and bytes of one op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialShare {
    /// Sequential requests.
    pub sequential_requests: u64,
    /// Random requests.
    pub random_requests: u64,
    /// Sequential bytes.
    pub sequential_bytes: ByteCount,
    /// Random bytes.
    pub random_bytes: ByteCount,
    /// Share of bytes that are sequential; absent if there are no bytes.
    pub sequential_bytes_share: Option<f64>,
}

/// Cumulative curves. Entry `i` of a curve is its value at the end of bin `i`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CumulativeCurves {
    /// Start of the first bin, in nanoseconds since the span began.
    pub start_ns: Nanos,
    /// Width of a bin in nanoseconds.
    pub bin_ns: Nanos,
    /// Bytes read sequentially.
    pub sequential_read_bytes: Vec<u64>,
    /// Bytes read at random.
    pub random_read_bytes: Vec<u64>,
    /// Bytes written sequentially.
    pub sequential_write_bytes: Vec<u64>,
    /// Bytes written at random.
    pub random_write_bytes: Vec<u64>,
}

use crate::figures::facts::{Facts, Frame};
use crate::over_time::bins::{Bins, Fold};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::options::AnalysisOptions;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;

/// Maximum number of earlier requests that a sequential request may continue.
pub const WINDOW_MAX: usize = 16;
const BINS: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct SequentialTally {
    window: usize,
    /// For each device, the end addresses of its last reads and of its last writes.
    devices: Vec<[Ends; 2]>,
    read: SequentialShare,
    write: SequentialShare,
    bins: Bins<Bin, BINS>,
}

#[derive(Debug, Default)]
struct Ends {
    ends: [Sector; WINDOW_MAX],
    /// Number of request ends in `ends`, at most the window.
    known: usize,
    /// Index at which the end of the next request is stored.
    next: usize,
}

/// Bytes per time bin: sequential read, random read, sequential write, random write.
#[derive(Debug, Default)]
struct Bin([ByteCount; 4]);

impl Fold for Bin {
    fn fold(&mut self, later: Bin) {
        for (bytes, more) in self.0.iter_mut().zip(later.0) {
            *bytes += more;
        }
    }
}

impl Ends {
    /// Returns whether `start` is one of the last end addresses, and stores `end` as the newest end address.
    #[inline]
    fn follows(&mut self, start: Sector, end: Sector, window: usize) -> bool {
        assert!(self.next < window && self.known <= window, "at most `window` end addresses are stored");
        let sequential = self.ends[..self.known].contains(&start);
        self.ends[self.next] = end;
        self.next = if self.next + 1 == window { 0 } else { self.next + 1 };
        self.known = window.min(self.known + 1);
        sequential
    }
}

impl Question for SequentialTally {
    type Answer = Sequentiality;

    fn with(options: &AnalysisOptions) -> SequentialTally {
        let window = (options.sequential_window as usize).clamp(1, WINDOW_MAX);
        SequentialTally { window, ..SequentialTally::default() }
    }

    fn begin_at(&mut self, origin: Timestamp) {
        self.bins.begin_at(origin);
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some(start) = seen.sector.filter(|_| seen.has_data()) else { return };
        let write = seen.class.is_write();
        let end = start.after(seen.bytes);
        let ends = &mut at(&mut self.devices, seen.device)[usize::from(write)];
        let sequential = ends.follows(start, end, self.window);
        let share = if write { &mut self.write } else { &mut self.read };
        let (requests, bytes) = if sequential {
            (&mut share.sequential_requests, &mut share.sequential_bytes)
        } else {
            (&mut share.random_requests, &mut share.random_bytes)
        };
        *requests += 1;
        *bytes += seen.bytes;
        let bin = &mut self.bins.at(seen.at).0[usize::from(write) * 2 + usize::from(!sequential)];
        *bin += seen.bytes;
    }

    fn finish(mut self, end: &mut Ending) -> Sequentiality {
        self.bins.extend_to(end.ended);
        let curve = |which: usize| {
            let mut sum = ByteCount(0);
            let add = |bin: &Bin| {
                sum += bin.0[which];
                sum.0
            };
            self.bins.bins().iter().map(add).collect()
        };
        let share = |share: &SequentialShare| SequentialShare {
            sequential_bytes_share: ratio(
                share.sequential_bytes,
                share.sequential_bytes + share.random_bytes,
            ),
            ..share.clone()
        };
        Sequentiality {
            window: self.window as u32,
            read: share(&self.read),
            write: share(&self.write),
            cumulative: CumulativeCurves {
                start_ns: self.bins.origin() - end.began(),
                bin_ns: self.bins.width(),
                sequential_read_bytes: curve(0),
                random_read_bytes: curve(1),
                sequential_write_bytes: curve(2),
                random_write_bytes: curve(3),
            },
        }
    }

    fn figures(sequentiality: &Sequentiality, _: &Frame, facts: &mut Facts) {
        for (op, share) in [("read", &sequentiality.read), ("write", &sequentiality.write)] {
            let name = |figure: &str| format!("sequentiality.{op}.{figure}");
            let label = |what: &str| format!("{op} {what}");
            let sequential = share.sequential_bytes;
            facts.amount(name("sequential_bytes"), label("bytes, sequential"), sequential);
            facts.amount(name("random_bytes"), label("bytes, random"), share.random_bytes);
            let sequential = share.sequential_bytes_share;
            facts.share(name("sequential_bytes_share"), label("bytes, sequential share"), sequential);
            let random = ratio(share.random_requests, share.sequential_requests + share.random_requests);
            facts.share(name("random_requests_share"), label("requests, random share"), random);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analyser::tests::{analyse, analyse_with, request, rows};
    use fonio_core::{Meta, Op};

    fn with_window(rows: &[Request], window: u32) -> Sequentiality {
        let options = AnalysisOptions { sequential_window: window, ..AnalysisOptions::default() };
        analyse_with(options, rows, &Meta::default()).sequentiality
    }

    #[test]
    fn each_op_and_device_has_its_own_end() {
        let lines = [
            "R 0+8 d0 c1",
            "W 8+8 d1 c2",
            "R 8+8 d2 c3",
            "R 16+8 dev1 d3 c4",
            "R 16+8 d4 c5",
            "W 100+8 d5 c6",
            "W 16+8 d6 c7",
        ];
        let found = analyse(&lines).sequentiality;
        assert_eq!((found.read.sequential_requests, found.read.random_requests), (2, 2));
        assert_eq!((found.write.sequential_requests, found.write.random_requests), (0, 3));
        assert_eq!(found.read.sequential_bytes_share, Some(0.5));
        assert_eq!(found.cumulative.sequential_read_bytes, [8192]);
        // With a window of 2, the last write continues the first write.
        assert_eq!(with_window(&rows(&lines), 2).write.sequential_requests, 1);
    }

    #[test]
    fn curves_never_fall() {
        let lines: Vec<String> =
            (0..50).map(|i| format!("W {}+8 d{} c{}", i * 8 % 104, i * 20_000, i * 20_000 + 5)).collect();
        let found = analyse(&lines.iter().map(String::as_str).collect::<Vec<_>>()).sequentiality;
        let curve = &found.cumulative.sequential_write_bytes;
        assert!(curve.is_sorted() && curve.len() <= 512);
        assert_eq!(curve.last(), Some(&found.write.sequential_bytes.0));
    }

    proptest! {
        #[test]
        fn as_if_looked_up_in_all_requests(
            places in prop::collection::vec((0u64..12, 1u64..3, any::<bool>(), 0u32..2), 1..100),
            window in 1usize..5,
        ) {
            let rows: Vec<Request> = places.iter().enumerate().map(|(id, (place, size, write, device))| {
                let op = if *write { "W" } else { "R" };
                request(id as u64, &format!("{op} {}+{} dev{device} d{id} c{}", place * 8, size * 8, id + 1))
            }).collect();
            let sequential = rows.iter().enumerate().filter(|(at, row)| {
                let same = |other: &&Request| other.op == row.op && other.device == row.device;
                let ends = rows[..*at].iter().rev().filter(same).take(window);
                ends.map(|other| other.sector.unwrap().after(other.bytes)).any(|end| Some(end) == row.sector)
            });
            let (reads, writes): (Vec<_>, Vec<_>) = sequential.map(|(_, row)| row.op).partition(|op| *op == Op::Read);
            let found = with_window(&rows, window as u32);
            prop_assert_eq!(found.read.sequential_requests, reads.len() as u64);
            prop_assert_eq!(found.write.sequential_requests, writes.len() as u64);
        }
    }
}
