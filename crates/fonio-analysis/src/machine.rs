//! Analyses the rest of the machine: CPU ticks (active, idle, iowait), memory, pressure, temperature and
//! network (Kim et al., Figures 11 and 12; Nguyen et al., section 4.2).

use fonio_core::{ByteCount, Metric, Nanos, Timestamp, Unit};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of the monitor. A part without samples is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The number of samples.
    pub samples: u64,
    /// Processor time.
    pub cpu: Option<Cpu>,
    /// Memory and swapping.
    pub memory: Option<Memory>,
    /// Pressure stall information, by resource: `cpu`, `io`, `memory`.
    pub pressure: Vec<Pressure>,
    /// Thermal zones.
    pub temperature: Vec<Temperature>,
    /// Frequency of the processors.
    pub frequency: Option<Frequency>,
    /// Network interfaces, without loopback.
    pub network: Vec<Network>,
    /// Disks according to the kernel's counters.
    pub disks: Vec<Disk>,
    /// Each quantity over time, for drawing.
    pub series: MachineSeries,
}

/// Processor time summed over all processors, in ticks; each processor has 100 ticks per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Ticks spent working.
    pub active_ticks: u64,
    /// Idle ticks without outstanding I/O.
    pub idle_ticks: u64,
    /// Idle ticks while a thread waited for I/O; absent if not recorded.
    pub iowait_ticks: Option<u64>,
    /// Ticks taken by the hypervisor; absent if not recorded.
    pub steal_ticks: Option<u64>,
    /// Active ticks divided by all known ticks.
    pub active_share: Option<f64>,
    /// Iowait ticks divided by all known ticks.
    pub iowait_share: Option<f64>,
    /// Iowait ticks divided by active and iowait ticks: the share of non-idle time spent waiting for storage.
    pub iowait_of_not_idle_share: Option<f64>,
    /// Active time of the busiest processor divided by the sampled time. The busiest processor is chosen anew
    /// in each sampling interval. 1 means that some processor was always fully active, as with a
    /// single-threaded computation. Absent if there are no samples per processor.
    pub busiest_share: Option<f64>,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Installed memory.
    pub total_bytes: Option<ByteCount>,
    /// Minimum available memory.
    pub available_min_bytes: Option<ByteCount>,
    /// Minimum available memory divided by installed memory.
    pub available_min_share: Option<f64>,
    /// Maximum dirty page cache.
    pub dirty_max_bytes: Option<ByteCount>,
    /// Maximum page cache under write-back.
    pub writeback_max_bytes: Option<ByteCount>,
    /// Pages swapped in.
    pub swap_in_pages: Option<u64>,
    /// Pages swapped out.
    pub swap_out_pages: Option<u64>,
    /// Pages swapped in and out per second.
    pub swap_pages_per_s: Option<f64>,
    /// Major faults.
    pub major_faults: Option<u64>,
    /// Major faults per second.
    pub major_faults_per_s: Option<f64>,
    /// Number of file pages that were read again after the kernel had evicted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refault_pages: Option<u64>,
    /// Rate of these pages per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refault_pages_per_s: Option<f64>,
    /// Rate per second of the pages that were read again so soon that the kernel counts them as used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reactivated_pages_per_s: Option<f64>,
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
    /// Maximum, in thousandths of a degree Celsius.
    pub max_millicelsius: i64,
}

/// Frequency of the processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    /// Mean over processors and samples, in kHz.
    pub mean_khz: Option<f64>,
    /// The lowest sampled frequency limit (`scaling_max_freq`) in kHz.
    pub limit_min_khz: Option<i64>,
    /// The highest sampled frequency limit in kHz.
    pub limit_max_khz: Option<i64>,
    /// Lowest frequency limit divided by the highest, for the processor with the lowest ratio. A value below
    /// 1 means that the limit was temporarily lowered.
    pub capped_to_share: Option<f64>,
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The interface.
    pub interface: String,
    /// Bytes received. This and the other counters are absent if they were sampled less than twice.
    pub receive_bytes: Option<ByteCount>,
    /// Bytes sent.
    pub transmit_bytes: Option<ByteCount>,
    /// Bytes received per second of the sampled time.
    pub receive_bytes_per_s: Option<f64>,
    /// Bytes sent per second of the sampled time.
    pub transmit_bytes_per_s: Option<f64>,
    /// Link speed in one direction; absent if the driver does not report it.
    pub link_bytes_per_s: Option<u64>,
    /// Rate of the busier direction divided by the link's speed.
    pub link_share: Option<f64>,
}

