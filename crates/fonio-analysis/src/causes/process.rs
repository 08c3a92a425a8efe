//! Counts the requests of each process name.

use fonio_core::{ByteCount, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests by process name.
///
/// A request is attributed to the thread that dirtied its data, if known, otherwise to the thread that queued
/// it. The name is the `comm` of the thread's process at the time of the request, or the thread's own `comm`
/// if the source does not show its process. All kernel workers are counted as `kworker`, because their names
/// keep changing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// Process names, sorted by sum of latencies, then by requests and name.
    pub processes: Vec<Process>,
    /// Number of names beyond the maximum of 1024; their requests are counted together as `(other)`.
    pub names_beyond_cap: u64,
}

/// One process name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// The process name; `(unknown)` if the source does not show the thread, `tid N` if it shows only the
    /// thread's id.
    pub name: String,
    /// Systemd unit or container; absent if unknown, or if processes of this name belong to several units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Requests.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Synchronous write requests.
    pub sync_writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: ByteCount,
    /// Bytes written.
    pub write_bytes: ByteCount,
    /// Sum of service times in nanoseconds; absent if no completion is known.
    pub service_sum_ns: Option<Nanos>,
    /// Longest service time in nanoseconds; absent if no completion is known, or if a longer one may have
    /// been lost.
    pub service_max_ns: Option<Nanos>,
    /// If events were lost: the longest known service time in nanoseconds, a lower bound of the true maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_max_at_least_ns: Option<Nanos>,
    /// Share of the sum of all service times; absent if no completion is known.
    pub latency_share: Option<f64>,
}

impl Process {
    /// Returns the process name, with the unit or container if known: `python3 (notes.service)`.
    pub fn full_name(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.name),
            None => self.name.clone(),
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.name != UNKNOWN_NAME
    }
}

use crate::question::loss::Loss;
use crate::question::ratio::{at, ratio};
use crate::question::seen::Seen;
use crate::question::threads::{Threads, UNKNOWN_NAME};
use crate::requests::class::Class;

#[derive(Debug, Default)]
pub(crate) struct ProcessCounts {
    counts: Vec<Count>,
}

#[derive(Debug, Default)]
struct Count {
    requests: u64,
    /// The unit of the process name's first request, and whether a later request had a different unit.
    unit: Option<u32>,
    has_several_units: bool,
    reads: u64,
    writes: u64,
    sync_writes: u64,
    flushes: u64,
    read_bytes: ByteCount,
    write_bytes: ByteCount,
    /// The sum of the service times, and the longest service time; absent if no request completed.
    service: Option<(Nanos, Nanos)>,
}

impl Count {
    fn service_sum(&self) -> Nanos {
        self.service.map_or(Nanos(0), |(sum, _)| sum)
    }
}

impl ProcessCounts {
    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen) {
        let count = at(&mut self.counts, seen.process as usize);
        if count.requests == 0 {
            count.unit = seen.unit;
        }
        count.has_several_units |= count.unit != seen.unit;
        count.requests += 1;
        if seen.class.is_read() {
            count.reads += 1;
            count.read_bytes += seen.bytes;
        } else if seen.class.is_write() {
            count.writes += 1;
            count.write_bytes += seen.bytes;
            count.sync_writes += u64::from(seen.class == Class::WriteSync);
        }
        count.flushes += u64::from(seen.flush.is_some());
        if let Some(service) = seen.service {
            let (sum, max) = count.service.unwrap_or_default();
            count.service = Some((sum + service, max.max(service)));
        }
    }

    /// Returns the numbers of the names with requests, in table order.
    fn order(&self, threads: &Threads) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.counts.len()).filter(|at| self.counts[*at].requests > 0).collect();
        order.sort_by(|a, b| {
            let key = |at: usize| (self.counts[at].service_sum(), self.counts[at].requests);
            key(*b).cmp(&key(*a)).then_with(|| threads.name(*a as u32).cmp(threads.name(*b as u32)))
        });
        order
    }

    /// Returns the table row of each name, by the name's number.
    pub(crate) fn places(&self, threads: &Threads) -> Vec<u32> {
        let mut places = vec![0; self.counts.len()];
        for (place, number) in self.order(threads).into_iter().enumerate() {
            places[number] = place as u32;
        }
        places
    }

    pub(crate) fn table(&self, threads: &Threads, loss: Loss) -> Processes {
        let service_sum: Nanos = self.counts.iter().map(Count::service_sum).sum();
        let process = |number: &usize| {
            let count = &self.counts[*number];
            let longest = count.service.map(|(_, max)| max);
            let whole = loss == Loss::Nothing;
            let unit = count.unit.filter(|_| !count.has_several_units);
            Process {
                unit: unit.map(|unit| threads.unit(unit).to_owned()),
                name: threads.name(*number as u32).to_owned(),
                requests: count.requests,
                reads: count.reads,
                writes: count.writes,
                sync_writes: count.sync_writes,
                flushes: count.flushes,
                read_bytes: count.read_bytes,
                write_bytes: count.write_bytes,
                service_sum_ns: count.service.map(|(sum, _)| sum),
                service_max_ns: longest.filter(|_| whole),
                service_max_at_least_ns: longest.filter(|_| !whole),
                latency_share: count.service.and_then(|(sum, _)| ratio(sum, service_sum)),
            }
        };
        let processes = self.order(threads).iter().map(process).collect();
        Processes { processes, names_beyond_cap: threads.beyond_cap }
    }
}
