//! Creates the start and end of a report: verdict, main numbers, findings, provenance.

use fonio_analysis::verdict::{Finding, Severity};
use fonio_analysis::{DeviceInfo, Group, SpanSource};
use fonio_core::meta::Device;
use fonio_core::{DeviceId, Unit};

use super::About;
use crate::document::{Card, Cell, Fact, Tone, Verdict};

/// The major number of loop devices (`Documentation/admin-guide/devices.txt`).
const LOOP_MAJOR: u32 = 7;

/// The highest number of layers of a disk that are shown.
const LAYERS_MAX: usize = 6;

pub fn title(about: &About<'_>) -> String {
    let meta = about.meta;
    match (&meta.command, meta.source.files.as_slice()) {
        (Some(command), _) if !command.is_empty() => command.join(" "),
        (_, [file]) => file.clone(),
        (_, [file, others @ ..]) => format!("{file} and {} more", others.len()),
        _ => meta.host.name.clone().unwrap_or_else(|| "Recording".to_owned()),
    }
}

pub fn subtitle(about: &About<'_>) -> String {
    let host = &about.meta.host;
    let mut parts: Vec<String> = host.model.iter().chain(&host.name).take(1).cloned().collect();
    parts.extend(disks(&about.analysis.devices, &about.meta.devices).into_iter().take(3));
    parts.extend(length(about).map(|seconds| Unit::S.format(seconds)));
    // If no command was recorded, the title is the host name, so the subtitle omits it.
    parts.retain(|part| *part != title(about));
    parts.join(" · ")
}

/// Returns the length of the recording in seconds; `None` if no time is known, as in a histogram or a text without a line.
fn length(about: &About<'_>) -> Option<f64> {
    Some(about.length_s()).filter(|seconds| *seconds > 0.0)
}

/// Returns the disks of a recording. Layers of one disk are shown together, the highest layer first, such as
/// "dm-0 over mmcblk0 (SD32G)". `known` are the devices of the recording's metadata; layers without requests of
/// their own, such as LVM and LUKS, are only there.
fn disks(devices: &[DeviceInfo], known: &[Device]) -> Vec<String> {
    let is_below_another =
        |id: &str| devices.iter().any(|device| device.below.iter().any(|below| below == id));
    let tops = devices.iter().filter(|device| !is_below_another(&device.device));
    tops.map(|top| {
        let mut layers: Vec<String> = Vec::new();
        let mut at = Some(top);
        while let Some(device) = at {
            let name = match (&device.name, &device.model) {
                (Some(name), Some(model)) => format!("{name} ({model})"),
                (Some(name), None) => name.clone(),
                (None, _) => device.device.clone(),
            };
            layers.push(name);
            // A damaged recording can name a device as a layer of itself.
            let next = devices.iter().find(|other| device.below.contains(&other.device));
            at = next.filter(|_| layers.len() < LAYERS_MAX);
        }
        let has_requests = |id: &str| devices.iter().any(|device| device.device == id);
        let mut lowest = top.device.clone();
        while layers.len() < LAYERS_MAX {
            let above: Vec<&Device> = known
                .iter()
                .filter(|other| other.below.iter().any(|id| id.to_string() == lowest))
                .filter(|other| !has_requests(&other.id.to_string()))
                .collect();
            let name = |other: &&Device| other.name.clone().unwrap_or_else(|| other.id.to_string());
            let names: Vec<String> = above.iter().map(name).collect();
            if names.is_empty() {
                break;
            }
            layers.insert(0, super::listed(&names));
            let [only] = above.as_slice() else { break };
            lowest = only.id.to_string();
        }
        layers.join(" over ")
    })
    .collect()
}

pub fn verdict(about: &About<'_>) -> Verdict {
    let analysis = about.analysis;
    let tone = match analysis.verdict_severity {
        // If requests were filtered out, the remaining requests cannot show that storage is fine.
        Severity::Note | Severity::Low if analysis.verdict_id == "filtered-light" => Tone::Plain,
        // A finding that is only informative does not change a good verdict.
        Severity::Note | Severity::Low => Tone::Good,
        severity => severity_tone(severity),
    };
    let mut reasons = Vec::new();
    if analysis.filter.as_ref().is_some_and(|filter| !filter.is_empty()) {
        reasons.push("Only requests that pass the filter are analysed.".to_owned());
    }
    if !analysis.validity.ok {
        reasons.push("Do not rely on this measurement.".to_owned());
        reasons.extend(analysis.validity.problems.iter().cloned());
    }
    // The last section of the report lists all these remarks.
    reasons.extend(analysis.validity.input.first().cloned());
    Verdict { tone, sentence: analysis.verdict.clone(), reasons }
}

fn severity_tone(severity: Severity) -> Tone {
    match severity {
        Severity::Note | Severity::Low => Tone::Plain,
        Severity::Medium => Tone::Notice,
        Severity::High | Severity::Critical => Tone::Bad,
    }
}

