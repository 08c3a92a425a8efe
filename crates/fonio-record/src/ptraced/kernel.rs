//! Calls `ptrace`, `waitpid` and `process_vm_readv`.

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};

/// Requests, options and events of `ptrace` (`include/uapi/linux/ptrace.h`).
const POKE_TEXT: u32 = 4;
const CONT: u32 = 7;
#[cfg(target_arch = "x86_64")]
const GET_REGISTERS: u32 = 12;
#[cfg(target_arch = "x86_64")]
const SET_REGISTERS: u32 = 13;
const SYSCALL: u32 = 24;
const GET_EVENT_MESSAGE: u32 = 0x4201;
const SEIZE: u32 = 0x4206;
const LISTEN: u32 = 0x4208;
const GET_SYSCALL_INFO: u32 = 0x420e;

/// Tells stops at system calls from signals, follows new threads and processes, stops at exec and where the filter
/// says so, and kills every traced process if the tracer ends.
const OPTIONS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 20;

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At the entry of a call that the filter names.
    Call,
    /// At the exit of such a call.
    Exit,
    /// After fork, vfork or clone. The new thread has stopped, too.
    Child,
    /// After exec.
    Exec,
    /// Before this signal is delivered.
    Signal(i32),
    /// SIGSTOP and similar signals stopped the whole process.
    Group,
    /// A new thread begins, or the process continues after SIGCONT.
    Begin,
}

/// The message of `waitpid` about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The process ended with this exit code.
    Ended(i32),
    /// This signal killed the process.
    Killed(i32),
    Stopped(Stop),
}

/// How a stopped thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// Until the next stop. A signal is delivered if it is not 0.
    On(i32),
    /// Until the exit of the current call.
    ToExit,
    /// The thread stays stopped, until SIGCONT arrives.
    Listen,
}

/// `struct ptrace_syscall_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallInfo {
    op: u8,
    pad: [u8; 3],
    pub architecture: u32,
    instruction: u64,
    stack: u64,
    /// At the entry: the number of the call. At the exit: its result.
    first: u64,
    /// At the entry: the arguments of the call.
    pub arguments: [u64; 6],
    /// At a stop of the filter: the filter's message.
    pub message: u32,
    pad_end: u32,
}

const _: () = assert!(offset_of!(CallInfo, first) == 24 && offset_of!(CallInfo, message) == 80);

impl CallInfo {
    pub(super) fn number(&self) -> i32 {
        self.first as i32
    }

    pub(super) fn result(&self) -> i64 {
        self.first as i64
    }
}

/// Traces a thread, which continues to run.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    request(SEIZE, tid, 0, OPTIONS)
}

/// Continues a stopped thread. It may have been killed in the meantime; then `waitpid` reports its end.
pub(super) fn go(tid: i32, how: Go) {
    let _ = match how {
        Go::On(signal) => request(CONT, tid, 0, signal as u64),
        Go::ToExit => request(SYSCALL, tid, 0, 0),
        Go::Listen => request(LISTEN, tid, 0, 0),
    };
}

/// Returns the thread that a [`Stop::Child`] reports, or the former id of the thread of a [`Stop::Exec`].
pub(super) fn message(tid: i32) -> Option<i32> {
    let mut message: libc::c_ulong = 0;
    request(GET_EVENT_MESSAGE, tid, 0, (&raw mut message) as u64).ok()?;
    i32::try_from(message).ok()
}

/// Returns the call at whose entry or exit a thread stopped. Fails before Linux 5.3, and if the thread was killed.
pub(super) fn call_info(tid: i32) -> io::Result<CallInfo> {
    let mut info = CallInfo::default();
    request(GET_SYSCALL_INFO, tid, size_of::<CallInfo>() as u64, (&raw mut info) as u64)?;
    Ok(info)
}

fn request(request: u32, tid: i32, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: `data` is a number, or points to memory of the size that the request reads or writes: an unsigned
    // long, the registers, or a `CallInfo`, whose size is in `address`.
    match unsafe { libc::syscall(libc::SYS_ptrace, u64::from(request), tid as i64, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until a thread changes that the calling thread traces; `of` is a thread, or -1 for all. Returns `None` if
/// there is none.
pub(super) fn wait(of: i32) -> Option<(i32, Change)> {
    loop {
        let mut status = MaybeUninit::<libc::c_int>::zeroed();
        // SAFETY: the call writes one integer to the pointer, which has room for one, or none.
        let (tid, status) = unsafe {
            let tid = libc::waitpid(of, status.as_mut_ptr(), libc::__WALL | libc::__WNOTHREAD);
            (tid, status.assume_init())
        };
        if tid > 0 {
            return Some((tid, change(status)));
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return None;
        }
    }
}

/// Waits until a process of one thread changes, and returns whether it has ended. The change can still be waited for.
pub(super) fn has_ended(pid: i32) -> bool {
    let mut found = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: the call writes at most one structure to the pointer, which has room for one.
        let outcome = unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, found.as_mut_ptr(), flags) };
        if outcome == 0 {
            break;
        }
        // If there is no such process, the other thread has seen its end.
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return true;
        }
    }
    // SAFETY: zeros are valid for fields that the call has not written.
    let code = unsafe { found.assume_init() }.si_code;
    matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED)
}

