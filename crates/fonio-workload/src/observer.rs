//! Progress and marks of a running workload.

use serde::{Deserialize, Serialize};

/// A named span of the run, for the recording's marks table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The name of the marked span, such as `page`.
    pub name: String,
    /// The number of the round in a repeat, from 0; 0 for phases.
    pub round: u64,
    /// The name of the thread in the workload; `None` for a phase.
    pub thread: Option<String>,
    /// The kernel's thread ID, as in recordings.
    pub tid: i32,
    /// Start of the span, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End of the span, in nanoseconds of `CLOCK_MONOTONIC`; at least `start_ns`.
    pub end_ns: u64,
}

/// The progress of a workload run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Completed share of the run's operations, 0 to 1.
    pub done: f64,
    /// Seconds since the start of the run.
    pub elapsed_s: f64,
    /// Estimated remaining seconds of the run; `None` if it is too early for an estimate.
    pub left_s: Option<f64>,
}

/// Observes a run. The run's threads call the observer's methods one at a time and wait for them, so the
/// methods should be fast.
pub trait Observer: Send {
    /// Called when a marked span has ended.
    fn mark(&mut self, mark: &Mark);
    /// Called when the run has advanced, at most ten times per second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

/// Ignores marks and progress.
impl Observer for () {
    fn mark(&mut self, _: &Mark) {}
}

/// Collects the marks.
impl Observer for Vec<Mark> {
    fn mark(&mut self, mark: &Mark) {
        self.push(mark.clone());
    }
}
