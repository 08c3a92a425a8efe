//! The options of an analysis.

use crate::filter::FilterOptions;

/// The options of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// Number of earlier requests that a sequential request may continue; 1 to 16.
    pub sequential_window: u32,
    /// Whether a write with FUA (durable on completion) counts as a flush.
    pub fua_counts_as_flush: bool,
    /// Maximum number of requests that the analysis lists as individual points.
    pub sample_points: u32,
    /// The systemd unit or container about which the user asks. Only its programs are then of interest, and the verdict
    /// is about them; other programs count as programs in the way.
    pub unit_of_interest: Option<String>,
    /// The filter that the rows have passed, if any. The analysis contains the filter and uses its time range
    /// as the span.
    pub filter: Option<FilterOptions>,
}

impl Default for AnalysisOptions {
    fn default() -> AnalysisOptions {
        AnalysisOptions {
            sequential_window: 1,
            fua_counts_as_flush: false,
            sample_points: 40_000,
            unit_of_interest: None,
            filter: None,
        }
    }
}
