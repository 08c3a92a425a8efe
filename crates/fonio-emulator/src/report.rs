//! Defines the final statistics of an emulated device.

use fonio_core::{ByteCount, Nanos};
use fonio_sim::device::Counters;
use serde::{Deserialize, Serialize};

use crate::disk::DiskReport;
use crate::lateness::LatenessFigures;
use crate::memory::MemoryReport;

/// Statistics of the serving process since the timing started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServeReport {
    /// Bytes that the host wrote to the device.
    pub host_written: ByteCount,
    /// Bytes that the host read from the device.
    pub host_read: ByteCount,
    /// Bytes that the model programmed into flash, including copies.
    pub programmed: ByteCount,
    /// Number of erase blocks that the model erased.
    pub erases: u64,
    /// Number of full merges of log blocks in the model.
    pub full_merges: u64,
    /// Time in the model with at least one command in flight.
    pub busy_ns: Nanos,
    /// Number of commands that failed due to an injected fault.
    pub failed: u64,
    /// Delays of completions beyond the model's times.
    pub lateness: LatenessFigures,
    /// CPU time of the serving process since its start.
    pub cpu_ns: Nanos,
    /// The reason why the log is incomplete; `None` if the log is complete or there is no log.
    pub log_error: Option<String>,
    /// The first error of reading or writing the device's data; `None` if there was no error. The commands
    /// with such an error failed.
    pub image_error: Option<String>,
    /// The locked memory of the serving process.
    pub memory: MemoryReport,
}

impl ServeReport {
    pub(crate) fn new(disk: DiskReport, cpu_ns: Nanos, memory: MemoryReport) -> ServeReport {
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
            image_error: disk.image_error,
            memory,
        }
    }
}
