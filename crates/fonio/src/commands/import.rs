//! `fonio import`.

use std::io::{self, Write};

use anyhow::Result;
use fonio_recording::{Writer, WriterOptions};

use crate::cli::Import;
use crate::exit::Exit;
use crate::filter;
use crate::input::Subject;

/// Reads a trace and writes a recording.
pub fn run(arguments: &Import) -> Result<Exit> {
    let subject = Subject::resolve(&arguments.input)?;
    let options = WriterOptions { overwrite: arguments.overwrite, ..WriterOptions::default() };
    let mut writer = Writer::create(&arguments.out, options)?;
    let meta = filter::pour_unordered(subject, &arguments.reading, &arguments.filter, &mut writer)?;
    let meta = writer.finish(meta)?;
    let requests = meta.rows.get("requests").copied().unwrap_or(0);
    writeln!(io::stdout(), "Imported {requests} requests to {}.", arguments.out.display())?;
    writeln!(io::stdout(), "Next: fonio report {}", arguments.out.display())?;
    Ok(if requests > 0 { Exit::Fine } else { Exit::NotValid })
}