/// One disk according to the kernel's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// The device's name.
    pub name: String,
    /// Time with I/O in flight divided by the sampled time.
    pub busy_share: Option<f64>,
    /// Bytes read; absent if sampled less than twice.
    pub read_bytes: Option<ByteCount>,
    /// Bytes written.
    pub write_bytes: Option<ByteCount>,
    /// Completed requests; only totals of other tools have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Completed requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Mean size of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<f64>,
    /// Mean response time of a request, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_response_ns: Option<f64>,
}

/// Quantities over time in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSeries {
    /// Start of the first bin, in nanoseconds since the span began; negative if samples began before the
    /// span.
    pub start_ns: i64,
    /// Width of a bin in nanoseconds.
    pub bin_ns: Nanos,
    /// One series per metric and subject, in the recording's order of metrics, then by subject.
    pub metrics: Vec<MetricSeries>,
}

/// One metric over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSeries {
    /// The metric's name in the recording, unit included: `cpu_active_ticks`, `memory_available_bytes`, …
    pub metric: String,
    /// The device, interface, zone or resource.
    pub subject: Option<String>,
    /// Whether the metric is a counter.
    pub counter: bool,
    /// For each bin, the increase of a counter or the mean of a gauge; absent if the bin has no sample.
    pub values: Vec<Option<f64>>,
}

use crate::figures::facts::{Facts, Frame};
use crate::over_time::bins::{Bins, Fold};
use crate::question::context::{Context, Ending};
use crate::question::ratio::{at, per_second, ratio};
use crate::question::{Question, Row};

const BINS: usize = 512;
/// Maximum number of pairs of metric and subject; a phone has about thirty.
const KEYS_MAX: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct MachineTally {
    samples: u64,
    keys: FxHashMap<(Metric, Option<String>), usize>,
    readings: Vec<Reading>,
    /// Each bin has one value per metric and subject, and grows when new metrics appear.
    bins: Bins<Bin, BINS>,
    processors: ProcessorTally,
}

#[derive(Debug, Default)]
struct ProcessorTally {
    /// Start and end of the current interval, and the active ticks of the busiest processor in that interval.
    interval: Option<(Timestamp, Timestamp, u64)>,
    active: Nanos,
    sampled: Nanos,
}

/// Length of a tick of the kernel's accounting (`USER_HZ` is 100 per second).
const TICK: Nanos = Nanos(10_000_000);

impl ProcessorTally {
    /// Adds the increase of a processor's counter between two samples.
    fn add(&mut self, from: Timestamp, until: Timestamp, ticks: u64) {
        match &mut self.interval {
            Some((_, end, most)) if *end == until => *most = (*most).max(ticks),
            _ => {
                self.close();
                self.interval = Some((from, until, ticks));
            }
        }
    }

    fn close(&mut self) {
        if let Some((from, until, ticks)) = self.interval.take() {
            let length = until - from;
            self.sampled += length;
            self.active += Nanos(ticks.saturating_mul(TICK.0)).min(length);
        }
    }
}

#[derive(Debug)]
struct Reading {
    metric: Metric,
    subject: Option<String>,
    samples: u64,
    first_time: Timestamp,
    last_time: Timestamp,
    last: i64,
    /// Total increase of a counter. Decreases are ignored, because they mean that the counter restarted.
    rise: u64,
    min: i64,
    max: i64,
    sum: i128,
}

/// For each metric and subject: the sum of the increases or values, and the number of samples.
#[derive(Debug, Default)]
struct Bin(Vec<(f64, u64)>);

impl Fold for Bin {
    fn fold(&mut self, later: Bin) {
        if self.0.len() < later.0.len() {
            self.0.resize(later.0.len(), (0.0, 0));
        }
        for ((sum, count), (more, samples)) in self.0.iter_mut().zip(later.0) {
            *sum += more;
            *count += samples;
        }
    }
}

impl Bin {
    fn add(&mut self, reading: usize, value: f64) {
        let (sum, count) = at(&mut self.0, reading);
        *sum += value;
        *count += 1;
    }
}

