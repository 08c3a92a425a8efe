//! Implements `fonio report`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use fonio_recording::Key;

use crate::cli::{Colour, FilterArgs, Reading, Report};
use crate::exit::Exit;
use crate::output::{self, Explained, Extent};
use crate::{filter, input};

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

/// Analyses the recording or trace `input` until `stop` is set. A `key` replaces names by tokens.
pub fn explain(
    input: &[PathBuf],
    reading: &Reading,
    filters: &FilterArgs,
    stop: &AtomicBool,
    key: Option<&Key>,
) -> Result<Explained> {
    let subject = input::resolve(input)?;
    let filter = filter::options(filters, &subject)?;
    Ok(fonio_input::explain(&subject, &reading.settings(), filter, stop, key)?)
}
