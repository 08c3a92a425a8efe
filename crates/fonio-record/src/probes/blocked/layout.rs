//! Defines the structures shared with the BPF program, which repeat the structures in `bpf/blocked.bpf.c`.

use std::mem::{offset_of, size_of};

use fonio_core::Nanos;

use crate::attribution::thread_names::ReportedThread;

/// Maximum number of addresses in the stack of a thread or waker.
const STACK_MAX: usize = 32;
const WAKER_STACK_MAX: usize = 24;
/// Size of a name in bytes, including the final zero (`TASK_COMM_LEN`).
pub(super) const COMM_MAX: usize = 16;

/// Values that replace the number of a system call.
pub(super) const NO_CALL: i32 = -1;
pub(super) const KERNEL_THREAD: i32 = -3;

/// A bit in the begin time of an open wait, which shows that the thread may not have waited.
pub(super) const MAYBE_WOKEN: u64 = 1;

/// The bits of `flags` in a wait.
pub(super) const IOWAIT: u32 = 1;
pub(super) const BEGAN_BEFORE: u32 = 2;
pub(super) const HAS_FILE: u32 = 4;
pub(super) const FOR_ANSWER: u32 = 16;
pub(super) const FOR_LOCK: u32 = 32;
pub(super) const ASYNC_IO: u32 = 64;
pub(super) const NO_WAKER: u32 = 128;
pub(super) const IO_WORKER: u32 = 256;

/// The settings that the BPF program reads at each event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeSettings {
    pub threshold_ns: u64,
    pub began_ns: u64,
    pub period: u32,
    pub own_tgid: u32,
    /// Whether the program sums up the times of each process.
    pub counts_processes: u32,
    pub zero: u32,
}

/// The counters that the BPF program increments.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub not_noted: u64,
    pub not_counted: u64,
    pub ring_full: u64,
    pub end_missed: u64,
    pub long_waits: u64,
    pub sleeps_lost: u64,
    pub open_beyond: u64,
}

/// A slot of the table of open waits (`bpf/open.bpf.h`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub tid: u32,
    pub zero: u32,
    /// When the wait began; 0 if the slot is free.
    pub began_ns: u64,
}

/// The key under which the BPF program sums short waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ShortKey {
    pub period: u32,
    pub tid: u32,
    pub call: i32,
    pub flags: u8,
    pub class: u8,
    pub zero: u16,
}

/// The number and total time of short waits with the same key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortSum {
    pub count: u64,
    pub total_ns: u64,
    pub tgid: u32,
    pub parent: u32,
    pub comm: [u8; COMM_MAX],
    /// When the thread started, as time since boot.
    pub started_ns: u64,
}

/// A process that was started while the BPF program ran.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Started {
    pub parent: u32,
    zero: u32,
    /// When the process started, as time since boot.
    pub started_ns: u64,
}

/// The class of a sleep while another thread held a lock. A sleep with [`PERHAPS_LOCK`] may be idle if the C library
/// is musl.
pub(super) const LOCK: u32 = 1;
pub(super) const PERHAPS_LOCK: u32 = 2;

/// The key under which the BPF program sums the interruptible sleeps of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SleepKey {
    pub tgid: u32,
    pub call: i32,
    /// 0, [`LOCK`] or [`PERHAPS_LOCK`].
    pub lock: u32,
}

/// The facts about a thread of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sleeper {
    /// When the thread last went to sleep interruptibly.
    pub slept_ns: u64,
    others: [u64; 5],
    askers: [u32; 6],
}

/// A long wait, as the BPF program reports it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct LongWait {
    pub began_ns: u64,
    pub ended_ns: u64,
    pub inode: u64,
    pub device: u32,
    pub tid: u32,
    pub tgid: u32,
    pub waker_tid: u32,
    pub cpu: u32,
    pub call: i32,
    pub flags: u32,
    stack_bytes: i32,
    waker_stack_bytes: i32,
    pub parent: u32,
    pub generation: u32,
    zero: u32,
    /// When the thread started, as time since boot.
    pub started_ns: u64,
    pub comm: [u8; COMM_MAX],
    stack: [u64; STACK_MAX],
    waker_stack: [u64; WAKER_STACK_MAX],
}

const _: () =
    assert!(size_of::<ProbeSettings>() == 32 && size_of::<Counters>() == 56 && size_of::<Slot>() == 16);
const _: () =
    assert!(size_of::<ShortKey>() == 16 && size_of::<ShortSum>() == 48 && size_of::<SleepKey>() == 12);
const _: () = assert!(size_of::<LongWait>() == 96 + 8 * (STACK_MAX + WAKER_STACK_MAX));
const _: () = assert!(offset_of!(LongWait, stack) == 96 && size_of::<Started>() == 16);

// SAFETY: each is `repr(C)`, consists of integers and has no padding, so every sequence of bytes is a value.
unsafe impl aya::Pod for ProbeSettings {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for Counters {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for ShortKey {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for ShortSum {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for Started {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for Sleeper {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for SleepKey {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for Slot {}
// SAFETY: the same holds as for `ProbeSettings`.
unsafe impl aya::Pod for LongWait {}

impl ShortSum {
    /// Returns the thread with these waits.
    pub(super) fn thread(&self) -> ReportedThread {
        ReportedThread { pid: self.tgid, comm: self.comm, started: Nanos(self.started_ns) }
    }
}

impl LongWait {
    /// Returns the thread that waited.
    pub(super) fn thread(&self) -> ReportedThread {
        ReportedThread { pid: self.tgid, comm: self.comm, started: Nanos(self.started_ns) }
    }

    /// Returns the thread's stack, innermost address first; empty if no stack was recorded.
    pub(super) fn stack(&self) -> &[u64] {
        taken(&self.stack, self.stack_bytes)
    }

    pub(super) fn waker_stack(&self) -> &[u64] {
        taken(&self.waker_stack, self.waker_stack_bytes)
    }
}

fn taken(stack: &[u64], bytes: i32) -> &[u64] {
    let count = usize::try_from(bytes).unwrap_or(0) / size_of::<u64>();
    &stack[..count.min(stack.len())]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::probes::blocked) fn long_wait(call: i32, stack: &[u64], waker_stack: &[u64]) -> LongWait {
        let mut wait = LongWait {
            began_ns: 1_000_000,
            ended_ns: 9_000_000,
            inode: 0,
            device: 0,
            tid: 7,
            tgid: 7,
            waker_tid: 9,
            cpu: 0,
            call,
            flags: 0,
            stack_bytes: 8 * stack.len() as i32,
            waker_stack_bytes: 8 * waker_stack.len() as i32,
            parent: 1,
            generation: 0,
            zero: 0,
            started_ns: 0,
            comm: [0; COMM_MAX],
            stack: [0; STACK_MAX],
            waker_stack: [0; WAKER_STACK_MAX],
        };
        wait.stack[..stack.len()].copy_from_slice(stack);
        wait.waker_stack[..waker_stack.len()].copy_from_slice(waker_stack);
        wait
    }

    #[test]
    fn stacks_have_the_length_that_the_kernel_gave() {
        let mut wait = long_wait(0, &[1, 2], &[3]);
        assert_eq!((wait.stack(), wait.waker_stack()), (&[1, 2][..], &[3][..]));
        (wait.stack_bytes, wait.waker_stack_bytes) = (-14, i32::MAX);
        assert_eq!((wait.stack().len(), wait.waker_stack().len()), (0, WAKER_STACK_MAX));
    }
}
