//! Runs Debian guests with any of Debian's kernels in QEMU.
//!
//! [`Archive`] finds, downloads and unpacks packages of Debian's archive with a separate apt configuration.
//! [`Archive`] installs nothing on this machine.
//!
//! A [`Guest`] has only an [`Initramfs`], in memory. The guest runs one command, and the command's result
//! files are copied to this machine. A *bench* guest ([`Shape::Bench`]) has one processor, whose clock counts
//! instructions instead of following real time, so its times hardly depend on this machine's load.
//! [`CommandHere`] runs a command in a guest as if it ran on this machine.
//!
//! A [`System`] is a complete Debian with systemd and disks. A system guest runs commands until stopped, and
//! can reboot, lose power and return to a snapshot.

mod accelerator;
mod architecture;
mod archive;
mod error;
mod guest;
mod here;
mod images;
mod initramfs;
mod kernel;
mod machine;
mod modules;
mod needs;
mod own_program;
mod program_disk;
mod program_root;
mod programs;
mod root;
mod system;
mod talk;
mod version;
mod wheels;

pub use accelerator::Accelerator;
pub use architecture::{Architecture, NotAnArchitecture};
pub use archive::{Archive, Userland};
pub use error::LabError;
pub use guest::{Ended, Guest, Shape, Streams, Task, shell};
pub use here::{CommandHere, shell_here};
pub use images::{ContainerImage, GivenImage, Images, WantedImage};
pub use initramfs::Initramfs;
pub use kernel::{Kernel, KernelFiles, Wanted};
pub use machine::{Forward, check, check_for};
pub use needs::Needs;
pub use own_program::OwnProgram;
pub use program_disk::ProgramDisk;
pub use program_root::{ProgramRoot, Programs};
pub use programs::stripped;
pub use system::{Output, System, SystemOptions, system_shell};
