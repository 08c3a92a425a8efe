//! Cuts the power many times, and checks the image after each cut.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use fonio_host::{Filesystem, HostError, Ledger, LoopDevice, LoopOptions, Step, private_folder};
use fonio_sim::Random;
use fonio_system::procfs;
use serde::{Deserialize, Serialize};

use crate::cuts::{Cut, CutImages, Tear};
use crate::emulator::{Emulated, Options};
use crate::error::EmulatorError;
use crate::log::Log;
use crate::serve::ServeConfig;

/// The mark in the log at the start of the workload.
pub const WORKLOAD_BEGINS: &str = "workload begins";
/// The mark in the log at the end of the workload.
pub const WORKLOAD_ENDS: &str = "workload ends";

/// Maximum number of bytes kept of a check's output.
const SAID_BYTES_MAX: usize = 1000;

/// The emulated device on which the images are mounted to measure recovery.
#[derive(Clone, Copy)]
pub struct RecoveryDevice<'a> {
    /// Options of the device that lost power.
    pub options: &'a Options,
    /// Returns the command for the serving process, as for [`Emulated::start`].
    pub server: &'a dyn Fn() -> Command,
}

/// The options for cutting the power and checking the images.
#[derive(Clone)]
pub struct PowerCutOptions<'a> {
    /// Number of power cuts.
    pub count: u32,
    /// Seed for the times of the cuts and for the surviving units.
    pub seed: u64,
    /// The size of the units into which writes in doubt are torn.
    pub tear: Tear,
    /// The file system on the device. Before the check, fonio mounts this file system, so that its journal is
    /// replayed.
    pub filesystem: Filesystem,
    /// Shell command that checks an image. The command gets `FONIO_MOUNT` (mount point) and `FONIO_IMAGE`
    /// (path of the image); exit code 0 means success.
    pub check: String,
    /// Directory for the images, which are in a private folder there; only one image exists at a time. The
    /// directory needs space for twice the size of the data.
    pub scratch: PathBuf,
    /// Emulated device on which each image is mounted, with the model's timing; `None` for a loop device at
    /// this machine's speed.
    pub recovery: Option<RecoveryDevice<'a>>,
}

/// The results of all power cuts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerCuts {
    /// The seed, which determines all power cuts.
    pub seed: u64,
    /// Number of power cuts.
    pub cuts: u32,
    /// Number of cuts after which the check succeeded.
    pub survived: u32,
    /// The cuts after which the check failed.
    pub failures: Vec<CutOutcome>,
    /// Mount time in seconds on the emulated device after each cut. The mount time includes file system
    /// recovery. Empty without [`PowerCutOptions::recovery`].
    pub recovery_s: Vec<f64>,
}

/// A power cut after which the check failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOutcome {
    /// The power cut.
    pub cut: Cut,
    /// Whether the file system could be mounted after the cut.
    pub mounted: bool,
    /// The exit code of the check; `None` if the check did not run, or a signal ended it.
    pub exit_code: Option<i32>,
    /// The end of the output of the check or, if mounting failed, of mount.
    pub said: String,
}

