//! Boots a guest, runs one command in it, and brings files back.
//!
//! The guest has no disk and no network. The command's output, a few words about its progress, and an archive of its files
//! come through virtio serial ports, each connected to a socket of this process.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::Serialize;

use crate::modules::Modules;
use crate::{Archive, Initramfs, KernelFiles, LabError, programs};

const QEMU: &str = "qemu-system-x86_64";
const QEMU_PACKAGE: &str = "qemu-system-x86";
const INIT: &str = include_str!("init.sh");
/// The drivers of the ports; in some kernels they are modules.
const PORT_MODULES: &[&str] = &["virtio_pci", "virtio_console"];
/// Lines of the console in an error.
const LINES_SHOWN: usize = 8;
/// Memory that must be free beside the guest's own.
const SPARE_MIB: u64 = 128;

/// What a guest is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Measurements: one processor, on which each instruction takes a nanosecond of the guest's time. Waiting takes no time
    /// of this machine. Times hardly depend on how busy this machine is.
    #[default]
    Bench,
    /// Tests of functions: two processors, as fast as this machine can.
    Test,
}

impl Shape {
    fn options(self) -> &'static [&'static str] {
        match self {
            // Later machine types give the guest random numbers at the start, with which no two runs are the same.
            Shape::Bench => &[
                "-machine",
                "pc-i440fx-7.1",
                "-smp",
                "1",
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                "-cpu",
                "qemu64",
                "-rtc",
                "base=2026-01-01T00:00:00,clock=vm",
            ],
            Shape::Test => &["-smp", "2", "-accel", "tcg", "-cpu", "max"],
        }
    }
}

/// A guest to be started.
#[derive(Debug)]
pub struct Guest {
    /// Its kernel.
    pub kernel: KernelFiles,
    /// What it is for.
    pub shape: Shape,
    /// Its memory in MiB; all its files are in it.
    pub memory_mib: u64,
    /// Names of modules to load.
    pub modules: Vec<&'static str>,
    /// Names of modules to load if the kernel has them.
    pub wishes: Vec<&'static str>,
    /// Its files.
    pub files: Initramfs,
}

/// How a command in a guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// The exit code of the command.
    pub code: u8,
    /// Seconds of the guest's time from its start to the command.
    pub booted_s: f64,
    /// Seconds of the guest's time that the command took.
    pub took_s: f64,
    /// Seconds of this machine's time from the start of the guest to the command.
    pub booted_host_s: f64,
    /// Seconds of this machine's time from the start of the guest to its end.
    pub host_s: f64,
}

/// A folder for the sockets and the console of a running guest. The lock tells others that it is in use.
struct Place {
    folder: PathBuf,
    _lock: File,
}

