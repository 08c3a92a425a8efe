//! Analyses a recording: each file answers one question, and findings are ranked sentences.
//!
//! [`Analyser`] is a [`RowSink`](fonio_core::RowSink). The analyser takes each request once, in table order.
//! The analyser's memory use is bounded for recordings of any length. [`Analyser::finish`] returns an
//! [`Analysis`], which is plain data with a published JSON schema. This crate does not print, read a clock or
//! do I/O; the same rows always give the same analysis.
//!
//! Each question has a file with its tally, answer and figures, and a line in `analyser/questions.rs`. The
//! modules by topic:
//!
//! | questions | module |
//! |---|---|
//! | number, sizes and latencies of requests | [`requests`] |
//! | addresses on the device: over time, sequential, repeated | [`addresses`] |
//! | flushes, share of time spent on I/O, interference of reads and writes | [`device`] |
//! | waits of threads, possible waits of programs, queues | [`waits`] |
//! | processes and files that cause requests | [`causes`] |
//! | critical path of a launch | [`launch`] |
//! | cost of SQLite transactions | [`sqlite`] |
//! | counts of calls that repeat exactly, against a baseline | [`counts`] |
//! | the rest of the machine | [`machine`] |
//! | changes over time | [`over_time`] |
//! | validity of the figures, verdict and findings | [`verdict`] |
//! | comparison of recordings or repeated runs | [`compare`](mod@compare) |

pub mod addresses;
pub mod analyser;
pub mod causes;
pub mod compare;
pub mod counts;
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
pub use figures::Figure;
pub use filter::{Filter, FilterError, FilterOptions};
pub use question::loss::LostPlace;
pub use question::options::AnalysisOptions;
pub use question::span::{Span, SpanSource};
pub use requests::class::{Class, Group};
pub use verdict::{Finding, Severity};
