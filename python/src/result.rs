//! The result of a simulation.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fonio_core::RowSink;
use fonio_recording::{BatchSink, Table};
use fonio_sim::engine::Done;
use fonio_sim::simulation::{Ran, State, Summary, row};
use pyo3::prelude::*;

use crate::stream::Stream;

/// Number of requests in a batch of the table of requests.
const BATCH_ROWS: usize = 8192;

/// The result of a simulation. `fonio.Simulation` is around it.
#[pyclass(frozen, module = "fonio._fonio")]
pub struct Simulation {
    ran: Arc<Ran>,
    /// The settings and numbers of the run, as JSON.
    summary: String,
}

impl Simulation {
    pub fn new(ran: Ran, summary: &Summary) -> Simulation {
        Simulation { ran: Arc::new(ran), summary: json(summary) }
    }
}

#[pymethods]
impl Simulation {
    /// Returns the requests with their times, as the table `requests` of a recording.
    fn requests(&self) -> Stream {
        let ran = Arc::clone(&self.ran);
        Stream::new(Table::Requests.schema(), move || {
            let ran = Arc::clone(&ran);
            let starts = (0..ran.done.len()).step_by(BATCH_ROWS);
            let batches = starts.map(move |start| {
                let end = (start + BATCH_ROWS).min(ran.done.len());
                batch(start, &ran.done[start..end])
            });
            Ok(reader(batches, &Table::Requests.schema()))
        })
    }

    /// Returns the state of the device over time.
    fn states(&self) -> Stream {
        type Get = fn(&State) -> Option<u64>;
        let columns: [(&str, Get); 9] = [
            ("time_ns", |state| Some(state.time_ns)),
            ("completed", |state| Some(state.completed)),
            ("host_written_bytes", |state| Some(state.counters.host_written.0)),
            ("host_read_bytes", |state| Some(state.counters.host_read.0)),
            ("programmed_bytes", |state| Some(state.counters.programmed.0)),
            ("erases", |state| Some(state.counters.erases)),
            ("pages_copied", |state| Some(state.counters.pages_copied)),
            ("busy_ns", |state| Some(state.counters.busy.0)),
            ("free_blocks", |state| state.census.map(|census| u64::from(census.free))),
        ];
        let states = &self.ran.states;
        let column =
            |get: Get| Int64Array::from_iter(states.iter().map(|state| get(state).map(|value| value as i64)));
        in_memory(columns.map(|(name, get)| (name, column(get))).into())
    }

    /// Returns the number of erasures of each erase block.
    fn wear(&self) -> Stream {
        let counts = &self.ran.erase_counts;
        let blocks = Int64Array::from_iter_values(0..counts.len() as i64);
        let erases = Int64Array::from_iter_values(counts.iter().map(|count| i64::from(*count)));
        in_memory(vec![("block", blocks), ("erases", erases)])
    }

    /// Returns the settings, the counters and the percentiles as JSON.
    fn summary(&self) -> &str {
        &self.summary
    }
}

/// Returns the numbers of a run as JSON.
pub fn json(summary: &Summary) -> String {
    serde_json::to_string(summary).expect("numbers are JSON")
}

/// Returns a batch of the table of requests. `start` is the row of its first request.
fn batch(start: usize, done: &[Done]) -> Result<RecordBatch, ArrowError> {
    let mut made = None;
    let mut sink = BatchSink::new(Table::Requests, |batch| {
        assert!(made.replace(batch).is_none(), "the rows are one batch");
        Ok(())
    });
    for (number, done) in (start as u64..).zip(done) {
        sink.request(&row(number, done))?;
    }
    sink.finish()?;
    Ok(made.expect("there are rows"))
}

fn in_memory(columns: Vec<(&'static str, Int64Array)>) -> Stream {
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| Arc::new(array) as ArrayRef).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("the columns match the schema");
    Stream::new(Arc::clone(&schema), move || Ok(reader(std::iter::once(Ok(batch.clone())), &schema)))
}

fn reader(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    schema: &Arc<Schema>,
) -> Box<dyn RecordBatchReader + Send> {
    Box::new(RecordBatchIterator::new(batches, Arc::clone(schema)))
}
