//! Measures the processor time that each process uses during a capture.
//!
//! procfs counts the time of a process since its start, so the time is measured by two readings. A process
//! that starts and ends between the readings is counted with its parent, if the parent waited for it.

use fonio_core::{Metric, Sample, Timestamp};
use fonio_machine::Machine;
use fonio_system::Task;
use fonio_system::procfs::Stat;
use rustc_hash::FxHashMap;

/// The reading of all processes at the beginning of a capture.
#[derive(Debug, Default)]
pub(crate) struct ProcessTimes {
    began: FxHashMap<u32, Stat>,
}

impl ProcessTimes {
    /// Reads the times of all processes.
    pub(crate) fn begin(machine: &Machine) -> ProcessTimes {
        ProcessTimes { began: read(machine) }
    }

    /// Reads the times again, and returns a sample for each process that used a processor since then.
    pub(crate) fn finish(&self, machine: &Machine, ended: Timestamp) -> Vec<Sample> {
        let per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let used = used(&self.began, &read(machine)).into_iter();
        let samples = used.map(|(pid, ticks)| Sample {
            time: ended,
            metric: Metric::ProcessCpuNs,
            subject: Some(pid.to_string()),
            value: i64::try_from(ticks.saturating_mul(per_tick)).unwrap_or(i64::MAX),
        });
        samples.collect()
    }
}

fn read(machine: &Machine) -> FxHashMap<u32, Stat> {
    let proc = machine.proc("");
    let own = std::process::id();
    let all = Task::all_below(&proc).filter(|pid| *pid != own);
    all.filter_map(|pid| Some((pid, Task::below(&proc, pid).stat()?))).collect()
}

/// Returns the processes that used a processor between two readings, by id, with their time in ticks.
fn used(began: &FxHashMap<u32, Stat>, ended: &FxHashMap<u32, Stat>) -> Vec<(u32, u64)> {
    let own = |stat: &Stat| stat.user_ticks + stat.system_ticks;
    let is_same = |pid: &u32, stat: &Stat| {
        ended.get(pid).is_some_and(|at_end| at_end.started_ticks == stat.started_ticks)
    };
    // The complete time of an ended child is added to its parent, including the time before the first reading.
    let mut before: FxHashMap<u32, u64> = FxHashMap::default();
    for (pid, stat) in began {
        if !is_same(pid, stat) {
            *before.entry(stat.parent).or_default() += own(stat) + stat.children_ticks;
        }
    }
    let mut used: Vec<(u32, u64)> = Vec::new();
    for (pid, stat) in ended {
        let first = began.get(pid).filter(|first| first.started_ticks == stat.started_ticks);
        let of_itself = own(stat).saturating_sub(first.map_or(0, own));
        let of_children = stat.children_ticks.saturating_sub(first.map_or(0, |first| first.children_ticks));
        let of_children = of_children.saturating_sub(before.get(pid).copied().unwrap_or(0));
        if of_itself + of_children > 0 {
            used.push((*pid, of_itself + of_children));
        }
    }
    used.sort_unstable();
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_belong_to_the_process_or_the_parent_that_waited() {
        let stat = |parent, own, children_ticks, started_ticks| Stat {
            state: 'S',
            parent,
            user_ticks: own,
            system_ticks: 0,
            children_ticks,
            started_ticks,
        };
        let began = [
            (1, stat(0, 50, 500, 0)),
            (10, stat(1, 100, 40, 5)),
            // Process 11 ends during the capture, and process 10 waits for it.
            (11, stat(10, 30, 0, 6)),
            // The number 12 is reused.
            (12, stat(1, 900, 0, 7)),
            (13, stat(1, 7, 0, 8)),
        ];
        let ended = [
            (1, stat(0, 50, 1400, 0)),
            // Process 11 used 5 ticks more, and two short children used 20.
            (10, stat(1, 130, 40 + 35 + 20, 5)),
            (12, stat(10, 4, 0, 99)),
            (13, stat(1, 7, 0, 8)),
        ];
        let used = used(&began.into_iter().collect(), &ended.into_iter().collect());
        assert_eq!(used, [(10, 30 + 5 + 20), (12, 4)]);
    }

    #[test]
    fn this_process_uses_a_processor() {
        let machine = Machine::here();
        let times = ProcessTimes::begin(&machine);
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let samples = times.finish(&machine, Timestamp(7));
        child.kill().unwrap();
        child.wait().unwrap();
        let own = samples.iter().find(|sample| sample.subject == Some(child.id().to_string())).unwrap();
        assert!(own.value > 0 && own.metric == Metric::ProcessCpuNs && own.time == Timestamp(7), "{own:?}");
    }
}
