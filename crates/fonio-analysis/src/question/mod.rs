//! The parts that every question of the analysis has: its tally, the rows that the tally takes, and its figures.

pub(crate) mod context;
pub(crate) mod flush;
pub(crate) mod loss;
pub(crate) mod mix;
pub(crate) mod options;
pub(crate) mod ratio;
pub(crate) mod seen;
pub(crate) mod span;
pub(crate) mod threads;

use fonio_core::{
    BlockedCount, Call, Diagnostic, File, Mark, Request, Sample, Statement, Thread, Timestamp, Wait,
};

use crate::figures::facts::{Facts, Frame};
use context::{Context, Ending};
use options::AnalysisOptions;
use seen::Seen;

/// A question: takes rows, and gives its answer at the end.
///
/// The file of a question has its tally, which implements this trait, its answer, which is plain data with a JSON schema,
/// and its figures. One line in the table in `analyser/questions.rs` registers it. All questions take each row, in no
/// particular order. Values that several questions need are in [`Seen`] and [`Context`].
pub(crate) trait Question: Default {
    /// The answer, a field of the analysis.
    type Answer;

    /// A tally without any rows.
    fn with(_options: &AnalysisOptions) -> Self {
        Self::default()
    }

    /// Sets the start of the span, if the producer states it; comes before any other row.
    fn begin_at(&mut self, _began: Timestamp) {}

    /// Takes a request; requests come in table order, after all other rows.
    fn request(&mut self, _row: &Request, _seen: &Seen) {}

    /// Takes a wait.
    fn wait(&mut self, _row: &Wait, _context: &mut Context) {}

    /// Takes a wait that the filter leaves out.
    fn wait_left_out(&mut self, _row: &Wait, _context: &mut Context) {}

    /// Takes a count of short waits.
    fn blocked_count(&mut self, _row: &BlockedCount, _context: &mut Context) {}

    /// Takes a thread.
    fn thread(&mut self, _row: &Thread) {}

    /// Takes a file.
    fn file(&mut self, _row: &File) {}

    /// Takes a file-system call.
    fn call(&mut self, _row: &Call) {}

    /// Takes consecutive steps of an SQL statement.
    fn statement(&mut self, _row: &Statement) {}

    /// Takes a mark.
    fn mark(&mut self, _row: &Mark) {}

    /// Takes a sample of the machine.
    fn sample(&mut self, _row: &Sample) {}

    /// Takes an error in the input.
    fn diagnostic(&mut self, _row: &Diagnostic) {}

    /// Gives the answer.
    fn finish(self, end: &mut Ending) -> Self::Answer;

    /// Adds the figures and words of the answer.
    fn figures(_answer: &Self::Answer, _frame: &Frame, _facts: &mut Facts) {}
}
