//! Runs QEMU: a guest's folder, its process, and the options shared by all guests.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::architecture::Architecture;
use crate::archive::Archive;
use crate::error::LabError;
use crate::kernel::KernelFiles;

/// Memory that must be free in addition to the guest's own memory.
const SPARE_MIB: u64 = 128;
const LINES_SHOWN: usize = 8;
/// Text that the kernel prints when it panics.
pub(crate) const PANIC: &str = "Kernel panic";
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Folder for the sockets, disks and console of a running guest, locked while in use.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Place {
    pub(crate) fn new(archive: &Archive) -> Result<Place, LabError> {
        let guests = archive.folder().join("guests");
        fs::create_dir_all(&guests).map_err(LabError::system("make", &guests))?;
        for entry in fs::read_dir(&guests).map_err(LabError::system("read", &guests))?.flatten() {
            // Remove the folder of a killed process. If removal fails, the next start tries again.
            if File::open(entry.path().join("lock")).is_ok_and(|lock| lock.try_lock().is_ok()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = tempfile::Builder::new().prefix("guest-").tempdir_in(&guests);
        let folder = folder.map_err(LabError::system("write into", &guests))?.keep();
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(LabError::system("make", &path))?;
        lock.lock().map_err(LabError::system("lock", &path))?;
        Ok(Place { folder, _lock: lock })
    }

    /// Returns the file with the guest's console output.
    pub(crate) fn console(&self) -> PathBuf {
        self.folder.join("console")
    }

    /// Listens on a socket with this name, replacing an earlier socket.
    pub(crate) fn listen(&self, name: &str) -> Result<UnixListener, LabError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LabError::system("remove", &path)(error));
            }
            _ => {}
        }
        UnixListener::bind(&path).map_err(LabError::system("listen on", &path))
    }

    /// Returns the error for a guest that ended early. Keeps the guest's console output.
    pub(crate) fn ended_early(
        &self,
        archive: &Archive,
        kernel: &KernelFiles,
        when: &'static str,
    ) -> LabError {
        let text = fs::read(self.console()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        let kept = archive.folder().join(format!("console-of-{}", kernel.release));
        // If the copy fails, the error still shows the last lines of the console.
        let _ = fs::copy(self.console(), &kept);
        LabError::GuestEnded { kernel: kernel.release.clone(), when, console: kept, lines: telling(&lines) }
    }
}

/// Returns the last lines of a guest's console output. If the kernel panicked, the reason comes first,
/// because the kernel may print many lines after it.
fn telling(lines: &[String]) -> Vec<String> {
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(LINES_SHOWN));
    let is_panic = |line: &&String| line.contains(PANIC);
    let panic = earlier.iter().rfind(is_panic).filter(|_| !last.iter().any(|line| is_panic(&line)));
    panic.into_iter().chain(last).cloned().collect()
}

impl Drop for Place {
    fn drop(&mut self) {
        // If removal fails, the next start removes the rest.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the command that starts QEMU with `memory_mib` of memory and without devices. QEMU is killed when
/// this process ends.
pub(crate) fn qemu(architecture: Architecture, memory_mib: u64) -> Result<Command, LabError> {
    check_for(architecture)?;
    let free = free_mib().unwrap_or(u64::MAX);
    if free < memory_mib + SPARE_MIB {
        return Err(LabError::Memory { needs: memory_mib + SPARE_MIB, free });
    }
    let mut machine = Command::new("setpriv");
    machine.args(["--pdeathsig", "KILL", architecture.facts().qemu]);
    machine.args(["-m", &memory_mib.to_string()]);
    machine.args(["-nodefaults", "-display", "none", "-no-reboot", "-no-user-config"]);
    Ok(machine)
}

/// Adds the kernel and its initial file system; the console is the first serial port.
pub(crate) fn add_kernel(machine: &mut Command, kernel: &KernelFiles, initramfs: &Path, parameters: &str) {
    machine.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs);
    let console = kernel.architecture.facts().serial_port;
    machine.args(["-append", format!("console={console} quiet panic=-1 {parameters}").trim_end()]);
}

/// The effect of a guest's flush on the data of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A flush makes QEMU write the data to the file, so that the data survive the end of QEMU.
    Flush,
    /// A flush has no effect. This is for disks that are used only if the guest ends without an error.
    Never,
}

/// Adds a disk to a guest. The guest finds the disk by `name`, its serial number.
pub(crate) fn add_disk(machine: &mut Command, name: &str, format: &str, file: &Path, durability: Durability) {
    let description = serde_json::json!({
        "driver": format,
        "node-name": name,
        "discard": "unmap",
        "cache": { "no-flush": durability == Durability::Never },
        "file": { "driver": "file", "filename": file, "discard": "unmap" },
    });
    machine.args(["-blockdev", &description.to_string()]);
    machine.args(["-device", &format!("virtio-blk-pci,drive={name},serial={name}")]);
}

/// Adds a disk that the guest cannot write. Any number of guests can have it at the same time. The guest finds the disk by
/// `name`, its serial number.
pub(crate) fn add_read_only_disk(machine: &mut Command, name: &str, file: &Path) {
    let description = serde_json::json!({
        "driver": "raw",
        "node-name": name,
        "read-only": true,
        "file": { "driver": "file", "filename": file, "read-only": true },
    });
    machine.args(["-blockdev", &description.to_string()]);
    machine.args(["-device", &format!("virtio-blk-pci,drive={name},serial={name}")]);
}

