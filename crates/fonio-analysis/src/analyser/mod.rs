//! Provides the analyser, which takes rows, answers each question, and returns the analysis.

mod left_out;
pub(crate) mod questions;

use std::io;

use fonio_core::{
    BlockedCount, Call, Diagnostic, File, Mark, Meta, Nanos, Request, RowSink, Sample, Statement, Thread,
    Timestamp, Wait, ignore_rows,
};

use crate::question::Row;
use crate::question::context::Context;
use crate::question::options::AnalysisOptions;
use crate::question::span::{Span, SpanSource};
use crate::verdict::findings;
use left_out::LeftOut;
pub use questions::Analysis;
use questions::Questions;

/// Version of the JSON schema of an [`Analysis`].
pub const ANALYSIS_VERSION: u32 = 2;

/// Collects the rows of a recording and returns an [`Analysis`].
#[derive(Debug)]
pub struct Analyser {
    options: AnalysisOptions,
    context: Context,
    questions: Questions,
    /// Start and end of the workload's phases, from the first phase to the last.
    phases: Option<(Timestamp, Timestamp)>,
    left_out: LeftOut,
}

impl Analyser {
    /// Creates an analyser that has not seen any rows.
    pub fn new(options: AnalysisOptions) -> Analyser {
        Analyser {
            context: Context::new(&options),
            questions: Questions::with(&options),
            phases: None,
            left_out: LeftOut::default(),
            options,
        }
    }

    /// Finishes and returns the analysis of all rows.
    ///
    /// # Panics
    /// If the embedded rules cannot be parsed; a test checks that this does not happen.
    pub fn finish(mut self, meta: &Meta) -> Analysis {
        for diagnostic in self.left_out.diagnostics() {
            self.questions.row(Row::Diagnostic(&diagnostic), &mut self.context);
        }
        let mut end = self.context.end(meta);
        let answers = self.questions.finish(&mut end);
        let phases = self.phases.map(|(from, until)| until - from);
        let worked = answers.launch.as_ref().map(|launch| launch.duration_ns).or(phases);
        let is_complete = self.options.filter.is_none();
        let mut analysis = Analysis {
            analysis_version: ANALYSIS_VERSION,
            devices: end.context.devices(meta),
            run_time_ns: run_time(meta, &end.span, worked).filter(|_| is_complete),
            has_command: meta.command.is_some(),
            command_cpu_ns: (meta.command_user_ns.zip(meta.command_system_ns))
                .map(|(user, system)| Nanos(user.saturating_add(system))),
            span: end.span,
            filter: self.options.filter,
            ..answers
        };
        findings::judge(&mut analysis);
        analysis
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        self.questions.row(row, &mut self.context);
        Ok(())
    }
}

/// Returns the run time of the recorded command. `worked` is the duration of the recording's launch or
/// phases, if these were recorded.
fn run_time(meta: &Meta, span: &Span, worked: Option<Nanos>) -> Option<Nanos> {
    meta.command.as_ref()?;
    let recorded =
        (meta.command_exit == Some(0) && span.source == SpanSource::Recording).then_some(span.duration_ns);
    worked.or(recorded).filter(|time| *time > Nanos(0))
}

impl RowSink for Analyser {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        let began = self.context.begin_at(at);
        self.questions.begin_at(began);
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        if !self.context.has_room_for(row.device) {
            self.left_out.requests += 1;
            return Ok(());
        }
        let seen = self.context.see(row);
        self.questions.request(row, &seen);
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        let longest = [&row.comm, &row.cgroup, &row.unit].into_iter().flatten().map(String::len).max();
        let cut = self.left_out.shorten(
            row,
            |row| [row.comm.as_mut(), row.cgroup.as_mut(), row.unit.as_mut()],
            longest.unwrap_or(0),
        );
        let row = cut.as_ref().unwrap_or(row);
        self.context.threads.add(row);
        self.row(Row::Thread(row))
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        let cut = self.left_out.cut(row);
        let row = cut.as_ref().unwrap_or(row);
        self.left_out.files += u64::from(!self.context.files.add(row));
        self.row(Row::File(row))
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        let cut = self.left_out.shorten(row, |row| [Some(&mut row.name)], row.name.len());
        let row = cut.as_ref().unwrap_or(row);
        if let (None, Some(until)) = (row.tid, row.until) {
            let (from, last) = self.phases.unwrap_or((row.at, until));
            self.phases = Some((from.min(row.at), last.max(until)));
        }
        self.row(Row::Mark(row))
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        let longest = row.function.as_ref().map_or(0, String::len);
        let cut = self.left_out.shorten(row, |row| [row.function.as_mut()], longest);
        self.row(Row::Wait(cut.as_ref().unwrap_or(row)))
    }

    fn wait_left_out(&mut self, row: &Wait) -> io::Result<()> {
        self.row(Row::WaitLeftOut(row))
    }

    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
        self.row(Row::BlockedCount(row))
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        let longest = row.subject.as_ref().map_or(0, String::len);
        let cut = self.left_out.shorten(row, |row| [row.subject.as_mut()], longest);
        self.row(Row::Sample(cut.as_ref().unwrap_or(row)))
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        let cut = self.left_out.shorten(row, |row| [Some(&mut row.name)], row.name.len());
        self.row(Row::Call(cut.as_ref().unwrap_or(row)))
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        let longest = row.text.as_ref().map_or(0, String::len);
        let cut = self.left_out.shorten(row, |row| [row.text.as_mut()], longest);
        self.row(Row::Statement(cut.as_ref().unwrap_or(row)))
    }

    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        self.row(Row::Diagnostic(row))
    }

    ignore_rows!(bio, link, settled);

    fn wants_bios(&self) -> bool {
        false
    }
}

#[cfg(test)]
pub(crate) mod tests;
