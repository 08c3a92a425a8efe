//! The part *keep* of `cargo xtask lab test`: checks that settings of `fonio fix apply --keep` survive a
//! reboot and are gone after `fonio fix undo`. The test needs udev, fstab, sysctl and systemd, as on a user's
//! machine, so it runs in a complete Debian.

use std::path::Path;

use anyhow::{Result, ensure};
use fonio_lab::SystemOptions;

use crate::lab::steps::{Steps, in_debian, ok, text};

const DISK_BYTES: u64 = 256 << 20;
const DISK: &str = "/dev/disk/by-id/virtio-disk1";

/// A script that sets up a unit, and a file system on a second disk with a typical line in fstab.
const PREPARE: &str = include_str!("keep_prepare.sh");

/// The fixes with settings that are kept, and the targets of these fixes.
const FIXES: &str = include_str!("keep_fixes.txt");

/// The values that the fixes set, as the kernel prints them; `\n` stands for a line break.
const VALUES: &str = include_str!("keep_values.txt");

/// A script that prints the settings of the unit's control group and processes.
const OF_UNIT: &str = "systemctl restart backup.service; cat /sys/fs/cgroup/system.slice/backup.service/io.weight \
    /sys/fs/cgroup/system.slice/backup.service/io.max; ionice -p $(systemctl show --property=MainPID --value backup.service)";

/// A script that prints the machine's current settings.
const IN_FORCE: &str = include_str!("keep_in_force.sh");

/// A script that writes to the folders between the changes, as a program would do.
const WRITE: &str = "echo more | tee -a /srv/logs/log /srv/app/notes /srv/hot/file >>/srv/files/file; echo new >/srv/logs/new; cat /srv/*/*";

/// A script that prints the contents of the folders after [`WRITE`] has run twice.
const WRITTEN: &str =
    "cat /srv/app/notes /srv/files/file /srv/hot/file /srv/logs/log /srv/logs/new; ls -A /mnt/card/app";

/// A script that prints the files that keep settings.
const FILES: &str = "cat /etc/fstab; find /etc/udev/rules.d /etc/sysctl.d /var/lib/fonio /etc/fstab* -type f 2>/dev/null | sort; \
    find /.fonio-hot-range /etc/systemd /run/systemd/system /run/systemd/journald.conf.d 2>/dev/null | sort";

/// A script that changes a setting of journald three times, although systemd starts journald only twice an hour.
const OFTEN: &str = "folder=/run/systemd/system/systemd-journald.service.d; mkdir -p $folder; \
    printf '[Unit]\\nStartLimitIntervalSec=1h\\nStartLimitBurst=2\\n' >$folder/limit.conf; systemctl daemon-reload; \
    for round in 1 2 3; do fonio fix apply journald-sync=10m >/dev/null && fonio fix undo journald-sync >/dev/null || exit; done; \
    systemctl is-active systemd-journald";

/// Runs all checks in one guest. Returns the number of promises that were not kept.
pub fn run(fonio: &Path) -> Result<u32> {
    let options = SystemOptions { disks: vec![DISK_BYTES], ..SystemOptions::default() };
    let broken = in_debian("Settings that are kept", &options, |steps| all(steps, fonio))?;
    println!("\nPromised: all of these.\n");
    Ok(broken)
}

fn all(steps: &mut Steps<'_, '_>, fonio: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stripped = fonio_lab::stripped(fonio, &folder.path().join("fonio"))?;
    steps.system.put(&stripped, "/usr/local/bin/fonio")?;
    let with_disk = |script: &str| format!("DISK={DISK}; {script}");
    ok(steps.system, "chmod +x /usr/local/bin/fonio")?;
    ok(steps.system, &with_disk(PREPARE))?;
    let in_force = with_disk(IN_FORCE);
    let (force_before, files_before) = (text(steps.system, &in_force)?, text(steps.system, FILES)?);
    let is_kept = |line: &str| line.contains("-fonio") || line.starts_with("/var/lib/fonio");
    // The guest itself has a systemd drop-in, for the mount of its kernel modules.
    ensure!(!files_before.lines().any(is_kept), "the guest already had settings of fonio:\n{files_before}");
    for fix in FIXES.lines().filter(|line| !line.starts_with('#')) {
        let command = format!("fonio fix apply {fix} --keep");
        println!("$ {command}\n{}", text(steps.system, &command)?);
    }
    println!();
    let (force_kept, files_kept) = (text(steps.system, &in_force)?, text(steps.system, FILES)?);
    let is_in_force = |value: &str| force_kept.contains(&value.replace("\\n", "\n"));
    steps.promise("in force immediately", VALUES.lines().all(is_in_force), &force_kept);
    let of_unit = text(steps.system, OF_UNIT)?;
    steps.promise("the unit's control group has the values", has_of_unit(&of_unit), &of_unit);
    text(steps.system, WRITE)?;
    steps.system.reboot()?;
    let now = text(steps.system, &in_force)?;
    steps.promise("in force after a reboot", now == force_kept, &format!("{force_kept}\n{now}"));
    let now = text(steps.system, FILES)?;
    let is_same = in_etc(&now) == in_etc(&files_kept);
    steps.promise("the files in /etc are unchanged", is_same, &format!("{files_kept}\n{now}"));
    let of_unit = text(steps.system, OF_UNIT)?;
    steps.promise("the unit's control group has the values again", has_of_unit(&of_unit), &of_unit);
    let written = text(steps.system, WRITE)?;
    let of_all = written.matches("first\nmore\nmore\n").count();
    steps.promise("the folders have the data written before the reboot", of_all == 4, &written);
    steps.line("fonio fix | sed -n '1,/^$/p'")?;
    steps.line("fonio fix undo")?;
    let as_before = |steps: &mut Steps<'_, '_>, what: &str, script: &str, before: &str| -> Result<()> {
        let now = text(steps.system, script)?;
        steps.promise(what, now == before, &format!("{before}\n{now}"));
        Ok(())
    };
    as_before(steps, "undone after a reboot: settings as before", &in_force, &force_before)?;
    as_before(steps, "the files are identical to before", FILES, &files_before)?;
    let expected = ["first\nmore\nmore\n"; 4].concat() + "new";
    as_before(steps, "the folders on disk have all written data", WRITTEN, &expected)?;
    steps.system.reboot()?;
    as_before(steps, "after another reboot: settings as before", &in_force, &force_before)?;
    let often = text(steps.system, OFTEN)?;
    steps.promise("a setting of journald changes more often than it may start", often == "active", &often);
    Ok(())
}

/// Returns whether the unit has the I/O weight, the limit and the class of `keep_fixes.txt`.
fn has_of_unit(said: &str) -> bool {
    ["default 50\n", "rbps=5242880 wbps=5242880", "idle"].iter().all(|value| said.contains(value))
}

/// Returns the lines of a list of files, without the files in `/run`, because they exist only until the next
/// boot.
fn in_etc(listing: &str) -> Vec<&str> {
    listing.lines().filter(|line| !line.starts_with("/run/")).collect()
}
