//! Counts the block writes and flushes of the command, where the kernel lets fonio trace.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use fonio_analysis::counts::block::{BlockCounts, BlockTally, CommandTally};
use fonio_core::{DeviceId, Timestamp};
use fonio_machine::Machine;
use fonio_machine::mounts::block_device;
use fonio_record::{BlockedBy, RecordOptions, RecordSummary, Selector, StopReason, record_during};
use fonio_recording::{Recording, Table, Tables};
use fonio_system::{MountPoint, MountTable};

/// The counts of one run, or why there are none.
pub type Counted = Result<OnDisk, String>;

/// The counts of one run.
pub struct OnDisk {
    pub counts: BlockCounts,
    /// Why there are no flushes, if the disks never get any.
    pub note: Option<String>,
}

/// File systems on which fonio finds the files and causes of requests (docs/recording-reference.md, "Whose data"), and
/// the file system of containers above them.
const ATTRIBUTED: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay"];

/// File systems that write their metadata only once.
const WITHOUT_JOURNAL: [&str; 3] = ["btrfs", "ext2", "f2fs"];

/// File systems in memory, whose files cause no requests.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// The number of the first PID namespace (`PROC_PID_INIT_INO` in include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The disks that are recorded while the command runs.
pub struct Recorder {
    mounts: MountTable,
    disks: BTreeSet<DeviceId>,
}

impl Recorder {
    /// Finds the disks. Fails with a reason if the requests of the command could not be told apart.
    pub fn new() -> Result<Recorder, String> {
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        if namespace.is_ok_and(|namespace| namespace != Path::new(FIRST_PID_NAMESPACE)) {
            let why =
                "this is a container, in which the ids of processes are not those in the kernel's trace";
            return Err(why.to_owned());
        }
        let mounts = Machine::here().mounts();
        let is_writable = |option: &String| option == "rw";
        let writable = mounts.iter().filter(|mount| mount.options.iter().any(is_writable));
        let disks: BTreeSet<DeviceId> = writable.filter_map(block_device).collect();
        if disks.is_empty() {
            return Err("no file system on a disk is mounted here".to_owned());
        }
        Ok(Recorder { mounts, disks })
    }

    /// Does `work`, which traces the command, and records the requests of the disks meanwhile, in a new folder at
    /// `out`.
    pub fn during<T>(&self, out: &Path, work: impl FnOnce() -> T) -> (T, Result<RecordSummary, String>) {
        let options = RecordOptions {
            select: self.disks.iter().map(|disk| Selector::Device(disk.to_string().into())).collect(),
            blocked: BlockedBy::No,
            sample_interval: None,
            ..RecordOptions::new(out)
        };
        let (outcome, recorded) = record_during(&options, work);
        (outcome, recorded.map_err(|error| format!("{:#}", anyhow::Error::from(error))))
    }

    /// Counts the requests of a command that ended at `ended`, from the recording of its calls and that of the requests.
    pub fn count(&self, calls: &Recording, ended: Timestamp, recorded: &RecordSummary) -> Result<Counted> {
        if recorded.stopped_by != StopReason::CommandEnded {
            return Ok(Err("the memory for events was full before the command ended".to_owned()));
        }
        if recorded.lost.total() != Some(0) {
            return Ok(Err("the kernel lost events, because its buffers were full".to_owned()));
        }
        let mut command = CommandTally::default();
        let of_calls = Tables::NONE.with(Table::Threads).with(Table::Files).with(Table::Calls);
        calls.replay(&mut command, of_calls)?;
        let mounts = Machine::here().mounts();
        let folders = command.changed().filter_map(|file| Path::new(file.path.as_deref()?).parent());
        let folders: BTreeSet<&Path> = folders.collect();
        let changed: Vec<&MountPoint> =
            folders.into_iter().filter_map(|folder| mounts.holding(folder)).collect();
        if let Some(why) = changed.iter().find_map(|mount| self.unseen(mount)) {
            return Ok(Err(why));
        }
        let has_no_journal = changed.iter().any(|mount| WITHOUT_JOURNAL.contains(&mount.filesystem.as_str()));
        let mut tally = BlockTally::new(command, ended, has_no_journal);
        let requests = Recording::open(&recorded.out).context("the requests cannot be read")?;
        requests.replay(&mut tally, Tables::NONE.with(Table::Files).with(Table::Requests))?;
        let counts = tally.finish();
        let note = (counts.flushes == 0).then(|| without_flushes(&changed)).flatten();
        Ok(Ok(OnDisk { counts, note }))
    }

    /// Returns why requests for the files of a mount may not be seen; `None` if they are, or if there are none.
    fn unseen(&self, mount: &MountPoint) -> Option<String> {
        let (at, kind) = (mount.dir.display(), mount.filesystem.as_str());
        if IN_MEMORY.contains(&kind) {
            return None;
        }
        if !ATTRIBUTED.contains(&kind) {
            return Some(format!(
                "{at} is on {kind}, where fonio does not see which program caused a request"
            ));
        }
        let is_new = self.mounts.at(&mount.dir).is_none_or(|before| before.device != mount.device);
        is_new.then(|| format!("{at} was mounted while the command ran"))
    }
}

/// Returns a sentence if none of the disks below these mounts has a volatile cache: the kernel sends such a disk no
/// flushes.
fn without_flushes(changed: &[&MountPoint]) -> Option<String> {
    let machine = Machine::here();
    let disks: BTreeSet<DeviceId> = changed.iter().filter_map(|mount| block_device(mount)).collect();
    let disks: Vec<_> = disks.into_iter().filter_map(|disk| machine.device(disk)).collect();
    let has_none = |mode: &Option<String>| mode.as_deref() == Some("write through");
    if disks.is_empty() || !disks.iter().all(|disk| has_none(&disk.write_cache)) {
        return None;
    }
    let names: Vec<&str> = disks.iter().filter_map(|disk| disk.name.as_deref()).collect();
    Some(format!("flushes: the kernel sends none to a disk without a volatile cache ({})", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_not_counted_where_their_cause_is_unknown() {
        let line =
            |at: &str, device: &str, kind: &str| format!("1 1 {device} / {at} rw - {kind} /dev/x rw\n");
        let before = [line("/", "8:1", "ext4"), line("/a", "8:2", "vfat")].concat();
        let after = [
            before.clone(),
            line("/b", "8:3", "xfs"),
            line("/tmp", "0:30", "tmpfs"),
            line("/c", "0:40", "fuse.bindfs"),
        ]
        .concat();
        let recorder = Recorder { mounts: MountTable::parse(before.as_bytes()), disks: BTreeSet::new() };
        let mounts = MountTable::parse(after.as_bytes());
        for (path, expected) in [
            ("/x", None),
            ("/tmp/x", None),
            ("/a/x", Some("/a is on vfat,")),
            ("/b/x", Some("/b was mounted while")),
            ("/c/x", Some("/c is on fuse.bindfs,")),
        ] {
            let mount = mounts.holding(Path::new(path)).expect("a mount");
            let why = recorder.unseen(mount);
            assert_eq!(why.is_some(), expected.is_some(), "{path}: {why:?}");
            assert!(why.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{path}");
        }
    }
}
