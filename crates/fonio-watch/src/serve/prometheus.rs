//! Renders the figures for Prometheus: counters and histograms since the watch began.

use fonio_core::ByteCount;
use fonio_core::prometheus::{Kind, Labels, Metric, Text};

use crate::histogram::Histogram;
use crate::shared::Figures;
use crate::summary::{DeviceFigures, Traffic};

/// Index of the first duration class used as a bucket. Every other duration class from 64 µs to 17 s is a
/// bucket; with all classes, a histogram would have 32 rows.
const FIRST_BUCKET: usize = 6;
const BUCKET_STEP: usize = 2;
const LAST_BUCKET: usize = 24;
const LIFE_USED: &str = "Used life reported by the device (upper end of the reported step).";

pub(super) fn text(figures: &Figures) -> String {
    let mut text = Text::default();
    let total = &figures.total;
    for (name, kind, help, value) in [
        (
            "fonio_watched_seconds_total",
            Kind::Counter,
            "Time for which the machine was watched.",
            total.watched_s,
        ),
        (
            "fonio_stalls_total",
            Kind::Counter,
            "Spans in which a thread was blocked on storage for at least the threshold.",
            total.stalls_in_all,
        ),
        (
            "fonio_unobserved_total",
            Kind::Counter,
            "Requests and waits that were not recorded.",
            total.unobserved,
        ),
        (
            "fonio_own_written_bytes",
            Kind::Gauge,
            "Bytes that the watch wrote to the medium in the last 24 hours.",
            figures.written.0,
        ),
    ] {
        text.metric(name, kind, help).row(&[], value);
    }
    if let Some(pressure) = total.pressure {
        let mut metric = text.metric(
            "fonio_pressure_seconds_total",
            Kind::Counter,
            "Time in which some task was stalled for a resource.",
        );
        for (resource, ms) in
            [("io", pressure.io_some_ms), ("memory", pressure.memory_some_ms), ("cpu", pressure.cpu_some_ms)]
        {
            metric.row(&[("resource", resource)], ms as f64 / 1000.0);
        }
    }
    devices(&mut text, figures);
    units(&mut text, figures);
    text.into_string()
}

fn devices(text: &mut Text, figures: &Figures) {
    type Value = fn(&DeviceFigures) -> Option<f64>;
    let devices = &figures.total.devices;
    let metrics: [(&str, Kind, &str, Value); 4] = [
        ("written_bytes_total", Kind::Counter, "Bytes written, from the kernel's counters.", |device| {
            Some(device.traffic.written_bytes.0 as f64)
        }),
        ("read_bytes_total", Kind::Counter, "Bytes read, from the kernel's counters.", |device| {
            Some(device.traffic.read_bytes.0 as f64)
        }),
        ("busy_seconds_total", Kind::Counter, "Time in which requests were in flight.", |device| {
            Some(device.busy_ms as f64 / 1000.0)
        }),
        ("life_used_ratio", Kind::Gauge, LIFE_USED, |device| {
            Some(f64::from(device.health.as_ref()?.used_percent()?) / 100.0)
        }),
    ];
    for (name, kind, help, value) in metrics {
        let rows: Vec<_> =
            devices.iter().filter_map(|device| Some((&*device.name, value(device)?))).collect();
        if rows.is_empty() && kind == Kind::Gauge {
            continue;
        }
        let name = format!("fonio_device_{name}");
        let mut metric = text.metric(&name, kind, help);
        for (device, value) in rows {
            metric.row(&[("device", device)], value);
        }
    }
    let mut responses = text.metric(
        "fonio_device_response_seconds",
        Kind::Histogram,
        "Response times of requests, from queueing to completion.",
    );
    for device in devices {
        let Traffic { reads, writes, flushes, .. } = &device.traffic;
        for (op, durations) in [("read", reads), ("write", writes), ("flush", flushes)] {
            histogram(&mut responses, &[("device", &device.name), ("op", op)], durations);
        }
    }
}

fn units(text: &mut Text, figures: &Figures) {
    let total = &figures.total;
    type Bytes = fn(&Traffic) -> ByteCount;
    let metrics: [(&str, &str, Bytes); 2] = [
        ("fonio_unit_written_bytes_total", "Bytes in the write requests of a unit or program.", |traffic| {
            traffic.written_bytes
        }),
        ("fonio_unit_read_bytes_total", "Bytes in the read requests of a unit or program.", |traffic| {
            traffic.read_bytes
        }),
    ];
    for (name, help, bytes) in metrics {
        let mut metric = text.metric(name, Kind::Counter, help);
        for unit in &total.parties {
            let labels = [("unit", &*unit.party.name), ("device", &*unit.device)];
            metric.row(&labels, bytes(&unit.traffic).0);
        }
    }
    let mut blocked = text.metric(
        "fonio_unit_blocked_seconds",
        Kind::Histogram,
        "Time that a unit's threads waited for storage.",
    );
    for unit in &total.blocked {
        let device = unit.device.as_deref().unwrap_or("");
        histogram(&mut blocked, &[("unit", &unit.party.name), ("device", device)], &unit.waits);
    }
}

fn histogram(metric: &mut Metric<'_>, labels: &Labels<'_>, durations: &Histogram) {
    let classes: Vec<u64> = durations.upper_bounds().map(|(_, count)| count).collect();
    let buckets = (FIRST_BUCKET..=LAST_BUCKET).step_by(BUCKET_STEP).map(|class| {
        let below = classes.iter().take(class + 1).sum();
        ((1_u64 << class) as f64 / 1e6, below)
    });
    metric.histogram(labels, buckets, durations.count(), durations.total().0 as f64 / 1e9);
}
