//! `fonio compare`.

use std::io::{self, Write};

use anyhow::Result;
use fonio_analysis::compare::{Named, compare};
use fonio_report::{Document, json};

use crate::cli::{Colour, Compare};
use crate::commands::report;
use crate::exit::Exit;
use crate::output::{self, Explained};

/// Holds each recording against the first.
pub fn run(arguments: &Compare, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let explained: Vec<Explained> = arguments
        .inputs
        .iter()
        .map(|input| report::explain(std::slice::from_ref(input), &arguments.reading, &arguments.filter))
        .collect::<Result<_>>()?;
    let named: Vec<_> = explained
        .iter()
        .map(|explained| Named { name: explained.name.clone(), value: &explained.analysis })
        .collect();
    let comparison = compare(&named);
    if arguments.output.json {
        let mut out = io::stdout().lock();
        json::render_comparison_json(&comparison, &mut out)?;
        writeln!(out)?;
        if arguments.output.html.is_some() {
            output::write_html(&Document::from_comparison(&comparison), arguments.output.html.as_deref())?;
        }
    } else {
        output::show_document(&Document::from_comparison(&comparison), &arguments.output, colour)?;
    }
    // A budget on a comparison is a budget on each recording in it.
    let mut exit = Exit::Fine;
    for one in &explained {
        let outcome = output::verdict(one, &budgets)?;
        exit = exit.worse(outcome);
    }
    Ok(exit)
}
