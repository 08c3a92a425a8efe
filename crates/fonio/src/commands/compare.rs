//! Implements `fonio compare`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use fonio_analysis::compare::interval::RUNS_MIN;
use fonio_analysis::compare::{Named, compare};
use fonio_report::budget::Outcome;
use fonio_report::json::CheckedBudget;
use fonio_report::{Document, json};

use crate::cli::{Colour, Compare};
use crate::commands::report;
use crate::exit::Exit;
use crate::output::{self, Explained, Extent};

pub fn run(arguments: &Compare, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let sides = sides(arguments)?;
    let never = AtomicBool::new(false);
    let explained: Vec<(String, Vec<Explained>)> = sides
        .into_iter()
        .map(|(name, inputs)| {
            let explain = |input: &PathBuf| {
                let input = std::slice::from_ref(input);
                report::explain(input, &arguments.reading, &arguments.filter, &never, None)
            };
            Ok((name, inputs.iter().map(explain).collect::<Result<_>>()?))
        })
        .collect::<Result<_>>()?;
    let named: Vec<_> = explained
        .iter()
        .map(|(name, side)| Named {
            // A side that has only one recording gets the recording's name.
            name: if let [only] = side.as_slice() { only.name.clone() } else { name.clone() },
            value: side.iter().map(|one| Named { name: one.name.clone(), value: &one.analysis }).collect(),
        })
        .collect();
    let comparison = compare(&named);
    // The budgets hold for each compared recording.
    let recordings = || explained.iter().flat_map(|(_, side)| side);
    let outcomes: Vec<Vec<Outcome>> =
        recordings().map(|one| output::evaluate(&one.analysis, &budgets)).collect::<Result<_>>()?;
    if arguments.output.json {
        let mut text = Vec::new();
        let checked =
            |(one, outcomes): (&Explained, &Vec<Outcome>)| output::checked(outcomes, Some(&one.name));
        let checked: Vec<CheckedBudget> = recordings().zip(&outcomes).flat_map(checked).collect();
        json::render_comparison_json(&comparison, &checked, &mut text)?;
        output::json_text(&text)?;
        if arguments.output.html.is_some() {
            output::write_html(&Document::from_comparison(&comparison), arguments.output.html.as_deref())?;
        }
    } else {
        output::show_document(
            &Document::from_comparison(&comparison),
            &arguments.output,
            if arguments.all { Extent::EveryRow } else { Extent::All },
            colour,
        )?;
    }
    let mut exit = Exit::Fine;
    for (one, outcomes) in recordings().zip(&outcomes) {
        exit = exit.worse(output::judge(one, outcomes, Some(&one.name))?);
    }
    Ok(exit)
}

/// Returns the sides to compare: each input as one side, or the inputs before and the inputs after a change.
fn sides(arguments: &Compare) -> Result<Vec<(String, Vec<PathBuf>)>> {
    let Compare { inputs, before, after, .. } = arguments;
    if !inputs.is_empty() {
        return Ok(inputs.iter().map(|input| (String::new(), vec![input.clone()])).collect());
    }
    if before.len().max(after.len()) > 1 && before.len().min(after.len()) < RUNS_MIN {
        bail!(
            "{} before and {} after: give at least {RUNS_MIN} recordings on each side, or one on each",
            before.len(),
            after.len()
        );
    }
    Ok(vec![("before".to_owned(), before.clone()), ("after".to_owned(), after.clone())])
}
