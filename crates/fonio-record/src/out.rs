//! Writes a recording, with names or with tokens instead of them.

use std::io;

use fonio_core::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Meta, Request, RowSink, Sample, Thread, Timestamp,
    Wait,
};
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

/// Passes rows of each kind on.
macro_rules! pass_on {
    ($($method:ident: $row:ty),+ $(,)?) => {$(
        fn $method(&mut self, row: $row) -> io::Result<()> {
            self.sink().$method(row)
        }
    )+};
}

impl RowSink for Out {
    pass_on! {
        began: Timestamp,
        request: &Request,
        bio: &Bio,
        link: &Link,
        call: &Call,
        wait: &Wait,
        blocked_count: &BlockedCount,
        file: &File,
        thread: &Thread,
        sample: &Sample,
        mark: &Mark,
        diagnostic: &Diagnostic,
        settled: Timestamp,
    }
}
