//! System guests: a complete Debian with systemd, whose disk survives reboots and power cuts.
//!
//! The disk is a qcow2 overlay over an image shared by all guests ([`crate::root`]), and is removed with the
//! guest. The kernel's modules are on a second disk. Commands go through QEMU's guest agent. Files are copied
//! into the guest through a separate port, because the agent reads slowly. QEMU's own protocol (QMP) creates
//! snapshots.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::accelerator::Accelerator;
use crate::architecture::Architecture;
use crate::archive::Archive;
use crate::error::LabError;
use crate::guest::quoted;
use crate::initramfs::Initramfs;
use crate::kernel::{KernelFiles, Wanted};
use crate::machine::{self, Durability, Forward, Machine, PANIC, POLL, Place};
use crate::modules::Modules;
use crate::programs;
use crate::root::{CHECKSUMS, Maker, Root};
use crate::talk::Talk;

const INIT: &str = include_str!("system.sh");
/// Kernel modules of the initramfs; udev loads all other modules.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "ext4"];
/// Time limit for a guest to become ready or to reply. On a busy machine with two processors, an emulated
/// guest needs about a minute.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// Initial and maximum interval between two checks whether the guest is ready or a command has ended.
const ASK_AGAIN: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];
const CHUNK: usize = 1 << 20;
const AGENT: &str = "the guest's agent";
/// Name of the virtio port that the agent's service expects.
const AGENT_PORT: &str = "org.qemu.guest_agent.0";
/// Kernel parameters for a guest without a terminal. No user logs in, so the parameters skip the login
/// prompts, which would add seconds to each boot.
const NO_LOGIN: &str = "systemd.show_status=false systemd.getty_auto=false systemd.mask=getty@tty1.service";
/// On a busy machine, a simulated processor needs minutes for a boot. systemd's default of 90 seconds would leave
/// file systems unmounted and units failed.
const PATIENCE: &str = "systemd.default_timeout_start_sec=600 systemd.default_device_timeout_sec=600";
/// On a busy machine, a simulated processor may get no timer interrupt for so long that the kernel's test of its
/// timer fails, and the kernel panics ("IO-APIC + timer doesn't work"). This parameter skips the test.
const TIMER: &str = "no_timer_check";
/// The address that QEMU's user network expects. The network has no servers, so the guest cannot ask for it.
const NETWORK: &str = "net.ifnames=0 ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off \
    systemd.wants=systemd-network-generator.service systemd.wants=systemd-networkd.service";
const FILES_PORT: &str = "fonio.files";
/// Text that the kernel prints at the end of a reboot.
const RESTARTING: &str = "reboot: Restarting system";

/// The options of a system guest.
#[derive(Clone, Debug)]
pub struct SystemOptions {
    /// The kernel of the guest.
    pub kernel: Wanted,
    /// The architecture of the guest.
    pub architecture: Architecture,
    /// Debian packages in addition to the base, for example podman.
    pub packages: Vec<String>,
    /// The guest's memory in MiB.
    pub memory_mib: u64,
    /// Sizes in bytes of additional empty disks: `/dev/disk/by-id/virtio-disk1` and so on.
    pub disks: Vec<u64>,
    /// Unix sockets of NBD servers, such as `fonio device emulate --nbd`. Each server appears in the guest
    /// as a disk with queue depth 1: `/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_card1` and so on. The
    /// disk's content outlives the guest.
    pub served: Vec<PathBuf>,
    /// Images of file systems on this machine: `/dev/disk/by-id/virtio-image1` and so on. The guest's
    /// changes to them are removed with the guest.
    pub images: Vec<PathBuf>,
    /// Files of this machine to copy into the guest before systemd starts, and their paths in the guest.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// TCP ports of the guest that programs on this machine can connect to. The guest itself cannot connect
    /// to anything outside.
    pub forwards: Vec<Forward>,
}

impl Default for SystemOptions {
    fn default() -> SystemOptions {
        SystemOptions {
            kernel: Wanted::default(),
            architecture: Architecture::default(),
            packages: Vec::new(),
            memory_mib: 1024,
            disks: Vec::new(),
            served: Vec::new(),
            images: Vec::new(),
            files: Vec::new(),
            forwards: Vec::new(),
        }
    }
}

