//! Turns launches into a report: the verdict, the parts of a launch on each setup, then the first launch's
//! recording.

use fonio_analysis::Answer;
use fonio_core::Unit;
use fonio_report::Document;
use fonio_report::document::{Cell, Column, Section, Table, Tone, Verdict};
use fonio_system::command::Failure;

use super::{CacheState, Dropped, LaunchFigures, LaunchPart, LaunchResult, LaunchSeries, PartKind};
use crate::held::Held;

/// Returns the report on a series of launches. `explained` is the report on the first launch's recording; the
/// sections of `explained` come last.
pub fn launch_document(series: &LaunchSeries, explained: Option<Document>) -> Document {
    let explained = explained.unwrap_or_default();
    Document {
        title: format!("Launch of {}", series.command.join(" ")),
        subtitle: amount(series),
        verdict: verdict(series),
        facts: explained.facts,
        opening: vec![section(series)],
        findings: explained.findings,
        sections: explained.sections,
        terms: explained.terms,
        provenance: explained.provenance,
        next: Vec::new(),
    }
}

fn amount(series: &LaunchSeries) -> String {
    let cache = match series.cache {
        CacheState::Cold => "cold",
        CacheState::Warm => "warm",
    };
    let count = series.places.iter().map(|place| place.runs.len()).max().unwrap_or(0);
    let amount = if count == 1 {
        format!("1 {cache} launch")
    } else {
        let each = if series.places.len() > 1 { " in each place" } else { "" };
        format!("{count} {cache} launches{each}")
    };
    let held = series.places.iter().flat_map(|place| &place.runs).filter_map(|run| run.processor);
    format!("{amount}{}{}", series.conditions.told(), Held::told(held).unwrap_or_default())
}

fn verdict(series: &LaunchSeries) -> Verdict {
    let Some((first, others)) = series.places.split_first() else { return Verdict::default() };
    let mut reasons: Vec<String> = others
        .iter()
        .map(|place| {
            format!(
                "A launch {}: {} {}",
                on(&place.name),
                place.verdict,
                comparison(place).unwrap_or_default()
            )
        })
        .collect();
    for place in &series.places {
        if let Some(ended) = place.runs.iter().find_map(failure) {
            let place = on(&place.name);
            reasons.push(format!("The command {ended} {place}; see its output with --show-output."));
        }
        if place.runs.iter().any(|run| !run.valid) {
            reasons.push(format!("A measurement {} is not valid: events were lost.", on(&place.name)));
        }
    }
    let storage =
        first.parts.iter().find(|part| part.kind == PartKind::Storage).map_or(0.0, |part| part.share);
    let tone = if storage >= 0.5 { Tone::Bad } else { Tone::Plain };
    Verdict { tone, sentence: first.verdict.clone(), reasons }
}

fn failure(run: &LaunchFigures) -> Option<String> {
    Some(match run.failure()? {
        Failure::Code(code) => format!("ended with exit code {code}"),
        Failure::Signal(signal) => format!("was ended by signal {signal}"),
    })
}

/// Returns a phrase for sentences that says on which storage a launch ran.
fn on(place: &str) -> String {
    match place {
        "." => "in this folder".to_owned(),
        name => format!("on {name}"),
    }
}

fn comparison(place: &LaunchResult) -> Option<String> {
    let (first, change) = place.compared_with.as_deref().map(on).zip(place.times.change.as_ref())?;
    let times = |ratio: f64, low: f64, high: f64| format!("{ratio:.2} ({low:.2} to {high:.2})");
    if let (Some(side), Some(((ratio, low), high))) =
        (change.side(), change.ratio.zip(change.low).zip(change.high))
    {
        let words = side.words("faster", "slower");
        return Some(format!(
            "Compared with a launch {first}, this launch is {words}: it takes {} times as long.",
            times(ratio, low, high)
        ));
    }
    Some(match (change.answer, change.ratio.zip(change.low).zip(change.high)) {
        (Answer::Lower, Some(((ratio, low), high))) => {
            format!("This launch is {} times as fast as {first}.", times(1.0 / ratio, 1.0 / high, 1.0 / low))
        }
        (Answer::Higher, Some(((ratio, low), high))) => {
            format!("This launch takes {} times as long as {first}.", times(ratio, low, high))
        }
        (Answer::NoDifference, _) => format!("No difference from a launch {first} was shown."),
        _ => format!(
            "{} launches do not show whether the time differs from a launch {first} (--runs 10).",
            place.runs.len()
        ),
    })
}

