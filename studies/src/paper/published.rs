//! The parts of `studies/published.toml` that the papers use.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::smartio_schedulers::{Comparison, Concurrency, SchedulerNumbers};
use super::smartio_slowdown::Slowdowns;
use super::{bfuse_apps, bfuse_matrix, bfuse_phones, bfuse_stack};

use crate::process;

#[derive(Deserialize)]
pub(super) struct Published {
    pub(super) kim: Kim,
    pub(super) bfuse: Bfuse,
    pub(super) smartio: Smartio,
    pub(super) courville: Courville,
}

#[derive(Deserialize)]
pub(super) struct Kim {
    pub(super) card: Vec<Card>,
    pub(super) address_range: AddressRange,
    pub(super) network_mb_s: BTreeMap<String, Rates>,
    pub(super) app_install_mb: BTreeMap<String, f64>,
    pub(super) runtime_spread_percent: BTreeMap<String, Spread>,
    pub(super) io_breakdown_mb: BTreeMap<String, Four>,
    pub(super) webbench_store: Store,
    pub(super) app_launch_io_mb: BTreeMap<String, Launch>,
    /// Percent by app; also a statement about a RAM disk.
    app_launch_spread_percent: BTreeMap<String, toml::Value>,
    pub(super) background: Background,
    pub(super) sequential_over_random_writes: BTreeMap<String, f64>,
    pub(super) what_if: WhatIf,
    pub(super) pilot: Pilot,
}

impl Kim {
    /// Returns the variation of launch times over the devices, in percent, by app.
    pub(super) fn launch_spreads(&self) -> impl Iterator<Item = (&str, f64)> {
        self.app_launch_spread_percent.iter().filter_map(|(app, value)| {
            let percent = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
            Some((app.as_str(), percent?))
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) desktop_mb_s: Four,
    pub(super) phone_mb_s: Four,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Four {
    pub(super) seq_write: f64,
    pub(super) seq_read: f64,
    pub(super) rand_write: f64,
    pub(super) rand_read: f64,
}

#[derive(Deserialize)]
pub(super) struct AddressRange {
    pub(super) shape: BTreeMap<String, String>,
}

/// MB per second to and from the phone.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Rates {
    pub(super) rx: f64,
    pub(super) tx: f64,
}

/// Excess of the second-worst and the worst over the best, in percent.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Spread {
    pub(super) without_worst: f64,
    pub(super) with_worst: f64,
}

#[derive(Deserialize)]
pub(super) struct Store {
    pub(super) cache_files: f64,
    pub(super) cache_mb: f64,
    pub(super) webview_db_kb: f64,
    pub(super) webview_cache_db_kb: f64,
}

/// MB of a launch.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Launch {
    pub(super) read: f64,
    pub(super) write: f64,
}

#[derive(Deserialize)]
pub(super) struct Background {
    pub(super) network_rx_mb: f64,
    pub(super) storage_write_mb: f64,
}

#[derive(Deserialize)]
pub(super) struct WhatIf {
    pub(super) cache_in_ram_percent: BTreeMap<String, f64>,
    pub(super) database_in_ram_factor: BTreeMap<String, f64>,
    pub(super) all_in_ram: String,
    pub(super) no_sync: String,
}

#[derive(Deserialize)]
pub(super) struct Pilot {
    pub(super) raid0_factor_figure_14: Raid0,
    /// Gains of SQLite on NILFS2 by card.
    pub(super) nilfs2_factor_above: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
pub(super) struct Raid0 {
    pub(super) min_above: f64,
    pub(super) max_below: f64,
    pub(super) cards: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Bfuse {
    pub(super) layers_mb_s: bfuse_stack::Layers,
    pub(super) io_unit: bfuse_stack::IoUnit,
    pub(super) design: bfuse_stack::Design,
    pub(super) user_partition_io: bfuse_apps::UserPartition,
    pub(super) calls: bfuse_stack::Calls,
    #[serde(rename = "final")]
    pub(super) last: bfuse_matrix::Last,
    pub(super) filesystem_over_ext4_percent: bfuse_matrix::OverExt4,
    pub(super) phone: Vec<bfuse_phones::Phone>,
}

#[derive(Deserialize)]
pub(super) struct Smartio {
    pub(super) iowait: Iowait,
    pub(super) facebook_s: Facebook,
    pub(super) app_delay: AppDelay,
    pub(super) s5_slowdown: Slowdowns,
    pub(super) s5_slowdown_4x4: Slowdowns,
    pub(super) razr_slowdown_4x4: Slowdowns,
    pub(super) concurrency: Concurrency,
    pub(super) scheduler: SchedulerNumbers,
    pub(super) scheduler_comparison: Comparison,
}

#[derive(Deserialize)]
pub(super) struct AppDelay {
    pub(super) launch_reads_over_writes: f64,
    pub(super) warm_over_cold_percent_less: f64,
    pub(super) cold_launch: LaunchGains,
    pub(super) power_mean: f64,
}

/// Percent less with SmartIO than with CFQ.
#[derive(Deserialize)]
pub(super) struct LaunchGains {
    pub(super) mean: f64,
    pub(super) disk_io_part_mean: f64,
}

/// Seconds with CFQ and with SmartIO, by phone.
#[derive(Deserialize)]
pub(super) struct Facebook {
    pub(super) cold_launch: BTreeMap<String, [f64; 2]>,
    pub(super) timeline: BTreeMap<String, [f64; 2]>,
}

#[derive(Deserialize)]
pub(super) struct Iowait {
    pub(super) s5_percent_of_active: f64,
    pub(super) share_range_percent: [f64; 2],
    pub(super) reduction_percent: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
pub(super) struct Courville {
    pub(super) workload: Vec<CourvilleWorkload>,
    /// Shares by workload and group of requests.
    pub(super) size_share: BTreeMap<String, BTreeMap<String, f64>>,
    /// Milliseconds by workload and group of requests.
    pub(super) latency_p80_ms: BTreeMap<String, BTreeMap<String, f64>>,
    pub(super) locality: CourvilleLocality,
}

#[derive(Deserialize)]
pub(super) struct CourvilleLocality {
    pub(super) burst_mode_camera: BurstMode,
    pub(super) camera: CameraPlaces,
    pub(super) burst_covering_blocks: f64,
    pub(super) dropbox_rewritten_blocks: f64,
}

#[derive(Deserialize)]
pub(super) struct BurstMode {
    pub(super) unique_blocks: f64,
    pub(super) top_10_share: f64,
}

#[derive(Deserialize)]
pub(super) struct CameraPlaces {
    pub(super) unique_blocks: f64,
    pub(super) most_written_block: f64,
}

#[derive(Clone, Deserialize)]
pub(super) struct CourvilleWorkload {
    pub(super) name: String,
    pub(super) read_write_ratio: f64,
    pub(super) flush_gap_p90: FlushGap,
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) duration_ms: f64,
    pub(super) io_latency_percent: f64,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct FlushGap {
    pub(super) requests: f64,
    pub(super) kb: f64,
    pub(super) seconds: f64,
}

pub(super) fn published() -> Result<Published> {
    let path = process::root().join("studies/published.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}