fn is_counter(metric: Metric) -> bool {
    match metric {
        Metric::CpuActiveTicks
        | Metric::CpuIdleTicks
        | Metric::CpuIowaitTicks
        | Metric::CpuStealTicks
        | Metric::SwapInPages
        | Metric::SwapOutPages
        | Metric::MajorFaults
        | Metric::DiskBusyMs
        | Metric::DiskReadBytes
        | Metric::DiskWriteBytes
        | Metric::DiskRequests
        | Metric::DiskWaitMs
        | Metric::NetReceiveBytes
        | Metric::NetTransmitBytes
        | Metric::PressureSomeUs
        | Metric::PressureFullUs
        | Metric::FileRefaultPages
        | Metric::FileReactivatedPages
        | Metric::ProcessorActiveTicks => true,
        Metric::MemoryTotalBytes
        | Metric::MemoryAvailableBytes
        | Metric::MemoryDirtyBytes
        | Metric::MemoryWritebackBytes
        | Metric::TemperatureMillicelsius
        | Metric::CpuFrequencyKhz
        | Metric::CpuFrequencyMaxKhz
        | Metric::ProcessCpuNs
        | Metric::ProcessLockNs
        | Metric::ProcessChildNs
        | Metric::ProcessTimerNs
        | Metric::ProcessPeerNs
        | Metric::ProcessQuotaNs
        | Metric::LatencyRequests
        | Metric::WalHeldNs
        | Metric::WalHeldBytes
        | Metric::NetLinkBytesPerS => false,
    }
}

impl Question for MachineTally {
    type Answer = Machine;

    fn row(&mut self, row: Row, _: &mut Context) {
        let Row::Sample(sample) = row else { return };
        // Other questions use these samples.
        if sample.metric.is_of_process() || sample.metric.is_of_wal() || sample.metric.is_of_histogram() {
            return;
        }
        let key = (sample.metric, sample.subject.clone());
        let known = self.keys.get(&key).copied();
        if known.is_none() && self.readings.len() >= KEYS_MAX {
            return;
        }
        self.samples += 1;
        let (time, value) = (sample.time, sample.value);
        let Some(index) = known else {
            self.keys.insert(key, self.readings.len());
            let bin = self.bins.at(time);
            if !is_counter(sample.metric) {
                bin.add(self.readings.len(), value as f64);
            }
            self.readings.push(Reading {
                metric: sample.metric,
                subject: sample.subject.clone(),
                samples: 1,
                first_time: time,
                last_time: time,
                last: value,
                rise: 0,
                min: value,
                max: value,
                sum: i128::from(value),
            });
            return;
        };
        let reading = &mut self.readings[index];
        reading.samples += 1;
        reading.min = reading.min.min(value);
        reading.max = reading.max.max(value);
        reading.sum += i128::from(value);
        if is_counter(sample.metric) {
            let rise = value.checked_sub(reading.last).and_then(|rise| u64::try_from(rise).ok()).unwrap_or(0);
            reading.rise = reading.rise.saturating_add(rise);
            let passed = time - reading.last_time;
            if passed > Nanos(0) {
                let rate = rise as f64 / passed.0 as f64;
                self.bins.spread(reading.last_time, time, |bin, part| {
                    bin.add(index, rate * part.0 as f64);
                });
                if sample.metric == Metric::ProcessorActiveTicks {
                    self.processors.add(reading.last_time, time, rise);
                }
            }
        } else {
            self.bins.at(time).add(index, value as f64);
        }
        reading.last = value;
        reading.last_time = time.max(reading.last_time);
    }

    fn finish(mut self, end: &mut Ending) -> Machine {
        self.processors.close();
        Machine {
            samples: self.samples,
            cpu: self.cpu(),
            memory: self.memory(),
            pressure: self.pressure(),
            temperature: (self.of(Metric::TemperatureMillicelsius))
                .map(|reading| Temperature {
                    zone: reading.subject.clone().unwrap_or_default(),
                    mean_millicelsius: reading.mean(),
                    max_millicelsius: reading.max,
                })
                .collect(),
            frequency: self.frequency(),
            network: self.network(),
            disks: self.disks(),
            series: self.series(end.began().0),
        }
    }

