//! Reads the counters of the machine that `linux.sys_stats` samples: pressure, processors, memory and disks.
//!
//! Source: `protos/perfetto/trace/sys_stats/sys_stats.proto` and `protos/perfetto/common/sys_stats_counters.proto`.

use fonio_core::{Metric, Sample, Timestamp};

use super::wire::{Fields, Value};

/// Kernel counters of processor time have this unit in a recording: 1/100 s.
const TICK_NS: u64 = 10_000_000;
/// A sector of the kernel's disk counters.
const SECTOR: u64 = 512;
/// Maximum length of the name of a disk (`DISK_NAME_LEN` of the kernel).
const NAME_MAX: usize = 32;
/// Maximum number of samples of one packet. A machine with 512 processors and 1,000 disks has fewer.
const SAMPLES_MAX: usize = 4096;

/// The pressure of a resource: the number in the trace, the metric, and the resource.
const PRESSURE: [(u64, Metric, &str); 6] = [
    (1, Metric::PressureSomeUs, "cpu"),
    (2, Metric::PressureFullUs, "cpu"),
    (3, Metric::PressureSomeUs, "io"),
    (4, Metric::PressureFullUs, "io"),
    (5, Metric::PressureSomeUs, "memory"),
    (6, Metric::PressureFullUs, "memory"),
];
/// Values of `/proc/meminfo`, in KiB.
const MEMORY: [(u64, Metric); 4] = [
    (1, Metric::MemoryTotalBytes),
    (3, Metric::MemoryAvailableBytes),
    (17, Metric::MemoryDirtyBytes),
    (18, Metric::MemoryWritebackBytes),
];
/// Values of `/proc/vmstat`. Kernels before 5.9 have the first two, later kernels the last two.
const PAGES: [(u64, Metric); 7] = [
    (30, Metric::FileRefaultPages),
    (31, Metric::FileReactivatedPages),
    (41, Metric::SwapInPages),
    (42, Metric::SwapOutPages),
    (50, Metric::MajorFaults),
    (183, Metric::FileReactivatedPages),
    (186, Metric::FileRefaultPages),
];

/// The samples of one packet.
struct Found<'b> {
    at: Timestamp,
    samples: &'b mut Vec<Sample>,
    /// The number of samples above which no more are added.
    end: usize,
}

impl Found<'_> {
    fn add(&mut self, metric: Metric, subject: Option<String>, value: u64) {
        if let (Ok(value), true) = (i64::try_from(value), self.samples.len() < self.end) {
            self.samples.push(Sample { time: self.at, metric, subject, value });
        }
    }
}

/// Returns when the counters of a message (`SysStats`) were read, by the clock of the time since boot. `packet` is
/// the time of its packet.
pub(super) fn time(message: &[u8], packet: Option<Timestamp>) -> Option<Timestamp> {
    let collected =
        Fields::of(message).find(|(number, _)| *number == 9).and_then(|(_, value)| value.number());
    // A recording has times up to this one.
    collected.map(Timestamp).or(packet).filter(|time| i64::try_from(time.0).is_ok())
}

/// Reads the counters of a message (`SysStats`).
pub(super) fn read(message: &[u8], at: Timestamp, samples: &mut Vec<Sample>) {
    let end = samples.len() + SAMPLES_MAX;
    let mut found = Found { at, samples, end };
    // Sums of the processors: active, idle, waiting for I/O, and taken by a hypervisor.
    let (mut times, mut processors) = ([0_u64; 4], 0);
    for (number, value) in Fields::of(message) {
        let Value::Bytes(content) = value else { continue };
        match number {
            1 => pair(content, &MEMORY, 1024, &mut found),
            2 => pair(content, &PAGES, 1, &mut found),
            3 => {
                let [cpu, user, nice, system, idle, io_wait, irq, softirq, steal] = numbers(content);
                let active = [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add);
                found.add(Metric::ProcessorActiveTicks, Some(format!("cpu{cpu}")), active / TICK_NS);
                for (sum, time) in times.iter_mut().zip([active, idle, io_wait, steal]) {
                    *sum = sum.saturating_add(time);
                }
                processors += 1;
            }
            13 => disk(content, &mut found),
            14 => {
                let [resource, total_ns] = numbers(content);
                if let Some((_, metric, subject)) = PRESSURE.iter().find(|(key, ..)| *key == resource) {
                    found.add(*metric, Some((*subject).to_owned()), total_ns / 1000);
                }
            }
            _ => {}
        }
    }
    if processors > 0 {
        let metrics =
            [Metric::CpuActiveTicks, Metric::CpuIdleTicks, Metric::CpuIowaitTicks, Metric::CpuStealTicks];
        for (metric, time) in metrics.into_iter().zip(times) {
            found.add(metric, None, time / TICK_NS);
        }
    }
}

/// Reads a disk's sectors. The trace has neither its number of requests nor its busy time.
fn disk(content: &[u8], found: &mut Found<'_>) {
    let name = Fields::of(content).find(|(number, _)| *number == 1).and_then(|(_, value)| value.bytes());
    let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= NAME_MAX) else { return };
    let name = String::from_utf8_lossy(name).into_owned();
    let [_, read_sectors, _, written_sectors] = numbers(content);
    if read_sectors == 0 && written_sectors == 0 {
        return;
    }
    for (metric, sectors) in
        [(Metric::DiskReadBytes, read_sectors), (Metric::DiskWriteBytes, written_sectors)]
    {
        found.add(metric, Some(name.clone()), sectors.saturating_mul(SECTOR));
    }
}

/// Reads a message with a key and a value, if the key is in the table.
fn pair(content: &[u8], table: &[(u64, Metric)], unit: u64, found: &mut Found<'_>) {
    let [key, value] = numbers(content);
    if let Some((_, metric)) = table.iter().find(|(known, _)| *known == key) {
        found.add(*metric, None, value.saturating_mul(unit));
    }
}

/// Returns the integer fields 1 to N of a message; absent fields are 0.
fn numbers<const N: usize>(content: &[u8]) -> [u64; N] {
    let mut numbers = [0; N];
    for (number, value) in Fields::of(content) {
        let slot = (number as usize).checked_sub(1).and_then(|index| numbers.get_mut(index));
        if let (Some(slot), Some(value)) = (slot, value.number()) {
            *slot = value;
        }
    }
    numbers
}
