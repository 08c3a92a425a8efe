//! The analyser: takes rows, answers each question, and returns the analysis.

use std::io;

use fonio_core::meta::Mount;
use fonio_core::{
    BlockedCount, Call, DeviceId, Diagnostic, File, Flags, Mark, Meta, Request, RowSink, Sample, Statement,
    Thread, Timestamp, Wait, ignore_rows,
};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Class;
use crate::blocked::{Blocked, BlockedTally, Owner};
use crate::files::{FileTally, Files};
use crate::filter::FilterOptions;
use crate::findings::{self, Finding, Severity};
use crate::flushes::{FlushTally, Flushes};
use crate::interference::{Interference, InterferenceTally};
use crate::io_share::{IoShare, ShareTally};
use crate::latency::{Latency, ResponseTally};
use crate::launch::{Launch, LaunchTally};
use crate::locality::{Locality, PlaceTally};
use crate::loss::LostInSpan;
use crate::machine::{Machine, MachineTally};
use crate::outstanding::{Outstanding, OutstandingTally};
use crate::points::{PointTally, Points};
use crate::processes::{ProcessTally, Processes};
use crate::queueing::{QueueTally, Queueing};
use crate::seen::Seen;
use crate::sequentiality::{SequentialTally, Sequentiality};
use crate::series::{Series, SeriesTally};
use crate::size_latency::{ServiceTally, SizeLatency};
use crate::sizes::{SizeTally, Sizes};
use crate::slices::{SliceTally, Slices};
use crate::spatial::{Maps, Spatial};
use crate::sqlite::{Sqlite, SqliteTally};
use crate::threads::Threads;
use crate::totals::{self, Totals};
use crate::validity::{Validity, ValidityTally};

/// The version of the analysis's JSON schema.
pub const ANALYSIS_VERSION: u32 = 2;

/// The options of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// The number of earlier requests whose ends can make a request sequential; 1 to 16.
    pub sequential_window: u32,
    /// Whether a write with FUA counts as a flush.
    pub fua_counts_as_flush: bool,
    /// The most requests in the point sample.
    pub sample_points: u32,
    /// The filter before the analyser, if there is one. It is recorded in the analysis, and its time range becomes the
    /// span.
    pub filter: Option<FilterOptions>,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions {
            sequential_window: 1,
            fua_counts_as_flush: false,
            sample_points: 40_000,
            filter: None,
        }
    }
}

/// The complete analysis of one recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// Version of this schema.
    pub analysis_version: u32,
    /// The verdict: one sentence.
    pub verdict: String,
    /// The verdict's stable name in kebab-case: `not-storage`, `heavy-sync-writes`, `idle`, …
    pub verdict_id: String,
    /// The severity of the verdict: a note if storage is not the problem.
    pub verdict_severity: Severity,
    /// Ranked sentences, most important first.
    pub findings: Vec<Finding>,
    /// Whether the figures can be trusted.
    pub validity: Validity,
    /// The span to which rates and shares refer.
    pub span: Span,
    /// The filter, if there was one. In-flight, flushed and sequential requests then refer only to those that passed
    /// it.
    pub filter: Option<FilterOptions>,
    /// The devices with requests, by number; other parts refer to them by index.
    pub devices: Vec<DeviceInfo>,
    /// The duration of the recorded work, in nanoseconds: of a launch; else of the phases of a workload, first to last;
    /// else of the complete recording, if its command ended well. Absent if no work was recorded, or if there was a
    /// filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_time_ns: Option<u64>,
    /// Whether a command was recorded, from its start to its end.
    #[serde(default)]
    pub has_command: bool,
    /// The critical path of the launch, if the recording is of a launch and has its waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// The number of requests and bytes.
    pub totals: Totals,
    /// Sizes of requests.
    pub sizes: Sizes,
    /// Latencies of requests.
    pub latency: Latency,
    /// Latency by size.
    pub size_latency: SizeLatency,
    /// Addresses over time.
    pub spatial: Spatial,
    /// Flushes and the gaps between them.
    pub flushes: Flushes,
    /// Places that are written or read repeatedly.
    pub locality: Locality,
    /// The share of the time that is I/O.
    pub io_share: IoShare,
    /// The time that programs may have waited.
    pub outstanding: Outstanding,
    /// The threads that were blocked on storage, if the recording has the waits of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// Sequential and random requests.
    pub sequentiality: Sequentiality,
    /// Queue time, depth and busy time.
    pub queueing: Queueing,
    /// The effect of reads and writes on each other.
    pub interference: Interference,
    /// Requests by process.
    pub processes: Processes,
    /// Requests by file and kind of data, if the recording shows these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
    /// The transactions of SQLite databases, if the recording has file-system calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlite: Option<Sqlite>,
    /// The rest of the machine.
    pub machine: Machine,
    /// Changes over time.
    pub series: Series,
    /// Single requests.
    pub points: Points,
    /// The basis of intervals.
    pub slices: Slices,
}