    fn figures(machine: &Machine, _: &Frame, facts: &mut Facts) {
        facts.count("machine.samples", "samples of the machine", machine.samples);
        if let Some(cpu) = &machine.cpu {
            facts.share("cpu.active_share", "processors busy", cpu.active_share);
            let label = "processors idle with I/O outstanding (iowait)";
            facts.share("cpu.iowait_share", label, cpu.iowait_share);
            let share = cpu.iowait_of_not_idle_share;
            facts.share("cpu.iowait_of_not_idle_share", "iowait, share of busy and iowait", share);
            facts.share("cpu.busiest_share", "busiest processor", cpu.busiest_share);
        }
        if let Some(memory) = &machine.memory {
            let share = memory.available_min_share;
            facts.share("memory.available_min_share", "least available memory, share", share);
            let bytes = memory.available_min_bytes;
            facts.amount("memory.available_min", "least available memory", bytes);
            let rate = memory.swap_pages_per_s;
            facts.put("memory.swap_pages_per_s", "pages swapped, rate", Unit::PerS, rate);
            let rate = memory.major_faults_per_s;
            facts.put("memory.major_faults_per_s", "major page faults, rate", Unit::PerS, rate);
            let rate = memory.refault_pages_per_s;
            let label = "file pages read again after an eviction, rate";
            facts.put("memory.refault_pages_per_s", label, Unit::PerS, rate);
            let rate = memory.reactivated_pages_per_s;
            let label = "file pages evicted although in use, rate";
            facts.put("memory.reactivated_pages_per_s", label, Unit::PerS, rate);
        }
        for Pressure { resource, some_share, full_share } in &machine.pressure {
            let label = format!("some tasks stalled on {resource}");
            facts.share(format!("pressure.{resource}.some"), label, *some_share);
            let label = format!("all tasks stalled on {resource}");
            facts.share(format!("pressure.{resource}.full"), label, *full_share);
        }
        if let Some(frequency) = &machine.frequency {
            let label = "processor frequency limit, lowest over highest";
            facts.share("frequency.capped_to", label, frequency.capped_to_share);
        }
        of_temperature(&machine.temperature, facts);
        of_network(&machine.network, facts);
    }
}

fn of_temperature(zones: &[Temperature], facts: &mut Facts) {
    if let Some(hottest) = zones.iter().rev().max_by_key(|zone| zone.max_millicelsius) {
        facts.word("temperature.zone", &hottest.zone);
        let highest = hottest.max_millicelsius as f64;
        facts.put("temperature.max", "highest temperature", Unit::Millicelsius, highest);
    }
    for Temperature { zone, max_millicelsius, .. } in zones {
        let (name, label) = (format!("temperature[{zone}].max"), format!("{zone}, highest temperature"));
        facts.put(name, label, Unit::Millicelsius, *max_millicelsius as f64);
    }
}

fn of_network(interfaces: &[Network], facts: &mut Facts) {
    // Skip links of unknown speed: their utilisation cannot be computed.
    let busiest = interfaces.iter().rev().filter_map(|network| Some((network.link_share?, network)));
    if let Some((link_share, busiest)) = busiest.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        facts.word("network.interface", &busiest.interface);
        facts.share("network.link_share", "network link used", link_share);
        let speed = busiest.link_bytes_per_s.map(|speed| speed as f64);
        facts.put("network.link", "network link speed", Unit::BytesPerS, speed);
        let rates = [busiest.receive_bytes_per_s, busiest.transmit_bytes_per_s].into_iter().flatten();
        let rate = rates.max_by(f64::total_cmp);
        facts.put("network.bytes_per_s", "network rate", Unit::BytesPerS, rate);
    }
    for network in interfaces {
        let interface = &network.interface;
        let name = |figure: &str| format!("network[{interface}].{figure}");
        let label = |what: &str| format!("{interface}, {what}");
        facts.amount(name("receive_bytes"), label("bytes received"), network.receive_bytes);
        facts.amount(name("transmit_bytes"), label("bytes sent"), network.transmit_bytes);
        facts.share(name("link_share"), label("link used"), network.link_share);
    }
}

