//! `fonio storebench compare`.

use std::path::Path;

use anyhow::{Result, bail};
use fonio_bench::storebench::results;
use fonio_report::Document as Report;
use fonio_report::document::{Cell, Column, Section, Table, Tone, Verdict};
use fonio_storebench_document::compare::{Answer, Compared, Comparison, compare};
use fonio_storebench_document::document::{Document, Measure};

use super::show;
use crate::cli::Colour;
use crate::cli::storebench::ResultOutput;
use crate::exit::Exit;
use crate::output::{self, Extent};

pub fn run(files: [&Path; 2], across_keys: bool, shown: &ResultOutput, colour: Colour) -> Result<Exit> {
    let [first, second] = [results::read(files[0])?, results::read(files[1])?];
    let comparison = compare(&first, &second);
    if !comparison.keys_differ.is_empty() && !across_keys {
        bail!(
            "the results differ in {}, which also affects the figures; to compare them anyway, give \
             --across-keys",
            comparison.keys_differ.join(", ")
        );
    }
    if shown.json {
        return output::json(&comparison);
    }
    let report = report(&comparison, &first, &second);
    output::show_document(&report, &shown.as_report(), Extent::All, colour)?;
    Ok(Exit::Fine)
}

fn report(comparison: &Comparison, first: &Document, second: &Document) -> Report {
    let reasons = match comparison.keys_differ.as_slice() {
        [] => Vec::new(),
        differ => {
            vec![format!("The results differ in {}, which also affects the figures.", differ.join(", "))]
        }
    };
    let with = |answers: &[Answer]| -> Vec<&Compared> {
        comparison.figures.iter().filter(|compared| answers.contains(&compared.answer)).collect()
    };
    let sections = [
        ("differences", "What differs?", with(&[Answer::Better, Answer::Worse, Answer::Differs])),
        ("others", "What shows no difference?", with(&[Answer::NoDifference])),
        ("once", "What was measured only once, and not tested?", with(&[Answer::OneRun])),
        ("missing", "What was not measured in both?", with(&[Answer::NotMeasured])),
    ];
    let shown = |(id, _, figures): &(&str, &str, Vec<&Compared>)| !figures.is_empty() || *id == "differences";
    Report {
        title: "StoreBench comparison".to_owned(),
        subtitle: format!("first: {}; second: {}", show::device_words(first), show::device_words(second)),
        verdict: Verdict { tone: Tone::Plain, sentence: comparison.verdict.clone(), reasons },
        opening: (sections.iter().filter(|one| shown(one)))
            .map(|(id, question, figures)| section(id, question, figures))
            .collect(),
        ..Report::default()
    }
}

fn section(id: &str, question: &str, figures: &[&Compared]) -> Section {
    let rows = figures.iter().map(|compared| row(compared)).collect();
    let table = Table {
        caption: String::new(),
        columns: vec![
            Column::new("Figure"),
            Column::noted("First", "Mean, with half the width of the 95 % confidence interval."),
            Column::new("Second"),
            Column::noted("Ratio", "Ratio of the second result to the first."),
            Column::new("Answer"),
        ],
        rows,
        whole: true,
        ..Table::default()
    };
    let answer = match figures.len() {
        0 => "No figure.".to_owned(),
        1 => "One figure.".to_owned(),
        count => format!("{count} figures."),
    };
    Section {
        id: id.to_owned(),
        question: question.to_owned(),
        answer,
        tables: if figures.is_empty() { Vec::new() } else { vec![table] },
        ..Section::default()
    }
}

fn row(compared: &Compared) -> Vec<Cell> {
    let (tone, word) = match compared.answer {
        Answer::Better => (Tone::Good, "better"),
        Answer::Worse => (Tone::Bad, "worse"),
        Answer::Differs => (Tone::Plain, "differs"),
        Answer::NoDifference => (Tone::Plain, "no difference"),
        Answer::OneRun => (Tone::Plain, "one run only"),
        Answer::NotMeasured => (Tone::Plain, "not measured in both"),
    };
    let measure = |measure: &Measure| match measure {
        Measure::Measured(value) => Cell::words(show::with_interval(value)),
        Measure::NotMeasured(_) => Cell::words("not measured"),
    };
    vec![
        Cell::words(compared.figure.label.clone()),
        measure(&compared.first),
        measure(&compared.second),
        compared.ratio.map_or(Cell::Unknown, |ratio| Cell::words(format!("{ratio:.2}"))),
        Cell::Judgement(tone, word.to_owned()),
    ]
}