fn change(status: i32) -> Change {
    if libc::WIFEXITED(status) {
        return Change::Ended(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Change::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    Change::Stopped(match status >> 16 {
        1..=3 => Stop::Child,
        4 => Stop::Exec,
        7 => Stop::Call,
        128 if signal != libc::SIGTRAP => Stop::Group,
        128 => Stop::Begin,
        _ if signal == libc::SIGTRAP | 0x80 => Stop::Exit,
        _ => Stop::Signal(signal),
    })
}

/// Reads memory of a traced thread. Returns the bytes that could be read.
pub(super) fn read(tid: i32, address: u64, into: &mut [u8]) -> usize {
    const PAGE: u64 = 4096;
    let mut done = 0;
    // A read that crosses into an unmapped page fails in some kernels, so it ends at each page.
    while done < into.len() {
        let at = address.saturating_add(done as u64);
        let length = (into.len() - done).min((PAGE - at % PAGE) as usize);
        let local = libc::iovec { iov_base: into[done..].as_mut_ptr().cast(), iov_len: length };
        let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: length };
        // SAFETY: `local` describes `length` writable bytes of `into`. The kernel checks the remote address.
        let got = unsafe { libc::process_vm_readv(tid, &local, 1, &remote, 1, 0) };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { break };
        done += got;
    }
    done
}

/// Writes eight bytes into the memory of a stopped thread, also into its code.
pub(super) fn write_word(tid: i32, address: u64, word: u64) -> io::Result<()> {
    request(POKE_TEXT, tid, address, word)
}

/// The registers of a stopped thread.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Registers(libc::user_regs_struct);

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub(super) fn of(tid: i32) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
        request(GET_REGISTERS, tid, 0, registers.as_mut_ptr() as u64)?;
        // SAFETY: the request has written the structure, which consists of integers.
        Ok(Registers(unsafe { registers.assume_init() }))
    }

    pub(super) fn write(&self, tid: i32) -> io::Result<()> {
        request(SET_REGISTERS, tid, 0, (&raw const self.0) as u64)
    }

    pub(super) fn instruction(&self) -> u64 {
        self.0.rip
    }

    pub(super) fn set_instruction(&mut self, address: u64) {
        self.0.rip = address;
        // A breakpoint is not a system call, so the kernel must not restart one.
        self.0.orig_rax = u64::MAX;
    }

    pub(super) fn first_argument(&self) -> u64 {
        self.0.rdi
    }

    pub(super) fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Pushes the register with the number that machine code uses for it.
    pub(super) fn push(&mut self, tid: i32, register: u8) -> io::Result<()> {
        let of = &self.0;
        let all = [
            of.rax, of.rcx, of.rdx, of.rbx, of.rsp, of.rbp, of.rsi, of.rdi, of.r8, of.r9, of.r10, of.r11,
            of.r12, of.r13, of.r14, of.r15,
        ];
        let to = of.rsp.wrapping_sub(8);
        write_word(tid, to, all[usize::from(register)])?;
        self.0.rsp = to;
        Ok(())
    }
}

/// Other processors have no breakpoints.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(super) struct Registers(std::convert::Infallible);

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    pub(super) fn of(_: i32) -> io::Result<Registers> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn write(&self, _: i32) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn instruction(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn set_instruction(&mut self, _: u64) {
        match self.0 {}
    }

    pub(super) fn first_argument(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn stack(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn push(&mut self, _: i32, _: u8) -> io::Result<()> {
        match self.0 {}
    }
}

/// Reads a text that ends with a zero byte; at most `length` bytes.
pub(super) fn read_text(tid: i32, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < length {
        let mut part = [0; 256];
        let got = read(tid, address + text.len() as u64, &mut part);
        let end = part[..got].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(got)]);
        if end.is_some() {
            return Some(text);
        }
        if got < part.len() {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_up_to_an_unmapped_page() {
        let own = std::process::id() as i32;
        let text = c"a text that is short";
        assert_eq!(read_text(own, text.as_ptr() as u64, 4096).as_deref(), Some(text.to_bytes()));
        let mut bytes = [0; 8];
        assert_eq!(read(own, 8, &mut bytes), 0);
        let long = vec![7_u8; 10_000];
        let mut copy = vec![0; 10_000];
        assert_eq!(read(own, long.as_ptr() as u64, &mut copy), 10_000);
        assert_eq!(copy, long);
        assert_eq!(read_text(own, long.as_ptr() as u64, 1000), None);
    }

    #[test]
    fn statuses_are_told_apart() {
        for (status, expected) in [
            (7 << 8, Change::Ended(7)),
            (9, Change::Killed(9)),
            ((libc::SIGUSR1 << 8) | 0x7f, Change::Stopped(Stop::Signal(libc::SIGUSR1))),
            (((libc::SIGTRAP | 0x80) << 8) | 0x7f, Change::Stopped(Stop::Exit)),
            ((7 << 16) | (libc::SIGTRAP << 8) | 0x7f, Change::Stopped(Stop::Call)),
            ((128 << 16) | (libc::SIGSTOP << 8) | 0x7f, Change::Stopped(Stop::Group)),
            ((128 << 16) | (libc::SIGTRAP << 8) | 0x7f, Change::Stopped(Stop::Begin)),
            ((4 << 16) | (libc::SIGTRAP << 8) | 0x7f, Change::Stopped(Stop::Exec)),
        ] {
            assert_eq!(change(status), expected, "{status:#x}");
        }
    }
}
