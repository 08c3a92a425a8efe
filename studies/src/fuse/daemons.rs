//! Starts the measured FUSE daemons, and measures the resources that they use.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use fonio_system::{MountTable, Task};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Configuration;
use super::confine::Confined;
use crate::{debian_sources, process};

/// The path of a source file that this study compiles. It is in Debian's package libfuse3-dev.
const PLAIN_SOURCE: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";

/// The path of another example in libfuse's sources. No package of Debian 12 has this file.
const HP_SOURCE: &str = "example/passthrough_hp.cc";

/// What libfuse's own build finds out about Linux.
const HP_DEFINITIONS: [&str; 3] = ["-DHAVE_UTIMENSAT", "-DHAVE_POSIX_FALLOCATE", "-DHAVE_SETXATTR"];

/// The server that answers without doing anything.
const NOTHING_SOURCE: &str = include_str!("nothing.c");

/// The kernel parameter that allows FUSE over io_uring. Kernels before Linux 6.14 do not have it.
const ALLOWS_RINGS: &str = "/sys/module/fuse/parameters/enable_uring";

/// A way to mount a directory at a second mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon<'a> {
    /// No daemon: the directory itself is used.
    None,
    Bindfs,
    /// libfuse's passthrough example, with one thread.
    Plain,
    /// libfuse's passthrough example for high performance.
    Hp,
    /// A server that answers without doing anything. It keeps only names.
    Nothing(Transport),
    /// A mount by `fonio mount` with these options.
    Fonio(&'a str),
}

/// The way on which requests come from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `/dev/fuse`, with one thread.
    Device,
    IoUring,
}

impl Transport {
    /// Returns the argument of the server that answers without doing anything.
    fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::IoUring => "uring",
        }
    }
}

/// The paths of the daemons' programs; empty for programs that are not needed.
pub struct Programs {
    pub fonio: PathBuf,
    plain: PathBuf,
    hp: PathBuf,
    nothing: PathBuf,
}

impl Programs {
    /// Builds the programs of the configurations. Removes configurations that this machine cannot run, and
    /// prints the reason.
    pub fn build(folder: &Path, configurations: &mut Vec<Configuration>) -> Result<Self> {
        let mut programs = Self::only_fonio(crate::emulated::fonio()?);
        let mut possible = Vec::new();
        for (name, daemon) in configurations.drain(..) {
            match programs.add(folder, daemon)? {
                None => possible.push((name, daemon)),
                Some(reason) => println!("{name} is left out: {reason}"),
            }
        }
        *configurations = possible;
        Ok(programs)
    }

    /// Returns programs with which only `fonio mount` can be started.
    pub fn only_fonio(fonio: PathBuf) -> Self {
        Self { fonio, plain: PathBuf::new(), hp: PathBuf::new(), nothing: PathBuf::new() }
    }

    /// Builds the program of a daemon. Returns the reason if this machine cannot run the daemon.
    fn add(&mut self, folder: &Path, daemon: Daemon<'_>) -> Result<Option<String>> {
        match daemon {
            Daemon::None | Daemon::Bindfs | Daemon::Fonio(_) => {}
            Daemon::Plain => {
                self.plain = folder.join("passthrough_ll");
                let mut compiler = Command::new("cc");
                compiler.args(["-O2", "-w", PLAIN_SOURCE]).args(flags_of_libfuse()?);
                process::run(compiler.arg("-o").arg(&self.plain))?;
            }
            Daemon::Hp => {
                let source = match debian_sources::fetch("fuse3", &folder.join("libfuse"), HP_SOURCE) {
                    Ok(sources) => sources.join(HP_SOURCE),
                    Err(error) => return Ok(Some(format!("its source cannot be fetched: {error:#}"))),
                };
                self.hp = folder.join("passthrough_hp");
                let mut compiler = Command::new("c++");
                compiler.args(["-O2", "-std=c++17", "-w"]).args(HP_DEFINITIONS).arg(source);
                compiler.args(flags_of_libfuse()?);
                process::run(compiler.arg("-o").arg(&self.hp))?;
            }
            Daemon::Nothing(transport) => {
                if transport == Transport::IoUring && !has_rings() {
                    return Ok(Some("this kernel has no FUSE over io_uring.".to_owned()));
                }
                self.nothing = folder.join("nothing");
                let source = folder.join("nothing.c");
                std::fs::write(&source, NOTHING_SOURCE)?;
                let mut compiler = Command::new("cc");
                compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&self.nothing).arg(&source);
                process::run(&mut compiler)?;
            }
        }
        Ok(None)
    }
}

