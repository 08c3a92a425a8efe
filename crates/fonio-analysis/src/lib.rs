//! The analysis of a recording: one file per question, and findings as ranked sentences.
//!
//! [`Analyser`] is a [`RowSink`](fonio_core::RowSink): it sees each request once, in table order, and its memory is
//! bounded for any length of recording. [`Analyser::finish`] returns an [`Analysis`], which is plain data with a
//! published JSON schema. Nothing here prints, reads a clock or does I/O; the same rows always give the same bytes.
//!
//! | question | file |
//! |---|---|
//! | how many requests and bytes, and how many reads per write | [`totals`] |
//! | how large, how slow, and for whom | [`sizes`], [`latency`], [`size_latency`] |
//! | where on the device, over time | [`spatial`], [`sequentiality`], [`locality`] |
//! | how often the device is flushed | [`flushes`] |
//! | which threads waited for storage, and behind whose requests | [`blocked`] |
//! | how long programs may have waited | [`outstanding`] |
//! | what share of the time is storage | [`io_share`], [`queueing`] |
//! | whether reads wait for writes | [`interference`] |
//! | which processes cause I/O | [`processes`] |
//! | which files are read and written, and for whom | [`files`] |
//! | where the time of a launch went | [`launch`] |
//! | what the rest of the machine did | [`machine`] |
//! | how it changed over time | [`series`], [`points`] |
//! | whether the figures can be trusted | [`validity`] |
//! | what the figures mean | [`findings`] |
//! | how recordings or repeated runs compare | [`compare`](mod@compare), [`interval`], [`statistics`] |
//! | whether a setting that is switched in pairs of slices has an effect | [`paired`] |

pub mod addresses;
pub mod analyser;
pub mod causes;
pub mod compare;
pub mod device;
pub mod distribution;
pub mod figures;
pub mod filter;
pub mod launch;
pub mod machine;
pub mod over_time;
mod question;
pub mod requests;
pub mod sqlite;
pub mod verdict;
pub mod waits;

pub use analyser::{Analyser, Analysis};
pub use compare::interval::{Answer, Change, Unknown};
pub use compare::{Comparison, ComparisonRow, Named, Side, compare};
pub use device::info::DeviceInfo;
pub use distribution::{Bounds, Cdf, Distribution, Missing};
pub use figures::{Better, Figure};
pub use filter::{Filter, FilterError, FilterOptions};
pub use question::loss::LostPlace;
pub use question::options::AnalysisOptions;
pub use question::span::{Span, SpanSource};
pub use requests::class::{Class, Group};
pub use verdict::{Finding, Severity};
