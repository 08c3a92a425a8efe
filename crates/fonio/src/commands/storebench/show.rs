//! Implements `fonio storebench show`, and creates the report of a result.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use fonio_bench::storebench::results;
use fonio_core::{Better, ByteCount, Unit};
use fonio_report::Document as Report;
use fonio_report::document::{
    Axis, Cell, Chart, Column, Fact, Plot, Role, Scale, Section, Series, Table, Tone, Verdict,
};
use fonio_storebench_document::document::{CapacityCheck, ClassVerdict, Document, Measure, Value};
use fonio_storebench_document::figures::{self, CatalogueFigure, Part};
use fonio_storebench_document::standing;
use fonio_storebench_document::verdict::origin_words;

use crate::cli::Colour;
use crate::cli::storebench::ResultOutput;
use crate::exit::Exit;
use crate::output::{self, Extent};
use crate::server::Server;

pub fn run(
    file: &Path,
    server: Option<&str>,
    all: bool,
    shown: &ResultOutput,
    colour: Colour,
) -> Result<Exit> {
    let result = results::read(file)?;
    if shown.json {
        return output::json(&result);
    }
    let others = match server {
        None => Others::models(&result),
        Some(server) => Others::of_server(&Server::at(server)?, &result)?,
    };
    // An HTML page has enough space for every figure.
    let report = document(&result, &others, all || shown.html.is_some());
    output::show_document(&report, &shown.as_report(), Extent::All, colour)?;
    Ok(Exit::Fine)
}

const LEADING: [&str; 16] = [
    "bandwidth.seq_read",
    "bandwidth.seq_write",
    "bandwidth.rand_read",
    "bandwidth.rand_write",
    "sustained.last",
    "response.rand_read.4k.p50",
    "response.rand_read.4k.p99",
    "response.rand_write.4k.p50",
    "response.rand_write.4k.p99",
    "sync.write.4k.p50",
    "slowdown.rand_read.1x1",
    "slowdown.rand_read.4x4",
    "slowdown.rand_write.1x1",
    "launch.cold.total",
    "launch.warm.total",
    "cpu.iowait",
];

/// The ranks of a result's figures among the figures of other results.
pub struct Others {
    /// A description of the other results, for the column heading.
    words: String,
    /// The percentage of other results that are worse than this result, by figure.
    better_than_percent: BTreeMap<String, f64>,
    /// Notes that explain missing figures.
    notes: Vec<String>,
}

impl Others {
    /// Ranks the result among the models' results that are shipped with fonio.
    pub fn models(result: &Document) -> Others {
        let mut count = 0;
        let percents = figures::catalogue().into_iter().filter_map(|figure| {
            let found = standing::among_models(result, &figure.name)?;
            count = count.max(found.others);
            Some((figure.figure.name, found.better_than_percent))
        });
        let better_than_percent = percents.collect();
        Others { words: format!("{count} models"), better_than_percent, notes: Vec::new() }
    }

    /// Ranks the result among a server's results that have the same key.
    pub fn of_server(server: &Server, result: &Document) -> Result<Others> {
        let key = result.key.to_string();
        let mut others =
            Others { words: String::new(), better_than_percent: BTreeMap::new(), notes: Vec::new() };
        let mut count = 0;
        for name in LEADING {
            let figure = figures::find(name).filter(|figure| figure.better.is_some());
            let (Some(figure), Some(value)) = (figure, result.value(name)) else { continue };
            let Some(ecdf) = server.ecdf(&key, name)? else { continue };
            count = count.max(ecdf.results);
            // The points are sorted by value. The first point not below the value stores the share of smaller
            // values.
            let smaller = match ecdf.points.iter().find(|point| point.value >= value.value) {
                Some(point) => point.share,
                None if ecdf.points.is_empty() => continue,
                None => 1.0,
            };
            let worse = if figure.better == Some(Better::Higher) { smaller } else { 1.0 - smaller };
            others.better_than_percent.insert(name.to_owned(), 100.0 * worse);
        }
        others.words = format!("{count} results");
        others.notes.push(format!("The other results come from {}, with the key {key}.", server.address()));
        if count == 0 {
            others.notes = vec![format!("{} has no results with the key {key} yet.", server.address())];
        }
        Ok(others)
    }
}

