//! Measures for how long processes were not allowed to run because their control group had used up its quota
//! of processor time.

use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::Nanos;
use fonio_machine::{Machine, read_text};
use rustc_hash::FxHashMap;

/// Maximum number of control groups that are read.
const GROUPS_MAX: usize = 1 << 13;

/// The reading of all control groups with a quota at the beginning of a capture.
#[derive(Debug, Default)]
pub(crate) struct QuotaTimes {
    began: FxHashMap<PathBuf, Nanos>,
}

impl QuotaTimes {
    pub(crate) fn begin(machine: &Machine) -> QuotaTimes {
        QuotaTimes { began: read(machine) }
    }

    /// Reads the control groups again. Returns, for each group that had to wait since then, the time and its
    /// process with the largest value of `ran`. Groups that no longer exist are unknown.
    pub(crate) fn finish(&self, machine: &Machine, ran: &FxHashMap<u32, Nanos>) -> Vec<(u32, Nanos)> {
        let waited = read(machine).into_iter().filter_map(|(group, time)| {
            let time = time.0.saturating_sub(self.began.get(&group).map_or(0, |time| time.0));
            let ran = |pid: &u32| ran.get(pid).copied();
            let most = processes(&group).into_iter().filter(|pid| ran(pid).is_some()).max_by_key(ran)?;
            (time > 0).then_some((most, Nanos(time)))
        });
        let mut waited: Vec<(u32, Nanos)> = waited.collect();
        waited.sort_unstable();
        // A process can be in two groups with a quota, one below the other.
        waited.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 = if is_same { kept.1.max(later.1) } else { kept.1 };
            is_same
        });
        waited
    }
}

/// Returns the time for which each group with a quota has had to wait.
fn read(machine: &Machine) -> FxHashMap<PathBuf, Nanos> {
    let root = machine.sys("fs/cgroup");
    let is_unified = root.join("cgroup.controllers").exists();
    let start = if is_unified { root } else { root.join("cpu") };
    let mut times = FxHashMap::default();
    let mut open = vec![start];
    let mut seen = 0;
    while let Some(group) = open.pop().filter(|_| seen < GROUPS_MAX) {
        seen += 1;
        if has_quota(&group)
            && let Some(time) = read_text(&group.join("cpu.stat")).as_deref().and_then(waited)
        {
            times.insert(group.clone(), time);
        }
        open.extend(below(&group));
    }
    times
}

fn below(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path())
}

fn has_quota(group: &Path) -> bool {
    let unified = read_text(&group.join("cpu.max")).is_some_and(|text| !text.starts_with("max"));
    let first = || read_text(&group.join("cpu.cfs_quota_us"));
    unified || first().and_then(|text| text.trim().parse::<i64>().ok()).is_some_and(|quota| quota > 0)
}

/// Parses `cpu.stat`: `throttled_usec` of version 2, or `throttled_time` of version 1 in nanoseconds.
fn waited(text: &str) -> Option<Nanos> {
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", time) => Some(Nanos(time.parse::<u64>().ok()?.saturating_mul(1000))),
        ("throttled_time", time) => Some(Nanos(time.parse().ok()?)),
        _ => None,
    })
}

/// Returns the processes of a group and of the groups below.
fn processes(group: &Path) -> Vec<u32> {
    let mut processes = Vec::new();
    let mut open = vec![group.to_owned()];
    while let Some(group) = open.pop().filter(|_| processes.len() < GROUPS_MAX) {
        let text = read_text(&group.join("cgroup.procs")).unwrap_or_default();
        processes.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        open.extend(below(&group));
    }
    processes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let machine = Machine::at(dir.path());
        write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
        write("sys/fs/cgroup/cpu/a/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 7000\n");
        write("sys/fs/cgroup/cpu/free/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu/free/cpu.stat", "throttled_time 9\n");
        let times = QuotaTimes::begin(&machine);
        write("sys/fs/cgroup/cpu/a/cpu.stat", "throttled_time 12000\n");
        write("sys/fs/cgroup/cpu/a/cgroup.procs", "10\n");
        write("sys/fs/cgroup/cpu/a/inner/cgroup.procs", "11\n12\n");
        let ran = [(10, Nanos(1)), (11, Nanos(9))].into_iter().collect();
        assert_eq!(times.finish(&machine, &ran), [(11, Nanos(5000))]);

        fs::remove_dir_all(dir.path().join("sys")).unwrap();
        write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        write("sys/fs/cgroup/system.slice/b.service/cpu.max", "20000 100000\n");
        write("sys/fs/cgroup/system.slice/b.service/cpu.stat", "usage_usec 5\nthrottled_usec 3\n");
        write("sys/fs/cgroup/system.slice/b.service/cgroup.procs", "10\n");
        write("sys/fs/cgroup/system.slice/c.service/cpu.max", "max 100000\n");
        write("sys/fs/cgroup/system.slice/c.service/cpu.stat", "throttled_usec 3\n");
        assert_eq!(QuotaTimes::default().finish(&machine, &ran), [(10, Nanos(3000))]);
    }
}
