//! `cargo xtask lab test system`: checks the promises about a complete Debian in a guest, on amd64 and arm64.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use fonio_lab::{Architecture, Archive, LabError, SystemOptions};

use crate::lab::steps::{Steps, in_debian, ok, text};
use crate::process;

/// The promised time until a guest runs its first command, in seconds, on this machine with two processors.
const BOOT_S: f64 = 180.0;
/// The oldest kernel series that Debian maintains. The second round uses it, and only boots a guest.
const OLD_KERNEL: &str = "lab:6.1";
const DISK_BYTES: u64 = 1 << 30;

/// Runs all checks. Returns the number of broken promises.
pub fn run() -> Result<u32> {
    let mut broken = 0;
    for architecture in [Architecture::Amd64, Architecture::Arm64] {
        let options = SystemOptions { architecture, disks: vec![DISK_BYTES], ..SystemOptions::default() };
        broken += in_debian("A complete system", &options, all)?;
    }
    let packages = vec!["podman".to_owned()];
    let options = SystemOptions { packages, memory_mib: 1536, ..SystemOptions::default() };
    broken += in_debian("A container", &options, container)?;
    let options = SystemOptions { kernel: OLD_KERNEL.parse()?, ..SystemOptions::default() };
    broken += in_debian("A panic", &options, panic)?;
    println!(
        "\nPromised: the first command within {BOOT_S:.0} s on two processors, and each of these checks.\n"
    );
    Ok(broken)
}

fn show(steps: &mut Steps<'_, '_>, what: &str, result: &str, holds: bool) {
    steps.promise(&format!("{what}: {}", result.replace('\n', ", ")), holds, "");
}

fn boot(steps: &mut Steps<'_, '_>) -> Result<()> {
    let seconds = steps.system.booted().as_secs_f64();
    let accelerator = steps.system.accelerator().described();
    let first = format!("{seconds:.1}, {accelerator}");
    show(steps, "first command after [s, here]", &first, seconds <= BOOT_S);
    let began = Instant::now();
    let state = text(steps.system, "systemctl is-system-running --wait; true")?;
    let failed = text(steps.system, "systemctl list-units --failed --plain --no-legend | cut -d ' ' -f 1")?;
    let after = seconds + began.elapsed().as_secs_f64();
    let names = if failed.is_empty() { "no unit has failed".to_owned() } else { failed };
    let holds = ["running", "degraded"].contains(&state.as_str());
    show(steps, "systemd", &format!("{state} after {after:.1} s; {names}"), holds);
    Ok(())
}

