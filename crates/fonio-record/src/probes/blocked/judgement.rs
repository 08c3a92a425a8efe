//! Derives the operation and the cause of a wait from the thread's system call and the functions on its
//! stack.
//!
//! A function on the stack is more specific than the call: a write can wait for a swapped-out page, for the
//! journal, or because too much memory is dirty. For fsync, the call determines the operation, because fsync
//! can wait for a swapped-out page, for the journal and for dirty memory.

use fonio_core::{BlockedIn, WaitReason};
use fonio_tracefs::functions;
use fonio_tracefs::waits::{Functions, OPERATIONS, Reasons, Symbols};

use super::calls::{self, Call};
use super::layout::{
    ASYNC_IO, FOR_ANSWER, FOR_LOCK, HAS_FILE, IO_WORKER, IOWAIT, KERNEL_THREAD, LongWait, NO_CALL, NO_WAKER,
};

/// Functions of io_uring that carry out a request, in the thread that submits it or in a worker (`iou-wrk`), with
/// their names in Linux 6.0 to 6.18. The system call of such a thread does not show the operation. In older kernels
/// most of these functions are part of `io_issue_sqe`, and the operation stays unknown.
const RING_OPERATIONS: &[(BlockedIn, &[&str])] = functions!(BlockedIn {
    Read: io_read io_read_fixed io_read_mshot io_fadvise io_madvise;
    Write: io_write io_write_fixed io_splice io_tee;
    Fsync: io_fsync io_sync_file_range;
    Metadata:
        io_openat io_openat2 io_close io_statx io_fallocate io_ftruncate io_unlinkat io_renameat io_mkdirat io_linkat
        io_symlinkat io_getxattr io_fgetxattr io_setxattr io_fsetxattr;
});

/// Functions in which a FUSE server waits for the next request of a program. The server is idle then, although the
/// program that ends the sleep may have been blocked.
const SERVER_IDLE: &[&str] = functions!(fuse_dev_do_read fuse_dev_read fuse_dev_splice_read);

/// Interrupt functions. If the stack of a thread contains one of these functions, an interrupt stopped the
/// thread, so the thread is not the waker.
const INTERRUPTS: &[&str] = functions!(
    common_interrupt asm_common_interrupt sysvec_apic_timer_interrupt sysvec_call_function_single
    sysvec_call_function sysvec_reschedule_ipi do_IRQ handle_irq_event __irq_exit_rcu irq_exit_rcu
    irq_exit __do_softirq handle_softirqs el1_interrupt el0_interrupt gic_handle_irq
    generic_handle_domain_irq
);

/// The functions of this kernel that identify the cause of a wait.
#[derive(Debug, Default)]
pub(super) struct StackFunctions {
    operations: Functions<BlockedIn>,
    ring_operations: Functions<BlockedIn>,
    interrupts: Functions<()>,
    server_idle: Functions<()>,
    reasons: Reasons,
}

/// The cause and the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub blocked_in: BlockedIn,
    pub reason: WaitReason,
    /// Whether the call's first argument is a file descriptor and the wait was for the file of this
    /// descriptor.
    pub is_of_file: bool,
    /// The thread that ended the wait; `None` if an interrupt ended it.
    pub waker_tid: Option<u32>,
    /// Whether an I/O completion ended the wait.
    pub by_completion: bool,
    /// Whether io_uring carried out the operation, so that no file descriptor shows the file.
    pub is_by_ring: bool,
}

/// The system call that a thread executes, according to its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    KernelThread,
    Call(Call),
    /// A system call that does not use files.
    OtherCall,
    Unknown,
}

impl StackFunctions {
    /// Finds these functions in the text of `/proc/kallsyms`.
    pub(super) fn from_kallsyms(text: &str) -> StackFunctions {
        let symbols = Symbols::from_kallsyms(text);
        StackFunctions {
            operations: Functions::find(&symbols, OPERATIONS),
            ring_operations: Functions::find(&symbols, RING_OPERATIONS),
            interrupts: Functions::find(&symbols, &[((), INTERRUPTS)]),
            server_idle: Functions::find(&symbols, &[((), SERVER_IDLE)]),
            reasons: Reasons::from_symbols(&symbols),
        }
    }

    /// Judges an open wait by the function names on its stack, innermost first.
    pub(super) fn of_names(names: &[&str], call: i32) -> Judgement {
        // Each function gets an address that depends on its position on the stack.
        let lines = names.iter().enumerate().map(|(at, name)| format!("{:x} t {name}\n", (at + 1) << 8));
        let functions = StackFunctions::from_kallsyms(&lines.collect::<String>());
        let stack = || (1..=names.len()).map(|at| (at as u64) << 8 | 1).map(|address| address + 1);
        let (blocked_in, is_by_ring) = functions.operation(call, calls::call(call), stack());
        let reason = functions.reasons.of_blocked(stack()).unwrap_or(WaitReason::Unknown);
        Judgement { blocked_in, reason, is_of_file: false, waker_tid: None, by_completion: false, is_by_ring }
    }

