//! Turns a replay under scheduler models into a report.

use fonio_core::Unit;
use fonio_report::Document;
use fonio_report::document::{Cell, Column, Section, Table, Tone, Verdict};

use super::{ModelReplay, ModelRun, ProgramTimes, Responses};

/// Maximum number of programs in a table of the report.
const PROGRAMS_MAX: usize = 8;
/// Maximum number of cells in a table with a column for each.
const RUNS_MAX: usize = 9;
/// Response times within this factor count as equal: some replays were off by up to this factor
/// (`docs/scheduler-models.md`, "Replays of recordings").
const EQUAL: f64 = 3.0;

/// Returns the report on a replay in models.
pub fn model_document(replay: &ModelReplay) -> Document {
    let pauses = if replay.fast { ", without pauses" } else { "" };
    let devices = replay.devices.join(", ");
    let models = if replay.devices.len() == 1 { "a model" } else { "models" };
    Document {
        title: format!("{} on {models} of {devices}", replay.recording.display()),
        subtitle: format!("{} reads, writes and flushes in virtual time{pauses}", replay.accesses),
        verdict: verdict(replay),
        opening: vec![times(replay), programs(replay)],
        ..Document::default()
    }
}

/// The parts of a cell's name that distinguish it from the other cells.
struct Varied {
    cards: bool,
    schedulers: bool,
}

impl Varied {
    fn of(replay: &ModelReplay) -> Varied {
        let differ = |of: &dyn Fn(&ModelRun) -> String| {
            let mut names = replay.runs.iter().map(of);
            let first = names.next();
            names.any(|name| Some(name) != first)
        };
        Varied { cards: differ(&ModelRun::card), schedulers: differ(&|run| run.scheduler.clone()) }
    }

    /// Returns the place of a cell in a sentence: `on sd_a1 under bfq`.
    fn place(&self, run: &ModelRun) -> String {
        match (self.cards, self.schedulers) {
            (true, true) => format!("on {} under {}", run.card(), run.scheduler),
            (true, false) => format!("on {}", run.card()),
            (false, _) => format!("under {}", run.scheduler),
        }
    }

    /// Returns the name of a cell in a table: `sd_a1, bfq`.
    fn name(&self, run: &ModelRun) -> String {
        match (self.cards, self.schedulers) {
            (true, true) => format!("{}, {}", run.card(), run.scheduler),
            (true, false) => run.card(),
            (false, _) => run.scheduler.clone(),
        }
    }
}

fn all(programs: &[ProgramTimes], of: impl Fn(&ProgramTimes) -> Responses) -> Responses {
    let mut sum = Responses::default();
    programs.iter().map(of).for_each(|one| sum.add(one.count, one.sum_s, one.max_s));
    sum
}

