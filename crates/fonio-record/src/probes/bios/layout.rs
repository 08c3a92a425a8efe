//! Defines the structures shared with the BPF program, which repeat the structures in `bpf/bios.bpf.c`.

use std::mem::size_of;

/// The bit of [`Noted::flags`].
pub(super) const OF_METADATA: u32 = 1;

/// What the BPF program reports of a bio that was queued.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub queued_ns: u64,
    pub sector: u64,
    pub inode: u64,
    pub device: u32,
    pub fs: u32,
    pub tid: u32,
    pub generation: u32,
    pub flags: u32,
    pub zero: u32,
}

const _: () = assert!(size_of::<Noted>() == 48);

// SAFETY: it is `repr(C)`, consists of integers and has no padding, so every sequence of bytes is a value.
unsafe impl aya::Pod for Noted {}