impl MachineTally {
    fn of(&self, metric: Metric) -> impl Iterator<Item = &Reading> {
        let mut readings: Vec<_> =
            self.readings.iter().filter(move |reading| reading.metric == metric).collect();
        readings.sort_by(|a, b| a.subject.cmp(&b.subject));
        readings.into_iter()
    }

    fn subject_of(&self, metric: Metric, subject: &Option<String>) -> Option<&Reading> {
        self.of(metric).find(|reading| reading.subject == *subject)
    }

    /// Returns the increase of a counter without a subject; `None` if the counter was not sampled at least
    /// twice.
    fn rise(&self, metric: Metric) -> Option<u64> {
        let readings = || self.of(metric).filter(|reading| reading.samples > 1);
        readings().next().map(|_| readings().map(|reading| reading.rise).fold(0, u64::saturating_add))
    }

    fn rise_per_second(&self, metric: Metric) -> Option<f64> {
        self.of(metric).next().and_then(|reading| per_second(self.rise(metric)?, reading.sampled()))
    }

    fn cpu(&self) -> Option<Cpu> {
        let active_ticks = self.rise(Metric::CpuActiveTicks)?;
        let idle_ticks = self.rise(Metric::CpuIdleTicks)?;
        let iowait_ticks = self.rise(Metric::CpuIowaitTicks);
        let steal_ticks = self.rise(Metric::CpuStealTicks);
        let all = active_ticks + idle_ticks + iowait_ticks.unwrap_or(0) + steal_ticks.unwrap_or(0);
        Some(Cpu {
            active_ticks,
            idle_ticks,
            iowait_ticks,
            steal_ticks,
            active_share: ratio(active_ticks, all),
            iowait_share: iowait_ticks.and_then(|iowait| ratio(iowait, all)),
            iowait_of_not_idle_share: iowait_ticks.and_then(|iowait| ratio(iowait, active_ticks + iowait)),
            busiest_share: ratio(self.processors.active, self.processors.sampled),
        })
    }

    fn memory(&self) -> Option<Memory> {
        let bytes = |value| u64::try_from(value).ok().map(ByteCount);
        let least = |metric| self.of(metric).next().and_then(|reading| bytes(reading.min));
        let most = |metric| self.of(metric).next().and_then(|reading| bytes(reading.max));
        let memory = Memory {
            total_bytes: most(Metric::MemoryTotalBytes),
            available_min_bytes: least(Metric::MemoryAvailableBytes),
            available_min_share: least(Metric::MemoryAvailableBytes)
                .and_then(|least| ratio(least, most(Metric::MemoryTotalBytes)?)),
            dirty_max_bytes: most(Metric::MemoryDirtyBytes),
            writeback_max_bytes: most(Metric::MemoryWritebackBytes),
            swap_in_pages: self.rise(Metric::SwapInPages),
            swap_out_pages: self.rise(Metric::SwapOutPages),
            swap_pages_per_s: match (
                self.rise_per_second(Metric::SwapInPages),
                self.rise_per_second(Metric::SwapOutPages),
            ) {
                (None, None) => None,
                (swapped_in, swapped_out) => Some(swapped_in.unwrap_or(0.0) + swapped_out.unwrap_or(0.0)),
            },
            major_faults: self.rise(Metric::MajorFaults),
            major_faults_per_s: self.rise_per_second(Metric::MajorFaults),
            refault_pages: self.rise(Metric::FileRefaultPages),
            refault_pages_per_s: self.rise_per_second(Metric::FileRefaultPages),
            reactivated_pages_per_s: self.rise_per_second(Metric::FileReactivatedPages),
        };
        (memory != Memory::default()).then_some(memory)
    }

    fn pressure(&self) -> Vec<Pressure> {
        // The kernel updates the counters every two seconds, so a sample can include time from before its
        // interval.
        let share = |reading: &Reading| {
            let share = ratio(Nanos(reading.rise.saturating_mul(1000)), reading.sampled());
            share.map(|share| share.min(1.0))
        };
        let of_resource = |reading: &Reading| Pressure {
            resource: reading.subject.clone().unwrap_or_default(),
            some_share: share(reading),
            full_share: self.subject_of(Metric::PressureFullUs, &reading.subject).and_then(share),
        };
        self.of(Metric::PressureSomeUs).map(of_resource).collect()
    }

