//! `cargo xtask lab test system`: the promises of a complete Debian in a guest, on amd64 and arm64.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{Architecture, Archive, LabError, System, SystemOptions};

use crate::process;

/// The promise: the time until a guest runs its first command, in seconds of this machine with two processors.
const BOOT_S: f64 = 180.0;
/// The kernels of the second round, which only boots: the oldest that Debian still maintains.
const OLD_KERNEL: &str = "lab:6.1";
const DISK_BYTES: u64 = 1 << 30;

/// Runs all checks; returns the number of broken promises.
pub fn run(stop: &AtomicBool) -> Result<u32> {
    let archive = Archive::open()?;
    let announce = |text: &str| eprintln!("{text}");
    let mut checks = Checks { broken: 0 };
    for architecture in [Architecture::Amd64, Architecture::Arm64] {
        process::check_signals()?;
        let options = SystemOptions { architecture, disks: vec![DISK_BYTES], ..SystemOptions::default() };
        let began = Instant::now();
        let system = System::start(&archive, &options, &announce, stop)?;
        let prepared_s = began.elapsed().as_secs_f64() - system.booted().as_secs_f64();
        println!(
            "\n{architecture}, Linux {}, {}: prepared in {prepared_s:.0} s\n",
            system.release(),
            system.accelerator().described()
        );
        checks.all(system)?;
    }
    process::check_signals()?;
    let packages = vec!["podman".to_owned()];
    let options = SystemOptions { packages, memory_mib: 1536, ..SystemOptions::default() };
    let system = System::start(&archive, &options, &announce, stop)?;
    println!("\namd64, Linux {}, with podman\n", system.release());
    checks.container(system, &archive)?;

    process::check_signals()?;
    let options = SystemOptions { kernel: OLD_KERNEL.parse()?, ..SystemOptions::default() };
    let system = System::start(&archive, &options, &announce, stop)?;
    println!("\namd64, Linux {}\n", system.release());
    checks.panic(system)?;
    println!(
        "\nPromised: the first command within {BOOT_S:.0} s on two processors, and each of these checks.\n"
    );
    Ok(checks.broken)
}

struct Checks {
    broken: u32,
}

impl Checks {
    /// Prints one line.
    fn show(&mut self, what: &str, result: &str, holds: bool) {
        self.broken += u32::from(!holds);
        println!("{what:<36} {}{}", result.replace('\n', ", "), if holds { "" } else { " *" });
    }

    fn boot(&mut self, system: &mut System<'_>) -> Result<()> {
        let seconds = system.booted().as_secs_f64();
        self.show("first command after [s, here]", &format!("{seconds:.1}"), seconds <= BOOT_S);
        let began = Instant::now();
        let state = text(system, "systemctl is-system-running --wait; true")?;
        let failed = text(system, "systemctl list-units --failed --plain --no-legend | cut -d ' ' -f 1")?;
        let after = seconds + began.elapsed().as_secs_f64();
        let names = if failed.is_empty() { "no unit has failed".to_owned() } else { failed };
        let holds = ["running", "degraded"].contains(&state.as_str());
        self.show("systemd", &format!("{state} after {after:.1} s; {names}"), holds);
        Ok(())
    }

