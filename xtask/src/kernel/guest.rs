//! Runs the stress test `kernel/smartio/test/stress.sh` of the SmartIO module in a guest, on null_blk.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fonio_lab::{Architecture, Archive, Guest, Initramfs, KernelFiles, Shape, Task};

use crate::process;
use crate::smartio::{Built, sources};

const MEMORY_MIB: u64 = 2048;
/// The size of the guest's card in bytes. It must be a power of two.
const CARD_BYTES: u64 = 256 << 20;
/// The folder in a guest where the script looks for the module.
const FOLDER: &str = "/root/smartio";

/// Runs the stress test in a guest with two processors. Returns whether all checks passed.
pub fn test(built: &Built, rounds: u32, seconds: u32, requests: u32) -> Result<bool> {
    let announce = |text: &str| eprintln!("{text}");
    let archive = Archive::open()?;
    let userland = archive.userland(&["busybox-static", "fio", "e2fsprogs", "mount"], &announce)?;
    let mut files = Initramfs::new(&userland)?;
    for tool in ["fio", "mkfs.ext4", "mount", "umount"] {
        files.add_tool(tool)?;
    }
    let place = PathBuf::from(FOLDER);
    files.add_copy(&built.module, &place.join("module/smartio-iosched.ko"))?;
    files.add_copy(&sources().join("test/stress.sh"), &place.join("stress.sh"))?;
    // The guest uses this card through the kernel's MMC driver. This driver reports a queue depth of 64 for
    // its devices.
    let card = tempfile::NamedTempFile::new_in(process::scratch("kernel")?)?;
    card.as_file().set_len(CARD_BYTES)?;
    let guest = Guest {
        kernel: built.files.clone(),
        shape: Shape::Test,
        memory_mib: MEMORY_MIB,
        modules: vec!["ext4", "null_blk", "mq-deadline", "sd_mod", "scsi_debug"],
        wishes: vec!["crc32c_generic", "crc32c"],
        files,
        disks: Vec::new(),
        programs: None,
        card: Some(card.path().to_path_buf()),
    };
    let words = ["sh", "stress.sh", &rounds.to_string(), &seconds.to_string(), &requests.to_string()]
        .map(str::to_owned);
    let task = Task { words: &words, folder: &place, bring: &[], to: Path::new("/") };
    println!("SmartIO on Linux {} (Debian's {}):", built.files.release, built.kernel.version);
    let stop = process::outlive_signals()?;
    let ended = guest.run(&archive, &task, &stop, &announce)?;
    println!("  {:.0} s in the guest, {:.0} s here\n", ended.took_s, ended.host_s);
    Ok(ended.code == 0)
}

/// Runs a shorter test (`kernel/smartio/test/basic.sh`) in a guest of arm64, whose only program is busybox.
/// Returns whether all checks passed.
pub fn test_on_arm64(release: &str, kernel: KernelFiles, module: &Path, rounds: u32) -> Result<bool> {
    let announce = |text: &str| eprintln!("{text}");
    let archive = Archive::open()?.for_architecture(Architecture::Arm64)?;
    let mut files = Initramfs::new(&archive.userland(&["busybox-static"], &announce)?)?;
    let place = PathBuf::from(FOLDER);
    files.add_copy(module, &place.join("module/smartio-iosched.ko"))?;
    files.add_copy(&sources().join("test/basic.sh"), &place.join("basic.sh"))?;
    let guest = Guest {
        kernel,
        shape: Shape::Test,
        memory_mib: MEMORY_MIB,
        modules: vec!["null_blk"],
        wishes: Vec::new(),
        files,
        disks: Vec::new(),
        programs: None,
        card: None,
    };
    let words = ["sh", "basic.sh", &rounds.to_string()].map(str::to_owned);
    let task = Task { words: &words, folder: &place, bring: &[], to: Path::new("/") };
    println!("SmartIO on Linux {release}:");
    let stop = process::outlive_signals()?;
    let ended = guest.run(&archive, &task, &stop, &announce)?;
    println!("  {:.0} s in the guest, {:.0} s here\n", ended.took_s, ended.host_s);
    Ok(ended.code == 0)
}