impl Place {
    fn new(archive: &Archive) -> Result<Place, LabError> {
        let guests = archive.folder().join("guests");
        fs::create_dir_all(&guests).map_err(LabError::system("make", &guests))?;
        for entry in fs::read_dir(&guests).map_err(LabError::system("read", &guests))?.flatten() {
            let free =
                |file: File| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            // Left by a process that was killed; if not all of it can be removed, the next start tries again.
            if File::open(entry.path().join("lock")).is_ok_and(free) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = tempfile::Builder::new().prefix("guest-").tempdir_in(&guests);
        let folder = folder.map_err(LabError::system("write into", &guests))?.keep();
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(LabError::system("make", &path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| LabError::system("lock", &path)(error.into()))?;
        Ok(Place { folder, _lock: lock })
    }

    fn console(&self) -> PathBuf {
        self.folder.join("console")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next start removes what remains.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A line of the guest's control port.
#[derive(Debug, PartialEq)]
enum Event {
    Begun {
        uptime: f64,
    },
    Done {
        code: u8,
        uptime: f64,
    },
    /// The files have been sent, from so many of the paths.
    End {
        paths: usize,
    },
}

impl Event {
    fn parse(line: &str) -> Option<Event> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["begin", _, uptime] => Some(Event::Begun { uptime: uptime.parse().ok()? }),
            ["done", code, uptime] => {
                Some(Event::Done { code: code.parse().ok()?, uptime: uptime.parse().ok()? })
            }
            ["end", paths] => Some(Event::End { paths: paths.parse().ok()? }),
            _ => None,
        }
    }
}

impl Guest {
    /// Boots the guest and runs a task in it. The output goes
    /// to standard output and standard error as it comes. The files that the task brings are unpacked below its folder for
    /// them, with their whole paths.
    ///
    /// # Errors
    ///
    /// If the guest cannot be started, if it ends before the command does, or if `stop` becomes true.
    pub fn run(
        mut self,
        archive: &Archive,
        command: &Task<'_>,
        stop: &AtomicBool,
        announce: &dyn Fn(&str),
    ) -> Result<Ended, LabError> {
        let place = Place::new(archive)?;
        let quoted: Vec<String> = command.words.iter().map(|word| quoted(word)).collect();
        let lines = |paths: &[PathBuf]| -> String {
            paths.iter().map(|path| format!("{}\n", path.display())).collect()
        };
        self.files.add_bytes("etc/fonio/command", 0o644, format!("exec {}\n", quoted.join(" ")).into_bytes());
        self.files.add_bytes("etc/fonio/folder", 0o644, command.folder.display().to_string().into_bytes());
        self.files.add_bytes("etc/fonio/bring", 0o644, lines(command.bring).into_bytes());
        self.files.add_folder(command.folder);
        let ports = ["control", "out", "err", "files"];
        let listeners: Vec<UnixListener> = ports
            .iter()
            .map(|port| {
                let path = place.folder.join(port);
                UnixListener::bind(&path).map_err(LabError::system("listen on", &path))
            })
            .collect::<Result<_, _>>()?;
        let mut machine = self.machine(&place)?;
        machine.args(["-serial", &format!("file:{}", place.console().display())]);
        // Without `ioeventfd`, the guest's processor itself passes on what the guest writes. Otherwise another thread does, at a
        // time that no guest's clock determines.
        machine.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
        for port in ports {
            let path = place.folder.join(port);
            machine.args(["-chardev", &format!("socket,id={port},path={}", path.display())]);
            machine.args(["-device", &format!("virtserialport,chardev={port},name=fonio.{port}")]);
        }
        announce(&format!("booting Linux {} …", self.kernel.release));
        let began = Instant::now();
        let mut machine = Machine::start(machine)?;
        let mut streams = Vec::new();
        for listener in &listeners {
            streams.push(machine.accept(listener, stop, &place)?);
        }
        let [control, out, err, files] = <[UnixStream; 4]>::try_from(streams).expect("four ports");
        let copies = [
            thread::spawn(move || pass_on(&out, &mut io::stdout())),
            thread::spawn(move || pass_on(&err, &mut io::stderr())),
        ];
        let mut unpack = Command::new("tar");
        unpack.args(["-xf", "-", "-C"]).arg(command.to).stdin(std::os::fd::OwnedFd::from(files));
        let unpacking = unpack.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let unpacking = unpacking.map_err(|error| programs::not_started(&unpack, "tar", error))?;

        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(control).lines().map_while(Result::ok) {
                if let Some(event) = Event::parse(&line)
                    && sender.send(event).is_err()
                {
                    return;
                }
            }
        });
        let (mut begun, mut done, mut sent) = (None, None, None);
        while sent.is_none() {
            match events.recv_timeout(Duration::from_millis(100)) {
                Ok(Event::Begun { uptime }) => begun = Some((uptime, began.elapsed().as_secs_f64())),
                Ok(Event::Done { code, uptime }) => done = Some((code, uptime)),
                Ok(Event::End { paths }) => sent = Some(paths),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(_) => break,
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        let (Some((booted_s, booted_host_s)), Some((code, uptime)), Some(sent)) = (begun, done, sent) else {
            machine.wait(stop)?;
            let when = match (begun, done) {
                (None, _) => "before it was ready",
                (Some(_), None) => "while the command was running",
                _ => "before its files were here",
            };
            return Err(self.ended_early(archive, &place, when));
        };
        machine.wait(stop)?;
        // The sockets are closed now, so that the copies end.
        copies.into_iter().for_each(|copy| drop(copy.join()));
        io::stdout().flush().map_err(LabError::system("write to", "standard output"))?;
        let unpacked = unpacking.wait_with_output().map_err(LabError::system("wait for", "tar"))?;
        // For tar, nothing is no archive.
        if !unpacked.status.success() && sent > 0 {
            let reason = String::from_utf8_lossy(&unpacked.stderr).trim().to_owned();
            return Err(LabError::BadFiles { reason });
        }
        Ok(Ended {
            code,
            booted_s,
            took_s: uptime - booted_s,
            booted_host_s,
            host_s: began.elapsed().as_secs_f64(),
        })
    }

    /// The command that starts QEMU, without the guest's serial port.
    fn machine(&mut self, place: &Place) -> Result<Command, LabError> {
        let free = free_mib().unwrap_or(u64::MAX);
        if free < self.memory_mib + SPARE_MIB {
            return Err(LabError::Memory { needs: self.memory_mib + SPARE_MIB, free });
        }
        let needed = [PORT_MODULES, &self.modules].concat();
        let modules = Modules::of(&self.kernel)?.for_all(&needed, &self.wishes)?;
        for (number, module) in modules.into_iter().enumerate() {
            let path = format!("modules/{number:03}-{}.ko", module.name);
            self.files.add_bytes(&path, 0o644, module.bytes);
        }
        self.files.add_bytes("init", 0o755, INIT.as_bytes().to_vec());
        let initramfs = place.folder.join("initramfs");
        self.files.write(&initramfs)?;
        // If this process is killed, so is the guest.
        let mut machine = Command::new("setpriv");
        machine.args(["--pdeathsig", "KILL", QEMU]);
        machine.args(self.shape.options());
        machine.args(["-m", &self.memory_mib.to_string()]);
        machine.args(["-nodefaults", "-display", "none", "-no-reboot", "-no-user-config"]);
        machine.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(&initramfs);
        machine.args(["-append", "console=ttyS0 quiet panic=-1 nokaslr norandmaps"]);
        Ok(machine)
    }

    /// The error of a guest that ended by itself. Its console is kept.
    fn ended_early(&self, archive: &Archive, place: &Place, when: &'static str) -> LabError {
        let text = fs::read(place.console()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        let kept = archive.folder().join(format!("console-of-{}", self.kernel.release));
        // If it cannot be kept, the error still shows the end of it.
        let _ = fs::copy(place.console(), &kept);
        LabError::GuestEnded {
            kernel: self.kernel.release.clone(),
            when,
            console: kept,
            lines: lines[lines.len().saturating_sub(LINES_SHOWN)..].to_vec(),
        }
    }
}

/// What a guest does.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The command.
    pub words: &'a [String],
    /// Where it runs; the same path as here.
    pub folder: &'a Path,
    /// Paths of files and folders that come back, if they exist afterwards.
    pub bring: &'a [PathBuf],
    /// The folder below which they are unpacked.
    pub to: &'a Path,
}

/// Checks that this machine can start guests, before anything is fetched for one.
///
/// # Errors
///
/// If QEMU or `setpriv` is not installed.
pub fn check() -> Result<(), LabError> {
    for (program, package) in [(QEMU, QEMU_PACKAGE), ("setpriv", "util-linux")] {
        if !in_path(program) {
            return Err(LabError::ProgramMissing { program, package });
        }
    }
    Ok(())
}

/// Boots a guest with a shell on this terminal, until the shell exits.
///
/// # Errors
///
/// If the guest cannot be started.
pub fn shell(mut guest: Guest, archive: &Archive) -> Result<(), LabError> {
    let place = Place::new(archive)?;
    let mut machine = guest.machine(&place)?;
    machine.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    let status = machine.status().map_err(LabError::system("start", QEMU))?;
    if status.success() { Ok(()) } else { Err(guest.ended_early(archive, &place, "with an error")) }
}

/// A running QEMU; it is killed when this is dropped.
struct Machine(Child);

impl Machine {
    fn start(mut command: Command) -> Result<Machine, LabError> {
        // In a process group of its own: Ctrl-C is for this process, which ends the guest.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Machine).map_err(LabError::system("start", QEMU))
    }

    /// Waits for QEMU to connect to a socket.
    fn accept(
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
            if self.0.try_wait().map_err(system("wait for QEMU in"))?.is_some() {
                let mut complaint = String::new();
                if let Some(stderr) = &mut self.0.stderr {
                    let _ = io::Read::read_to_string(stderr, &mut complaint);
                }
                let complaint = complaint.trim().to_owned();
                return Err(LabError::ProgramFailed { command: QEMU.to_owned(), complaint });
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait(&mut self, stop: &AtomicBool) -> Result<(), LabError> {
        while self.0.try_wait().map_err(LabError::system("wait for", QEMU))?.is_none() {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The memory that programs can still get, in MiB.
fn free_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

/// Copies the output of a guest. If nobody reads ours any more (`| head`), the rest is dropped: a guest whose output is not
/// taken would wait for ever.
fn pass_on(mut from: &UnixStream, to: &mut impl Write) {
    if io::copy(&mut from, to).is_err() {
        let _ = io::copy(&mut from, &mut io::sink());
    }
}

/// A word as a shell reads it back unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        for word in ["", "plain", "it's", "a b\n$c `d` \"e\" \\"] {
            let out = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
            assert_eq!(String::from_utf8_lossy(&out.expect("a shell").stdout), word);
        }
    }

    #[test]
    fn lines_of_the_control_port() {
        assert_eq!(Event::parse("begin 6.12.1-amd64 2.71"), Some(Event::Begun { uptime: 2.71 }));
        assert_eq!(Event::parse("done 3 9.5"), Some(Event::Done { code: 3, uptime: 9.5 }));
        assert_eq!(Event::parse("end 2"), Some(Event::End { paths: 2 }));
        assert_eq!(Event::parse("done 300 9.5"), None);
    }
}
