//! The result of a simulation.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fonio_core::{DeviceId, Flags, Op, Request, RowSink, Timestamp};
use fonio_recording::{BatchSink, Table};
use fonio_sim::device::Counters;
use fonio_sim::engine::Done;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::model::{Ran, State};
use crate::stream::Stream;

/// Number of requests in a batch of the table of requests.
const BATCH_ROWS: usize = 8192;

/// The result of a simulation. `fonio.Simulation` is around it.
#[pyclass(frozen, module = "fonio._fonio")]
pub struct Simulation {
    ran: Arc<Ran>,
    /// The settings of the run.
    settings: Value,
}

impl Simulation {
    pub fn new(ran: Ran, settings: Value) -> Simulation {
        Simulation { ran: Arc::new(ran), settings }
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
    fn summary(&self) -> String {
        summary(&self.ran, &self.settings).to_string()
    }
}

/// Returns the numbers of a run with its settings.
pub fn summary(ran: &Ran, settings: &Value) -> Value {
    let Counters { host_written, host_read, programmed, .. } = ran.counters;
    let ratio = (host_written.0 > 0).then(|| programmed.0 as f64 / host_written.0 as f64);
    let erased = &ran.erase_counts;
    let wear = (!erased.is_empty()).then(|| {
        let sum: u64 = erased.iter().map(|count| u64::from(*count)).sum();
        json!({
            "blocks": erased.len(),
            "min": erased.iter().min(),
            "max": erased.iter().max(),
            "mean": sum as f64 / erased.len() as f64,
        })
    });
    let first = ran.done.iter().map(|done| done.queued.0).min();
    let last = ran.done.iter().map(|done| done.completed.0).max();
    let mut by_op: BTreeMap<&str, Vec<&Done>> = BTreeMap::new();
    for done in &ran.done {
        by_op.entry(done.request.op.name()).or_default().push(done);
    }
    let ops: BTreeMap<&str, Value> = by_op.iter().map(|(op, done)| (*op, of_op(done))).collect();
    json!({
        "settings": settings,
        "requests": ran.done.len(),
        "span_ns": first.zip(last).map(|(first, last)| last - first),
        "ops": ops,
        "write_amplification": ratio,
        "counters": {
            "host_written_bytes": host_written.0,
            "host_read_bytes": host_read.0,
            "programmed_bytes": programmed.0,
            "erases": ran.counters.erases,
            "switch_merges": ran.counters.switch_merges,
            "partial_merges": ran.counters.partial_merges,
            "full_merges": ran.counters.full_merges,
            "pages_copied": ran.counters.pages_copied,
            "busy_ns": ran.counters.busy.0,
        },
        "blocks": ran.census.map(|census| json!({
            "total": census.total, "free": census.free, "data": census.data, "log": census.log,
        })),
        "wear": wear,
    })
}

fn of_op(done: &[&Done]) -> Value {
    let times = |time: fn(&Done) -> u64| distribution(done.iter().map(|done| time(done)).collect());
    json!({
        "count": done.len(),
        "bytes": done.iter().map(|done| done.request.bytes.0).sum::<u64>(),
        "response": times(|done| done.completed.0 - done.queued.0),
        "service": times(|done| done.completed.0 - done.issued.0),
        "queue": times(|done| done.issued.0 - done.queued.0),
    })
}

/// Returns the exact percentiles of times in nanoseconds: the smallest value that is not below the given share.
fn distribution(mut times: Vec<u64>) -> Value {
    times.sort_unstable();
    let at = |thousandths: usize| times[(times.len() * thousandths).div_ceil(1000).max(1) - 1];
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    json!({
        "mean_ns": sum as f64 / times.len() as f64,
        "min_ns": times[0],
        "p50_ns": at(500),
        "p90_ns": at(900),
        "p95_ns": at(950),
        "p99_ns": at(990),
        "p999_ns": at(999),
        "max_ns": at(1000),
    })
}

/// Returns a batch of the table of requests. `start` is the row of its first request.
fn batch(start: usize, done: &[Done]) -> Result<RecordBatch, ArrowError> {
    let mut made = None;
    let mut sink = BatchSink::new(Table::Requests, |batch| {
        assert!(made.replace(batch).is_none(), "the rows are one batch");
        Ok(())
    });
    for (row, done) in (start..).zip(done) {
        sink.request(&request(row, done))?;
    }
    sink.finish()?;
    Ok(made.expect("there are rows"))
}

/// Returns a simulated request as a row of a recording.
fn request(row: usize, done: &Done) -> Request {
    let Done { request, queued, issued, completed } = *done;
    let is_sync_write = request.is_sync && request.op != Op::Read;
    Request {
        request_id: row as u64,
        flags: if is_sync_write { Flags::SYNC } else { Flags::NONE },
        flags_known: Flags::SYNC,
        sector: (request.op != Op::Flush).then_some(request.sector),
        queued: Some(Timestamp(queued.0)),
        issued: Some(Timestamp(issued.0)),
        completed: Some(Timestamp(completed.0)),
        tid: Some(request.process.0),
        error: Some(0),
        ..Request::new(DeviceId::default(), request.op, request.bytes)
    }
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