    /// Judges a wait by its stack (innermost function first) and, if known, by whether it was a wait for I/O.
    /// The caller must add how the wait ended.
    pub(super) fn of_stack(&self, stack: &[u64], caller: Caller, is_io: Option<bool>) -> Judgement {
        let stack = || stack.iter().copied();
        let ring = match caller {
            Caller::KernelThread | Caller::Call(_) => None,
            Caller::OtherCall | Caller::Unknown => self.ring_operations.innermost(stack()),
        };
        let blocked_in = match (caller, ring, self.operations.innermost(stack())) {
            (Caller::KernelThread, ..) => BlockedIn::KernelThread,
            (Caller::Call(Call { blocked_in: BlockedIn::Fsync, .. }), ..)
            | (_, Some(BlockedIn::Fsync), _) => BlockedIn::Fsync,
            (_, _, Some(by_stack)) => by_stack,
            (_, Some(ring), None) => ring,
            (Caller::Call(call), ..) => call.blocked_in,
            (Caller::OtherCall, ..) => BlockedIn::Other,
            (Caller::Unknown, ..) => BlockedIn::Unknown,
        };
        let by_name = if is_io == Some(true) { WaitReason::Storage } else { WaitReason::Unknown };
        let reason = self.reasons.of_blocked(stack()).unwrap_or(by_name);
        let is_by_ring = ring.is_some();
        Judgement { blocked_in, reason, is_of_file: false, waker_tid: None, by_completion: false, is_by_ring }
    }

    /// Returns whether no function is known, because the kernel hides its symbols.
    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Judges a long wait; returns `None` if the wait was neither for storage nor for a blocked thread.
    pub(super) fn of(&self, wait: &LongWait) -> Option<Judgement> {
        let asleep = wait.flags & (FOR_ANSWER | FOR_LOCK | ASYNC_IO);
        if asleep == 0 { Some(self.of_blocked(wait)) } else { self.of_sleep(wait) }
    }

    fn of_sleep(&self, wait: &LongWait) -> Option<Judgement> {
        let waker_stack = || wait.waker_stack().iter().copied();
        let is_interrupt = wait.waker_tid == 0 || self.interrupts.innermost(waker_stack()).is_some();
        let is_for_thread = wait.flags & ASYNC_IO == 0;
        // A completion can wake the sleeper through an eventfd, whose functions are further in.
        let before_interrupt = waker_stack()
            .take_while(|address| self.interrupts.innermost(std::iter::once(*address)).is_none());
        let by_completion = !is_for_thread && self.reasons.has_waker(before_interrupt, WaitReason::Storage);
        if self.server_idle.innermost(wait.stack().iter().copied()).is_some() {
            return None;
        }
        // A thread that an interrupt stopped is not the waker, and asynchronous I/O may be socket I/O.
        if (is_for_thread && is_interrupt) || (!is_for_thread && !by_completion) {
            return None;
        }
        let (blocked_in, reason) = match wait.flags {
            flags if flags & FOR_LOCK != 0 => (BlockedIn::OtherThread, WaitReason::Lock),
            flags if flags & FOR_ANSWER != 0 => (BlockedIn::OtherThread, WaitReason::Thread),
            _ => (BlockedIn::AsyncIo, WaitReason::Storage),
        };
        let waker_tid = is_for_thread.then_some(wait.waker_tid);
        Some(Judgement { blocked_in, reason, is_of_file: false, waker_tid, by_completion, is_by_ring: false })
    }

    fn of_blocked(&self, wait: &LongWait) -> Judgement {
        let stack = || wait.stack().iter().copied();
        let waker_stack = || wait.waker_stack().iter().copied();
        let call = calls::call(wait.call);
        let (blocked_in, is_by_ring) = self.operation(wait.call, call, stack());
        let is_iowait = wait.flags & IOWAIT != 0;
        let is_interrupt = wait.waker_tid == 0 || self.interrupts.innermost(waker_stack()).is_some();
        let woken_by = self.reasons.of_waker(waker_stack());
        let reason = self.reasons.of_blocked(stack()).or(woken_by);
        let by_name = if is_iowait { WaitReason::Storage } else { WaitReason::Unknown };
        let is_fault = matches!(blocked_in, BlockedIn::PageFault | BlockedIn::SwapIn);
        // The file of a worker is that of its request; any other thread has the file of the descriptor.
        let has_file = match wait.flags & IO_WORKER {
            0 => call.is_some_and(|call| call.has_file),
            _ => is_by_ring,
        };
        Judgement {
            blocked_in,
            reason: reason.unwrap_or(by_name),
            is_of_file: wait.flags & HAS_FILE != 0 && !is_fault && has_file,
            waker_tid: (!is_interrupt).then_some(wait.waker_tid),
            by_completion: wait.flags & NO_WAKER == 0
                && (is_interrupt || woken_by == Some(WaitReason::Storage)),
            is_by_ring,
        }
    }

