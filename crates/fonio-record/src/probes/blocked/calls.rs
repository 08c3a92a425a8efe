//! Finds the operation of a system call on files, by its number or its name.

use fonio_core::BlockedIn;

/// A system call that can be blocked on storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub blocked_in: BlockedIn,
    /// Whether the first argument of the call is a file descriptor that belongs to the file until the call
    /// ends. `close` frees its descriptor before it waits, so another thread can open another file with the
    /// same number.
    pub has_file: bool,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! numbers {
    ($($blocked_in:ident $has_file:literal: $($name:ident)*;)*) => {
        &[$($((libc::$name, Call { blocked_in: BlockedIn::$blocked_in, has_file: $has_file })),*),*]
    };
}

macro_rules! names {
    ($($blocked_in:ident $has_file:literal: $($name:ident)*;)*) => {
        &[$($((stringify!($name), Call { blocked_in: BlockedIn::$blocked_in, has_file: $has_file })),*),*]
    };
}

/// System calls that all 64-bit architectures have.
macro_rules! calls {
    ($make:ident) => { $make! {
        Read true: SYS_read SYS_pread64 SYS_readv SYS_preadv SYS_preadv2 SYS_readahead SYS_fadvise64;
        Read false: SYS_sendfile;
        Write true: SYS_write SYS_pwrite64 SYS_writev SYS_pwritev SYS_pwritev2;
        Write false: SYS_copy_file_range SYS_splice;
        Fsync true: SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_syncfs;
        Fsync false: SYS_msync SYS_sync;
        Metadata true: SYS_fstat SYS_getdents64 SYS_ftruncate SYS_fallocate SYS_fchmod SYS_fchown SYS_fchdir SYS_fgetxattr
            SYS_fsetxattr SYS_flistxattr SYS_fremovexattr SYS_fstatfs SYS_flock;
        Metadata false: SYS_openat SYS_openat2 SYS_statx SYS_newfstatat SYS_faccessat SYS_readlinkat SYS_unlinkat SYS_mkdirat
            SYS_close SYS_linkat SYS_symlinkat SYS_renameat2 SYS_mknodat SYS_utimensat SYS_fchmodat SYS_fchownat
            SYS_truncate SYS_chdir SYS_statfs SYS_getxattr SYS_lgetxattr SYS_setxattr SYS_lsetxattr SYS_listxattr
            SYS_llistxattr SYS_removexattr SYS_lremovexattr;
    } };
}

/// System calls that only older architectures have.
macro_rules! older_calls {
    ($make:ident) => { $make! {
        Metadata false: SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_unlink SYS_rmdir SYS_mkdir SYS_link
            SYS_symlink SYS_rename SYS_renameat SYS_mknod SYS_utime SYS_utimes SYS_chmod SYS_chown SYS_lchown;
        Metadata true: SYS_getdents;
    } };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CALLS: &[(libc::c_long, Call)] = calls!(numbers);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[(libc::c_long, Call)] = &[];

#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[(libc::c_long, Call)] = older_calls!(numbers);
#[cfg(target_arch = "aarch64")]
const OLDER_CALLS: &[(libc::c_long, Call)] = numbers! { Metadata false: SYS_renameat; };
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER_CALLS: &[(libc::c_long, Call)] = &[];

/// The system calls by name, with `SYS_` before each name.
const NAMES: [&[(&str, Call)]; 2] = [calls!(names), older_calls!(names)];

/// Returns the system calls by name.
pub(super) fn names() -> impl Iterator<Item = (&'static str, Call)> {
    NAMES.into_iter().flatten().map(|(name, call)| (name.strip_prefix("SYS_").unwrap_or(name), *call))
}

/// Returns the call with this number; `None` if it does not use files.
pub(super) fn call(number: i32) -> Option<Call> {
    let mut all = CALLS.iter().chain(OLDER_CALLS);
    all.find(|(known, _)| *known == libc::c_long::from(number)).map(|(_, call)| *call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_listed_once() {
        let mut numbers: Vec<_> = CALLS.iter().chain(OLDER_CALLS).map(|(number, _)| *number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn calls_are_known_by_their_numbers() {
        let named = |number: libc::c_long| call(number as i32).map(|call| (call.blocked_in, call.has_file));
        assert_eq!(named(libc::SYS_fsync), Some((BlockedIn::Fsync, true)));
        assert_eq!(named(libc::SYS_openat), Some((BlockedIn::Metadata, false)));
        assert_eq!(named(libc::SYS_futex), None);
        // The descriptor of a close can belong to another file when the close ends.
        assert_eq!(named(libc::SYS_close), Some((BlockedIn::Metadata, false)));
    }
}
