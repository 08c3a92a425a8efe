//! What a recording says: one file per question, and findings as ranked sentences.
//!
//! [`Analyser`] is a [`RowSink`](fonio_core::RowSink): it sees each request once, in table order, and holds a bounded
//! amount of memory however long the recording is. [`Analyser::finish`] gives an [`Analysis`], which is plain data with
//! a published JSON schema. Nothing here prints, reads a clock or does I/O; the same rows always give the same bytes.
//!
//! | question | file |
//! |---|---|
//! | how much, and how many reads to a write | [`totals`] |
//! | how large, how slow, and for whom | [`sizes`], [`latency`], [`size_latency`] |
//! | where on the device, over time | [`spatial`], [`sequentiality`], [`locality`] |
//! | how often is the device flushed | [`flushes`] |
//! | how long may programs have waited | [`outstanding`] |
//! | how much of the time is storage | [`io_share`], [`queueing`] |
//! | do reads wait for writes | [`interference`] |
//! | which process | [`processes`] |
//! | where did the time of a launch go | [`launch`] |
//! | what did the rest of the machine do | [`machine`] |
//! | how did it change over time | [`series`], [`points`] |
//! | can this be trusted | [`validity`] |
//! | so what | [`findings`] |
//! | and against another recording, or between repeated runs | [`compare`](mod@compare), [`interval`], [`statistics`] |

pub mod analyser;
mod bins;
pub mod class;
pub mod compare;
pub mod distribution;
pub mod figures;
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
pub mod statistics;
mod steps;
mod tally;
mod threads;
pub mod totals;
pub mod validity;

pub use analyser::{Analyser, Analysis, AnalysisOptions, DeviceInfo, Span, SpanSource};
pub use class::{Class, Group};
pub use compare::{Comparison, ComparisonRow, Named, Side, compare};
pub use distribution::{Bounds, Cdf, Distribution, Missing};
pub use figures::{Better, Figure};
pub use filter::{Filter, FilterError, FilterOptions};
pub use findings::{Finding, Severity};
pub use interval::{Answer, Change, Unknown};
