//! The names of figures for people.
//!
//! Most names are composed of an area, a group of requests and a statistic (`latency.write_sync.response.p99`). Their
//! labels are composed in the same way, so that a new group or statistic has a label everywhere at once.

/// The label of a figure: lower case, without a unit.
pub(crate) fn label(name: &str) -> String {
    if let Some((_, label)) = SINGLE.iter().find(|(known, _)| *known == name) {
        return (*label).to_owned();
    }
    if let Some((subject, figure)) = part(name) {
        let what = PARTS.iter().find(|(known, _)| *known == figure).map_or(figure, |(_, label)| label);
        return format!("{subject}, {what}");
    }
    let parts: Vec<&str> = name.split('.').collect();
    composed(&parts).unwrap_or_else(|| name.to_owned())
}

/// Splits `process[kworker/0:1].requests` into its subject and its figure. A subject may contain any character.
fn part(name: &str) -> Option<(&str, &str)> {
    let (_, rest) = name.split_once('[')?;
    rest.rsplit_once("].")
}

fn composed(parts: &[&str]) -> Option<String> {
    Some(match parts {
        ["outstanding", "response", "p999_over_p50"] => {
            "99.9th percentile over median, response of reads, synchronous writes and flushes".to_owned()
        }
        [.., "p999_over_p50"] => {
            format!("99.9th percentile over median, {}", subject(&parts[..parts.len() - 1])?)
        }
        ["sizes", group, "up_to_4k_share"] => format!("{} of 4 KiB or less", requests(group)?),
        ["sizes", group, "below_16k_share"] => format!("{} below 16 KiB", requests(group)?),
        ["sizes", group, "below_64k_share"] => format!("{} below 64 KiB", requests(group)?),
        ["latency_share", group] => format!("{}, share of summed service time", requests(group)?),
        ["outstanding", group] => match group.strip_suffix("_of_waited") {
            Some(group) => {
                format!("{} outstanding, share of the time with a request to wait for", requests(group)?)
            }
            None => format!("{} outstanding", requests(group)?),
        },
        ["sequentiality", op, figure] => {
            let what = match *figure {
                "sequential_bytes" => "bytes, sequential",
                "random_bytes" => "bytes, random",
                "sequential_bytes_share" => "bytes, sequential share",
                "random_requests_share" => "requests, random share",
                _ => return None,
            };
            format!("{op} {what}")
        }
        ["locality", op, figure] => {
            let what = match *figure {
                "again_share" => "more than once, share of pages",
                "top_10_share" => "in the ten most used places, share",
                "most" => "in the most used place",
                "places" => "in different places of 4 KiB",
                _ => return None,
            };
            format!("{} {what}", if *op == "written" { "writes" } else { "reads" })
        }
        ["interference", op, figure] => {
            let (reads, writes) = if *op == "read" { ("reads", "writes") } else { ("writes", "reads") };
            match *figure {
                "slowdown" => format!("slowdown of {reads} beside {writes}, at equal depth"),
                "slowdown_low" => format!("slowdown of {reads} beside {writes}, lower end of its interval"),
                "slowdown_high" => format!("slowdown of {reads} beside {writes}, upper end of its interval"),
                "with_mean" => format!("response of {reads} with {writes} outstanding, mean"),
                "without_mean" => format!("response of {reads} without {writes} outstanding, mean"),
                "with_requests" => format!("{reads} that met {writes}"),
                _ => return None,
            }
        }
        ["pressure", resource, "some"] => format!("some tasks stalled on {resource}"),
        ["pressure", resource, "full"] => format!("all tasks stalled on {resource}"),
        [subject_parts @ .., statistic] => {
            format!("{}, {}", subject(subject_parts)?, statistic_name(statistic)?)
        }
        [] => return None,
    })
}

