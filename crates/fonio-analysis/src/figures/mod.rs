//! The catalogue of figures: every named number of an analysis.
//!
//! Budgets, rules, comparisons and `fonio report --figures` read figures only from here. A name is stable; people read
//! the label. A figure that the recording does not show is listed too, without a value.

mod blocked;
mod fixes;
mod label;
mod sqlite;

use std::collections::BTreeMap;

use fonio_core::{Better, Content, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Analysis, DeviceInfo, Distribution, Group};
pub use blocked::what;
pub(crate) use label::label;

/// A figure: its name, its label and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The stable name, which budgets and rules use: `latency.reads.response.p99`, `process[sqlite3].write_bytes`.
    pub name: String,
    /// The label for people: `read response, 99th percentile`.
    pub label: String,
    /// The unit of the value.
    pub unit: Unit,
    /// The direction in which the figure is better, if there is one.
    pub better: Option<Better>,
    /// The value; absent if the recording does not show it.
    pub value: Option<f64>,
    /// The value with its unit, as reports write it: `1.8 ms`, `23 %`, `64 KiB`.
    pub text: String,
}

impl Figure {
    /// A figure with its label, direction and text.
    pub fn new(name: impl Into<String>, value: Option<f64>, unit: Unit) -> Figure {
        let name = name.into();
        let text = value.map_or_else(|| "unknown".to_owned(), |value| unit.format(value));
        Figure { label: label(&name), better: better(&name), name, unit, value, text }
    }
}

/// The direction in which a figure is better. Only figures that people feel have one: a service time can rise, and a
/// rate can fall, because the work was done with fewer requests.
pub(crate) fn better(name: &str) -> Option<Better> {
    let parts: Vec<&str> = name.split('.').collect();
    let is_felt = match parts.as_slice() {
        ["latency", "reads" | "read" | "write_sync" | "flush", "response", statistic]
        | ["outstanding", "response", statistic] => *statistic != "count",
        ["run_time"] | ["launch", "storage"] | ["outstanding", "waited"] | ["validity", "errors"] => true,
        ["long", figure] => matches!(*figure, "count" | "per_s" | "longest"),
        _ => false,
    };
    is_felt.then_some(Better::Lower)
}

/// Figures and words, by name.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) figures: BTreeMap<String, Figure>,
    /// Names that sentences mention: of a process, a zone or an interface.
    pub(crate) words: BTreeMap<String, String>,
}

impl Facts {
    fn put(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>, unit: Unit) {
        let name = name.into();
        self.figures.insert(name.clone(), Figure::new(name, value.into(), unit));
    }

    /// The value of a figure, if it is known.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.figures.get(name)?.value
    }

    /// A figure with its unit, or a word, if it is known.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let figure = self.figures.get(name).filter(|figure| figure.value.is_some());
        figure.map(|figure| figure.text.as_str()).or_else(|| self.words.get(name).map(String::as_str))
    }

    fn count(&mut self, name: impl Into<String>, value: impl Into<Option<u64>>) {
        self.put(name, value.into().map(|value| value as f64), Unit::Count);
    }

    fn word(&mut self, name: &str, word: &str) {
        self.words.insert(name.to_owned(), word.to_owned());
    }

    fn distribution(&mut self, name: &str, distribution: &Distribution, unit: Unit) {
        self.count(format!("{name}.count"), distribution.count);
        let d = distribution;
        self.put(format!("{name}.mean"), d.mean, unit);
        for (part, value) in [
            ("min", Some(d.min)),
            ("p50", d.p50),
            ("p80", d.p80),
            ("p90", d.p90),
            ("p95", d.p95),
            ("p99", d.p99),
            ("p999", d.p999),
            ("p9999", d.p9999),
            ("max", d.max),
            ("sum", Some(d.sum)),
        ] {
            self.put(format!("{name}.{part}"), value.map(|value| value as f64), unit);
        }
        let over = d.p999.zip(d.p50.filter(|p50| *p50 > 0)).map(|(p999, p50)| p999 as f64 / p50 as f64);
        self.put(format!("{name}.p999_over_p50"), over, Unit::Ratio);
    }
}

