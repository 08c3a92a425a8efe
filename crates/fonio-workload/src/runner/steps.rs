//! Executes the planned steps of a thread.

use super::worker::{Asleep, Done, Worker};
use super::{sql, work};
use crate::clock::monotonic_ns;
use crate::definition::Step;
use crate::error::WorkloadError;
use crate::scale::{Planned, due, scaled};

impl Worker<'_, '_> {
    /// Executes a thread's planned steps, and closes its database connections.
    ///
    /// If the run continues until it is stopped, a stop is not an error. An open transaction is then rolled back.
    pub(super) fn run(mut self, plan: &[Planned<'_>]) -> Result<Done, WorkloadError> {
        let before = self.clock.read();
        match self.steps(plan, 0) {
            Err(WorkloadError::Stopped) if self.shared.ends_when_stopped => {}
            ran => ran?,
        }
        for (name, connection) in std::mem::take(&mut self.connections) {
            sql::close(self.shared.runner, &name, connection)?;
        }
        let whole = before.and_then(|before| self.times_since(&before, &Asleep::default()));
        Ok(Done { amounts: self.amounts, times: self.times, whole, spans: self.spans })
    }

    /// Executes planned steps. `round` counts the rounds of all enclosing repeats since the run's start.
    fn steps(&mut self, plan: &[Planned<'_>], round: u64) -> Result<(), WorkloadError> {
        for planned in plan {
            if self.shared.must_stop() {
                return Err(WorkloadError::Stopped);
            }
            self.index = planned.index;
            match planned.step {
                Step::Repeat { mark, every, .. } => {
                    let mut timer = every.map(|seconds| self.timer(seconds));
                    for time in 0..planned.times {
                        let round = round * planned.times + time;
                        if let Some(timer) = &mut timer {
                            self.wait_for(timer)?;
                        }
                        let before = mark.is_some().then(|| (self.clock.read(), self.asleep));
                        let start_ns = monotonic_ns();
                        self.steps(&planned.inner, round)?;
                        self.ended(planned, start_ns);
                        if let (Some(mark), Some(before)) = (mark, before) {
                            self.marked(mark, round, start_ns, before);
                        }
                    }
                }
                Step::Transaction { database, .. } => {
                    for time in 0..planned.times {
                        let start_ns = monotonic_ns();
                        sql::begin(self, database)?;
                        self.steps(&planned.inner, round * planned.times + time)?;
                        sql::commit(self, database)?;
                        self.ended(planned, start_ns);
                    }
                }
                step => {
                    let count = due(planned.total, planned.rounds, round);
                    self.key = format!("{}/{} ({})", self.label, planned.key, step.kind());
                    self.leaf(step, count)?;
                    self.shared.did(count);
                }
            }
        }
        Ok(())
    }

    fn leaf(&mut self, step: &Step, count: u64) -> Result<(), WorkloadError> {
        match step {
            Step::Repeat { .. } | Step::Transaction { .. } => unreachable!("they have steps inside"),
            Step::Write { files, size, request, sync, .. } => {
                self.each(count, |worker| worker.write(files, size, *request, *sync))
            }
            Step::Append { files, size, sync, direct, .. } => self.append(files, count, size, *sync, *direct),
            Step::Overwrite { files, size, order, sync, direct, .. } => {
                self.overwrite(files, count, size, *order, *sync, *direct)
            }
            Step::Read { files, size, order, direct, .. } => self.read(files, count, *size, *order, *direct),
            Step::Replace { files, size, sync, .. } => {
                self.each(count, |worker| worker.replace(files, size, *sync))
            }
            Step::Rename { files, to, .. } => self.each(count, |worker| worker.rename(files, to)),
            Step::Delete { files, keep: None, .. } => self.each(count, |worker| worker.delete(files)),
            Step::Delete { files, keep: Some(keep), .. } => {
                let keep = scaled(*keep, self.shared.runner.options.scale);
                self.each(count, |worker| worker.trim(files, keep))
            }
            Step::Evict { files } => self.evict(files),
            Step::Sql { database, statement, params, batch, .. } => {
                sql::statements(self, database, statement, params, count, *batch)
            }
            Step::Get { size, content, send, store, request, sync, .. } => self.each(count, |worker| {
                worker.get(size, *content, send.as_ref())?;
                match store {
                    Some(files) => worker.store(files, *request, *sync),
                    None => Ok(()),
                }
            }),
            Step::Think { seconds } => self.each(count, |worker| worker.pause(*seconds)),
            Step::Work { kind, bytes, .. } => self.each(count, |worker| work::work(worker, *kind, *bytes)),
            Step::Replay { trace, place } => self.each(count, |worker| {
                let runner = worker.shared.runner;
                let done = runner.traces[trace].run(runner, place, &|| worker.shared.must_stop())?;
                worker.amounts += done;
                Ok(())
            }),
        }
    }
}
