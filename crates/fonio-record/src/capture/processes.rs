//! Measures the processor time that each process uses during a capture.
//!
//! procfs counts the time of a process since its start, so the time used during a capture is the difference
//! between two readings. BPF adds the time of processes that ended between the readings. Without BPF, a
//! process that ended is counted with its parent, if the parent waited for it.

use fonio_core::{Metric, Nanos, Sample, Timestamp};
use fonio_machine::Machine;
use fonio_system::Task;
use fonio_system::procfs::Stat;
use rustc_hash::FxHashMap;

use crate::capture::quota::QuotaTimes;
use crate::probes::blocked::ProcessesSeen;

/// Minimum time for a process to be named.
const NAMED_FROM_NS: i64 = 50_000_000;

/// The reading of all processes at the beginning of a capture.
#[derive(Debug, Default)]
pub(crate) struct ProcessTimes {
    began: FxHashMap<u32, Stat>,
    quotas: QuotaTimes,
}

impl ProcessTimes {
    /// Reads the times of all processes.
    pub(crate) fn begin(machine: &Machine) -> ProcessTimes {
        ProcessTimes { began: read(machine), quotas: QuotaTimes::begin(machine) }
    }

    /// Reads the times again, and returns a sample for each process that used a processor since then, and
    /// for each kind of its sleeps. `seen` has the times that BPF recorded.
    pub(crate) fn finish(
        &self,
        machine: &Machine,
        ended: Timestamp,
        seen: Option<&ProcessesSeen>,
    ) -> Vec<Sample> {
        let used = used(&self.began, &read(machine), seen.map(|seen| &seen.ran));
        let waited = self.quotas.finish(machine, &used.iter().copied().collect()).into_iter();
        let waited = waited.map(|(pid, time)| (pid, Metric::ProcessQuotaNs, time));
        let used = used.into_iter().map(|(pid, time)| (pid, Metric::ProcessCpuNs, time));
        let slept = seen.iter().flat_map(|seen| &seen.slept);
        let slept = slept.map(|slept| (slept.pid, slept.metric, slept.time));
        let samples = used.chain(waited).chain(slept).map(|(pid, metric, time)| Sample {
            time: ended,
            metric,
            subject: Some(pid.to_string()),
            value: i64::try_from(time.0).unwrap_or(i64::MAX),
        });
        samples.collect()
    }
}

/// Returns the processes that used a processor, or waited for a lock, for long enough to be named.
pub(crate) fn working(samples: &[Sample]) -> impl Iterator<Item = u32> {
    let named = [Metric::ProcessCpuNs, Metric::ProcessLockNs, Metric::ProcessChildNs];
    let long = samples.iter().filter(move |row| named.contains(&row.metric) && row.value >= NAMED_FROM_NS);
    long.filter_map(|row| row.subject.as_ref()?.parse().ok())
}

fn read(machine: &Machine) -> FxHashMap<u32, Stat> {
    let proc = machine.proc("");
    let own = std::process::id();
    let all = Task::all_below(&proc).filter(|pid| *pid != own);
    all.filter_map(|pid| Some((pid, Task::below(&proc, pid).stat()?))).collect()
}

/// Returns the processor time of each process that used a processor between two readings, by process id.
/// `ran` contains the times of the threads that ended between the readings; without `ran`, the times of ended
/// children are added to their parents.
fn used(
    began: &FxHashMap<u32, Stat>,
    ended: &FxHashMap<u32, Stat>,
    ran: Option<&FxHashMap<u32, Nanos>>,
) -> Vec<(u32, Nanos)> {
    let own = |stat: &Stat| ticks(stat.user_ticks + stat.system_ticks);
    let is_same = |pid: u32, stat: &Stat| {
        ended.get(&pid).is_some_and(|at_end| at_end.started_ticks == stat.started_ticks)
    };
    let mut used: Vec<(u32, Nanos)> = Vec::new();
    if let Some(ran) = ran {
        for (&pid, &time) in ran.iter().filter(|(pid, _)| !ended.contains_key(pid)) {
            used.push((pid, Nanos(time.0.saturating_sub(began.get(&pid).map_or(0, |stat| own(stat).0)))));
        }
    }
    // The complete time of an ended child is added to its parent, including the time before the first reading.
    let mut before: FxHashMap<u32, Nanos> = FxHashMap::default();
    for stat in began.iter().filter(|(pid, stat)| !is_same(**pid, stat)).map(|(_, stat)| stat) {
        *before.entry(stat.parent).or_default() += own(stat) + ticks(stat.children_ticks);
    }
    for (&pid, stat) in ended {
        let first = began.get(&pid).filter(|first| is_same(pid, first));
        let mut time = own(stat).0.saturating_sub(first.map_or(0, |first| own(first).0));
        if ran.is_none() {
            let children = stat.children_ticks - first.map_or(0, |first| first.children_ticks);
            let before = before.get(&pid).copied().unwrap_or_default();
            time += ticks(children).0.saturating_sub(before.0);
        }
        used.push((pid, Nanos(time)));
    }
    used.retain(|(_, time)| *time > Nanos(0));
    used.sort_unstable();
    used
}

fn ticks(count: u64) -> Nanos {
    Nanos(count.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
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
        let (began, ended) = (began.into_iter().collect(), ended.into_iter().collect());
        assert_eq!(used(&began, &ended, None), [(10, ticks(30 + 5 + 20)), (12, ticks(4))]);
        // BPF saw process 11, and a short process 14.
        let ran = [(11, ticks(35)), (14, Nanos(9)), (13, Nanos(5))].into_iter().collect();
        let expected = [(10, ticks(30)), (11, ticks(5)), (12, ticks(4)), (14, Nanos(9))];
        assert_eq!(used(&began, &ended, Some(&ran)), expected);
    }

    #[test]
    fn this_process_uses_a_processor() {
        let machine = Machine::here();
        let times = ProcessTimes::begin(&machine);
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let samples = times.finish(&machine, Timestamp(7), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let own = samples.iter().find(|sample| sample.subject == Some(child.id().to_string())).unwrap();
        assert!(own.value > 0 && own.metric == Metric::ProcessCpuNs && own.time == Timestamp(7), "{own:?}");
    }
}
