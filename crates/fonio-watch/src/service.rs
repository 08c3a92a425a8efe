//! Starts and stops the watch: as a service of systemd, or as a separate process on machines without systemd.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fonio_system::{ProcessId, TrustedFolder};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::WatchError;
use crate::folders::{Folders, kept_in};
use crate::own_file;
use crate::settings::Settings;

/// The name of the systemd unit, its packaged path, and the path where [`install`] writes it.
const UNIT: &str = "fonio-watch.service";
const PACKAGED: &str = "/usr/lib/systemd/system/fonio-watch.service";
const INSTALLED: &str = "/etc/systemd/system/fonio-watch.service";
/// The text of the packaged unit file.
const TEXT: &str = include_str!("../fonio-watch.service");
/// Path of the program in the packaged unit.
const PROGRAM: &str = "/usr/bin/fonio";
/// Time limits for starting and stopping the watch; stopping includes writing the last minutes. On a slow machine, the
/// kernel needs half a minute to check the BPF programs.
const BEGINS: Duration = Duration::from_secs(90);
const ENDS: Duration = Duration::from_secs(30);
/// How often systemd is asked whether the watch has failed.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Errors while the watch is started or stopped as a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The files of the watch cannot be used.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A system operation failed.
    #[error("cannot {doing}")]
    System {
        /// The failed operation: `write /etc/…`, `start systemctl`, …
        doing: String,
        /// The operating system's error.
        #[source]
        cause: io::Error,
    },
    /// systemctl failed.
    #[error("`systemctl {words}` failed: {said}")]
    Systemctl {
        /// Arguments of systemctl.
        words: String,
        /// The error message of systemctl.
        said: String,
    },
    /// This machine does not run systemd.
    #[error(
        "this machine does not run systemd; start `fonio watch run` from its init system, or use `fonio watch start`"
    )]
    NoSystemd,
    /// The user named a folder in memory for the service, which always uses the default folder.
    #[error("the service keeps its folder in /run; omit --run")]
    RunNamed,
    /// systemd does not support one of the paths in a unit file.
    #[error("systemd does not support these paths: {words}; use UTF-8 paths without blanks and quotes")]
    Paths {
        /// The command line of the service, which contains the paths.
        words: String,
    },
    /// The watch did not start in time.
    #[error("the watch did not start{why}")]
    NotBegun {
        /// The error message of the watch, or where to find it.
        why: String,
    },
    /// The watch did not stop within the time limit.
    #[error("process {pid} does not stop; run `kill -9 {pid}`, and the next watch takes over its data")]
    NotEnded {
        /// Process id of the watch.
        pid: u32,
    },
}

fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> ServiceError {
    let doing = doing.into();
    move |cause| ServiceError::System { doing, cause }
}

/// Paths of a watch's files, as chosen by the user.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Path of the settings file.
    pub config: Option<PathBuf>,
    /// The watch's folder on the medium.
    pub state: Option<PathBuf>,
    /// The watch's folder in memory.
    pub run: Option<PathBuf>,
}

