//! `fonio report`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::Meta;

use crate::cli::{Colour, FilterArgs, Reading, Report};
use crate::exit::Exit;
use crate::filter;
use crate::input::Subject;
use crate::output::{self, Explained, Extent};

/// Explains one recording or trace.
pub fn run(arguments: &Report, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let explained = explain(&arguments.input, &arguments.reading, &arguments.filter)?;
    if arguments.figures {
        let mut out = io::stdout().lock();
        for figure in explained.analysis.figures() {
            writeln!(out, "{:<48} {:>12}  {}", figure.name, figure.text, figure.label)?;
        }
        return Ok(Exit::Fine);
    }
    let input: Vec<String> = arguments.input.iter().map(|path| path.display().to_string()).collect();
    let command = format!("fonio report {}", input.join(" "));
    let next = [format!("{command} --all"), format!("{command} --html report.html")];
    let extent = if arguments.all { Extent::All } else { Extent::FirstScreen(&next) };
    output::show(&explained, &arguments.output, &budgets, extent, colour)
}

/// Analyses the recording or trace that `input` names.
pub fn explain(input: &[PathBuf], reading: &Reading, filters: &FilterArgs) -> Result<Explained> {
    let subject = Subject::resolve(input)?;
    let name = subject.name();
    let options =
        AnalysisOptions { filter: filter::options(filters, &subject)?, ..AnalysisOptions::default() };
    let mut analyser = Analyser::new(options);
    let meta = filter::pour(subject, reading, filters, &mut analyser)?;
    Ok(finish(name, analyser, meta))
}

fn finish(name: String, analyser: Analyser, meta: Meta) -> Explained {
    let analysis: Analysis = analyser.finish(&meta);
    Explained { name, analysis, meta }
}
