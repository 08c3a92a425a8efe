//! The laboratory: guests with any of Debian's kernels, in QEMU.
//!
//! [`Archive`] finds, downloads and unpacks packages of Debian's archive, with a configuration of its own; it installs
//! nothing. [`Initramfs`] makes the only file system that a guest has. [`Guest`] boots it, runs one command in it, and
//! brings files back.
//!
//! A *bench* guest has one processor, whose clock counts instructions instead of following this machine's clock
//! ([`Shape::Bench`]). Its times hardly depend on what else this machine does.

mod archive;
mod error;
mod guest;
mod initramfs;
mod kernel;
mod modules;
mod programs;
mod version;

pub use archive::{Archive, Userland};
pub use error::LabError;
pub use guest::{Ended, Guest, Shape, Task, check, shell};
pub use initramfs::Initramfs;
pub use kernel::{Kernel, KernelFiles, Wanted};
pub use programs::stripped;
