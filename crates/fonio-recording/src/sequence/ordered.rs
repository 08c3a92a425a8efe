//! Sorts requests and bios and interleaves them by time, for the sequencer and the writer.

use std::io;
use std::path::Path;

use fonio_core::{Bio, Diagnostic, Request, RowSink, Severity, Timestamp};

use super::{Sequence, Sequenced};

pub(crate) struct Ordered {
    requests: Sequence<Request>,
    bios: Sequence<Bio>,
    /// The time of the producer's last settled mark.
    settled: Timestamp,
    /// All rows before this time have been emitted, and the sink has received this time as its settled mark.
    given: Timestamp,
    /// Number of rows with a time before the settled mark at their arrival, and a description of the first
    /// such row.
    late: u64,
    first_late: Option<String>,
}

impl Ordered {
    /// Creates both sequences as in [`Sequence::new`]; `rows_in_memory` applies to each of them.
    pub(crate) fn new(rows_in_memory: usize, spill_dir: &Path) -> Ordered {
        Ordered {
            requests: Sequence::new(rows_in_memory, spill_dir),
            bios: Sequence::new(rows_in_memory, spill_dir),
            settled: Timestamp(0),
            given: Timestamp(0),
            late: 0,
            first_late: None,
        }
    }

    #[inline]
    pub(crate) fn request(&mut self, row: &Request, sink: &mut dyn RowSink) -> io::Result<()> {
        if self.is_late(row) {
            return Ok(());
        }
        self.requests.push(row);
        if self.requests.look_is_due() { self.give(Some(self.settled), sink) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn bio(&mut self, row: &Bio, sink: &mut dyn RowSink) -> io::Result<()> {
        if self.is_late(row) {
            return Ok(());
        }
        self.bios.push(row);
        if self.bios.look_is_due() { self.give(Some(self.settled), sink) } else { Ok(()) }
    }

    /// Stores the mark, but emits no rows yet. About a thousand rows are emitted at a time, regardless of the
    /// number of marks.
    #[inline]
    pub(crate) fn settled(&mut self, before: Timestamp) {
        self.settled = self.settled.max(before);
    }

    pub(crate) fn finish(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        if let Some(first) = self.first_late.take() {
            sink.diagnostic(&Diagnostic {
                severity: Severity::Warning,
                code: "row-too-late".to_owned(),
                message: format!("{first}; such rows occur in damaged traces and are left out."),
                file: None,
                record: None,
                offset: None,
                count: self.late,
            })?;
        }
        self.give(None, sink)
    }

    /// Returns whether the row is earlier than the producer's settled mark. The result depends only on the
    /// mark and not on the emitted rows. Therefore, a report and an import leave out the same rows.
    #[inline]
    fn is_late<T: Sequenced>(&mut self, row: &T) -> bool {
        let (time, id) = row.key();
        if time < self.settled.0 {
            self.note_late(T::NAME, time, id);
            return true;
        }
        false
    }

    #[cold]
    fn note_late(&mut self, name: &str, time: u64, id: u64) {
        self.late += 1;
        let settled = self.settled.0;
        self.first_late.get_or_insert_with(|| {
            format!("{name} {id} at {time} ns came after the settled mark {settled} ns")
        });
    }

    /// Emits the rows before the mark, or all rows if there is no mark. At equal times, bios come first,
    /// because a request consists of bios.
    fn give(&mut self, mark: Option<Timestamp>, sink: &mut dyn RowSink) -> io::Result<()> {
        if mark != Some(self.given) {
            self.requests.look();
            self.bios.look();
            let before = |key: super::Key| mark.is_none_or(|mark| key.0 < mark.0);
            let mut next_bio = self.bios.head().filter(|key| before(*key));
            while let Some(request) = self.requests.head().filter(|key| before(*key)) {
                while let Some(bio) = next_bio
                    && bio.0 <= request.0
                {
                    sink.bio(self.bios.pop()?)?;
                    next_bio = self.bios.head().filter(|key| before(*key));
                }
                sink.request(self.requests.pop()?)?;
            }
            while next_bio.is_some() {
                sink.bio(self.bios.pop()?)?;
                next_bio = self.bios.head().filter(|key| before(*key));
            }
            if let Some(mark) = mark {
                self.given = mark;
                sink.settled(mark)?;
            }
        }
        self.requests.end_look()?;
        self.bios.end_look()
    }
}