/// Runs the checks that need no additional packages.
fn all(steps: &mut Steps<'_, '_>) -> Result<()> {
    boot(steps)?;
    let used =
        text(steps.system, "df --output=used -BM / | tail -1; free -m | awk '/^Mem/ { print $3 \" MiB\" }'")?;
    show(steps, "disk and memory in use", &used, true);
    let controllers = text(steps.system, "cat /sys/fs/cgroup/cgroup.controllers")?;
    let has = |name| controllers.split(' ').any(|controller| controller == name);
    show(steps, "controllers", &controllers, ["cpu", "io", "memory"].into_iter().all(has));

    ok(steps.system, "systemd-run --quiet --unit=check sh -c 'echo text >/root/written; exec sleep 1000'")?;
    let group = text(steps.system, "cat /proc/$(systemctl show --value -p MainPID check)/cgroup")?;
    let written = text(steps.system, "sleep 1; cat /root/written")?;
    let holds = group == "0::/system.slice/check.service" && written == "text";
    show(steps, "a unit writes, and its control group is known", &group, holds);

    let disk = "/dev/disk/by-id/virtio-disk1";
    ok(steps.system, &format!("mkfs.ext4 -q {disk} && mount {disk} /mnt && echo text >/mnt/file"))?;
    let mounted = text(steps.system, "findmnt --noheadings -o FSTYPE,SIZE /mnt; umount /mnt")?;
    show(steps, "a second disk", &mounted, mounted.starts_with("ext4"));

    let folder = tempfile::tempdir()?;
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let bytes: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &bytes)?;
    let is_refused = steps.system.put(&from, "/no/such/folder/file").is_err();
    let began = Instant::now();
    steps.system.put(&from, "/root/copied")?;
    let put = began.elapsed().as_secs_f64();
    steps.system.get("/root/copied", &to)?;
    let got = began.elapsed().as_secs_f64() - put;
    let times = format!("8 MiB to the guest in {put:.1} s, back in {got:.1} s");
    show(steps, "a file", &times, std::fs::read(&to)? == bytes && is_refused);

    let began = Instant::now();
    steps.system.snapshot("before")?;
    let saved = began.elapsed().as_secs_f64();
    ok(steps.system, "echo changed >/root/written && sync")?;
    steps.system.restore("before")?;
    let times = format!("saved in {saved:.1} s, restored in {:.1} s", began.elapsed().as_secs_f64() - saved);
    let back = text(steps.system, "cat /root/written; systemctl is-active check")?;
    show(steps, "a snapshot with memory", &times, back == "text\nactive");

    let boot = text(steps.system, "cat /proc/sys/kernel/random/boot_id")?;
    let began = Instant::now();
    steps.system.reboot()?;
    let took = began.elapsed().as_secs_f64();
    let (next, kept) = (
        text(steps.system, "cat /proc/sys/kernel/random/boot_id")?,
        text(steps.system, "cat /root/written")?,
    );
    show(steps, "a file survives a reboot", &format!("{took:.1} s"), next != boot && kept == "text");

    ok(
        steps.system,
        "for i in $(seq 100); do echo $i >/root/synced-$i; done; sync; echo text >/root/not-synced",
    )?;
    steps.system.cut();
    steps.system.power_on()?;
    let synced = text(steps.system, "cat /root/synced-* | sort -n | tail -1; ls /root/synced-* | wc -l")?;
    let seconds = format!("boots again in {:.1} s", steps.system.booted().as_secs_f64());
    show(steps, "synced files survive a power cut", &seconds, synced == "100\n100");
    let began = Instant::now();
    steps.system.power_off()?;
    show(steps, "shut down", &format!("{:.1} s", began.elapsed().as_secs_f64()), true);
    steps.system.restore("before")?;
    let back = text(steps.system, "cat /root/written; systemctl is-active check")?;
    let is_refused = matches!(steps.system.restore("none"), Err(LabError::NoSnapshot { .. }));
    show(steps, "the snapshot after it", &back, back == "text\nactive" && is_refused);
    Ok(())
}

/// Checks a container that runs an image created by this program.
fn container(steps: &mut Steps<'_, '_>) -> Result<()> {
    boot(steps)?;
    let busybox = Archive::open()?.userland(&["busybox-static"], &|text| eprintln!("{text}"))?;
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("image.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&image).arg("-C").arg(&busybox.root).arg("usr/bin/busybox");
    process::run(&mut tar)?;
    steps.system.put(&image, "/root/image.tar")?;
    ok(steps.system, "podman import --quiet image.tar local/busybox")?;
    let run = "podman run --detach --name check --network none --volume data:/data local/busybox";
    let script = "echo text >/data/file; exec /usr/bin/busybox sleep 1000";
    ok(steps.system, &format!("{run} /usr/bin/busybox sh -c '{script}'"))?;
    let written =
        text(steps.system, "sleep 2; cat $(podman volume inspect --format '{{.Mountpoint}}' data)/file")?;
    let group = text(steps.system, "cat /proc/$(podman inspect --format '{{.State.Pid}}' check)/cgroup")?;
    let id = text(steps.system, "podman inspect --format '{{.Id}}' check")?;
    let holds = written == "text" && group.contains(&id);
    let short = group.replace(&id, &id[..id.len().min(12)]);
    show(steps, "a container writes, and its control group is known", &short, holds);
    Ok(())
}

/// Checks that a kernel panic ends the guest and its console.
fn panic(steps: &mut Steps<'_, '_>) -> Result<()> {
    boot(steps)?;
    match steps.system.run(&["sh", "-c", "sync; echo c >/proc/sysrq-trigger"]) {
        Err(LabError::GuestEnded { lines, .. }) => {
            let panic = lines.iter().find(|line| line.contains("Kernel panic"));
            let said = panic.or(lines.last()).map_or("", |line| line);
            show(steps, "a panic ends the guest", said, panic.is_some());
            Ok(())
        }
        Err(other) => Err(other.into()),
        Ok(_) => bail!("the guest survived its panic"),
    }
}