/// The output and exit code of a command in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The command's exit code, or 128 plus the number of the signal that ended the command.
    pub code: u8,
    /// The command's standard output.
    pub stdout: Vec<u8>,
    /// The command's standard error.
    pub stderr: Vec<u8>,
}

/// A system guest. When this value is dropped, or when the thread that started the guest ends, the guest is
/// killed and its disks are removed.
pub struct System<'a> {
    // Fields are dropped in declaration order, so the files are removed last.
    power: Option<Power>,
    prepared: Prepared,
    stop: &'a AtomicBool,
    announce: &'a dyn Fn(&str),
    booted: Duration,
    /// Number of the last request to the agent; each request has a unique number.
    numbers: u32,
    snapshots: Vec<String>,
}

#[derive(Debug)]
struct Power {
    machine: Machine,
    qemu: Talk,
    agent: Talk,
    /// The virtio port for copying files into the guest.
    files: UnixStream,
}

/// The files of a guest, which exist whether the guest is on or off.
#[derive(Debug)]
struct Prepared {
    archive: Archive,
    place: Place,
    kernel: KernelFiles,
    accelerator: Accelerator,
    memory_mib: u64,
    /// Names of the guest's disks, which are also their file names.
    disks: Vec<String>,
    /// Sockets of the NBD servers.
    served: Vec<PathBuf>,
    forwards: Vec<Forward>,
    _root: Root,
}

impl Prepared {
    fn new(
        archive: &Archive,
        options: &SystemOptions,
        stop: &AtomicBool,
        announce: &dyn Fn(&str),
    ) -> Result<Prepared, LabError> {
        machine::check_for(options.architecture)?;
        machine::require("qemu-img", "qemu-utils")?;
        let archive = archive.for_architecture(options.architecture)?;
        let (version, kernel) = archive.kernel(&options.kernel, announce)?;
        let maker = Maker { archive: &archive, kernel: &kernel, stop, announce };
        let root = Root::of(&maker, &options.packages)?;
        let modules = maker.modules(&version)?;
        let mut files = Initramfs::new(&maker.busybox()?)?;
        let accelerator = Accelerator::of(&archive, &kernel, &files, announce)?;
        files.add_modules(&Modules::of(&kernel)?.for_all(MODULES, CHECKSUMS)?);
        files.add_bytes("init", 0o755, INIT.as_bytes().to_vec());
        for (file, place) in &options.files {
            let place = place.strip_prefix("/").unwrap_or(place);
            files.add_copy(file, &Path::new("files").join(place))?;
        }
        let place = Place::new(&archive)?;
        files.write(&place.folder.join("initramfs"))?;
        let mut disks = Vec::new();
        let mut add = |name: String, backing: Option<(&Path, &str)>, bytes: Option<u64>| {
            let mut create = Command::new("qemu-img");
            create.args(["create", "-q", "-f", "qcow2"]);
            if let Some((image, format)) = backing {
                create.arg("-b").arg(image).args(["-F", format]);
            }
            create.arg(place.folder.join(&name)).args(bytes.map(|bytes| bytes.to_string()));
            disks.push(name);
            programs::output(&mut create, "qemu-utils")
        };
        add("root".to_owned(), Some((&root.image, "qcow2")), None)?;
        for (number, bytes) in options.disks.iter().enumerate() {
            add(format!("disk{}", number + 1), None, Some(*bytes))?;
        }
        for (number, image) in options.images.iter().enumerate() {
            let image = image.canonicalize().map_err(LabError::system("read", image))?;
            add(format!("image{}", number + 1), Some((&image, "raw")), None)?;
        }
        add("modules".to_owned(), Some((&modules, "raw")), None)?;
        let memory_mib = options.memory_mib;
        let (served, forwards) = (options.served.clone(), options.forwards.clone());
        let _root = root;
        Ok(Prepared { archive, place, kernel, accelerator, memory_mib, disks, served, forwards, _root })
    }