/// The span to which rates and shares refer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Its start in nanoseconds of the recording's clock. Every other time in the analysis counts from here.
    pub began_ns: u64,
    /// Its length in nanoseconds.
    pub duration_ns: u64,
    /// The source of the span.
    pub source: SpanSource,
}

/// The source of the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanSource {
    /// The recording's own start and end.
    Recording,
    /// The filter's time range, within the recording.
    Filter,
    /// First to last instant of the requests: shorter than the recording, so shares are upper bounds.
    #[default]
    Requests,
}

/// A device with requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// `major:minor`.
    pub device: String,
    /// The name, for example `mmcblk0`, if it is known.
    pub name: Option<String>,
    /// The model, if it is known.
    pub model: Option<String>,
    /// The I/O scheduler, if it is known.
    pub scheduler: Option<String>,
    /// The I/O schedulers that it can have, if they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedulers: Vec<String>,
    /// Whether it is a disk with rotating platters, if the kernel reports that.
    pub rotational: Option<bool>,
    /// The read-ahead in KiB, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u32>,
    /// The mount point of an ext3 or ext4 on it that commits its journal as often as by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits_often: Option<String>,
    /// The mount point of a file system on it that writes access times: without noatime and lazytime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_access_times: Option<String>,
    /// The mount point of a file system on it without the option discard, if the device can discard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_discard: Option<String>,
    /// Requests.
    pub requests: u64,
}

/// The first mount of an ext3 or ext4 without a longer commit interval than the default of 5 s.
fn commits_often(mounts: &[Mount]) -> Option<String> {
    let is_default = |mount: &&Mount| {
        let commit = mount.options.iter().find_map(|option| option.strip_prefix("commit="));
        matches!(mount.fs.as_str(), "ext3" | "ext4") && commit.is_none_or(|seconds| seconds == "5")
    };
    Some(mounts.iter().find(is_default)?.at.clone())
}

/// The first mount that can be written and has none of these options.
fn mounted_without(mounts: &[Mount], options: &[&str]) -> Option<String> {
    let has = |mount: &Mount, option: &str| mount.options.iter().any(|other| other == option);
    let lacks = |mount: &&Mount| !has(mount, "ro") && !options.iter().any(|option| has(mount, option));
    Some(mounts.iter().find(lacks)?.at.clone())
}

/// Takes rows and returns an [`Analysis`].
#[derive(Debug)]
pub struct Analyser {
    options: AnalysisOptions,
    /// When the recording began, according to its producer.
    began: Option<u64>,
    /// The end of the filter's time range; requests in flight are cut there.
    cut: u64,
    first: Option<u64>,
    last: u64,
    /// The time of the last row in table order.
    at: u64,
    devices: Vec<DeviceId>,
    device_numbers: FxHashMap<DeviceId, usize>,
    last_device: usize,
    device_requests: Vec<u64>,
    threads: Threads,
    validity: ValidityTally,
    totals: totals::Counter,
    sizes: SizeTally,
    response: ResponseTally,
    service: ServiceTally,
    maps: Maps,
    flushes: FlushTally,
    places: PlaceTally,
    share: ShareTally,
    outstanding: OutstandingTally,
    blocked: BlockedTally,
    sequential: SequentialTally,
    queue: QueueTally,
    interference: InterferenceTally,
    processes: ProcessTally,
    files: FileTally,
    sqlite: SqliteTally,
    launch: LaunchTally,
    /// First and last instant of the workload's phases.
    phases: Option<(u64, u64)>,
    machine: MachineTally,
    series: SeriesTally,
    points: PointTally,
    slices: SliceTally,
}

