//! Serves a device model of `fonio-sim` in real time as a block device.
//!
//! The model determines when a command completes on the wall clock. The path of a command: ublk device →
//! [`serve()`] → model and image → reply at the model's completion time. If the kernel has no ublk, fonio
//! uses a loop device on a FUSE file instead of a ublk device. Virtual machines use NBD.
//!
//! An emulated device has two processes. The owner ([`Emulated`]) creates and removes the block device, file
//! system and mount. The serving process ([`serve()`]) must never wait for the device that it serves.
//!
//! The crate also injects faults ([`Fault`]), logs all writes ([`Log`]), and builds the images that a power
//! cut could leave ([`PowerCuts`]).

mod aligned;
mod awake;
mod block_device;
mod buffers;
mod clock;
mod cuts;
mod disk;
mod emulator;
mod error;
mod faults;
mod floor;
mod fuse;
mod image;
mod lateness;
mod log;
mod memory;
mod nbd;
mod pacer;
mod power_cuts;
pub mod profile;
mod report;
mod serve;
mod server;
mod ublk;
mod workload;

pub use block_device::Through;
pub use cuts::{Cut, CutImages, Tear};
pub use emulator::{Emulated, Options};
pub use error::EmulatorError;
pub use faults::Fault;
pub use floor::{Floor, Line, Overheads, OverheadsByTime, has_ublk};
pub use lateness::LatenessFigures;
pub use log::{Kind, Log, Record};
pub use memory::{MemoryReport, SPARSE_VARIABLE};
pub use power_cuts::{
    CutOutcome, PowerCutOptions, PowerCuts, RecoveryDevice, WORKLOAD_BEGINS, WORKLOAD_ENDS, after_cuts,
    scratch,
};
pub use report::ServeReport;
pub use serve::{Answer, Front, Order, ServeConfig, serve};
pub use workload::WorkloadEnd;
