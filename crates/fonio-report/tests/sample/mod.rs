#![allow(dead_code, reason = "each test uses a part")]
//! An invented recording with data for every part of the analysis: a Pi whose database syncs too often.
//!
//! The numbers come from a fixed generator and need not be consistent; they only have to look like those of a report.

mod blocked;

use std::collections::BTreeMap;

use fonio_analysis::addresses::locality::{Locality, Place, PlaceCounts};
use fonio_analysis::addresses::sequentiality::{CumulativeCurves, SequentialShare, Sequentiality};
use fonio_analysis::causes::files::{ContentUse, FileUse, Files};
use fonio_analysis::causes::process::{Process, Processes};
use fonio_analysis::compare::{Comparison, ComparisonRow, Side};
use fonio_analysis::device::flushes::{DeviceFlushes, FlushGaps, Flushes};
use fonio_analysis::device::interference::{EqualDepth, Interference, Slowdown, SlowdownSide};
use fonio_analysis::device::io_share::{DeviceShare, IoShare, Level, Share};
use fonio_analysis::machine::{Cpu, Machine, MachineSeries, Memory, MetricSeries, Pressure, Temperature};
use fonio_analysis::over_time::series::Series;
use fonio_analysis::over_time::slices::{SliceLatency, SliceTimes, Slices};
use fonio_analysis::requests::latency::{Latency, LatencyRow};
use fonio_analysis::requests::point::Point;
use fonio_analysis::requests::points::Points;
use fonio_analysis::requests::size_latency::{SizeLatency, SizeLatencyRow};
use fonio_analysis::requests::sizes::{SizeRow, Sizes};
use fonio_analysis::requests::totals::{OpTotal, Totals};
use fonio_analysis::verdict::validity::Validity;
use fonio_analysis::verdict::{Finding, Severity};
use fonio_analysis::waits::outstanding::{
    LongResponses, Outstanding, OutstandingProcess, OutstandingRow, TimeShare,
};
use fonio_analysis::waits::queueing::{DeviceDepth, QueueRow, Queueing, Requeues};
use fonio_analysis::{Analysis, Cdf, Class, DeviceInfo, Distribution, Figure, Group, Span, SpanSource};
use fonio_analysis::{Answer, Change, Unknown};
use fonio_core::meta::{Clock, Device, Host, Lost, Mount, Source};
use fonio_core::units::{ByteCount, DeviceId, Timestamp};
use fonio_core::{Better, Meta, Unit};

const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 180 * SECOND;
const BINS: usize = 360;

/// A small linear congruential generator (Knuth's MMIX constants): the same report on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// A value near `base`; a few values are up to 200 times as large.
    fn long_tailed(&mut self, base: u64) -> u64 {
        let tail = match self.below(100) {
            0 => 200,
            1..=5 => 20,
            6..=20 => 5,
            _ => 2,
        };
        base / 2 + self.below(base * tail)
    }
}

fn distribution(mut values: Vec<u64>) -> Distribution {
    values.sort_unstable();
    let count = values.len();
    let at = |share: f64, needs: usize| {
        (count >= needs).then(|| values[((count as f64 * share) as usize).min(count - 1)])
    };
    let (mut up_to, mut cumulative) = (Vec::new(), Vec::new());
    let mut edge = values[0].max(1) as f64;
    while (edge as u64) < values[count - 1] {
        up_to.push(edge as u64);
        cumulative.push(values.partition_point(|value| *value <= edge as u64) as u64);
        edge *= 1.189;
    }
    up_to.push(values[count - 1]);
    cumulative.push(count as u64);
    Distribution {
        count: count as u64,
        min: values[0],
        max: Some(values[count - 1]),
        missing: None,
        sum: values.iter().sum(),
        mean: values.iter().sum::<u64>() as f64 / count as f64,
        p50: at(0.5, 2),
        p80: at(0.8, 5),
        p90: at(0.9, 10),
        p95: at(0.95, 20),
        p99: at(0.99, 100),
        p999: at(0.999, 1000),
        p9999: at(0.9999, 10_000),
        relative_error: 0.008,
        cdf: Some(Cdf { up_to, cumulative }),
    }
}

