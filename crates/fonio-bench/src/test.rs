//! Defines the tests of a benchmark and the sets of tests.

use fonio_core::Access;
use serde::{Deserialize, Serialize};

/// A set of tests that the user can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Set {
    /// The four numbers of Kim et al., Table III: reads and writes, sequential and random (4 KiB).
    Four,
    /// The remaining response times of Nguyen et al., section 4.3: sequential 4 KiB.
    Response,
    /// Nguyen et al., section 4.5: 1, 2, 4 and 8 processes.
    Concurrency,
    /// The concurrency parameters of Nguyen et al., section 5: 1 to 32 processes that share a range, measured in rounds
    /// ([`crate::concurrency`]). Only `fonio bench concurrency` runs this set; users cannot select it.
    ConcurrencyParameters,
    /// Every kind of I/O with every size of [`SIZES`](fonio_storebench_document::figures::SIZES); only for
    /// StoreBench.
    Sizes,
    /// Throughput of 4 KiB random writes over growing ranges (Kim et al., section 5.3).
    AddressRange,
    /// Nguyen et al., sections 4.3 and 4.4: 4 KiB reads and writes alone, and concurrently with 1 and 4
    /// processes each.
    Interference,
    /// One sequential write that is longer than the cache of faster flash in any device.
    Sustained,
    /// Random writes while the file system or device is nearly full.
    NearFull,
    /// Additional tests whose results are needed to fit a model.
    Fit,
    /// Held-back tests that check a fitted model; the fit never uses them.
    HeldBack,
}

impl Set {
    /// The sets that users can select, with their names on the command line.
    pub const ALL: [(Set, &'static str); 9] = [
        (Set::Four, "four"),
        (Set::Response, "response"),
        (Set::Concurrency, "concurrency"),
        (Set::AddressRange, "address-range"),
        (Set::Interference, "interference"),
        (Set::Sustained, "sustained"),
        (Set::NearFull, "near-full"),
        (Set::Fit, "fit"),
        (Set::HeldBack, "held-back"),
    ];

    /// Returns the set with this name on the command line.
    pub fn named(name: &str) -> Option<Set> {
        Set::ALL.iter().find(|(_, known)| *known == name).map(|(set, _)| *set)
    }
}

/// A test, which determines one number of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// Name of the test: access pattern, size, and special properties.
    pub name: String,
    /// The set that contains the test.
    pub set: Set,
    /// The access pattern of each measured process.
    pub access: Access,
    /// The size of each request, in bytes.
    pub request_bytes: u64,
    /// The range of each process in bytes; the ranges are adjacent.
    pub range_bytes: u64,
    /// Number of requests of each process, unless the time limit is reached first.
    pub requests: u64,
    /// Number of measured concurrent processes, each with one request in flight.
    pub processes: u32,
    /// The access pattern of additional concurrent processes that are not measured. The number, request size
    /// and duration of these processes equal those of the measured processes, and each process has its own
    /// range.
    pub beside: Option<Access>,
    /// Number of bytes written sequentially from the beginning of the file or device before the test, in
    /// requests of 512 KiB. If [`Test::is_prepared_each_time`] is false, these bytes are written only once
    /// per benchmark.
    pub prepare_bytes: u64,
}

impl Test {
    /// Returns the number of bytes that the test uses, from the beginning of the file or device.
    pub fn extent_bytes(&self) -> u64 {
        let of_each = if self.beside.is_some() { 2 } else { 1 };
        self.prepare_bytes.max(of_each * u64::from(self.processes) * self.range_bytes)
    }

    /// Whether the range is prepared before every run. Reads do not change their range, and sequential writes
    /// hardly depend on the state of a range that has been written.
    pub fn is_prepared_each_time(&self) -> bool {
        if self.set == Set::ConcurrencyParameters {
            // The range is prepared once per round, before the tests of this kind of I/O.
            return false;
        }
        let beside_writes = self.beside.is_some_and(|access| access.writes());
        let alone_in_order = self.access == Access::SeqWrite && self.processes == 1;
        beside_writes || (self.access.writes() && !alone_in_order)
    }

    /// Returns the maximum number of bytes that one run writes, including its preparation. A concurrent
    /// writer runs as long as the reader; this estimate assumes that writer and reader issue the same number
    /// of requests.
    pub fn run_writes_bytes(&self) -> u64 {
        let own = self.requests * self.request_bytes * u64::from(self.processes);
        let beside = match self.beside {
            Some(access) if access.writes() => own,
            _ => 0,
        };
        let writes = if self.access.writes() { own } else { 0 } + beside;
        writes + if self.is_prepared_each_time() { self.prepare_bytes } else { 0 }
    }

    /// Whether the test has this access pattern and request size.
    pub(crate) fn is_of(&self, access: Access, request_bytes: u64) -> bool {
        self.access == access && self.request_bytes == request_bytes
    }
}
