//! App workloads as data, and a runner that uses real files, SQLite and HTTP.
//!
//! A [`Workload`](definition::Workload) is a TOML file (`docs/workloads.md`); [`definition::shipped`] lists
//! the shipped workloads. A [`Runner`] runs a workload in given directories, on any device.
//!
//! ```
//! use fonio_workload::{Options, Places, Runner, definition::Workload};
//!
//! # fn main() -> Result<(), fonio_workload::WorkloadError> {
//! let text = r#"
//! name = "note"
//! title = "One note"
//! places = { data = "the notes" }
//! files.note = { place = "data", name = "note-{n}.txt" }
//! [[phase]]
//! name = "save"
//! thread = [{ name = "ui", steps = [{ do = "write", files = "note", count = 3, size = "2KiB", sync = "end" }] }]
//! "#;
//! let workload = Workload::parse(text, "note.toml", None)?;
//! let directory = std::env::temp_dir().join(format!("fonio-note-{}", std::process::id()));
//! let mut runner = Runner::new(&workload, &Places::under(&directory), Options::default())?;
//! runner.prepare(&mut ())?;
//! let outcome = runner.run(&mut ())?;
//! assert_eq!(outcome.amounts.syncs, 3);
//! # std::fs::remove_dir_all(directory).ok();
//! # Ok(())
//! # }
//! ```

#![expect(clippy::result_large_err, reason = "an error ends a run, so a large error costs no speed")]

pub mod app;
mod clock;
pub mod compose;
mod confined;
mod content;
pub mod definition;
mod error;
pub mod http;
pub mod mobibench;
pub mod mobigen;
mod observer;
mod outcome;
mod places;
mod runner;
mod scale;
#[cfg(test)]
mod tests;

pub use clock::monotonic_ns;
pub use error::WorkloadError;
pub use observer::{Mark, Observer, Progress};
pub use outcome::{
    Amounts, DatabaseOutcome, FilesOutcome, Outcome, PhaseOutcome, ResponseOutcome, StepOutcome, ThreadTimes,
};
pub use places::{DatabaseOverride, Overrides, Places};
pub use runner::{Options, Runner};