fn draw(dice: &mut Dice, count: usize, base: u64) -> Distribution {
    distribution((0..count).map(|_| dice.long_tailed(base)).collect())
}

/// The analysis of a recording of `requests` requests, `points` of them sampled.
pub fn analysis(requests: u64, points: usize) -> Analysis {
    let mut dice = Dice(7);
    let mut analysis = Analysis {
        analysis_version: 2,
        verdict_id: "heavy-sync-writes".into(),
        verdict_severity: fonio_analysis::Severity::High,
        verdict: "Storage is your problem: sync writes of sqlite3 are behind 71 % of the time spent on I/O, and the \
                  device is flushed every 9 writes."
            .into(),
        findings: findings(),
        validity: Validity {
            ok: true,
            unknown: vec!["The source does not show which request a merged bio ended in.".into()],
            requests,
            with_service: requests - 3,
            with_response: requests - 3,
            without_completion: 3,
            lost_events: 0,
            assembly: BTreeMap::from([("completions_without_issue".to_owned(), 2)]),
            ..Validity::default()
        },
        span: Span { began_ns: 1_000 * SECOND, duration_ns: LENGTH, source: SpanSource::Recording },
        filter: None,
        devices: vec![DeviceInfo {
            device: "179:0".into(),
            name: Some("mmcblk0".into()),
            model: Some("SC32G".into()),
            scheduler: Some("mq-deadline".into()),
            rotational: Some(false),
            requests,
            ..DeviceInfo::default()
        }],
        totals: Totals {
            requests,
            reads: requests / 4,
            writes: requests * 3 / 5,
            read_bytes: requests * 9_000,
            write_bytes: requests * 6_100,
            read_write_ratio: Some(0.417),
            read_write_bytes_ratio: Some(1.47),
            requests_per_s: Some(requests as f64 / 180.0),
            read_bytes_per_s: Some(requests as f64 * 50.0),
            write_bytes_per_s: Some(requests as f64 * 33.9),
            by_op: vec![OpTotal { op: "read".into(), requests: requests / 4, bytes: requests * 9_000 }],
            fua_writes: 12,
            meta_requests: 431,
            ..Totals::default()
        },
        sizes: Sizes {
            groups: [Group::Reads, Group::Read, Group::Readahead, Group::Writes, Group::WriteSync, Group::WriteAsync]
                .map(|group| SizeRow {
                    group,
                    bytes: distribution(
                        (0..2000).map(|_| 4096 << dice.below(8).min(dice.below(8))).collect(),
                    ),
                    up_to_4k_share: 0.431,
                    below_16k_share: 0.702,
                    below_64k_share: 0.93,
                })
                .into(),
        },
        latency: latency(&mut dice, requests),
        size_latency: size_latency(&mut dice),
        flushes: flushes(&mut dice, requests),
        locality: locality(&mut dice),
        io_share: IoShare {
            all: Some(share()),
            devices: vec![DeviceShare { device: 0, share: share() }],
            ..IoShare::default()
        },
        sequentiality: sequentiality(&mut dice),
        queueing: queueing(&mut dice),
        interference: interference(),
        processes: processes(requests),
        files: Some(files(requests)),
        blocked: Some(blocked::blocked(&mut Dice(11))),
        machine: machine(&mut dice),
        series: series(&mut dice),
        points: sampled(&mut dice, requests, points),
        slices: slices(&mut dice),
        ..Analysis::default()
    };
    analysis.outstanding = outstanding(requests, &analysis.points.slowest);
    analysis
}

