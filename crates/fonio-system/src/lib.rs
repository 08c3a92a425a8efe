//! What several crates know about the running system, once: mount tables, processes, signals, the state folder and the
//! errors of system calls.
//!
//! It reads and listens. It makes no devices and mounts nothing, so that the recorder for small devices can use it
//! without carrying the test bed.

mod cgroups;
pub mod device;
mod error;
mod mounts;
mod process;
pub mod procfs;
pub mod signals;
pub mod state;

pub use cgroups::Cgroups;
pub use error::SystemError;
pub use mounts::{MountPoint, MountTable};
pub use process::ProcessId;
pub use procfs::Task;
