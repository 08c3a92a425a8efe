//! The figures for Prometheus: counters and histograms since the watch began.

use fonio_core::prometheus::{Kind, Labels, Metric, Text};

use crate::histogram::Histogram;
use crate::shared::Figures;

/// The bounds of the buckets in Prometheus: each second class, from 64 µs to 17 s. All classes would be 32 rows a histogram.
const FIRST_BUCKET: usize = 6;
const BUCKET_STEP: usize = 2;
const LAST_BUCKET: usize = 24;

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
        ("fonio_unobserved_total", Kind::Counter, "Requests and waits that were not seen.", total.unobserved),
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
            "Time in which some task stood still for a resource.",
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
    let devices = &figures.total.devices;
    let mut written = text.metric(
        "fonio_device_written_bytes_total",
        Kind::Counter,
        "Bytes written, by the kernel's counters.",
    );
    for device in devices {
        written.row(&[("device", &device.name)], device.written_bytes.0);
    }
    let mut read =
        text.metric("fonio_device_read_bytes_total", Kind::Counter, "Bytes read, by the kernel's counters.");
    for device in devices {
        read.row(&[("device", &device.name)], device.read_bytes.0);
    }
    let mut busy = text.metric(
        "fonio_device_busy_seconds_total",
        Kind::Counter,
        "Time in which requests were in flight.",
    );
    for device in devices {
        busy.row(&[("device", &device.name)], device.busy_ms as f64 / 1000.0);
    }
    let worn = devices.iter().filter_map(|device| {
        let health = device.health.as_ref()?;
        Some((&device.name, health.life_used_percent.max(health.life_used_b_percent)?))
    });
    let worn: Vec<_> = worn.collect();
    if !worn.is_empty() {
        let mut life = text.metric(
            "fonio_device_life_used_ratio",
            Kind::Gauge,
            "Used life as the device reports it: the upper end of a step.",
        );
        for (name, percent) in worn {
            life.row(&[("device", name)], f64::from(percent) / 100.0);
        }
    }
    let mut responses = text.metric(
        "fonio_device_response_seconds",
        Kind::Histogram,
        "Response times of requests: from queue to completion.",
    );
    for device in devices {
        for (op, durations) in
            [("read", &device.reads), ("write", &device.writes), ("flush", &device.flushes)]
        {
            histogram(&mut responses, &[("device", &device.name), ("op", op)], durations);
        }
    }
}

fn units(text: &mut Text, figures: &Figures) {
    let total = &figures.total;
    let mut written = text.metric(
        "fonio_unit_written_bytes_total",
        Kind::Counter,
        "Bytes in the write requests of a unit or program.",
    );
    for unit in &total.parties {
        written.row(&[("unit", &unit.party.name), ("device", &unit.device)], unit.written_bytes.0);
    }
    let mut read = text.metric(
        "fonio_unit_read_bytes_total",
        Kind::Counter,
        "Bytes in the read requests of a unit or program.",
    );
    for unit in &total.parties {
        read.row(&[("unit", &unit.party.name), ("device", &unit.device)], unit.read_bytes.0);
    }
    let mut blocked =
        text.metric("fonio_unit_blocked_seconds", Kind::Histogram, "Waits of a unit's threads for storage.");
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
