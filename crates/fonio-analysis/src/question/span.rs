//! The time span to which rates and shares refer.

use fonio_core::{Nanos, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time span to which rates and shares refer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// Start of the span, in nanoseconds of the recording's clock. Every other time in the analysis counts
    /// from this start.
    pub began_ns: Timestamp,
    /// Its length in nanoseconds.
    pub duration_ns: Nanos,
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
    /// The time from the first to the last request. This time is shorter than the recording, so shares are
    /// upper bounds.
    #[default]
    Requests,
}