    fn frequency(&self) -> Option<Frequency> {
        let (sum, samples) = self
            .of(Metric::CpuFrequencyKhz)
            .fold((0i128, 0u64), |sum, reading| (sum.0 + reading.sum, sum.1 + reading.samples));
        let limits = || self.of(Metric::CpuFrequencyMaxKhz);
        let capped = limits().filter(|limit| limit.max > 0).map(|limit| limit.min as f64 / limit.max as f64);
        let frequency = Frequency {
            mean_khz: (samples > 0).then(|| sum as f64 / samples as f64),
            limit_min_khz: limits().map(|limit| limit.min).min(),
            limit_max_khz: limits().map(|limit| limit.max).max(),
            capped_to_share: capped.min_by(f64::total_cmp),
        };
        (frequency != Frequency::default()).then_some(frequency)
    }

    fn network(&self) -> Vec<Network> {
        let of_interface = |receive: &Reading| {
            let transmit = self.subject_of(Metric::NetTransmitBytes, &receive.subject);
            let receive_bytes_per_s = per_second(receive.rise, receive.sampled());
            let transmit_bytes_per_s =
                transmit.and_then(|transmit| per_second(transmit.rise, transmit.sampled()));
            let link = self.subject_of(Metric::NetLinkBytesPerS, &receive.subject);
            let link_bytes_per_s =
                link.and_then(|link| u64::try_from(link.max).ok()).filter(|speed| *speed > 0);
            let rates = [receive_bytes_per_s, transmit_bytes_per_s].into_iter().flatten();
            Network {
                interface: receive.subject.clone().unwrap_or_default(),
                receive_bytes: receive.known_rise().map(ByteCount),
                transmit_bytes: transmit.and_then(Reading::known_rise).map(ByteCount),
                receive_bytes_per_s,
                transmit_bytes_per_s,
                link_bytes_per_s,
                link_share: link_bytes_per_s
                    .and_then(|speed| Some(rates.max_by(f64::total_cmp)? / speed as f64)),
            }
        };
        let interfaces = self.of(Metric::NetReceiveBytes);
        interfaces.filter(|receive| receive.subject.as_deref() != Some("lo")).map(of_interface).collect()
    }

    fn disks(&self) -> Vec<Disk> {
        let mut names: Vec<&Option<String>> = Vec::new();
        let metrics = [Metric::DiskBusyMs, Metric::DiskRequests, Metric::DiskReadBytes];
        for reading in metrics.into_iter().flat_map(|metric| self.of(metric)) {
            if !names.contains(&&reading.subject) {
                names.push(&reading.subject);
            }
        }
        let of_disk = |name: &Option<String>| {
            let reading = |metric| self.subject_of(metric, name);
            let rise = |metric| reading(metric).and_then(Reading::known_rise);
            let (read_bytes, write_bytes) = (rise(Metric::DiskReadBytes), rise(Metric::DiskWriteBytes));
            let requests = rise(Metric::DiskRequests).filter(|requests| *requests > 0);
            let mean = |sum: Option<u64>| Some(sum? as f64 / requests? as f64);
            let busy = reading(Metric::DiskBusyMs);
            let sampled = reading(Metric::DiskRequests).map(Reading::sampled);
            Disk {
                name: name.clone().unwrap_or_default(),
                busy_share: busy
                    .and_then(|busy| ratio(Nanos(busy.rise.saturating_mul(1_000_000)), busy.sampled())),
                read_bytes: read_bytes.map(ByteCount),
                write_bytes: write_bytes.map(ByteCount),
                requests,
                requests_per_s: requests.zip(sampled).and_then(|(requests, time)| per_second(requests, time)),
                mean_bytes: mean(read_bytes.zip(write_bytes).map(|(read, write)| read.saturating_add(write))),
                mean_response_ns: mean(rise(Metric::DiskWaitMs)).map(|ms| ms * 1e6),
            }
        };
        names.into_iter().map(of_disk).collect()
    }