impl Paths {
    /// Returns the folders chosen by the user, or the default folders. The paths are absolute, because the
    /// watch runs in another working directory.
    ///
    /// # Errors
    ///
    /// Fails if the working directory no longer exists.
    pub fn folders(&self) -> Result<Folders, ServiceError> {
        let usual = Folders::default();
        let state = absolute(self.state.as_deref())?.unwrap_or(usual.state);
        Ok(Folders { state, run: absolute(self.run.as_deref())?.unwrap_or(usual.run) })
    }
}

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, ServiceError> {
    let found = |path: &Path| std::path::absolute(path).map_err(system(format!("find {}", path.display())));
    path.map(found).transpose()
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

fn has_unit() -> bool {
    Path::new(PACKAGED).exists() || Path::new(INSTALLED).exists()
}

fn systemctl(words: &[&str]) -> Result<(), ServiceError> {
    let out = Command::new("systemctl").args(words).output().map_err(system("start systemctl"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(ServiceError::Systemctl { words: words.join(" "), said });
    }
    Ok(())
}

/// Installs the watch as a service, starts it, and waits until it runs.
///
/// # Errors
///
/// See [`ServiceError`].
pub fn install(paths: &Paths) -> Result<(), ServiceError> {
    if !has_systemd() {
        return Err(ServiceError::NoSystemd);
    }
    if paths.run.is_some() {
        return Err(ServiceError::RunNamed);
    }
    // Report errors in the settings file now; otherwise, they would appear only in the journal.
    Settings::read(paths.config.as_deref())?;
    let own = std::env::current_exe().map_err(system("find the own program"))?;
    let is_packaged = Path::new(PACKAGED).exists() && own == Path::new(PROGRAM);
    if !is_packaged || paths.config.is_some() || paths.state.is_some() {
        fs::write(INSTALLED, unit_text(&own, paths)?).map_err(system(format!("write {INSTALLED}")))?;
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    systemctl(&["restart", UNIT])?;
    wait_for_service(&paths.folders()?)
}

/// Returns the unit's text with the program and the options of this installation.
fn unit_text(program: &Path, paths: &Paths) -> Result<String, ServiceError> {
    let mut words = vec![program.display().to_string(), "watch".to_owned(), "run".to_owned()];
    let state = absolute(paths.state.as_deref())?;
    for (option, path) in [("--config", absolute(paths.config.as_deref())?), ("--state", state.clone())] {
        words.extend(path.into_iter().flat_map(|path| [option.to_owned(), path.display().to_string()]));
    }
    let is_refused = |letter: char| letter.is_whitespace() || "\"'\\%$\u{fffd}".contains(letter);
    if words.iter().any(|word| word.contains(is_refused)) {
        return Err(ServiceError::Paths { words: words.join(" ") });
    }
    let mut text =
        TEXT.replace(&format!("ExecStart={PROGRAM} watch run"), &format!("ExecStart={}", words.join(" ")));
    if let Some(state) = state {
        text = text.replace("ReadWritePaths=", &format!("ReadWritePaths=-{} ", state.display()));
    }
    Ok(text)
}

/// Starts the watch in the background, or returns the process of a watch that is already running.
///
/// # Errors
///
/// See [`ServiceError`].
pub fn start(paths: &Paths) -> Result<Option<ProcessId>, ServiceError> {
    let folders = paths.folders()?;
    if let Some(process) = folders.runs() {
        return Ok(Some(process));
    }
    Settings::read(paths.config.as_deref())?;
    let is_usual = paths.state.is_none() && paths.run.is_none() && paths.config.is_none();
    if is_usual && has_systemd() && has_unit() {
        systemctl(&["start", UNIT])?;
        wait_for_service(&folders)?;
    } else {
        detached(&folders, paths)?;
    }
    Ok(None)
}

/// Starts the watch as a process that outlives the terminal. The watch writes its messages to a file in
/// memory.
fn detached(folders: &Folders, paths: &Paths) -> Result<(), ServiceError> {
    let log = folders.run.join("log");
    let file = own_file::create(&folders.run, "log").map_err(system(format!("write {}", log.display())))?;
    let mut command = Command::new(std::env::current_exe().map_err(system("find the own program"))?);
    command.args(["watch", "run"]).arg("--state").arg(&folders.state).arg("--run").arg(&folders.run);
    if let Some(config) = absolute(paths.config.as_deref())? {
        command.arg("--config").arg(config);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0).current_dir("/");
    let mut child = command.spawn().map_err(system("start the watch"))?;
    let pid = child.id();
    let is_ready = || folders.is_ready().is_some_and(|process| process.pid == pid);
    if waits_for(BEGINS, &mut || is_ready() || !matches!(child.try_wait(), Ok(None))) && is_ready() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    Err(ServiceError::NotBegun { why: format!(": {}", said.trim().trim_start_matches("fonio: ")) })
}

fn wait_for_service(folders: &Folders) -> Result<(), ServiceError> {
    let mut asked = Instant::now();
    let mut has_ended = || {
        let is_due = asked.elapsed() >= ASKED_EVERY;
        if is_due {
            asked = Instant::now();
        }
        is_due && systemctl(&["is-active", "--quiet", UNIT]).is_err()
    };
    let is_ready = || folders.is_ready().is_some();
    if waits_for(BEGINS, &mut || is_ready() || has_ended()) && is_ready() {
        return Ok(());
    }
    Err(ServiceError::NotBegun { why: "; `journalctl -u fonio-watch` says why".to_owned() })
}

/// Waits at most `time` until a condition holds; returns `false` after a timeout.
fn waits_for(time: Duration, holds: &mut dyn FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// Stops the watch; returns whether a watch was running.
///
/// # Errors
///
/// See [`ServiceError`].
pub fn stop(folders: &Folders) -> Result<bool, ServiceError> {
    // systemd restarts a killed service automatically unless systemctl stops the service.
    if *folders == Folders::default() && has_systemd() && is_waiting() {
        systemctl(&["stop", UNIT])?;
        return Ok(true);
    }
    let Some(process) = folders.runs() else { return Ok(false) };
    let cgroups = fonio_system::Task::of(process.pid).cgroups().unwrap_or_default();
    if cgroups.telling().is_some_and(|path| path.ends_with(UNIT)) {
        systemctl(&["stop", UNIT])?;
        return Ok(true);
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).expect("the process id is valid");
    kill_process(pid, Signal::TERM)
        .map_err(|error| system(format!("stop process {}", process.pid))(error.into()))?;
    if waits_for(ENDS, &mut || !process.runs()) {
        return Ok(true);
    }
    Err(ServiceError::NotEnded { pid: process.pid })
}

/// Returns whether the service is running or waiting to be restarted.
fn is_waiting() -> bool {
    let state = Command::new("systemctl").args(["is-active", UNIT]).output();
    let state = state.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    matches!(state.as_str(), "active" | "activating" | "reloading" | "deactivating")
}

/// Stops the watch and removes its service. With `purge`, also removes its history and kept stalls.
///
/// # Errors
///
/// See [`ServiceError`].
pub fn uninstall(folders: &Folders, purge: bool) -> Result<(), ServiceError> {
    if has_systemd() && has_unit() {
        systemctl(&["disable", "--now", UNIT])?;
    }
    stop(folders)?;
    if Path::new(INSTALLED).exists() {
        remove_file(Path::new(INSTALLED))?;
        if has_systemd() {
            systemctl(&["daemon-reload"])?;
        }
    }
    for folder in [&folders.state, &folders.run].into_iter().filter(|_| purge) {
        remove(folder)?;
        // Remove the parent folder of the watch's folder, such as /var/lib/fonio, if it is empty.
        if let Some(parent) = folder.parent().filter(|parent| parent.ends_with("fonio")) {
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(())
}

/// Removes the files of a watch from a folder, and removes the folder if it is then empty.
fn remove(folder: &Path) -> Result<(), ServiceError> {
    for name in ["rings", "running", "unwritten", "unwritten.new", "log", "told.json", "followed.json"] {
        remove_file(&folder.join(name))?;
    }
    if let Ok(Some(own)) = TrustedFolder::open(folder) {
        // A killed watch may have left files that were to replace `unwritten`.
        let _ = own.remove_unfinished("unwritten");
    }
    let kept = folder.join("kept");
    kept_in(&kept).iter().try_for_each(|(path, _)| remove_file(path))?;
    // Removing the folder fails if it contains other files.
    let _ = fs::remove_dir(&kept);
    let _ = fs::remove_dir(folder);
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), ServiceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(system(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_has_the_program_and_options_of_the_installation() {
        let named = Paths { state: Some("/mnt/ssd/watch".into()), ..Paths::default() };
        let text = unit_text(Path::new("/opt/fonio"), &named).expect("it can be written");
        assert!(text.contains("\nExecStart=/opt/fonio watch run --state /mnt/ssd/watch\n"), "{text}");
        assert!(text.contains("\nReadWritePaths=-/mnt/ssd/watch "), "{text}");
        assert_eq!(unit_text(Path::new(PROGRAM), &Paths::default()).expect("it can be written"), TEXT);
        assert!(unit_text(Path::new("/opt/my fonio"), &Paths::default()).is_err());
    }
}
