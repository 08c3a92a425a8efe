//! Implements `fonio report`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_recording::{Key, Redactor, redacted_meta};

use crate::cli::{Colour, FilterArgs, Reading, Report};
use crate::exit::Exit;
use crate::filter::{self, UntilStopped};
use crate::input::Subject;
use crate::offered::replace_missing_targets;
use crate::output::{self, Explained, Extent};

pub fn run(arguments: &Report, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let (key, stop) = (arguments.redact.key()?, AtomicBool::new(false));
    let explained = explain(&arguments.input, &arguments.reading, &arguments.filter, &stop, key.as_ref())?;
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
    let extent = if arguments.all { Extent::EveryRow } else { Extent::FirstScreen(&next) };
    output::show(&explained, &arguments.output, &budgets, extent, colour)
}

/// The title of a redacted report, because the path of the input is also a name.
const REDACTED: &str = "redacted recording";

/// Analyses the recording or trace `input` until `stop` is set. A `key` replaces names by tokens.
pub fn explain(
    input: &[PathBuf],
    reading: &Reading,
    filters: &FilterArgs,
    stop: &AtomicBool,
    key: Option<&Key>,
) -> Result<Explained> {
    let subject = Subject::resolve(input)?;
    let name = if key.is_some() { REDACTED.to_owned() } else { subject.name() };
    let mut filter = filter::options(filters, &subject)?;
    // The rows are filtered before names are replaced, but the report shows the filter, so redact the filter.
    for filter in filter.iter_mut().filter(|_| key.is_some()) {
        for names in [&mut filter.comms, &mut filter.units, &mut filter.files] {
            names.iter_mut().for_each(|name| *name = "redacted".to_owned());
        }
    }
    let mut analyser = Analyser::new(AnalysisOptions { filter, ..AnalysisOptions::default() });
    let mut sink = UntilStopped::new(&mut analyser, stop);
    let meta = match key {
        None => filter::pour(subject, reading, filters, &mut sink)?,
        Some(key) => {
            redacted_meta(key, &filter::pour(subject, reading, filters, &mut Redactor::new(key, &mut sink))?)
        }
    };
    let mut analysis = analyser.finish(&meta);
    replace_missing_targets(&mut analysis, &meta);
    Ok(Explained { name, analysis, meta })
}
