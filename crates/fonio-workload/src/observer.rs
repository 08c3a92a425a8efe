//! The progress and the marks of a run, while it runs.

use serde::{Deserialize, Serialize};

/// A named span of the run, for the recording's table of marks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The name of the span, such as `page`.
    pub name: String,
    /// The number of the round, from 0; phases have 0.
    pub round: u64,
    /// The thread that did it, by its name in the workload; `None` for a phase.
    pub thread: Option<String>,
    /// That thread's id in this kernel, as recordings name threads.
    pub tid: i32,
    /// Start, nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End, on the same clock; at least `start_ns`.
    pub end_ns: u64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Share of the operations that are done, 0 to 1.
    pub done: f64,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Estimated seconds that are left; `None` while too little is done for an estimate.
    pub left_s: Option<f64>,
}

/// Listens to a run. It is called from the run's threads, one at a time, so it should be quick.
pub trait Observer: Send {
    /// A span has ended.
    fn mark(&mut self, mark: &Mark);
    /// The run has advanced. It is called at most ten times a second.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

/// Ignores everything.
impl Observer for () {
    fn mark(&mut self, _: &Mark) {}
}

/// Keeps the marks.
impl Observer for Vec<Mark> {
    fn mark(&mut self, mark: &Mark) {
        self.push(mark.clone());
    }
}