impl Analysis {
    /// Every figure, by name. Figures of a group, process or device that the recording does not have are not listed.
    pub fn figures(&self) -> Vec<Figure> {
        facts(self).figures.into_values().collect()
    }
}

/// The figures and words of an analysis.
pub(crate) fn facts(analysis: &Analysis) -> Facts {
    let mut facts = Facts::default();
    of_validity(&mut facts, analysis);
    of_requests(&mut facts, analysis);
    of_outstanding(&mut facts, analysis);
    blocked::put(&mut facts, analysis);
    of_places(&mut facts, analysis);
    of_waiting(&mut facts, analysis);
    of_files(&mut facts, analysis);
    sqlite::put(&mut facts, analysis);
    of_machine(&mut facts, analysis);
    of_parts(&mut facts, analysis);
    fixes::put(&mut facts, analysis);
    facts
}

fn of_validity(facts: &mut Facts, analysis: &Analysis) {
    let validity = &analysis.validity;
    facts.count("validity.ok", u64::from(validity.ok));
    facts.count("validity.lost_events", validity.lost_events);
    facts.count("validity.lost_uncounted", validity.lost_uncounted);
    facts.count("validity.loss", u64::from(validity.lost_events > 0 || validity.lost_uncounted > 0));
    facts.word("validity.lost", &validity.lost_in_words());
    facts.count("validity.ambiguous", validity.ambiguous);
    facts.count("validity.errors", validity.errors);
    facts.count("validity.without_completion", validity.without_completion);
    let requests = validity.requests;
    let issued = requests.saturating_sub(validity.never_issued);
    facts.put("validity.without_completion_share", share(validity.without_completion, issued), Unit::Share);
    facts.put("validity.ambiguous_share", share(validity.ambiguous, requests), Unit::Share);
    facts.count("command.recorded", u64::from(analysis.has_command));
    facts.put("span.duration", analysis.span.duration_ns as f64, Unit::Ns);
    let filter = analysis.filter.as_ref();
    let is_sampled = analysis.blocked.as_ref().is_some_and(|blocked| blocked.is_sampled);
    facts.count("source.requests", u64::from(!is_sampled));
    facts.count("filter.present", u64::from(filter.is_some_and(|filter| !filter.is_empty())));
    facts.count("filter.partial", u64::from(filter.is_some_and(crate::FilterOptions::is_partial)));
    if let Some(problem) = validity.problems.first() {
        facts.word("validity.problem", problem.trim_end_matches('.'));
    }
}

fn of_requests(facts: &mut Facts, analysis: &Analysis) {
    let totals = &analysis.totals;
    facts.count("totals.requests", totals.requests);
    facts.count("totals.reads", totals.reads);
    facts.count("totals.writes", totals.writes);
    facts.put("totals.read_bytes", totals.read_bytes as f64, Unit::Bytes);
    facts.put("totals.write_bytes", totals.write_bytes as f64, Unit::Bytes);
    facts.put("totals.read_write_ratio", totals.read_write_ratio, Unit::Ratio);
    facts.put("totals.requests_per_s", totals.requests_per_s, Unit::PerS);
    facts.put("totals.read_bytes_per_s", totals.read_bytes_per_s, Unit::BytesPerS);
    facts.put("totals.write_bytes_per_s", totals.write_bytes_per_s, Unit::BytesPerS);
    for row in &analysis.sizes.groups {
        let name = format!("sizes.{}", row.group.name());
        facts.distribution(&name, &row.bytes, Unit::Bytes);
        facts.put(format!("{name}.up_to_4k_share"), row.up_to_4k_share, Unit::Share);
        facts.put(format!("{name}.below_16k_share"), row.below_16k_share, Unit::Share);
        facts.put(format!("{name}.below_64k_share"), row.below_64k_share, Unit::Share);
    }
    for row in &analysis.latency.groups {
        let name = row.group.name();
        for (kind, times) in [("service", &row.service_ns), ("response", &row.response_ns)] {
            if let Some(times) = times {
                facts.distribution(&format!("latency.{name}.{kind}"), times, Unit::Ns);
            }
        }
        facts.put(format!("latency_share.{name}"), row.latency_share, Unit::Share);
        if let Some(times) = row.response_ns.as_ref().or(row.service_ns.as_ref()) {
            facts.distribution(&format!("wait.{name}"), times, Unit::Ns);
        }
    }
    let flushes = &analysis.flushes;
    facts.count("flushes.count", flushes.flushes);
    facts.count("flushes.fua_writes", flushes.fua_writes);
    facts.put("flushes.per_s", flushes.flushes_per_s, Unit::PerS);
    facts.put("flushes.writes_per_flush", flushes.writes_per_flush, Unit::Number);
    facts.put("flushes.write_bytes_per_flush", flushes.write_bytes_per_flush, Unit::Bytes);
    if let Some(gaps) = &flushes.gaps {
        facts.distribution("flushes.gap_requests", &gaps.requests, Unit::Count);
        facts.distribution("flushes.gap_bytes", &gaps.bytes, Unit::Bytes);
        facts.distribution("flushes.gap_time", &gaps.time_ns, Unit::Ns);
    }
}

