//! Whether settings that `fonio fix --keep` keeps are there after a reboot, and gone after `--undo`: the part *keep* of
//! `cargo xtask lab test`. It needs udev, fstab and sysctl as they are on a user's machine, so it runs in a whole Debian.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use crate::lab_system::{ok, text};
use crate::process;

const DISK_BYTES: u64 = 256 << 20;
const DISK: &str = "/dev/disk/by-id/virtio-disk1";

/// A file system on a second disk with a line in fstab, as people write them.
const PREPARE: &str = "mkfs.ext4 -q -F $DISK && mkdir -p /mnt/card && touch /etc/fstab && \
    printf '# cards\\nUUID=%s\\t/mnt/card\\text4  rw,relatime,nofail\\t0 2\\n' $(blkid -s UUID -o value $DISK) >>/etc/fstab && \
    systemctl daemon-reload && mount /mnt/card";

/// The settings that are kept, and where.
const FIXES: [&str; 5] = [
    "noatime --keep /mnt/card",
    "commit-30s --keep /mnt/card",
    "mq-deadline --keep /mnt/card",
    "swappiness=10 --keep",
    "dirty-limit=64MiB --keep",
];

/// What the machine has now.
const IN_FORCE: &str = "findmnt -n -o OPTIONS /mnt/card; cat /sys/block/$(basename $(readlink -f $DISK))/queue/scheduler; \
    cat /proc/sys/vm/swappiness /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes /proc/sys/vm/dirty_ratio";

/// The files in which settings are kept.
const FILES: &str = "cat /etc/fstab; find /etc/udev/rules.d /etc/sysctl.d /var/lib/fonio /etc/fstab* -type f 2>/dev/null | sort";

/// Runs in one guest. Returns the number of broken promises.
pub fn run(fonio: &Path, stop: &AtomicBool) -> Result<u32> {
    let archive = Archive::open()?;
    let options = SystemOptions { disks: vec![DISK_BYTES], ..SystemOptions::default() };
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), stop)?;
    println!("Settings that are kept, in a whole Debian with Linux {}:\n", system.release());
    let system = &mut system;
    let stripped = process::scratch("lab-keep")?.join("fonio");
    process::run(process::bound_to_this(Path::new("strip")).arg("-o").arg(&stripped).arg(fonio))?;
    system.put(&stripped, "/usr/local/bin/fonio")?;
    std::fs::remove_file(&stripped)?;
    let with_disk = |script: &str| format!("DISK={DISK}; {script}");
    ok(system, "chmod +x /usr/local/bin/fonio")?;
    ok(system, &with_disk(PREPARE))?;
    let in_force = with_disk(IN_FORCE);
    let (force_before, files_before) = (text(system, &in_force)?, text(system, FILES)?);
    let mut broken = 0;
    let mut show = |what: &str, holds: bool, differs: &str| {
        broken += u32::from(!holds);
        println!("{what:<52} {}", if holds { "yes" } else { "NO *" });
        if !holds {
            println!("{differs}");
        }
    };
    for fix in FIXES {
        println!("$ fonio fix {fix}\n{}", text(system, &format!("fonio fix {fix}"))?);
    }
    println!();
    let (force_kept, files_kept) = (text(system, &in_force)?, text(system, FILES)?);
    let has = ["noatime", "commit=30", "[mq-deadline]", "\n10\n67108864\n33554432\n0"];
    show("in force at once", has.iter().all(|value| force_kept.contains(value)), &force_kept);
    system.reboot()?;
    let now = text(system, &in_force)?;
    show("in force after a reboot", now == force_kept, &format!("{force_kept}\n{now}"));
    let now = text(system, FILES)?;
    show("the files are the same after it", now == files_kept, &format!("{files_kept}\n{now}"));
    let undone = text(system, "fonio fix --undo")?;
    println!("\n$ fonio fix --undo\n{undone}\n");
    let now = text(system, &in_force)?;
    show("undone after a reboot: in force as before", now == force_before, &format!("{force_before}\n{now}"));
    let now = text(system, FILES)?;
    show("the files byte for byte as before", now == files_before, &format!("{files_before}\n{now}"));
    system.reboot()?;
    let now = text(system, &in_force)?;
    show("after another reboot: in force as before", now == force_before, &format!("{force_before}\n{now}"));
    ensure!(!files_before.contains("fonio"), "the guest was not new:\n{files_before}");
    println!("\nPromised: each of these.\n");
    Ok(broken)
}
