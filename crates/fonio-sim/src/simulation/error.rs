//! The reasons for which a model cannot run a load.

use fonio_core::ByteCount;
use thiserror::Error;

use crate::engine::EngineError;

/// A load that a model cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A request cannot be simulated.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The data of a replay do not fit on the device.
    #[error(
        "the recording accesses {} of distinct data, but the device has {}", .accessed.to_exact_text(), .capacity.to_exact_text()
    )]
    DoesNotFit {
        /// The size of the data.
        accessed: ByteCount,
        /// The size of the device.
        capacity: ByteCount,
    },
    /// A replay has too many commands.
    #[error(
        "the device splits the accesses into {commands} commands, and the model can run at most {commands_max}; \
         replay a part of the recording, which `fonio import RECORDING --until 10m -o PART` writes"
    )]
    TooManyCommands {
        /// The number of commands.
        commands: u64,
        /// The maximum number of commands.
        commands_max: u64,
    },
    /// The range of a process does not fit on the device.
    #[error("a ClosedLoop with the range from {start} to {end} bytes does not fit the device of {} bytes", .capacity.0)]
    RangeBeyondDevice {
        /// The first byte of the range.
        start: u64,
        /// The first byte after the range.
        end: u64,
        /// The size of the device.
        capacity: ByteCount,
    },
}
