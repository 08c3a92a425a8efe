//! Collects the figures and words of an analysis, from individual answers and from combinations of answers.

use fonio_core::ByteCount;

use super::{device_facts, fixes, storage, victim};
use crate::analyser::questions::Analysis;
use crate::device::info::DeviceInfo;
use crate::figures::Figure;
use crate::figures::facts::Facts;
use crate::filter::FilterOptions;
use crate::question::ratio::ratio;

impl Analysis {
    /// Returns all figures by name, for the groups, processes and devices in the recording.
    pub fn figures(&self) -> Vec<Figure> {
        facts(self).figures.into_values().collect()
    }
}

pub(crate) fn facts(analysis: &Analysis) -> Facts {
    let mut facts = Facts::default();
    analysis.figures_of_questions(&mut facts);
    of_recording(&mut facts, analysis);
    of_devices(&mut facts, analysis);
    storage::put(&mut facts, analysis);
    victim::put(&mut facts, analysis);
    device_facts::put(&mut facts, analysis);
    fixes::put(&mut facts, analysis);
    facts
}

fn of_recording(facts: &mut Facts, analysis: &Analysis) {
    facts.count("command.recorded", "a command was recorded", u64::from(analysis.has_command));
    facts.amount("span.duration", "length of the recording", analysis.span.duration_ns);
    let is_sampled = analysis.blocked.as_ref().is_some_and(|blocked| blocked.is_sampled);
    facts.count("source.requests", "the source shows requests", u64::from(!is_sampled));
    let is_foreign = analysis.validity.is_foreign && analysis.launch.is_none();
    facts.count("source.foreign", "another tool made the recording", u64::from(is_foreign));
    let is_totals = u64::from(analysis.validity.is_totals_only);
    facts.count("source.totals", "the source has only totals of devices", is_totals);
    let has_waits = analysis.blocked.as_ref().is_some_and(|blocked| !blocked.programs.is_empty());
    let is_small = analysis.totals.requests < FEW_REQUESTS && !has_waits;
    facts.count("source.small", "few requests and no waits", u64::from(is_small));
    if analysis.totals.requests == 0 {
        facts.word("totals.none", "no request reached a device");
    }
    // A page has 4 KiB on nearly all machines.
    let refaults = analysis.machine.memory.as_ref().and_then(|memory| memory.refault_pages);
    let share = refaults.and_then(|pages| ratio(ByteCount(pages * 4096), analysis.totals.read_bytes));
    let label = "bytes of file pages read again after an eviction, share of the bytes read";
    facts.share("memory.refault_of_read_share", label, share);
    put_memory(facts);
    let share = analysis.command_cpu_ns.and_then(|time| ratio(time, analysis.span.duration_ns));
    facts.share("command.cpu_share", "processor time of the command, share of the recording", share);
    let filter = analysis.filter.as_ref();
    let is_present = filter.is_some_and(|filter| !filter.is_empty());
    facts.count("filter.present", "a filter is set", u64::from(is_present));
    let is_partial = filter.is_some_and(FilterOptions::is_partial);
    facts.count("filter.partial", "the filter leaves requests out", u64::from(is_partial));
}

/// Swapped pages per second, share of time in which tasks stalled for memory, and shares of available memory, by
/// which memory is short (our choices).
const SWAPPED_FROM: f64 = 100.0;
const STALLED_FROM: f64 = 0.1;
const SHORT_BELOW: f64 = 0.05;
const FREE_FROM: f64 = 0.2;

/// Adds whether the machine's memory is short. If tasks stall for memory while much of it is available, only a
/// control group has too little.
fn put_memory(facts: &mut Facts) {
    let value = |name: &str| facts.value(name);
    let available = value("memory.available_min_share");
    let is_free = available.is_some_and(|share| share >= FREE_FROM);
    let stalls = value("pressure.memory.some").is_some_and(|share| share >= STALLED_FROM);
    let swaps = value("memory.swap_pages_per_s").is_some_and(|rate| rate >= SWAPPED_FROM);
    let is_short = swaps || available.is_some_and(|share| share <= SHORT_BELOW) || (stalls && !is_free);
    facts.count("memory.short", "the machine's memory is short", u64::from(is_short));
    let is_limited = stalls && is_free && !swaps;
    facts.count("memory.group_limited", "a control group has too little memory", u64::from(is_limited));
}

