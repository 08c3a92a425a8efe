//! The settings of a run, and the numbers of its result.

use std::collections::BTreeMap;

use fonio_core::Op;
use serde::Serialize;

use super::run::Ran;
use crate::device::{Counters, Device};
use crate::engine::{Done, Host};
use crate::profile::Profile;

/// The settings of a run, which determine its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The version of fonio.
    pub version: &'static str,
    /// The seed of the host and the device.
    pub seed: u64,
    /// The name of the profile.
    pub profile: String,
    /// All values of the profile, by key.
    pub values: BTreeMap<&'static str, String>,
    /// The size of the device.
    pub capacity_bytes: u64,
    /// The queue depth of the driver.
    pub depth: u32,
    /// The name of the scheduler.
    pub scheduler: String,
    /// The translation layer, if the device has one.
    pub ftl: Option<String>,
}

impl Settings {
    /// Returns the settings of a run on a device of this profile.
    pub fn of(profile: &Profile, device: &dyn Device, scheduler: &str, host: Host) -> Settings {
        let values = profile.keys().filter_map(|key| Some((key.path, profile.text(key.path)?)));
        Settings {
            values: values.collect(),
            ftl: profile.word("ftl.kind").map(str::to_owned),
            ..Settings::named(profile.name(), device, scheduler, host)
        }
    }

    /// Returns the settings of a run on a device that consists of several, and so has no values of its own.
    pub fn named(name: &str, device: &dyn Device, scheduler: &str, host: Host) -> Settings {
        Settings {
            version: env!("CARGO_PKG_VERSION"),
            seed: host.seed,
            profile: name.to_owned(),
            values: BTreeMap::new(),
            capacity_bytes: device.limits().capacity.0,
            depth: host.depth,
            scheduler: scheduler.to_owned(),
            ftl: None,
        }
    }
}

/// The numbers of a run, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The settings of the run.
    pub settings: Settings,
    /// Number of requests.
    pub requests: u64,
    /// The time from the first queueing to the last completion; `None` without requests.
    pub span_ns: Option<u64>,
    /// The numbers of each op, by its name.
    pub ops: BTreeMap<&'static str, OpSummary>,
    /// Programmed bytes divided by the bytes that the host wrote; `None` without writes.
    pub write_amplification: Option<f64>,
    /// What the device did.
    pub counters: Amounts,
    /// The erase blocks of the device at the end, if it has any.
    pub blocks: Option<Blocks>,
    /// The erasures of the erase blocks, if the device counts them.
    pub wear: Option<WearSummary>,
}

/// The requests of one op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpSummary {
    /// Number of requests.
    pub count: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Times from queueing to completion.
    pub response: Distribution,
    /// Times from issue to completion.
    pub service: Distribution,
    /// Times from queueing to issue.
    pub queue: Distribution,
}

/// The distribution of times in nanoseconds. A percentile is the smallest time that at least this share of the requests
/// did not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The mean.
    pub mean_ns: f64,
    /// The shortest time.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

/// What a device did during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that were programmed into flash.
    pub programmed_bytes: u64,
    /// Number of erasures.
    pub erases: u64,
    /// Number of switch merges.
    pub switch_merges: u64,
    /// Number of partial merges.
    pub partial_merges: u64,
    /// Number of full merges.
    pub full_merges: u64,
    /// Number of copied pages.
    pub pages_copied: u64,
    /// The time during which the device was busy.
    pub busy_ns: u64,
}

/// The erase blocks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// All erase blocks.
    pub total: u32,
    /// The free ones.
    pub free: u32,
    /// Those with data.
    pub data: u32,
    /// Those that are being written.
    pub log: u32,
}

/// The erasures of the erase blocks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WearSummary {
    /// Number of erase blocks.
    pub blocks: u64,
    /// The fewest erasures of a block.
    pub min: u32,
    /// The most erasures of a block.
    pub max: u32,
    /// The mean.
    pub mean: f64,
}

