//! Defines the structures shared with the BPF program, which repeat the structures in `bpf/requests.bpf.c`.

use std::mem::size_of;

/// Size of a name in bytes, including the final zero (`TASK_COMM_LEN`).
const COMM_MAX: usize = 16;

/// The bits of [`Note::flags`].
pub(super) const OF_JOURNAL: u32 = 1;
pub(super) const OF_METADATA: u32 = 2;
pub(super) const BY_KERNEL: u32 = 4;
pub(super) const UNNOTED: u32 = 8;

/// The thread that caused a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cause {
    pub cgroup: u64,
    /// When the thread started, as time since boot.
    pub started_ns: u64,
    pub tid: u32,
    pub tgid: u32,
    pub comm: [u8; COMM_MAX],
}

/// What the BPF program notes about a bio that waits for completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub queued_ns: u64,
    pub issued_ns: u64,
    pub inode: u64,
    pub fs: u32,
    pub tid: u32,
    pub flags: u32,
    pub generation: u32,
    pub cause: Cause,
}

/// A completed request, as the BPF program reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Completed {
    pub note: Note,
    pub completed_ns: u64,
    pub sector: u64,
    pub device: u32,
    pub bytes: u32,
    pub op_flags: u32,
    pub error: i32,
    pub cpu: u32,
    pub zero: u32,
}

/// The counters that the BPF program increments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub lost: u64,
    pub given: u64,
}

const _: () = assert!(size_of::<Cause>() == 40 && size_of::<Note>() == 80 && size_of::<Completed>() == 120);
const _: () = assert!(size_of::<Counters>() == 16);

// SAFETY: each is `repr(C)`, consists of integers and has no padding, so every sequence of bytes is a value.
unsafe impl aya::Pod for Counters {}
// SAFETY: the same holds as for `Counters`.
unsafe impl aya::Pod for Completed {}