fn section(series: &LaunchSeries) -> Section {
    let took = |place: &LaunchResult| format!("{} {}", Unit::S.format(place.times.wall_s), on(&place.name));
    let mut notes: Vec<String> = Vec::new();
    for place in &series.places {
        let Some(dropped) = place.runs.first().and_then(|run: &LaunchFigures| run.dropped.as_ref()) else {
            continue;
        };
        notes.push(format!("Cold {}: {}", on(&place.name), cold(dropped)));
        notes.extend(dropped.failed.iter().map(|failed| format!("Not dropped from the cache: {failed}")));
    }
    Section {
        id: "launches".into(),
        question: "Where does the time go?".into(),
        answer: format!(
            "A launch took {}. The parts of its critical path add up to the run time.",
            series.places.iter().map(took).collect::<Vec<_>>().join(", ")
        ),
        figures: Vec::new(),
        tables: series.places.iter().map(table).collect(),
        notes,
        hints: Vec::new(),
    }
}

fn table(place: &LaunchResult) -> Table {
    let time = |mean: f64, min: f64, max: f64| match place.runs.len() {
        1 => Cell::Number(mean, Unit::S),
        _ => Cell::Range { low: min, point: Some(mean), high: max, unit: Unit::S, change: false },
    };
    let whole = time(place.times.wall_s, place.times.wall_s_min, place.times.wall_s_max);
    let mut rows = vec![vec![Cell::words("all of it"), Cell::Bar(1.0), whole]];
    let part = |part: &LaunchPart| {
        vec![Cell::words(words(part.kind)), Cell::Bar(part.share), time(part.mean_s, part.min_s, part.max_s)]
    };
    rows.extend(place.parts.iter().filter(|part| part.mean_s > 0.0).map(part));
    Table {
        caption: format!("A launch {}", on(&place.name)),
        columns: vec![
            Column::new("Part"),
            Column::noted("Share", "Share of the mean run time."),
            Column::noted("Time", "Mean, minimum and maximum of the launches."),
        ],
        rows,
        ..Table::default()
    }
}

fn words(kind: PartKind) -> &'static str {
    match kind {
        PartKind::User => "running in user mode",
        PartKind::System => "running in the kernel",
        PartKind::Running => "running",
        PartKind::Storage => "waiting for storage",
        PartKind::Network => "waiting for the network",
        PartKind::Timer => "waiting for a timer",
        PartKind::Others => "waiting for other processes",
        PartKind::CpuWait => "waiting for a processor",
        PartKind::Unknown => "waiting, cause not recorded",
    }
}

fn cold(dropped: &Dropped) -> String {
    let size = |bytes: u64| Unit::Bytes.format(bytes as f64);
    let files = dropped.files;
    let (Some(held), Some(kept)) = (dropped.held_bytes, dropped.kept_bytes) else {
        return format!(
            "the kernel was asked to drop {files} files from the cache; only Linux 6.5 and later can confirm it."
        );
    };
    let mut text = format!(
        "before the first launch, {} of the {} cached from {files} files were dropped",
        size(held.saturating_sub(kept)),
        size(held)
    );
    if kept > 0 {
        let names: Vec<String> = dropped
            .kept
            .iter()
            .map(|kept| format!("{} ({})", kept.path.display(), size(kept.bytes)))
            .collect();
        text += &format!("; {} stayed cached, used by other processes: {}", size(kept), names.join(", "));
    }
    text + ". Names and inodes stay cached."
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::launch::Kept;

    #[test]
    fn a_command_that_failed_is_told() {
        let ended = |exit, signal, became_quiet| {
            failure(&LaunchFigures { exit, signal, became_quiet, ..LaunchFigures::default() })
                .unwrap_or_default()
        };
        assert_eq!(ended(Some(0), None, false), "");
        assert_eq!(ended(Some(3), None, false), "ended with exit code 3");
        assert_eq!(ended(None, Some(9), false), "was ended by signal 9");
        assert_eq!(ended(None, Some(15), true), "", "fonio itself ended the quiet command");
    }

    #[test]
    fn what_stayed_in_the_cache_is_said() {
        let mut dropped =
            Dropped { files: 3, held_bytes: Some(3 << 20), kept_bytes: Some(0), ..Dropped::default() };
        let all = cold(&dropped);
        assert!(all.starts_with("before the first launch, 3 MiB of the") && !all.contains("stayed"), "{all}");
        dropped.kept_bytes = Some(1 << 20);
        dropped.kept = vec![Kept { path: PathBuf::from("/lib/libc.so"), bytes: 1 << 20 }];
        let some = cold(&dropped);
        assert!(some.contains("2 MiB of the 3 MiB") && some.contains("/lib/libc.so (1 MiB)"), "{some}");
        dropped.held_bytes = None;
        assert!(cold(&dropped).contains("Linux 6.5"));
    }
}