    /// Returns the operation of a thread, and whether io_uring carries it out.
    fn operation(
        &self,
        number: i32,
        call: Option<Call>,
        stack: impl Iterator<Item = u64> + Clone,
    ) -> (BlockedIn, bool) {
        let is_ring_possible = number != KERNEL_THREAD && call.is_none();
        let ring = self.ring_operations.innermost(stack.clone()).filter(|_| is_ring_possible);
        let by_call = call.map(|call| call.blocked_in).or(ring);
        (operation(number, by_call, self.operations.innermost(stack)), ring.is_some())
    }
}

/// Returns the operation of a wait that has no stack.
pub(super) fn operation_of_call(number: i32) -> BlockedIn {
    operation(number, calls::call(number).map(|call| call.blocked_in), None)
}

fn operation(number: i32, by_call: Option<BlockedIn>, by_stack: Option<BlockedIn>) -> BlockedIn {
    match (number, by_call, by_stack) {
        (KERNEL_THREAD, ..) => BlockedIn::KernelThread,
        (_, Some(BlockedIn::Fsync), _) => BlockedIn::Fsync,
        (_, _, Some(by_stack)) => by_stack,
        (_, Some(by_call), None) => by_call,
        // Outside system calls, threads block only in page faults.
        (NO_CALL, None, None) => BlockedIn::PageFault,
        (0.., None, None) => BlockedIn::Other,
        (_, None, None) => BlockedIn::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::long_wait;
    use super::*;

    const SYMBOLS: &str = "\
        1000 T io_schedule\n1100 T do_swap_page\n1150 t __folio_lock_or_retry\n1200 T exc_page_fault\n1300 T balance_dirty_pages\n\
        1400 t start_this_handle\t[jbd2]\n1500 T rwsem_down_write_slowpath\n1600 T vfs_write\n\
        1180 T migration_entry_wait_on_locked\n1700 T folio_end_writeback\n1800 T common_interrupt\n1900 T up_write\n2000 T jbd2_log_wait_commit\n\
        2100 T io_fsync\n2200 T io_read\n2300 T _end\n";

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn call_and_stack_show_the_operation_and_the_reason() {
        use BlockedIn::*;
        let functions = StackFunctions::from_kallsyms(SYMBOLS);
        assert!(!functions.is_empty());
        let (write, fsync, futex) = (libc::SYS_write as i32, libc::SYS_fsync as i32, libc::SYS_futex as i32);
        let io_uring_enter = libc::SYS_io_uring_enter as i32;
        for (call, stack, expected) in [
            (write, &[0x1010, 0x1610][..], (Write, WaitReason::Storage)),
            (write, &[0x1310, 0x1610], (DirtyLimit, WaitReason::Storage)),
            (write, &[0x1410, 0x1610], (Journal, WaitReason::Storage)),
            (write, &[0x1010, 0x1110, 0x1210, 0x1610], (SwapIn, WaitReason::Storage)),
            (write, &[0x1510, 0x1610], (Write, WaitReason::Lock)),
            (fsync, &[0x2010], (Fsync, WaitReason::Storage)),
            (futex, &[0x1610], (Other, WaitReason::Unknown)),
            (NO_CALL, &[0x1010, 0x1210], (PageFault, WaitReason::Storage)),
            // Waiting for a page that is being swapped in, and for any other page.
            (NO_CALL, &[0x1010, 0x1160, 0x1110, 0x1210], (SwapIn, WaitReason::Storage)),
            (NO_CALL, &[0x1010, 0x1160, 0x1210], (PageFault, WaitReason::Storage)),
            // Waiting for a page that the kernel moves in memory.
            (NO_CALL, &[0x1010, 0x1190, 0x1110, 0x1210], (PageFault, WaitReason::Lock)),
            (NO_CALL, &[], (PageFault, WaitReason::Unknown)),
            // A worker of io_uring has the call in which the program submitted the request.
            (io_uring_enter, &[0x2010, 0x2110], (Fsync, WaitReason::Storage)),
            (io_uring_enter, &[0x1010, 0x2210], (Read, WaitReason::Storage)),
            (io_uring_enter, &[0x1410, 0x2210], (Journal, WaitReason::Storage)),
            (io_uring_enter, &[0x1010], (Other, WaitReason::Storage)),
            (KERNEL_THREAD, &[0x1410], (KernelThread, WaitReason::Storage)),
            (-2, &[], (Unknown, WaitReason::Unknown)),
        ] {
            let judgement = functions.of(&long_wait(call, stack, &[])).unwrap();
            assert_eq!((judgement.blocked_in, judgement.reason), expected, "{call} {stack:x?}");
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn an_interrupted_thread_is_not_the_waker() {
        let functions = StackFunctions::from_kallsyms(SYMBOLS);
        for (waker_tid, waker_stack, expected) in [
            (0, &[][..], (None, true)),
            (9, &[0x1710, 0x1810, 0x1610], (None, true)),
            (9, &[0x1710, 0x1610], (Some(9), true)),
            (9, &[0x1910, 0x1610], (Some(9), false)),
        ] {
            let mut wait = long_wait(libc::SYS_write as i32, &[0x1510], waker_stack);
            wait.waker_tid = waker_tid;
            let judgement = functions.of(&wait).unwrap();
            assert_eq!((judgement.waker_tid, judgement.by_completion), expected);
            // The file is recorded only if the first argument of the call is the file's descriptor.
            assert!(!judgement.is_of_file);
            wait.flags |= HAS_FILE;
            assert!(functions.of(&wait).unwrap().is_of_file);
            wait.call = libc::SYS_openat as i32;
            assert!(!functions.of(&wait).unwrap().is_of_file);
        }
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn only_a_worker_of_io_uring_shows_the_file_of_a_request() {
        let functions = StackFunctions::from_kallsyms(SYMBOLS);
        for (flags, stack, expected) in [
            (HAS_FILE | IO_WORKER, &[0x2010, 0x2110][..], true),
            // The descriptor of the call is that of the ring.
            (HAS_FILE, &[0x2010, 0x2110], false),
            (IO_WORKER, &[0x2010, 0x2110], false),
            (HAS_FILE | IO_WORKER, &[0x1010], false),
        ] {
            let mut wait = long_wait(libc::SYS_io_uring_enter as i32, stack, &[]);
            wait.flags = flags;
            assert_eq!(functions.of(&wait).unwrap().is_of_file, expected, "{flags} {stack:x?}");
        }
    }

    #[test]
    fn a_sleep_counts_if_its_end_shows_for_what_it_was() {
        use BlockedIn::{AsyncIo, OtherThread};
        let symbols = "1000 T io_schedule\n1100 T bio_endio\n1200 T tcp_ack\n1300 T common_interrupt\n1400 T pipe_write\n\
            1500 T eventfd_signal_mask\n1600 T fuse_dev_do_read\n1700 T _end\n";
        let functions = StackFunctions::from_kallsyms(symbols);
        for (flags, stack, waker_tid, waker_stack, expected) in [
            (FOR_ANSWER, &[][..], 9, &[0x1410][..], Some((OtherThread, WaitReason::Thread, Some(9), false))),
            // A server that waits for work is idle.
            (FOR_ANSWER, &[0x1610], 9, &[0x1410], None),
            (FOR_LOCK, &[], 9, &[], Some((OtherThread, WaitReason::Lock, Some(9), false))),
            (FOR_ANSWER, &[], 9, &[0x1210, 0x1310, 0x1410], None),
            (ASYNC_IO, &[], 0, &[0x1110], Some((AsyncIo, WaitReason::Storage, None, true))),
            (ASYNC_IO, &[], 9, &[0x1110, 0x1310], Some((AsyncIo, WaitReason::Storage, None, true))),
            // Through an eventfd; and an interrupted thread that has nothing to do with the wake-up.
            (ASYNC_IO, &[], 0, &[0x1510, 0x1110], Some((AsyncIo, WaitReason::Storage, None, true))),
            (ASYNC_IO, &[], 9, &[0x1510, 0x1310, 0x1110], None),
            (ASYNC_IO, &[], 0, &[], None),
            (ASYNC_IO, &[], 9, &[0x1210], None),
        ] {
            let mut wait = long_wait(0, stack, waker_stack);
            (wait.flags, wait.waker_tid) = (flags, waker_tid);
            let judgement = functions.of(&wait);
            let found = judgement.map(|judgement| {
                (judgement.blocked_in, judgement.reason, judgement.waker_tid, judgement.by_completion)
            });
            assert_eq!(found, expected, "{flags} {waker_stack:x?}");
        }
    }
}
