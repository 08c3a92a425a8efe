//! Mounts a directory through FUSE at the speed of the device, for systems that need FUSE on slow flash, such
//! as the shared storage of phones.
//!
//! [`Mount::start`] mounts and serves, [`Options`] configures the mount, and [`report()`] reads the
//! statistics of a running mount. The modes come from the study (Jeong and Won 2014) and from features of
//! newer kernels. `docs/bfuse.md` helps to choose a mode; `docs/bfuse-design.md` explains the design.

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
mod place;
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
pub use report::{OpcodeReport, Report, report};
pub use statistics::{BufferReport, Distribution};
