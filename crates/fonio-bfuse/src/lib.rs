//! A directory, mounted a second time through FUSE, at the device's full speed: for who must run FUSE over slow
//! flash, as phones do for their shared storage.
//!
//! [`Mount::start`] mounts and serves; [`Options`] says how; [`report()`] asks a running mount what it does. The
//! modes are those of the study (Jeong and Won 2014) and what kernels have learnt since; `docs/bfuse.md` says which
//! to take, `docs/bfuse-design.md` why it is built like this.

mod buffer;
pub mod daemon;
mod descriptors;
mod device;
mod error;
mod filesystem;
mod handshake;
mod kernel;
mod modes;
mod mount;
mod node;
mod options;
mod our_mounts;
mod protocol;
mod report;
mod session;
mod slab;
mod statistics;
mod write_behind;

pub use error::MountError;
pub use modes::Mode;
pub use mount::Mount;
pub use options::{BufferOptions, IoUring, MountFlags, OptionError, Options};
pub use report::{BufferReport, Distribution, OpcodeReport, Report, report};
