//! Turns a replay under scheduler models into a report.

use fonio_core::Unit;
use fonio_report::Document;
use fonio_report::document::{Cell, Column, Section, Table, Tone, Verdict};

use super::{ModelReplay, ProgramTimes, Responses};

/// Maximum number of programs in a table of the report.
const PROGRAMS_MAX: usize = 8;
/// Response times within this factor count as equal: some replays were off by up to this factor
/// (`docs/scheduler-models.md`, "Replays of recordings").
const EQUAL: f64 = 3.0;

/// Returns the report on a replay under scheduler models.
pub fn model_document(replay: &ModelReplay) -> Document {
    let pauses = if replay.fast { ", without pauses" } else { "" };
    Document {
        title: format!("{} on a model of {}", replay.recording.display(), replay.device),
        subtitle: format!("{} reads, writes and flushes in virtual time{pauses}", replay.accesses),
        verdict: verdict(replay),
        opening: vec![times(replay), programs(replay)],
        ..Document::default()
    }
}

fn all(programs: &[ProgramTimes], of: impl Fn(&ProgramTimes) -> Responses) -> Responses {
    let mut sum = Responses::default();
    programs.iter().map(of).for_each(|one| sum.add(one.count, one.sum_s, one.max_s));
    sum
}

fn verdict(replay: &ModelReplay) -> Verdict {
    let reads = |programs: &[ProgramTimes]| all(programs, |times| times.reads).mean_s();
    let mut found: Vec<(&str, f64)> =
        replay.runs.iter().filter_map(|run| Some((run.scheduler.as_str(), reads(&run.programs)?))).collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    let text = |time: f64| Unit::S.format(time);
    let sentence = match found.as_slice() {
        [] => "The recording has no reads.".to_owned(),
        [(name, time)] => format!("Under {name}, a read would take {} on average.", text(*time)),
        [(first, least), .., (last, most)] if *most > *least * EQUAL => {
            format!(
                "By these models, a read takes {} on average under {first}, and {} under {last}.",
                text(*least),
                text(*most)
            )
        }
        [(_, least), .., (_, most)] => {
            let (least, most) = (text(*least), text(*most));
            if least == most {
                format!(
                    "By these models, the scheduler makes no difference: a read takes {least} on average."
                )
            } else {
                format!(
                    "These models show no clear difference between the schedulers: a read takes {least} to {most} on average, but some replays were off by a factor of up to {EQUAL}."
                )
            }
        }
    };
    let mut reasons = Vec::new();
    if let Some(recorded) = reads(&replay.recorded) {
        reasons.push(format!(
            "In the recording, on its own device and scheduler, a read took {}.",
            text(recorded)
        ));
    }
    reasons.extend(replay.notes.iter().cloned());
    reasons.push("This is a prediction; docs/scheduler-models.md lists the models' limits.".to_owned());
    let left_out = replay.left_out + replay.of_other_devices;
    if left_out > 0 {
        reasons.push(format!(
            "Left out: {} discards and other operations, {} requests to other devices.",
            replay.left_out, replay.of_other_devices
        ));
    }
    Verdict { tone: Tone::Plain, sentence, reasons }
}

fn times(replay: &ModelReplay) -> Section {
    let recorded = std::iter::once(("recorded", None, replay.recorded.as_slice()));
    let runs =
        replay.runs.iter().map(|run| (run.scheduler.as_str(), Some(run.time_s), run.programs.as_slice()));
    let rows = recorded.chain(runs).map(|(name, time, programs)| {
        let (reads, writes) = (all(programs, |times| times.reads), all(programs, |times| times.writes));
        let cell = |time: Option<f64>| time.map_or(Cell::Unknown, |time| Cell::Number(time, Unit::S));
        let longest = |responses: Responses| cell((responses.count > 0).then_some(responses.max_s));
        vec![
            Cell::words(name),
            cell(reads.mean_s()),
            longest(reads),
            cell(writes.mean_s()),
            longest(writes),
            time.map_or(Cell::Unknown, |time| Cell::Number(time, Unit::S)),
        ]
    });
    Section {
        id: "schedulers".into(),
        question: "What would each scheduler do?".into(),
        answer: "Response times, from queue to completion.".into(),
        tables: vec![Table {
            caption: "All requests".into(),
            columns: vec![
                Column::new("Scheduler"),
                Column::new("Mean read"),
                Column::new("Longest read"),
                Column::new("Mean write"),
                Column::new("Longest write"),
                Column::noted("Time", "Time until the last request completed."),
            ],
            rows: rows.collect(),
            ..Table::default()
        }],
        ..Section::default()
    }
}

fn programs(replay: &ModelReplay) -> Section {
    let table = |caption: &str, of: &dyn Fn(&ProgramTimes) -> Responses| {
        let mut columns = vec![Column::new("Threads"), Column::new("Requests"), Column::new("Recorded")];
        columns.extend(replay.runs.iter().map(|run| Column::new(&run.scheduler)));
        let named = |programs: &[ProgramTimes], name: &str| {
            let found = programs.iter().find(|times| times.name == name).and_then(|times| of(times).mean_s());
            found.map_or(Cell::Unknown, |time| Cell::Number(time, Unit::S))
        };
        let with_some = replay.recorded.iter().filter(|times| of(times).count > 0);
        let rows = with_some.take(PROGRAMS_MAX).map(|times| {
            let mut row = vec![
                Cell::Name(times.name.clone()),
                Cell::Number(of(times).count as f64, Unit::Count),
                named(&replay.recorded, &times.name),
            ];
            row.extend(replay.runs.iter().map(|run| named(&run.programs, &times.name)));
            row
        });
        Table { caption: caption.to_owned(), columns, rows: rows.collect(), ..Table::default() }
    };
    let tables = [table("Reads", &|times| times.reads), table("Writes", &|times| times.writes)];
    Section {
        id: "programs".into(),
        question: "Whose requests?".into(),
        answer: "Mean response times of the threads with the longest total response time.".into(),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        ..Section::default()
    }
}
