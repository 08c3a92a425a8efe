//! Defines the terms that a report uses.

use crate::document::Term;

const TERMS: [(&str, &str); 18] = [
    (
        "blocked on storage",
        "A thread was in uninterruptible sleep, waiting for I/O, the file system's journal or write-back.",
    ),
    (
        "bulk work",
        "A thread, such as a copy, that moves at least 64 MiB at 1 MiB/s or more, in requests of 128 KiB or more on \
         average. It always waits for storage, so the verdict ignores it.",
    ),
    (
        "behind",
        "The owners of requests that were outstanding while a thread waited. A share is the time of their requests \
         within the wait, divided by the time of all requests of the device.",
    ),
    ("response time", "Time from the queueing of a request to its completion: queue time plus service time."),
    (
        "service time",
        "Time from the issue of a request to the device to its completion, which the studies call latency. It includes \
         waiting inside the device and its driver.",
    ),
    ("queue time", "Time from the queueing of a request to its first issue to the device."),
    ("outstanding", "Queued and not yet completed."),
    ("in flight", "Issued to the device and not yet completed."),
    (
        "in demand",
        "Share of the time with at least one read, synchronous write or flush outstanding, for which programs may have \
         been waiting. Write-back and discards do not count.",
    ),
    ("summed service time", "Sum of the service times of all requests, including overlapping ones."),
    ("sync writes", "Synchronous writes (fsync, O_SYNC): the program waits for them."),
    ("write-back", "Writes from the page cache. Programs do not wait for them."),
    ("readahead", "Reads that the kernel issues before a program asks for the data."),
    ("flush", "A command to the device to make its volatile write cache durable."),
    ("flushes", "Commands to the device to make its volatile write cache durable."),
    (
        "FUA",
        "Force unit access: a write that is durable before it completes, without a flush of the whole cache.",
    ),
    ("sequential", "Starting where an earlier request of the same operation on the same device ended."),
    ("preflush", "A flush of the device's cache before a write, as part of the write request."),
];

pub fn all() -> Vec<Term> {
    TERMS
        .iter()
        .map(|(name, definition)| Term { name: (*name).into(), definition: (*definition).into() })
        .collect()
}
