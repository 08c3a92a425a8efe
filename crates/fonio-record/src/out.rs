//! Writes a recording, with names or with tokens in their place.

use fonio_core::{Meta, RowSink, forward_rows};
use fonio_recording::{Finished, Key, RecordingError, Redactor, Writer, redacted_meta};

/// The writer of a recording. Names that are to be redacted never reach a disk.
pub(crate) enum Out {
    Plain(Box<Writer>),
    Redacted(Box<Redactor<Writer>>, Key),
}

impl Out {
    pub(crate) fn new(writer: Writer, key: Option<&Key>) -> Out {
        match key {
            None => Out::Plain(Box::new(writer)),
            Some(key) => Out::Redacted(Box::new(Redactor::new(key, writer)), key.clone()),
        }
    }

    /// Finishes the recording.
    pub(crate) fn install(self, meta: Meta) -> Result<Finished, RecordingError> {
        match self {
            Out::Plain(writer) => writer.install(meta),
            Out::Redacted(redactor, key) => redactor.into_inner().install(redacted_meta(&key, &meta)),
        }
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