pub fn facts(about: &About<'_>) -> Vec<Fact> {
    let analysis = about.analysis;
    let totals = &analysis.totals;
    let length = length(about).map_or(Cell::Unknown, |seconds| Cell::Number(seconds, Unit::S));
    let recorded = Fact::new("Recorded", length).note(match analysis.span.source {
        SpanSource::Recording => "",
        SpanSource::Filter => "the filter's range",
        SpanSource::Requests => "first to last request; the recording may have been longer",
    });
    let mut facts = vec![recorded];
    let of_scheduler = analysis.uninterruptible.as_ref().filter(|_| about.is_scheduler_only());
    if let Some(answer) = &analysis.slow_calls {
        facts.extend(super::slow_calls::facts(answer));
    } else if about.is_sampled() || about.has_only_totals() {
        facts.extend(busiest_disk(about));
        facts.extend(super::histograms::facts(&analysis.latency_histograms));
    } else if let Some(answer) = of_scheduler {
        facts.extend(super::uninterruptible::facts(answer));
    } else {
        facts.extend([
            Fact::new("Requests", Cell::count(totals.requests, Unit::Count))
                .note(rate_note(totals.requests_per_s, Unit::PerS)),
            Fact::new("Read", totals.read_bytes).note(rate_note(totals.read_bytes_per_s, Unit::BytesPerS)),
            Fact::new("Written", totals.write_bytes)
                .note(rate_note(totals.write_bytes_per_s, Unit::BytesPerS)),
        ]);
    }
    facts.extend(super::blocked::facts(analysis));
    if let (Some(waited), None) = (&analysis.outstanding.waited, &analysis.blocked)
        && !about.is_scheduler_only()
    {
        facts.push(
            Fact::new("In demand", Cell::Number(waited.share, Unit::Share))
                .note("of the time: a read, synchronous write or flush was outstanding"),
        );
    }
    let lead = about.lead();
    // Show the requests that programs may wait for, if the source distinguishes them; otherwise, all
    // requests.
    let waited = [Group::WriteSync, Group::Read, Group::Writes, Group::Reads];
    let rows =
        waited.iter().filter_map(|group| analysis.latency.groups.iter().find(|row| row.group == *group));
    for row in rows.take(2) {
        let times = lead.pick(row.response_ns.as_ref(), row.service_ns.as_ref());
        let quantile = times.and_then(|times| {
            times.p99.map(|value| ("99 % within", value)).or(times.p50.map(|value| ("half within", value)))
        });
        if let Some((quantile, value)) = quantile {
            let label = super::sentence_case(super::group_name(row.group));
            let note = lead.pick("", "; service, queueing not recorded");
            facts.push(Fact::new(&label, Cell::count(value, Unit::Ns)).note(format!("{quantile}{note}")));
        }
    }
    let long = &analysis.outstanding.long;
    if let Some(longest) = long.longest.first().filter(|_| analysis.blocked.is_none()) {
        let took = longest.response_ns.or(longest.service_ns).unwrap_or_default();
        facts.push(
            Fact::new("Long waits", Cell::count(long.count, Unit::Count))
                .note(format!("of {} or longer; the slowest {}", long.threshold_ns, took)),
        );
    }
    if analysis.flushes.flushes > 0 {
        facts.push(
            Fact::new("Flushes", Cell::count(analysis.flushes.flushes, Unit::Count))
                .note(rate_note(analysis.flushes.flushes_per_s, Unit::PerS)),
        );
    }
    facts
}

/// Returns the disk that was busiest according to the kernel's counters.
fn busiest_disk(about: &About<'_>) -> Option<Fact> {
    let disks = about.analysis.machine.disks.iter().filter(|disk| disk.busy_share.is_some());
    let disk =
        disks.max_by(|a, b| a.busy_share.partial_cmp(&b.busy_share).unwrap_or(std::cmp::Ordering::Equal))?;
    let moved = format!(
        "of the time ({}; {} read, {} written)",
        disk.name,
        Cell::from(disk.read_bytes).text(),
        Cell::from(disk.write_bytes).text()
    );
    Some(Fact::new("Busiest disk", Cell::known(disk.busy_share, Unit::Share)).note(moved))
}

fn rate_note(rate: Option<f64>, unit: Unit) -> String {
    rate.map(|rate| unit.format(rate)).unwrap_or_default()
}

pub fn findings(about: &About<'_>) -> Vec<Card> {
    about.analysis.findings.iter().map(card).collect()
}

fn card(finding: &Finding) -> Card {
    let fact =
        |figure: &fonio_analysis::Figure| Fact::new(&figure.label, Cell::known(figure.value, figure.unit));
    let evidence = finding.evidence.iter().map(fact);
    Card {
        id: finding.id.clone(),
        tone: severity_tone(finding.severity),
        headline: finding.sentence.clone(),
        evidence: evidence.collect(),
        consequence: finding.consequence.clone(),
        remedies: finding.fixes.clone(),
        source: if finding.source == "ours" { String::new() } else { finding.source.clone() },
    }
}

