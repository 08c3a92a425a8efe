//! Handles limits of a disk's queue. The limits are lifted while the concurrency parameters are measured; the
//! result of this measurement can become a new setting.

use std::path::Path;

use fonio_core::Access;
use fonio_host::{
    Applied, Concurrency, Ledger, OnlyChanger, Queue, SMARTIO, Setting, Settings, Target, borrow_setting,
};

use super::AT_ONCE;
use crate::error::BenchError;
use crate::result::Parameter;

/// The minimum length of a queue (`BLKDEV_MIN_RQ` of the kernel's `include/linux/blkdev.h`).
const QUEUE_MIN: u32 = 4;

/// A disk whose queue length can be limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    name: String,
    /// Name of the disk's I/O scheduler.
    pub scheduler: String,
}

impl Disk {
    /// Returns the disk that is `target`, or the disk that contains `target`. Fails if `target` is not on a
    /// disk with a changeable queue.
    pub fn of(target: &Path) -> Result<Disk, BenchError> {
        let probe = Setting::requests(QUEUE_MIN).plan_or_current(target)?;
        let name = probe.target.disk().expect("the setting `requests` is a setting of a disk").to_owned();
        let (scheduler, _) = Queue::of(&name).schedulers()?;
        Ok(Disk { name, scheduler })
    }

    /// Returns the path of the disk's device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Whether the disk's scheduler has a limit for each kind of I/O.
    pub fn is_smartio(&self) -> bool {
        self.scheduler == SMARTIO
    }

    /// Describes, in words, the setting that a measured result changes.
    pub fn subject(&self) -> String {
        let (node, scheduler) = (self.node(), &self.scheduler);
        if self.is_smartio() {
            format!("the concurrency parameters of {node}")
        } else {
            format!(
                "the number of requests of {node}, because its scheduler {scheduler} has no concurrency parameters"
            )
        }
    }

    /// Converts concurrency parameters to a setting of this disk.
    pub fn setting(&self, found: Concurrency) -> Setting {
        if self.is_smartio() {
            return parameters(found);
        }
        // Reads and writes share the queue, so add their numbers.
        let Concurrency { seq_read, rand_read, seq_write, rand_write } = found;
        Setting::requests((seq_read.max(rand_read) + seq_write.max(rand_write)).max(QUEUE_MIN))
    }

    /// If `setting` would make the queue longer, returns the current value as if it had been applied.
    pub fn is_shorter_than(&self, setting: &Setting) -> Result<Option<Applied>, BenchError> {
        let planned = setting.plan_or_current(Path::new(&self.node()))?;
        let numbers = planned.old.parse::<u32>().ok().zip(planned.new.parse::<u32>().ok());
        let is_shorter = setting.scheduler().is_none() && numbers.is_some_and(|(old, new)| old < new);
        Ok(is_shorter.then(|| Applied { new: planned.old.clone(), ..planned }))
    }

    /// Returns the settings that lift the active limits: smartio's concurrency parameters, and the number of
    /// requests if a fix of fonio changed it. Only root can read fonio's record of applied fixes.
    pub fn lifting(&self, is_root: bool) -> Result<Vec<Setting>, BenchError> {
        let mut limits = Vec::new();
        if self.is_smartio() {
            limits.push(parameters(Concurrency::UNLIMITED));
        }
        if is_root {
            let of_queue = Setting::requests(QUEUE_MIN);
            let is_own = |target: &Target| of_queue.is_of(target) && target.disk() == Some(&self.name);
            let record = Settings::on_record(&Ledger::default_dir())?;
            let before = record.iter().find(|applied| is_own(&applied.target));
            limits.extend(before.and_then(|applied| applied.old.parse().ok()).map(Setting::requests));
        }
        Ok(limits)
    }
}

fn parameters(numbers: Concurrency) -> Setting {
    Setting::parse(&format!("concurrency={numbers}")).expect("measured numbers are valid concurrency values")
}

