//! The figures in Prometheus' text format, version 0.0.4: counters and histograms since the watch began.

use std::fmt::Write;

use crate::histogram::Histogram;
use crate::shared::Figures;

/// The bounds of the buckets in Prometheus: each fourth class, from 64 µs to 17 s. All classes would be 32 rows a histogram.
const FIRST_BUCKET: usize = 6;
const BUCKET_STEP: usize = 2;
const LAST_BUCKET: usize = 24;

pub(super) fn text(figures: &Figures) -> String {
    let mut text = String::new();
    let total = &figures.total;
    let out = &mut text;
    single(
        out,
        "fonio_watched_seconds_total",
        "counter",
        "Time for which the machine was watched.",
        total.watched_s as f64,
    );
    single(
        out,
        "fonio_stalls_total",
        "counter",
        "Spans in which a thread was blocked on storage for at least the threshold.",
        total.stalls_in_all as f64,
    );
    single(
        out,
        "fonio_unobserved_total",
        "counter",
        "Requests and waits that were not seen.",
        total.unobserved as f64,
    );
    single(
        out,
        "fonio_own_written_bytes",
        "gauge",
        "Bytes that the watch wrote to the medium in the last 24 hours.",
        figures.written.0 as f64,
    );
    if let Some(pressure) = total.pressure {
        head(
            out,
            "fonio_pressure_seconds_total",
            "counter",
            "Time in which some task stood still for a resource.",
        );
        for (resource, ms) in
            [("io", pressure.io_some_ms), ("memory", pressure.memory_some_ms), ("cpu", pressure.cpu_some_ms)]
        {
            row(out, "fonio_pressure_seconds_total", &[("resource", resource)], ms as f64 / 1000.0);
        }
    }
    for (name, help, value) in [
        ("fonio_device_written_bytes_total", "Bytes written, by the kernel's counters.", 0),
        ("fonio_device_read_bytes_total", "Bytes read, by the kernel's counters.", 1),
        ("fonio_device_busy_seconds_total", "Time in which requests were in flight.", 2),
    ] {
        head(out, name, "counter", help);
        for device in &total.devices {
            let values =
                [device.written_bytes.0 as f64, device.read_bytes.0 as f64, device.busy_ms as f64 / 1000.0];
            row(out, name, &[("device", &device.name)], values[value]);
        }
    }
    let worn = total.devices.iter().filter_map(|device| {
        let health = device.health.as_ref()?;
        Some((&device.name, health.life_used_percent.max(health.life_used_b_percent)?))
    });
    let worn: Vec<_> = worn.collect();
    if !worn.is_empty() {
        head(
            out,
            "fonio_device_life_used_ratio",
            "gauge",
            "Used life as the device reports it: the upper end of a step.",
        );
        for (name, percent) in worn {
            row(out, "fonio_device_life_used_ratio", &[("device", name)], f64::from(percent) / 100.0);
        }
    }
    head(
        out,
        "fonio_device_response_seconds",
        "histogram",
        "Response times of requests: from queue to completion.",
    );
    for device in &total.devices {
        for (op, responses) in
            [("read", &device.reads), ("write", &device.writes), ("flush", &device.flushes)]
        {
            histogram(
                out,
                "fonio_device_response_seconds",
                &[("device", &device.name), ("op", op)],
                responses,
            );
        }
    }
    units(out, figures);
    text
}

fn units(out: &mut String, figures: &Figures) {
    let total = &figures.total;
    head(
        out,
        "fonio_unit_written_bytes_total",
        "counter",
        "Bytes in the write requests of a unit or program.",
    );
    for unit in &total.parties {
        let labels = [("unit", unit.party.name.as_str()), ("device", unit.device.as_str())];
        row(out, "fonio_unit_written_bytes_total", &labels, unit.written_bytes.0 as f64);
    }
    head(out, "fonio_unit_read_bytes_total", "counter", "Bytes in the read requests of a unit or program.");
    for unit in &total.parties {
        let labels = [("unit", unit.party.name.as_str()), ("device", unit.device.as_str())];
        row(out, "fonio_unit_read_bytes_total", &labels, unit.read_bytes.0 as f64);
    }
    head(out, "fonio_unit_blocked_seconds", "histogram", "Waits of a unit's threads for storage.");
    for unit in &total.blocked {
        let device = unit.device.as_deref().unwrap_or("");
        let labels = [("unit", unit.party.name.as_str()), ("device", device)];
        histogram(out, "fonio_unit_blocked_seconds", &labels, &unit.waits);
    }
}

fn single(out: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    head(out, name, kind, help);
    row(out, name, &[], value);
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn row(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {value}");
}

fn histogram(out: &mut String, name: &str, labels: &[(&str, &str)], durations: &Histogram) {
    let bucket = format!("{name}_bucket");
    let classes: Vec<(f64, u64)> =
        durations.upper_bounds().map(|(end, count)| (end.0 as f64 / 1e9, count)).collect();
    for class in (FIRST_BUCKET..=LAST_BUCKET).step_by(BUCKET_STEP) {
        let below: u64 = classes.iter().take(class + 1).map(|(_, count)| count).sum();
        let end = (1_u64 << class) as f64 / 1e6;
        row(out, &bucket, &with(labels, ("le", &end.to_string())), below as f64);
    }
    let count = durations.count() as f64;
    row(out, &bucket, &with(labels, ("le", "+Inf")), count);
    row(out, &format!("{name}_sum"), labels, durations.total().0 as f64 / 1e9);
    row(out, &format!("{name}_count"), labels, count);
}

fn with<'l>(labels: &[(&'l str, &'l str)], more: (&'l str, &'l str)) -> Vec<(&'l str, &'l str)> {
    labels.iter().copied().chain([more]).collect()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
