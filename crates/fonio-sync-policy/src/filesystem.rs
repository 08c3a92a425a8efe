//! File systems on which a database stays durable.

use std::path::Path;

use rustix::fd::BorrowedFd;
use rustix::fs::StatFs;

/// Network file systems, by their numbers in statfs(2). Other machines can write or cache the data of a
/// network file system, so the boots of this machine do not show the state of a database on it.
const NETWORK: [(u64, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x7375_7245, "Coda"),
    (0x786f_4256, "a shared folder of VirtualBox"),
    (0x4750_4653, "GPFS"),
    // A FUSE file system can be on a network, for example sshfs.
    (0x6573_5546, "FUSE"),
];

/// Returns the type of a file's file system if this is or can be a network file system; `None` if the file
/// system is local.
pub fn network_filesystem(folder: &Path) -> std::io::Result<Option<&'static str>> {
    Ok(name(&rustix::fs::statfs(folder)?))
}

/// Does the same for an open file, without allocating memory.
pub fn network_filesystem_of(file: BorrowedFd<'_>) -> std::io::Result<Option<&'static str>> {
    Ok(name(&rustix::fs::fstatfs(file)?))
}

fn name(stat: &StatFs) -> Option<&'static str> {
    // File system numbers have 32 bits, but their type depends on the architecture.
    let kind = u64::from(stat.f_type as u32);
    NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_not_on_a_network() {
        for folder in ["/proc", "/sys"] {
            assert_eq!(network_filesystem(Path::new(folder)).expect("statfs"), None);
        }
        assert!(network_filesystem(Path::new("/no/such/folder")).is_err());
    }
}
