//! Lists the recorded calls by number: the name, and the arguments that the program reads.

/// A recorded call: its number, its name, the kind of its arguments, and whether it writes from its buffer.
pub(crate) type Listed = (libc::c_long, &'static str, Kind, bool);

/// Kinds of arguments that a call can have, numbered as in `bpf/calls.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only x86-64 has calls without a folder"))]
pub(crate) enum Kind {
    File = 1,
    AtPosition = 2,
    AtOffset = 3,
    PartsAtPosition = 4,
    PartsAtOffset = 5,
    Range = 6,
    ModeRange = 7,
    Length = 8,
    Memory = 9,
    All = 10,
    Path = 11,
    PathAt = 12,
    PathLength = 13,
    Open = 14,
    OpenAt = 15,
}

/// A flag in the kind of a call that writes from its buffer.
const WRITES: u8 = 64;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! calls {
    ($($kind:ident $writes:literal: $($number:ident $name:literal)*;)*) => {
        &[$($((libc::$number, $name, Kind::$kind, $writes)),*),*]
    };
}

/// System calls that both x86-64 and arm64 have.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CALLS: &[Listed] = calls! {
    AtPosition false: SYS_read "read";
    AtPosition true: SYS_write "write";
    AtOffset false: SYS_pread64 "pread64";
    AtOffset true: SYS_pwrite64 "pwrite64";
    PartsAtPosition false: SYS_readv "readv";
    PartsAtPosition true: SYS_writev "writev";
    PartsAtOffset false: SYS_preadv "preadv" SYS_preadv2 "preadv2";
    PartsAtOffset true: SYS_pwritev "pwritev" SYS_pwritev2 "pwritev2";
    File false: SYS_fsync "fsync" SYS_fdatasync "fdatasync" SYS_syncfs "syncfs";
    Range false: SYS_sync_file_range "sync_file_range";
    ModeRange false: SYS_fallocate "fallocate";
    Length false: SYS_ftruncate "ftruncate";
    Memory false: SYS_msync "msync";
    All false: SYS_sync "sync";
    PathAt false: SYS_unlinkat "unlinkat" SYS_renameat2 "renameat2";
    PathLength false: SYS_truncate "truncate";
    OpenAt false: SYS_openat "openat" SYS_openat2 "openat2";
};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[Listed] = &[];

/// Older system calls, most of which exist only on x86-64.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[Listed] = calls! {
    Path false: SYS_unlink "unlink" SYS_rename "rename";
    PathAt false: SYS_renameat "renameat";
    Open false: SYS_open "open" SYS_creat "creat";
};
#[cfg(target_arch = "aarch64")]
const OLDER_CALLS: &[Listed] = calls! { PathAt false: SYS_renameat "renameat"; };
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER_CALLS: &[Listed] = &[];

/// Returns all recorded calls.
pub(crate) fn all() -> impl Iterator<Item = Listed> {
    CALLS.iter().chain(OLDER_CALLS).copied()
}

/// Returns the number of each call, with the kind of its arguments.
pub(super) fn kinds() -> impl Iterator<Item = (u32, u8)> {
    let kind = |kind: Kind, writes| kind as u8 + if writes { WRITES } else { 0 };
    all().filter_map(move |(number, _, of, writes)| Some((u32::try_from(number).ok()?, kind(of, writes))))
}

/// Returns the name of a system call by its number.
pub(super) fn name(number: i32) -> Option<&'static str> {
    all().find(|(known, ..)| *known == libc::c_long::from(number)).map(|(_, name, ..)| name)
}

/// Returns whether the call removes or moves the file at its path.
pub(super) fn moves_path(name: &str) -> bool {
    matches!(name, "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::calls::layout::CALLS_MAX;

    #[test]
    fn each_call_is_listed_once_and_fits_into_the_table() {
        let mut numbers: Vec<u32> = kinds().map(|(number, _)| number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
        assert!(numbers.last().is_none_or(|last| *last < CALLS_MAX));
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn calls_are_known_by_their_numbers() {
        assert_eq!(name(libc::SYS_fdatasync as i32), Some("fdatasync"));
        assert_eq!(name(libc::SYS_futex as i32), None);
        assert!(kinds().any(|call| call == (libc::SYS_pwrite64 as u32, 3 + WRITES)));
    }
}
