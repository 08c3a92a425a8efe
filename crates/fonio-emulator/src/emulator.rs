//! Creates an emulated device with its block device, file system and mount.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fonio_core::Nanos;
use fonio_host::{Confirmation, Entry, Filesystem, HostError, Ledger, Step};
use fonio_sim::device::Limits;
use fonio_system::emulated;

use crate::block_device::{BlockDevice, Through};
use crate::error::EmulatorError;
use crate::floor::{Floor, LONG_DELAY, Overheads, OverheadsByTime, SHORT_DELAY, has_ublk};
use crate::fuse;
use crate::memory::MemoryReport;
use crate::report::ServeReport;
use crate::serve::{Front, Order, ServeConfig};
use crate::server::Server;

/// Number of latency measurements before a device is refused, and the pause between two measurements.
const FLOOR_TRIES: u32 = 5;
const FLOOR_PAUSE: Duration = Duration::from_secs(1);

/// Options of an emulated device. [`Options::nbd`] and [`Options::through`] set [`ServeConfig::front`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration of the serving process.
    pub serve: ServeConfig,
    /// If set, serves a virtual machine on this Unix socket instead of creating a block device.
    pub nbd: Option<PathBuf>,
    /// The kernel driver of the block device. The default is ublk if it can be used, otherwise loop.
    pub through: Option<Through>,
    /// If set, creates this file system on the block device before the timing starts.
    pub filesystem: Option<Filesystem>,
    /// Whether the user has confirmed the path of the image, so that its contents may be overwritten.
    pub confirmation: Confirmation,
    /// If set, mounts the file system on this directory; an empty path means a new directory.
    pub mount: Option<PathBuf>,
    /// Mount options of the file system, separated by commas.
    pub mount_options: String,
    /// I/O scheduler of the block device.
    pub scheduler: String,
    /// Whether a device that is faster than this machine is served as fast as possible, rather than refused.
    /// If so, measured latencies are too high, never too low.
    pub at_floor: bool,
    /// Directory of the ledger of changes to the machine.
    pub state_dir: PathBuf,
}

impl Options {
    /// Creates options for a block device without file system and scheduler; the ledger is in `state_dir`.
    pub fn of(serve: ServeConfig, state_dir: PathBuf) -> Options {
        Options {
            serve,
            nbd: None,
            through: None,
            filesystem: None,
            confirmation: Confirmation::NamedOnce,
            mount: None,
            mount_options: String::new(),
            scheduler: "none".to_owned(),
            at_floor: false,
            state_dir,
        }
    }
}

/// A running emulated device. Dropping this value stops the device and undoes all changes that the device
/// made to the machine.
#[derive(Debug)]
pub struct Emulated {
    // The ledger is dropped first: it undoes the other steps while the device is still served, and then ends
    // the serving process.
    ledger: Ledger,
    server: Option<Server>,
    device: Option<BlockDevice>,
    mounted: Option<(PathBuf, Entry)>,
    floor: Option<Floor>,
    overheads: Option<OverheadsByTime>,
    depth: u32,
}

impl Emulated {
    /// Starts an emulated device. `command` must start a process that only calls [`crate::serve()`].
    ///
    /// First measures this machine's minimum latency, then creates and mounts the file system, both without
    /// timing. Finally starts the model's timing. Fails with [`EmulatorError`]; all steps are undone before
    /// the function returns.
    pub fn start(options: &Options, command: Command) -> Result<Emulated, EmulatorError> {
        if options.nbd.is_none() && !rustix::process::geteuid().is_root() {
            return Err(HostError::NotRoot { needs: "an emulated block device" }.into());
        }
        Ledger::recover(&options.state_dir)?;
        let mut ledger = Ledger::open(&options.state_dir)?;
        let mut serve = options.serve.clone();
        serve.front = match &options.nbd {
            Some(socket) => {
                let socket = std::path::absolute(socket).map_err(EmulatorError::system("find", socket))?;
                if socket.exists() {
                    let exists = std::io::ErrorKind::AlreadyExists;
                    return Err(EmulatorError::system("listen on", socket)(exists));
                }
                ledger.begin(Step::Socket { path: socket.clone() })?;
                Front::Nbd(socket)
            }
            None => match options.through.unwrap_or_else(usual) {
                Through::Loop => Front::Fuse(fuse_dir(&mut ledger)?),
                Through::Ublk => {
                    fonio_host::check_ublk()?;
                    Front::Ublk
                }
            },
        };
        let server = Server::start(&mut ledger, command, &serve)?;
        let mut emulated = Emulated {
            server: Some(server),
            device: None,
            mounted: None,
            floor: None,
            overheads: None,
            depth: 0,
            ledger,
        };
        match &serve.front {
            Front::Nbd(_) => {
                emulated.depth = emulated.limits().depth;
                emulated.server()?.order(&Order::Pace(OverheadsByTime::default()))?;
            }
            Front::Fuse(dir) => {
                let (file, limits) = (dir.join(fuse::FILE_NAME), emulated.limits().clone());
                let ledger = &mut emulated.ledger;
                let device = BlockDevice::on_file(ledger, &file, &limits, &options.scheduler)?;
                emulated.prepare(device, options)?;
            }
            Front::Ublk => {
                let (pid, limits) = (emulated.server_pid(), emulated.limits().clone());
                let Emulated { ledger, server, .. } = &mut emulated;
                let server = server.as_mut().expect("it was started above");
                let serve = |number| server.order(&Order::ServeUblk(number));
                let device = BlockDevice::served(ledger, &limits, &options.scheduler, pid, serve)?;
                emulated.prepare(device, options)?;
            }
        }
        Ok(emulated)
    }