    /// Returns the command that starts QEMU without a console. `parameters` are kernel parameters for
    /// systemd.
    fn command(&self, parameters: &str) -> Result<Command, LabError> {
        let architecture = self.kernel.architecture;
        let mut machine = machine::qemu(architecture, self.memory_mib)?;
        let processors = self.accelerator.fastest_processors(architecture)?;
        machine.args(self.accelerator.options(architecture, processors)?);
        let initramfs = self.place.folder.join("initramfs");
        let network = if self.forwards.is_empty() { "" } else { NETWORK };
        machine::add_kernel(
            &mut machine,
            &self.kernel,
            &initramfs,
            &format!("{parameters} {PATIENCE} {TIMER} {network}"),
        );
        machine::add_network(&mut machine, &self.forwards);
        for name in &self.disks {
            machine::add_disk(&mut machine, name, "qcow2", &self.place.folder.join(name), Durability::Flush);
        }
        for (number, socket) in self.served.iter().enumerate() {
            machine::add_served_disk(&mut machine, &format!("card{}", number + 1), socket);
        }
        // Without a device for random numbers, programs would block at boot on an emulated processor that has
        // no random number instruction.
        machine.args(["-device", "virtio-rng-pci"]);
        Ok(machine)
    }

    fn console_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.place.console()).unwrap_or_default()).into_owned()
    }

    fn ended(&self, when: &'static str) -> LabError {
        self.place.ended_early(&self.archive, &self.kernel, when)
    }

    fn silent(&self) -> LabError {
        match self.ended("") {
            LabError::GuestEnded { kernel, console, lines, .. } => {
                LabError::GuestSilent { kernel, minutes: READY_WITHIN.as_secs() / 60, console, lines }
            }
            other => other,
        }
    }
}

/// Returns a check to call while waiting for a reply. The check fails if the guest has ended, if the time
/// `within` has passed, or on Ctrl-C.
fn check<'a>(
    machine: &'a mut Machine,
    prepared: &'a Prepared,
    stop: &'a AtomicBool,
    when: &'static str,
    within: Option<Duration>,
) -> impl FnMut() -> Result<(), LabError> + 'a {
    let began = Instant::now();
    move || {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        if machine.has_ended()? {
            return Err(prepared.ended(when));
        }
        match within {
            Some(within) if began.elapsed() > within => Err(prepared.silent()),
            _ => Ok(()),
        }
    }
}

