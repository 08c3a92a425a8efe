//! The analyser: takes rows, asks each question, gives the analysis.

use fonio_core::{Meta, RowSink};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filter::FilterOptions;
use crate::findings::Finding;
use crate::flushes::Flushes;
use crate::interference::Interference;
use crate::io_share::IoShare;
use crate::latency::Latency;
use crate::locality::Locality;
use crate::machine::Machine;
use crate::points::Points;
use crate::processes::Processes;
use crate::queueing::Queueing;
use crate::sequentiality::Sequentiality;
use crate::series::Series;
use crate::size_latency::SizeLatency;
use crate::sizes::Sizes;
use crate::slices::Slices;
use crate::spatial::Spatial;
use crate::totals::Totals;
use crate::validity::Validity;

/// The version of the analysis's JSON schema.
pub const ANALYSIS_VERSION: u32 = 1;

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// How many ends of earlier requests make a request sequential; 1 to 16.
    pub sequential_window: u32,
    /// Whether a write with FUA counts as a flush.
    pub fua_counts_as_flush: bool,
    /// How many requests the point sample holds at most.
    pub sample_points: u32,
    /// The filter that stands before the analyser, if one does. It is written into the analysis, and its time range
    /// becomes the span.
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

/// All answers about one recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// Version of this schema.
    pub analysis_version: u32,
    /// The top line: one sentence.
    pub verdict: String,
    /// Ranked sentences, most important first.
    pub findings: Vec<Finding>,
    /// Whether the figures can be relied on.
    pub validity: Validity,
    /// The span that rates and shares refer to.
    pub span: Span,
    /// The filter, where there was one. What is in flight, flushed or sequential then refers to what passed it only.
    pub filter: Option<FilterOptions>,
    /// The devices with requests, by number; other parts refer to them by index.
    pub devices: Vec<DeviceInfo>,
    /// How much.
    pub totals: Totals,
    /// How large.
    pub sizes: Sizes,
    /// How slow.
    pub latency: Latency,
    /// Size against latency.
    pub size_latency: SizeLatency,
    /// Where, over time.
    pub spatial: Spatial,
    /// How often flushed.
    pub flushes: Flushes,
    /// Which places again and again.
    pub locality: Locality,
    /// How much of the time.
    pub io_share: IoShare,
    /// Sequential and random.
    pub sequentiality: Sequentiality,
    /// Queue time, depth, busy.
    pub queueing: Queueing,
    /// Reads and writes in each other's way.
    pub interference: Interference,
    /// Which process.
    pub processes: Processes,
    /// The rest of the machine.
    pub machine: Machine,
    /// Over time.
    pub series: Series,
    /// Single requests.
    pub points: Points,
    /// What intervals are made of.
    pub slices: Slices,
}

/// The span that rates and shares refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Its begin in nanoseconds of the recording's clock. Every other time in the analysis counts from here.
    pub began_ns: u64,
    /// Its length in nanoseconds.
    pub duration_ns: u64,
    /// Where it comes from.
    pub source: SpanSource,
}

/// Where the span comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanSource {
    /// The recording says when it began and ended.
    Recording,
    /// The filter's time range, within the recording.
    Filter,
    /// First to last instant of the requests: shorter than what was recorded, so shares are upper bounds.
    #[default]
    Requests,
}

/// A device with requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// `major:minor`.
    pub device: String,
    /// `mmcblk0`, where it is known.
    pub name: Option<String>,
    /// The model, where it is known.
    pub model: Option<String>,
    /// The I/O scheduler, where it is known.
    pub scheduler: Option<String>,
    /// Requests.
    pub requests: u64,
}

/// Takes rows, gives an [`Analysis`].
#[derive(Debug)]
pub struct Analyser {
    options: AnalysisOptions,
}

impl Analyser {
    /// An analyser that has seen nothing.
    pub fn new(options: AnalysisOptions) -> Analyser {
        Analyser { options }
    }
    /// The analysis of what was seen.
    pub fn finish(self, _meta: &Meta) -> Analysis {
        Analysis { analysis_version: ANALYSIS_VERSION, filter: self.options.filter, ..Analysis::default() }
    }
}

impl RowSink for Analyser {
    fn wants_bios(&self) -> bool {
        false
    }
}