fn flags_of_libfuse() -> Result<Vec<String>> {
    let flags = process::output(Command::new("pkg-config").args(["--cflags", "--libs", "fuse3"]))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

fn has_rings() -> bool {
    // The kernel loads its module for FUSE when the device is opened.
    File::open("/dev/fuse").is_ok() && Path::new(ALLOWS_RINGS).exists()
}

/// The resources that a daemon has used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    pub cpu_seconds: f64,
    pub switches: u64,
    /// Number of write calls to the file system below; only `fonio mount` reports this number.
    pub write_calls: Option<u64>,
}

impl Used {
    /// Returns the resources that the daemon has used since `before` was measured.
    pub fn since(self, before: Self) -> Self {
        let calls = self.write_calls.zip(before.write_calls);
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            switches: self.switches.saturating_sub(before.switches),
            write_calls: calls.map(|(after, before)| after - before),
        }
    }
}

/// A mounted directory, or the directory itself. Dropping this value unmounts the directory.
pub struct Mounted {
    pub dir: PathBuf,
    daemon: Option<Child>,
    is_ours: bool,
    fonio: PathBuf,
}

impl Mounted {
    /// Mounts `source` at `dir`; if requested, limits the daemon's processor time.
    pub fn start(
        daemon: Daemon<'_>,
        programs: &Programs,
        source: &Path,
        dir: &Path,
        confined: Option<&Confined>,
    ) -> Result<Self> {
        let fonio = programs.fonio.clone();
        let mut command = match daemon {
            Daemon::None => return Ok(Self { dir: source.to_owned(), daemon: None, is_ours: false, fonio }),
            Daemon::Bindfs => {
                let mut command = process::bound_to_this(Path::new("bindfs"));
                command.arg("-f").arg(source).arg(dir);
                command
            }
            Daemon::Plain => {
                let mut command = process::bound_to_this(&programs.plain);
                let named = format!("source={}", source.display());
                command.args(["-f", "-s", "-o", &named]).arg(dir);
                command
            }
            Daemon::Hp => {
                let mut command = process::bound_to_this(&programs.hp);
                command.arg("--foreground").arg(source).arg(dir);
                command
            }
            Daemon::Nothing(transport) => {
                let mut command = process::bound_to_this(&programs.nothing);
                command.arg(transport.word()).arg(dir);
                command
            }
            Daemon::Fonio(options) => {
                let mut command = process::bound_to_this(&programs.fonio);
                command.args(["mount", "--foreground", "--mount-options", options]).arg(source).arg(dir);
                command.stdout(Stdio::piped());
                command
            }
        };
        let mut child = command.stdin(Stdio::null()).spawn()?;
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut String::new())?;
        }
        let is_ours = matches!(daemon, Daemon::Fonio(_));
        let mounted = Self { dir: dir.to_owned(), daemon: Some(child), is_ours, fonio };
        mounted.wait_until_there()?;
        if let (Some(confined), Some(daemon)) = (confined, &mounted.daemon) {
            confined.take_in(daemon.id())?;
        }
        Ok(mounted)
    }

    fn wait_until_there(&self) -> Result<()> {
        for _ in 0..200 {
            if MountTable::read()?.at(&self.dir).is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the daemon did not mount within two seconds")
    }

    /// Returns the resources that the daemon has used, without the context switches of ended threads.
    pub fn used(&self) -> Used {
        let Some(daemon) = &self.daemon else { return Used::default() };
        let process = Task::of(daemon.id());
        let ticks = process.stat().map_or(0, |stat| stat.user_ticks + stat.system_ticks);
        let mut switches = 0;
        for task in std::fs::read_dir(process.file("task")).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            switches += lines.filter_map(|line| line.split('\t').nth(1)?.parse::<u64>().ok()).sum::<u64>();
        }
        let write_calls = if self.is_ours { self.write_calls() } else { None };
        Used {
            // The kernel's tick is a hundredth of a second.
            cpu_seconds: ticks as f64 / 100.0,
            switches,
            write_calls,
        }
    }

    fn write_calls(&self) -> Option<u64> {
        let asked =
            Command::new(&self.fonio).args(["mount", "stats", "--json"]).arg(&self.dir).output().ok()?;
        let said: Value = serde_json::from_slice(&asked.stdout).ok()?;
        said["write_calls_below"].as_u64()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // Every FUSE daemon ends when its mount is removed.
            let _ = Command::new("umount").arg(&self.dir).status();
            let _ = daemon.wait();
        }
    }
}
