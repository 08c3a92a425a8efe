//! The words of the report.

use crate::document::Term;

const TERMS: [(&str, &str); 14] = [
    (
        "service time",
        "From the issue of a request to the device to its completion; what the studies call latency.",
    ),
    ("queue time", "From the queueing of a request to its first issue to the device."),
    ("response time", "From the queueing of a request to its completion: queue time and service time."),
    ("summed latency", "The service times of all requests added up, whether they overlap or not."),
    ("in flight", "Issued to the device and not yet completed."),
    ("sync write", "A write that somebody waits for, as by fsync."),
    ("sync writes", "Writes that somebody waits for, as by fsync."),
    ("async writes", "Writes that nobody waits for: write-back from the page cache."),
    ("readahead", "Reads that the kernel makes ahead of need."),
    ("flush", "An order to the device to make its volatile write cache durable."),
    ("flushes", "Orders to the device to make its volatile write cache durable."),
    (
        "FUA",
        "Force unit access: a write that is durable before it completes, without a flush of the whole cache.",
    ),
    ("sequential", "Starting where an earlier request of the same op on the same device ended."),
    ("preflush", "A flush of the device's cache asked for with a write, before it."),
];

pub fn all() -> Vec<Term> {
    TERMS
        .iter()
        .map(|(name, definition)| Term { name: (*name).into(), definition: (*definition).into() })
        .collect()
}
