//! Samples the system's counters during a capture.
//!
//! The monitor keeps its files open and rereads them for each sample. The monitor skips counters that this
//! kernel does not have.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_core::{Metric, RowSink, Sample, Timestamp};
use fonio_machine::{Machine, read_text};
use fonio_system::Pressure;
use fonio_system::procfs::memory;

use crate::wal_readers::WalReaders;

/// Size of the read buffer. Every text that is read fits into the buffer, except `/proc/diskstats` on a
/// machine with hundreds of disks; this text is truncated.
const TEXT_BYTES: usize = 64 << 10;

/// Samples the system's counters and keeps the values until the recording is written.
pub(crate) struct Monitor {
    sources: Vec<Source>,
    text: Vec<u8>,
    series: Vec<(Metric, Option<String>)>,
    /// Each sample: time, index into `series`, value. Samples are compact, because a day of them must fit
    /// into memory.
    samples: Vec<(Timestamp, u32, i64)>,
    machine: Machine,
    wal_readers: WalReaders,
}

struct Source {
    file: File,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Stat,
    Meminfo,
    Vmstat,
    Diskstats,
    NetDev,
    Pressure(String),
    /// A file that contains a single number.
    Gauge(Metric, String),
    /// The speed of an interface in Mbit/s; -1 or an error if the driver does not know the speed.
    LinkSpeed(String),
}

impl Monitor {
    pub(crate) fn new(machine: &Machine) -> Monitor {
        let mut sources = Vec::new();
        let mut add = |path: &Path, kind: Kind| {
            if let Ok(file) = File::open(path) {
                sources.push(Source { file, kind });
            }
        };
        add(&machine.proc("stat"), Kind::Stat);
        add(&machine.proc("meminfo"), Kind::Meminfo);
        add(&machine.proc("vmstat"), Kind::Vmstat);
        add(&machine.proc("diskstats"), Kind::Diskstats);
        add(&machine.proc("net/dev"), Kind::NetDev);
        for resource in ["cpu", "io", "memory"] {
            add(&machine.proc("pressure").join(resource), Kind::Pressure(resource.to_owned()));
        }
        for interface in entries(&machine.sys("class/net"), "") {
            let speed = machine.sys("class/net").join(&interface).join("speed");
            add(&speed, Kind::LinkSpeed(interface));
        }
        let mut zones: Vec<String> = Vec::new();
        for zone in entries(&machine.sys("class/thermal"), "thermal_zone") {
            let dir = machine.sys("class/thermal").join(&zone);
            let kind = read_text(&dir.join("type")).unwrap_or_else(|| zone.clone());
            // Phones have several thermal zones of one type.
            let name = if zones.contains(&kind) { format!("{kind} {zone}") } else { kind.clone() };
            zones.push(kind);
            add(&dir.join("temp"), Kind::Gauge(Metric::TemperatureMillicelsius, name));
        }
        // Sensors in disks are no thermal zones.
        for sensor in entries(&machine.sys("class/hwmon"), "hwmon") {
            let dir = machine.sys("class/hwmon").join(&sensor);
            let name = read_text(&dir.join("name")).map(|name| name.trim().to_owned());
            if let Some(name) = name.filter(|name| ["nvme", "drivetemp"].contains(&name.as_str())) {
                let subject = format!("{name} {sensor}");
                add(&dir.join("temp1_input"), Kind::Gauge(Metric::TemperatureMillicelsius, subject));
            }
        }
        for policy in entries(&machine.sys("devices/system/cpu/cpufreq"), "policy") {
            let dir = machine.sys("devices/system/cpu/cpufreq").join(&policy);
            let name = policy.replace("policy", "cpu");
            add(&dir.join("scaling_cur_freq"), Kind::Gauge(Metric::CpuFrequencyKhz, name.clone()));
            add(&dir.join("scaling_max_freq"), Kind::Gauge(Metric::CpuFrequencyMaxKhz, name));
        }
        let (machine, wal_readers) = (machine.clone(), WalReaders::default());
        let text = vec![0; TEXT_BYTES];
        Monitor { sources, text, series: Vec::new(), samples: Vec::new(), machine, wal_readers }
    }

