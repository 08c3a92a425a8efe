//! The parts that every question of the analysis has: its tally, the rows that the tally takes, and its figures.

pub(crate) mod context;
pub(crate) mod flush;
pub(crate) mod loss;
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

/// A row that is not a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'r> {
    Wait(&'r Wait),
    /// A wait that the filter leaves out.
    WaitLeftOut(&'r Wait),
    BlockedCount(&'r BlockedCount),
    Thread(&'r Thread),
    File(&'r File),
    Call(&'r Call),
    Statement(&'r Statement),
    Mark(&'r Mark),
    Sample(&'r Sample),
    Diagnostic(&'r Diagnostic),
}

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

    /// Takes a row that is not a request.
    fn row(&mut self, _row: Row, _context: &mut Context) {}

    /// Gives the answer.
    fn finish(self, end: &mut Ending) -> Self::Answer;

    /// Adds the figures and words of the answer.
    fn figures(_answer: &Self::Answer, _frame: &Frame, _facts: &mut Facts) {}
}
