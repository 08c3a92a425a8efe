//! Starts emulated devices with `fonio device emulate`, and measures them with `fonio bench`, as a user would
//! do.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{process, tools};

/// Builds fonio and returns its path. Fails if this process is not root (the emulator needs root), or if the
/// build fails.
pub fn fonio() -> Result<PathBuf> {
    if !process::is_root() {
        bail!("emulated block devices need root");
    }
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    process::build_fonio()
}

/// The options of an emulated device.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The name of a shipped profile, or the path of a profile file.
    pub profile: &'a str,
    /// The size of the device, in the format of `--size`.
    pub size: &'a str,
    /// The I/O scheduler of the device's queue.
    pub scheduler: &'a str,
    /// The seed of the device's model.
    pub seed: u64,
    /// Number of bytes that count as already written, in the format of `--written`.
    pub written: Option<u64>,
    /// The name of the file system to create, and its mount point.
    pub mounted: Option<(&'a str, &'a Path)>,
}

impl<'a> Options<'a> {
    /// Returns options for a new, unformatted device without a scheduler.
    pub fn bare(profile: &'a str, size: &'a str) -> Self {
        Self { profile, size, scheduler: "none", seed: 1, written: None, mounted: None }
    }
}

/// A running `fonio device emulate`. The device is removed when this value is dropped or this process ends.
pub struct Emulated {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The path of the device. For a device of a virtual machine, the path of the socket on which the device
    /// is served.
    pub device: String,
}

impl Emulated {
    /// Starts an emulated device and waits until it is ready.
    pub fn start(fonio: &Path, options: &Options<'_>) -> Result<Self> {
        let mut command = process::bound_to_this(fonio);
        command.args(["device", "emulate", options.profile, "--json", "--size", options.size]);
        command.args(["--scheduler", options.scheduler, "--seed", &options.seed.to_string()]);
        if let Some(bytes) = options.written {
            command.arg(format!("--written={bytes}B"));
        }
        if let Some((file_system, dir)) = options.mounted {
            command.args(["--fs", file_system, "--mount"]).arg(dir);
        }
        let (mut emulated, ready) = Self::spawn(command)?;
        ready["ready"]["device"]
            .as_str()
            .context("the emulator did not name its device")?
            .clone_into(&mut emulated.device);
        Ok(emulated)
    }

    /// Starts an emulated device for a virtual machine. The device is served on the Unix socket `socket`.
    pub fn served(fonio: &Path, profile: &str, size: &str, socket: &Path) -> Result<Self> {
        let mut command = process::bound_to_this(fonio);
        command.args(["device", "emulate", profile, "--json", "--size", size, "--nbd"]).arg(socket);
        let (mut emulated, _) = Self::spawn(command)?;
        emulated.device = socket.display().to_string();
        Ok(emulated)
    }

    /// Starts the emulator and waits for the first line of its output.
    fn spawn(mut command: Command) -> Result<(Self, Value)> {
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut child = spawned.with_context(|| format!("cannot start {}", process::shown(&command)))?;
        let output = BufReader::new(child.stdout.take().context("the output is not piped")?);
        let mut emulated = Self { child, output, device: String::new() };
        let ready = emulated.hear().context("the emulator did not start")?;
        Ok((emulated, ready))
    }

    /// Stops the device and returns the busy time of its model.
    pub fn busy_ns(mut self) -> Result<u64> {
        self.end();
        let end = self.hear().context("the emulator printed no final report")?;
        end["end"]["report"]["busy_ns"].as_u64().context("the report has no busy time")
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the emulator ended; its error is printed above");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Asks the emulator process to end. Before it ends, the process undoes its changes.
    fn end(&self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.end();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs `program` with the highest priority, as the process that serves the device
/// runs. Otherwise, the measurement would include the times for which the program waits for a CPU.
pub fn before_all_others(program: &Path) -> Command {
    let mut command = process::bound_to_this(Path::new("chrt"));
    command.args(["--fifo", "1"]).arg(program);
    command
}

/// Runs `fonio bench device` with `arguments` on a new device of `profile`, and writes the result to `out`.
pub fn bench(fonio: &Path, profile: &str, arguments: &[&str], out: &Path) -> Result<()> {
    let emulated = Emulated::start(fonio, &Options::bare(profile, "1GiB"))?;
    let mut command = before_all_others(fonio);
    // The device is named twice to confirm that it may be overwritten. This is safe, because the device is
    // new.
    command.args(["bench", "device", &emulated.device, "--erase", &emulated.device]);
    process::run(command.args(arguments).arg("--output").arg(out).stdout(Stdio::null()))
}

/// Runs fonio in a guest. Returns fonio's output, and the guest's boot time in seconds.
pub fn in_guest(command: &mut Command) -> Result<(String, f64)> {
    let out = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    process::check_signals()?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{} failed:\n{said}", process::shown(command));
    let boot = said.lines().find_map(|line| line.rsplit_once(", including ")?.1.strip_suffix(" s to boot."));
    let boot = boot.and_then(|boot| boot.parse().ok()).context("fonio printed no boot time")?;
    Ok((String::from_utf8(out.stdout)?, boot))
}
