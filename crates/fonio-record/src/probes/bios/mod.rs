//! Notes the files of writes on file systems whose trace events do not show them, by BPF: vfat, nilfs2.
//!
//! Trace events show each bio, but not whose data the bio carries; for most file systems, other events show
//! that. For the others, a BPF program looks at a page of the bio (`bpf/bios.bpf.c`). Without BPF, the files of
//! these writes stay unknown.

mod layout;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use fonio_core::lives::Generation;
use fonio_core::{DeviceId, Inode, Sector, Timestamp};
use fonio_tracefs::whose::NotedBio;

use crate::attribution::files::Files;
use crate::probes::bpf::{self, Unavailable};
use layout::{Noted, OF_METADATA};

/// The compiled BPF object, created by `cargo xtask assets`.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/bios.bpf.o"));
const PROGRAMS: [bpf::Program; 1] = [("queued", "block_bio_queue")];

/// Maximum number of kept bios: 24 MB.
const BIOS_MAX: usize = 1 << 19;

/// The BPF program, which is loaded and attached, and the bios that it has noted so far.
pub(crate) struct BiosProbe {
    _programs: Ebpf,
    _links: Vec<BtfTracePointLink>,
    lost: Array<MapData, u64>,
    bios: RingBuf<MapData>,
    noted: Vec<NotedBio>,
    /// Number of bios that were not kept, because there were too many.
    beyond: u64,
}

impl std::fmt::Debug for BiosProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BiosProbe").finish_non_exhaustive()
    }
}

impl BiosProbe {
    /// Loads and attaches the BPF program for these file systems.
    pub(crate) fn begin(followed: &[DeviceId]) -> Result<BiosProbe, Unavailable> {
        let mut programs = bpf::load(OBJECT, &PROGRAMS, &[])?;
        let mut devices: HashMap<MapData, u32, u32> = bpf::map(&mut programs, "followed", HashMap::try_from)?;
        for fs in followed {
            devices.insert(fs.0, 1, 0).map_err(|error| Unavailable::from_map(&error))?;
        }
        let lost = bpf::map(&mut programs, "lost", Array::try_from)?;
        let bios = bpf::map(&mut programs, "bios", RingBuf::try_from)?;
        let links = bpf::attach(&mut programs, &PROGRAMS)?;
        Ok(BiosProbe { _programs: programs, _links: links, lost, bios, noted: Vec::new(), beyond: 0 })
    }

    /// Takes the noted bios out of the kernel's buffer, and queues their files for look-up.
    pub(crate) fn drain(&mut self, files: &mut Files) {
        while let Some(record) = self.bios.next() {
            let Some(raw) = bpf::read_record::<Noted>(&record) else { continue };
            let bio = noted(&raw);
            if !bio.is_metadata {
                files.see(bio.inode);
                if let Some(generation) = Generation::new(raw.generation) {
                    files.sighted(bio.inode, bio.queued, generation);
                }
            }
            if self.noted.len() < BIOS_MAX {
                self.noted.push(bio);
            } else {
                self.beyond += 1;
            }
        }
    }

    /// Returns the bios, and the number of bios that are missing.
    pub(crate) fn finish(mut self, files: &mut Files) -> (Vec<NotedBio>, u64) {
        self.drain(files);
        (self.noted, self.beyond + self.lost.get(&0, 0).unwrap_or(0))
    }
}

fn noted(raw: &Noted) -> NotedBio {
    NotedBio {
        queued: Timestamp(raw.queued_ns),
        device: DeviceId(raw.device),
        sector: Sector(raw.sector),
        tid: raw.tid,
        inode: Inode { fs: DeviceId(raw.fs), number: raw.inode },
        is_metadata: raw.flags & OF_METADATA != 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use fonio_testing::{Need, has, skip};

    use super::*;

    /// The numbers of file systems whose files have the device number of the file system (`statfs(2)`).
    const WITH_ONE_NUMBER: [i64; 2] = [0xef53, 0x5846_5342];

    #[test]
    fn a_write_shows_its_file() {
        if !has(&[Need::Root, Need::Disk]) {
            return;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let kind = rustix::fs::statfs(dir.path()).unwrap().f_type;
        if !WITH_ONE_NUMBER.contains(&kind) {
            return skip(Need::Disk, "this folder is neither on ext4 nor on xfs");
        }
        let number = dir.path().metadata().unwrap().dev();
        let fs = DeviceId::new(rustix::fs::major(number), rustix::fs::minor(number));
        let begun = BiosProbe::begin(&[fs]);
        let Ok(probe) = begun else { return skip(Need::Root, begun.unwrap_err().to_string()) };
        let mut file = File::create(dir.path().join("file")).unwrap();
        file.write_all(&[7; 8192]).unwrap();
        file.sync_all().unwrap();
        let inode = Inode { fs, number: file.metadata().unwrap().ino() };
        let mut files = Files::default();
        let (noted, lost) = probe.finish(&mut files);
        assert_eq!(lost, 0);
        assert!(noted.iter().any(|bio| bio.inode == inode && !bio.is_metadata), "{noted:?}");
        assert!(files.life(inode, Timestamp::MAX).is_some());
    }
}
