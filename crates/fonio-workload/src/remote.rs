//! A run in a process of its own: the parent writes a [`Spec`] as one line of JSON, the child answers with [`Event`]s, a
//! line each. After [`Event::Prepared`] the child waits for another line, so that the parent can drop caches and start a
//! recording in between.

use std::io::{BufRead, Write};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::definition::Workload;
use crate::error::WorkloadError;
use crate::observer::{Mark, Observer, Progress};
use crate::outcome::{Amounts, Outcome};
use crate::places::Places;
use crate::runner::{Options, Runner};

/// All that a run needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What to run.
    pub workload: Workload,
    /// Where.
    pub places: Places,
    /// How.
    pub options: Options,
}

/// What the child tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The initial state is there and written back; the child waits for a line.
    Prepared {
        /// What it took.
        amounts: Amounts,
    },
    /// A span has ended.
    Mark(Mark),
    /// How far the run has come.
    Progress(Progress),
    /// The run is over.
    Finished(Box<Outcome>),
    /// The run failed; nothing follows.
    Failed {
        /// The error and its causes.
        message: String,
    },
}

/// The child's side: reads a spec from `input`, runs it, tells `output`. A run that fails is told as
/// [`Event::Failed`].
///
/// # Errors
/// Only where `input` or `output` fail.
pub fn serve(mut input: impl BufRead, output: impl Write + Send) -> Result<(), WorkloadError> {
    let lines = Lines { output: Mutex::new(output) };
    let result = run(&mut input, &lines);
    let last = match result {
        Ok(outcome) => Event::Finished(Box::new(outcome)),
        Err(error @ WorkloadError::Protocol { .. }) => return Err(error),
        Err(error) => {
            let mut message = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(source) = cause {
                message.push_str(": ");
                message.push_str(&source.to_string());
                cause = source.source();
            }
            Event::Failed { message }
        }
    };
    lines.tell(&last)
}

fn run<W: Write + Send>(input: &mut impl BufRead, lines: &Lines<W>) -> Result<Outcome, WorkloadError> {
    let protocol = |source| WorkloadError::Protocol { source };
    let mut line = String::new();
    input.read_line(&mut line).map_err(protocol)?;
    let spec: Spec = serde_json::from_str(&line).map_err(|error| protocol(error.into()))?;
    let mut runner = Runner::new(&spec.workload, &spec.places, spec.options)?;
    let amounts = runner.prepare(&mut Told(lines))?;
    lines.tell(&Event::Prepared { amounts })?;
    line.clear();
    if input.read_line(&mut line).map_err(protocol)? == 0 {
        return Err(WorkloadError::Stopped);
    }
    runner.run(&mut Told(lines))
}

struct Lines<W> {
    output: Mutex<W>,
}

impl<W: Write> Lines<W> {
    fn tell(&self, event: &Event) -> Result<(), WorkloadError> {
        let mut line = serde_json::to_vec(event).expect("events hold only what JSON can hold");
        line.push(b'\n');
        let mut output = self.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        output
            .write_all(&line)
            .and_then(|()| output.flush())
            .map_err(|source| WorkloadError::Protocol { source })
    }
}

/// A parent that no longer listens is found out when the last event is told.
struct Told<'a, W>(&'a Lines<W>);

impl<W: Write + Send> Observer for Told<'_, W> {
    fn mark(&mut self, mark: &Mark) {
        let _ = self.0.tell(&Event::Mark(mark.clone()));
    }

    fn progress(&mut self, progress: &Progress) {
        let _ = self.0.tell(&Event::Progress(*progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Server;

    fn events(input: &str) -> Vec<Event> {
        let mut output = Vec::new();
        serve(input.as_bytes(), &mut output).unwrap();
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_run_can_be_driven_by_lines() {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut spec = Spec {
            workload: Workload::load("webbench").unwrap(),
            places: Places::under(directory.path()),
            options: Options { scale: 0.02, pace: 0.0, http: Some(server.address()), ..Options::default() },
        };
        let line = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&line).unwrap(), spec);
        let told = events(&format!("{line}\ngo\n"));
        assert!(matches!(
            told.iter().find(|event| !matches!(event, Event::Progress(_))),
            Some(Event::Prepared { .. })
        ));
        assert!(told.iter().any(|event| matches!(event, Event::Mark(mark) if mark.name == "page")));
        assert!(matches!(told.last(), Some(Event::Finished(outcome)) if outcome.amounts.transactions > 0));

        spec.options.scale = -1.0;
        let told = events(&format!("{}\ngo\n", serde_json::to_string(&spec).unwrap()));
        assert!(
            matches!(&told[..], [Event::Failed { message }] if message.contains("scale = -1")),
            "{told:?}"
        );
        assert!(matches!(serve(&b"no spec\n"[..], Vec::new()), Err(WorkloadError::Protocol { .. })));
    }
}