    fn series(&mut self, began_ns: u64) -> MachineSeries {
        // Bins are not shorter than the sampling interval; otherwise, most bins of a gauge would be empty.
        let most_samples = self.readings.iter().map(|reading| reading.samples).max().unwrap_or(0);
        while self.bins.bins().len() as u64 > most_samples.max(1) {
            self.bins.halve();
        }
        let mut order: Vec<usize> = (0..self.readings.len()).collect();
        let key = |index: &usize| (self.readings[*index].metric, self.readings[*index].subject.clone());
        order.sort_by_key(key);
        let metrics = order.into_iter().map(|index| {
            let reading = &self.readings[index];
            let counter = is_counter(reading.metric);
            let value = |bin: &Bin| {
                let (sum, samples) = bin.0.get(index).copied().filter(|(_, samples)| *samples > 0)?;
                Some(if counter { sum } else { sum / samples as f64 })
            };
            MetricSeries {
                metric: reading.metric.name().to_owned(),
                subject: reading.subject.clone(),
                counter,
                values: self.bins.bins().iter().map(value).collect(),
            }
        });
        let metrics = metrics.collect();
        let start = i128::from(self.bins.origin().0) - i128::from(began_ns);
        MachineSeries {
            start_ns: start.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
            bin_ns: self.bins.width(),
            metrics,
        }
    }
}

impl Reading {
    /// Returns the time between the first and the last sample of a metric.
    fn sampled(&self) -> Nanos {
        self.last_time - self.first_time
    }

    /// The increase of a counter; `None` if the counter was sampled only once.
    fn known_rise(&self) -> Option<u64> {
        (self.samples > 1).then_some(self.rise)
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.samples as f64
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Meta, RowSink, Sample, Timestamp};

    use super::*;
    use crate::analyser::Analyser;
    use crate::question::options::AnalysisOptions;

    fn machine(samples: &[(u64, Metric, Option<&str>, i64)]) -> Machine {
        let mut analyser = Analyser::new(AnalysisOptions::default());
        for (second, metric, subject, value) in samples {
            let time = Timestamp(second * 1_000_000_000);
            let subject = subject.map(str::to_owned);
            analyser.sample(&Sample { time, metric: *metric, subject, value: *value }).unwrap();
        }
        analyser.finish(&Meta::default()).machine
    }

    #[test]
    fn ticks_over_two_seconds() {
        let machine = machine(&[
            (0, Metric::CpuActiveTicks, None, 1000),
            (0, Metric::CpuIdleTicks, None, 5000),
            (0, Metric::CpuIowaitTicks, None, 70),
            (1, Metric::CpuActiveTicks, None, 1060),
            (1, Metric::CpuIdleTicks, None, 5020),
            (1, Metric::CpuIowaitTicks, None, 90),
            (2, Metric::CpuActiveTicks, None, 1080),
            (2, Metric::CpuIdleTicks, None, 5100),
            (2, Metric::CpuIowaitTicks, None, 90),
        ]);
        let cpu = machine.cpu.unwrap();
        assert_eq!((cpu.active_ticks, cpu.idle_ticks, cpu.iowait_ticks), (80, 100, Some(20)));
        assert_eq!(
            (cpu.active_share, cpu.iowait_share, cpu.iowait_of_not_idle_share),
            (Some(0.4), Some(0.1), Some(0.2))
        );
        let active = &machine.series.metrics[0];
        assert_eq!(active.metric, "cpu_active_ticks");
        let sum: f64 = active.values.iter().flatten().sum();
        assert!((sum - 80.0).abs() < 1e-6, "{:?}", active.values);
        assert!(active.values.len() <= 3);
    }

    #[test]
    fn a_thread_that_moves_between_processors_saturates_one() {
        // A single thread computes, first on cpu0, then on cpu1. Meanwhile, the other processor is lightly
        // loaded.
        let ticks = [(0, 0, 0), (1, 98, 10), (2, 110, 108), (3, 120, 206)];
        let samples = ticks.into_iter().flat_map(|(second, first, other)| {
            [("cpu0", first), ("cpu1", other)]
                .map(|(cpu, ticks)| (second, Metric::ProcessorActiveTicks, Some(cpu), ticks))
        });
        let all = [(0, Metric::CpuActiveTicks, None, 0), (0, Metric::CpuIdleTicks, None, 0)];
        let end = [(3, Metric::CpuActiveTicks, None, 326), (3, Metric::CpuIdleTicks, None, 274)];
        let samples: Vec<_> = all.into_iter().chain(samples).chain(end).collect();
        let cpu = machine(&samples).cpu.unwrap();
        assert_eq!(cpu.busiest_share, Some(0.98));
        assert_eq!((cpu.iowait_ticks, cpu.steal_ticks, cpu.iowait_share), (None, None, None));
        assert!(cpu.active_share.unwrap() < 0.6);
    }

