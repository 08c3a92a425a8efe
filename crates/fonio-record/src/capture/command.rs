//! Runs the command during the capture.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fonio_system::command::start;
use fonio_system::{Cgroups, MountTable};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use rustix::thread::LinkNameSpaceType;

use crate::error::RecordError;
use crate::options::{CommandOutput, CommandSetting, RecordOptions};
use crate::tracefs::file_error;

/// Time between two checks for the end of a killed command.
const GONE_PAUSE: Duration = Duration::from_millis(1);

/// A command that is running or has ended.
#[derive(Debug)]
pub(crate) struct Command {
    child: Child,
    /// A descriptor that becomes readable when the command ends. `None` on kernels before 5.3.
    ended: Option<OwnedFd>,
    status: Option<ExitStatus>,
    own_group: bool,
    /// User and system processor time of our child processes before the command began.
    cpu_before: (Duration, Duration),
}

impl Command {
    /// Starts the command in `options`; returns `None` if `options` has no command.
    pub(crate) fn start(options: &RecordOptions) -> Result<Option<Command>, RecordError> {
        let Some(words) = &options.command else { return Ok(None) };
        let (program, arguments) = words.split_first().ok_or(RecordError::EmptyCommand)?;
        let setting = &options.setting;
        let prepare = |command: &mut Program| setting.prepare(command);
        let joined: Vec<Joined> =
            setting.cgroups.iter().map(|dir| Joined::join(dir)).collect::<Result<_, _>>()?;
        let cpu_before = children_cpu();
        let child = start(program, arguments, prepare).map_err(|source| RecordError::Command {
            program: program.to_string_lossy().into_owned(),
            source,
        })?;
        drop(joined);
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Some(Command { child, ended, status: None, own_group: setting.own_group, cpu_before }))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the file descriptor that becomes readable when the command ends.
    pub(crate) fn ended(&self) -> Option<&OwnedFd> {
        self.ended.as_ref()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status.is_some()
    }

    /// Sends SIGTERM to the command if it still runs.
    pub(crate) fn terminate(&mut self) {
        if !self.has_ended() {
            self.send(Signal::TERM);
        }
    }

    /// Kills the command (or its process group, if the command has its own), and waits until the command has
    /// ended.
    pub(crate) fn kill(&mut self) {
        // The command's children may still run after the command has ended.
        self.send(Signal::KILL);
        while !self.has_ended() {
            std::thread::sleep(GONE_PAUSE);
        }
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        // Sending fails if the process or process group no longer exists.
        let _ = match (self.own_group, self.status) {
            (true, _) => kill_process_group(pid, signal),
            (false, None) => kill_process(pid, signal),
            (false, Some(_)) => Ok(()),
        };
    }

    /// Returns the user and system processor time of the command and of the children that it waited for.
    /// `None` until the command has ended.
    pub(crate) fn cpu(&self) -> Option<(Duration, Duration)> {
        self.status?;
        let (user, system) = children_cpu();
        let (user_before, system_before) = self.cpu_before;
        Some((user.saturating_sub(user_before), system.saturating_sub(system_before)))
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status?.code()
    }

    pub(crate) fn exit_signal(&self) -> Option<i32> {
        self.status?.signal()
    }
}

impl CommandSetting {
    /// Sets the options of a program that is about to be started, except its control groups.
    pub(crate) fn prepare(&self, command: &mut Program) {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match (&self.mounts, &self.dir) {
            (Some(mounts), dir) => enter_mounts(command, mounts, dir.as_deref()),
            (None, Some(dir)) => drop(command.current_dir(dir)),
            (None, None) => {}
        }
        if self.own_group {
            command.process_group(0);
        }
        match self.output {
            CommandOutput::Inherit => {}
            CommandOutput::ToError => {
                command.stdin(Stdio::null()).stdout(std::io::stderr());
            }
            CommandOutput::Discard => {
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            }
        }
        if let Some((Ok(output), Ok(errors))) =
            self.log.as_ref().map(|log| (log.try_clone(), log.try_clone()))
        {
            command.stdout(output).stderr(errors);
        }
        // A reader that gets no copy sees the end of the output at once.
        if let Some(Ok(copy)) = self.stdout.as_ref().map(|stdout| stdout.try_clone()) {
            command.stdout(copy);
        }
    }
}

/// Makes a command start in a mount namespace, in the folder `dir` there, or in this process's folder.
fn enter_mounts(command: &mut Program, mounts: &Arc<OwnedFd>, dir: Option<&Path>) {
    let mounts = Arc::clone(mounts);
    let dir = dir.map(Path::to_owned).or_else(|| std::env::current_dir().ok()).unwrap_or_else(|| "/".into());
    // A path contains no null byte.
    let dir = CString::new(dir.into_os_string().into_vec()).unwrap_or_default();
    let enter = move || {
        rustix::thread::move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        // The old working directory belongs to the old namespace.
        Ok(rustix::process::chdir(dir.as_c_str())?)
    };
    // SAFETY: between fork and exec, the closure only makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// Keeps this thread in a control group, so that new processes start there. Joining a control group takes
/// some milliseconds, which must not count as time of the command.
struct Joined {
    /// The `tasks` or `cgroup.procs` file of the control group to return to.
    back: PathBuf,
}

impl Joined {
    fn join(dir: &Path) -> Result<Joined, RecordError> {
        // Version 1 hierarchies can move individual threads; the unified hierarchy moves a process with all its
        // threads.
        let file = if dir.join("tasks").exists() { "tasks" } else { "cgroup.procs" };
        let root = dir.parent().unwrap_or(dir);
        let path = Path::new("/proc/self/cgroup");
        let groups = std::fs::read_to_string(path).map_err(file_error(path, "reading"))?;
        let groups = Cgroups::parse(&groups);
        let own = if file == "tasks" {
            groups.of_controller(&controller(root).unwrap_or_default())
        } else {
            groups.unified()
        };
        let own = own.unwrap_or_default().trim_start_matches('/');
        let joined = Joined { back: root.join(own).join(file) };
        enter(&dir.join(file))?;
        Ok(joined)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // If the old group no longer exists, the recorder stays in the command's group, which may slow the
        // recorder down but loses no data.
        let _ = enter(&self.back);
    }
}

/// Returns a controller of the version 1 hierarchy mounted on `root`.
fn controller(root: &Path) -> Option<String> {
    let mounts = MountTable::read().ok()?;
    let mounted = mounts.of_kind("cgroup").find(|mount| mount.dir == root)?;
    let mut options = mounted.filesystem_options.iter();
    options.find(|option| !matches!(option.as_str(), "rw" | "ro" | "none")).cloned()
}

fn enter(path: &Path) -> Result<(), RecordError> {
    // The number 0 stands for the thread that writes it.
    std::fs::write(path, "0").map_err(file_error(path, "writing"))
}

/// Returns the user and system processor time of the child processes that we have waited for.
fn children_cpu() -> (Duration, Duration) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes at most one `rusage` to the pointer, which has room for one. Zeros are valid
    // for fields that the call does not write.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}