fn share() -> Share {
    Share {
        latency_sum_share: 0.612,
        busy_union_share: 0.384,
        latency_sum_ns: 110 * SECOND,
        busy_union_ns: 69 * SECOND,
        level: Level::Heavy,
    }
}

fn findings() -> Vec<Finding> {
    let figure =
        |name: &str, label: &str, value: f64, unit: Unit| Figure::new(name, label, unit, None, Some(value));
    vec![
        Finding {
            id: "sync-writes-dominate".into(),
            rank: 1,
            severity: Severity::High,
            sentence: "Sync writes take 71 % of the summed latency.".into(),
            evidence: vec![
                figure("outstanding.write_sync", "synchronous writes outstanding", 0.71, Unit::Share),
                figure(
                    "latency.write_sync.service.p99",
                    "sync write service, 99th percentile",
                    31.2e6,
                    Unit::Ns,
                ),
                figure(
                    "latency.write_sync.service.count",
                    "sync write service, number",
                    41_230.0,
                    Unit::Count,
                ),
            ],
            consequence: "An application that calls fsync stands still for 31 ms in one call of a hundred."
                .into(),
            fixes: vec![
                "Group more changes into one transaction, so that fewer fsyncs are needed.".into(),
                "Set the database's journal to WAL (`PRAGMA journal_mode=WAL`).".into(),
            ],
            command: None,
            source: "Nguyen et al., section IV.C".into(),
        },
        Finding {
            id: "flushed-often".into(),
            rank: 2,
            severity: Severity::Medium,
            sentence: "The device is flushed every 9 writes.".into(),
            evidence: vec![figure("flushes.writes_per_flush", "writes per flush", 9.1, Unit::Number)],
            consequence:
                "A flush empties the device's write cache and keeps it from putting writes together.".into(),
            fixes: vec!["Let ext4 commit its journal less often: `fonio fix apply commit-30s /data`.".into()],
            command: Some("fonio fix apply commit-30s /data".into()),
            source: "ours".into(),
        },
        Finding {
            id: "small-writes".into(),
            rank: 3,
            severity: Severity::Note,
            sentence: "43 % of the writes are of 4 KiB or less.".into(),
            evidence: vec![figure(
                "sizes.writes.up_to_4k_share",
                "writes of 4 KiB or less",
                0.431,
                Unit::Share,
            )],
            consequence: "Small writes wear flash more than their bytes say.".into(),
            fixes: Vec::new(),
            command: None,
            source: "Kim et al., section 3".into(),
        },
    ]
}

fn latency(dice: &mut Dice, requests: u64) -> Latency {
    let mut row = |group, part: u64, base, share| LatencyRow {
        group,
        requests: requests * part / 100,
        service_ns: Some(draw(dice, 4000, base)),
        response_ns: Some(draw(dice, 4000, base + base / 3)),
        latency_share: Some(share),
    };
    Latency {
        groups: vec![
            row(Group::All, 100, 400_000, 1.0),
            row(Group::Reads, 25, 180_000, 0.12),
            row(Group::Read, 17, 160_000, 0.08),
            row(Group::Readahead, 8, 220_000, 0.04),
            row(Group::Writes, 60, 900_000, 0.82),
            row(Group::WriteSync, 41, 1_100_000, 0.71),
            row(Group::WriteAsync, 19, 600_000, 0.11),
            row(Group::Flush, 14, 700_000, 0.058),
            row(Group::Discard, 1, 300_000, 0.002),
        ],
        service_sum_ns: Some(110 * SECOND),
        shares: None,
        readahead_known: true,
        sync_known: true,
    }
}

