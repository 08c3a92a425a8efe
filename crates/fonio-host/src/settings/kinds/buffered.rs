//! Mounts fonio's FUSE file system over a folder. The file system serves the files of this folder and has a
//! write buffer.
//!
//! A separate process (`fonio mount`) serves the file system: a systemd unit or, without systemd, a
//! background process. This process opens the folder before it mounts the file system over the folder.

use std::path::Path;
use std::process::{Command, Stdio};

use fonio_system::MountTable;

use crate::settings::folder::units::{self, Units, argument, escape, lines, quote};
use crate::settings::folder::{self, NONE, check_place, check_unused, folder_at};
use crate::settings::kind::*;

/// The values are `mounted` and `none`.
pub(super) struct Buffered;

const FACTS: Facts = Facts {
    tag: "buffered",
    only_value: Some(MOUNTED),
    scope: Scope::Folder,
    title: "fonio's write buffer",
    kept_in: "the unit `fonio-bfuse-FOLDER.service`",
    undone: "it is unmounted",
    cannot_switch: Some("programs have files in the folder open"),
    fixes: &[SettingFix {
        name: "bfuse",
        changes: Group::Filesystem,
        does: "mounts fonio's FUSE file system, whose write buffer merges small writes, over a folder (`docs/bfuse.md`)",
        needs: "FUSE (`/dev/fuse`); to keep it, systemd",
        loses: Loss::Recent(
            "A power cut loses no synced data, and no more unsynced data than without the fix. A crash of the fix's process loses at most 8 MiB of unsynced data, usually the writes of the last 10 ms, or of a longer time while the device is busy.",
        ),
        source: "Jeong and Won (2014)",
        trial: OF_FOLDERS,
    }],
    ..Facts::DEFAULT
};

impl Kind for Buffered {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn check(&self, _wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Refusal::Reason(
                "the kernel has no FUSE (/dev/fuse): run `modprobe fuse`".to_owned(),
            ));
        }
        Ok(check_place(on.path())?)
    }

    /// Returns `mounted` even if the process that serves the file system was killed.
    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let dir = on.path();
        if is_mounted(dir)? {
            return Ok(Some(MOUNTED.to_owned()));
        }
        Ok(dir.is_dir().then(|| NONE.to_owned()))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        set(on.path(), value)
    }

    fn check_restore(&self, on: &Object) -> Result<(), HostError> {
        let dir = on.path();
        if is_mounted(dir)? { check_unused(dir) } else { Ok(()) }
    }

    fn kept_as(&self, on: &Object, _value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        files.check_systemd()?;
        units::check_program(&files.program)?;
        Ok(KeptAs::Files(unit(&files.program, on.path()).kept_files(&files.systemd)))
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        folder::left_below(&folder_at(path).ok()?, "without the buffer")
    }
}

const MOUNTED: &str = "mounted";
/// The name under which the kernel shows fonio's file system (`fonio-bfuse`).
const FILESYSTEM: &str = "fuse.fonio";
const OPTIONS: &str = "mode=buffered";

fn is_mounted(dir: &Path) -> Result<bool, HostError> {
    Ok(MountTable::read()?.at(dir).is_some_and(|mount| mount.filesystem == FILESYSTEM))
}

/// Mounts the FUSE file system over the folder, or unmounts it.
fn set(dir: &Path, value: &str) -> Result<(), HostError> {
    let program = units::program()?;
    let unit = unit(&program, dir);
    if value == NONE {
        if is_mounted(dir)? {
            folder::unmount(dir)?;
        }
        return units::take(&unit);
    }
    if systemd::check().is_ok() {
        return units::put(&unit);
    }
    let mut command = Command::new(&program);
    command.args(["mount", "--mount-options", OPTIONS, "--"]).arg(dir).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null());
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

/// Returns the unit that mounts the file system. The unit has no separate mount namespace, so that other
/// processes see the mount. systemd's file protections need a separate namespace, so the unit cannot use
/// them.
fn unit(program: &Path, dir: &Path) -> Units {
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
        // On SIGTERM, the process writes all data and unmounts.
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
