//! Describes this machine: its block devices with their queues, stacks, file systems, wear and counters, the
//! units and containers that have processes, the swap areas, and the processes that write.
//!
//! All facts come from sysfs, procfs and the files of container engines. This crate changes nothing on
//! the machine. For tests, [`Machine::at`] reads a copy of these files.

mod counters;
mod devices;
mod health;
mod host;
mod identity;
mod kind;
mod machine;
pub mod mounts;
mod queue;
mod stack;
mod status;
mod swap;
mod sysfs;
mod units;
mod writers;

pub use devices::{StorageDevice, storage_devices, storage_devices_of};
pub use health::Health;
pub use host::Hardware;
pub use machine::Machine;
pub use status::{Status, percent_full, status};
pub use swap::SwapArea;
pub use sysfs::{chosen, read_device_id, read_number, read_text, scheduler_names};
pub use units::{Units, units_now};
pub use writers::{CgroupWriting, ProcessWriting, Writing};