/// With fewer requests and without waits, a trace allows no verdict.
const FEW_REQUESTS: u64 = 10;

/// The major number of loop devices (`Documentation/admin-guide/devices.txt`).
const LOOP_MAJOR: &str = "7:";

fn of_devices(facts: &mut Facts, analysis: &Analysis) {
    let requests = |which: fn(&DeviceInfo) -> bool| {
        let devices = analysis.devices.iter().filter(|device| which(device));
        ratio(devices.map(|device| device.requests).sum(), analysis.totals.requests)
    };
    // The share includes only devices that are known to be rotating disks. A device of unknown kind is
    // treated as flash.
    let share = requests(|device| device.rotational == Some(true));
    facts.share("devices.rotating_share", "requests to rotating disks, share", share);
    let share = requests(|device| device.device.starts_with(LOOP_MAJOR));
    facts.share("devices.loop_share", "requests to loop devices, share", share);
    for device in &analysis.devices {
        let shown = device.shown();
        facts.count(format!("device[{shown}].requests"), format!("{shown}, requests"), device.requests);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::analyser::tests::{analyse_rows, everything, request};
    use fonio_core::Better;

    #[test]
    fn every_figure_has_a_label_of_its_own() {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for figure in all_analyses().into_iter().flat_map(|analysis| analysis.figures()) {
            let Figure { name, label, .. } = figure;
            assert!(label != name && !label.contains('_'), "{name} has no label");
            if let Some(other) = seen.insert(label.clone(), name.clone()).filter(|other| *other != name) {
                panic!("the figures {name} and {other} have the same label {label:?}");
            }
        }
        assert!(seen.len() > 200, "{} figures", seen.len());
    }

    /// Returns analyses in which all figures are known.
    fn all_analyses() -> [Analysis; 5] {
        [
            everything(0),
            everything(60_000),
            crate::waits::uninterruptible::tests::example(),
            crate::requests::histograms::tests::example(),
            crate::waits::slow_calls::tests::example(),
        ]
    }

    /// Returns the names of all figures and words, taken from the analysis of a recording in which all
    /// figures and words are known.
    pub(crate) fn names_of_everything() -> BTreeSet<String> {
        // Some words exist only if the recording lacks certain values.
        let mut bare = request(0, "W 0+8 d0 c10");
        bare.flags_known = fonio_core::Flags::NONE;
        let bare = analyse_rows(&[bare], &fonio_core::Meta::default());
        let mut idle = fonio_core::Meta::default();
        idle.source.format = "tracefs".to_owned();
        let idle = analyse_rows(&[], &idle);
        let all = all_analyses().into_iter().chain([bare, idle]).map(|analysis| facts(&analysis));
        all.flat_map(|facts| facts.figures.into_keys().chain(facts.words.into_keys())).collect()
    }

    pub(crate) fn figures_of_everything() -> BTreeSet<String> {
        all_analyses().iter().flat_map(|analysis| facts(analysis).figures.into_keys()).collect()
    }

    /// Checks that `docs/figures.md` is up to date; `UPDATE_EXPECT=1 cargo test` regenerates it.
    #[test]
    fn the_published_list_is_up_to_date() {
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
        for analysis in all_analyses() {
            let figures = facts(&analysis).figures;
            for figure in figures.values() {
                // For brevity, list one subject instead of all subjects, and the median instead of all
                // statistics of a distribution.
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
            // The label of a figure begins with the name of its subject.
            let subject = figure.name.split_once('[').and_then(|(_, rest)| Some(rest.rsplit_once(']')?.0));
            let meaning = match (name.strip_suffix(".STATISTIC"), subject) {
                (Some(_), _) => figure.label.trim_end_matches(", median"),
                (None, Some(subject)) => figure.label[subject.len()..].trim_start_matches(", "),
                (None, None) => &figure.label,
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
