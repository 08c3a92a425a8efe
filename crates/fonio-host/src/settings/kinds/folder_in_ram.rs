//! Keeps a folder's content in memory: mounts a tmpfs over the folder, and writes the tmpfs's content to the
//! covered folder.
//!
//! The tmpfs is filled before it is mounted, so that a killed process leaves either no tmpfs or a complete
//! tmpfs. The content is written out when the fix is undone, on request, and by systemd units hourly and at
//! shutdown. A power cut loses the data written since the last write-out.

use std::path::Path;

use fonio_core::ByteCount;
use fonio_system::{MountPoint, MountTable, chain, procfs};

use crate::settings::folder::mirror::Mirrored;
use crate::settings::folder::survey::survey;
use crate::settings::folder::units::{self, Units};
use crate::settings::folder::{
    self, NONE, check_place, check_unused, check_writers, copy_back, copy_unchanged, copyable,
    detached_mount, failed, folder_at, lock, open, put_on, read_only, words,
};
use crate::settings::kind::*;
use crate::settings::places::reconfigure;

/// The values are the size of the tmpfs, and `none`.
pub(super) struct FolderInRam;

const FACTS: Facts = Facts {
    tag: "folder_in_ram",
    scope: Scope::Folder,
    title: "the memory for the folder's content",
    kept_in: "the units `fonio-folder-in-ram-FOLDER.service` and `.timer`",
    undone: "the content is copied back",
    cannot_switch: Some("the folder's content is copied for each change"),
    fixes: &[SettingFix {
        name: "folder-in-ram",
        changes: Group::Logs,
        does: "keeps a folder such as /var/log in at most 64 MiB of memory, or SIZE with folder-in-ram=SIZE; written out to the disk every hour, at shutdown and when it is undone",
        needs: "Linux 5.2, as much free memory, and no program with files in the folder open for writing; to keep it, systemd",
        loses: Loss::Recent(
            "A power cut loses all writes to the folder since the last write-out, synced or not. The disk has each file as of that write-out.",
        ),
        source: "log2ram",
        trial: OF_FOLDERS,
    }],
    ..Facts::DEFAULT
};

impl Kind for FolderInRam {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, 64 << 20, 1 << 20)
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        Ok(check(on.path(), wanted.value.size(), wanted.despite_writers)?)
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        current(on.path())
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let dir = on.path();
        if value == NONE {
            return take_down(dir);
        }
        let size: ByteCount = value.parse().map_err(|_| HostError::NotSettable {
            setting: format!("folder-in-ram={value}"),
            path: dir.to_owned(),
            reason: "the value is not a size".to_owned(),
        })?;
        start(dir, size)?;
        units::put(&units(&units::program()?, dir, value))
    }

    /// Fails while programs have files in the tmpfs open, because open files prevent unmounting.
    fn check_restore(&self, on: &Object) -> Result<(), HostError> {
        let dir = on.path();
        if mounted(dir)?.is_some() { check_unused(dir) } else { Ok(()) }
    }

    fn kept_as(&self, on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        files.check_systemd()?;
        units::check_program(&files.program)?;
        Ok(KeptAs::Files(units(&files.program, on.path(), value).kept_files(&files.systemd)))
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        remains_to_do(&folder_at(path).ok()?)
    }
}

/// The source of the mount, which identifies the mount as fonio's.
const SOURCE: &str = "fonio-folder-in-ram";
const INTERVAL: &str = "1h";

fn mounted(dir: &Path) -> Result<Option<MountPoint>, HostError> {
    let own = |mount: &&MountPoint| mount.filesystem == "tmpfs" && mount.source == SOURCE;
    Ok(MountTable::read()?.at(dir).filter(own).cloned())
}

/// Returns the size of the tmpfs over a folder, or `none`; `None` if the folder is gone.
fn current(dir: &Path) -> Result<Option<String>, HostError> {
    Ok(match mounted(dir)? {
        Some(mount) => {
            Some(size_of(&mount).map_or_else(|| "of unknown size".to_owned(), ByteCount::to_exact_text))
        }
        None => dir.is_dir().then(|| NONE.to_owned()),
    })
}

/// Returns the size of a tmpfs from its mount options. There, the kernel shows the size in KiB.
fn size_of(mount: &MountPoint) -> Option<ByteCount> {
    let size = mount.filesystem_options.iter().find_map(|option| option.strip_prefix("size="))?;
    size.strip_suffix('k')?.parse().ok().map(|kib: u64| ByteCount(kib << 10))
}

/// Fails if the folder could not be moved into memory or back. With `despite_writers`, programs may have
/// files open for writing.
fn check(dir: &Path, size: ByteCount, despite_writers: bool) -> Result<(), String> {
    let is_there = mounted(dir).map_err(|error| chain(&error))?.is_some();
    if !is_there {
        check_place(dir)?;
    }
    check_size(dir, size)?;
    if is_there || despite_writers { Ok(()) } else { check_writers(dir) }
}