fn of_places(facts: &mut Facts, analysis: &Analysis) {
    for (name, op) in [("read", &analysis.sequentiality.read), ("write", &analysis.sequentiality.write)] {
        let name = format!("sequentiality.{name}");
        facts.put(format!("{name}.sequential_bytes"), op.sequential_bytes as f64, Unit::Bytes);
        facts.put(format!("{name}.random_bytes"), op.random_bytes as f64, Unit::Bytes);
        facts.put(format!("{name}.sequential_bytes_share"), op.sequential_bytes_share, Unit::Share);
        let requests = op.sequential_requests + op.random_requests;
        facts.put(format!("{name}.random_requests_share"), share(op.random_requests, requests), Unit::Share);
    }
    for (name, places) in [("read", &analysis.locality.read), ("written", &analysis.locality.written)] {
        let name = format!("locality.{name}");
        facts.count(format!("{name}.places"), places.places);
        facts.count(format!("{name}.most"), places.most);
        facts.put(format!("{name}.again_share"), places.again_share, Unit::Share);
        facts.put(format!("{name}.top_10_share"), places.top_10_share, Unit::Share);
    }
}

fn of_waiting(facts: &mut Facts, analysis: &Analysis) {
    if let Some(all) = &analysis.io_share.all {
        facts.put("io_share.latency_sum", all.latency_sum_share, Unit::Number);
        facts.put("io_share.busy_union", all.busy_union_share, Unit::Share);
        facts.put("io_share.busy_time", all.busy_union_ns as f64, Unit::Ns);
    }
    let queueing = &analysis.queueing;
    facts.put("queueing.queue_share", queueing.queue_share_of_response, Unit::Share);
    for row in &queueing.groups {
        facts.distribution(&format!("queueing.{}", row.group.name()), &row.queue_ns, Unit::Ns);
    }
    if let Some(device) =
        queueing.devices.iter().max_by_key(|device| (device.busy_ns, u32::MAX - device.device))
    {
        facts.put("queueing.mean_depth", device.mean_depth, Unit::Number);
        facts.put("queueing.mean_depth_when_busy", device.mean_depth_when_busy, Unit::Number);
        facts.put("queueing.busy_per_request", device.busy_per_request_ns, Unit::Ns);
        facts.count("queueing.max_depth", device.max_depth);
    }
    if let Some(requeues) = &queueing.requeues {
        facts.count("queueing.requeues", requeues.requeues);
        facts.put("queueing.requeued_share", share(requeues.requests, analysis.totals.requests), Unit::Share);
    }
    for (name, slowdown) in [("read", &analysis.interference.read), ("write", &analysis.interference.write)] {
        // Only a comparison at equal depth gives a figure.
        if let Some(equal) = &slowdown.equal_depth {
            let name = format!("interference.{name}");
            facts.put(format!("{name}.slowdown"), equal.slowdown, Unit::Ratio);
            facts.put(format!("{name}.slowdown_low"), equal.low, Unit::Ratio);
            facts.put(format!("{name}.slowdown_high"), equal.high, Unit::Ratio);
            facts.put(format!("{name}.with_mean"), equal.with_mean_ns, Unit::Ns);
            facts.put(format!("{name}.without_mean"), equal.without_mean_ns, Unit::Ns);
            facts.count(format!("{name}.with_requests"), equal.with_requests);
        }
    }
    facts.count("processes.count", analysis.processes.processes.len() as u64);
    let processes = &analysis.processes.processes;
    let delays = analysis.outstanding.processes.iter();
    let mut delays = delays.filter_map(|delay| Some((delay, processes.get(delay.process as usize)?)));
    if let Some((delay, top)) = delays.find(|(_, process)| process.name != UNKNOWN_PROCESS) {
        facts.word("process.name", &top.full_name());
        facts.count("process.requests", top.requests);
        facts.put("process.delay", delay.time.ns as f64, Unit::Ns);
        facts.put("process.delay_share", delay.of_waited_share, Unit::Share);
        facts.count("process.long", delay.long);
        facts.put("process.latency_share", top.latency_share, Unit::Share);
        facts.put("process.write_bytes", top.write_bytes as f64, Unit::Bytes);
    }
}

