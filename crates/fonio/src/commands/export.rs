//! Implements `fonio export`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_core::RowSink;
use fonio_core::meta::{Clock, Device};
use fonio_export::csv::CsvExport;
use fonio_export::fio_iolog::{FioIolog, Version};
use fonio_export::perfetto::Perfetto;
use fonio_export::perfetto_json::PerfettoJson;
use fonio_input::UntilStopped;
use fonio_recording::{Key, Redactor, Writer, redacted_meta};
use fonio_system::{private, say};

use crate::cli::{Export, ExportFormat};
use crate::exit::Exit;
use crate::input::Subject;
use crate::{filter, input, output, results, signals};

pub fn run(arguments: &Export) -> Result<Exit> {
    let subject = input::resolve(&arguments.input)?;
    let key = arguments.redact.key()?;
    let to_standard_output = arguments.out == Path::new("-");
    if arguments.format == ExportFormat::Recording {
        if to_standard_output {
            bail!("a recording is a directory: name it with `-o DIR`");
        }
        return copy(arguments, &subject, key.as_ref());
    }
    let out: Box<dyn Write> = if to_standard_output {
        Box::new(io::stdout().lock())
    } else {
        Box::new(
            private::create_file(&arguments.out)
                .with_context(|| format!("{} cannot be written", arguments.out.display()))?,
        )
    };
    let mut out = BufWriter::new(out);
    // A foreign trace contains no device names, and its clock is known only at its end.
    let (devices, clock): (Vec<Device>, Clock) = match &subject {
        Subject::Kept(kept, _) => (kept.meta.devices.clone(), kept.meta.clock.clone()),
        Subject::Recording(recording) => (recording.meta().devices.clone(), recording.meta().clock.clone()),
        Subject::Trace(_) => (Vec::new(), Clock::default()),
    };
    let pour = |sink: &mut dyn RowSink| match &key {
        None => filter::pour(&subject, &arguments.reading, &arguments.filter, sink),
        Some(key) => {
            filter::pour(&subject, &arguments.reading, &arguments.filter, &mut Redactor::new(key, sink))
        }
    };
    match arguments.format {
        ExportFormat::Perfetto => {
            let mut sink = Perfetto::new(&mut out, &devices, clock);
            pour(&mut sink)?;
            say_left_out(sink.left_out());
            sink.finish()?;
        }
        ExportFormat::PerfettoJson => {
            let mut sink = PerfettoJson::new(&mut out, &devices);
            pour(&mut sink)?;
            say_left_out(sink.left_out());
            sink.finish()?;
        }
        ExportFormat::Iolog | ExportFormat::IologV2 => {
            let version = if arguments.format == ExportFormat::Iolog { Version::V3 } else { Version::V2 };
            let mut sink = FioIolog::new(&mut out, version, &devices)?;
            pour(&mut sink)?;
            say!(
                "note: the log names the recorded devices, and its writes overwrite them; replay it elsewhere with \
                 fio --read_iolog=FILE --replay_redirect=/dev/DEVICE"
            );
            let written = sink.finish()?;
            for (op, requests) in written.left_out {
                say!("note: fio's log cannot express {}; {requests} requests are left out", op.name());
            }
            if written.impossible > 0 {
                say!(
                    "note: {} requests are left out, because no device can have requests of their length or at their \
                     place, or because there are too many devices; the recording is damaged",
                    written.impossible
                );
            }
        }
        ExportFormat::Csv => {
            let mut sink = CsvExport::new(&mut out)?;
            pour(&mut sink)?;
            say_left_out(sink.left_out());
            sink.finish()?;
        }
        ExportFormat::Recording => {}
    }
    out.flush()?;
    if !to_standard_output {
        writeln!(output::screen(), "Written to {}.", arguments.out.display())?;
    }
    Ok(Exit::Fine)
}

fn say_left_out(rows: u64) {
    if rows > 0 {
        say!(
            "note: {rows} requests, marks or names of threads are left out, because there are too many at once"
        );
    }
}

/// Writes a recording of the rows that pass the filters. If a `key` is given, names are replaced by tokens.
fn copy(arguments: &Export, subject: &Subject, key: Option<&Key>) -> Result<Exit> {
    let stop = signals::watch()?;
    let mut writer = Writer::create(&arguments.out, results::recording(false))?;
    let mut until_stopped = UntilStopped::new(&mut writer, &stop);
    let pour =
        |sink: &mut dyn RowSink| filter::pour_unordered(subject, &arguments.reading, &arguments.filter, sink);
    let meta = match key {
        None => pour(&mut until_stopped)?,
        Some(key) => redacted_meta(key, &pour(&mut Redactor::new(key, &mut until_stopped))?),
    };
    let meta = writer.finish(meta)?;
    let requests = meta.rows.get("requests").copied().unwrap_or(0);
    writeln!(output::screen(), "Wrote {requests} requests to {}.", arguments.out.display())?;
    Ok(Exit::Fine)
}