/// Queue limits that are lifted during a measurement. With these limits, a measurement would only find the
/// limits that an earlier measurement has set. Dropping the value restores the limits; after `kill -9`, the
/// next fonio command restores them.
#[derive(Debug)]
pub struct Lifted {
    ledger: Ledger,
    _locks: Vec<OnlyChanger>,
}

impl Lifted {
    /// Lifts the `limits` of a disk, and calls `note` with a sentence for each limit. Returns `None` if no
    /// limit is active.
    pub fn lift(
        disk: &Disk,
        limits: &[Setting],
        note: &mut dyn FnMut(String),
    ) -> Result<Option<Lifted>, BenchError> {
        let node = disk.node();
        let mut lifted = None;
        for limit in limits {
            let planned = limit.plan_or_current(Path::new(&node))?;
            if planned.old == planned.new {
                continue;
            }
            let lifted = match &mut lifted {
                Some(lifted) => lifted,
                none => {
                    none.insert(Lifted { ledger: Ledger::open(&Ledger::default_dir())?, _locks: Vec::new() })
                }
            };
            let (_, lock) = borrow_setting(limit, Path::new(&node), &mut lifted.ledger)?;
            lifted._locks.push(lock);
            note(format!(
                "Lifted {} for the measurement: {} -> {}",
                planned.target, planned.old, planned.new
            ));
        }
        Ok(lifted)
    }

    /// Restores the queue limits.
    pub fn restore(self) -> Result<(), BenchError> {
        Ok(self.ledger.close()?)
    }
}

/// Returns a warning if the queue has room for fewer requests than the measurement issues concurrently.
pub fn short_queue(target: &Path) -> Option<String> {
    let planned = Setting::requests(QUEUE_MIN).plan_or_current(target).ok()?;
    let number: u32 = planned.old.parse().ok()?;
    let most = AT_ONCE.last().copied().filter(|most| number < *most)?;
    Some(format!(
        "The queue of {} has room for only {number} requests (nr_requests). The measurement issued up to {most} requests at once, so some of them waited in the kernel.",
        planned.target.path().display()
    ))
}

/// Returns the concurrency parameters of all four kinds of I/O. Returns the reason why the parameters are not
/// precise enough to be set.
pub fn known(parameters: &[Parameter]) -> Result<Concurrency, &'static str> {
    let of = |access: Access| -> Result<u32, &'static str> {
        let found = parameters.iter().find(|found| found.access == access);
        let found = found.ok_or("a kind of I/O was not measured")?;
        found.requests_high.ok_or("each test ran only once, so the spread of the runs is unknown")?;
        Ok(found.requests)
    };
    Ok(Concurrency {
        seq_read: of(Access::SeqRead)?,
        rand_read: of(Access::RandRead)?,
        seq_write: of(Access::SeqWrite)?,
        rand_write: of(Access::RandWrite)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(access: Access, requests: u32, requests_high: Option<u32>) -> Parameter {
        Parameter {
            access,
            requests,
            requests_high,
            measured_max: 32,
            mb_s: 1.0,
            one_mb_s: 1.0,
            speedup: 1.0,
        }
    }

    #[test]
    fn parameters_are_set_only_if_all_are_known() {
        let found: Vec<Parameter> = Access::ALL
            .into_iter()
            .zip(1..)
            .map(|(access, number)| parameter(access, number, Some(8)))
            .collect();
        let all = known(&found).expect("all are known");
        assert_eq!(known(&found[1..]).expect_err("one is missing"), "a kind of I/O was not measured");
        let mut once = found;
        once[0].requests_high = None;
        assert!(known(&once).expect_err("it ran once").contains("only once"));
        let disk = |scheduler: &str| Disk { name: "sda".to_owned(), scheduler: scheduler.to_owned() };
        let queue = all.seq_read.max(all.rand_read) + all.seq_write.max(all.rand_write);
        assert_eq!(disk("bfq").setting(all), Setting::requests(queue.max(QUEUE_MIN)));
        assert_eq!(disk(SMARTIO).setting(all), parameters(all));
    }
}