/// Adds the shares of bytes whose file, kind of data or cause is unknown, and the writes of the file system itself.
fn of_files(facts: &mut Facts, analysis: &Analysis) {
    let Some(files) = &analysis.files else { return };
    facts.put("files.unknown_share", files.unknown_share, Unit::Share);
    facts.put("files.path_unknown_share", files.path_unknown_share, Unit::Share);
    facts.put("files.cause_unknown_share", files.cause_unknown_share, Unit::Share);
    facts.count("files.journal_writes", files.writes_of(Content::FsJournal));
    facts.count("files.metadata_writes", files.writes_of(Content::FsMetadata));
    facts.count("files.unknown_writes", files.writes_of(Content::Unknown));
    let written: u64 = files.contents.iter().map(|row| row.write_bytes).sum();
    let metadata = files
        .contents
        .iter()
        .filter(|row| row.content == Content::FsMetadata.name())
        .map(|row| row.write_bytes);
    facts.put("files.metadata_write_share", share(metadata.sum(), written), Unit::Share);
    let is_log = |path: &String| path.contains(SYSTEM_LOG);
    let logs = files.files.iter().filter(|row| row.path.as_ref().is_some_and(is_log));
    facts.put(
        "files.system_log_write_share",
        share(logs.map(|row| row.write_bytes).sum(), written),
        Unit::Share,
    );
    let mut folders: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &files.files {
        if let Some(folder) = row.path.as_deref().and_then(log_folder) {
            *folders.entry(folder).or_default() += row.write_bytes;
        }
    }
    let most = folders.into_iter().max_by_key(|(_, bytes)| *bytes);
    facts.put("files.log_write_share", share(most.map_or(0, |(_, bytes)| bytes), written), Unit::Share);
    if let Some((folder, _)) = most {
        facts.word("files.log_folder", folder);
    }
}

/// The folder of logs that a file of a program other than journald lies in, such as `/var/log`.
fn log_folder(path: &str) -> Option<&str> {
    let ends = ["/log/", "/logs/"].iter().filter_map(|name| path.find(name).map(|at| at + name.len() - 1));
    ends.min().map(|end| &path[..end]).filter(|_| path.starts_with('/') && !path.contains(SYSTEM_LOG))
}

/// In the paths of journald's files.
const SYSTEM_LOG: &str = "/log/journal/";

/// The name for requests whose thread the source does not show.
const UNKNOWN_PROCESS: &str = "(unknown)";

