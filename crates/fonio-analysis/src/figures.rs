//! Figures by name: what rules and stated budgets refer to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Analysis, Distribution};

/// What a figure's value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerS,
    /// In a second.
    PerS,
    /// A share of a whole, 1 being all of it.
    Share,
    /// A ratio of two things of the same kind.
    Ratio,
    /// A number of things.
    Count,
    /// Thousandths of a degree Celsius.
    Millicelsius,
}

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
        Figure { name: name.into(), value, unit, text: unit.text(value) }
    }
}

impl Unit {
    /// The value as a reader wants it, three digits long, with unit.
    pub fn text(self, value: f64) -> String {
        let scaled = |steps: &[(f64, &str)]| {
            let (size, name) = steps.iter().rev().find(|(size, _)| value.abs() >= *size).unwrap_or(&steps[0]);
            format!("{} {name}", digits(value / size))
        };
        match self {
            Unit::Ns => scaled(&[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
            Unit::Bytes => scaled(&BINARY),
            Unit::BytesPerS => format!("{}/s", scaled(&BINARY)),
            Unit::PerS => format!("{}/s", digits(value)),
            Unit::Share => format!("{} %", digits(value * 100.0)),
            Unit::Ratio => digits(value),
            Unit::Count => grouped(value),
            Unit::Millicelsius => format!("{} °C", digits(value / 1000.0)),
        }
    }
}

const BINARY: [(f64, &str); 5] =
    [(1.0, "B"), (1024.0, "KiB"), (1048576.0, "MiB"), (1073741824.0, "GiB"), (1099511627776.0, "TiB")];

/// Three digits; none behind the point that say nothing.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        least if least >= 99.95 => 0,
        least if least >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A whole number with its thousands apart; a mean of counts keeps its fraction.
fn grouped(value: f64) -> String {
    if value.fract() != 0.0 && value.abs() < 1000.0 {
        return digits(value);
    }
    let plain = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && digit.is_ascii_digit() && (plain.len() - at) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
        facts.count("queueing.max_depth", device.max_depth);
    }
    if let Some(requeues) = &queueing.requeues {
        facts.count("queueing.requeues", requeues.requeues);
        facts.put("queueing.requeued_share", share(requeues.requests, analysis.totals.requests), Unit::Share);
    }
    for (name, slowdown) in [("read", &analysis.interference.read), ("write", &analysis.interference.write)] {
        // Too few requests on a side give no figure: nobody should build on it.
        if slowdown.enough {
            let name = format!("interference.{name}");
            let side = &slowdown.with;
            facts.count(format!("{name}.with_requests"), side.requests);
            facts.put(
                format!("{name}.slowdown"),
                slowdown.response_slowdown.or(slowdown.service_slowdown),
                Unit::Ratio,
            );
            facts.put(format!("{name}.with_mean"), side.mean_response_ns.or(side.mean_service_ns), Unit::Ns);
            let side = &slowdown.without;
            facts.put(
                format!("{name}.without_mean"),
                side.mean_response_ns.or(side.mean_service_ns),
                Unit::Ns,
            );
        }
    }
    facts.count("processes.count", analysis.processes.processes.len() as u64);
    if let Some(top) = analysis.processes.processes.iter().find(|process| process.name != "(unknown)") {
        facts.word("process.name", &top.name);
        facts.count("process.requests", top.requests);
        facts.put("process.latency_share", top.latency_share, Unit::Share);
        facts.put("process.write_bytes", top.write_bytes as f64, Unit::Bytes);
    }
}

fn of_machine(facts: &mut Facts, analysis: &Analysis) {
    let machine = &analysis.machine;
    facts.count("machine.samples", machine.samples);
    if let Some(cpu) = &machine.cpu {
        facts.put("cpu.active_share", cpu.active_share, Unit::Share);
        facts.put("cpu.iowait_share", cpu.iowait_share, Unit::Share);
        facts.put("cpu.iowait_of_not_idle_share", cpu.iowait_of_not_idle_share, Unit::Share);
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
    let rate = |network: &crate::machine::Network| {
        network.receive_bytes_per_s.unwrap_or(0.0) + network.transmit_bytes_per_s.unwrap_or(0.0)
    };
    if let Some(busiest) = machine.network.iter().rev().max_by(|a, b| rate(a).total_cmp(&rate(b))) {
        facts.word("network.interface", &busiest.interface);
        facts.put("network.bytes_per_s", rate(busiest), Unit::BytesPerS);
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
        let of = |lost_events| {
            let facts = facts(&crate::analyser::tests::everything(lost_events));
            facts.figures.into_keys().chain(facts.words.into_keys())
        };
        of(0).chain(of(60_000)).collect()
    }

    #[test]
    fn texts() {
        for (unit, value, text) in [
            (Unit::Ns, 0.0, "0 ns"),
            (Unit::Ns, 999.0, "999 ns"),
            (Unit::Ns, 1_870_000.0, "1.87 ms"),
            (Unit::Ns, 25_000_000.0, "25 ms"),
            (Unit::Ns, 7.4e12, "7400 s"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::Bytes, 4096.0, "4 KiB"),
            (Unit::Bytes, 1_572_864.0, "1.5 MiB"),
            (Unit::BytesPerS, 1_048_576.0, "1 MiB/s"),
            (Unit::PerS, 12.34, "12.3/s"),
            (Unit::Share, 0.198508, "19.9 %"),
            (Unit::Share, 0.0042, "0.42 %"),
            (Unit::Ratio, 3.0, "3"),
            (Unit::Count, 1_234_567.0, "1,234,567"),
            (Unit::Count, -1234.0, "-1,234"),
            (Unit::Count, 2.5, "2.5"),
            (Unit::Millicelsius, 84_250.0, "84.2 °C"),
        ] {
            assert_eq!(unit.text(value), text);
        }
    }
}
