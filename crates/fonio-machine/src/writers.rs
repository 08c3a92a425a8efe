//! Measures which processes and cgroups write, from two readings of the kernel's counters.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fonio_core::{ByteCount, DeviceId};
use fonio_system::{Cgroups, Task, device};
use serde::Serialize;

use crate::counters::{self, DiskCounters};
use crate::machine::Machine;

/// The processes and cgroups that wrote during the interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Writing {
    /// Length of the interval between the two readings of the counters.
    pub interval_ms: u64,
    /// Processes that caused storage writes, busiest first. The number of bytes is `write_bytes` of
    /// `/proc/PID/io`: the size of the pages that the process made dirty, minus the size of those that were
    /// never written. Processes without writes are omitted.
    pub processes: Vec<ProcessWriting>,
    /// Number of processes whose counters only root may read.
    pub processes_hidden: u32,
    /// Leaf cgroups that caused writes (`io.stat` of cgroup v2), busiest first.
    pub cgroups: Vec<CgroupWriting>,
}

/// Bytes that one process caused to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessWriting {
    /// The process id.
    pub pid: u32,
    /// The name of the process.
    pub comm: String,
    /// The path of the process's cgroup below the cgroup mount.
    pub cgroup: Option<String>,
    /// The process's systemd unit, container, add-on or Android package.
    pub unit: Option<String>,
    /// Bytes that the process caused to be written during the interval.
    pub written_bytes: ByteCount,
}

/// Bytes that one cgroup wrote to one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupWriting {
    /// The path of the cgroup below the cgroup mount.
    pub cgroup: String,
    /// The systemd unit, container or add-on to which the cgroup belongs.
    pub unit: Option<String>,
    /// The device to which the cgroup wrote.
    pub device: DeviceId,
    /// Bytes that the cgroup wrote to the device during the interval.
    pub written_bytes: ByteCount,
}

/// Maximum number of cgroups to read. Some machines have tens of thousands.
const CGROUPS_MAX: usize = 2000;
const CGROUP_DEPTH_MAX: usize = 8;
const PROCESSES_MAX: usize = 5000;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub processes: BTreeMap<u32, Process>,
    pub processes_hidden: u32,
    /// Bytes written by each cgroup to each device.
    cgroups: BTreeMap<(String, DeviceId), u64>,
    pub disks: BTreeMap<DeviceId, DiskCounters>,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    comm: String,
    cgroup: Option<String>,
    written: u64,
}

impl Counters {
    pub(crate) fn read(machine: &Machine) -> Counters {
        let mut counters = Counters::default();
        counters.read_processes(machine);
        if let Some(unified) = machine.mounts().of_kind("cgroup2").next() {
            let mut room = CGROUPS_MAX;
            counters.read_cgroup(&unified.dir, String::new(), CGROUP_DEPTH_MAX, &mut room);
        }
        counters.disks = counters::read_disks(machine);
        counters
    }

    fn read_processes(&mut self, machine: &Machine) {
        for pid in Task::all_below(&machine.proc("")).take(PROCESSES_MAX) {
            let task = machine.task(pid);
            let written = match task.written_bytes() {
                Ok(written) => written,
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    self.processes_hidden += 1;
                    continue;
                }
                // The process has ended, or the kernel does not count writes.
                Err(_) => continue,
            };
            let process = Process {
                comm: task.name().unwrap_or_default(),
                cgroup: task.cgroups().as_ref().and_then(Cgroups::telling).map(str::to_owned),
                written: written.0,
            };
            self.processes.insert(pid, process);
        }
    }

    /// Reads the counters of a cgroup and its descendants. Returns whether any of these cgroups shows I/O.
    fn read_cgroup(&mut self, dir: &Path, path: String, depth: usize, room: &mut usize) -> bool {
        if *room == 0 {
            return false;
        }
        *room -= 1;
        let mut children = false;
        if depth > 0 {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    children |= self.read_cgroup(&entry.path(), format!("{path}/{name}"), depth - 1, room);
                }
            }
        }
        // The counters of a cgroup include the counters of its children.
        if children {
            return true;
        }
        let Ok(text) = fs::read_to_string(dir.join("io.stat")) else { return false };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let Some(device) = words.next().and_then(device::parse) else { continue };
            // The root cgroup is the whole machine, not a unit.
            if !path.is_empty()
                && let Some(bytes) = words.find_map(|word| word.strip_prefix("wbytes=")?.parse().ok())
            {
                self.cgroups.insert((path.clone(), device), bytes);
            }
        }
        !text.is_empty()
    }
}