/// Adds the figures for the time that programs may have waited, and for the kind of device.
fn of_outstanding(facts: &mut Facts, analysis: &Analysis) {
    let outstanding = &analysis.outstanding;
    facts.put("outstanding.timed_share", share(outstanding.timed, outstanding.requests), Unit::Share);
    facts.count("outstanding.timed", outstanding.timed);
    if let Some(waited) = &outstanding.waited {
        facts.put("outstanding.waited", waited.share, Unit::Share);
    }
    for row in &outstanding.groups {
        let name = row.group.name();
        facts.put(format!("outstanding.{name}"), row.time.share, Unit::Share);
        facts.put(format!("outstanding.{name}_of_waited"), row.of_waited_share, Unit::Share);
    }
    if let Some(response) = &outstanding.response_ns {
        facts.distribution("outstanding.response", response, Unit::Ns);
    }
    facts.put("outstanding.queue_share", outstanding.queue_share, Unit::Share);
    if outstanding.timed > 0 && outstanding.counted_from_issue == outstanding.timed {
        facts.word("source.service_only", "service time; the recording does not show queueing");
    }
    if analysis.latency.groups.iter().any(|row| row.group == Group::WriteUnknown) {
        facts.word("source.sync_unknown", "the recording does not show which writes are synchronous");
    }
    if outstanding.timed > 0 {
        facts.count("long.count", outstanding.long.count);
        facts.count("long.background", outstanding.long.background);
        let count = Unit::Count.format(outstanding.long.count as f64);
        // Lost events may have hidden more long waits.
        let least = if analysis.validity.has_loss() { "at least " } else { "" };
        match outstanding.long.count {
            0 => {}
            1 => facts.word("long.requests", &format!("{least}1 request")),
            _ => facts.word("long.requests", &format!("{least}{count} requests")),
        }
    }
    if let Some(longest) = outstanding.long.longest.first() {
        facts.put("long.longest", longest.response_ns.or(longest.service_ns).map(|ns| ns as f64), Unit::Ns);
        facts.put("long.at", longest.at_ns as f64, Unit::Ns);
        facts.word("long.op", longest.class.one());
        let process = analysis.processes.processes.get(longest.process as usize);
        if let Some(process) = process.filter(|process| process.name != UNKNOWN_PROCESS) {
            facts.word("long.process", &process.full_name());
        }
        if let Some(device) = analysis.devices.get(longest.device as usize) {
            facts.word("long.device", device.name.as_ref().unwrap_or(&device.device));
        }
    }
    let requests = |which: fn(&DeviceInfo) -> bool| {
        let devices = analysis.devices.iter().filter(|device| which(device));
        share(devices.map(|device| device.requests).sum(), analysis.totals.requests)
    };
    // Devices known to rotate. A device of unknown kind counts as flash, fonio's subject.
    facts.put("devices.rotating_share", requests(|device| device.rotational == Some(true)), Unit::Share);
    facts.put("devices.loop_share", requests(|device| device.device.starts_with(LOOP_MAJOR)), Unit::Share);
}

/// The major number of loop devices (`Documentation/admin-guide/devices.txt`).
const LOOP_MAJOR: &str = "7:";

