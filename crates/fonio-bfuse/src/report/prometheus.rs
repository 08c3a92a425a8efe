//! The text format that Prometheus scrapes
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::fmt::Write;

use super::{Distribution, Report};

/// Formats the report as metrics.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    let buffer = &report.buffer;
    head(&mut out, "fonio_mount_info", "gauge", "The mode in use.");
    line(&mut out, "fonio_mount_info", &format!("mode=\"{}\"", report.mode), 1);
    head(&mut out, "fonio_mount_request_seconds", "histogram", "Time to answer a request.");
    for request in &report.requests {
        let label = format!("opcode=\"{}\"", request.name);
        seconds(&mut out, "fonio_mount_request_seconds", &label, &request.time_ns);
    }
    head(&mut out, "fonio_mount_request_errors_total", "counter", "Requests answered with an error.");
    for request in &report.requests {
        let label = format!("opcode=\"{}\"", request.name);
        line(&mut out, "fonio_mount_request_errors_total", &label, request.errors);
    }
    head(&mut out, "fonio_mount_opens_total", "counter", "Opens by how the file is served.");
    for (serving, count) in &report.opened {
        line(&mut out, "fonio_mount_opens_total", &format!("serving=\"{serving}\""), *count);
    }
    let counters = [
        ("written_bytes_total", "Bytes of write requests.", report.write_bytes.sum),
        ("read_bytes_total", "Bytes of read requests.", report.read_bytes.sum),
        ("write_calls_below_total", "Write calls to the source.", report.write_calls_below),
        (
            "passthrough_refused_total",
            "Files for which the kernel refused passthrough.",
            report.passthrough_refused,
        ),
        (
            "written_behind_bytes_total",
            "Bytes of streams whose write-back started early.",
            report.written_behind_bytes,
        ),
        ("buffer_writes_total", "Writes into the buffer.", buffer.writes),
        ("buffer_through_total", "Writes that bypassed the buffer.", buffer.through),
        ("buffer_flushes_total", "Write calls of the buffer.", buffer.flush_bytes.count),
        ("buffer_waits_total", "Waits for a free entry.", buffer.waits),
        ("buffer_errors_total", "Flushes that failed.", buffer.errors),
        ("buffer_lost_bytes_total", "Bytes acknowledged and not written.", buffer.lost_bytes),
        ("prunes_total", "Times the kernel was asked to forget inodes.", report.prunes),
        ("switches_voluntary_total", "Voluntary context switches.", report.switches_voluntary),
        ("switches_involuntary_total", "Involuntary context switches.", report.switches_involuntary),
    ];
    for (name, help, value) in counters {
        let name = format!("fonio_mount_{name}");
        head(&mut out, &name, "counter", help);
        line(&mut out, &name, "", value);
    }
    let gauges = [
        ("buffer_fill_bytes", "Bytes in the buffer.", buffer.fill_bytes),
        ("inodes", "Inodes that the kernel remembers.", report.inodes),
        ("open_files", "Open files.", report.open_files),
        ("descriptors", "Descriptors in use.", report.descriptors),
        ("descriptors_max", "Largest number of descriptors.", report.descriptors_max),
        ("threads", "Threads that serve requests.", report.threads),
    ];
    for (name, help, value) in gauges {
        let name = format!("fonio_mount_{name}");
        head(&mut out, &name, "gauge", help);
        line(&mut out, &name, "", value);
    }
    out
}

const WRITES: &str = "a string takes whatever is written to it";

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect(WRITES);
}

fn line(out: &mut String, name: &str, label: &str, value: u64) {
    if label.is_empty() {
        writeln!(out, "{name} {value}").expect(WRITES);
    } else {
        writeln!(out, "{name}{{{label}}} {value}").expect(WRITES);
    }
}

/// A histogram of nanoseconds; its buckets are cumulative.
fn seconds(out: &mut String, name: &str, label: &str, times: &Distribution) {
    let mut below = 0;
    for (bound, count) in &times.buckets {
        below += count;
        writeln!(out, "{name}_bucket{{{label},le=\"{}\"}} {below}", *bound as f64 / 1e9).expect(WRITES);
    }
    writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {}", times.count).expect(WRITES);
    writeln!(out, "{name}_sum{{{label}}} {}", times.sum as f64 / 1e9).expect(WRITES);
    writeln!(out, "{name}_count{{{label}}} {}", times.count).expect(WRITES);
}
