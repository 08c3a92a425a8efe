//! Cutting the power many times, and asking each time whether what is left is right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fonio_host::{Filesystem, HostError, Ledger, LoopDevice, LoopOptions, Step};
use fonio_sim::Random;
use fonio_system::procfs;
use serde::{Deserialize, Serialize};

use crate::EmulatorError;
use crate::cuts::{Cut, CutImages, Tear};
use crate::log::Log;

/// The mark in the log at which the workload began.
pub const WORKLOAD_BEGINS: &str = "workload begins";
/// The mark in the log at which it had ended.
pub const WORKLOAD_ENDS: &str = "workload ends";

/// How much of what a check said is kept.
const SAID_BYTES_MAX: usize = 1000;

/// What is to be done with each image.
#[derive(Clone, Debug)]
pub struct PowerCutOptions {
    /// How many cuts.
    pub count: u32,
    /// For the moments and for what is kept.
    pub seed: u64,
    /// Into which units writes in doubt tear.
    pub tear: Tear,
    /// The file system on the device; it is mounted, which replays its journal, before the check.
    pub filesystem: Filesystem,
    /// A shell command. `FONIO_MOUNT` is where the file system is, `FONIO_IMAGE` the image. What survived exits with 0.
    pub check: String,
    /// Where images are made, one at a time; needs twice the room of the data.
    pub scratch: PathBuf,
}

/// What came of all cuts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCuts {
    /// The seed from which all of this follows.
    pub seed: u64,
    /// How many were made.
    pub cuts: u32,
    /// After how many the check was content.
    pub survived: u32,
    /// The others.
    pub failures: Vec<CutOutcome>,
}

/// A cut after which the check was not content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOutcome {
    /// The cut.
    pub cut: Cut,
    /// The file system could be mounted.
    pub mounted: bool,
    /// The check's exit code; `None` where it was not run or ended by a signal.
    pub exit_code: Option<i32>,
    /// The end of what mount or the check said.
    pub said: String,
}

impl PowerCuts {
    /// Cuts the power at random moments of the workload that `log` holds and checks every image.
    ///
    /// `stop` is asked before each cut; the cuts made so far are the result then.
    ///
    /// # Errors
    ///
    /// [`EmulatorError::NothingWritten`], and what keeps images from being made; a check that is not content is none.
    pub fn run(
        ledger: &mut Ledger,
        log: &Log,
        options: &PowerCutOptions,
        stop: &dyn Fn() -> bool,
    ) -> Result<PowerCuts, EmulatorError> {
        let from = log.mark(WORKLOAD_BEGINS)?.unwrap_or(0);
        let to = log.mark(WORKLOAD_ENDS)?.map_or(log.records.len(), |mark| mark - 1);
        if from >= to {
            return Err(EmulatorError::NothingWritten);
        }
        let base = options.scratch.join(format!("fonio-{}-base", std::process::id()));
        let image = options.scratch.join(format!("fonio-{}-cut", std::process::id()));
        let base_entry = ledger.begin(Step::File { path: base.clone() })?;
        let mut images = CutImages::new(log, options.tear, &base)?;
        let mut done = PowerCuts { seed: options.seed, cuts: 0, survived: 0, failures: Vec::new() };
        for cut in Cut::plan(from..to, options.count, Random::new(options.seed).next_u64()) {
            if stop() {
                break;
            }
            let entry = ledger.begin(Step::File { path: image.clone() })?;
            images.make(cut, &image)?;
            done.cuts += 1;
            match check(ledger, cut, &image, options)? {
                None => done.survived += 1,
                Some(outcome) => done.failures.push(outcome),
            }
            ledger.undo(entry)?;
        }
        ledger.undo(base_entry)?;
        Ok(done)
    }
}

/// Mounts the image and runs the check; `None` where it is content.
fn check(
    ledger: &mut Ledger,
    cut: Cut,
    image: &Path,
    options: &PowerCutOptions,
) -> Result<Option<CutOutcome>, EmulatorError> {
    let device = LoopDevice::attach(ledger, image, &LoopOptions::default())?;
    let outcome = match fonio_host::mount(ledger, device.path(), options.filesystem, None, "") {
        Err(HostError::ProgramFailed { output, .. }) => {
            Some(CutOutcome { cut, mounted: false, exit_code: None, said: tail(output.as_bytes()) })
        }
        Err(error) => return Err(error.into()),
        Ok((dir, entry)) => {
            let outcome = ask(&options.check, &dir, image, cut)?;
            ledger.undo(entry)?;
            outcome
        }
    };
    device.detach(ledger)?;
    Ok(outcome)
}

fn ask(check: &str, dir: &Path, image: &Path, cut: Cut) -> Result<Option<CutOutcome>, EmulatorError> {
    let out = Command::new("sh")
        .args(["-c", check])
        .env("FONIO_MOUNT", dir)
        .env("FONIO_IMAGE", image)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| EmulatorError::Command { command: check.to_owned(), source })?;
    if out.status.success() {
        return Ok(None);
    }
    let said = if out.stderr.is_empty() { out.stdout } else { out.stderr };
    Ok(Some(CutOutcome { cut, mounted: true, exit_code: out.status.code(), said: tail(&said) }))
}

/// The end of what a program said.
fn tail(said: &[u8]) -> String {
    let from = said.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&said[from..]).trim().to_owned()
}

/// Where images are best made: in memory where there is room for `bytes` twice, else in the temporary folder.
pub fn scratch(bytes: u64) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    // A tmpfs of half the memory may be larger than what is free of it.
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = procfs::memory(&meminfo, "MemAvailable").map_or(0, |bytes| bytes.0);
    let room = room.min(free / 2);
    if room > bytes.saturating_mul(2) { memory.to_owned() } else { std::env::temp_dir() }
}