/// Returns the report of a result. If `all` is set, the report contains all figures.
pub fn document(result: &Document, others: &Others, all: bool) -> Report {
    let tone =
        if matches!(result.capacity_check, CapacityCheck::Fake { .. }) { Tone::Bad } else { Tone::Plain };
    let sentence = match origin_words(result.origin) {
        Some(words) => format!("{words} {}", result.verdict),
        None => result.verdict.clone(),
    };
    let mut sections = vec![leading(result, others), classes(result)];
    sections.extend(curve(result));
    sections.extend(launches(result));
    if all {
        sections.extend(Part::ALL.into_iter().filter_map(|part| every(result, others, part)));
    }
    Report {
        title: format!("StoreBench of {}", device_words(result)),
        subtitle: format!(
            "{}, {}, {} s",
            if result.key.file_system == "none" { "raw device" } else { &result.key.file_system },
            if result.key.effort == fonio_storebench_document::document::Effort::Quick {
                "quick run"
            } else {
                "full run"
            },
            result.took_s.round()
        ),
        verdict: Verdict { tone, sentence, reasons: reasons(result) },
        opening: sections,
        provenance: provenance(result),
        ..Report::default()
    }
}

/// Returns a short description of the measured device.
pub fn device_words(result: &Document) -> String {
    let device = &result.device;
    let size = output::bytes(ByteCount(device.capacity_bytes));
    match &device.model {
        Some(model) => format!("{} {model}, {size}", device.kind.label()),
        None => format!("{}, {size}", device.kind.label()),
    }
}

fn reasons(result: &Document) -> Vec<String> {
    let mut reasons = Vec::new();
    reasons.push(match &result.capacity_check {
        CapacityCheck::Genuine { checked_bytes, complete } => {
            let where_ = if *complete { "across the complete device" } else { "in the free space" };
            format!(
                "The capacity is genuine as far as checked: {} {where_} were read back correctly.",
                output::bytes(ByteCount(*checked_bytes))
            )
        }
        CapacityCheck::Fake { .. } => return reasons,
        CapacityCheck::NotChecked { reason } => format!("The capacity was not checked: {reason}."),
    });
    let measured: Vec<&Value> = result.figures.values().filter_map(Measure::value).collect();
    let unstable = measured.iter().filter(|value| !value.stable && value.runs > 1).count();
    if unstable > 0 {
        reasons.push(format!(
            "{unstable} of {} figures did not become stable; stop the programs that use the device (`fonio` \
             lists them), and repeat.",
            measured.len()
        ));
    }
    let missing: Vec<&str> = Part::ALL
        .into_iter()
        .filter(|part| *part != Part::Capacity && is_missing(result, *part))
        .map(Part::label)
        .collect();
    if !missing.is_empty() {
        reasons.push(format!("Not measured: {}.", missing.join(", ")));
    }
    reasons.extend(result.notes.iter().cloned());
    reasons
}

fn is_missing(result: &Document, part: Part) -> bool {
    let mut of_part = figures::catalogue().into_iter().filter(|figure| figure.part == part);
    of_part.all(|figure| result.value(&figure.name).is_none())
}

/// Formats a value with half the width of its confidence interval: `12.3 MB/s ± 3 %`.
pub fn with_interval(value: &Value) -> String {
    let text = value.unit.format(value.value);
    // A parameter's confidence interval has integer bounds.
    if value.unit == Unit::Count && value.high > value.value {
        return format!("{text} to {:.0}", value.high);
    }
    let half = (value.high - value.low) / 2.0 / value.value.abs().max(f64::MIN_POSITIVE) * 100.0;
    if value.runs < 2 || value.unit == Unit::Count {
        text
    } else if value.unit == Unit::Percent {
        format!("{text} ± {:.1}", (value.high - value.low) / 2.0)
    } else if half < 10.0 {
        format!("{text} ± {half:.1} %")
    } else {
        format!("{text} ± {half:.0} %")
    }
}

fn columns(others: &Others) -> Vec<Column> {
    vec![
        Column::new("Figure"),
        Column::noted("Value", "Mean of the runs, with half the width of the 95 % confidence interval."),
        Column::noted("Runs", "A figure with ~ did not become stable."),
        Column { label: format!("Better than, of {}", others.words), ..Column::default() },
    ]
}