fn of_machine(facts: &mut Facts, analysis: &Analysis) {
    let machine = &analysis.machine;
    facts.count("machine.samples", machine.samples);
    if let Some(cpu) = &machine.cpu {
        facts.put("cpu.active_share", cpu.active_share, Unit::Share);
        facts.put("cpu.iowait_share", cpu.iowait_share, Unit::Share);
        facts.put("cpu.iowait_of_not_idle_share", cpu.iowait_of_not_idle_share, Unit::Share);
        facts.put("cpu.busiest_share", cpu.busiest_share, Unit::Share);
    }
    if let Some(memory) = &machine.memory {
        facts.put("memory.available_min_share", memory.available_min_share, Unit::Share);
        facts.put("memory.available_min", memory.available_min_bytes.map(|bytes| bytes as f64), Unit::Bytes);
        facts.put("memory.swap_pages_per_s", memory.swap_pages_per_s, Unit::PerS);
        facts.put("memory.major_faults_per_s", memory.major_faults_per_s, Unit::PerS);
    }
    for pressure in &machine.pressure {
        facts.put(format!("pressure.{}.some", pressure.resource), pressure.some_share, Unit::Share);
        facts.put(format!("pressure.{}.full", pressure.resource), pressure.full_share, Unit::Share);
    }
    if let Some(hottest) = machine.temperature.iter().rev().max_by_key(|zone| zone.max_millicelsius) {
        facts.word("temperature.zone", &hottest.zone);
        facts.put("temperature.max", hottest.max_millicelsius as f64, Unit::Millicelsius);
    }
    if let Some(frequency) = &machine.frequency {
        facts.put("frequency.capped_to", frequency.capped_to_share, Unit::Share);
    }
    // A link's load is known only if its speed is known.
    let busiest = machine.network.iter().rev().filter_map(|network| Some((network.link_share?, network)));
    if let Some((link_share, busiest)) = busiest.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        facts.word("network.interface", &busiest.interface);
        facts.put("network.link_share", link_share, Unit::Share);
        facts.put("network.link", busiest.link_bytes_per_s.map(|speed| speed as f64), Unit::BytesPerS);
        let rates = [busiest.receive_bytes_per_s, busiest.transmit_bytes_per_s].into_iter().flatten();
        facts.put("network.bytes_per_s", rates.max_by(f64::total_cmp), Unit::BytesPerS);
    }
}

