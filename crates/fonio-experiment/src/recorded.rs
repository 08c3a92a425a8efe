//! Records a user's command, and ends the command if this process ends.

use std::collections::BTreeSet;

use fonio_host::Step;
use fonio_record::{Progress, RecordOptions, RecordSummary, StopReason, record};
use fonio_system::{ProcessId, say};

use crate::error::ExperimentError;
use crate::test_bed::TestBed;

/// The notes that have been shown. Each note is shown only once, although every recording repeats it.
#[derive(Default)]
pub(crate) struct Notes(BTreeSet<String>);

impl Notes {
    pub(crate) fn print(&mut self, note: &str) {
        if self.is_new(note) {
            say!("note: {note}");
        }
    }

    /// Adds a note, and returns whether it is new.
    pub(crate) fn is_new(&mut self, note: &str) -> bool {
        self.0.insert(note.to_owned())
    }
}

/// Records a command. While the command runs, the ledger has an entry for its process.
pub(crate) fn record_command(
    bed: &mut TestBed,
    options: &RecordOptions,
    notes: &mut Notes,
) -> Result<RecordSummary, ExperimentError> {
    let mut entry = None;
    let summary = record(options, &mut |progress| match progress {
        Progress::Note(note) => notes.print(note),
        Progress::CommandStarted { pid } => {
            // A command that has already ended needs no ledger entry. If the ledger cannot be written, the
            // next step fails.
            entry = ProcessId::of(pid)
                .and_then(|id| bed.ledger().begin(Step::Process { id, leads_group: true }).ok());
        }
        _ => {}
    })?;
    if let Some(entry) = entry {
        bed.ledger().end(entry)?;
    }
    if matches!(summary.stopped_by, StopReason::Interrupted | StopReason::Terminated) {
        return Err(ExperimentError::Interrupted);
    }
    Ok(summary)
}