/// Inserts a memory card into the guest. QEMU does not flush the card's file, so use only cards that are
/// discarded if the guest fails.
pub(crate) fn add_card(machine: &mut Command, file: &Path) {
    let description = serde_json::json!({
        "driver": "raw",
        "node-name": "card",
        "cache": { "no-flush": true },
        "file": { "driver": "file", "filename": file },
    });
    machine.args(["-blockdev", &description.to_string()]);
    machine.args(["-device", "sdhci-pci", "-device", "sd-card,drive=card"]);
}

/// Adds a disk served by an NBD server of this machine at `socket`. Like a memory card in a reader, the disk
/// is a non-rotational SCSI disk with queue depth 1. The guest finds the disk by `name`.
pub(crate) fn add_served_disk(machine: &mut Command, name: &str, socket: &Path) {
    let description = serde_json::json!({
        "driver": "raw",
        "node-name": name,
        "discard": "unmap",
        "cache": { "direct": true, "no-flush": false },
        "file": { "driver": "nbd", "discard": "unmap", "server": { "type": "unix", "path": socket } },
    });
    machine.args(["-blockdev", &description.to_string()]);
    machine.args(["-device", &format!("virtio-scsi-pci,id={name}-bus,cmd_per_lun=1")]);
    let device =
        format!("scsi-hd,bus={name}-bus.0,drive={name},device_id={name},serial={name},rotation_rate=1");
    machine.args(["-device", &device]);
}

/// A TCP port of a guest, and the port of this machine's address 127.0.0.1 that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The port on this machine.
    pub here: NonZero<u16>,
    /// The port in the guest.
    pub guest: NonZero<u16>,
}

/// Parses `HERE:GUEST`, such as `25555:5555`.
impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Forward, String> {
        let ports = text.split_once(':').map(|(here, guest)| (here.parse(), guest.parse()));
        match ports {
            Some((Ok(here), Ok(guest))) => Ok(Forward { here, guest }),
            _ => Err("use a port of this machine and a port of the guest, such as 25555:5555".to_owned()),
        }
    }
}

/// Adds a network on which this machine can connect to the guest's ports. The guest cannot connect to
/// anything. Without ports, the guest has no network.
pub(crate) fn add_network(machine: &mut Command, forwards: &[Forward]) {
    if forwards.is_empty() {
        return;
    }
    let ports = forwards.iter().map(|port| format!(",hostfwd=tcp:127.0.0.1:{}-:{}", port.here, port.guest));
    machine.args(["-netdev", &format!("user,id=network,restrict=on{}", ports.collect::<String>())]);
    machine.args(["-device", "virtio-net-pci,netdev=network,romfile="]);
}

/// Checks that this machine can start guests. Call this function before downloading packages. Fails if QEMU
/// or `setpriv` is not installed.
pub fn check() -> Result<(), LabError> {
    check_for(Architecture::Amd64)
}

/// Checks that this machine can start guests of an architecture. Fails if QEMU or `setpriv` is not installed.
pub fn check_for(architecture: Architecture) -> Result<(), LabError> {
    let facts = architecture.facts();
    require(facts.qemu, facts.qemu_package)?;
    require("setpriv", "util-linux")
}

pub(crate) fn require(program: &str, package: &'static str) -> Result<(), LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        true => Ok(()),
        false => Err(LabError::ProgramMissing { program: program.to_owned(), package }),
    }
}

/// A running QEMU process, which is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Machine(Child);

impl Machine {
    pub(crate) fn start(mut command: Command) -> Result<Machine, LabError> {
        // Run QEMU in a separate process group: Ctrl-C must reach only this process, which then ends the
        // guest.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Machine).map_err(LabError::system("start", "QEMU"))
    }

    /// Waits for QEMU to connect to a socket.
    pub(crate) fn accept(
        &mut self,
        listener: &UnixListener,
        stop: &AtomicBool,
        place: &Place,
    ) -> Result<UnixStream, LabError> {
        let system = |action| LabError::system(action, &place.folder);
        listener.set_nonblocking(true).map_err(system("listen in"))?;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(system("read in"))?;
                    return Ok(stream);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(system("listen in")(error));
                }
                Err(_) => {}
            }
            if self.has_ended()? {
                let mut complaint = String::new();
                if let Some(stderr) = &mut self.0.stderr {
                    let _ = io::Read::read_to_string(stderr, &mut complaint);
                }
                let complaint = complaint.trim().to_owned();
                return Err(LabError::ProgramFailed { command: "QEMU".to_owned(), complaint });
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            thread::sleep(POLL);
        }
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool, LabError> {
        Ok(self.0.try_wait().map_err(LabError::system("wait for", "QEMU"))?.is_some())
    }

    pub(crate) fn wait(&mut self, stop: &AtomicBool) -> Result<(), LabError> {
        while !self.has_ended()? {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed() {
        let port = "25555:5555".parse::<Forward>().map(|port| (port.here.get(), port.guest.get()));
        assert_eq!(port, Ok((25555, 5555)));
        for text in ["", "5555", "0:5555", "1:65536", "a:1", "1:2:3"] {
            assert!(text.parse::<Forward>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_panic_is_shown_with_the_last_lines() {
        let mut lines: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        assert_eq!(telling(&lines), lines[12..]);
        lines[15] = "Kernel panic - not syncing".to_owned();
        assert_eq!(telling(&lines), lines[12..]);
        lines.swap(15, 3);
        assert_eq!(telling(&lines)[0], "Kernel panic - not syncing");
        assert_eq!(telling(&lines)[1..], lines[12..]);
        assert_eq!(telling(&lines[..2]), lines[..2]);
    }
}
