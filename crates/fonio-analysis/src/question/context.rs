//! State shared by several questions: times, devices, names and counts.

use fonio_core::meta::{
    SHOWS_SCHEDULER, SHOWS_SLOW_CALLS, SHOWS_TOTALS, SOURCE_PROCFS, SOURCE_PTRACE, SOURCE_WATCH,
};
use fonio_core::{DeviceId, EventKind, Flags, Meta, Nanos, Request, Timestamp};
use rustc_hash::FxHashMap;

use super::flush::FlushFinder;
use super::loss::{Loss, LostInSpan};
use super::options::AnalysisOptions;
use super::seen::Seen;
use super::span::{Span, SpanSource};
use super::threads::Threads;
use crate::causes::names::FileNames;
use crate::causes::process::ProcessCounts;
use crate::device::info::{DeviceCount, DeviceInfo};
use crate::filter::FilterOptions;
use crate::launch::path::Intervals;
use crate::requests::class::Class;
use crate::requests::times::{ResponseTally, ServiceTally};

/// The source format of recordings from tracepoints.
pub(crate) const LIVE: &str = "tracefs";

/// Kinds of events that show requests or bios.
const BLOCK_KINDS: [EventKind; 5] =
    [EventKind::BioQueue, EventKind::BioComplete, EventKind::Insert, EventKind::Issue, EventKind::Complete];

/// Maximum number of devices with requests. Some questions keep up to 400 KB for each device.
pub(crate) const DEVICES_MAX: usize = 256;

/// State that several questions share during the analysis.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) threads: Threads,
    pub(crate) files: FileNames,
    pub(crate) service: ServiceTally,
    pub(crate) response: ResponseTally,
    pub(crate) processes: ProcessCounts,
    /// The waits of all threads, for critical paths.
    pub(crate) intervals: Intervals,
    filter: Option<FilterOptions>,
    flushes: FlushFinder,
    /// Start of the recording according to its producer.
    began: Option<Timestamp>,
    /// The end of the filter's time range, at which requests in flight are cut.
    cut: Timestamp,
    first: Option<Timestamp>,
    last: Timestamp,
    at: Timestamp,
    /// The end of the last interval with a request in flight on any device.
    busy_until: Timestamp,
    devices: Vec<DeviceId>,
    device_numbers: FxHashMap<DeviceId, usize>,
    last_device: usize,
    device_counts: Vec<DeviceCount>,
}

/// The state after the last row, from which questions compute their answers.
pub(crate) struct Ending<'a> {
    pub(crate) meta: &'a Meta,
    pub(crate) span: Span,
    /// The end of the span on the recording's clock.
    pub(crate) ended: Timestamp,
    pub(crate) lost: LostInSpan,
    /// The number of values that may be missing from a distribution.
    pub(crate) loss: Loss,
    pub(crate) is_filtered: bool,
    /// For each process number: the index of its row in the table of processes.
    pub(crate) places: Vec<u32>,
    pub(crate) context: Context,
}

impl Context {
    pub(crate) fn new(options: &AnalysisOptions) -> Context {
        Context {
            threads: Threads::default(),
            files: FileNames::default(),
            service: ServiceTally::default(),
            response: ResponseTally::default(),
            processes: ProcessCounts::default(),
            intervals: Intervals::default(),
            filter: options.filter.clone(),
            flushes: FlushFinder::new(options.fua_counts_as_flush),
            began: None,
            cut: Timestamp::MAX,
            first: None,
            last: Timestamp(0),
            at: Timestamp(0),
            busy_until: Timestamp(0),
            devices: Vec::new(),
            device_numbers: FxHashMap::default(),
            last_device: 0,
            device_counts: Vec::new(),
        }
    }

    /// Sets the time at which the recording began, and returns the start of the span.
    pub(crate) fn begin_at(&mut self, at: Timestamp) -> Timestamp {
        self.began = Some(at);
        let (from, until) = match &self.filter {
            Some(filter) => filter.range(at),
            None => (at, Timestamp::MAX),
        };
        self.cut = until;
        from
    }

    /// Returns the time span to which waits are clipped.
    pub(crate) fn span_of_waits(&self) -> (Timestamp, Timestamp) {
        let began = self.began.unwrap_or_default();
        (self.filter.as_ref().map_or(began, |filter| filter.range(began).0), self.cut)
    }

    /// Computes the values of a request that several questions need.
    #[inline]
    pub(crate) fn see(&mut self, row: &Request) -> Seen {
        let time = row.order_time();
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        // Questions rely on table order, so a row that is out of order gets the time of the preceding row.
        self.at = self.at.max(time);
        let begins = row.issued.or(row.queued);
        let flight = begins.zip(row.completed).and_then(|(_, completed)| {
            let end = completed.min(self.cut);
            (end >= self.at).then_some((self.at, end))
        });
        self.last = self.last.max(time).max(row.completed.unwrap_or_default());
        let process_time = row.queued.unwrap_or(time);
        let tid = row.cause_tid.or(row.tid);
        let device = self.device_number(row.device);
        let class = Class::of(row);
        let count = &mut self.device_counts[device];
        count.requests += 1;
        match class {
            Class::Read | Class::Readahead => count.read_bytes += row.bytes,
            _ if class.is_write() => count.write_bytes += row.bytes,
            _ => {}
        }
        let seen = Seen {
            id: row.request_id,
            device,
            op: row.op,
            class,
            flags: row.flags,
            sector: row.sector,
            bytes: row.bytes,
            queued: row.queued,
            at: self.at,
            flight,
            busy: flight.and_then(|(start, end)| self.stretch(start, end)),
            service: row.service(),
            response: row.response(),
            queue: row.queue(),
            process: self.threads.program_at(tid, process_time),
            unit: tid.and_then(|tid| self.threads.unit_at(tid, process_time)),
            flush: self.flushes.find(device, (row.op, class, row.flags), self.at, row.queued),
        };
        self.service.add(&seen);
        self.response.add(&seen, row.flags_known.contains(Flags::READAHEAD));
        self.processes.add(&seen);
        seen
    }