impl Analyser {
    /// An analyser without any rows.
    pub fn new(options: AnalysisOptions) -> Analyser {
        Analyser {
            began: None,
            cut: u64::MAX,
            first: None,
            last: 0,
            at: 0,
            devices: Vec::new(),
            device_numbers: FxHashMap::default(),
            last_device: 0,
            device_requests: Vec::new(),
            threads: Threads::default(),
            validity: ValidityTally::default(),
            totals: totals::Counter::default(),
            sizes: SizeTally::default(),
            response: ResponseTally::default(),
            service: ServiceTally::default(),
            maps: Maps::default(),
            flushes: FlushTally::new(options.fua_counts_as_flush),
            places: PlaceTally::default(),
            share: ShareTally::default(),
            outstanding: OutstandingTally::default(),
            blocked: BlockedTally::default(),
            sequential: SequentialTally::new(options.sequential_window),
            queue: QueueTally::default(),
            interference: InterferenceTally::default(),
            processes: ProcessTally::default(),
            files: FileTally::default(),
            sqlite: SqliteTally::default(),
            launch: LaunchTally::default(),
            phases: None,
            machine: MachineTally::default(),
            series: SeriesTally::default(),
            points: PointTally::new(options.sample_points),
            slices: SliceTally::default(),
            options,
        }
    }

    /// Finishes and returns the analysis of all rows.
    ///
    /// # Panics
    /// If the embedded rules cannot be read, which a test rules out.
    pub fn finish(mut self, meta: &Meta) -> Analysis {
        let (span, ended) = self.span(meta);
        let began = span.began_ns;
        let duration = span.duration_ns;
        let lost = LostInSpan::of(meta, &span);
        let loss = lost.loss();
        let (processes, places) = self.processes.finish(&self.threads, loss);
        let latency = self.response.finish(&self.service, loss);
        let devices = self.device_infos(meta);
        let launch = self.launch.finish(meta, &mut self.threads, began);
        let phases = self.phases.map(|(from, until)| until - from);
        let worked = launch.as_ref().map(|launch| launch.duration_ns).or(phases);
        let run_time_ns = if self.options.filter.is_some() { None } else { run_time(meta, &span, worked) };
        let validity = self.validity.finish(meta, &span, lost, &latency);
        let is_filtered = self.options.filter.as_ref().is_some_and(FilterOptions::is_partial);
        let mut analysis = Analysis {
            analysis_version: ANALYSIS_VERSION,
            verdict: String::new(),
            verdict_id: String::new(),
            verdict_severity: Severity::Note,
            findings: Vec::new(),
            sqlite: self.sqlite.finish(meta, validity.has_loss(), is_filtered),
            validity,
            run_time_ns,
            has_command: meta.command.is_some(),
            launch,
            totals: self.totals.finish(duration),
            sizes: self.sizes.finish(loss),
            size_latency: self.service.finish(loss),
            latency,
            spatial: self.maps.finish(began),
            flushes: self.flushes.finish(duration, loss),
            locality: self.places.finish(),
            io_share: self.share.finish(duration),
            blocked: self.blocked.finish(began, duration, meta, &self.threads, &self.files),
            outstanding: self.outstanding.finish(began, duration, &places, &self.response, loss),
            sequentiality: self.sequential.finish(began, ended),
            queueing: self.queue.finish(meta, duration, loss),
            interference: self.interference.finish(),
            processes,
            files: self.files.finish(&self.threads),
            machine: self.machine.finish(began),
            series: self.series.finish(began, ended),
            points: self.points.finish(began, &places),
            slices: self.slices.finish(began, ended),
            span,
            filter: self.options.filter,
            devices,
        };
        findings::judge(&mut analysis);
        analysis
    }

