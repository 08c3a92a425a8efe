//! The questions about threads that the spans of apps ask.

use fonio_core::Timestamp;

use super::DrawingThread;

/// The threads of a trace with their waits.
pub(super) trait Threads {
    /// Returns the waits of a process's threads that draw, within a span. Threads that the trace does not show are
    /// left out.
    fn drawing(&self, pid: u32, from: Timestamp, until: Timestamp) -> Vec<DrawingThread>;

    /// Returns whether the thread may belong to the package, by the list of packages or by its process's name.
    fn is_of_package(&self, tid: u32, package: &str) -> bool;

    /// Returns the processes that may belong to the package.
    fn pids_of(&self, package: &str) -> Vec<u32>;

    /// Returns the process of a thread; the thread itself if the process is unknown.
    fn pid(&self, tid: u32) -> u32;

    /// Returns the package or process of a thread.
    fn owner(&self, tid: u32) -> String;
}
