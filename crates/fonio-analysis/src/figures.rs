//! Figures by name: what rules and stated budgets refer to.

use std::collections::BTreeMap;

use fonio_core::Unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Analysis, DeviceInfo, Distribution, Group};

/// A named value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The name: the path in the analysis, shortened (`io_share.busy_union`).
    pub name: String,
    /// The value in its unit.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// The value as a reader wants it, with unit: `1.8 ms`, `23 %`, `64 KiB`.
    pub text: String,
}

impl Figure {
    /// A figure with its text.
    pub fn new(name: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure { name: name.into(), value, unit, text: unit.format(value) }
    }
}

/// Figures and words by name. What is unknown is not in it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) figures: BTreeMap<String, Figure>,
    /// Names that sentences mention: of a process, a zone, an interface.
    pub(crate) words: BTreeMap<String, String>,
}

impl Facts {
    fn put(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>, unit: Unit) {
        if let Some(value) = value.into() {
            let name = name.into();
            self.figures.insert(name.clone(), Figure::new(name, value, unit));
        }
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
        if let (Some(p999), Some(p50)) = (d.p999, d.p50.filter(|p50| *p50 > 0)) {
            self.put(format!("{name}.p999_over_p50"), p999 as f64 / p50 as f64, Unit::Ratio);
        }
    }
}

impl Analysis {
    /// Every figure that is known, by name. The names are stable; budgets and rules refer to them.
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
    of_places(&mut facts, analysis);
    of_waiting(&mut facts, analysis);
    of_machine(&mut facts, analysis);
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
    facts.put("span.duration", analysis.span.duration_ns as f64, Unit::Ns);
    let filter = analysis.filter.as_ref();
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
    facts.put("flushes.writes_per_flush", flushes.writes_per_flush, Unit::Count);
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
        facts.put("io_share.latency_sum", all.latency_sum_share, Unit::Share);
        facts.put("io_share.busy_union", all.busy_union_share, Unit::Share);
    }
    let queueing = &analysis.queueing;
    facts.put("queueing.queue_share", queueing.queue_share_of_response, Unit::Share);
    for row in &queueing.groups {
        facts.distribution(&format!("queueing.{}", row.group.name()), &row.queue_ns, Unit::Ns);
    }
    if let Some(device) =
        queueing.devices.iter().max_by_key(|device| (device.busy_ns, u32::MAX - device.device))
    {
        facts.put("queueing.mean_depth", device.mean_depth, Unit::Count);
        facts.put("queueing.mean_depth_when_busy", device.mean_depth_when_busy, Unit::Count);
        facts.put("queueing.busy_per_request", device.busy_per_request_ns, Unit::Ns);
        facts.count("queueing.max_depth", device.max_depth);
    }
    if let Some(requeues) = &queueing.requeues {
        facts.count("queueing.requeues", requeues.requeues);
        facts.put("queueing.requeued_share", share(requeues.requests, analysis.totals.requests), Unit::Share);
    }
    for (name, slowdown) in [("read", &analysis.interference.read), ("write", &analysis.interference.write)] {
        // Only a comparison at equal depth is worth a figure.
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
        facts.word("process.name", &top.name);
        facts.count("process.requests", top.requests);
        facts.put("process.delay", delay.time.ns as f64, Unit::Ns);
        facts.put("process.delay_share", delay.of_waited_share, Unit::Share);
        facts.count("process.long", delay.long);
        facts.put("process.latency_share", top.latency_share, Unit::Share);
        facts.put("process.write_bytes", top.write_bytes as f64, Unit::Bytes);
    }
}

/// The name of requests whose thread the source does not show.
const UNKNOWN_PROCESS: &str = "(unknown)";

/// How long programs may have waited, and on what kind of device.
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
        // Lost events may have hidden more of them.
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
            facts.word("long.process", &process.name);
        }
        if let Some(device) = analysis.devices.get(longest.device as usize) {
            facts.word("long.device", device.name.as_ref().unwrap_or(&device.device));
        }
    }
    let requests = |which: fn(&DeviceInfo) -> bool| {
        let devices = analysis.devices.iter().filter(|device| which(device));
        share(devices.map(|device| device.requests).sum(), analysis.totals.requests)
    };
    // Known to rotate: what the recording does not show counts as flash, which fonio is for.
    facts.put("devices.rotating_share", requests(|device| device.rotational == Some(true)), Unit::Share);
    facts.put("devices.loop_share", requests(|device| device.device.starts_with(LOOP_MAJOR)), Unit::Share);
}

/// Loop devices' major number (`Documentation/admin-guide/devices.txt`).
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
    // How busy a link is can be said only where its speed is known.
    let busiest = machine.network.iter().rev().filter_map(|network| Some((network.link_share?, network)));
    if let Some((link_share, busiest)) = busiest.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        facts.word("network.interface", &busiest.interface);
        facts.put("network.link_share", link_share, Unit::Share);
        facts.put("network.link", busiest.link_bytes_per_s.map(|speed| speed as f64), Unit::BytesPerS);
        let rates = [busiest.receive_bytes_per_s, busiest.transmit_bytes_per_s].into_iter().flatten();
        facts.put("network.bytes_per_s", rates.max_by(f64::total_cmp), Unit::BytesPerS);
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    crate::seen::ratio(part, whole)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of figures and words of a recording that has everything.
    pub(crate) fn names_of_everything() -> BTreeSet<String> {
        use crate::analyser::tests::{analyse_rows, everything, request};
        // Some words say what a recording does not show.
        let mut bare = request(0, "W 0+8 d0 c10");
        bare.flags_known = fonio_core::Flags::NONE;
        let bare = analyse_rows(&[bare], &fonio_core::Meta::default());
        [everything(0), everything(60_000), bare]
            .iter()
            .map(facts)
            .flat_map(|facts| facts.figures.into_keys().chain(facts.words.into_keys()))
            .collect()
    }
}
