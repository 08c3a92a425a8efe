//! The requests of the kernel.

/// An opcode. After `ENOSYS`, the kernel stops sending an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    Lookup,
    Forget,
    Getattr,
    Setattr,
    Readlink,
    Symlink,
    Mknod,
    Mkdir,
    Unlink,
    Rmdir,
    Rename,
    Link,
    Open,
    Read,
    Write,
    Statfs,
    Release,
    Fsync,
    Setxattr,
    Getxattr,
    Listxattr,
    Removexattr,
    Flush,
    Init,
    Opendir,
    Readdir,
    Releasedir,
    Fsyncdir,
    Access,
    Create,
    Interrupt,
    Destroy,
    Ioctl,
    BatchForget,
    Fallocate,
    Readdirplus,
    Rename2,
    Lseek,
    CopyFileRange,
    Tmpfile,
    Statx,
    Unknown,
}

/// Opcode, its number, the length of its record, its name in lower case.
const OPCODES: &[(Opcode, u32, usize, &str)] = &[
    (Opcode::Lookup, 1, 0, "lookup"),
    (Opcode::Forget, 2, 8, "forget"),
    (Opcode::Getattr, 3, 16, "getattr"),
    (Opcode::Setattr, 4, 88, "setattr"),
    (Opcode::Readlink, 5, 0, "readlink"),
    (Opcode::Symlink, 6, 0, "symlink"),
    (Opcode::Mknod, 8, 16, "mknod"),
    (Opcode::Mkdir, 9, 8, "mkdir"),
    (Opcode::Unlink, 10, 0, "unlink"),
    (Opcode::Rmdir, 11, 0, "rmdir"),
    (Opcode::Rename, 12, 8, "rename"),
    (Opcode::Link, 13, 8, "link"),
    (Opcode::Open, 14, 8, "open"),
    (Opcode::Read, 15, 40, "read"),
    (Opcode::Write, 16, 40, "write"),
    (Opcode::Statfs, 17, 0, "statfs"),
    (Opcode::Release, 18, 24, "release"),
    (Opcode::Fsync, 20, 16, "fsync"),
    (Opcode::Setxattr, 21, 16, "setxattr"),
    (Opcode::Getxattr, 22, 8, "getxattr"),
    (Opcode::Listxattr, 23, 8, "listxattr"),
    (Opcode::Removexattr, 24, 0, "removexattr"),
    (Opcode::Flush, 25, 24, "flush"),
    (Opcode::Init, 26, 0, "init"),
    (Opcode::Opendir, 27, 8, "opendir"),
    (Opcode::Readdir, 28, 40, "readdir"),
    (Opcode::Releasedir, 29, 24, "releasedir"),
    (Opcode::Fsyncdir, 30, 16, "fsyncdir"),
    (Opcode::Access, 34, 8, "access"),
    (Opcode::Create, 35, 16, "create"),
    (Opcode::Interrupt, 36, 8, "interrupt"),
    (Opcode::Destroy, 38, 0, "destroy"),
    (Opcode::Ioctl, 39, 32, "ioctl"),
    (Opcode::BatchForget, 42, 8, "batch_forget"),
    (Opcode::Fallocate, 43, 32, "fallocate"),
    (Opcode::Readdirplus, 44, 40, "readdirplus"),
    (Opcode::Rename2, 45, 16, "rename2"),
    (Opcode::Lseek, 46, 24, "lseek"),
    (Opcode::CopyFileRange, 47, 56, "copy_file_range"),
    (Opcode::Tmpfile, 51, 16, "tmpfile"),
    (Opcode::Statx, 52, 24, "statx"),
    (Opcode::Unknown, u32::MAX, 0, "unknown"),
];

/// Higher than all known numbers.
const NUMBERS: usize = 64;

const fn by_number() -> [Opcode; NUMBERS] {
    let mut table = [Opcode::Unknown; NUMBERS];
    let mut at = 0;
    while at < OPCODES.len() - 1 {
        table[OPCODES[at].1 as usize] = OPCODES[at].0;
        at += 1;
    }
    table
}

const BY_NUMBER: [Opcode; NUMBERS] = by_number();

impl Opcode {
    /// Number of opcodes.
    pub(crate) const COUNT: usize = OPCODES.len();

    pub(crate) fn from_number(number: u32) -> Self {
        BY_NUMBER.get(number as usize).copied().unwrap_or(Self::Unknown)
    }

    /// Its position in the statistics.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Length of the record before names and data.
    pub(crate) fn record_bytes(self) -> usize {
        OPCODES[self.index()].2
    }

    /// All opcodes, with their names.
    pub(crate) fn all() -> impl Iterator<Item = (Self, &'static str)> {
        OPCODES.iter().map(|entry| (entry.0, entry.3))
    }
}