fn check_size(dir: &Path, size: ByteCount) -> Result<(), String> {
    let found = copyable(dir)?;
    if found.memory > size {
        let (needs, has) = (words(found.memory), size.to_exact_text());
        return Err(format!(
            "the folder holds {needs}, which is more than {has}: use a larger size, or delete files"
        ));
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match procfs::memory(&meminfo, "MemAvailable") {
        Some(free) if free < size => Err(format!(
            "the folder may use {} of memory, but only {} is available",
            size.to_exact_text(),
            words(free)
        )),
        _ => Ok(()),
    }
}

/// Moves a folder into memory, or changes the size of its tmpfs. A systemd unit calls this function at each
/// boot. Fails with [`HostError::NotSettable`] with the reason. If an error occurs, the folder is unchanged.
pub fn start(dir: &Path, size: ByteCount) -> Result<(), HostError> {
    let _lock = lock()?;
    let refused = |reason: String| HostError::NotSettable {
        setting: format!("folder-in-ram={}", size.to_exact_text()),
        path: dir.to_owned(),
        reason,
    };
    if let Some(mount) = mounted(dir)? {
        return match size_of(&mount) {
            Some(now) if now == size => Ok(()),
            _ => {
                reconfigure(dir, "size", Some(&size.0.to_string())).map_err(failed("change the size of", dir))
            }
        };
    }
    check_place(dir).and_then(|()| check_size(dir, size)).map_err(refused)?;
    let (filled, root) = detached_mount("tmpfs", &[("source", SOURCE), ("size", &size.0.to_string())], dir)?;
    match copy_unchanged(&open(dir)?, &root, dir)? {
        None => put_on(&filled, dir),
        Some(reason) => Err(refused(reason.to_owned())),
    }
}

/// Writes the content of a folder in memory to the disk, and unmounts the tmpfs. No program can write during
/// this time.
fn take_down(dir: &Path) -> Result<(), HostError> {
    let unmounted = {
        let _lock = lock()?;
        unmount(dir)
    };
    match unmounted {
        Ok(()) => units::take(&units(&units::program()?, dir, NONE)),
        Err(error) => {
            // The files of the folder's unit in /etc may already be removed. Without the unit, the folder
            // would not be written out at shutdown.
            let size = current(dir)?.unwrap_or_default();
            let _ = units::put(&units(&units::program()?, dir, &size));
            Err(error)
        }
    }
}

fn unmount(dir: &Path) -> Result<(), HostError> {
    if mounted(dir)?.is_none() {
        return Ok(());
    }
    read_only(dir, reconfigure(dir, "ro", None))?;
    copy_back(dir).and_then(|_| folder::unmount(dir)).inspect_err(|_| {
        // Report the first error rather than an error of this call.
        let _ = reconfigure(dir, "rw", None);
    })
}

/// Writes a folder in memory out to the disk; returns `None` if the folder is not in memory. Fails with
/// [`HostError::NotCopied`] if a part could not be written.
pub fn write_out(dir: &Path) -> Result<Option<Mirrored>, HostError> {
    let _lock = lock()?;
    let Some(mount) = mounted(dir)? else { return Ok(None) };
    if mount.filesystem_options.iter().any(|option| option == "ro") {
        // An earlier process was killed while it unmounted the tmpfs.
        reconfigure(dir, "rw", None).map_err(failed("make writable", dir))?;
    }
    copy_back(dir).map(Some)
}

/// Returns the steps that the user must take after the folder was moved into memory.
fn remains_to_do(dir: &Path) -> Option<String> {
    let mut sentences = Vec::new();
    sentences.extend(folder::left_below(dir, "and their writes to these files are lost"));
    let sockets = survey(&open(dir).ok()?, dir).map(|found| found.sockets).unwrap_or_default();
    if let Some(first) = sockets.first() {
        let more = if sockets.len() > 1 { format!(" and {} more", sockets.len() - 1) } else { String::new() };
        sentences.push(format!(
            "Sockets were not copied. Restart the program that uses the socket {}{more}.",
            first.display()
        ));
    }
    if systemd::check().is_err() {
        sentences.push(
            "systemd does not run here, so nothing writes the folder out automatically: run `fonio folder write-out` regularly, and `fonio fix undo folder-in-ram` before a shutdown."
                .to_owned(),
        );
    }
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

/// Returns the units of a folder in memory: one for the folder, and a timer and service for write-outs.
fn units(program: &Path, dir: &Path, size: &str) -> Units {
    let stem = format!("fonio-folder-in-ram-{}", units::escape(dir));
    let (service, timer, write) =
        (format!("{stem}.service"), format!("{stem}.timer"), format!("{stem}-write-out.service"));
    let (path, run) = (units::argument(dir), units::argument(program));
    let plain = units::specifiers(dir);
    let folder = units::lines(&[
        "[Unit]",
        &format!("Description={plain} in memory, by fonio"),
        "DefaultDependencies=no",
        &format!("RequiresMountsFor={} {}", units::quote(dir), units::quote(program)),
        "After=local-fs.target",
        "Before=sysinit.target systemd-journal-flush.service systemd-tmpfiles-setup.service shutdown.target",
        "Conflicts=shutdown.target",
        &format!("Wants={timer}"),
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        &format!("ExecStart={run} folder start {size} {path}"),
        &format!("ExecReload={run} folder write-out {path}"),
        &format!("ExecStop={run} folder write-out {path}"),
        "TimeoutStopSec=15min",
    ]);
    let clock = units::lines(&[
        "[Unit]",
        &format!("Description=Write {plain} out of memory, by fonio"),
        &format!("PartOf={service}"),
        "[Timer]",
        &format!("OnActiveSec={INTERVAL}"),
        &format!("OnUnitInactiveSec={INTERVAL}"),
        &format!("Unit={write}"),
    ]);
    let out = units::lines(&[
        "[Unit]",
        &format!("Description=Write {plain} out of memory, by fonio"),
        "[Service]",
        "Type=oneshot",
        &format!("ExecStart={run} folder write-out {path}"),
    ]);
    Units::new(vec![(service, folder), (timer, clock), (write, out)], "sysinit.target")
}