fn verdict(replay: &ModelReplay) -> Verdict {
    let reads = |programs: &[ProgramTimes]| all(programs, |times| times.reads).mean_s();
    let varied = Varied::of(replay);
    let mut found: Vec<(&ModelRun, f64)> =
        replay.runs.iter().filter_map(|run| Some((run, reads(&run.programs)?))).collect();
    found.sort_by(|one, other| one.1.total_cmp(&other.1));
    let text = |time: f64| Unit::S.format(time);
    // The setting that would make the difference.
    let (what, between) = match (varied.cards, varied.schedulers) {
        (true, true) => ("the choice", "these setups"),
        (true, false) => ("the device", "these devices"),
        (false, _) => ("the scheduler", "the schedulers"),
    };
    let sentence = match found.as_slice() {
        [] => "The recording has no reads.".to_owned(),
        [(run, time)] => {
            let place = varied.place(run);
            let mut letters = place.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            let place: String = first.into_iter().chain(letters).collect();
            format!("{place}, a read would take {} on average.", text(*time))
        }
        [(first, least), .., (last, most)] if *most > *least * EQUAL => {
            format!(
                "By these models, a read takes {} on average {}, and {} {}.",
                text(*least),
                varied.place(first),
                text(*most),
                varied.place(last)
            )
        }
        [(_, least), .., (_, most)] => {
            let (least, most) = (text(*least), text(*most));
            if least == most {
                format!("By these models, {what} makes no difference: a read takes {least} on average.")
            } else {
                format!(
                    "These models show no clear difference between {between}: a read takes {least} to {most} on average, but some replays were off by a factor of up to {EQUAL}."
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
    let varied = Varied::of(replay);
    let row = |names: (Cell, Cell), programs: &[ProgramTimes], run: Option<&ModelRun>| {
        let (reads, writes) = (all(programs, |times| times.reads), all(programs, |times| times.writes));
        let cell = |time: Option<f64>| time.map_or(Cell::Unknown, |time| Cell::Number(time, Unit::S));
        let longest = |responses: Responses| cell((responses.count > 0).then_some(responses.max_s));
        let amplification = run.and_then(|run| run.summary.write_amplification);
        let mut cells = vec![
            names.1,
            cell(reads.mean_s()),
            longest(reads),
            cell(writes.mean_s()),
            longest(writes),
            cell(run.map(|run| run.time_s)),
        ];
        if varied.cards {
            cells.insert(0, names.0);
            cells.push(amplification.map_or(Cell::Unknown, |ratio| Cell::words(format!("{ratio:.2}"))));
        }
        cells
    };
    let recorded = row(
        (Cell::words("recorded"), Cell::words(if varied.cards { "" } else { "recorded" })),
        &replay.recorded,
        None,
    );
    let runs = replay
        .runs
        .iter()
        .map(|run| row((Cell::words(run.card()), Cell::words(&run.scheduler)), &run.programs, Some(run)));
    let mut columns = vec![
        Column::new("Scheduler"),
        Column::new("Mean read"),
        Column::new("Longest read"),
        Column::new("Mean write"),
        Column::new("Longest write"),
        Column::noted("Time", "Time until the last request completed."),
    ];
    if varied.cards {
        columns.insert(0, Column::new("Device"));
        let note = "Programmed bytes divided by written bytes, on a new device.";
        columns.push(Column::noted("Amplification", note));
    }
    let question = match (varied.cards, varied.schedulers) {
        (true, true) => "What would each device and scheduler do?",
        (true, false) => "What would each device do?",
        (false, _) => "What would each scheduler do?",
    };
    Section {
        id: "schedulers".into(),
        question: question.into(),
        answer: "Response times, from queue to completion.".into(),
        tables: vec![Table {
            caption: "All requests".into(),
            columns,
            rows: std::iter::once(recorded).chain(runs).collect(),
            ..Table::default()
        }],
        ..Section::default()
    }
}

fn programs(replay: &ModelReplay) -> Section {
    let varied = Varied::of(replay);
    // A table has no room for the columns of many cells.
    let runs = &replay.runs[..replay.runs.len().min(RUNS_MAX)];
    let table = |caption: &str, of: &dyn Fn(&ProgramTimes) -> Responses| {
        let mut columns = vec![Column::new("Threads"), Column::new("Requests"), Column::new("Recorded")];
        columns.extend(runs.iter().map(|run| Column::new(&varied.name(run))));
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
            row.extend(runs.iter().map(|run| named(&run.programs, &times.name)));
            row
        });
        Table { caption: caption.to_owned(), columns, rows: rows.collect(), ..Table::default() }
    };
    let left_out = replay.runs.len() - runs.len();
    let notes = match left_out {
        0 => Vec::new(),
        count => vec![format!("{count} further combinations are only in the JSON (--json, or --output).")],
    };
    let tables = [table("Reads", &|times| times.reads), table("Writes", &|times| times.writes)];
    Section {
        id: "programs".into(),
        question: "Whose requests?".into(),
        answer: "Mean response times of the threads with the longest total response time.".into(),
        notes,
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        ..Section::default()
    }
}
