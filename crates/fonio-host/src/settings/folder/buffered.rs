//! Fonio's FUSE file system with its write buffer, mounted over a folder whose files it serves.
//!
//! A process of its own serves it (`fonio mount`): a unit of systemd, or where systemd does not run, a process in the background.
//! It opens the folder before it mounts over it.

use std::path::Path;
use std::process::{Command, Stdio};

use fonio_system::MountTable;

use super::super::systemd;
use super::holders::Use;
use super::units::{self, Units, argument, escape, lines, quote};
use super::{NONE, check_place, device_of, holders, in_use, or_in_use};
use crate::{HostError, mount};

/// The value of a folder over which the file system is mounted.
pub(in crate::settings) const MOUNTED: &str = "mounted";
/// The kernel's name of the file system (`fonio-bfuse`).
const FILESYSTEM: &str = "fuse.fonio";
/// The options of the mount.
const OPTIONS: &str = "mode=buffered";

/// Whether the file system is mounted over a folder; `None` if that is gone. A mount whose process was killed counts.
pub(in crate::settings) fn current(dir: &Path) -> Result<Option<String>, HostError> {
    if MountTable::read()?.at(dir).is_some_and(|mount| mount.filesystem == FILESYSTEM) {
        return Ok(Some(MOUNTED.to_owned()));
    }
    Ok(dir.is_dir().then(|| NONE.to_owned()))
}

/// Refuses what could not be done, or undone.
pub(in crate::settings) fn check(dir: &Path) -> Result<(), String> {
    if !Path::new("/dev/fuse").exists() {
        return Err("the kernel has no FUSE here (/dev/fuse): `modprobe fuse`".to_owned());
    }
    check_place(dir)
}

/// Mounts the file system, or takes it away.
pub(in crate::settings) fn set(dir: &Path, value: &str) -> Result<(), HostError> {
    let program = units::program()?;
    let unit = unit(&program, dir);
    if value == NONE {
        if current(dir)?.as_deref() == Some(MOUNTED) {
            mount::unmount(dir).map_err(|error| or_in_use(error, dir))?;
        }
        return units::take(&unit);
    }
    if systemd::check().is_ok() {
        return units::put(&unit);
    }
    let mut command = Command::new(&program);
    command
        .args(["mount", "--mount-options", OPTIONS, "--"])
        .arg(dir)
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let out = command.stderr(Stdio::piped()).output().map_err(HostError::system("start", &program))?;
    if out.status.success() {
        return Ok(());
    }
    Err(HostError::ProgramFailed {
        command: format!("fonio mount --mount-options {OPTIONS} {0} {0}", dir.display()),
        status: out.status.to_string(),
        output: String::from_utf8_lossy(&out.stderr).trim().to_owned(),
    })
}

/// Refuses to undo while programs use the mount, before anything is changed.
pub(in crate::settings) fn check_undo(dir: &Path) -> Result<(), HostError> {
    let is_mounted = current(dir)?.as_deref() == Some(MOUNTED);
    if is_mounted && !holders(dir, device_of(dir), Use::Any).is_empty() {
        return Err(in_use(dir, Use::Any));
    }
    Ok(())
}

/// The unit that mounts it. It has no mount namespace of its own, in which nobody else would see the mount; so systemd's
/// protections of files are not among its limits.
pub(in crate::settings) fn unit(program: &Path, dir: &Path) -> Units {
    let (run, path) = (argument(program), argument(dir));
    let unit = lines(&[
        "[Unit]",
        &format!("Description={} with fonio's write buffer", units::specifiers(dir)),
        "DefaultDependencies=no",
        &format!("RequiresMountsFor={} {}", quote(dir), quote(program)),
        "Wants=modprobe@fuse.service",
        "After=local-fs.target modprobe@fuse.service",
        "Before=sysinit.target shutdown.target",
        "Conflicts=shutdown.target",
        "[Service]",
        "Type=forking",
        &format!("ExecStart={run} mount --mount-options {OPTIONS} -- {path} {path}"),
        // It writes all data and unmounts.
        "KillSignal=SIGTERM",
        "TimeoutStopSec=15min",
        "Restart=on-failure",
        "RestartSec=1s",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_MKNOD CAP_SETUID CAP_SETGID CAP_SETFCAP CAP_LINUX_IMMUTABLE CAP_SYS_RESOURCE CAP_SYS_NICE CAP_IPC_LOCK",
        "LockPersonality=yes",
        "MemoryDenyWriteExecute=yes",
        "RestrictAddressFamilies=AF_UNIX",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "SystemCallArchitectures=native",
    ]);
    Units::new(vec![(format!("fonio-bfuse-{}.service", escape(dir)), unit)], "sysinit.target")
}
