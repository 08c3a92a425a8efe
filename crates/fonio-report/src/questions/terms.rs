//! The words of the report.

use crate::document::Term;

const TERMS: [(&str, &str); 15] = [
    (
        "response time",
        "From the queueing of a request to its completion: queue time and service time. What a program waits for it.",
    ),
    (
        "service time",
        "From the issue of a request to the device to its completion; what the studies call latency. It includes waiting \
         inside the device and its driver.",
    ),
    ("queue time", "From the queueing of a request to its first issue to the device."),
    ("outstanding", "Queued and not yet completed."),
    ("in flight", "Issued to the device and not yet completed."),
    (
        "in demand",
        "The time in which at least one request was outstanding that a program may wait for: a read, a synchronous write \
         or a flush, not write-back or a discard.",
    ),
    ("summed service time", "The service times of all requests added up, whether they overlap or not."),
    ("sync writes", "Synchronous writes: a program waits for them, as with fsync or O_SYNC."),
    ("write-back", "Writes from the page cache that no program waits for."),
    ("readahead", "Reads that the kernel makes ahead of need."),
    ("flush", "A command to the device to make its volatile write cache durable."),
    ("flushes", "Commands to the device to make its volatile write cache durable."),
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
