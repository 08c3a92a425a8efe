//! Finds the system call of a thread from its kernel stack.

use fonio_tracefs::waits::{Functions, Symbols};

use crate::probes::blocked::calls;
use crate::probes::blocked::judgement::Caller;

/// Prefixes of system-call entry functions: for 64-bit and 32-bit programs, on x86 and ARM, before and since
/// Linux 4.17.
const BEGINNINGS: [&str; 16] = [
    "__x64_sys_",
    "__arm64_sys_",
    "__ia32_sys_",
    "__ia32_compat_sys_",
    "__x64_compat_sys_",
    "__arm64_compat_sys_",
    "__riscv_sys_",
    "__se_sys_",
    "__do_sys_",
    "__se_compat_sys_",
    "__do_compat_sys_",
    "compat_sys_",
    "compat_SyS_",
    "SyS_",
    "sys_",
    "ksys_",
];

/// Functions that are called directly by system calls, listed under the name of one of these system calls.
/// The compiler may inline the function of the system call itself.
const CALLED: [(&str, &[&str]); 19] = [
    ("fsync", &["do_fsync", "vfs_fsync", "vfs_fsync_range"]),
    ("readv", &["do_readv", "do_preadv", "vfs_readv"]),
    ("writev", &["do_writev", "do_pwritev", "vfs_writev"]),
    ("sendfile", &["do_sendfile"]),
    ("splice", &["do_splice", "__do_splice"]),
    ("openat", &["do_sys_open", "do_sys_openat2"]),
    ("newfstatat", &["vfs_fstatat", "vfs_statx", "do_statx", "vfs_stat", "vfs_lstat"]),
    ("unlinkat", &["do_unlinkat", "do_rmdir"]),
    ("renameat2", &["do_renameat2"]),
    ("mkdirat", &["do_mkdirat"]),
    ("linkat", &["do_linkat"]),
    ("symlinkat", &["do_symlinkat"]),
    ("mknodat", &["do_mknodat"]),
    ("faccessat", &["do_faccessat"]),
    ("readlinkat", &["do_readlinkat"]),
    ("fchmodat", &["do_fchmodat"]),
    ("fchownat", &["do_fchownat"]),
    ("utimensat", &["do_utimes"]),
    ("truncate", &["do_sys_truncate", "do_sys_ftruncate"]),
];

/// Other names of system calls, by the name used here.
const OTHER_NAMES: [(&str, &[&str]); 4] = [
    ("newfstatat", &["newstat", "newlstat", "newfstat", "stat64", "lstat64", "fstat64", "fstatat64"]),
    ("truncate", &["truncate64", "ftruncate64"]),
    ("fadvise64", &["fadvise64_64"]),
    ("sync_file_range", &["sync_file_range2"]),
];

/// Kernel functions at which system calls enter the kernel.
const ENTRIES: &[&str] = &[
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
    "entry_SYSCALL_64_fastpath",
    "do_int80_syscall_32",
    "do_fast_syscall_32",
    "el0_svc",
    "el0_svc_naked",
    "el0_svc_common",
    "do_el0_svc",
    "el0_svc_compat",
    "ret_fast_syscall",
    "do_trap_ecall_u",
];
/// The kernel function in which all kernel threads begin.
const KERNEL_THREAD: &[&str] = &["kthread"];

/// The functions of this kernel that identify the system call.
#[derive(Debug, Default)]
pub(super) struct CallFunctions(Functions<Caller>);

impl CallFunctions {
    /// Finds these functions in the text of `/proc/kallsyms`.
    pub(super) fn from_kallsyms(text: &str) -> CallFunctions {
        let of = |name: &'static str, table: &[(&str, &'static [&'static str])]| {
            let found = table.iter().find(|(of, _)| *of == name);
            found.map_or(&[][..], |(_, names)| *names)
        };
        let names: Vec<(Caller, Vec<String>)> = calls::names()
            .map(|(name, call)| {
                let all = || std::iter::once(&name).chain(of(name, &OTHER_NAMES));
                let begin = BEGINNINGS
                    .iter()
                    .flat_map(|beginning| all().map(move |name| format!("{beginning}{name}")));
                let called = of(name, &CALLED).iter().map(|name| (*name).to_owned());
                (Caller::Call(call), begin.chain(called).collect())
            })
            .collect();
        let names: Vec<(Caller, Vec<&str>)> = names
            .iter()
            .map(|(caller, names)| (*caller, names.iter().map(String::as_str).collect()))
            .collect();
        let mut table: Vec<(Caller, &[&str])> =
            names.iter().map(|(caller, names)| (*caller, names.as_slice())).collect();
        table.push((Caller::OtherCall, ENTRIES));
        table.push((Caller::KernelThread, KERNEL_THREAD));
        CallFunctions(Functions::find(&Symbols::from_kallsyms(text), &table))
    }

    /// Returns the caller of the functions on a stack, innermost first.
    pub(super) fn of(&self, stack: &[u64]) -> Caller {
        let known = stack.iter().rev().filter_map(|address| self.0.innermost(std::iter::once(*address)));
        let mut caller = None;
        for found in known {
            match found {
                // The outermost call counts, because execve, for example, also opens and reads a file.
                Caller::OtherCall => caller = caller.or(Some(found)),
                _ => return found,
            }
        }
        caller.unwrap_or(Caller::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::BlockedIn;

    use super::*;

    #[test]
    fn the_outermost_call_counts() {
        let functions = CallFunctions::from_kallsyms(
            "1000 T do_syscall_64\n1100 T __x64_sys_openat\n1200 T __x64_sys_execve\n1300 t kthread\n1400 T do_fsync\n\
             1500 T ksys_read\n1600 T __x64_sys_newlstat\n1700 T io_schedule\n1800 T sys_fsync\n1900 T SyS_write\n\
             2000 T asm_exc_page_fault\n2100 T do_sys_openat2\n2200 T _end\n",
        );
        for (stack, expected) in [
            (&[0x1710, 0x1510, 0x1010][..], "Read"),
            (&[0x1710, 0x2110, 0x1110, 0x1010], "Metadata"),
            (&[0x1710, 0x1610, 0x1010], "Metadata"),
            (&[0x1710, 0x1410, 0x1010], "Fsync"),
            (&[0x1810], "Fsync"),
            (&[0x1910], "Write"),
            // execve does not count as a call on files, although it opens and reads a file.
            (&[0x1710, 0x1210, 0x1010], "other"),
            // The loop driver writes and syncs files on behalf of other threads.
            (&[0x1710, 0x1410, 0x1310], "kernel"),
            (&[0x1710, 0x2010], "unknown"),
            (&[0x1710], "unknown"),
            (&[], "unknown"),
        ] {
            let shown = match functions.of(stack) {
                Caller::Call(call) => format!("{:?}", call.blocked_in),
                Caller::OtherCall => "other".to_owned(),
                Caller::KernelThread => "kernel".to_owned(),
                Caller::Unknown => "unknown".to_owned(),
            };
            assert_eq!(shown, expected, "{stack:x?}");
        }
        let fsync = Caller::Call(calls::Call { blocked_in: BlockedIn::Fsync, has_file: true });
        assert_eq!(functions.of(&[0x1810]), fsync);
    }

    #[test]
    fn further_names_belong_to_known_calls() {
        for (name, _) in CALLED.iter().chain(&OTHER_NAMES) {
            assert!(calls::names().any(|(known, _)| known == *name), "{name}");
        }
    }
}
