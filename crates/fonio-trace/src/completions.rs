//! Makes requests of a trace that has only completions, such as the output of `blktrace -a complete`.
//!
//! A completion without an issue is left out by the assembler, because its issue is probably before the trace.
//! But if the trace has no other events, each completion is a request of which the place, the size and the end
//! are known.

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, DeviceId, Diagnostic, EventKind, Op, Request, Severity, TraceReader};

/// Minimum number of completions at the start of a trace without other events.
const COMPLETIONS_MIN: usize = 100;

/// A reader of a trace that may have only completions.
pub(crate) struct Completions {
    inner: Box<dyn TraceReader>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No event was read.
    Unknown,
    /// There were only completions.
    Only,
    /// There are other events.
    Paired,
}

impl Completions {
    /// Wraps a reader of events.
    pub fn new(inner: Box<dyn TraceReader>) -> Completions {
        Completions { inner, state: State::Unknown }
    }

    fn report(&self, batch: &mut Batch, severity: Severity, code: &str, message: &str) {
        batch.diagnostics.push(Diagnostic {
            severity,
            code: code.to_owned(),
            message: message.to_owned(),
            file: self.inner.source().files.first().cloned(),
            record: None,
            offset: None,
            count: 1,
        });
    }
}

impl TraceReader for Completions {
    fn next_batch(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let more = self.inner.next_batch(batch)?;
        if self.state == State::Paired || batch.events.is_empty() {
            return Ok(more);
        }
        if batch.events.iter().any(|event| event.kind != EventKind::Complete) {
            if self.state == State::Only {
                self.report(
                    batch,
                    Severity::Warning,
                    "late-issues",
                    "The trace began with many completions and no issues, so they were taken as requests without latency; \
                     issues follow.",
                );
            }
            self.state = State::Paired;
            return Ok(more);
        }
        if self.state == State::Unknown {
            if more && batch.events.len() < COMPLETIONS_MIN {
                self.state = State::Paired;
                return Ok(more);
            }
            self.state = State::Only;
            self.report(
                batch,
                Severity::Warning,
                "only-completions",
                "The trace has only completions, so no latency and no queue is known. Record issues, too: \
                 `blktrace -a issue -a complete -a queue`, or the event `block_rq_issue`.",
            );
        }
        batch.requests.extend(batch.events.drain(..).map(|event| {
            let mut request = Request::new(event.device, event.op, event.bytes);
            (request.flags, request.flags_known) = (event.flags, event.flags_known);
            request.sector = Some(event.sector).filter(|_| event.op != Op::Flush || event.bytes.0 > 0);
            request.completed = Some(event.time);
            request.error = event.error;
            request.ioprio = event.ioprio;
            request
        }));
        Ok(more)
    }

    fn source(&self) -> Source {
        self.inner.source()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn may_show_waits(&self) -> bool {
        self.inner.may_show_waits()
    }

    fn device_names(&self) -> Vec<(DeviceId, String)> {
        self.inner.device_names()
    }
}