    /// The span, and its end on the recording's clock.
    fn span(&self, meta: &Meta) -> (Span, u64) {
        let known = meta.began.zip(meta.ended).map(|(began, ended)| (began.0, ended.0));
        let seen = self.first.map(|first| (first, self.last.max(first)));
        let (began, ended) = match (known, seen) {
            (Some(known), Some(seen)) => (known.0.min(seen.0), known.1.max(seen.1)),
            (Some(span), None) | (None, Some(span)) => span,
            (None, None) => (0, 0),
        };
        let source = if known.is_some() { SpanSource::Recording } else { SpanSource::Requests };
        let filter = self.options.filter.as_ref().filter(|filter| filter.has_range());
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

    fn device_infos(&self, meta: &Meta) -> Vec<DeviceInfo> {
        let known: FxHashMap<DeviceId, _> = meta.devices.iter().map(|device| (device.id, device)).collect();
        let info = |(id, requests): (&DeviceId, &u64)| {
            let known = known.get(id);
            DeviceInfo {
                device: id.to_string(),
                name: known.and_then(|device| device.name.clone()),
                model: known.and_then(|device| device.model.clone()),
                scheduler: known.and_then(|device| device.scheduler.clone()),
                schedulers: known.map(|device| device.schedulers.clone()).unwrap_or_default(),
                rotational: known.and_then(|device| device.rotational),
                read_ahead_kb: known.and_then(|device| device.read_ahead_kb),
                commits_often: known.and_then(|device| commits_often(&device.mounts)),
                writes_access_times: known
                    .and_then(|device| mounted_without(&device.mounts, &["noatime", "lazytime"])),
                without_discard: known
                    .filter(|device| device.discard_granularity_bytes.is_some_and(|bytes| bytes > 0))
                    .and_then(|device| mounted_without(&device.mounts, &["discard", "discard=async"])),
                requests: *requests,
            }
        };
        self.devices.iter().zip(&self.device_requests).map(info).collect()
    }

    #[inline]
    fn device_number(&mut self, id: DeviceId) -> usize {
        if self.devices.get(self.last_device) != Some(&id) {
            self.last_device = *self.device_numbers.entry(id).or_insert_with(|| {
                self.devices.push(id);
                self.device_requests.push(0);
                self.devices.len() - 1
            });
        }
        self.device_requests[self.last_device] += 1;
        self.last_device
    }

    /// Counts a request for its file. Only a known cause counts: the thread that queued the request may be a worker.
    #[inline]
    fn add_to_file(&mut self, row: &Request, seen: &Seen) {
        let cause = row.cause_tid.map(|_| (seen.process, seen.unit));
        self.files.add(row.file_id, row.content, cause, seen);
    }

    /// The span to which waits are cut.
    fn span_of_waits(&self) -> (u64, u64) {
        let began = self.began.unwrap_or(0);
        let filter = self.options.filter.as_ref();
        (filter.map_or(began, |filter| filter.range(began).0), self.cut)
    }

    /// Counts a request for the threads that waited while it was outstanding.
    #[inline]
    fn add_to_waits(&mut self, row: &Request, seen: &Seen) {
        let (process, unit) = (seen.process, seen.unit);
        let owner = (Owner { process, unit, is_own: false }, (row.file_id, row.content));
        let is_filtered = self.options.filter.as_ref().is_some_and(FilterOptions::is_partial);
        self.blocked.request(row.cause_tid.or(row.tid), owner, seen, is_filtered);
    }

    #[inline]
    fn see(&mut self, row: &Request) -> Seen {
        let time = row.order_time().0;
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        // The questions rely on the table's order; a row out of order takes the time of the row before it.
        self.at = self.at.max(time);
        let begins = row.issued.or(row.queued);
        let flight = begins.zip(row.completed).and_then(|(_, completed)| {
            let end = completed.0.min(self.cut);
            (end >= self.at).then_some((self.at, end))
        });
        self.last = self.last.max(time).max(row.completed.map_or(0, |completed| completed.0));
        let process_time = row.queued.map_or(time, |queued| queued.0);
        Seen {
            id: row.request_id,
            device: self.device_number(row.device),
            op: row.op,
            class: Class::of(row),
            flags: row.flags,
            sector: row.sector.map(|sector| sector.0),
            bytes: row.bytes.0,
            queued: row.queued.map(|queued| queued.0),
            at: self.at,
            flight,
            service: row.service().map(|time| time.0),
            response: row.response().map(|time| time.0),
            queue: row.queue().map(|time| time.0),
            process: self.threads.name_at(row.cause_tid.or(row.tid), process_time),
            unit: row.cause_tid.or(row.tid).and_then(|tid| self.threads.unit_at(tid, process_time)),
            flush: false,
        }
    }
}

/// The run time of the recorded command; `worked` is the time of its launch or phases, if the recording has them.
fn run_time(meta: &Meta, span: &Span, worked: Option<u64>) -> Option<u64> {
    meta.command.as_ref()?;
    let recorded =
        (meta.command_exit == Some(0) && span.source == SpanSource::Recording).then_some(span.duration_ns);
    worked.or(recorded).filter(|time| *time > 0)
}

impl RowSink for Analyser {
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        self.validity.diagnostic(row);
        self.sqlite.diagnostic(row);
        Ok(())
    }
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at.0);
        let (from, until) = match &self.options.filter {
            Some(filter) => filter.range(at.0),
            None => (at.0, u64::MAX),
        };
        self.cut = until;
        self.outstanding.begin_at(from);
        self.maps.begin_at(from);
        self.sequential.begin_at(from);
        self.series.begin_at(from);
        self.slices.begin_at(from);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let mut seen = self.see(row);
        self.validity.add(row, &seen);
        seen.flush = self.flushes.add(&seen);
        self.sequential.add(&seen);
        self.interference.add(&seen);
        self.queue.add(&seen, row.requeues);
        self.totals.add(&seen);
        self.sizes.add(&seen);
        self.service.add(&seen);
        self.response.add(&seen, row.flags_known.contains(Flags::READAHEAD));
        self.processes.add(&seen);
        self.add_to_file(row, &seen);
        self.sqlite.request(row);
        self.maps.add(&seen);
        self.points.add(&seen);
        self.outstanding.add(&seen);
        self.add_to_waits(row, &seen);
        let busy = self.share.add(&seen);
        self.series.add(&seen);
        self.slices.add(&seen, busy);
        self.places.add(&seen);
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.add(row);
        self.blocked.thread(row);
        Ok(())
    }

    fn wait_left_out(&mut self, row: &Wait) -> io::Result<()> {
        let span = self.span_of_waits();
        self.blocked.wait_left_out(row, span, &mut self.threads);
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.launch.wait(row);
        self.sqlite.wait(row);
        let span = self.span_of_waits();
        self.blocked.wait(row, span, &mut self.threads);
        Ok(())
    }

    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
        self.sqlite.blocked_count(row);
        self.blocked.short(row, &mut self.threads);
        Ok(())
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.launch.mark(row);
        if let (None, Some(until)) = (row.tid, row.until) {
            let (from, last) = self.phases.unwrap_or((row.at.0, until.0));
            self.phases = Some((from.min(row.at.0), last.max(until.0)));
        }
        Ok(())
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        self.machine.add(row);
        Ok(())
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        self.files.name(row);
        self.sqlite.file(row);
        Ok(())
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        self.sqlite.call(row);
        Ok(())
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        self.sqlite.statement(row);
        Ok(())
    }

    ignore_rows!(bio, link, settled);

    fn wants_bios(&self) -> bool {
        false
    }
}

#[cfg(test)]
pub(crate) mod tests;