fn size_latency(dice: &mut Dice) -> SizeLatency {
    let classes = [
        (0, Some(4096)),
        (4096, Some(16_384)),
        (16_384, Some(65_536)),
        (65_536, Some(262_144)),
        (262_144, None),
    ];
    let mut rows = Vec::new();
    for (group, base) in [(Group::Reads, 150_000), (Group::WriteSync, 900_000), (Group::WriteAsync, 500_000)]
    {
        for (at, (over_bytes, up_to_bytes)) in classes.into_iter().enumerate() {
            let service_ns = Distribution { cdf: None, ..draw(dice, 300, base * (at as u64 + 1)) };
            rows.push(SizeLatencyRow { group, over_bytes, up_to_bytes, service_ns });
        }
    }
    SizeLatency { rows }
}

fn flushes(dice: &mut Dice, requests: u64) -> Flushes {
    let gaps = FlushGaps {
        requests: distribution((0..3000).map(|_| 1 + dice.long_tailed(6)).collect()),
        bytes: distribution((0..3000).map(|_| 4096 * (1 + dice.long_tailed(5))).collect()),
        time_ns: draw(dice, 3000, 9_000_000),
    };
    Flushes {
        flushes: requests / 14,
        flush_requests: requests / 15,
        preflush_writes: requests / 14 - requests / 15,
        fua_writes: 12,
        fua_counted: false,
        flushes_per_s: Some(requests as f64 / 14.0 / 180.0),
        writes_per_flush: Some(9.1),
        write_bytes_per_flush: Some(85_000.0),
        gaps: Some(gaps.clone()),
        devices: vec![DeviceFlushes {
            device: 0,
            flushes: requests / 14,
            writes: requests * 3 / 5,
            gaps: Some(gaps),
        }],
        ..Flushes::default()
    }
}

fn locality(dice: &mut Dice) -> Locality {
    let counts = |touches: u64, places: u64| PlaceCounts {
        places,
        touches,
        again_places: places / 3,
        again_share: Some(0.63),
        top_10_share: Some(0.21),
        most: 4_211,
        covering_50: places / 40,
        covering_90: places / 4,
        covering_99: places * 2 / 3,
    };
    Locality {
        sampled_share: 1.0,
        written: counts(81_000, 9_200),
        read: counts(44_000, 30_100),
        most_written: (1..=300)
            .map(|rank| Place { device: 0, sector: 8 * dice.below(7_000_000), writes: 1 + 4_211 / rank })
            .collect(),
    }
}

fn sequentiality(dice: &mut Dice) -> Sequentiality {
    let mut curve = |step: u64| {
        let mut sum = 0;
        (0..BINS)
            .map(|_| {
                sum += dice.below(step);
                sum
            })
            .collect()
    };
    Sequentiality {
        window: 1,
        read: SequentialShare {
            sequential_requests: 9_100,
            random_requests: 15_900,
            sequential_bytes: 700 << 20,
            random_bytes: 210 << 20,
            sequential_bytes_share: Some(0.769),
        },
        write: SequentialShare {
            sequential_requests: 11_000,
            random_requests: 49_000,
            sequential_bytes: 190 << 20,
            random_bytes: 420 << 20,
            sequential_bytes_share: Some(0.311),
        },
        cumulative: CumulativeCurves {
            start_ns: 0,
            bin_ns: LENGTH / BINS as u64,
            sequential_read_bytes: curve(4 << 20),
            random_read_bytes: curve(1 << 20),
            sequential_write_bytes: curve(1 << 20),
            random_write_bytes: curve(2 << 20),
        },
    }
}

fn queueing(dice: &mut Dice) -> Queueing {
    Queueing {
        groups: [Group::All, Group::Read, Group::WriteSync, Group::WriteAsync]
            .map(|group| QueueRow { group, queue_ns: draw(dice, 3000, 90_000) })
            .into(),
        queue_share_of_response: Some(0.27),
        requeues: Some(Requeues { requests: 4, requeues: 5 }),
        devices: vec![DeviceDepth {
            device: 0,
            mean_depth: Some(0.61),
            mean_depth_when_busy: Some(1.59),
            max_depth: 32,
            time_at_depth_ns: (0..33).map(|depth| 111 * SECOND / (1 + depth * depth)).collect(),
            busy_ns: 69 * SECOND,
            busy_share: Some(0.384),
            mean_depth_at_issue: Some(2.4),
            busy_per_request_ns: Some(690_000.0),
        }],
    }
}