impl<'a> System<'a> {
    /// Prepares and boots a guest, and returns when the guest can run commands. The first guest with a set of
    /// packages takes minutes to install the packages. `announce` gets progress messages. If `stop` becomes
    /// true, all functions of the guest fail with [`LabError::Interrupted`]. Fails if a program, package or
    /// kernel is missing, or if the guest does not become ready.
    pub fn start(
        archive: &Archive,
        options: &SystemOptions,
        announce: &'a dyn Fn(&str),
        stop: &'a AtomicBool,
    ) -> Result<System<'a>, LabError> {
        let prepared = Prepared::new(archive, options, stop, announce)?;
        let mut system = System {
            power: None,
            prepared,
            stop,
            announce,
            booted: Duration::ZERO,
            numbers: 0,
            snapshots: Vec::new(),
        };
        system.power_on()?;
        Ok(system)
    }

    /// Returns the output of `uname -r` in the guest.
    pub fn release(&self) -> &str {
        &self.prepared.kernel.release
    }

    /// Returns the accelerator that runs the guest.
    pub fn accelerator(&self) -> Accelerator {
        self.prepared.accelerator
    }

    /// Returns the real time from the guest's last start until it could run commands.
    pub fn booted(&self) -> Duration {
        self.booted
    }

    /// Switches the guest on, after [`System::cut`] or [`System::power_off`]. Does nothing if the guest is
    /// already on. Fails if the guest does not become ready.
    pub fn power_on(&mut self) -> Result<(), LabError> {
        if self.power.is_some() {
            return Ok(());
        }
        let (release, how) = (self.release(), self.accelerator().described());
        (self.announce)(&format!("booting Debian with Linux {release} {how} …"));
        let began = Instant::now();
        self.connect(&[])?;
        self.wait_for_agent("before it was ready")?;
        self.booted = began.elapsed();
        Ok(())
    }

    /// Runs a command as root in `/root`, and returns its output. The command's standard input is empty.
    ///
    /// While the command runs, its output is kept in the guest's memory (`/run`). The command runs in the
    /// control group of the agent's service; use `systemd-run` for a separate control group. Fails if the
    /// guest is off, or if the guest ends before the command ends. A nonzero exit code is not an error.
    pub fn run(&mut self, words: &[impl AsRef<str>]) -> Result<Output, LabError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = self.run_to(words, &mut stdout, &mut stderr)?;
        Ok(Output { code, stdout, stderr })
    }

    /// Runs a command as [`System::run`] does, but writes the output to `out` and `err` while the command
    /// runs. Returns errors of [`System::run`], `out` and `err`.
    pub fn run_to(
        &mut self,
        words: &[impl AsRef<str>],
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<u8, LabError> {
        self.numbers += 1;
        let when = "while a command was running";
        let [to_out, to_err] = ["out", "err"].map(|kind| format!("/run/fonio-{}.{kind}", self.numbers));
        let (from_out, from_err) = (self.open(&to_out, "w+")?, self.open(&to_err, "w+")?);
        let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
        // The script unlinks the files, so they exist only until the agent and the command close them.
        let script = format!(
            "exec </dev/null >>{to_out} 2>>{to_err}; rm {to_out} {to_err}; \
             cd /root; export HOME=/root LANG=C.UTF-8; exec {}",
            words.join(" ")
        );
        let pid = self.begin(&script, when)?;
        let mut pause = ASK_AGAIN[0];
        let code = loop {
            let status = self.agent("guest-exec-status", &json!({ "pid": pid }), when)?;
            let copied = self.pass_on(from_out, out)? + self.pass_on(from_err, err)?;
            if status["exited"] == true {
                break exit_code(&status);
            }
            if copied > 0 {
                pause = ASK_AGAIN[0];
            }
            thread::sleep(pause);
            pause = (pause * 2).min(ASK_AGAIN[1]);
        };
        for file in [from_out, from_err] {
            self.agent("guest-file-close", &json!({ "handle": file }), when)?;
        }
        Ok(code)
    }

    /// Copies a file of this machine into the guest. The copy has the same permissions and belongs to root.
    /// The target folder must exist. Fails if a file cannot be read or written.
    pub fn put(&mut self, from: &Path, to: &str) -> Result<(), LabError> {
        let when = "while a file was copied";
        let mut file = File::open(from).map_err(LabError::system("read", from))?;
        let metadata = file.metadata().map_err(LabError::system("read", from))?;
        let (bytes, place) = (metadata.len(), quoted(to));
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777;
        // Avoid the agent, which reads slowly. If the file cannot be written, the script still reads the
        // remaining bytes. Otherwise, these bytes would become the beginning of the next file.
        let script = format!(
            "head -c {bytes} </dev/virtio-ports/{FILES_PORT} | \
             {{ cat >{place} && chmod {mode:o} {place} || {{ cat >/dev/null; exit 1; }}; }}"
        );
        let pid = self.begin(&script, when)?;
        let mut sent = 0;
        let mut chunk = vec![0; CHUNK];
        let mut is_short = false;
        while sent < bytes {
            let size = chunk.len().min(usize::try_from(bytes - sent).unwrap_or(usize::MAX));
            let mut count = if is_short {
                0
            } else {
                file.read(&mut chunk[..size]).map_err(LabError::system("read", from))?
            };
            if count == 0 {
                is_short = true;
                chunk.fill(0);
                count = size;
            }
            self.send(&chunk[..count], when)?;
            sent += count as u64;
        }
        let refused = |reason: &str| LabError::NotCopied {
            path: to.into(),
            direction: "to",
            reason: reason.to_owned(),
        };
        match self.wait_for(pid, when)? {
            0 if is_short => Err(refused("the file became shorter while it was read")),
            0 => Ok(()),
            _ => Err(refused("the file cannot be written at that path")),
        }
    }

    /// Copies a file from the guest to this machine. Fails if a file cannot be read or written.
    pub fn get(&mut self, from: &str, to: &Path) -> Result<(), LabError> {
        let handle = self.open(from, "r")?;
        let mut file = File::create(to).map_err(LabError::system("make", to))?;
        self.pass_on(handle, &mut file)?;
        let when = "while a file was copied";
        self.agent("guest-file-close", &json!({ "handle": handle }), when).map(drop)
    }

    /// Reboots the guest with `systemctl reboot` and waits until it can run commands again. Fails if the
    /// guest does not shut down or does not become ready.
    pub fn reboot(&mut self) -> Result<(), LabError> {
        (self.announce)("rebooting …");
        self.leave("reboot")?;
        // Let QEMU end instead of restarting the guest: its end shows whether the guest rebooted or panicked.
        // The guest's disks are kept.
        self.power_on()
    }

    /// Shuts the guest down with `systemctl poweroff`. The guest's disks are kept. Fails if the guest does
    /// not shut down.
    pub fn power_off(&mut self) -> Result<(), LabError> {
        self.leave("poweroff")
    }

    /// Cuts the guest's power: the guest stops at once. The guest's disks keep all flushed data, and may keep
    /// more.
    ///
    /// This does not simulate a power cut of a flash device with a write cache; for that, see `fonio device
    /// emulate --power-cuts`.
    pub fn cut(&mut self) {
        self.power = None;
    }

    /// Saves the guest's memory and disks under a name in the guest's disk files, while the guest continues
    /// to run. The snapshot is removed with the guest. Fails if the guest is off, if QEMU cannot save the
    /// guest, or if another program serves one of the guest's disks.
    pub fn snapshot(&mut self, name: &str) -> Result<(), LabError> {
        if let Some(socket) = self.prepared.served.first() {
            return Err(LabError::ServedDisk { socket: socket.clone() });
        }
        self.job("snapshot-save", name)?;
        self.snapshots.push(name.to_owned());
        Ok(())
    }

    /// Restores memory and disks from a snapshot, even if the guest is off. The guest continues from that
    /// state, but the output of a command that was running when the snapshot was taken is lost. Fails if the
    /// snapshot does not exist or QEMU cannot load it. After this error, the guest is off.
    pub fn restore(&mut self, name: &str) -> Result<(), LabError> {
        if !self.snapshots.iter().any(|known| known == name) {
            return Err(LabError::NoSnapshot { name: name.to_owned(), have: self.snapshots.clone() });
        }
        let is_off = self.power.is_none();
        if is_off {
            self.connect(&["-S"])?;
        }
        if let Err(error) = self.job("snapshot-load", name) {
            // The guest's memory may be a mixture of both states.
            self.cut();
            return Err(error);
        }
        if is_off {
            self.qemu("cont", &json!({}))?;
        }
        self.wait_for_agent("after its state was restored")
    }

    /// Shuts the guest down and removes its disks. Fails if the guest does not shut down.
    pub fn stop(mut self) -> Result<(), LabError> {
        if self.power.is_some() { self.power_off() } else { Ok(()) }
    }

    fn connect(&mut self, options: &[&str]) -> Result<(), LabError> {
        let place = &self.prepared.place;
        let mut command = self.prepared.command(NO_LOGIN)?;
        command.args(["-chardev", &format!("file,id=console,path={},append=on", escaped(&place.console()))]);
        command.args(["-serial", "chardev:console", "-device", "virtio-serial-pci"]);
        for name in ["qemu", "agent", "files"] {
            let path = escaped(&place.folder.join(name));
            command.args(["-chardev", &format!("socket,id={name},path={path}")]);
        }
        command.args(["-mon", "chardev=qemu,mode=control"]);
        command.args(["-device", &format!("virtserialport,chardev=agent,name={AGENT_PORT}")]);
        command.args(["-device", &format!("virtserialport,chardev=files,name={FILES_PORT}")]);
        command.args(options);
        let (qemu, agent, files) = (place.listen("qemu")?, place.listen("agent")?, place.listen("files")?);
        let mut machine = Machine::start(command)?;
        let qemu = machine.accept(&qemu, self.stop, place)?;
        let agent = machine.accept(&agent, self.stop, place)?;
        let files = machine.accept(&files, self.stop, place)?;
        files.set_write_timeout(Some(POLL)).map_err(LabError::system("write to", "the guest"))?;
        let (qemu, agent) = (Talk::new("QEMU", qemu)?, Talk::new(AGENT, agent)?);
        self.power = Some(Power { machine, qemu, agent, files });
        self.qemu("qmp_capabilities", &json!({})).map(drop)
    }

    fn wait_for_agent(&mut self, when: &'static str) -> Result<(), LabError> {
        let began = Instant::now();
        loop {
            self.numbers += 1;
            let power = self.power.as_mut().ok_or(LabError::GuestOff)?;
            let mut has_waited = false;
            let asked = Instant::now();
            let mut check = check(&mut power.machine, &self.prepared, self.stop, when, None);
            let answer = power.agent.synchronise(self.numbers, &mut || {
                check()?;
                has_waited = asked.elapsed() > Duration::from_secs(2);
                if has_waited { Err(LabError::GuestOff) } else { Ok(()) }
            });
            match answer {
                // The request may be lost if the agent was not yet listening or was being restarted.
                Err(LabError::GuestOff) if has_waited && began.elapsed() < READY_WITHIN => {}
                Err(LabError::GuestOff) if has_waited => return Err(self.prepared.silent()),
                other => return other,
            }
        }
    }

    /// Shuts the guest down and waits until QEMU has ended.
    fn leave(&mut self, how: &'static str) -> Result<(), LabError> {
        let before = self.prepared.console_text().len();
        let mut power = self.power.take().ok_or(LabError::GuestOff)?;
        let script = format!("exec systemctl {how}");
        let began = Instant::now();
        let exec = json!({ "path": "/bin/sh", "arg": ["-c", script] });
        power.agent.tell("guest-exec", &exec)?;
        while !power.machine.has_ended()? {
            if self.stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if began.elapsed() > READY_WITHIN {
                return Err(self.prepared.silent());
            }
            thread::sleep(POLL);
        }
        let console = self.prepared.console_text();
        match console.get(before..).unwrap_or(&console).contains(PANIC) {
            true => Err(self.prepared.ended("with a panic while it shut down")),
            false => Ok(()),
        }
    }

    fn qemu(&mut self, request: &str, arguments: &Value) -> Result<Value, LabError> {
        let power = self.power.as_mut().ok_or(LabError::GuestOff)?;
        let when = "while QEMU was asked";
        let mut check = check(&mut power.machine, &self.prepared, self.stop, when, None);
        power.qemu.ask(request, arguments, &mut check)
    }

    fn agent(&mut self, request: &str, arguments: &Value, when: &'static str) -> Result<Value, LabError> {
        let power = self.power.as_mut().ok_or(LabError::GuestOff)?;
        let mut check = check(&mut power.machine, &self.prepared, self.stop, when, Some(READY_WITHIN));
        power.agent.ask(request, arguments, &mut check)
    }

    /// Runs a QEMU snapshot job to completion.
    fn job(&mut self, job: &str, name: &str) -> Result<(), LabError> {
        let id = format!("{job}-{}", self.numbers);
        self.numbers += 1;
        let disks = self.prepared.disks.clone();
        self.qemu(job, &json!({ "job-id": id, "tag": name, "vmstate": disks[0], "devices": disks }))?;
        loop {
            let jobs = self.qemu("query-jobs", &json!({}))?;
            let jobs = jobs.as_array().cloned().unwrap_or_default();
            let state = jobs.into_iter().find(|job| job["id"] == id.as_str()).unwrap_or_default();
            if state["status"] == "concluded" {
                self.qemu("job-dismiss", &json!({ "id": id }))?;
                return match state["error"].as_str() {
                    None => Ok(()),
                    Some(reason) => Err(LabError::refused("QEMU", &format!("{job} {name}"), reason)),
                };
            }
            thread::sleep(POLL);
        }
    }

    /// Starts a shell script in the guest and returns its process id.
    fn begin(&mut self, script: &str, when: &'static str) -> Result<u64, LabError> {
        let arguments = json!({ "path": "/bin/sh", "arg": ["-c", script] });
        let answer = self.agent("guest-exec", &arguments, when)?;
        answer["pid"].as_u64().ok_or_else(|| LabError::refused(AGENT, "guest-exec", answer))
    }

    /// Waits until a script in the guest ends, and returns its exit code.
    fn wait_for(&mut self, pid: u64, when: &'static str) -> Result<u8, LabError> {
        loop {
            let status = self.agent("guest-exec-status", &json!({ "pid": pid }), when)?;
            if status["exited"] == true {
                return Ok(exit_code(&status));
            }
            thread::sleep(ASK_AGAIN[0]);
        }
    }

    fn send(&mut self, mut bytes: &[u8], when: &'static str) -> Result<(), LabError> {
        let power = self.power.as_mut().ok_or(LabError::GuestOff)?;
        let mut check = check(&mut power.machine, &self.prepared, self.stop, when, Some(READY_WITHIN));
        while !bytes.is_empty() {
            match power.files.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => check()?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // The write may have failed because the guest ended.
                    thread::sleep(POLL);
                    check()?;
                    return Err(LabError::system("write to", "the guest")(error));
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, path: &str, mode: &str) -> Result<i64, LabError> {
        let direction = if mode == "r" { "from" } else { "to" };
        let answer =
            self.agent("guest-file-open", &json!({ "path": path, "mode": mode }), "while a file was opened");
        let answer = answer.map_err(|error| match error {
            LabError::Refused { reason, .. } => LabError::NotCopied { path: path.into(), direction, reason },
            other => other,
        })?;
        answer.as_i64().ok_or_else(|| LabError::NotCopied {
            path: path.into(),
            direction,
            reason: answer.to_string(),
        })
    }

    /// Copies the rest of an open file from its current position. Returns the number of copied bytes.
    fn pass_on(&mut self, handle: i64, to: &mut dyn Write) -> Result<usize, LabError> {
        let mut copied = 0;
        loop {
            let arguments = json!({ "handle": handle, "count": CHUNK });
            let answer = self.agent("guest-file-read", &arguments, "while a file was copied")?;
            let text = answer["buf-b64"].as_str().unwrap_or_default();
            let bytes = BASE64.decode(text).map_err(|error| {
                LabError::refused(AGENT, "guest-file-read", format!("the reply is not base64: {error}"))
            })?;
            to.write_all(&bytes).map_err(LabError::system("write", "the output of a guest"))?;
            copied += bytes.len();
            if bytes.is_empty() {
                to.flush().map_err(LabError::system("write", "the output of a guest"))?;
                return Ok(copied);
            }
        }
    }
}

/// Boots a system guest with a root login on this terminal, and returns when it is shut down. The guest can
/// reboot. Fails if the guest cannot be prepared or started.
pub fn system_shell(
    archive: &Archive,
    options: &SystemOptions,
    announce: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let prepared = Prepared::new(archive, options, stop, announce)?;
    let how = prepared.accelerator.described();
    let port = options.architecture.facts().serial_port;
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "vt220".to_owned());
    let login = format!("systemd.tty.term.{port}={terminal}");
    announce(&format!("booting Debian with Linux {} {how}; `poweroff` ends it …", prepared.kernel.release));
    loop {
        let before = prepared.console_text().len();
        let mut command = prepared.command(&login)?;
        let log = escaped(&prepared.place.console());
        let console = format!("stdio,id=console,signal=off,logfile={log},logappend=on");
        command.args(["-chardev", &console, "-serial", "chardev:console"]);
        let status = command.status().map_err(LabError::system("start", "QEMU"))?;
        let console = prepared.console_text();
        let said = console.get(before..).unwrap_or_default();
        if !status.success() || said.contains(PANIC) {
            return Err(prepared.ended("with an error"));
        }
        if !said.contains(RESTARTING) {
            return Ok(());
        }
    }
}

/// Returns the exit code of an ended command, from the agent's status report.
fn exit_code(status: &Value) -> u8 {
    let number = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    let signal = || number(&status["signal"]).map(|signal| signal.saturating_add(128));
    number(&status["exitcode"]).or_else(signal).unwrap_or(u8::MAX)
}

/// Escapes a path for a QEMU option, where commas are doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_commands_end() {
        for (status, code) in [
            (json!({ "exited": true, "exitcode": 0 }), 0),
            (json!({ "exited": true, "exitcode": 7 }), 7),
            (json!({ "exited": true, "signal": 9 }), 137),
            (json!({ "exited": true }), 255),
        ] {
            assert_eq!(exit_code(&status), code, "{status}");
        }
    }

    #[test]
    fn paths_in_options() {
        assert_eq!(escaped(Path::new("/a,b/c")), "/a,,b/c");
    }
}
