//! Boots a guest, runs one command in the guest, and retrieves files.
//!
//! The guest has no disk and no network. The guest sends the command's output, progress events and an archive
//! of files through virtio serial ports, each connected to a socket of this process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::accelerator::Accelerator;
use crate::architecture::Architecture;
use crate::archive::Archive;
use crate::error::LabError;
use crate::initramfs::Initramfs;
use crate::kernel::KernelFiles;
use crate::machine::{self, Machine, Place};
use crate::modules::Modules;
use crate::program_disk::ProgramDisk;
use crate::programs;

/// How often the received bytes are compared with the sent ones.
const RECEIVED_POLL: Duration = Duration::from_millis(20);
const INIT: &str = include_str!("init.sh");
/// Kernel modules of the drivers for the virtio ports; in some kernels, the drivers are built in.
const PORT_MODULES: &[&str] = &["virtio_pci", "virtio_console"];
const DISK_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "ext4"];
/// An app's programs are below a layer in memory.
const PROGRAM_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "ext4", "overlay"];
/// The serial number of the disk with programs (`init.sh`).
const PROGRAMS: &str = "programs";
const CARD_MODULES: &[&str] = &["sdhci_pci", "mmc_block"];

/// The purpose of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A guest for measurements: one processor, on which each instruction takes a nanosecond of guest time.
    /// Idle guest time is skipped. Times hardly depend on this machine's load.
    #[default]
    Bench,
    /// A guest for functional tests: two processors at full speed.
    Test,
}

/// The QEMU options of bench guests. The machine type is old, because newer types pass random numbers to the
/// guest at boot, so every run would differ.
const BENCH_OPTIONS: [&str; 12] = [
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
];

/// A guest that has not been started yet.
#[derive(Debug)]
pub struct Guest {
    /// The guest's kernel.
    pub kernel: KernelFiles,
    /// The purpose of the guest.
    pub shape: Shape,
    /// The guest's memory in MiB, which also contains all files of the guest.
    pub memory_mib: u64,
    /// Names of kernel modules to load.
    pub modules: Vec<&'static str>,
    /// Names of kernel modules to load if the kernel has them.
    pub wishes: Vec<&'static str>,
    /// The files in the guest's memory.
    pub files: Initramfs,
    /// The raw images of writable disks; the first disk is `/dev/vda`.
    pub disks: Vec<PathBuf>,
    /// The programs of an app, which the guest mounts read-only.
    pub programs: Option<ProgramDisk>,
    /// Raw image of a writable memory card, attached through a host controller and the kernel's MMC driver:
    /// `/dev/mmcblk0`. The image's size in bytes is a power of two.
    pub card: Option<PathBuf>,
}

/// The result of a command in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// The exit code of the command.
    pub code: u8,
    /// Guest time from the guest's start to the command's start, in seconds.
    pub booted_s: f64,
    /// Run time of the command in guest time, in seconds.
    pub took_s: f64,
    /// Real time from the start of the guest to the start of the command, in seconds.
    pub booted_host_s: f64,
    /// Real time from the start of the guest to its end, in seconds.
    pub host_s: f64,
    /// The guest's accelerator; `None` for bench guests, whose processor is always emulated.
    pub accelerator: Option<Accelerator>,
}

/// The destinations of the output of a guest's command.
pub struct Streams {
    /// Receives the command's standard output.
    pub out: Box<dyn Write + Send>,
    /// Receives the command's standard error.
    pub err: Box<dyn Write + Send>,
}