/// The quantity of a distribution.
fn subject(parts: &[&str]) -> Option<String> {
    Some(match parts {
        ["latency", group, "response"] => format!("{} response", adjective(group)?),
        ["latency", group, "service"] => format!("{} service", adjective(group)?),
        ["wait", group] => format!("{} wait", adjective(group)?),
        ["queueing", group] => format!("{} queueing time", adjective(group)?),
        ["sizes", group] => format!("{} size", adjective(group)?),
        ["outstanding", "response"] => "response of reads, synchronous writes and flushes".to_owned(),
        ["flushes", "gap_time"] => "time between flushes".to_owned(),
        ["flushes", "gap_requests"] => "requests between flushes".to_owned(),
        ["flushes", "gap_bytes"] => "bytes written between flushes".to_owned(),
        _ => return None,
    })
}

/// A group of requests, in the plural.
fn requests(group: &str) -> Option<&'static str> {
    Some(match group {
        "all" => "requests",
        "reads" => "reads",
        "read" => "reads without readahead",
        "readahead" => "readahead",
        "writes" => "writes",
        "write_sync" => "synchronous writes",
        "write_async" => "write-back",
        "write_unknown" => "writes of unknown kind",
        "flush" => "flushes",
        "discard" => "discards",
        "other" => "other requests",
        "waited" => "requests that programs may wait for",
        _ => return None,
    })
}

/// A group of requests, before a noun.
fn adjective(group: &str) -> Option<&'static str> {
    Some(match group {
        "all" => "request",
        "reads" => "read",
        "read" => "read (without readahead)",
        "readahead" => "readahead",
        "writes" => "write",
        "write_sync" => "sync write",
        "write_async" => "write-back",
        "write_unknown" => "write (of unknown kind)",
        "flush" => "flush",
        "discard" => "discard",
        "other" => "other",
        _ => return None,
    })
}

fn statistic_name(statistic: &str) -> Option<&'static str> {
    Some(match statistic {
        "count" => "number",
        "mean" => "mean",
        "min" => "minimum",
        "p50" => "median",
        "p80" => "80th percentile",
        "p90" => "90th percentile",
        "p95" => "95th percentile",
        "p99" => "99th percentile",
        "p999" => "99.9th percentile",
        "p9999" => "99.99th percentile",
        "max" => "maximum",
        "sum" => "sum",
        _ => return None,
    })
}

/// Figures of one process, device, thermal zone or interface.
const PARTS: &[(&str, &str)] = &[
    ("requests", "requests"),
    ("reads", "reads"),
    ("writes", "writes"),
    ("sync_writes", "synchronous writes"),
    ("flushes", "flushes"),
    ("read_bytes", "bytes read"),
    ("write_bytes", "bytes written"),
    ("latency_share", "share of summed service time"),
    ("service_max", "longest service"),
    ("delay", "time outstanding"),
    ("delay_share", "share of the time outstanding"),
    ("long", "responses of 100 ms or longer"),
    ("busy_union", "busy"),
    ("busy_time", "busy time"),
    ("mean_depth", "queue depth, mean"),
    ("mean_depth_when_busy", "queue depth while busy, mean"),
    ("max_depth", "queue depth, maximum"),
    ("busy_per_request", "busy time per request"),
    ("max", "highest temperature"),
    ("receive_bytes", "bytes received"),
    ("transmit_bytes", "bytes sent"),
    ("link_share", "link used"),
    ("transactions", "transactions"),
    ("autocommits", "transactions of one statement, without BEGIN"),
    ("rollbacks", "transactions rolled back"),
    ("syncs_per_transaction", "calls that sync, per transaction"),
    ("writes_per_transaction", "device writes per transaction"),
    ("flushes_per_transaction", "device flushes per transaction"),
    ("bytes_per_transaction", "bytes on the device per transaction"),
    ("sync_time_per_transaction", "time in calls that sync, per transaction"),
    ("blocked_per_transaction", "time blocked on storage, per transaction"),
    ("write_amplification", "bytes on the device per byte written"),
];