pub(crate) fn between(before: &Counters, after: &Counters, interval_ms: u64) -> Writing {
    let mut processes: Vec<ProcessWriting> = after
        .processes
        .iter()
        .filter_map(|(&pid, process)| {
            // For a process that started between the two readings, the earlier counter is 0.
            let earlier = before.processes.get(&pid).map_or(0, |earlier| earlier.written);
            let written = process.written.saturating_sub(earlier);
            (written > 0).then(|| ProcessWriting {
                pid,
                comm: process.comm.clone(),
                cgroup: process.cgroup.clone(),
                unit: None,
                written_bytes: ByteCount(written),
            })
        })
        .collect();
    processes.sort_by_key(|process| (std::cmp::Reverse(process.written_bytes), process.pid));
    let mut cgroups: Vec<CgroupWriting> = after
        .cgroups
        .iter()
        .filter_map(|(key, &bytes)| {
            let written = bytes.saturating_sub(before.cgroups.get(key).copied().unwrap_or(0));
            let (cgroup, device) = key.clone();
            (written > 0).then_some(CgroupWriting {
                cgroup,
                unit: None,
                device,
                written_bytes: ByteCount(written),
            })
        })
        .collect();
    cgroups
        .sort_by(|a, b| (b.written_bytes, &a.cgroup, a.device).cmp(&(a.written_bytes, &b.cgroup, b.device)));
    Writing { interval_ms, processes, processes_hidden: after.processes_hidden, cgroups }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_comes_first() {
        let process = |written| Process { comm: "x".into(), cgroup: None, written };
        let mut before = Counters::default();
        before.processes.insert(1, process(1000));
        before.processes.insert(2, process(1000));
        let mut after = Counters::default();
        after.processes.insert(1, process(1000));
        after.processes.insert(2, process(1500));
        after.processes.insert(3, process(700));
        let shown: Vec<(u32, u64)> =
            between(&before, &after, 700).processes.iter().map(|p| (p.pid, p.written_bytes.0)).collect();
        assert_eq!(shown, [(3, 700), (2, 500)]);
    }

    /// A group's counters include the counters of its children, so only the children are listed.
    #[test]
    fn counters_of_nested_cgroups() {
        let top = tempfile::tempdir().unwrap();
        for (group, stat) in [
            ("", "179:0 rbytes=1 wbytes=700\n"),
            ("apps", "179:0 rbytes=1 wbytes=600\n"),
            ("apps/browser", "179:0 rbytes=1 wbytes=500\n8:0 rbytes=1 wbytes=5\n"),
            ("apps/idle", ""),
            ("system", "179:0 rbytes=1 wbytes=100\n"),
        ] {
            let dir = top.path().join(group);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("io.stat"), stat).unwrap();
        }
        let mut counters = Counters::default();
        assert!(counters.read_cgroup(top.path(), String::new(), 5, &mut 100));
        let found: Vec<(&str, String, u64)> = counters
            .cgroups
            .iter()
            .map(|((path, device), bytes)| (path.as_str(), device.to_string(), *bytes))
            .collect();
        let expected =
            [("/apps/browser", "8:0", 5), ("/apps/browser", "179:0", 500), ("/system", "179:0", 100)];
        assert_eq!(found, expected.map(|(path, device, bytes)| (path, device.to_owned(), bytes)));
    }
}