/// A progress event, which the guest sends as a line through its control port.
#[derive(Debug, PartialEq)]
enum Event {
    Begun {
        uptime: f64,
    },
    Done {
        code: u8,
        uptime: f64,
    },
    /// All result files have been sent.
    End {
        /// The number of requested paths that exist in the guest.
        paths: usize,
        /// The number of bytes that the guest sent for them.
        bytes: u64,
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
            ["end", paths, bytes] => {
                Some(Event::End { paths: paths.parse().ok()?, bytes: bytes.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl Guest {
    /// Boots the guest and runs a task in it. Copies the command's output to standard output and standard
    /// error while it runs. Afterwards, unpacks the files and folders in [`Task::bring`] below [`Task::to`]:
    /// `/a/b` becomes `TO/a/b`. Fails if the guest cannot be started, if it ends before the command does, or
    /// if `stop` becomes true.
    pub fn run(
        self,
        archive: &Archive,
        command: &Task<'_>,
        stop: &AtomicBool,
        announce: &dyn Fn(&str),
    ) -> Result<Ended, LabError> {
        let streams = Streams { out: Box::new(io::stdout()), err: Box::new(io::stderr()) };
        self.run_to(archive, command, streams, stop, announce)
    }

    /// Runs a task as [`Guest::run`] does, but writes the command's output to `streams`. Returns the errors
    /// of [`Guest::run`].
    pub fn run_to(
        mut self,
        archive: &Archive,
        command: &Task<'_>,
        streams: Streams,
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
        let listeners: Vec<UnixListener> =
            ports.iter().map(|port| place.listen(port)).collect::<Result<_, _>>()?;
        let (mut machine, accelerator) = self.machine(archive, &place, announce)?;
        machine.args(["-serial", &format!("file:{}", place.console().display())]);
        // Without `ioeventfd`, the guest's processor itself handles port writes. With `ioeventfd`, another
        // thread would handle port writes, at times that do not depend on the guest's clock.
        machine.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
        for port in ports {
            let path = place.folder.join(port);
            machine.args(["-chardev", &format!("socket,id={port},path={}", path.display())]);
            machine.args(["-device", &format!("virtserialport,chardev={port},name=fonio.{port}")]);
        }
        let how = accelerator.map(|accelerator| format!(" {}", accelerator.described())).unwrap_or_default();
        announce(&format!("booting Linux {}{how} …", self.kernel.release));
        let began = Instant::now();
        let mut machine = Machine::start(machine)?;
        let mut connected = Vec::new();
        for listener in &listeners {
            connected.push(machine.accept(listener, stop, &place)?);
        }
        let [control, out, err, files] = <[UnixStream; 4]>::try_from(connected).expect("four ports");
        let Streams { out: mut to_out, err: mut to_err } = streams;
        let copies = [
            thread::spawn(move || pass_on(&out, &mut to_out)),
            thread::spawn(move || pass_on(&err, &mut to_err)),
        ];
        let mut unpack = Command::new("tar");
        unpack.args(["-xf", "-", "-C"]).arg(command.to).stdin(Stdio::piped());
        let unpacking = unpack.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut unpacking = unpacking.map_err(|error| programs::not_started(&unpack, "tar", error))?;
        let mut to_unpack = unpacking.stdin.take().expect("the input is a pipe");
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let receiving = thread::spawn(move || receive(&files, &mut to_unpack, &counted));

        let mut answer = control.try_clone().map_err(LabError::system("talk to", "the guest"))?;
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
                Ok(Event::End { paths, bytes }) => sent = Some((paths, bytes)),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(_) => break,
            }
        }
        // The guest waits until its files have arrived. If it ends before that, the files are incomplete.
        if let Some((_, bytes)) = sent {
            while received.load(Ordering::Relaxed) < bytes
                && !receiving.is_finished()
                && !stop.load(Ordering::Relaxed)
            {
                thread::sleep(RECEIVED_POLL);
            }
            // A guest that has ended already reports its end below.
            let _ = answer.write_all(b"received\n");
        }
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        let (Some((booted_s, booted_host_s)), Some((code, uptime)), Some((sent, _))) = (begun, done, sent)
        else {
            machine.wait(stop)?;
            let when = match (begun, done) {
                (None, _) => "before it was ready",
                (Some(_), None) => "while the command was running",
                _ => "before its files were received",
            };
            return Err(place.ended_early(archive, &self.kernel, when));
        };
        machine.wait(stop)?;
        // The sockets are closed now, so the threads that copy the output end.
        copies.into_iter().chain([receiving]).for_each(|copy| drop(copy.join()));
        io::stdout().flush().map_err(LabError::system("write to", "standard output"))?;
        let unpacked = unpacking.wait_with_output().map_err(LabError::system("wait for", "tar"))?;
        // If none of the requested paths exists, the guest sends nothing, and tar rejects empty input.
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
            accelerator,
        })
    }

    /// Returns the command that starts QEMU, without options for the guest's serial port. Also returns the
    /// accelerator; `None` for a bench guest.
    fn machine(
        &mut self,
        archive: &Archive,
        place: &Place,
        announce: &dyn Fn(&str),
    ) -> Result<(Command, Option<Accelerator>), LabError> {
        let architecture = self.kernel.architecture;
        if architecture != Architecture::Amd64 && !self.files.is_static() {
            return Err(LabError::SystemOnly { architecture });
        }
        let accelerator = match self.shape {
            Shape::Bench if architecture != Architecture::Amd64 => {
                return Err(LabError::SystemOnly { architecture });
            }
            Shape::Bench => None,
            Shape::Test => Some(Accelerator::of(archive, &self.kernel, &self.files, announce)?),
        };
        let mut machine = machine::qemu(architecture, self.memory_mib)?;
        let mut needed = [PORT_MODULES, &self.modules].concat();
        if !self.disks.is_empty() {
            needed.extend(DISK_MODULES);
        }
        if self.card.is_some() {
            needed.extend(CARD_MODULES);
        }
        if let Some(programs) = &self.programs {
            needed.extend(PROGRAM_MODULES);
            self.files.add_bytes(
                "etc/fonio/programs",
                0o644,
                programs.root.display().to_string().into_bytes(),
            );
            self.files.add_folder(&programs.root);
            self.files.add_copy(&programs.list, &programs.list)?;
        }
        self.files.add_modules(&Modules::of(&self.kernel)?.for_all(&needed, &self.wishes)?);
        self.files.add_bytes("init", 0o755, INIT.as_bytes().to_vec());
        let initramfs = place.folder.join("initramfs");
        self.files.write(&initramfs)?;
        match accelerator {
            None => machine.args(BENCH_OPTIONS),
            Some(accelerator) => machine.args(accelerator.options(architecture, "2")?),
        };
        machine::add_kernel(&mut machine, &self.kernel, &initramfs, "nokaslr norandmaps");
        for (number, disk) in self.disks.iter().enumerate() {
            let name = format!("disk{number}");
            machine::add_disk(&mut machine, &name, "raw", disk, machine::Durability::Never);
        }
        if let Some(programs) = &self.programs {
            machine::add_read_only_disk(&mut machine, PROGRAMS, &programs.image);
        }
        if let Some(card) = &self.card {
            machine::add_card(&mut machine, card);
        }
        Ok((machine, accelerator))
    }
}

/// A command for a guest, with its folder and its result files.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The command and its arguments.
    pub words: &'a [String],
    /// The command's working directory, which has the same path as on this machine.
    pub folder: &'a Path,
    /// Files and folders to copy from the guest afterwards, if they exist.
    pub bring: &'a [PathBuf],
    /// The folder on this machine in which these files are unpacked.
    pub to: &'a Path,
}

