//! Defines the requests that the kernel sends.

macro_rules! opcodes {
    ($($opcode:ident $number:literal $record_bytes:literal $name:literal)*) => {
        /// The opcode of a request. After a reply of `ENOSYS`, the kernel stops sending an unknown opcode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Opcode {
            $($opcode,)*
            Unknown,
        }

        /// Each opcode with its number, the length of its record, and its name in lower case.
        const OPCODES: &[(Opcode, u32, usize, &str)] = &[
            $((Opcode::$opcode, $number, $record_bytes, $name),)*
            (Opcode::Unknown, u32::MAX, 0, "unknown"),
        ];
    };
}

// Each line: opcode, number, length of the record in bytes, name.
opcodes! {
    Lookup 1 0 "lookup"
    Forget 2 8 "forget"
    Getattr 3 16 "getattr"
    Setattr 4 88 "setattr"
    Readlink 5 0 "readlink"
    Symlink 6 0 "symlink"
    Mknod 8 16 "mknod"
    Mkdir 9 8 "mkdir"
    Unlink 10 0 "unlink"
    Rmdir 11 0 "rmdir"
    Rename 12 8 "rename"
    Link 13 8 "link"
    Open 14 8 "open"
    Read 15 40 "read"
    Write 16 40 "write"
    Statfs 17 0 "statfs"
    Release 18 24 "release"
    Fsync 20 16 "fsync"
    Setxattr 21 16 "setxattr"
    Getxattr 22 8 "getxattr"
    Listxattr 23 8 "listxattr"
    Removexattr 24 0 "removexattr"
    Flush 25 24 "flush"
    Init 26 0 "init"
    Opendir 27 8 "opendir"
    Readdir 28 40 "readdir"
    Releasedir 29 24 "releasedir"
    Fsyncdir 30 16 "fsyncdir"
    Access 34 8 "access"
    Create 35 16 "create"
    Interrupt 36 8 "interrupt"
    Destroy 38 0 "destroy"
    Ioctl 39 32 "ioctl"
    BatchForget 42 8 "batch_forget"
    Fallocate 43 32 "fallocate"
    Readdirplus 44 40 "readdirplus"
    Rename2 45 16 "rename2"
    Lseek 46 24 "lseek"
    CopyFileRange 47 56 "copy_file_range"
    Tmpfile 51 16 "tmpfile"
    Statx 52 24 "statx"
}

/// Length of the table by number; must exceed all opcode numbers.
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
    pub(crate) const COUNT: usize = OPCODES.len();

    pub(crate) fn from_number(number: u32) -> Self {
        BY_NUMBER.get(number as usize).copied().unwrap_or(Self::Unknown)
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the length of the fixed record that precedes names and data.
    pub(crate) fn record_bytes(self) -> usize {
        OPCODES[self.index()].2
    }

    pub(crate) fn all() -> impl Iterator<Item = (Self, &'static str)> {
        OPCODES.iter().map(|entry| (entry.0, entry.3))
    }
}
