//! The page that shows a single result.

use askama::Template;
use axum::extract::{Path, State};
use fonio_storebench_document::classes::CLASSES;
use fonio_storebench_document::document::{CapacityCheck, ClassVerdict, Document, Measure};
use fonio_storebench_document::figures as catalogue;

use super::chart::Chart;
use super::ranking::distribution;
use super::{Page, count, day, html, short};
use crate::api::{Found, Percentile, find};
use crate::figures;
use crate::problem::Problem;
use crate::service::Service;
use crate::token;

struct FigureRow {
    label: String,
    value: String,
    interval: String,
    rank: String,
    percentile: String,
}

#[derive(Template)]
#[template(path = "result.html")]
struct ResultPage {
    id: String,
    short_id: String,
    device: String,
    slug: String,
    key: String,
    is_hidden: bool,
    reason: Option<String>,
    standing: String,
    verdict: String,
    facts: Vec<(&'static str, String)>,
    chart: Option<Chart>,
    rows: Vec<FigureRow>,
    missing: Vec<(String, String)>,
}

/// Handles `GET /results/{id}`.
pub(super) async fn show(State(service): State<Service>, Path(id): Path<String>) -> Page {
    if !token::is_id(&id) {
        return Err(Problem::no_result().into());
    }
    let page = service
        .read(move |connection, lookup| {
            let Found { stored, document, key, device, percentiles: standings } =
                find(connection, lookup, &id)?;
            let is_hidden = stored.hidden_reason.is_some();
            let first = standings.first().and_then(|standing| figures::find(&standing.figure));
            let chart = match first {
                Some(at) => {
                    let summary = lookup.summary(connection, 0, stored.key_id, at)?;
                    let value = standings.first().map(|standing| standing.value);
                    (summary.count() > 1).then(|| distribution(&figures::ranked()[at], &summary, value))
                }
                None => None,
            };
            let (rows, missing) = rows(&document, &standings);
            Ok(ResultPage {
                short_id: short(&stored.id),
                id: stored.id,
                device: device.name(),
                is_hidden,
                reason: stored.hidden_reason,
                standing: standing(&standings),
                verdict: document.verdict.clone(),
                facts: facts(&document, &key.name, &device.revision, stored.received_at),
                key: key.of.name,
                slug: device.of.slug,
                chart,
                rows,
                missing,
            })
        })
        .await?;
    Ok(html(&page))
}

fn standing(standings: &[Percentile]) -> String {
    let Some(first) = standings.first() else { return "No ranked figure was measured.".to_owned() };
    let label = figures::find(&first.figure).map_or("", |at| figures::ranked()[at].label.as_str());
    match first.percentile {
        Some(_) => format!(
            "Rank {} of {} in the {label}: percentile {}.",
            count(first.rank),
            count(first.results),
            percentile_text(first)
        ),
        None => "This is the first result with its comparison key, so there is nothing to compare it with."
            .to_owned(),
    }
}

fn percentile_text(standing: &Percentile) -> String {
    match (standing.percentile, standing.low, standing.high) {
        (Some(percentile), Some(low), Some(high)) => format!("{percentile:.1} ({low:.1} to {high:.1})"),
        _ => "–".to_owned(),
    }
}

fn rows(document: &Document, standings: &[Percentile]) -> (Vec<FigureRow>, Vec<(String, String)>) {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for figure in catalogue::catalogue() {
        match document.figures.get(&figure.name) {
            Some(Measure::Measured(value)) => {
                let standing = standings.iter().find(|standing| standing.figure == figure.name);
                let unsure = if value.stable { "" } else { ", not stable" };
                rows.push(FigureRow {
                    label: figure.figure.label,
                    value: value.unit.format(value.value),
                    interval: format!(
                        "{} to {}{unsure}, {} runs",
                        value.unit.format(value.low),
                        value.unit.format(value.high),
                        value.runs
                    ),
                    rank: standing.map_or_else(
                        || "–".to_owned(),
                        |standing| format!("{} of {}", count(standing.rank), count(standing.results)),
                    ),
                    percentile: standing.map_or_else(|| "–".to_owned(), percentile_text),
                });
            }
            Some(Measure::NotMeasured(reason)) => missing.push((figure.figure.label, reason.clone())),
            None => {}
        }
    }
    (rows, missing)
}

fn facts(document: &Document, key: &str, revision: &str, received_at: i64) -> Vec<(&'static str, String)> {
    let (device, machine) = (&document.device, &document.machine);
    let mut facts = vec![("Comparison key", key.to_owned()), ("Revision", revision.to_owned())];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("Made", device.made.clone());
    add("Capacity", Some(format!("{:.1} GB", device.capacity_bytes as f64 / 1e9)));
    add("Bus", device.bus.clone());
    add("Bus limit", device.bus_limit_mb_s.map(|limit| format!("{limit:.0} MB/s")));
    add("I/O scheduler", device.scheduler.clone());
    add("Board", machine.board.clone());
    add("Processor", machine.cpu.clone());
    add("Kernel", Some(machine.kernel.clone()));
    add("Distribution", machine.distribution.clone());
    add("Mount options", (!machine.mount_options.is_empty()).then(|| machine.mount_options.join(", ")));
    add("Encryption", machine.encryption.clone());
    add("Compression", machine.compression.clone());
    add("Page cache dropped", Some(if machine.caches_dropped { "yes" } else { "no" }.to_owned()));
    add(
        "Capacity check",
        Some(match &document.capacity_check {
            CapacityCheck::Genuine { complete: true, .. } => {
                "genuine, checked on the complete device".to_owned()
            }
            CapacityCheck::Genuine { complete: false, .. } => "genuine in the checked parts".to_owned(),
            CapacityCheck::Fake { reason, .. } => format!("fake: {reason}"),
            CapacityCheck::NotChecked { reason } => format!("not checked: {reason}"),
        }),
    );
    let met: Vec<&str> = CLASSES
        .iter()
        .map(|class| class.name)
        .filter(|name| document.classes.get(*name) == Some(&ClassVerdict::Met))
        .collect();
    add("Classes met", Some(if met.is_empty() { "none".to_owned() } else { met.join(", ") }));
    add("Measured by", Some(format!("{}, {}", document.tool, document.engine)));
    add("Received", Some(day(received_at)));
    facts
}