/// Adds the figures of each process, device, thermal zone and network interface; the name stands in brackets.
fn of_parts(facts: &mut Facts, analysis: &Analysis) {
    for (index, process) in analysis.processes.processes.iter().enumerate() {
        let name = format!("process[{}]", process.name);
        facts.count(format!("{name}.requests"), process.requests);
        facts.count(format!("{name}.reads"), process.reads);
        facts.count(format!("{name}.writes"), process.writes);
        facts.count(format!("{name}.sync_writes"), process.sync_writes);
        facts.count(format!("{name}.flushes"), process.flushes);
        facts.put(format!("{name}.read_bytes"), process.read_bytes as f64, Unit::Bytes);
        facts.put(format!("{name}.write_bytes"), process.write_bytes as f64, Unit::Bytes);
        facts.put(format!("{name}.latency_share"), process.latency_share, Unit::Share);
        facts.put(format!("{name}.service_max"), process.service_max_ns.map(|ns| ns as f64), Unit::Ns);
        let delay = analysis.outstanding.processes.iter().find(|delay| delay.process as usize == index);
        if let Some(delay) = delay {
            facts.put(format!("{name}.delay"), delay.time.ns as f64, Unit::Ns);
            facts.put(format!("{name}.delay_share"), delay.of_waited_share, Unit::Share);
            facts.count(format!("{name}.long"), delay.long);
        }
    }
    for (index, device) in analysis.devices.iter().enumerate() {
        let name = format!("device[{}]", device.name.as_ref().unwrap_or(&device.device));
        facts.count(format!("{name}.requests"), device.requests);
        let share = analysis.io_share.devices.iter().find(|share| share.device as usize == index);
        if let Some(share) = share {
            facts.put(format!("{name}.busy_union"), share.share.busy_union_share, Unit::Share);
            facts.put(format!("{name}.busy_time"), share.share.busy_union_ns as f64, Unit::Ns);
        }
        let depth = analysis.queueing.devices.iter().find(|depth| depth.device as usize == index);
        if let Some(depth) = depth {
            facts.put(format!("{name}.mean_depth"), depth.mean_depth, Unit::Number);
            facts.put(format!("{name}.mean_depth_when_busy"), depth.mean_depth_when_busy, Unit::Number);
            facts.count(format!("{name}.max_depth"), depth.max_depth);
            facts.put(format!("{name}.busy_per_request"), depth.busy_per_request_ns, Unit::Ns);
        }
    }
    for zone in &analysis.machine.temperature {
        let name = format!("temperature[{}].max", zone.zone);
        facts.put(name, zone.max_millicelsius as f64, Unit::Millicelsius);
    }
    for network in &analysis.machine.network {
        let name = format!("network[{}]", network.interface);
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        facts.put(format!("{name}.receive_bytes"), bytes(network.receive_bytes), Unit::Bytes);
        facts.put(format!("{name}.transmit_bytes"), bytes(network.transmit_bytes), Unit::Bytes);
        facts.put(format!("{name}.link_share"), network.link_share, Unit::Share);
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    crate::seen::ratio(part, whole)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_folder_of_logs_is_known_by_its_name() {
        for (path, expected) in [
            ("/var/log/nginx/access.log", Some("/var/log")),
            ("/home/a/logs/b/log/c", Some("/home/a/logs")),
            ("/var/log/journal/1/system.journal", None),
            ("/var/lib/logstash/x", None),
            ("/log", None),
            ("var/log/x", None),
        ] {
            assert_eq!(log_folder(path), expected, "{path}");
        }
    }

    /// The names of the figures and words of a recording that has everything.
    pub(crate) fn names_of_everything() -> BTreeSet<String> {
        use crate::analyser::tests::{analyse_rows, everything, request};
        // Some words name values that a recording does not show.
        let mut bare = request(0, "W 0+8 d0 c10");
        bare.flags_known = fonio_core::Flags::NONE;
        let bare = analyse_rows(&[bare], &fonio_core::Meta::default());
        let words = [everything(0), everything(60_000), bare].map(|analysis| facts(&analysis).words);
        figures_of_everything().into_iter().chain(words.into_iter().flat_map(BTreeMap::into_keys)).collect()
    }

    /// The names of the figures alone.
    pub(crate) fn figures_of_everything() -> BTreeSet<String> {
        use crate::analyser::tests::everything;
        [everything(0), everything(60_000)]
            .iter()
            .flat_map(|analysis| facts(analysis).figures.into_keys())
            .collect()
    }

    /// Checks `docs/figures.md`; `UPDATE_EXPECT=1 cargo test` regenerates it.
    #[test]
    fn the_published_list_is_up_to_date() {
        use crate::analyser::tests::everything;
        const INTRODUCTION: &str = "\
# Figures

The names that `--budget` takes. `fonio report RECORDING --figures` prints them with their values. A figure that the
recording does not show is *unknown*.

- `NAME` is the name of a process, device, thermal zone or network interface, or the path of a database.
- `STATISTIC` is `count`, `mean`, `min`, `p50` (median), `p80`, `p90`, `p95`, `p99`, `p999` (99.9th percentile), `p9999`,
  `max`, `sum` or `p999_over_p50`. The unit is that of the values; `count` is a number, `p999_over_p50` a ratio.
- \"Better\" is the direction that `fonio compare` calls an improvement.

| name | meaning | unit | better |
|---|---|---|---|
";
        let mut all: BTreeMap<String, Figure> = BTreeMap::new();
        for analysis in [everything(0), everything(60_000)] {
            let figures = facts(&analysis).figures;
            for figure in figures.values() {
                // One subject represents all subjects, and the median represents all statistics of a distribution.
                let name = match (figure.name.split_once('['), figure.name.rsplit_once('.')) {
                    (Some((area, _)), Some((_, part))) => format!("{area}[NAME].{part}"),
                    (None, Some((of, "p50"))) => format!("{of}.STATISTIC"),
                    (None, Some((of, _))) if figures.contains_key(&format!("{of}.p50")) => continue,
                    _ => figure.name.clone(),
                };
                all.entry(name).or_insert_with(|| figure.clone());
            }
        }
        let mut text = INTRODUCTION.to_owned();
        for (name, figure) in &all {
            let meaning = match name.strip_suffix(".STATISTIC") {
                Some(_) => figure.label.trim_end_matches(", median").to_owned(),
                None => label(name).replace("NAME, ", ""),
            };
            let unit = serde_json::to_value(figure.unit).unwrap();
            let better = match figure.better {
                None => "",
                Some(Better::Lower) => "lower",
                Some(Better::Higher) => "higher",
            };
            text += &format!("| `{name}` | {meaning} | {} | {better} |\n", unit.as_str().unwrap());
        }
        expect_test::expect_file!["../../../../docs/figures.md"].assert_eq(&text);
    }
}
