//! Chooses whether guests run on this machine's processor or on an emulated processor.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::architecture::Architecture;
use crate::archive::Archive;
use crate::error::LabError;
use crate::initramfs::Initramfs;
use crate::kernel::KernelFiles;
use crate::machine::{self, Machine, POLL, Place};
use crate::programs;

/// Time limit for a guest on KVM to start; a machine with KVM needs one or two seconds.
const START_WITHIN: Duration = Duration::from_secs(20);
const PROBE_MEMORY_MIB: u64 = 512;
const STARTED: &str = "fonio: this guest has started";

/// The processor that executes a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// This machine's processor, through `/dev/kvm`.
    Kvm,
    /// A processor that QEMU emulates (TCG).
    Tcg,
}

impl Accelerator {
    /// Returns a phrase for progress messages that names the accelerator.
    pub fn described(self) -> &'static str {
        match self {
            Accelerator::Kvm => "with KVM",
            Accelerator::Tcg => "on an emulated processor",
        }
    }

    /// Returns the number of processors with which a complete Debian is fastest. QEMU versions with stale code
    /// execute the processors in turn, so a second one only makes the guest wait for itself: Debian then boots
    /// in half the time with one processor.
    pub(crate) fn fastest_processors(self, architecture: Architecture) -> Result<&'static str, LabError> {
        let is_in_turn = self == Accelerator::Tcg
            && architecture == Architecture::Amd64
            && has_stale_code(&version(architecture)?);
        Ok(if is_in_turn { "1" } else { "2" })
    }

    /// Returns QEMU options for a guest with this number of processors at full speed.
    pub(crate) fn options(
        self,
        architecture: Architecture,
        processors: &'static str,
    ) -> Result<Vec<&'static str>, LabError> {
        let mut options = vec!["-smp", processors];
        match architecture {
            Architecture::Amd64 => {}
            Architecture::Arm64 => options.extend(["-machine", "virt"]),
            // Debian's 32-bit kernel can access only devices below 4 GiB.
            Architecture::Armhf => options.extend(["-machine", "virt,highmem=off"]),
        }
        options.extend(match (self, architecture) {
            (Accelerator::Kvm, _) => ["-accel", "kvm", "-cpu", "host"],
            (Accelerator::Tcg, Architecture::Amd64) if has_stale_code(&version(architecture)?) => {
                ["-accel", "tcg,thread=single", "-cpu", "max"]
            }
            (Accelerator::Tcg, Architecture::Amd64) => ["-accel", "tcg,thread=multi", "-cpu", "max"],
            // The newer extensions of `max`, such as pointer authentication, are slow to emulate.
            (Accelerator::Tcg, Architecture::Arm64) => ["-accel", "tcg,thread=multi", "-cpu", "cortex-a57"],
            (Accelerator::Tcg, Architecture::Armhf) => ["-accel", "tcg,thread=multi", "-cpu", "cortex-a15"],
        });
        Ok(options)
    }

    /// Returns the fastest accelerator on which guests with the kernel `kernel` run. On some machines,
    /// `/dev/kvm` exists, but no guest can run with KVM. So the first call after a boot starts a small guest
    /// and stores the result. Fails if QEMU cannot be started.
    pub(crate) fn of(
        archive: &Archive,
        kernel: &KernelFiles,
        busybox: &Initramfs,
        announce: &dyn Fn(&str),
    ) -> Result<Accelerator, LabError> {
        let may_open = || File::options().read(true).write(true).open("/dev/kvm").is_ok();
        if Architecture::of_this_machine() != Some(kernel.architecture) || !may_open() {
            return Ok(Accelerator::Tcg);
        }
        let id = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(id).map_err(LabError::system("read", id))?;
        let known = archive.folder().join("kvm");
        let answer = fs::read_to_string(&known).unwrap_or_default();
        let works = match answer.strip_prefix(&boot) {
            Some(answer) => answer == "works",
            None => {
                announce("testing whether KVM works on this machine …");
                let works = probe(archive, kernel, busybox)?;
                let text = format!("{boot}{}", if works { "works" } else { "fails" });
                fs::write(&known, text).map_err(LabError::system("write", &known))?;
                works
            }
        };
        Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
    }
}

fn version(architecture: Architecture) -> Result<String, LabError> {
    let facts = architecture.facts();
    programs::output(Command::new(facts.qemu).arg("--version"), facts.qemu_package)
}

/// Returns whether QEMU may execute stale code that another thread has replaced. The x86 kernel patches its
/// own code with a temporary breakpoint. If a processor still executes the breakpoint later, the kernel stops
/// ("Oops: int3"). This stop happened in one of twelve boots. The bug is fixed in QEMU 8.1 (commits
/// cb62bd15e14e, deba78709ae8).
fn has_stale_code(version: &str) -> bool {
    let number = version.split_whitespace().skip_while(|word| *word != "version").nth(1).unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    // An unknown version may have the bug.
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < (8, 1)
}

fn probe(archive: &Archive, kernel: &KernelFiles, busybox: &Initramfs) -> Result<bool, LabError> {
    let place = Place::new(archive)?;
    let mut files = busybox.clone();
    let script =
        format!("#!/usr/bin/busybox sh\n/usr/bin/busybox echo '{STARTED}'\n/usr/bin/busybox poweroff -f\n");
    files.add_bytes("init", 0o755, script.into_bytes());
    let initramfs = place.folder.join("initramfs");
    files.write(&initramfs)?;
    let mut command: Command = machine::qemu(kernel.architecture, PROBE_MEMORY_MIB)?;
    command.args(Accelerator::Kvm.options(kernel.architecture, "2")?);
    machine::add_kernel(&mut command, kernel, &initramfs, "");
    command.args(["-serial", &format!("file:{}", place.console().display())]);
    let mut machine = Machine::start(command)?;
    let began = Instant::now();
    while !machine.has_ended()? && began.elapsed() < START_WITHIN {
        thread::sleep(POLL);
    }
    let said = fs::read(place.console()).unwrap_or_default();
    Ok(String::from_utf8_lossy(&said).contains(STARTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_qemu() {
        for (text, is_stale) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", true),
            ("QEMU emulator version 8.0.5", true),
            ("QEMU emulator version 8.1.0", false),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", false),
            ("unknown", true),
        ] {
            assert_eq!(has_stale_code(text), is_stale, "{text}");
        }
    }
}