    #[test]
    fn totals_of_a_disk() {
        let totals = |second, values: [i64; 5]| {
            let metrics = [
                Metric::DiskRequests,
                Metric::DiskReadBytes,
                Metric::DiskWriteBytes,
                Metric::DiskBusyMs,
                Metric::DiskWaitMs,
            ];
            metrics.into_iter().zip(values).map(move |(metric, value)| (second, metric, Some("sda"), value))
        };
        let samples: Vec<_> = totals(0, [0; 5])
            .chain(totals(10, [100, 4096, 0, 500, 70]))
            .chain(totals(20, [400, 409_600, 1_228_800, 5000, 1000]))
            // A disk without a known busy time.
            .chain([(0, Metric::DiskRequests, Some("sdb"), 0), (20, Metric::DiskRequests, Some("sdb"), 0)])
            .collect();
        let disks = machine(&samples).disks;
        let expected = Disk {
            name: "sda".into(),
            busy_share: Some(0.25),
            read_bytes: Some(ByteCount(409_600)),
            write_bytes: Some(ByteCount(1_228_800)),
            requests: Some(400),
            requests_per_s: Some(20.0),
            mean_bytes: Some(4096.0),
            mean_response_ns: Some(2_500_000.0),
        };
        assert_eq!(disks, [expected, Disk { name: "sdb".into(), ..Disk::default() }]);
    }

    #[test]
    fn memory_pressure_heat_and_network() {
        let machine = machine(&[
            (0, Metric::MemoryTotalBytes, None, 1000),
            (0, Metric::MemoryAvailableBytes, None, 400),
            (0, Metric::SwapOutPages, None, 10),
            (0, Metric::PressureSomeUs, Some("memory"), 0),
            (0, Metric::TemperatureMillicelsius, Some("soc"), 60_000),
            (0, Metric::CpuFrequencyMaxKhz, Some("cpu0"), 2_000_000),
            (0, Metric::NetReceiveBytes, Some("wlan0"), 5),
            (0, Metric::NetReceiveBytes, Some("lo"), 5),
            (0, Metric::NetLinkBytesPerS, Some("wlan0"), 2_000_000),
            (2, Metric::MemoryAvailableBytes, None, 100),
            (2, Metric::SwapOutPages, None, 210),
            (2, Metric::PressureSomeUs, Some("memory"), 500_000),
            (2, Metric::TemperatureMillicelsius, Some("soc"), 80_000),
            (2, Metric::CpuFrequencyMaxKhz, Some("cpu0"), 1_500_000),
            (2, Metric::NetReceiveBytes, Some("wlan0"), 2_000_005),
            (2, Metric::NetReceiveBytes, Some("lo"), 9_000_005),
        ]);
        let memory = machine.memory.unwrap();
        assert_eq!((memory.available_min_share, memory.swap_pages_per_s), (Some(0.1), Some(100.0)));
        assert_eq!(machine.pressure[0].some_share, Some(0.25));
        assert_eq!(
            (machine.temperature[0].max_millicelsius, machine.temperature[0].mean_millicelsius),
            (80_000, 70_000.0)
        );
        assert_eq!(machine.frequency.unwrap().capped_to_share, Some(0.75));
        assert_eq!(machine.network.len(), 1);
        let network = &machine.network[0];
        assert_eq!(
            (network.receive_bytes, network.transmit_bytes),
            (Some(ByteCount(2_000_000)), None),
            "unknown is not 0"
        );
        assert_eq!(network.receive_bytes_per_s, Some(1_000_000.0));
        assert_eq!(
            (machine.network[0].link_bytes_per_s, machine.network[0].link_share),
            (Some(2_000_000), Some(0.5))
        );
    }

    #[test]
    fn a_counter_that_began_anew_loses_one_step_only() {
        let samples = [(0, 100), (1, 150), (2, 10), (3, 30)];
        let machine = machine(&samples.map(|(second, value)| (second, Metric::MajorFaults, None, value)));
        assert_eq!(machine.memory.unwrap().major_faults, Some(70));
    }
}