impl Summary {
    /// Returns the numbers of a run.
    pub fn of(ran: &Ran, settings: &Settings) -> Summary {
        let Counters { host_written, host_read, programmed, .. } = ran.counters;
        let erased = &ran.erase_counts;
        let wear = erased.iter().min().zip(erased.iter().max()).map(|(min, max)| {
            let sum: u64 = erased.iter().map(|count| u64::from(*count)).sum();
            let blocks = erased.len() as u64;
            WearSummary { blocks, min: *min, max: *max, mean: sum as f64 / blocks as f64 }
        });
        let first = ran.done.iter().map(|done| done.queued.0).min();
        let last = ran.done.iter().map(|done| done.completed.0).max();
        let mut times: BTreeMap<Op, OpTimes> = BTreeMap::new();
        for done in &ran.done {
            times.entry(done.request.op).or_default().add(done);
        }
        let ops = times.into_iter().map(|(op, times)| (op.name(), times.summary()));
        Summary {
            settings: settings.clone(),
            requests: ran.done.len() as u64,
            span_ns: first.zip(last).map(|(first, last)| last - first),
            ops: ops.collect(),
            write_amplification: (host_written.0 > 0).then(|| programmed.0 as f64 / host_written.0 as f64),
            counters: Amounts {
                host_written_bytes: host_written.0,
                host_read_bytes: host_read.0,
                programmed_bytes: programmed.0,
                erases: ran.counters.erases,
                switch_merges: ran.counters.switch_merges,
                partial_merges: ran.counters.partial_merges,
                full_merges: ran.counters.full_merges,
                pages_copied: ran.counters.pages_copied,
                busy_ns: ran.counters.busy.0,
            },
            blocks: ran.census.map(|census| Blocks {
                total: census.total,
                free: census.free,
                data: census.data,
                log: census.log,
            }),
            wear,
        }
    }
}

/// The times of the requests of one op.
#[derive(Default)]
struct OpTimes {
    bytes: u64,
    response: Vec<u64>,
    service: Vec<u64>,
    queue: Vec<u64>,
}

impl OpTimes {
    fn add(&mut self, done: &Done) {
        let Done { request, queued, issued, completed } = done;
        self.bytes += request.bytes.0;
        self.response.push(completed.0 - queued.0);
        self.service.push(completed.0 - issued.0);
        self.queue.push(issued.0 - queued.0);
    }

    fn summary(self) -> OpSummary {
        OpSummary {
            count: self.response.len() as u64,
            bytes: self.bytes,
            response: Distribution::of(self.response),
            service: Distribution::of(self.service),
            queue: Distribution::of(self.queue),
        }
    }
}

impl Distribution {
    /// Returns the distribution of times. Panics without times.
    fn of(mut times: Vec<u64>) -> Distribution {
        let min_ns = *times.iter().min().expect("an op with times");
        let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
        let mean_ns = sum as f64 / times.len() as f64;
        let count = times.len();
        // Each percentile is above the one before, so it is looked for among the times that are not below that one.
        let mut from = 0;
        let mut at = |thousandths: usize| {
            let place = (count * thousandths).div_ceil(1000).max(1) - 1;
            let (_, time, _) = times[from..].select_nth_unstable(place - from);
            let time = *time;
            from = place;
            time
        };
        Distribution {
            mean_ns,
            min_ns,
            p50_ns: at(500),
            p90_ns: at(900),
            p95_ns: at(950),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: at(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(times in prop::collection::vec(0u64..2000, 1..3000)) {
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let at = |thousandths: usize| sorted[(sorted.len() * thousandths).div_ceil(1000).max(1) - 1];
            let found = Distribution::of(times.clone());
            prop_assert_eq!(found.min_ns, sorted[0]);
            prop_assert_eq!(
                [found.p50_ns, found.p90_ns, found.p95_ns, found.p99_ns, found.p999_ns, found.max_ns],
                [500, 900, 950, 990, 999, 1000].map(at)
            );
            let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
            prop_assert!((found.mean_ns - mean).abs() < 1e-6);
        }
    }
}