    fn prepare(&mut self, device: BlockDevice, options: &Options) -> Result<(), EmulatorError> {
        let node = device.path().to_owned();
        note_profile(&mut self.ledger, &node, &options.serve.profile)?;
        self.depth = device.depth;
        self.device = Some(device);
        let floor = self.measure_floor(&node, options)?;
        self.server()?.order(&Order::Measure(SHORT_DELAY))?;
        let short = Overheads::measure(&node, &floor, SHORT_DELAY)?;
        self.server()?.order(&Order::Measure(LONG_DELAY))?;
        let long = Overheads::measure(&node, &floor, LONG_DELAY)?;
        let overheads = OverheadsByTime { short, long };
        self.overheads = Some(overheads);
        self.server()?.order(&Order::Unpace)?;
        if let Some(filesystem) = options.filesystem {
            fonio_host::check_empty(&node, options.confirmation)?;
            filesystem.make(&node)?;
        }
        if let Some(dir) = &options.mount {
            let dir = (!dir.as_os_str().is_empty()).then_some(dir.as_path());
            let filesystem = options.filesystem.unwrap_or(Filesystem::Ext4);
            let options = options.mount_options.as_str();
            self.mounted = Some(fonio_host::mount(&mut self.ledger, &node, filesystem, dir, options)?);
        }
        self.server()?.order(&Order::Pace(overheads))
    }

    /// Measures this machine's minimum latency. Repeats the measurement if the device is faster than the
    /// measured minimum, because other programs may have used the processors.
    fn measure_floor(&mut self, node: &Path, options: &Options) -> Result<Floor, EmulatorError> {
        let mut tries = 1;
        loop {
            let floor = Floor::measure(node)?;
            self.floor = Some(floor);
            match self.refuse_below(&floor, options) {
                Err(EmulatorError::BelowFloor { .. }) if tries < FLOOR_TRIES => {
                    tries += 1;
                    std::thread::sleep(FLOOR_PAUSE);
                }
                checked => return checked.map(|()| floor),
            }
        }
    }

    /// Fails if this machine cannot serve the device's fastest command in time, even with the dilation,
    /// unless the options accept the machine's minimum latency.
    fn refuse_below(&mut self, floor: &Floor, options: &Options) -> Result<(), EmulatorError> {
        let fastest = self.server()?.fastest;
        let dilated = fastest.0 as f64 * options.serve.dilate;
        if options.at_floor || dilated >= floor.least().0 as f64 {
            return Ok(());
        }
        let dilate = floor.least().0.div_ceil(fastest.0.max(1));
        let profile = options.serve.profile.clone();
        Err(EmulatorError::BelowFloor { profile, floor: floor.least(), fastest, dilate })
    }

    /// Returns the limits that the emulated device reports to its host.
    pub fn limits(&self) -> &Limits {
        &self.server.as_ref().expect("the server exists until the emulator is stopped").limits
    }

    /// Returns the block device; `None` if the device is served through NBD.
    pub fn device(&self) -> Option<&Path> {
        self.device.as_ref().map(BlockDevice::path)
    }

    /// Returns the driver of the block device; `None` if the device is served through NBD.
    pub fn through(&self) -> Option<Through> {
        self.device.as_ref().map(BlockDevice::through)
    }

    /// Returns the mount point of the device's file system.
    pub fn mount_dir(&self) -> Option<&Path> {
        self.mounted.as_ref().map(|(dir, _)| dir.as_path())
    }