    /// Reads all counters once.
    pub(crate) fn sample(&mut self, time: Timestamp) {
        for source in &self.sources {
            let Ok(length) = read_whole(&source.file, &mut self.text) else { continue };
            let text = String::from_utf8_lossy(&self.text[..length]);
            let (series, samples) = (&mut self.series, &mut self.samples);
            parse(&source.kind, &text, &mut |metric, subject, value| {
                let known = series.iter().position(|(m, s)| *m == metric && s.as_deref() == subject);
                let place = known.unwrap_or_else(|| {
                    series.push((metric, subject.map(str::to_owned)));
                    series.len() - 1
                });
                samples.push((time, place as u32, value));
            });
        }
        self.wal_readers.look(&self.machine, time);
    }

    /// Returns the ids of processes that kept a write-ahead log of SQLite from being emptied.
    pub(crate) fn wal_readers(&self) -> impl Iterator<Item = u32> {
        self.wal_readers.pids()
    }

    pub(crate) fn write(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        for &(time, place, value) in &self.samples {
            let (metric, subject) = &self.series[place as usize];
            sink.sample(&Sample { time, metric: *metric, subject: subject.clone(), value })?;
        }
        self.wal_readers.samples().iter().try_for_each(|sample| sink.sample(sample))
    }
}