fn interference() -> Interference {
    let side = |requests, response, service| SlowdownSide {
        requests,
        mean_response_ns: Some(response),
        mean_service_ns: Some(service),
        mean_bytes: Some(18_200.0),
        mean_depth: Some(response / 1e6),
    };
    let equal = |slowdown: f64| EqualDepth {
        with_requests: 4_700,
        without_requests: 2_900,
        with_mean_ns: 1.1e6 * slowdown,
        without_mean_ns: 1.1e6,
        slowdown,
        low: slowdown * 0.8,
        high: slowdown * 1.25,
    };
    Interference {
        read: Slowdown {
            with: side(6_100, 2.9e6, 1.2e6),
            without: side(18_800, 0.41e6, 0.3e6),
            equal_depth: Some(equal(2.07)),
        },
        write: Slowdown {
            with: side(3_200, 3.1e6, 2.2e6),
            without: side(56_000, 2.4e6, 1.9e6),
            equal_depth: Some(equal(1.04)),
        },
    }
}

fn outstanding(requests: u64, slowest: &[Point]) -> Outstanding {
    let time = |share: f64| TimeShare { ns: (LENGTH as f64 * share) as u64, share };
    let row =
        |group, share: f64, of_waited_share| OutstandingRow { group, time: time(share), of_waited_share };
    Outstanding {
        waited: Some(time(0.341)),
        groups: vec![
            row(Group::Reads, 0.061, Some(0.179)),
            row(Group::Read, 0.052, Some(0.152)),
            row(Group::Readahead, 0.021, Some(0.062)),
            row(Group::WriteSync, 0.244, Some(0.716)),
            row(Group::WriteAsync, 0.119, None),
            row(Group::Flush, 0.102, Some(0.299)),
            row(Group::Discard, 0.003, None),
        ],
        processes: [(0, 0.71), (1, 0.21), (3, 0.06), (2, 0.05)]
            .map(|(process, part)| OutstandingProcess {
                process,
                time: time(0.341 * part),
                of_waited_share: Some(part),
                long: u64::from(process == 0),
                longest_ns: (150_000_000.0 * part) as u64,
            })
            .into(),
        response_ns: None,
        queue_share: Some(0.27),
        long: LongResponses {
            threshold_ns: 100_000_000,
            count: 1,
            background: 0,
            longest: slowest.iter().take(1).cloned().collect(),
        },
        requests,
        timed: requests - 3,
        counted_from_issue: 0,
    }
}

fn files(requests: u64) -> Files {
    let file = |path: Option<&str>, content: &str, part: u64, cause: Option<&str>| FileUse {
        path: path.map(str::to_owned),
        device: path.map(|_| "179:2".to_owned()),
        inode: path.map(|_| 1000 + part),
        content: content.to_owned(),
        requests: requests * part / 100,
        read_bytes: requests * part * 20,
        write_bytes: requests * part * 60,
        cause: cause.map(str::to_owned),
        cause_unit: cause.map(|_| "notes.service".to_owned()),
        cause_share: cause.map(|_| 0.9),
    };
    let files = vec![
        file(Some("/data/notes <1>.db-wal"), "sqlite_wal", 50, Some("notes")),
        file(None, "fs_journal", 30, Some("notes")),
        file(None, "unknown", 20, None),
    ];
    let kind = |file: &FileUse| ContentUse {
        content: file.content.clone(),
        requests: file.requests,
        writes: file.requests * 3 / 4,
        read_bytes: file.read_bytes,
        write_bytes: file.write_bytes,
    };
    Files {
        contents: files.iter().map(kind).collect(),
        files,
        files_beyond_cap: 0,
        unknown_share: Some(0.2),
        path_unknown_share: Some(0.0),
        cause_unknown_share: Some(0.2),
    }
}

