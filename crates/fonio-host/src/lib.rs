//! Creates and removes the devices, mounts and settings that a workload needs on a Linux host.
//!
//! It creates loop devices, ublk devices and RAID-0 arrays, makes and mounts file systems on them, and sets
//! schedulers and queue depths. Every change that outlives a process is written to a [`Ledger`] first.
//! Dropping the ledger undoes the changes; if the process is killed, the next process undoes them with
//! [`Ledger::recover`].
//!
//! ```no_run
//! # fn main() -> Result<(), fonio_host::HostError> {
//! use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
//!
//! Ledger::recover(&Ledger::default_dir())?;
//! let mut ledger = Ledger::open(&Ledger::default_dir())?;
//! let device = LoopDevice::attach(&mut ledger, "disk.img".as_ref(), &LoopOptions::default())?;
//! Filesystem::Ext4.make(device.path())?;
//! let dir = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "")?;
//! # Ok(())
//! # }
//! ```

mod attributes;
mod caches;
mod cleaner;
mod control_group;
mod cpu_share;
mod database_copies;
mod device_users;
mod engine;
mod error;
mod files;
mod filesystem;
mod io_class;
mod io_priority;
mod kernel;
mod ledger;
mod link;
mod loop_device;
mod md;
mod mount;
mod numbered;
mod opened;
mod partition;
mod pause;
mod private_folder;
mod program;
mod queue;
mod replace;
mod schedulers;
mod settings;
mod ublk;
mod unmount;
mod view;

pub use caches::{cached_bytes, drop_device_cache, drop_file_cache, start_write_back};
pub use cleaner::Cleaner;
pub use control_group::{Confined, CpuLimit, Limits};
pub use cpu_share::CpuShare;
pub use database_copies::{DatabaseCopies, FreshCopies};
pub use engine::Engine;
pub use error::HostError;
pub use filesystem::{Confirmation, Filesystem, check_empty, claim};
pub use io_class::set_own_io_class;
pub use io_priority::{IoPriority, borrow_io_class, with_io_class};
pub use kernel::{check_scheduler, has_scheduler};
pub use ledger::{Entry, Ledger, Recovery, Step};
pub use link::{Link, LinkRates, PrivateLink};
pub use loop_device::{LoopDevice, LoopOptions};
pub use md::{MdArray, check_md_raid0};
pub use mount::{mount, mount_tmpfs};
pub use opened::{OpenWatch, Opened};
pub use partition::add_partition;
pub use pause::{Paused, pause};
pub use private_folder::private_folder;
pub use program::run;
pub use queue::Queue;
pub use schedulers::{SMARTIO, how_to_get};
pub use settings::{
    Applied, Changes, Concurrency, Group, GroupOfCommand, InGroup, Keeper, Kept, KeptFiles, Loss, Made,
    Mirrored, OfCommand, OnlyChanger, Planned, Scope, Setting, SettingFix, Settings, Target, Trial, Trim,
    Undoing, Undone, WriteBack, borrow_scheduler, borrow_setting, is_io_group, is_sqlite, lift_own_rates,
    present_name, start_folder_in_ram, sync_library, trim, trim_plan, write_out_folder,
};
pub use ublk::{UBLK_DEPTH_MAX, UblkDevice, UblkOptions, check_ublk};
pub use unmount::mounts_under;
pub use view::{View, Written, WrittenFile};