/// Figures whose names are not composed.
const SINGLE: &[(&str, &str)] = &[
    ("run_time", "run time"),
    ("command.recorded", "a command was recorded"),
    ("blocked.worst", "blocked on storage, the program that waited longest"),
    ("blocked.time", "blocked on storage, time of that program's thread"),
    ("blocked.longest", "longest wait for storage of that program"),
    ("blocked.fsync_share", "in fsync or for the journal, share of its waits"),
    ("blocked.read_share", "in reads, page faults and look-ups, share of its waits"),
    ("blocked.dirty_limit_share", "held back by the dirty limit, share of its waits"),
    ("blocked.swap_share", "reading back swapped memory, share of its waits"),
    ("blocked.behind_share", "request time of another program during its waits, share"),
    ("blocked.bulk", "blocked on storage, the bulk work that waited longest"),
    ("blocked.unexplained_pressure", "some tasks stalled on io, beyond the waits of all threads"),
    ("blocked.long.count", "waits of 100 ms or longer"),
    ("blocked.long.longest", "longest wait"),
    ("blocked.long.at", "longest wait, begins at"),
    ("inferred.waited", "time with a request that programs may wait for, without waits of threads"),
    ("inferred.longest", "longest response, without waits of threads"),
    ("storage.waited", "time that programs waited for storage, or may have waited"),
    ("sqlite.transactions", "SQLite transactions"),
    ("sqlite.autocommits", "SQLite transactions of one statement, without BEGIN"),
    ("sqlite.rollbacks", "SQLite transactions rolled back"),
    ("sqlite.syncs_per_transaction", "calls that sync, per SQLite transaction"),
    ("sqlite.writes_per_transaction", "device writes per SQLite transaction"),
    ("sqlite.flushes_per_transaction", "device flushes per SQLite transaction"),
    ("sqlite.bytes_per_transaction", "bytes on the device per SQLite transaction"),
    ("sqlite.sync_time_per_transaction", "time in calls that sync, per SQLite transaction"),
    ("sqlite.blocked_per_transaction", "time blocked on storage, per SQLite transaction"),
    ("sqlite.write_amplification", "bytes on the device per byte that SQLite wrote"),
    ("launch.storage", "time blocked on storage"),
    ("span.duration", "length of the recording"),
    ("totals.requests", "requests"),
    ("totals.reads", "reads"),
    ("totals.writes", "writes"),
    ("totals.read_bytes", "bytes read"),
    ("totals.write_bytes", "bytes written"),
    ("totals.requests_per_s", "request rate"),
    ("totals.read_bytes_per_s", "read rate"),
    ("totals.write_bytes_per_s", "write rate"),
    ("totals.read_write_ratio", "reads per write"),
    ("validity.ok", "valid measurement"),
    ("validity.loss", "events were lost"),
    ("validity.lost_events", "lost events"),
    ("validity.lost_uncounted", "losses of an unknown number of events"),
    ("validity.ambiguous", "ambiguous events"),
    ("validity.ambiguous_share", "ambiguous events, share of requests"),
    ("validity.errors", "requests with an error"),
    ("validity.without_completion", "requests without completion"),
    ("validity.without_completion_share", "requests without completion, share"),
    ("source.requests", "the source shows requests"),
    ("filter.present", "a filter is set"),
    ("filter.partial", "the filter leaves requests out"),
    ("flushes.count", "flushes"),
    ("flushes.per_s", "flush rate"),
    ("flushes.fua_writes", "writes with forced unit access (FUA)"),
    ("flushes.writes_per_flush", "writes per flush"),
    ("flushes.write_bytes_per_flush", "bytes written per flush"),
    ("io_share.busy_union", "devices busy"),
    ("io_share.busy_time", "devices busy, time"),
    ("io_share.latency_sum", "requests in flight, mean"),
    ("outstanding.waited", "time with a request that programs may wait for"),
    ("outstanding.timed", "requests with known duration"),
    ("outstanding.timed_share", "requests with known duration, share"),
    ("outstanding.queue_share", "queueing, share of response"),
    ("long.count", "responses of 100 ms or longer"),
    ("long.per_s", "responses of 100 ms or longer, rate"),
    ("long.longest", "longest response"),
    ("long.at", "longest response, begins at"),
    ("long.background", "write-back of 100 ms or longer"),
    ("devices.rotating_share", "requests to rotating disks, share"),
    ("devices.loop_share", "requests to loop devices, share"),
    ("queueing.queue_share", "queueing, share of response of all requests"),
    ("queueing.mean_depth", "queue depth, mean"),
    ("queueing.mean_depth_when_busy", "queue depth while busy, mean"),
    ("queueing.max_depth", "queue depth, maximum"),
    ("queueing.busy_per_request", "busy time per request"),
    ("queueing.requeues", "requeues"),
    ("queueing.requeued_share", "requeued requests, share"),
    ("files.cause_unknown_share", "bytes with unknown cause, share"),
    ("files.journal_writes", "writes of a file system's journal"),
    ("files.metadata_writes", "writes of a file system's metadata"),
    ("files.metadata_write_share", "bytes of metadata, share of written"),
    ("files.system_log_write_share", "bytes of the system's log, share of written"),
    ("files.log_write_share", "bytes of the logs in one folder, share of written"),
    ("files.path_unknown_share", "bytes of files with unknown path, share"),
    ("files.unknown_share", "bytes of unknown content, share"),
    ("files.unknown_writes", "writes of unknown content"),
    ("processes.count", "processes with I/O"),
    ("process.delay", "outstanding time of the first process"),
    ("process.delay_share", "outstanding time of the first process, share"),
    ("process.latency_share", "summed service time of the first process, share"),
    ("process.long", "responses of 100 ms or longer of the first process"),
    ("process.requests", "requests of the first process"),
    ("process.write_bytes", "bytes written by the first process"),
    ("machine.samples", "samples of the machine"),
    ("cpu.active_share", "processors busy"),
    ("cpu.iowait_share", "processors idle with I/O outstanding (iowait)"),
    ("cpu.iowait_of_not_idle_share", "iowait, share of busy and iowait"),
    ("cpu.busiest_share", "busiest processor"),
    ("memory.available_min", "least available memory"),
    ("memory.available_min_share", "least available memory, share"),
    ("memory.swap_pages_per_s", "pages swapped, rate"),
    ("memory.major_faults_per_s", "major page faults, rate"),
    ("temperature.max", "highest temperature"),
    ("frequency.capped_to", "processor frequency limit, lowest over highest"),
    ("network.bytes_per_s", "network rate"),
    ("network.link", "network link speed"),
    ("network.link_share", "network link used"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_figure_has_a_label_of_its_own() {
        let mut seen = BTreeMap::new();
        for name in crate::figures::tests::figures_of_everything() {
            let label = label(&name);
            assert!(label != name && !label.contains('_'), "{name} has no label");
            if let Some(other) = seen.insert(label.clone(), name.clone()) {
                panic!("{name} and {other} are both called {label:?}");
            }
        }
        assert!(seen.len() > 200, "{} figures", seen.len());
    }

    #[test]
    fn labels_are_composed() {
        for (name, expected) in [
            ("latency.write_sync.response.p99", "sync write response, 99th percentile"),
            ("sizes.reads.below_16k_share", "reads below 16 KiB"),
            (
                "outstanding.write_sync_of_waited",
                "synchronous writes outstanding, share of the time with a request to wait for",
            ),
            ("flushes.gap_time.p90", "time between flushes, 90th percentile"),
            ("process[a].b].write_bytes", "a].b, bytes written"),
            ("nobody.knows.this", "nobody.knows.this"),
        ] {
            assert_eq!(label(name), expected);
        }
    }
}
