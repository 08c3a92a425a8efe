//! Writes a recording, either with names or with tokens that replace the names.

use std::io;
use std::path::Path;

use fonio_core::{Meta, RowSink, forward_rows};
use fonio_recording::{
    FinishedRecording, Key, RecordingError, Redactor, Room, Writer, WriterOptions, redacted_meta,
};

use fonio_system::Caller;

use crate::error::RecordError;
use crate::options::RecordOptions;

/// Writes a recording. Names that must be redacted never reach a disk.
pub(crate) enum RecordingWriter {
    Plain(Box<Writer>),
    Redacted(Box<Redactor<Writer>>, Key),
}

impl RecordingWriter {
    /// Begins a recording in the `room` that was held for it. If the disk becomes full, keeps the rows that fit:
    /// the capture cannot be repeated.
    pub(crate) fn create(options: &RecordOptions, room: Room) -> Result<RecordingWriter, RecordError> {
        let settings = WriterOptions {
            overwrite: options.overwrite,
            keep_what_fits: true,
            room: Some(room),
            other_name_if_taken: true,
            owner: Caller::through_sudo().map(|caller| (caller.user, caller.group)),
            ..WriterOptions::default()
        };
        let writer =
            Writer::create(&options.out, settings).map_err(|error| not_finished(&options.out, error))?;
        Ok(match &options.redact {
            None => RecordingWriter::Plain(Box::new(writer)),
            Some(key) => RecordingWriter::Redacted(Box::new(Redactor::new(key, writer)), key.clone()),
        })
    }

    /// Finishes the recording. Calls `note` if the recording's path is not `out`.
    pub(crate) fn install(
        self,
        meta: Meta,
        out: &Path,
        note: &mut dyn FnMut(String),
    ) -> Result<FinishedRecording, RecordError> {
        let installed = match self {
            RecordingWriter::Plain(writer) => writer.install(meta),
            RecordingWriter::Redacted(redactor, key) => {
                redactor.into_inner().install(redacted_meta(&key, &meta))
            }
        };
        let finished = installed.map_err(|error| not_finished(out, error))?;
        if finished.path != out {
            let (named, path) = (out.display(), finished.path.display());
            note(format!("another program has created {named}, so this recording is {path}"));
        }
        if !finished.incomplete.is_empty() {
            let missing: Vec<String> = finished.incomplete.iter().map(ToString::to_string).collect();
            return Err(RecordError::DiskFull { out: finished.path, missing: missing.join(", ") });
        }
        Ok(finished)
    }

    fn sink(&mut self) -> &mut dyn RowSink {
        match self {
            RecordingWriter::Plain(writer) => writer.as_mut(),
            RecordingWriter::Redacted(redactor, _) => redactor.as_mut(),
        }
    }
}

impl RowSink for RecordingWriter {
    forward_rows!(
        sink(): began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
    );
}

/// Returns the error for a row that could not be written.
pub(crate) fn not_written(out: &Path, source: io::Error) -> RecordError {
    match source.downcast::<RecordingError>() {
        Ok(error) => not_finished(out, error),
        Err(source) => RecordError::Write { out: out.to_owned(), source },
    }
}

/// Returns the error for a recording that could not be finished. The file that the system's error names is
/// removed together with the recording.
fn not_finished(out: &Path, error: RecordingError) -> RecordError {
    match error {
        RecordingError::Io { source, .. } => RecordError::Write { out: out.to_owned(), source },
        other => other.into(),
    }
}

/// Checks before the capture that the recording can be written afterwards, and holds room for it.
pub(crate) fn hold_place(out: &Path, overwrite: bool) -> Result<Room, RecordError> {
    let is_empty = |dir: &Path| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if !overwrite && out.symlink_metadata().is_ok() && !is_empty(out) {
        return Err(RecordingError::Exists { path: out.to_owned() }.into());
    }
    let parent = match out.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(parent, access)
        .map_err(|errno| RecordError::Write { out: out.to_owned(), source: errno.into() })?;
    Room::hold(parent).map_err(|error| not_finished(out, error))
}
