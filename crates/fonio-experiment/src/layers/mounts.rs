//! Manages the directories, FUSE mounts and queue settings of a layer measurement. The ledger undoes all
//! these changes, even after kill -9.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fonio_host::{Entry, Ledger, Step, borrow_scheduler};

use super::LayerRun;
use crate::error::ExperimentError;
use crate::test_bed::{Roles, enter_process};

pub(super) struct Mounts {
    ledger: Ledger,
    source: PathBuf,
    mounted: PathBuf,
}

impl Mounts {
    /// Creates a directory in `dir` for the test files, and a mount point for this directory.
    pub(super) fn make(dir: &Path) -> Result<Mounts, ExperimentError> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let dir = std::fs::canonicalize(dir).map_err(ExperimentError::system("find", dir))?;
        let own = dir.join(format!(".fonio-layers-{}", std::process::id()));
        let entry = ledger.begin(Step::Tree { path: own.clone() })?;
        if let Err(error) = std::fs::create_dir(&own) {
            // A directory that already exists is not ours, so it must stay.
            ledger.end(entry)?;
            return Err(ExperimentError::system("make", own)(error));
        }
        let (source, mounted) = (own.join("source"), own.join("mounted"));
        for dir in [&source, &mounted] {
            std::fs::create_dir(dir).map_err(ExperimentError::system("make", dir))?;
        }
        Ok(Mounts { ledger, source, mounted })
    }

    /// Returns the directory on the file system itself, not its FUSE mount.
    pub(super) fn source(&self) -> &Path {
        &self.source
    }

    /// Calls a measurement with the scheduler of the device `name` set to `none`.
    pub(super) fn without_scheduler(
        &mut self,
        device: &str,
        measure: impl FnOnce() -> LayerRun,
    ) -> Result<LayerRun, ExperimentError> {
        let entry = match borrow_scheduler(&Path::new("/dev").join(device), "none", &mut self.ledger) {
            Ok(entry) => entry,
            Err(error) => {
                return Ok(LayerRun::not_measured(format!("cannot switch the scheduler: {error}")));
            }
        };
        let run = measure();
        self.ledger.undo(entry)?;
        Ok(run)
    }

    /// Calls `measure` with the source mounted through FUSE with `options`. The function `measure` receives
    /// the paths of the mount and of the source.
    pub(super) fn mounted(
        &mut self,
        options: &str,
        roles: &Roles,
        measure: impl FnOnce(&Path, &Path) -> Result<LayerRun, ExperimentError>,
    ) -> Result<LayerRun, ExperimentError> {
        let shown = self.source.to_string_lossy().into_owned();
        let mount = self.ledger.begin(Step::Mount { dir: self.mounted.clone(), source: shown })?;
        let run = match Daemon::start(&self.source, &self.mounted, options, roles, &mut self.ledger)? {
            Ok(daemon) => {
                let run = measure(&self.mounted, &self.source);
                daemon.stop(&mut self.ledger)?;
                run
            }
            Err(reason) => Ok(LayerRun::not_measured(reason)),
        };
        self.ledger.undo(mount)?;
        run
    }

    pub(super) fn close(self) -> Result<(), ExperimentError> {
        Ok(self.ledger.close()?)
    }
}

struct Daemon {
    child: Child,
    /// The ledger's entry of the process; `None` if the process had ended before the ledger could record the
    /// process.
    entry: Option<Entry>,
}

impl Daemon {
    /// Starts the process that serves a mount, and waits until the mount is ready. The inner error is the
    /// reason why the mount failed.
    fn start(
        source: &Path,
        dir: &Path,
        options: &str,
        roles: &Roles,
        ledger: &mut Ledger,
    ) -> Result<Result<Daemon, String>, ExperimentError> {
        let mut command = Command::new(&roles.program);
        command.args(&roles.mount).args(["--mount-options", options]).args([source, dir]);
        // Use a separate process group, so that Ctrl-C does not kill the process during a measurement.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(ExperimentError::system("start", &roles.program))?;
        let entry = enter_process(ledger, &child)?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let daemon = Daemon { child, entry };
        let mut line = String::new();
        let (Some(output), Some(mut errors)) = (output, errors) else { unreachable!("both are piped") };
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(ExperimentError::system("read from", &roles.program))?;
        if line.is_empty() {
            let mut reason = String::new();
            let read = errors.read_to_string(&mut reason);
            read.map_err(ExperimentError::system("read from", &roles.program))?;
            daemon.stop(ledger)?;
            let lines: Vec<&str> =
                reason.trim().trim_start_matches("fonio: ").lines().map(str::trim).collect();
            return Ok(Err(lines.join("; ")));
        }
        // Later messages of the process concern the measurement, so show them to the user.
        std::thread::spawn(move || io::copy(&mut errors, &mut io::stderr()));
        Ok(Ok(daemon))
    }

    /// Asks the serving process to unmount and exit, and waits until it has exited.
    fn stop(mut self, ledger: &mut Ledger) -> Result<(), ExperimentError> {
        // `kill` fails if the process has already ended; ignore this failure.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.child.wait();
        match self.entry.take() {
            Some(entry) => Ok(ledger.end(entry)?),
            None => Ok(()),
        }
    }
}