fn row(result: &Document, figure: &CatalogueFigure, others: &Others) -> Vec<Cell> {
    let (value, runs) = match result.figures.get(&figure.name) {
        Some(Measure::Measured(value)) => {
            let mut text = with_interval(value);
            if figure.name.starts_with("bandwidth.rand") {
                text += &format!(", {:.0} IOPS", value.value * 1e6 / 4096.0);
            }
            (text, format!("{}{}", value.runs, if value.stable || value.runs == 1 { "" } else { " ~" }))
        }
        Some(Measure::NotMeasured(_)) | None => ("not measured".to_owned(), String::new()),
    };
    let standing = match others.better_than_percent.get(&figure.name) {
        Some(percent) => Cell::Bar(percent / 100.0),
        None => Cell::words(""),
    };
    vec![Cell::words(figure.label.clone()), Cell::words(value), Cell::words(runs), standing]
}

/// Returns a sentence for each reason why figures were not measured.
fn missing(result: &Document, figures: &[CatalogueFigure]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for figure in figures {
        let Some(Measure::NotMeasured(reason)) = result.figures.get(&figure.name) else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, labels)) => labels.push(&figure.label),
            None => reasons.push((reason, vec![&figure.label])),
        }
    }
    let sentence = |(reason, labels): (&str, Vec<&str>)| {
        let labels = if labels.len() > 4 { format!("{} figures", labels.len()) } else { labels.join("; ") };
        format!("Not measured, because {reason}: {labels}.")
    };
    reasons.into_iter().map(sentence).collect()
}

fn leading(result: &Document, others: &Others) -> Section {
    let shown: Vec<CatalogueFigure> = LEADING.iter().filter_map(|name| figures::find(name)).collect();
    let rows = shown.iter().map(|figure| row(result, figure, others)).collect();
    let mut notes = missing(result, &shown);
    notes.extend(others.notes.iter().cloned());
    if others.words.ends_with("models") {
        notes.push("The models describe the profiles of fonio, not measured devices.".to_owned());
    }
    Section {
        id: "leading".to_owned(),
        question: "Where does it stand?".to_owned(),
        answer: format!("Its key is {}; only results with equal keys are compared.", result.key),
        tables: vec![Table { columns: columns(others), rows, whole: true, ..Table::default() }],
        notes,
        ..Section::default()
    }
}

fn every(result: &Document, others: &Others, part: Part) -> Option<Section> {
    let shown: Vec<CatalogueFigure> =
        figures::catalogue().into_iter().filter(|figure| figure.part == part).collect();
    let rows: Vec<Vec<Cell>> = shown.iter().map(|figure| row(result, figure, others)).collect();
    (!rows.is_empty()).then(|| Section {
        id: format!("{part:?}").to_lowercase(),
        question: format!("All figures: {}", part.label()),
        answer: String::new(),
        tables: vec![Table { columns: columns(others), rows, whole: true, ..Table::default() }],
        notes: missing(result, &shown),
        ..Section::default()
    })
}

fn classes(result: &Document) -> Section {
    let order = fonio_storebench_document::classes::CLASSES
        .iter()
        .filter_map(|class| Some((class.name, result.classes.get(class.name)?)));
    let rows = order
        .map(|(name, verdict)| {
            let (tone, word, reason) = match verdict {
                ClassVerdict::Met => (Tone::Good, "met", String::new()),
                ClassVerdict::NotMet(reason) => (Tone::Bad, "not met", reason.clone()),
                ClassVerdict::NotMeasured(reason) => (Tone::Plain, "not measured", reason.clone()),
            };
            vec![Cell::words(name), Cell::Judgement(tone, word.to_owned()), Cell::words(reason)]
        })
        .collect();
    Section {
        id: "classes".to_owned(),
        question: "SD classes".to_owned(),
        answer: "The SD standard tests fresh cards at its own queue depth; this is only a comparison."
            .to_owned(),
        tables: vec![Table {
            columns: vec![Column::new("Class"), Column::new("Figures"), Column::new("Because of")],
            rows,
            whole: true,
            ..Table::default()
        }],
        ..Section::default()
    }
}

