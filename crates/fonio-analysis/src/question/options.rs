//! The options of an analysis.

use crate::filter::FilterOptions;

/// The options of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisOptions {
    /// The number of earlier requests whose ends can make a request sequential; 1 to 16.
    pub sequential_window: u32,
    /// Whether a write with FUA counts as a flush.
    pub fua_counts_as_flush: bool,
    /// Maximum number of requests in the point sample.
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
