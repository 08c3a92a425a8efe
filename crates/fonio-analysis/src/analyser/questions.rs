//! Lists the questions of the analysis, one per line: the field, the tally, and the type of the answer.
//!
//! To add a question, add a file with a tally that implements [`Question`], and a line to this table. The
//! table has the order of the fields in the JSON document.

use fonio_core::{Nanos, Request, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addresses::locality::{Locality, PlaceTally};
use crate::addresses::sequentiality::{SequentialTally, Sequentiality};
use crate::addresses::spatial::{MapTally, Spatial};
use crate::causes::files::{FileTally, Files};
use crate::causes::process::Processes;
use crate::causes::processes::ProcessTally;
use crate::device::flushes::{FlushTally, Flushes};
use crate::device::info::DeviceInfo;
use crate::device::interference::{Interference, InterferenceTally};
use crate::device::io_share::{IoShare, ShareTally};
use crate::device::speed::{DeviceSpeed, SpeedTally};
use crate::figures::facts::{Facts, Frame};
use crate::filter::FilterOptions;
use crate::launch::{Launch, LaunchTally};
use crate::machine::{Machine, MachineTally};
use crate::over_time::series::{Series, SeriesTally};
use crate::over_time::slices::{SliceTally, Slices};
use crate::question::context::{Context, Ending};
use crate::question::options::AnalysisOptions;
use crate::question::seen::Seen;
use crate::question::span::Span;
use crate::question::{Question, Row};
use crate::requests::histograms::{HistogramTally, LatencyHistogram};
use crate::requests::latency::{Latency, LatencyTally};
use crate::requests::points::{PointTally, Points};
use crate::requests::size_latency::{SizeLatency, SizeLatencyTally};
use crate::requests::sizes::{SizeTally, Sizes};
use crate::requests::totals::{TotalTally, Totals};
use crate::sqlite::readers::{WalReader, WalReaderTally};
use crate::sqlite::{Sqlite, SqliteTally};
use crate::verdict::Diagnosis;
use crate::verdict::finding::{Finding, Severity};
use crate::verdict::validity::{Validity, ValidityTally};
use crate::waits::blocked::{Blocked, BlockedTally};
use crate::waits::outstanding::{Outstanding, OutstandingTally};
use crate::waits::queueing::{QueueTally, Queueing};
use crate::waits::slow_calls::{SlowCallTally, SlowCalls};
use crate::waits::uninterruptible::{Uninterruptible, UninterruptibleTally};

macro_rules! each {
    ($self:ident: $($question:ident)*, $row:ident $arguments:tt) => {{
        $($self.$question.$row $arguments;)*
    }};
}

/// Registers the questions. In the table, fields of the analysis that are not questions stand between the
/// first questions and the other questions.
macro_rules! questions {
    (
        $($(#[$first_attribute:meta])* $first:ident: $first_tally:ty => $first_answer:ty,)*
        ---
        $($(#[$fixed_attribute:meta])* $fixed:ident: $fixed_type:ty,)*
        ---
        $($(#[$attribute:meta])* $question:ident: $tally:ty => $answer:ty,)*
    ) => {
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
            /// The verdict in parts; absent if the recording does not have the waits of threads.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub diagnosis: Option<Diagnosis>,
            /// The findings, the most important first.
            pub findings: Vec<Finding>,
            $($(#[$first_attribute])* pub $first: $first_answer,)*
            $($(#[$fixed_attribute])* pub $fixed: $fixed_type,)*
            $($(#[$attribute])* pub $question: $answer,)*
        }

        impl Analysis {
            pub(crate) fn figures_of_questions(&self, facts: &mut Facts) {
                let frame = Frame {
                    devices: &self.devices,
                    processes: &self.processes,
                    span: self.span.duration_ns,
                    has_loss: self.validity.has_loss(),
                };
                $(<$first_tally>::figures(&self.$first, &frame, facts);)*
                $(<$tally>::figures(&self.$question, &frame, facts);)*
            }
        }

        #[derive(Debug)]
        pub(super) struct Questions {
            $($first: $first_tally,)*
            $($question: $tally,)*
        }

        impl Questions {
            pub(super) fn with(options: &AnalysisOptions) -> Questions {
                Questions {
                    $($first: Question::with(options),)*
                    $($question: Question::with(options),)*
                }
            }

            /// Returns an analysis with the answers; its other fields are empty.
            pub(super) fn finish(self, end: &mut Ending) -> Analysis {
                Analysis {
                    $($first: self.$first.finish(end),)*
                    $($question: self.$question.finish(end),)*
                    ..Analysis::default()
                }
            }

            pub(super) fn begin_at(&mut self, began: Timestamp) {
                each!(self: $($first)* $($question)*, begin_at(began));
            }

            #[inline]
            pub(super) fn request(&mut self, row: &Request, seen: &Seen) {
                each!(self: $($first)* $($question)*, request(row, seen));
            }

            pub(super) fn row(&mut self, row: Row, context: &mut Context) {
                each!(self: $($first)* $($question)*, row(row, context));
            }
        }
    };
}

questions! {
    /// Whether the figures can be trusted.
    validity: ValidityTally => Validity,
    ---
    /// The time span to which rates and shares refer.
    span: Span,
    /// The filter, if there was one. With a filter, requests in flight, flushes and sequential requests are
    /// computed only from requests that passed the filter.
    filter: Option<FilterOptions>,
    /// The devices with requests, by number; other parts refer to them by index.
    devices: Vec<DeviceInfo>,
    /// Duration of the recorded work in nanoseconds: the launch; otherwise all phases of the workload;
    /// otherwise the recording, if its command succeeded. Absent if no work was recorded, or if there is a
    /// filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_time_ns: Option<Nanos>,
    /// Whether the recording covers a command from its start to its end.
    #[serde(default)]
    has_command: bool,
    /// Processor time of the recorded command and its children, in nanoseconds, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_cpu_ns: Option<Nanos>,
    ---
    /// The critical path of the launch, if a launch and its waits were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    launch: LaunchTally => Option<Launch>,
    /// The number of requests and bytes.
    totals: TotalTally => Totals,
    /// Sizes of requests.
    sizes: SizeTally => Sizes,
    /// Latencies of requests.
    latency: LatencyTally => Latency,
    /// Latencies by range, if the recording comes from a histogram of another tool; the most requests first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    latency_histograms: HistogramTally => Vec<LatencyHistogram>,
    /// Latency by size.
    size_latency: SizeLatencyTally => SizeLatency,
    /// Addresses over time.
    spatial: MapTally => Spatial,
    /// Flushes and the gaps between them.
    flushes: FlushTally => Flushes,
    /// Places that are written or read repeatedly.
    locality: PlaceTally => Locality,
    /// Share of time spent on I/O.
    io_share: ShareTally => IoShare,
    /// Time for which programs may have waited.
    outstanding: OutstandingTally => Outstanding,
    /// The threads that were blocked on storage, if the recording has the waits of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked: BlockedTally => Option<Blocked>,
    /// The threads in uninterruptible sleep, if the recording comes from a trace of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uninterruptible: UninterruptibleTally => Option<Uninterruptible>,
    /// The slow calls of a file system, if the recording comes from a trace that has only such calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slow_calls: SlowCallTally => Option<SlowCalls>,
    /// Sequential and random requests.
    sequentiality: SequentialTally => Sequentiality,
    /// Queue time, depth and busy time.
    queueing: QueueTally => Queueing,
    /// The effect of reads and writes on each other.
    interference: InterferenceTally => Interference,
    /// Devices whose own speed changed: single slow requests, requests after idleness, slower writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    device_speeds: SpeedTally => Vec<DeviceSpeed>,
    /// Requests by process.
    processes: ProcessTally => Processes,
    /// Requests by file and kind of data, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: FileTally => Option<Files>,
    /// The transactions of SQLite databases, if the recording has file-system calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sqlite: SqliteTally => Option<Sqlite>,
    /// The processes that kept write-ahead logs of SQLite from being emptied, the longest log first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wal_readers: WalReaderTally => Vec<WalReader>,
    /// The rest of the machine.
    machine: MachineTally => Machine,
    /// Changes over time.
    series: SeriesTally => Series,
    /// Individual requests.
    points: PointTally => Points,
    /// Sums per time slice, from which confidence intervals are computed.
    slices: SliceTally => Slices,
}
