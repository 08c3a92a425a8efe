//! What an emulated device tells at its end.

use fonio_core::{ByteCount, Nanos};
use fonio_sim::device::Counters;
use serde::{Deserialize, Serialize};

use crate::disk::DiskReport;
use crate::lateness::LatenessFigures;

/// What the serving process has done since pacing began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeReport {
    /// Bytes that the host wrote.
    pub host_written: ByteCount,
    /// Bytes that the host read.
    pub host_read: ByteCount,
    /// Bytes that the model programmed into flash, copies included.
    pub programmed: ByteCount,
    /// Erase blocks that the model erased.
    pub erases: u64,
    /// Full merges of log blocks.
    pub full_merges: u64,
    /// In the model, time for which at least one command was under way.
    pub busy_ns: Nanos,
    /// Commands that failed because a fault was asked for.
    pub failed: u64,
    /// How much later than the model says commands were completed.
    pub lateness: LatenessFigures,
    /// CPU time of the serving process, since it was started.
    pub cpu_ns: Nanos,
    /// Why the log is incomplete; `None` where it is whole, or none was asked for.
    pub log_error: Option<String>,
}

impl ServeReport {
    pub(crate) fn new(disk: DiskReport, cpu_ns: Nanos) -> ServeReport {
        let Counters { host_written, host_read, programmed, erases, full_merges, busy, .. } = disk.counters;
        ServeReport {
            host_written,
            host_read,
            programmed,
            erases,
            full_merges,
            busy_ns: busy,
            failed: disk.failed,
            lateness: disk.lateness,
            cpu_ns,
            log_error: disk.log_error,
        }
    }
}
