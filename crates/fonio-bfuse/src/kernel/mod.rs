//! System calls without a safe wrapper: the only `unsafe` code of the crate.

mod backing;
mod clone;
mod file_handle;
mod identity;
mod inode;
mod process;
mod ring;

pub(crate) use backing::{Backing, clone_device};
pub(crate) use clone::{AccessTimes, with_access_times};
pub(crate) use file_handle::FileHandle;
pub(crate) use identity::{Caller, Identity};
pub(crate) use inode::{inode_attributes, set_inode_attributes};
pub(crate) use process::{
    Policy, ask_for_huge_pages, forbid_io_recursion, lock_memory, process_use, raise_open_files, set_policy,
    start_writing,
};
pub(crate) use ring::{Entry as RingEntry, has_rings};
