//! Writes a recording, with names or with tokens in their place.

use std::io;
use std::path::Path;

use fonio_core::{Meta, RowSink, forward_rows};
use fonio_recording::{Finished, Key, RecordingError, Redactor, Writer, WriterOptions, redacted_meta};

use crate::{RecordError, RecordOptions};

/// The writer of a recording. Names that are to be redacted never reach a disk.
pub(crate) enum Out {
    Plain(Box<Writer>),
    Redacted(Box<Redactor<Writer>>, Key),
}

impl Out {
    /// Begins a recording. It keeps the rows that fit, because what was recorded cannot be had again.
    pub(crate) fn create(options: &RecordOptions) -> Result<Out, RecordError> {
        let settings = WriterOptions {
            overwrite: options.overwrite,
            keep_what_fits: true,
            beside_if_taken: true,
            ..WriterOptions::default()
        };
        let writer =
            Writer::create(&options.out, settings).map_err(|error| not_finished(&options.out, error))?;
        Ok(match &options.redact {
            None => Out::Plain(Box::new(writer)),
            Some(key) => Out::Redacted(Box::new(Redactor::new(key, writer)), key.clone()),
        })
    }

    /// Finishes the recording that was to be `out`. Calls `note` if it has another name.
    pub(crate) fn install(
        self,
        meta: Meta,
        out: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<Finished, RecordError> {
        let installed = match self {
            Out::Plain(writer) => writer.install(meta),
            Out::Redacted(redactor, key) => redactor.into_inner().install(redacted_meta(&key, &meta)),
        };
        let finished = installed.map_err(|error| not_finished(out, error))?;
        if finished.path != out {
            let (named, path) = (out.display(), finished.path.display());
            note(format!("{named} was made by another program meanwhile, so this recording is {path}"));
        }
        if !finished.incomplete.is_empty() {
            let missing: Vec<String> = finished.incomplete.iter().map(ToString::to_string).collect();
            return Err(RecordError::DiskFull { out: finished.path, missing: missing.join(", ") });
        }
        Ok(finished)
    }

    fn sink(&mut self) -> &mut dyn RowSink {
        match self {
            Out::Plain(writer) => writer.as_mut(),
            Out::Redacted(redactor, _) => redactor.as_mut(),
        }
    }
}

impl RowSink for Out {
    forward_rows!(
        sink(): began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
    );
}

/// The error for a row that could not be written.
pub(crate) fn not_written(out: &Path, source: io::Error) -> RecordError {
    match source.downcast::<RecordingError>() {
        Ok(error) => not_finished(out, error),
        Err(source) => RecordError::Write { out: out.to_owned(), source },
    }
}

/// The error for a recording that could not be finished. The path in the system's error is of a file that is removed with
/// the recording.
fn not_finished(out: &Path, error: RecordingError) -> RecordError {
    match error {
        RecordingError::Io { source, .. } => RecordError::Write { out: out.to_owned(), source },
        other => other.into(),
    }
}
