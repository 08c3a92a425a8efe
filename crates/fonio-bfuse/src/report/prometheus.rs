//! Formats the statistics of a mount for Prometheus.

use fonio_core::prometheus::{Kind, Labels, Metric, Text};

use super::Report;
use crate::statistics::Distribution;

pub(super) fn text(report: &Report) -> String {
    let mut text = Text::default();
    let Report { buffer, passthrough_refused, written_behind_bytes, .. } = report;
    text.metric("fonio_mount_info", Kind::Gauge, "The mount's mode.").row(&[("mode", &report.mode)], 1);
    let mut times =
        text.metric("fonio_mount_request_seconds", Kind::Histogram, "Time to reply to a request.");
    for request in &report.requests {
        seconds(&mut times, &[("opcode", &request.name)], &request.time_ns);
    }
    let mut errors =
        text.metric("fonio_mount_request_errors_total", Kind::Counter, "Requests with an error reply.");
    for request in &report.requests {
        errors.row(&[("opcode", &request.name)], request.errors);
    }
    let mut opens = text.metric("fonio_mount_opens_total", Kind::Counter, "Opens by method of serving.");
    for (serving, count) in &report.opened {
        opens.row(&[("serving", serving)], count);
    }
    let counters = [
        ("written_bytes_total", "Bytes of write requests.", report.write_bytes.sum),
        ("read_bytes_total", "Bytes of read requests.", report.read_bytes.sum),
        ("write_calls_below_total", "Write calls to the source.", report.write_calls_below),
        (
            "passthrough_refused_total",
            "Files for which the kernel refused passthrough.",
            *passthrough_refused,
        ),
        ("written_behind_bytes_total", "Bytes of streams written back early.", *written_behind_bytes),
        ("buffer_writes_total", "Writes into the buffer.", buffer.writes),
        ("buffer_through_total", "Writes that bypassed the buffer.", buffer.through),
        ("buffer_flushes_total", "Write calls that flush the buffer.", buffer.flush_bytes.count),
        ("buffer_waits_total", "Waits for a free buffer entry.", buffer.waits),
        ("buffer_errors_total", "Flushes that failed.", buffer.errors),
        ("buffer_lost_bytes_total", "Acknowledged bytes that could not be written.", buffer.lost_bytes),
        ("prunes_total", "Requests to the kernel to forget inodes.", report.prunes),
        ("switches_voluntary_total", "Voluntary context switches.", report.switches_voluntary),
        ("switches_involuntary_total", "Involuntary context switches.", report.switches_involuntary),
    ];
    for (name, help, value) in counters {
        let name = format!("fonio_mount_{name}");
        text.metric(&name, Kind::Counter, help).row(&[], value);
    }
    let gauges = [
        ("buffer_fill_bytes", "Bytes in the buffer.", buffer.fill_bytes),
        ("inodes", "Inodes in the kernel's cache.", report.inodes),
        ("open_files", "Open files.", report.open_files),
        ("descriptors", "Descriptors in use.", report.descriptors),
        ("descriptors_max", "Maximum number of descriptors.", report.descriptors_max),
        ("threads", "Threads that serve requests.", report.threads),
    ];
    for (name, help, value) in gauges {
        let name = format!("fonio_mount_{name}");
        text.metric(&name, Kind::Gauge, help).row(&[], value);
    }
    text.into_string()
}

fn seconds(metric: &mut Metric<'_>, labels: &Labels<'_>, times: &Distribution) {
    let buckets = times.buckets.iter().scan(0, |below, (end, count)| {
        *below += count;
        Some((*end as f64 / 1e9, *below))
    });
    metric.histogram(labels, buckets, times.count, times.sum as f64 / 1e9);
}
