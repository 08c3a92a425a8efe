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

pub mod analyser;
mod bins;
pub mod blocked;
pub mod class;
pub mod compare;
pub mod distribution;
pub mod figures;
pub mod files;
pub mod filter;
pub mod findings;
pub mod flushes;
pub mod interference;
pub mod interval;
pub mod io_share;
pub mod latency;
pub mod launch;
pub mod locality;
pub mod loss;
pub mod machine;
mod mix;
pub mod outstanding;
pub mod paired;
mod pattern;
pub mod points;
pub mod processes;
pub mod queueing;
mod seen;
pub mod sequentiality;
pub mod series;
pub mod size_latency;
pub mod sizes;
pub mod slices;
pub mod spatial;
pub mod sqlite;
pub mod statistics;
mod tally;
mod threads;
pub mod totals;
pub mod validity;

pub use analyser::{Analyser, Analysis, AnalysisOptions, DeviceInfo, Span, SpanSource};
pub use class::{Class, Group};
pub use compare::{Comparison, ComparisonRow, Named, Side, compare};
pub use distribution::{Bounds, Cdf, Distribution, Missing};
pub use figures::Figure;
pub use filter::{Filter, FilterError, FilterOptions};
pub use findings::{Finding, Severity};
pub use interval::{Answer, Change, Unknown};
