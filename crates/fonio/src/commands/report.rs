//! `fonio report`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::Meta;
use fonio_recording::{Key, Redactor, redacted_meta};

use crate::cli::{Colour, FilterArgs, Reading, Report};
use crate::exit::Exit;
use crate::filter::{self, UntilStopped};
use crate::input::Subject;
use crate::output::{self, Explained, Extent};

/// Explains one recording or trace.
pub fn run(arguments: &Report, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let explained = match arguments.redact.key()? {
        None => explain(&arguments.input, &arguments.reading, &arguments.filter)?,
        Some(key) => explain_redacted(&arguments.input, &arguments.reading, &arguments.filter, &key)?,
    };
    if arguments.figures {
        let figures = explained.analysis.figures();
        if arguments.output.json {
            return output::json(&figures);
        }
        let mut out = output::screen();
        for figure in figures {
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
    explain_until(None, input, reading, filters)
}

/// Does the same until `stop` is set.
pub fn explain_until(
    stop: Option<&AtomicBool>,
    input: &[PathBuf],
    reading: &Reading,
    filters: &FilterArgs,
) -> Result<Explained> {
    let subject = Subject::resolve(input)?;
    let name = subject.name();
    let options =
        AnalysisOptions { filter: filter::options(filters, &subject)?, ..AnalysisOptions::default() };
    let mut analyser = Analyser::new(options);
    let meta = match stop {
        None => filter::pour(subject, reading, filters, &mut analyser)?,
        Some(stop) => filter::pour(subject, reading, filters, &mut UntilStopped::new(&mut analyser, stop))?,
    };
    Ok(finish(name, analyser, meta))
}

/// The name of a report whose names are replaced: a path is a name, too.
const REDACTED: &str = "redacted recording";

/// Does the same with tokens instead of names.
fn explain_redacted(
    input: &[PathBuf],
    reading: &Reading,
    filters: &FilterArgs,
    key: &Key,
) -> Result<Explained> {
    let subject = Subject::resolve(input)?;
    let mut filter = filter::options(filters, &subject)?;
    // Rows are filtered before the tokens are made; this filter only makes the report say that there is one.
    for names in
        filter.iter_mut().flat_map(|filter| [&mut filter.comms, &mut filter.units, &mut filter.files])
    {
        names.iter_mut().for_each(|name| *name = "redacted".to_owned());
    }
    let mut analyser = Analyser::new(AnalysisOptions { filter, ..AnalysisOptions::default() });
    let meta = filter::pour(subject, reading, filters, &mut Redactor::new(key, &mut analyser))?;
    Ok(finish(REDACTED.to_owned(), analyser, redacted_meta(key, &meta)))
}

fn finish(name: String, analyser: Analyser, meta: Meta) -> Explained {
    let analysis: Analysis = analyser.finish(&meta);
    Explained { name, analysis, meta }
}
