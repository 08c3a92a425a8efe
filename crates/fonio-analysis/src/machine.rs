//! What the rest of the machine did: CPU ticks active, idle and iowait, memory, pressure, heat, network (Kim et al.,
//! Figures 11 and 12; Nguyen et al., section 4.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the monitor saw. Every part is absent where there are no samples of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Samples in all.
    pub samples: u64,
    /// Processor time.
    pub cpu: Option<Cpu>,
    /// Memory and swapping.
    pub memory: Option<Memory>,
    /// Pressure stall information, by resource: `cpu`, `io`, `memory`.
    pub pressure: Vec<Pressure>,
    /// Thermal zones.
    pub temperature: Vec<Temperature>,
    /// Processors' frequency.
    pub frequency: Option<Frequency>,
    /// Network interfaces, without loopback.
    pub network: Vec<Network>,
    /// Disks as the kernel counts them.
    pub disks: Vec<Disk>,
    /// Each quantity over time, for drawing.
    pub series: MachineSeries,
}

/// Processor time over all processors, in ticks (100 a second for each).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Ticks spent working.
    pub active_ticks: u64,
    /// Ticks spent idle, without I/O to wait for.
    pub idle_ticks: u64,
    /// Ticks spent idle while a thread waited for I/O.
    pub iowait_ticks: u64,
    /// Ticks that the hypervisor took.
    pub steal_ticks: u64,
    /// Active over all ticks.
    pub active_share: Option<f64>,
    /// Iowait over all ticks.
    pub iowait_share: Option<f64>,
    /// Iowait over active and iowait ticks: of the time the processors had something to do, the part waiting for storage.
    pub iowait_of_not_idle_share: Option<f64>,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Installed.
    pub total_bytes: Option<u64>,
    /// Least available.
    pub available_min_bytes: Option<u64>,
    /// Least available over installed.
    pub available_min_share: Option<f64>,
    /// Most dirty page cache.
    pub dirty_max_bytes: Option<u64>,
    /// Most page cache under write-back.
    pub writeback_max_bytes: Option<u64>,
    /// Pages swapped in.
    pub swap_in_pages: Option<u64>,
    /// Pages swapped out.
    pub swap_out_pages: Option<u64>,
    /// Pages swapped in and out in a second.
    pub swap_pages_per_s: Option<f64>,
    /// Major faults.
    pub major_faults: Option<u64>,
    /// Major faults in a second.
    pub major_faults_per_s: Option<f64>,
}

/// Pressure of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// `cpu`, `io` or `memory`.
    pub resource: String,
    /// Share of the sampled time in which some task stalled.
    pub some_share: Option<f64>,
    /// Share of the sampled time in which every task stalled.
    pub full_share: Option<f64>,
}

/// One thermal zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Temperature {
    /// The zone.
    pub zone: String,
    /// Mean, in thousandths of a degree Celsius.
    pub mean_millicelsius: f64,
    /// Greatest, in thousandths of a degree Celsius.
    pub max_millicelsius: i64,
}

/// Frequency of the processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    /// Mean over processors and samples, in kHz.
    pub mean_khz: Option<f64>,
    /// The least limit seen (`scaling_max_freq`) in kHz.
    pub limit_min_khz: Option<i64>,
    /// The greatest limit seen in kHz.
    pub limit_max_khz: Option<i64>,
    /// The least limit over the greatest, of the processor where that is worst: below 1 the limit was lowered for a time.
    pub capped_to_share: Option<f64>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The interface.
    pub interface: String,
    /// Bytes received.
    pub receive_bytes: u64,
    /// Bytes sent.
    pub transmit_bytes: u64,
    /// Bytes received in a second of the sampled time.
    pub receive_bytes_per_s: Option<f64>,
    /// Bytes sent in a second of the sampled time.
    pub transmit_bytes_per_s: Option<f64>,
}

/// One disk as the kernel counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// The device's name.
    pub name: String,
    /// Time with I/O in flight over the sampled time.
    pub busy_share: Option<f64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

/// Quantities over time in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSeries {
    /// Start of the first bin, in nanoseconds since the span began; negative where samples began before it.
    pub start_ns: i64,
    /// Width of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Each metric and subject, in the order of the recording's metrics, then by subject.
    pub metrics: Vec<MetricSeries>,
}

/// One metric over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSeries {
    /// The metric's name in the recording, unit included: `cpu_active_ticks`, `memory_available_bytes`, …
    pub metric: String,
    /// Which device, interface, zone or resource.
    pub subject: Option<String>,
    /// Whether it is a counter.
    pub counter: bool,
    /// For each bin: of a counter its increase in the bin, of a gauge the mean; absent where there is no sample.
    pub values: Vec<Option<f64>>,
}