    /// Returns the part of an interval that follows all earlier intervals. Callers pass intervals in order of
    /// their start times.
    #[inline]
    fn stretch(&mut self, start: Timestamp, end: Timestamp) -> Option<(Timestamp, Timestamp)> {
        assert!(start <= end, "an interval does not end before it starts");
        let from = start.max(self.busy_until);
        if end <= from {
            return None;
        }
        self.busy_until = end;
        Some((from, end))
    }

    /// Returns whether the device is among the first [`DEVICES_MAX`] devices.
    #[inline]
    pub(crate) fn has_room_for(&self, id: DeviceId) -> bool {
        self.devices.get(self.last_device) == Some(&id)
            || self.devices.len() < DEVICES_MAX
            || self.device_numbers.contains_key(&id)
    }

    #[inline]
    fn device_number(&mut self, id: DeviceId) -> usize {
        if self.devices.get(self.last_device) != Some(&id) {
            self.last_device = *self.device_numbers.entry(id).or_insert_with(|| {
                self.devices.push(id);
                self.device_counts.push(DeviceCount::default());
                self.devices.len() - 1
            });
        }
        self.last_device
    }

    pub(crate) fn devices(&self, meta: &Meta) -> Vec<DeviceInfo> {
        let known: FxHashMap<DeviceId, _> = meta.devices.iter().map(|device| (device.id, device)).collect();
        let devices = self.devices.iter().zip(&self.device_counts);
        devices.map(|(id, count)| DeviceInfo::of(*id, known.get(id).copied(), *count)).collect()
    }

    pub(crate) fn end(self, meta: &Meta) -> Ending<'_> {
        assert!(self.devices.len() == self.device_counts.len(), "each device has a request count");
        let (span, ended) = self.span(meta);
        let lost = LostInSpan::of(meta, &span);
        Ending {
            meta,
            span,
            ended,
            loss: lost.loss(),
            lost,
            is_filtered: self.filter.as_ref().is_some_and(FilterOptions::is_partial),
            places: self.processes.places(&self.threads),
            context: self,
        }
    }

    /// Returns the span, and its end on the recording's clock.
    fn span(&self, meta: &Meta) -> (Span, Timestamp) {
        let known = meta.began.zip(meta.ended);
        let seen = self.first.map(|first| (first, self.last.max(first)));
        let (began, ended) = match (known, seen) {
            (Some(known), Some(seen)) => (known.0.min(seen.0), known.1.max(seen.1)),
            (Some(span), None) | (None, Some(span)) => span,
            (None, None) => (Timestamp(0), Timestamp(0)),
        };
        let source = if known.is_some() { SpanSource::Recording } else { SpanSource::Requests };
        let filter = self.filter.as_ref().filter(|filter| filter.has_range());
        let (began, ended, source) = match filter {
            Some(filter) => {
                let (from, until) = filter.range(self.began.unwrap_or(began));
                (began.max(from), ended.min(until), SpanSource::Filter)
            }
            None => (began, ended, source),
        };
        let ended = ended.max(began);
        (Span { began_ns: began, duration_ns: ended - began, source }, ended)
    }
}

impl<'a> Ending<'a> {
    /// Returns the final state of a recording without requests.
    #[cfg(test)]
    pub(crate) fn without_requests(meta: &'a Meta) -> Ending<'a> {
        Context::new(&AnalysisOptions::default()).end(meta)
    }

    pub(crate) fn began(&self) -> Timestamp {
        self.span.began_ns
    }

    /// Returns whether fonio recorded this machine itself. Only then does the absence of requests show that
    /// nothing happened.
    pub(crate) fn is_live(&self) -> bool {
        [LIVE, SOURCE_PROCFS, SOURCE_WATCH].contains(&self.meta.source.format.as_str())
    }

    /// Returns whether fonio recorded only file-system calls. The absence of requests then shows nothing.
    pub(crate) fn is_calls_only(&self) -> bool {
        self.meta.source.format == SOURCE_PTRACE
    }

    /// Returns whether the recording comes from a trace that shows the scheduler and no requests.
    pub(crate) fn is_scheduler_only(&self) -> bool {
        let shows_blocks = BLOCK_KINDS.iter().any(|kind| self.shows(kind.name()));
        self.shows(SHOWS_SCHEDULER) && !shows_blocks && self.context.devices.is_empty()
    }

    /// Returns whether the trace has totals of devices, without requests.
    pub(crate) fn is_totals_only(&self) -> bool {
        self.shows(SHOWS_TOTALS)
    }

    /// Returns whether the trace has only slow calls of a file system, without requests.
    pub(crate) fn is_slow_calls_only(&self) -> bool {
        self.shows(SHOWS_SLOW_CALLS)
    }

    fn shows(&self, what: &str) -> bool {
        self.meta.source.shows.iter().any(|shown| shown == what)
    }

    pub(crate) fn duration(&self) -> Nanos {
        self.span.duration_ns
    }
}
