//! System facilities that several crates need: mount tables, processes, signals, trusted folders, locks, the
//! state folder and system call errors. The crate also starts user commands and reports progress on standard error.
//!
//! The crate creates no devices or mounts, so the recorder for small devices can use it without the crates of
//! the test bed.

mod cgroups;
pub mod command;
pub mod dated;
pub mod device;
pub mod emulated;
mod error;
pub mod lock;
mod mounts;
mod pressure;
pub mod private;
mod process;
pub mod procfs;
pub mod progress;
pub mod regular;
pub mod signals;
pub mod state;
#[cfg(feature = "server")]
mod text_server;
mod trial;
mod trusted;

pub use cgroups::Cgroups;
pub use error::{SystemError, chain};
pub use mounts::{MountPoint, MountTable};
pub use pressure::Pressure;
pub use private::Caller;
pub use process::ProcessId;
pub use procfs::Task;
#[cfg(feature = "server")]
pub use text_server::{Text, TextServer};
pub use trial::{TRIAL_NAME, TrialName};
pub use trusted::{TrustedFolder, read_from};