fn curve(result: &Document) -> Option<Section> {
    let curve = result.sustained_curve.as_ref()?;
    let x: Vec<f64> = (0..curve.mb_s.len()).map(|at| (at as f64 + 0.5) * curve.interval_s).collect();
    let (first, last) = result.value("sustained.first").zip(result.value("sustained.last"))?;
    let rate = |value: &Value| value.unit.format(value.value);
    let fell = match result.value("sustained.fast_bytes") {
        Some(value) => format!("It fell after {}.", Unit::Bytes.format(value.value)),
        None => "It did not fall.".to_owned(),
    };
    Some(Section {
        id: "sustained".to_owned(),
        question: "Rate of a long write".to_owned(),
        answer: format!(
            "The rate was {} at the beginning and {} at the end. {fell}",
            rate(first),
            rate(last)
        ),
        figures: vec![Chart {
            id: "sustained-curve".to_owned(),
            title: "Rate of one long sequential write".to_owned(),
            caption: "A lasting drop means that a cache of faster flash is full.".to_owned(),
            plot: Plot::Line,
            x: Axis { label: "time".to_owned(), unit: Unit::S, scale: Scale::Linear, bounds: None },
            y: Axis { label: "rate".to_owned(), unit: Unit::BytesPerS, scale: Scale::Linear, bounds: None },
            z: None,
            series: vec![Series {
                name: "written".to_owned(),
                role: Role::Write,
                x,
                y: curve.mb_s.iter().map(|rate| rate * 1e6).collect(),
                ..Series::default()
            }],
            marks: Vec::new(),
        }],
        ..Section::default()
    })
}

const APPS_SHOWN: usize = 5;

fn launches(result: &Document) -> Option<Section> {
    if result.launches.is_empty() {
        return None;
    }
    let mut launches = result.launches.clone();
    launches.sort_by(|left, right| right.cold_ms.total_cmp(&left.cold_ms));
    let total = |figure: &str| result.value(figure).map_or_else(|| "unknown".to_owned(), with_interval);
    let rows = launches
        .iter()
        .take(APPS_SHOWN)
        .map(|launch| {
            vec![
                Cell::words(launch.app.replace('_', " ")),
                Cell::words(Unit::Ms.format(launch.cold_ms)),
                Cell::words(Unit::Ms.format(launch.warm_ms)),
            ]
        })
        .collect();
    Some(Section {
        id: "launches".to_owned(),
        question: "App launch times".to_owned(),
        answer: format!(
            "Launching forty apps took {} without cached files and {} with cached files.",
            total("launch.cold.total"),
            total("launch.warm.total")
        ),
        tables: vec![Table {
            caption: "The slowest".to_owned(),
            columns: vec![Column::new("App"), Column::new("Cold"), Column::new("Warm")],
            rows,
            left_out: launches.len().saturating_sub(APPS_SHOWN) as u64,
            ..Table::default()
        }],
        ..Section::default()
    })
}

fn provenance(result: &Document) -> Vec<Fact> {
    let (device, machine) = (&result.device, &result.machine);
    let mut facts = Vec::new();
    let mut put = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push(Fact::new(label, Cell::Name(value)));
        }
    };
    put("Tool", Some(format!("{}, {}", result.tool, result.engine)));
    put("Board", machine.board.clone());
    put("Processor", machine.cpu.clone());
    put("Kernel", Some(machine.kernel.clone()));
    put("Distribution", machine.distribution.clone());
    put("Virtual machine", machine.virtual_machine.map(|is| if is { "yes" } else { "no" }.to_owned()));
    put("Manufacturer", device.manufacturer.clone().or_else(|| device.manufacturer_id.clone()));
    put("Firmware", device.firmware.clone());
    put("Bus", device.bus.clone());
    put("Limit of the bus", device.bus_limit_mb_s.map(|limit| Unit::MbPerS.format(limit)));
    put("Scheduler", device.scheduler.clone());
    put("Mount options", (!machine.mount_options.is_empty()).then(|| machine.mount_options.join(",")));
    put("Encryption", machine.encryption.clone());
    put("Compression", machine.compression.clone());
    let life = result.health.as_ref().and_then(|health| health.life_used_percent);
    put("Life used", life.map(|life| format!("up to {life} %")));
    put("Caches dropped", Some(if machine.caches_dropped { "yes" } else { "no" }.to_owned()));
    put("Written", Some(output::bytes(ByteCount(result.written_bytes))));
    facts
}