    /// Returns the queue depth of the block device; the depth of a loop device is at least four.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the I/O path latency that is subtracted from the model's times; `None` with NBD, where the I/O
    /// path is not measured.
    pub fn overheads(&self) -> Option<&OverheadsByTime> {
        self.overheads.as_ref()
    }

    /// Returns the minimum latency of this machine; `None` with NBD, where the I/O path is not measured.
    pub fn floor(&self) -> Option<&Floor> {
        self.floor.as_ref()
    }

    /// Returns the minimum service time of a 4 KiB command on this device.
    pub fn fastest(&self) -> Nanos {
        self.server.as_ref().expect("the server exists until the emulator is stopped").fastest
    }

    /// Returns whether the kernel keeps the CPUs awake. Otherwise, completions are late by a CPU's wake-up
    /// time.
    pub fn cpus_awake(&self) -> bool {
        self.server.as_ref().expect("the server exists until the emulator is stopped").cpus_awake
    }

    /// Returns the locked memory of the serving process.
    pub fn memory(&self) -> &MemoryReport {
        &self.server.as_ref().expect("the server exists until the emulator is stopped").memory
    }

    /// Returns the process id of the serving process.
    pub fn server_pid(&self) -> u32 {
        self.server.as_ref().expect("the server exists until the emulator is stopped").pid()
    }

    /// Returns the ledger, so that the caller can add entries.
    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Returns whether the serving process is still running.
    pub fn runs(&mut self) -> bool {
        self.server.as_mut().is_some_and(Server::runs)
    }

    /// Completes all later commands at once, to prepare the device before a measurement. The model records
    /// these commands.
    pub fn unpace(&mut self) -> Result<(), EmulatorError> {
        self.server()?.order(&Order::Unpace)
    }

    /// Completes all later commands at the model's times again. All earlier commands count as complete, and
    /// the model's counters restart.
    pub fn pace(&mut self) -> Result<(), EmulatorError> {
        let overheads = self.overheads.unwrap_or_default();
        self.server()?.order(&Order::Pace(overheads))
    }

    /// Writes a mark with this name to the log of commands.
    pub fn mark(&mut self, name: &str) -> Result<(), EmulatorError> {
        self.server()?.order(&Order::Mark(name.to_owned()))
    }

    /// Returns the statistics of the serving process so far.
    pub fn report(&mut self) -> Result<ServeReport, EmulatorError> {
        self.server()?.report()
    }

    /// Completes commands at once, so that unmounting is fast, then unmounts, detaches and stops the device.
    /// The returned statistics do not include the commands that completed at once. Fails if some steps could
    /// not be undone. These steps stay in the ledger, and the next start of fonio retries them.
    pub fn stop(mut self) -> Result<ServeReport, EmulatorError> {
        let report = self.report();
        if report.is_ok() {
            self.server()?.order(&Order::Unpace)?;
        }
        if let Some((_, entry)) = self.mounted.take() {
            self.ledger.undo(entry)?;
        }
        if let Some(device) = self.device.take() {
            device.detach(&mut self.ledger)?;
        }
        if let Some(server) = self.server.take() {
            server.stop(&mut self.ledger)?;
        }
        self.ledger.close()?;
        report
    }

    fn server(&mut self) -> Result<&mut Server, EmulatorError> {
        self.server.as_mut().ok_or(EmulatorError::ServerGone)
    }
}

/// Notes the profile of the device in the state folder, so that reports and lists can name it.
fn note_profile(ledger: &mut Ledger, node: &Path, profile: &str) -> Result<(), EmulatorError> {
    let path = ledger.own_path(emulated::EXTENSION);
    let name = node.file_name().unwrap_or_default().to_string_lossy();
    let sequence = std::fs::read_to_string(Path::new("/sys/block").join(&*name).join("diskseq"));
    let sequence = sequence.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    ledger.begin(Step::File { path: path.clone() })?;
    emulated::note(&path, &name, sequence, profile).map_err(EmulatorError::system("write", &path))
}

fn usual() -> Through {
    if has_ublk() { Through::Ublk } else { Through::Loop }
}

/// Creates a directory where the serving process mounts the FUSE file system. First records the new directory
/// and the mount in the ledger.
fn fuse_dir(ledger: &mut Ledger) -> Result<PathBuf, EmulatorError> {
    let dir = ledger.own_path("fuse");
    ledger.begin(Step::Directory { path: dir.clone() })?;
    std::fs::create_dir(&dir).map_err(EmulatorError::system("make", &dir))?;
    ledger.begin(Step::Mount { dir: dir.clone(), source: fuse::SOURCE.to_owned() })?;
    Ok(dir)
}
