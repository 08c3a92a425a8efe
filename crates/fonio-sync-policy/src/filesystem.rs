//! File systems on which a database stays durable.

use std::path::Path;

/// File systems whose data other machines can change or hold, by the numbers of statfs(2). A database there can outlive or precede
/// the boot of this machine, so a boot says nothing about it.
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
    // Its server can be anything, sshfs for example.
    (0x6573_5546, "FUSE"),
];

/// The name of the network file system that has this file, or that can be one; `None` for a local one.
pub fn network_filesystem(folder: &Path) -> std::io::Result<Option<&'static str>> {
    let stat = rustix::fs::statfs(folder)?;
    // The numbers have 32 bits, and their type differs between architectures.
    let kind = u64::from(stat.f_type as u32);
    Ok(NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name))
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