fn processes(requests: u64) -> Processes {
    let names = [
        ("sqlite3", 71),
        ("jbd2/mmcblk0p2-", 11),
        ("kworker", 8),
        ("homeassistant", 4),
        ("</script><script>alert(1)</script>", 2),
        ("mosquitto", 1),
        ("\x1b[31mred\x07", 1),
        ("a|b`c*_", 1),
    ];
    Processes {
        processes: names
            .iter()
            .map(|(name, part)| Process {
                unit: None,
                name: (*name).to_owned(),
                requests: requests * part / 100,
                reads: requests * part / 400,
                writes: requests * part / 160,
                sync_writes: requests * part / 250,
                flushes: requests * part / 1400,
                read_bytes: requests * part * 90,
                write_bytes: requests * part * 61,
                service_sum_ns: Some(part * 1_100_000_000),
                service_max_ns: Some(part * 3_000_000),
                service_max_at_least_ns: None,
                latency_share: Some(*part as f64 / 100.0),
            })
            .collect(),
        names_beyond_cap: 0,
    }
}

fn machine(dice: &mut Dice) -> Machine {
    let metric = |metric: &str, subject: Option<&str>, values: Vec<Option<f64>>| MetricSeries {
        metric: metric.into(),
        subject: subject.map(str::to_owned),
        counter: metric.ends_with("_ticks"),
        values,
    };
    let mut wave = |base: u64, spread: u64| -> Vec<Option<f64>> {
        (0..180).map(|at| (at != 40).then(|| (base + dice.below(spread)) as f64)).collect()
    };
    Machine {
        samples: 1800,
        cpu: Some(Cpu {
            active_ticks: 14_000,
            idle_ticks: 40_000,
            iowait_ticks: Some(18_000),
            steal_ticks: Some(0),
            active_share: Some(0.194),
            iowait_share: Some(0.25),
            iowait_of_not_idle_share: Some(0.5625),
            busiest_share: Some(0.38),
        }),
        memory: Some(Memory {
            total_bytes: Some(4 << 30),
            available_min_bytes: Some(2_300 << 20),
            available_min_share: Some(0.5615),
            dirty_max_bytes: Some(61 << 20),
            swap_in_pages: Some(0),
            swap_out_pages: Some(0),
            ..Memory::default()
        }),
        pressure: vec![Pressure { resource: "io".into(), some_share: Some(0.41), full_share: Some(0.33) }],
        temperature: vec![Temperature {
            zone: "cpu-thermal".into(),
            mean_millicelsius: 52_000.0,
            max_millicelsius: 58_400,
        }],
        series: MachineSeries {
            start_ns: 0,
            bin_ns: SECOND,
            metrics: vec![
                metric("cpu_active_ticks", None, wave(60, 60)),
                metric("cpu_idle_ticks", None, wave(180, 60)),
                metric("cpu_iowait_ticks", None, wave(40, 120)),
                metric("memory_available_bytes", None, wave(2_300 << 20, 200 << 20)),
                metric("memory_dirty_bytes", None, wave(1 << 20, 60 << 20)),
                metric("temperature_millicelsius", Some("cpu-thermal"), wave(48_000, 9_000)),
            ],
        },
        ..Machine::default()
    }
}