fn entries(dir: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .map(|entries| {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    names.retain(|name| name.starts_with(prefix));
    names.sort_unstable_by_key(|name| (name.len(), name.clone()));
    names
}

/// Reads a file completely. procfs returns a long text in several reads.
fn read_whole(file: &File, text: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < text.len() {
        match file.read_at(&mut text[length..], length as u64)? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

fn parse(kind: &Kind, text: &str, found: &mut dyn FnMut(Metric, Option<&str>, i64)) {
    match kind {
        Kind::Stat => stat(text, found),
        Kind::Meminfo => {
            for (name, metric) in [
                ("MemTotal", Metric::MemoryTotalBytes),
                ("MemAvailable", Metric::MemoryAvailableBytes),
                ("Dirty", Metric::MemoryDirtyBytes),
                ("Writeback", Metric::MemoryWritebackBytes),
            ] {
                if let Some(bytes) = memory(text, name) {
                    found(metric, None, bytes.0 as i64);
                }
            }
        }
        Kind::Vmstat => {
            for line in text.lines() {
                let Some((name, value)) = line.split_once(' ') else { continue };
                let metric = match name {
                    "pswpin" => Metric::SwapInPages,
                    "pswpout" => Metric::SwapOutPages,
                    "pgmajfault" => Metric::MajorFaults,
                    // Before 5.9, the kernel did not count pages of files and of memory separately.
                    "workingset_refault_file" | "workingset_refault" => Metric::FileRefaultPages,
                    "workingset_activate_file" | "workingset_activate" => Metric::FileReactivatedPages,
                    _ => continue,
                };
                if let Ok(value) = value.trim().parse() {
                    found(metric, None, value);
                }
            }
        }
        Kind::Diskstats => diskstats(text, found),
        Kind::NetDev => {
            for line in text.lines() {
                let Some((interface, numbers)) = line.split_once(':') else { continue };
                let numbers: Vec<i64> = numbers.split_whitespace().map_while(|n| n.parse().ok()).collect();
                let interface = interface.trim();
                if let (Some(&receive), Some(&transmit), true) =
                    (numbers.first(), numbers.get(8), interface != "lo")
                {
                    found(Metric::NetReceiveBytes, Some(interface), receive);
                    found(Metric::NetTransmitBytes, Some(interface), transmit);
                }
            }
        }
        Kind::Pressure(resource) => {
            let pressure = Pressure::parse(text);
            for (metric, total) in
                [(Metric::PressureSomeUs, pressure.some), (Metric::PressureFullUs, pressure.full)]
            {
                if let Some(total) = total {
                    found(metric, Some(resource), total.as_micros() as i64);
                }
            }
        }
        Kind::Gauge(metric, subject) => {
            if let Ok(value) = text.trim().parse() {
                found(*metric, Some(subject), value);
            }
        }
        Kind::LinkSpeed(interface) => {
            if let Ok(megabits @ 1..) = text.trim().parse::<i64>() {
                found(Metric::NetLinkBytesPerS, Some(interface), megabits.saturating_mul(1_000_000 / 8));
            }
        }
    }
}

/// Reads `/proc/stat`: `cpu user nice system idle iowait irq softirq steal guest guest_nice`. The first line
/// is the sum of all processors; `cpu0` etc. are individual processors. `user` includes guest time.
fn stat(text: &str, found: &mut dyn FnMut(Metric, Option<&str>, i64)) {
    for line in text.lines() {
        let Some((name, numbers)) = line.split_once(' ').filter(|(name, _)| name.starts_with("cpu")) else {
            break;
        };
        let ticks: Vec<i64> = numbers.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, rest @ ..] = ticks.as_slice() else { continue };
        let at = |place: usize| rest.get(place).copied();
        let active = user + nice + system + at(1).unwrap_or(0) + at(2).unwrap_or(0);
        if name != "cpu" {
            found(Metric::ProcessorActiveTicks, Some(name), active);
            continue;
        }
        found(Metric::CpuActiveTicks, None, active);
        found(Metric::CpuIdleTicks, None, *idle);
        if let Some(iowait) = at(0) {
            found(Metric::CpuIowaitTicks, None, iowait);
        }
        if let Some(steal) = at(3) {
            found(Metric::CpuStealTicks, None, steal);
        }
    }
}

/// Reads `major minor name reads merged sectors ms writes merged sectors ms in_flight busy_ms …`. Omits
/// devices without any I/O since boot. A sector is 512 bytes.
fn diskstats(text: &str, found: &mut dyn FnMut(Metric, Option<&str>, i64)) {
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(2);
        let Some(name) = words.next() else { continue };
        let numbers: Vec<i64> = words.map_while(|n| n.parse().ok()).collect();
        let [reads, _, read_sectors, _, writes, _, written_sectors, _, _, busy_ms, ..] = numbers.as_slice()
        else {
            continue;
        };
        if *reads == 0 && *writes == 0 {
            continue;
        }
        found(Metric::DiskBusyMs, Some(name), *busy_ms);
        found(Metric::DiskReadBytes, Some(name), read_sectors.saturating_mul(512));
        found(Metric::DiskWriteBytes, Some(name), written_sectors.saturating_mul(512));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use fonio_core::CollectedRows;

    use super::*;

    #[test]
    fn entries_are_sorted_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpuidle", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(entries(dir.path(), "cpu"), ["cpu2", "cpu10", "cpuidle"]);
        assert_eq!(entries(&dir.path().join("absent"), "cpu"), [""; 0]);
    }

    #[test]
    fn texts() {
        let mut shown = String::new();
        for (kind, text) in [
            (Kind::Stat, "cpu  10 1 5 100 7 2 3 4 9 0\ncpu0 1 2 3 4\ncpu1 9 0 2 1 1 1 1 0 0 0\nintr 7 0\n"),
            (Kind::Stat, "cpu  10 1 5 100\n"),
            (
                Kind::Meminfo,
                "MemTotal:  24680 kB\nMemFree: 1 kB\nMemAvailable: 2 kB\nDirty: 3 kB\nWriteback: 4 kB\nWritebackTmp: 5 kB\n",
            ),
            (
                Kind::Vmstat,
                "nr_free_pages 1\npswpin 2\npswpout 3\npgmajfault 4\nworkingset_refault_file 5\nworkingset_activate_file 6\n",
            ),
            (
                Kind::Diskstats,
                " 179 0 mmcblk0 10 0 80 5 20 1 160 9 0 12 14 0 0 0 0 3 4\n   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n",
            ),
            (
                Kind::NetDev,
                "Inter-| Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9\n  eth0:100 2 0 0 0 0 0 0 200 3\n",
            ),
            (
                Kind::Pressure("io".into()),
                "some avg10=0.00 avg60=0.11 avg300=0.26 total=9066175\nfull avg10=0.00 total=12\n",
            ),
            (Kind::Gauge(Metric::TemperatureMillicelsius, "cpu-thermal".into()), "48312\n"),
            (Kind::LinkSpeed("eth0".into()), "1000\n"),
            (Kind::LinkSpeed("wlan0".into()), "-1\n"),
            (Kind::Stat, ""),
            (Kind::Diskstats, "x\n1 2 sda 4"),
        ] {
            shown += &format!("{kind:?}:\n");
            parse(&kind, text, &mut |metric, subject, value| {
                shown += &format!("{metric:?} {} {value}\n", subject.unwrap_or("-"));
            });
        }
        expect_file!["monitor.expected"].assert_eq(&shown);
    }

    #[test]
    fn this_machine_has_a_processor() {
        let mut monitor = Monitor::new(&Machine::here());
        monitor.sample(Timestamp(5));
        monitor.sample(Timestamp(6));
        let mut rows = CollectedRows::default();
        monitor.write(&mut rows).unwrap();
        let active = rows.samples.iter().filter(|row| row.metric == Metric::CpuActiveTicks);
        let active: Vec<i64> = active.map(|row| row.value).collect();
        assert_eq!(active.len(), 2);
        assert!(active[0] <= active[1]);
    }
}
