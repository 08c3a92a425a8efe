//! A device model of `fonio-sim` served in real time as a block device.
//!
//! The model says when a command completes, the wall's clock when that is; there is no second model. The way of a
//! command: loop device → FUSE file ([`serve()`]) → model and image → pacing thread → back. Virtual machines come in
//! through NBD instead.
//!
//! Two processes: the owner ([`Emulated`]), who makes loop device, file system and mount and undoes them, and the
//! serving process ([`serve()`]), which must never wait for the disk that it serves.
//!
//! On top of it: faults on demand ([`Fault`]), a log of everything written ([`Log`]), and the images that a power cut
//! would have left ([`PowerCuts`]).

mod awake;
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
mod nbd;
mod pacer;
mod power_cuts;
pub mod profile;
mod report;
mod serve;
mod server;
mod workload;

pub use cuts::{Cut, CutImages, Tear};
pub use emulator::{Emulated, Options};
pub use error::EmulatorError;
pub use faults::Fault;
pub use floor::{Floor, Line, Overheads, OverheadsByTime, has_ublk};
pub use lateness::LatenessFigures;
pub use log::{Kind, Log, Record};
pub use power_cuts::{CutOutcome, PowerCutOptions, PowerCuts, WORKLOAD_BEGINS, WORKLOAD_ENDS, scratch};
pub use report::ServeReport;
pub use serve::{Answer, Front, Order, ServeConfig, serve};
pub use workload::WorkloadEnd;