fn series(dice: &mut Dice) -> Series {
    // Bursts: four quiet bins for each busy one.
    let mut bursts = |base: u64| -> Vec<u64> {
        (0..BINS as u64)
            .map(|bin| if bin / 12 % 5 == 0 { base * 6 + dice.below(base * 4) } else { dice.below(base) })
            .collect()
    };
    let (reads, writes, flushes) = (bursts(60), bursts(120), bursts(14));
    let (read_bytes, write_bytes) = (bursts(600_000), bursts(450_000));
    let mean_write = bursts(900_000);
    Series {
        start_ns: 0,
        bin_ns: LENGTH / BINS as u64,
        requests: reads.iter().zip(&writes).map(|(a, b)| a + b).collect(),
        mean_service_ns: mean_write.iter().map(|ns| Some(*ns as f64)).collect(),
        mean_read_service_ns: mean_write.iter().map(|ns| (ns % 7 != 0).then_some(*ns as f64 / 4.0)).collect(),
        mean_write_service_ns: mean_write.iter().map(|ns| Some(*ns as f64)).collect(),
        max_service_ns: mean_write.iter().map(|ns| Some(ns * 9)).collect(),
        max_response_ns: mean_write.iter().map(|ns| Some(ns * 11)).collect(),
        mean_read_response_ns: mean_write
            .iter()
            .map(|ns| (ns % 7 != 0).then_some(*ns as f64 / 3.0))
            .collect(),
        mean_write_response_ns: mean_write.iter().map(|ns| Some(*ns as f64 * 1.2)).collect(),
        mean_depth: writes.iter().map(|count| *count as f64 / 200.0).collect(),
        reads,
        writes,
        flushes,
        read_bytes,
        write_bytes,
    }
}

fn sampled(dice: &mut Dice, requests: u64, points: usize) -> Points {
    let sample: Vec<Point> = (0..points)
        .map(|at| {
            let at_ns = LENGTH / points as u64 * at as u64;
            let class = match dice.below(20) {
                0..=3 => Class::Read,
                4..=5 => Class::Readahead,
                6..=13 => Class::WriteSync,
                14..=16 => Class::WriteAsync,
                17..=18 => Class::Flush,
                _ => Class::Discard,
            };
            let service = dice.long_tailed(if class.is_read() { 170_000 } else { 900_000 });
            let region = match class {
                Class::Read | Class::Readahead => dice.below(50_000_000),
                Class::WriteSync => 30_000_000 + (at_ns / 40_000) % 1_000_000,
                _ => 8_000_000 * (1 + dice.below(4)) + dice.below(400_000),
            };
            Point {
                request_id: at as u64,
                at_ns,
                device: 0,
                class,
                sector: (class != Class::Flush).then_some(region),
                bytes: if class == Class::Flush { 0 } else { 4096 << dice.below(6) },
                service_ns: Some(service),
                response_ns: Some(service + dice.long_tailed(80_000)),
                process: dice.below(5) as u32,
            }
        })
        .collect();
    let mut slowest = sample.clone();
    slowest.sort_by_key(|point| std::cmp::Reverse(point.response_ns));
    slowest.truncate(20);
    Points { of_requests: requests, sample, slowest }
}

fn slices(dice: &mut Dice) -> Slices {
    let mut column = |most: u64| -> Vec<u64> { (0..60).map(|_| dice.below(most)).collect() };
    let times =
        SliceTimes { p99_ns: column(40_000_000).into_iter().map(Some).collect(), ..SliceTimes::default() };
    Slices {
        slice_ns: LENGTH / 60,
        covered_ns: vec![LENGTH / 60; 60],
        requests: column(2_000),
        read_bytes: column(20 << 20),
        write_bytes: column(12 << 20),
        flushes: column(200),
        service_sum_ns: column(3 * SECOND),
        busy_ns: column(2 * SECOND),
        long: vec![0; 60],
        read: SliceLatency { service: times.clone(), response: times.clone() },
        write_sync: SliceLatency { service: times.clone(), response: times },
        write_async: SliceLatency::default(),
    }
}