    /// The checks that need no further packages.
    fn all(&mut self, mut system: System<'_>) -> Result<()> {
        let system = &mut system;
        self.boot(system)?;
        let used =
            text(system, "df --output=used -BM / | tail -1; free -m | awk '/^Mem/ { print $3 \" MiB\" }'")?;
        self.show("disk and memory in use", &used, true);
        let controllers = text(system, "cat /sys/fs/cgroup/cgroup.controllers")?;
        let has = |name| controllers.split(' ').any(|controller| controller == name);
        self.show("controllers", &controllers, ["cpu", "io", "memory"].into_iter().all(has));

        ok(system, "systemd-run --quiet --unit=check sh -c 'echo text >/root/written; exec sleep 1000'")?;
        let group = text(system, "cat /proc/$(systemctl show --value -p MainPID check)/cgroup")?;
        let written = text(system, "sleep 1; cat /root/written")?;
        let holds = group == "0::/system.slice/check.service" && written == "text";
        self.show("a unit writes; its control group", &group, holds);

        let disk = "/dev/disk/by-id/virtio-disk1";
        ok(system, &format!("mkfs.ext4 -q {disk} && mount {disk} /mnt && echo text >/mnt/file"))?;
        let mounted = text(system, "findmnt --noheadings -o FSTYPE,SIZE /mnt; umount /mnt")?;
        self.show("a second disk", &mounted, mounted.starts_with("ext4"));

        let folder = tempfile::tempdir()?;
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        let bytes: Vec<u8> = (0..8u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        std::fs::write(&from, &bytes)?;
        let is_refused = system.put(&from, "/no/such/folder/file").is_err();
        let began = Instant::now();
        system.put(&from, "/root/copied")?;
        let put = began.elapsed().as_secs_f64();
        system.get("/root/copied", &to)?;
        let got = began.elapsed().as_secs_f64() - put;
        let times = format!("8 MiB to the guest in {put:.1} s, back in {got:.1} s");
        self.show("a file", &times, std::fs::read(&to)? == bytes && is_refused);

        let began = Instant::now();
        system.snapshot("before")?;
        let saved = began.elapsed().as_secs_f64();
        ok(system, "echo changed >/root/written && sync")?;
        system.restore("before")?;
        let times =
            format!("saved in {saved:.1} s, restored in {:.1} s", began.elapsed().as_secs_f64() - saved);
        let back = text(system, "cat /root/written; systemctl is-active check")?;
        self.show("a snapshot with memory", &times, back == "text\nactive");

        let boot = text(system, "cat /proc/sys/kernel/random/boot_id")?;
        let began = Instant::now();
        system.reboot()?;
        let took = began.elapsed().as_secs_f64();
        let (next, kept) =
            (text(system, "cat /proc/sys/kernel/random/boot_id")?, text(system, "cat /root/written")?);
        self.show("a file survives a reboot", &format!("{took:.1} s"), next != boot && kept == "text");

        ok(
            system,
            "for i in $(seq 100); do echo $i >/root/synced-$i; done; sync; echo text >/root/not-synced",
        )?;
        system.cut();
        system.power_on()?;
        let synced = text(system, "cat /root/synced-* | sort -n | tail -1; ls /root/synced-* | wc -l")?;
        let seconds = format!("boots again in {:.1} s", system.booted().as_secs_f64());
        self.show("synced files survive a power cut", &seconds, synced == "100\n100");
        let began = Instant::now();
        system.power_off()?;
        self.show("shut down", &format!("{:.1} s", began.elapsed().as_secs_f64()), true);
        system.restore("before")?;
        let back = text(system, "cat /root/written; systemctl is-active check")?;
        let is_refused = matches!(system.restore("none"), Err(LabError::NoSnapshot { .. }));
        self.show("the snapshot after it", &back, back == "text\nactive" && is_refused);
        Ok(())
    }

    /// A container from an image that is made here.
    fn container(&mut self, mut system: System<'_>, archive: &Archive) -> Result<()> {
        let system = &mut system;
        self.boot(system)?;
        let busybox = archive.userland(&["busybox-static"], &|text| eprintln!("{text}"))?;
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("image.tar");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&image).arg("-C").arg(&busybox.root).arg("usr/bin/busybox");
        process::run(&mut tar)?;
        system.put(&image, "/root/image.tar")?;
        ok(system, "podman import --quiet image.tar local/busybox")?;
        let run = "podman run --detach --name check --network none --volume data:/data local/busybox";
        let script = "echo text >/data/file; exec /usr/bin/busybox sleep 1000";
        ok(system, &format!("{run} /usr/bin/busybox sh -c '{script}'"))?;
        let written =
            text(system, "sleep 2; cat $(podman volume inspect --format '{{.Mountpoint}}' data)/file")?;
        let group = text(system, "cat /proc/$(podman inspect --format '{{.State.Pid}}' check)/cgroup")?;
        let id = text(system, "podman inspect --format '{{.Id}}' check")?;
        let holds = written == "text" && group.contains(&id);
        let short = group.replace(&id, &id[..id.len().min(12)]);
        self.show("a container writes; its control group", &short, holds);
        Ok(())
    }

    /// A panic ends the guest, with its console.
    fn panic(&mut self, mut system: System<'_>) -> Result<()> {
        self.boot(&mut system)?;
        match system.run(&["sh", "-c", "sync; echo c >/proc/sysrq-trigger"]) {
            Err(LabError::GuestEnded { lines, .. }) => {
                let panic = lines.iter().find(|line| line.contains("Kernel panic"));
                let said = panic.or(lines.last()).map_or("", |line| line);
                self.show("a panic ends the guest", said, panic.is_some());
                Ok(())
            }
            Err(other) => Err(other.into()),
            Ok(_) => bail!("the guest survived its panic"),
        }
    }
}

/// Runs a script, which must succeed; returns its output without the last line end.
pub(crate) fn text(system: &mut System<'_>, script: &str) -> Result<String> {
    process::check_signals()?;
    let out = system.run(&["sh", "-c", script])?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.code == 0, "`{script}` failed with exit code {}:\n{said}", out.code);
    let text = String::from_utf8(out.stdout).with_context(|| format!("the output of `{script}`"))?;
    Ok(text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n"))
}

/// Runs a script, which must succeed.
pub(crate) fn ok(system: &mut System<'_>, script: &str) -> Result<()> {
    text(system, script).map(drop)
}
