//! Builds the seccomp filter of a traced command.
//!
//! The filter stops a thread only at the recorded calls. All other calls run at full speed. A filter stays with a
//! process and its descendants until they end, and its calls fail without a tracer. Therefore, the tracer never
//! detaches.

use std::io;

/// A program for the kernel's classic packet filter, which reads `struct seccomp_data`.
pub(super) struct Filter(Vec<libc::sock_filter>);

/// The message of a stop at a call with the processor's own numbering.
pub(super) const OF_CALL: u32 = 0;
/// The message of a stop at a call of a 32-bit program, whose calls have other numbers.
pub(super) const OF_COMPAT: u32 = 1;

/// Offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`). The lower half of an argument comes first
/// on both processors.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `include/uapi/linux/audit.h`: the processor, for 64 bits and little endian.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: u32 = 0;
/// Whether the calls of this processor are known.
pub(super) const IS_POSSIBLE: bool = NATIVE != 0;

/// The call that maps files.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const MMAP: libc::c_long = libc::SYS_mmap;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const MMAP: libc::c_long = libc::SYS_mmap2;

/// On x86-64, calls with 32-bit pointers (x32) have this bit in their number.
const X32: u32 = 0x4000_0000;

impl Filter {
    /// Creates a filter that stops at these calls, and at calls that map a file for shared writing or as code.
    pub(super) fn new(calls: impl Iterator<Item = u32>) -> Filter {
        let mut filter = Filter(Vec::new());
        filter.load(ARCHITECTURE);
        filter.unless_equal(NATIVE, |filter| filter.stop(OF_COMPAT));
        filter.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            filter.jump(libc::BPF_JGE, X32, (0, 1));
            filter.stop(OF_COMPAT);
        }
        for number in calls {
            filter.jump(libc::BPF_JEQ, number, (0, 1));
            filter.stop(OF_CALL);
        }
        filter.unless_equal(MMAP as u32, Filter::allow);
        // mmap(address, bytes, rights, flags, file, offset)
        filter.load_argument(3);
        filter.jump(libc::BPF_JSET, libc::MAP_ANONYMOUS as u32, (0, 1));
        filter.allow();
        filter.load_argument(2);
        filter.jump(libc::BPF_JSET, libc::PROT_EXEC as u32, (0, 1));
        filter.stop(OF_CALL);
        filter.unless_set(libc::PROT_WRITE as u32, Filter::allow);
        filter.load_argument(3);
        filter.unless_set(libc::MAP_SHARED as u32, Filter::allow);
        filter.stop(OF_CALL);
        filter
    }

    /// Installs the filter for the calling thread, which must be the only thread of a new process. Allocates no
    /// memory, because it runs between fork and exec. Fails if the kernel has no seccomp, or forbids it.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).unwrap_or(u16::MAX),
            filter: self.0.as_ptr().cast_mut(),
        };
        let install = || {
            // SAFETY: `program` points to as many instructions as it says, and the kernel copies them.
            match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        match install() {
            // Users without CAP_SYS_ADMIN must first give up the privileges of setuid programs.
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                // SAFETY: the call takes only numbers.
                if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                install()
            }
            outcome => outcome,
        }
    }

    fn load(&mut self, offset: u32) {
        self.add(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, (0, 0));
    }

    /// Loads the lower half of an argument.
    fn load_argument(&mut self, number: u32) {
        self.load(ARGUMENTS + 8 * number);
    }

    fn unless_equal(&mut self, value: u32, otherwise: impl Fn(&mut Filter)) {
        self.jump(libc::BPF_JEQ, value, (1, 0));
        otherwise(self);
    }

    fn unless_set(&mut self, bits: u32, otherwise: impl Fn(&mut Filter)) {
        self.jump(libc::BPF_JSET, bits, (1, 0));
        otherwise(self);
    }

    fn stop(&mut self, message: u32) {
        self.add(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRACE | message, (0, 0));
    }

    fn allow(&mut self) {
        self.add(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, (0, 0));
    }

    /// Adds a conditional jump: the number of instructions to skip if the comparison holds, and if it does not.
    fn jump(&mut self, comparison: u32, value: u32, (holds, fails): (u8, u8)) {
        self.add(libc::BPF_JMP | comparison | libc::BPF_K, value, (holds, fails));
    }

    fn add(&mut self, code: u32, k: u32, (jt, jf): (u8, u8)) {
        self.0.push(libc::sock_filter { code: code as u16, jt, jf, k });
    }
}