pub fn provenance(about: &About<'_>) -> Vec<Fact> {
    let meta = about.meta;
    let mut facts = Vec::new();
    let mut text = |label: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push(Fact::new(label, Cell::Name(value)));
        }
    };
    // The trace does not name the tool that recorded it.
    let live = meta.source.format.is_empty() || meta.source.format == "tracefs";
    text(if live { "Recorded by" } else { "Imported by" }, Some(meta.writer.clone()));
    text("Reported by", Some(format!("fonio {}", env!("CARGO_PKG_VERSION"))));
    text("Source", Some(meta.source.format.clone()));
    text("Files", Some(meta.source.files.join(", ")));
    text("Source shows", Some(meta.source.shows.join(", ")));
    text("Clock", Some(meta.clock.name.clone()));
    text("Command", meta.command.as_ref().map(|command| command.join(" ")));
    text("Command's exit code", meta.command_exit.map(|code| code.to_string()));
    text("Seed", meta.seed.map(|seed| seed.to_string()));
    text("Machine", meta.host.model.clone());
    text("Host name", meta.host.name.clone());
    text("Kernel", meta.host.kernel.clone());
    text("Architecture", meta.host.architecture.clone());
    text("Processors", meta.host.processors.map(|count| count.to_string()));
    text("Memory", meta.host.memory_bytes.map(|bytes| bytes.to_string()));
    for device in &meta.devices {
        let name = device.name.clone().unwrap_or_else(|| device.id.to_string());
        text(&format!("Device {name}"), Some(describe(device, &meta.devices)));
    }
    let lost = match meta.lost.total() {
        Some(events) => Cell::count(events, Unit::Count),
        None if meta.lost.events == 0 => Cell::words("an unknown number"),
        None => Cell::AtLeast(meta.lost.events as f64, Unit::Count),
    };
    facts.push(Fact::new("Lost events", lost));
    facts
}

/// Describes a device in one line: name, scheduler and queue, mounts. `all` are the devices of the recording.
fn describe(device: &Device, all: &[Device]) -> String {
    let mut parts: Vec<String> = device.model.iter().cloned().collect();
    // A loop device has its own requests; other mapped devices do not.
    if !device.below.is_empty() && device.id.major() != LOOP_MAJOR {
        let name = |id: &DeviceId| {
            let known = all.iter().find(|device| device.id == *id);
            known.and_then(|device| device.name.clone()).unwrap_or_else(|| id.to_string())
        };
        let names: Vec<String> = device.below.iter().map(name).collect();
        parts.push(format!(
            "mapped to {}: its requests are issued and counted only there",
            names.join(" and ")
        ));
    }
    parts.extend(device.size_bytes.map(|bytes| bytes.to_string()));
    parts.extend(device.scheduler.as_ref().map(|scheduler| format!("scheduler {scheduler}")));
    parts.extend(device.depth.map(|depth| format!("depth {depth}")));
    parts.extend(device.write_cache.as_ref().map(|cache| format!("write cache: {cache}")));
    parts.extend(device.fua.map(|fua| if fua { "FUA".to_owned() } else { "no FUA".to_owned() }));
    parts.extend(device.encrypted.filter(|encrypted| *encrypted).map(|_| "encrypted".to_owned()));
    for mount in &device.mounts {
        parts.push(format!("{} on {} ({})", mount.fs, mount.at, mount.options.join(",")));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_requests(id: &str, name: &str, below: &[&str]) -> DeviceInfo {
        let mut device = DeviceInfo::default();
        device.device = id.to_owned();
        device.name = Some(name.to_owned());
        device.below = below.iter().map(|id| (*id).to_owned()).collect();
        device
    }

    fn known(id: DeviceId, name: &str, below: &[DeviceId]) -> Device {
        Device { id, name: Some(name.to_owned()), below: below.to_vec(), ..Device::default() }
    }

    #[test]
    fn the_layers_of_a_disk_are_shown_together() {
        let (card, crypt, volume) = (DeviceId::new(179, 0), DeviceId::new(253, 0), DeviceId::new(253, 1));
        let all =
            [known(card, "mmcblk0", &[]), known(crypt, "dm-0", &[card]), known(volume, "dm-1", &[crypt])];
        let mut only_card = with_requests("179:0", "mmcblk0", &[]);
        only_card.model = Some("SD32G".to_owned());
        assert_eq!(disks(&[only_card.clone()], &all), ["dm-1 over dm-0 over mmcblk0 (SD32G)"]);
        let two =
            [known(card, "mmcblk0", &[]), known(crypt, "dm-0", &[card]), known(volume, "dm-1", &[card])];
        assert_eq!(disks(&[only_card.clone()], &two), ["dm-0 and dm-1 over mmcblk0 (SD32G)"]);
        // Loop devices have requests of their own.
        let devices =
            [only_card, with_requests("7:0", "loop0", &["179:0"]), with_requests("8:0", "sda", &[])];
        assert_eq!(disks(&devices, &all[..1]), ["loop0 over mmcblk0 (SD32G)", "sda"]);
    }

    #[test]
    fn a_device_that_is_a_layer_of_itself_does_not_hang() {
        let round = [with_requests("7:0", "loop0", &["7:1"]), with_requests("7:1", "loop1", &["7:1"])];
        assert_eq!(disks(&round, &[])[0].matches(" over ").count(), LAYERS_MAX - 1);
    }
}