/// The description of the recording.
pub fn meta() -> Meta {
    let device = DeviceId::new(179, 0);
    Meta {
        schema_version: 1,
        writer: "fonio 0.1.0".into(),
        source: Source {
            format: "tracefs".into(),
            files: vec!["home.fonio".into()],
            shows: ["queue", "insert", "issue", "complete"].map(str::to_owned).into(),
        },
        clock: Clock { name: "mono".into(), unix_ns_at_zero: None },
        began: Some(Timestamp(1_000 * SECOND)),
        ended: Some(Timestamp(1_000 * SECOND + LENGTH)),
        host: Host {
            name: Some("kitchen".into()),
            model: Some("Raspberry Pi 4 Model B Rev 1.4".into()),
            kernel: Some("6.12.25+rpt-rpi-v8".into()),
            architecture: Some("aarch64".into()),
            processors: Some(4),
            memory_bytes: Some(ByteCount(4 << 30)),
        },
        devices: vec![Device {
            id: device,
            name: Some("mmcblk0".into()),
            model: Some("SC32G".into()),
            size_bytes: Some(ByteCount(31_914_983_424)),
            scheduler: Some("mq-deadline".into()),
            depth: Some(32),
            fua: Some(false),
            write_cache: Some("write back".into()),
            mounts: vec![Mount {
                device,
                at: "/".into(),
                fs: "ext4".into(),
                options: vec!["rw".into(), "noatime".into()],
                ..Mount::default()
            }],
            ..Device::default()
        }],
        lost: Lost::default(),
        ..Meta::default()
    }
}

/// Two recordings, compared with a first one.
pub fn comparison() -> Comparison {
    let change = |ratio: f64, spread: f64, answer: Answer| Change {
        ratio: Some(ratio),
        low: Some(ratio / spread),
        high: Some(ratio * spread),
        confidence: Some(0.998),
        answer,
        unknown: None,
    };
    let row = |figure: &str, label: &str, unit, values: [f64; 3], changes: [Change; 2]| {
        let is_felt = ["run_time", "latency.write_sync.response.p99"].contains(&figure);
        ComparisonRow {
            figure: figure.into(),
            unit,
            label: label.into(),
            better: is_felt.then_some(Better::Lower),
            felt: figure == "run_time",
            values: values.map(Some).into(),
            texts: values.map(|value| Some(unit.format(value))).into(),
            runs: values.map(|value| vec![Some(value)]).into(),
            changes: changes.into(),
        }
    };
    let side = |name: &str, valid: bool| Side {
        name: name.into(),
        recordings: vec![name.into()],
        invalid: if valid { Vec::new() } else { vec![name.into()] },
    };
    let (lower, higher, same) = (Answer::Lower, Answer::Higher, Answer::NoDifference);
    let once = |ratio| Change {
        ratio: Some(ratio),
        low: None,
        high: None,
        confidence: None,
        answer: Answer::Unknown,
        unknown: Some(Unknown::OneValueEach),
    };
    Comparison {
        method: "slices of time".into(),
        sides: vec![side("before", true), side("wal", true), side("bfuse", false)],
        rows: vec![
            row("run_time", "run time", Unit::Ns, [6.4e9, 2.2e9, 6.3e9], [once(0.344), once(0.984)]),
            row(
                "latency.write_sync.response.p99",
                "sync write response, 99th percentile",
                Unit::Ns,
                [31.2e6, 12.1e6, 30.0e6],
                [change(0.388, 1.3, lower), change(0.962, 1.2, same)],
            ),
            row(
                "io_share.busy_union",
                "devices busy",
                Unit::Share,
                [0.384, 0.201, 0.45],
                [change(0.523, 1.1, lower), change(1.172, 1.05, higher)],
            ),
            row(
                "flushes.per_s",
                "flush rate",
                Unit::PerS,
                [39.0, 11.0, 38.0],
                [change(0.282, 1.2, lower), change(0.974, 1.1, same)],
            ),
            row(
                "totals.read_bytes_per_s",
                "read rate",
                Unit::BytesPerS,
                [5.1e6, 5.5e6, 5.0e6],
                [change(1.078, 1.02, higher), change(0.98, 1.05, same)],
            ),
        ],
    }
}
