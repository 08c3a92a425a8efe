//! `fonio import`.

use std::io::Write;

use anyhow::Result;
use fonio_input::UntilStopped;
use fonio_recording::Writer;

use crate::cli::Import;
use crate::exit::Exit;
use crate::{filter, input, output, results, signals};

pub fn run(arguments: &Import) -> Result<Exit> {
    let subject = input::resolve(&arguments.input)?;
    let stop = signals::watch()?;
    let mut writer = Writer::create(&arguments.out, results::recording(arguments.overwrite))?;
    let mut until_stopped = UntilStopped::new(&mut writer, &stop);
    let meta = filter::pour_unordered(&subject, &arguments.reading, &arguments.filter, &mut until_stopped)?;
    let meta = writer.finish(meta)?;
    let requests = meta.rows.get("requests").copied().unwrap_or(0);
    writeln!(output::screen(), "Imported {requests} requests to {}.", arguments.out.display())?;
    writeln!(output::screen(), "Next: fonio report {}", arguments.out.display())?;
    // Totals and slow calls have no requests.
    let has_rows =
        ["requests", "waits", "calls", "samples"].iter().any(|table| meta.rows.get(*table) > Some(&0));
    Ok(if has_rows { Exit::Fine } else { Exit::NotValid })
}