/// Boots a guest with a shell on this terminal, and returns when the shell exits. Fails if the guest cannot
/// be started.
pub fn shell(mut guest: Guest, archive: &Archive, announce: &dyn Fn(&str)) -> Result<(), LabError> {
    let place = Place::new(archive)?;
    let (mut machine, _) = guest.machine(archive, &place, announce)?;
    machine.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    let status = machine.status().map_err(LabError::system("start", "QEMU"))?;
    if status.success() { Ok(()) } else { Err(place.ended_early(archive, &guest.kernel, "with an error")) }
}

/// Copies the output of a guest to `to`. If our own output is no longer read (`| head`), drops the rest,
/// because a guest with unread output would wait forever.
fn pass_on(mut from: &UnixStream, to: &mut impl Write) {
    if io::copy(&mut from, to).is_err() {
        let _ = io::copy(&mut from, &mut io::sink());
    }
}

/// Copies the archive of a guest's files to `to`, and counts its bytes. If nothing reads from `to` any more, discards the rest.
fn receive(mut from: &UnixStream, to: &mut impl Write, count: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    let mut is_read = true;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(bytes) => {
                is_read = is_read && to.write_all(&buffer[..bytes]).is_ok();
                count.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn quoted(word: &str) -> String {
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
    fn received_bytes_are_counted_also_if_nobody_unpacks_them() {
        /// Takes the first bytes only, as a tar that failed does.
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        let received = |to: &mut dyn Write| {
            let (mut guest, host) = UnixStream::pair().expect("sockets");
            let count = AtomicU64::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    guest.write_all(&bytes).expect("it is read");
                    guest.shutdown(std::net::Shutdown::Write).expect("it ends");
                });
                receive(&host, &mut { to }, &count);
            });
            count.into_inner()
        };
        let mut unpacked = Vec::new();
        assert_eq!(received(&mut unpacked), 200_000);
        assert_eq!(unpacked, bytes);
        assert_eq!(received(&mut Full), 200_000);
    }

    #[test]
    fn lines_of_the_control_port() {
        assert_eq!(Event::parse("begin 6.12.1-amd64 2.71"), Some(Event::Begun { uptime: 2.71 }));
        assert_eq!(Event::parse("done 3 9.5"), Some(Event::Done { code: 3, uptime: 9.5 }));
        assert_eq!(Event::parse("end 2 10240"), Some(Event::End { paths: 2, bytes: 10240 }));
        assert_eq!(Event::parse("end 2"), None);
        assert_eq!(Event::parse("done 300 9.5"), None);
    }
}
