//! Defines the interface of a question: its tally, the rows that the tally takes, and its figures.

pub(crate) mod context;
pub(crate) mod ends;
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
    /// A wait that the filter drops.
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

/// A question, which takes rows and returns its answer at the end.
///
/// The file of each question defines a tally that implements this trait, an answer (plain data with a JSON
/// schema), and figures. A line in `analyser/questions.rs` registers the question. Each row is passed to all
/// questions, in no particular order. [`Seen`] and [`Context`] contain values that several questions need.
pub(crate) trait Question: Default {
    /// The question's answer, which becomes a field of the analysis.
    type Answer;

    /// Creates a tally that has not seen any rows.
    fn with(_options: &AnalysisOptions) -> Self {
        Self::default()
    }

    /// Sets the start of the span, if the producer states it. This function is called before any row is
    /// passed.
    fn begin_at(&mut self, _began: Timestamp) {}

    /// Takes a request; requests come in table order, after all other rows.
    fn request(&mut self, _row: &Request, _seen: &Seen) {}

    /// Takes a row of any table except requests.
    fn row(&mut self, _row: Row, _context: &mut Context) {}

    fn finish(self, end: &mut Ending) -> Self::Answer;

    fn figures(_answer: &Self::Answer, _frame: &Frame, _facts: &mut Facts) {}
}
