//! The published numbers of each table and figure: the denominator of its rows.
//!
//! [`HOMES`] gives each number of `studies/published.toml` exactly one home: a table or figure, or the reason why
//! it has none. `*` matches one key or one entry of a list.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::Value;

use super::published;

/// The home of published numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The table or figure with this id.
    Id(&'static str),
    /// The numbers describe how the study measured, not what it found.
    Setup,
    /// No table or figure of ours has the numbers, for this reason.
    Without(&'static str),
}

use Home::{Id, Setup, Without};

/// The keys of published numbers, and their homes. The first match counts.
const HOMES: &[(&str, Home)] = &[
    ("kim.network_mb_s.*.*", Id("kim-t2")),
    ("kim.card.*.speed_class", Setup),
    ("kim.card.*.cost_usd", Setup),
    ("kim.card.*.*.*", Id("kim-t3")),
    ("kim.monitor.*", Id("kim-monitor")),
    ("kim.app_install_mb.*", Id("kim-t4")),
    ("kim.app_launch_mb.*", Id("kim-t4")),
    ("kim.runtime_spread_percent.webbench_wifi.*", Id("kim-f4")),
    ("kim.runtime_spread_percent.webbench_usb.*", Id("kim-f4")),
    ("kim.runtime_spread_percent.*.*", Id("kim-f5")),
    ("kim.io_breakdown_mb.*.*", Id("kim-t5")),
    ("kim.webbench_store.sites", Setup),
    ("kim.webbench_store.*", Id("kim-f7")),
    ("kim.app_launch_io_mb.*.*", Id("kim-t6")),
    ("kim.app_launch_spread_percent.*", Id("kim-f9")),
    ("kim.background.duration_s", Setup),
    ("kim.background.*", Id("kim-f10")),
    ("kim.idle_background.*", Without("the services of an idle phone are not imitated")),
    ("kim.sequential_over_random_writes.*", Id("kim-f6")),
    ("kim.what_if.*.*", Id("kim-f13")),
    ("kim.pilot.pcm_mb", Setup),
    ("kim.pilot.raid0_stripe_kb", Setup),
    ("kim.pilot.*.*", Id("kim-f14")),
    ("kim.address_range.*", Setup),
    ("smartio.s5_response_ms.*", Id("smartio-f4")),
    ("smartio.s5_slowdown.max_read_slowdown_percent.*", Id("smartio-f4")),
    ("smartio.s5_slowdown.read_slowdown_gain_max.*", Id("smartio-f11")),
    ("smartio.s5_slowdown.write_slowdown_cost_max.*", Id("smartio-f11")),
    ("smartio.*.cfq.*", Id("smartio-f4")),
    ("smartio.*.smartio.*", Id("smartio-f11")),
    ("smartio.concurrency.tried.*", Setup),
    ("smartio.concurrency.workload_mb_each", Setup),
    ("smartio.concurrency.*.*", Id("smartio-f7")),
    ("smartio.scheduler.quantum", Id("smartio-alg-6.2")),
    ("smartio.scheduler.*", Id("smartio-alg-6.1")),
    ("smartio.iowait.devices", Setup),
    ("smartio.iowait.reduction_percent.*", Id("smartio-f10")),
    ("smartio.iowait.share_range_percent.*", Id("smartio-f3")),
    ("smartio.iowait.*", Id("smartio-f3")),
    ("smartio.scheduler_comparison.*.*", Id("smartio-f12")),
    ("smartio.app_delay.cold_launch.*", Id("smartio-f10")),
    ("smartio.app_delay.power_mean", Id("smartio-f14")),
    ("smartio.app_delay.user_events", Setup),
    ("smartio.app_delay.apps", Setup),
    ("smartio.app_delay.monkey_seed", Setup),
    ("smartio.app_delay.processes_mean.*", Without("the processes of a phone are not imitated")),
    ("smartio.app_delay.*.*", Id("smartio-f13")),
    ("smartio.app_delay.*", Id("smartio-f13")),
    ("smartio.facebook_s.*.*.*", Id("smartio-f15")),
    ("bfuse.layers_mb_s.*.*", Id("bfuse-f2")),
    ("bfuse.layers_mb_s.*", Id("bfuse-f2")),
    ("bfuse.io_unit.*", Id("bfuse-f6")),
    ("bfuse.design.gain_percent.management_thread", Id("bfuse-f10")),
    ("bfuse.design.gain_percent.*", Id("bfuse-f17")),
    ("bfuse.design.*.*", Setup),
    ("bfuse.design.*", Setup),
    ("bfuse.user_partition_io.*.*", Id("bfuse-f4")),
    ("bfuse.user_partition_io.*", Id("bfuse-f4")),
    ("bfuse.calls.kb_written", Setup),
    ("bfuse.calls.*.*", Id("bfuse-t3")),
    ("bfuse.filesystem_over_ext4_percent.*.*", Id("bfuse-f17")),
    ("bfuse.filesystem_over_ext4_percent.*", Id("bfuse-f17")),
    ("bfuse.final.*.*.*", Id("bfuse-f17")),
    ("bfuse.final.*.*", Id("bfuse-f17")),
    ("bfuse.phone.*.year", Setup),
    ("courville.workload.*.read_write_ratio", Id("courville-t1")),
    ("courville.workload.*.flush_gap_p90.*", Id("courville-t2")),
    ("courville.workload.*.*", Id("courville-t3")),
    ("courville.size_share.*.*", Id("courville-f2")),
    ("courville.latency_p80_ms.*.*", Id("courville-f2")),
    ("courville.locality.*.*", Id("courville-f6")),
    ("courville.locality.*", Id("courville-f6")),
];

/// The part of the file that is from no study of this comparison.
const OTHER: &str = "sqlite_receipt";

/// The number of published numbers of each id, and of each study's numbers without an id, with the reason.
pub(super) struct Numbers {
    by_id: BTreeMap<&'static str, u32>,
    /// By the first key of their paths, such as `kim`.
    without: Vec<(String, &'static str)>,
}

impl Numbers {
    pub(super) fn read() -> Result<Numbers> {
        let file: Value = toml::from_str(published::TEXT).context("cannot parse studies/published.toml")?;
        let mut numbers = Numbers { by_id: BTreeMap::new(), without: Vec::new() };
        for path in paths(&file) {
            let of = path.split('.').next().unwrap_or_default();
            match home(&path).with_context(|| format!("no table or figure has {path}"))? {
                Id(id) => *numbers.by_id.entry(id).or_default() += 1,
                Setup => {}
                Without(reason) => numbers.without.push((of.to_owned(), reason)),
            }
        }
        Ok(numbers)
    }

    /// Returns how many numbers a table or figure has in the file; 0 if the study only draws or describes it.
    pub(super) fn of(&self, id: &str) -> u32 {
        self.by_id.get(id).copied().unwrap_or(0)
    }

    /// Returns the reasons why numbers of a study have no table or figure here, one for each number. `study` is
    /// the study's name in ids, such as `kim`.
    pub(super) fn without(&self, study: &str) -> Vec<&'static str> {
        self.without.iter().filter(|(of, _)| of == study).map(|(_, reason)| *reason).collect()
    }
}

fn home(path: &str) -> Option<Home> {
    first(path).map(|at| HOMES[at].1)
}

/// Returns the position of the first entry of [`HOMES`] that matches a path.
fn first(path: &str) -> Option<usize> {
    let matches = |pattern: &str| {
        let (mut keys, mut pattern) = (path.split('.'), pattern.split('.'));
        loop {
            match (keys.next(), pattern.next()) {
                (None, None) => return true,
                (Some(key), Some(is)) if is == "*" || key == is => {}
                _ => return false,
            }
        }
    };
    HOMES.iter().position(|(pattern, _)| matches(pattern))
}

/// Returns the paths of all numbers of the studies.
fn paths(file: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(file, "", &mut found);
    found.retain(|path| !path.starts_with(OTHER));
    found
}

fn collect(value: &Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Integer(_) | Value::Float(_) => found.push(path.to_owned()),
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                collect(value, &below(&at.to_string()), found);
            }
        }
        Value::Table(table) => {
            for (key, value) in table {
                collect(value, &below(key), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_published_number_has_a_home() {
        let file: Value = toml::from_str(published::TEXT).unwrap();
        let paths = paths(&file);
        let homeless: Vec<&String> = paths.iter().filter(|path| home(path).is_none()).collect();
        assert!(homeless.is_empty(), "{homeless:?}");
        // A pattern that matches nothing, or that an earlier one hides, is a mistake.
        let hit: BTreeSet<usize> = paths.iter().filter_map(|path| first(path)).collect();
        let idle: Vec<&str> = (0..HOMES.len()).filter(|at| !hit.contains(at)).map(|at| HOMES[at].0).collect();
        assert!(idle.is_empty(), "{idle:?}");
    }

    #[test]
    fn numbers_are_counted_by_id() {
        let numbers = Numbers::read().unwrap();
        for (id, count) in [
            ("kim-t3", 8 * 8),
            ("kim-t5", 7 * 4),
            ("kim-t6", 10 * 4),
            ("kim-f4", 4),
            ("kim-f15", 0),
            ("smartio-f15", 10 + 10 + 4),
            ("bfuse-t3", 9 * 5),
            ("courville-t1", 13),
            ("courville-t2", 13 * 3),
        ] {
            assert_eq!(numbers.of(id), count, "{id}");
        }
        assert_eq!(numbers.without("kim").len(), 1);
        assert!(numbers.without("bfuse").is_empty());
    }
}