impl PowerCuts {
    /// Cuts the power at random moments of the workload in `log`, and checks every image.
    ///
    /// Calls `stop` before each cut, and returns the results so far if `stop` returns true. Fails with
    /// [`EmulatorError::NothingWritten`], or an error while creating an image. A failed check is not an
    /// error.
    pub fn run(
        ledger: &mut Ledger,
        log: &Log,
        options: &PowerCutOptions<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<PowerCuts, EmulatorError> {
        let from = log.mark(WORKLOAD_BEGINS)?.unwrap_or(0);
        let to = log.mark(WORKLOAD_ENDS)?.map_or(log.records.len(), |mark| mark - 1);
        if from >= to {
            return Err(EmulatorError::NothingWritten);
        }
        let folder = private_folder(ledger, &options.scratch)?;
        let base = folder.join(format!("fonio-{}-base", std::process::id()));
        let image = folder.join(format!("fonio-{}-cut", std::process::id()));
        let base_entry = ledger.begin(Step::File { path: base.clone() })?;
        let mut images = CutImages::new(log, options.tear, &base)?;
        let mut done = PowerCuts {
            seed: options.seed,
            cuts: 0,
            survived: 0,
            failures: Vec::new(),
            recovery_s: Vec::new(),
        };
        for cut in Cut::plan(from..to, options.count, Random::new(options.seed).next_u64()) {
            if stop() {
                break;
            }
            let entry = ledger.begin(Step::File { path: image.clone() })?;
            images.make(cut, &image)?;
            done.cuts += 1;
            match check(ledger, cut, &image, options, &mut done.recovery_s)? {
                None => done.survived += 1,
                Some(outcome) => done.failures.push(outcome),
            }
            ledger.undo(entry)?;
        }
        ledger.undo(base_entry)?;
        Ok(done)
    }
}

/// Mounts the ext4 file system of each cut's image on a loop device, and calls `look` with the mount point, or
/// with the message of `mount` if mounting failed. Stops when `look` returns false.
///
/// The cuts must be in the order of [`Cut::plan`]. `place` is the directory for the images, as in
/// [`PowerCutOptions::scratch`]. Fails with [`EmulatorError`] if an image cannot be created or removed.
pub fn after_cuts(
    ledger: &mut Ledger,
    log: &Log,
    tear: Tear,
    place: &Path,
    cuts: &[Cut],
    look: &mut dyn FnMut(Cut, Result<&Path, &str>) -> bool,
) -> Result<(), EmulatorError> {
    let folder = private_folder(ledger, place)?;
    let base = folder.join(format!("fonio-{}-base", std::process::id()));
    let image = folder.join(format!("fonio-{}-cut", std::process::id()));
    let base_entry = ledger.begin(Step::File { path: base.clone() })?;
    let mut images = CutImages::new(log, tear, &base)?;
    for cut in cuts {
        let entry = ledger.begin(Step::File { path: image.clone() })?;
        images.make(*cut, &image)?;
        let device = LoopDevice::attach(ledger, &image, &LoopOptions::default())?;
        let goes_on = match fonio_host::mount(ledger, device.path(), Filesystem::Ext4, None, "") {
            Ok((dir, mounted)) => {
                let goes_on = look(*cut, Ok(&dir));
                ledger.undo(mounted)?;
                goes_on
            }
            Err(HostError::ProgramFailed { output, .. }) => look(*cut, Err(&output)),
            Err(error) => return Err(error.into()),
        };
        device.detach(ledger)?;
        ledger.undo(entry)?;
        if !goes_on {
            break;
        }
    }
    ledger.undo(base_entry)?;
    Ok(())
}

/// Mounts the image and runs the check; returns `None` if the check succeeds.
fn check(
    ledger: &mut Ledger,
    cut: Cut,
    image: &Path,
    options: &PowerCutOptions<'_>,
    recovery_s: &mut Vec<f64>,
) -> Result<Option<CutOutcome>, EmulatorError> {
    let Some(recovery) = options.recovery else {
        let device = LoopDevice::attach(ledger, image, &LoopOptions::default())?;
        let outcome = mount_and_ask(ledger, cut, image, device.path(), options, &mut || Ok(()))?;
        device.detach(ledger)?;
        return Ok(outcome);
    };
    let serve = ServeConfig {
        image: Some(image.to_owned()),
        log: None,
        faults: Vec::new(),
        ..recovery.options.serve.clone()
    };
    let bare = Options { serve, filesystem: None, mount: None, ..recovery.options.clone() };
    let mut emulated = Emulated::start(&bare, (recovery.server)())?;
    let device = emulated.device().expect("the emulated device is a block device").to_owned();
    let began = Instant::now();
    let outcome = mount_and_ask(ledger, cut, image, &device, options, &mut || {
        recovery_s.push(began.elapsed().as_secs_f64());
        // Only recovery is measured, not the check that follows.
        emulated.unpace()
    })?;
    emulated.stop()?;
    Ok(outcome)
}

/// Mounts the image on `device`, calls `mounted`, and runs the check; returns `None` if the check succeeds.
fn mount_and_ask(
    ledger: &mut Ledger,
    cut: Cut,
    image: &Path,
    device: &Path,
    options: &PowerCutOptions<'_>,
    mounted: &mut dyn FnMut() -> Result<(), EmulatorError>,
) -> Result<Option<CutOutcome>, EmulatorError> {
    match fonio_host::mount(ledger, device, options.filesystem, None, "") {
        Err(HostError::ProgramFailed { output, .. }) => {
            Ok(Some(CutOutcome { cut, mounted: false, exit_code: None, said: tail(output.as_bytes()) }))
        }
        Err(error) => Err(error.into()),
        Ok((dir, entry)) => {
            mounted()?;
            let outcome = ask(&options.check, &dir, image, cut)?;
            ledger.undo(entry)?;
            Ok(outcome)
        }
    }
}

fn ask(check: &str, dir: &Path, image: &Path, cut: Cut) -> Result<Option<CutOutcome>, EmulatorError> {
    let out = Command::new("sh")
        .args(["-c", check])
        .env("FONIO_MOUNT", dir)
        .env("FONIO_IMAGE", image)
        .stdin(Stdio::null())
        .output()
        .map_err(EmulatorError::system("start", "sh"))?;
    if out.status.success() {
        return Ok(None);
    }
    let said = if out.stderr.is_empty() { out.stdout } else { out.stderr };
    Ok(Some(CutOutcome { cut, mounted: true, exit_code: out.status.code(), said: tail(&said) }))
}

fn tail(said: &[u8]) -> String {
    let from = said.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&said[from..]).trim().to_owned()
}

/// Returns the best place for a folder with images: a tmpfs if the tmpfs has space for twice `bytes`,
/// otherwise the temporary folder. Other users can write to this place, so files in it need a
/// [`private_folder`].
pub fn scratch(bytes: u64) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    // The free space of a tmpfs may exceed the available memory.
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = procfs::memory(&meminfo, "MemAvailable").map_or(0, |bytes| bytes.0);
    let room = room.min(free / 2);
    if room > bytes.saturating_mul(2) { memory.to_owned() } else { std::env::temp_dir() }
}
